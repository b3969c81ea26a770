/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the commands of the control socket.  A change of limits is checked like the
 * directives first.  Then it is made in the cgroups; if the kernel refuses it, the change
 * fails.  Last it is made in shared memory. */
#include <apr_strings.h>

#include "control/vl_command.h"
#include "config/vl_conf.h"
#include "control/vl_control_clients.h"
#include "control/vl_control_figures.h"
#include "control/vl_control_int.h"
#include "status/vl_modules.h"
#include "status/vl_status_int.h"

static server_rec *main_server;
static vl_shm_t *accounts;
static const vl_cgroup_t *groups;

void vl_control_answer_post_config(server_rec *s, vl_shm_t *shm,
                                   const vl_cgroup_t *cg)
{
    main_server = s;
    accounts = shm;
    groups = cg;
    vl_control_figures_post_config();
}

/* --- selecting the vhost -------------------------------------------------- */

static int has_site(const server_rec *s, const char *name)
{
    return !ap_cstr_casecmp(vl_conf_get(s)->site->name, name);
}

static int has_name(const server_rec *s, const char *name)
{
    return s->server_hostname && !ap_cstr_casecmp(s->server_hostname, name);
}

/* Returns a virtual host of the site with that name, or NULL. */
static const server_rec *find_by_site(const char *name)
{
    const server_rec *s;

    for (s = main_server; s; s = s->next) {
        if (has_site(s, name) && vl_conf_get(s)->mode != VL_MODE_OFF)
            return s;
    }
    return NULL;
}

/* Returns a virtual host with that ServerName, or NULL if there is none.  Sets *ret_error if
 * two sites have the name. */
static const server_rec *find_by_server_name(apr_pool_t *p, const char *name,
                                             const char **ret_error)
{
    const server_rec *s, *found = NULL;

    for (s = main_server; s; s = s->next) {
        const vl_conf_t *conf = vl_conf_get(s);

        if (conf->mode == VL_MODE_OFF || !has_name(s, name))
            continue;
        if (found && vl_conf_get(found)->account != conf->account)
            *ret_error = apr_psprintf(p, "'%s' is the name of %s and of %s: "
                                      "say which", name,
                                      vl_conf_get(found)->site->name,
                                      conf->site->name);
        found = s;
    }
    return found;
}

/* Returns the error message for a name that no site has. */
static const char *not_found(apr_pool_t *p, const char *name)
{
    const server_rec *s;

    for (s = main_server; s; s = s->next) {
        if (has_site(s, name) || has_name(s, name))
            return apr_psprintf(p, "'%s' has VhostLimit Off: nothing of it waits "
                                "or is refused here", name);
    }
    return apr_psprintf(p, "'%s' is no site that takes part", name);
}

/* Finds a virtual host by the name of its site as the status page shows it, or by a
 * ServerName that only one site has.  Returns NULL and sets *ret_error if there is none. */
static const server_rec *find_vhost(apr_pool_t *p, const char *name,
                                    const char **ret_error)
{
    const server_rec *found = find_by_site(name);

    if (!found)
        found = find_by_server_name(p, name, ret_error);
    if (!found)
        *ret_error = not_found(p, name);
    return *ret_error ? NULL : found;
}

/* Returns a virtual host at which the host of that name has an account, or NULL. */
static const server_rec *find_host(const char *name)
{
    const server_rec *s;
    apr_uint32_t account;

    for (s = main_server; s; s = s->next) {
        const vl_conf_t *conf = vl_conf_get(s);

        if (conf->mode != VL_MODE_OFF && conf->accounts.by == VL_ACCOUNTS_HOST
            && vl_hosts_lookup(accounts, conf->account, name, &account))
            return s;
    }
    return NULL;
}

/* --- changes -------------------------------------------------------------- */

/* Checks the values of the command and stores them in *change.  Returns NULL or an error
 * message. */
static const char *read_change(apr_pool_t *p, const vl_command_t *command,
                               vl_change_t *change)
{
    const char *wrong = NULL;
    vl_key_e key;

    memset(change, 0, sizeof(*change));
    if (command->verb == VL_COMMAND_RESET) {
        change->reset = command->keys ? command->keys : VL_KEY_ALL;
        return NULL;
    }
    change->set = command->keys;
    for (key = 0; key < VL_KEY_COUNT && !wrong; key++) {
        if (command->values[key])
            wrong = vl_conf_read_limit(p, key, command->values[key],
                                       &change->limits);
    }
    return wrong;
}

/* Sets the limits of the site's cgroups.  With "VhostLimitOnError closed" it fails if the
 * kernel cannot enforce a limit, as the start of the server does.  Returns NULL or an
 * error message. */
static const char *change_group(apr_pool_t *p, const vl_conf_t *conf,
                                const vl_limits_t *limits)
{
    vl_cgroup_limits_t group = vl_conf_cgroup_limits_with(conf, limits);
    const char *missing = vl_cgroup_missing(groups, p, &group);

    if (missing && conf->on_error == VL_ERROR_CLOSED)
        return missing;
    return vl_cgroup_change(groups, p, conf->site->name, &group);
}

/* Returns the limits as text for the log. */
static const char *limits_text(apr_pool_t *p, const vl_limits_t *limits)
{
    return apr_psprintf(p, "weight %u, concurrency %u, queue %u, CPU %u%%",
                        limits->weight, limits->concurrency, limits->queue,
                        limits->cpu);
}

static void log_change(apr_pool_t *p, const vl_conf_t *conf,
                       const vl_limits_t *before, const vl_limits_t *after)
{
    vl_cgroup_limits_t group = vl_conf_cgroup_limits_with(conf, after);
    const char *missing = vl_cgroup_missing(groups, p, &group);

    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, main_server, VLOGNO(0031)
                 "site %s: limits changed from %s to %s%s%s",
                 conf->site->name, limits_text(p, before), limits_text(p, after),
                 missing ? ", but the kernel does not enforce all of them: " : "",
                 missing ? missing : "");
}

/* Changes the limits of the account.  Takes the segment lock for short times.  Returns NULL
 * or an error message. */
static const char *make_change(apr_pool_t *p, const vl_conf_t *conf,
                               const vl_change_t *change)
{
    vl_account_snapshot_t now;
    vl_limits_t limits;
    const char *failed;

    if (vl_shm_snapshot(accounts, conf->account, &now) != APR_SUCCESS)
        return "shared memory cannot be read";
    limits = now.limits;
    vl_override_change(&now.override, change, &limits);
    failed = change_group(p, conf, &limits);
    if (failed) {
        change_group(p, conf, &now.limits);     /* undo a partial change */
        return apr_psprintf(p, "site %s: the limit cannot be enforced: %s",
                            conf->site->name, failed);
    }
    if (vl_shm_parent_change(accounts, conf->account, change) != APR_SUCCESS)
        return "shared memory cannot be written";
    log_change(p, conf, &now.limits, &limits);
    return NULL;
}

static const char *change_limits(apr_pool_t *p, const vl_command_t *command,
                                 const server_rec *s)
{
    vl_change_t change;
    const char *wrong = read_change(p, command, &change);

    return wrong ? wrong : make_change(p, vl_conf_get(s), &change);
}

/* --- answers -------------------------------------------------------------- */

/* Returns 1 for set and reset. */
static int changes_limits(const vl_command_t *command)
{
    return command->verb == VL_COMMAND_SET || command->verb == VL_COMMAND_RESET;
}

/* Executes the command.  *ret_only: the vhost of the answer; NULL: all vhosts.  *ret_host: a
 * host of that vhost that has an account; NULL: the vhost itself.  Returns NULL or an error
 * message. */
static const char *execute(apr_pool_t *p, const vl_command_t *command,
                           const server_rec **ret_only, const char **ret_host)
{
    const char *wrong = NULL;

    *ret_only = command->vhost ? find_vhost(p, command->vhost, &wrong) : NULL;
    *ret_host = NULL;
    if (command->vhost && !*ret_only && (*ret_only = find_host(command->vhost))) {
        *ret_host = command->vhost;
        wrong = changes_limits(command)
                ? apr_psprintf(p, "'%s' is a host of site %s (VhostLimitAccounts) and has its "
                               "limits: change those of %s", command->vhost,
                               vl_conf_get(*ret_only)->site->name,
                               vl_conf_get(*ret_only)->site->name) : NULL;
    }
    if (wrong || !changes_limits(command))
        return wrong;
    return change_limits(p, command, *ret_only);
}

void vl_control_answer(const char *line, apr_size_t len, vl_out_t *out)
{
    apr_pool_t *p = out->pool;
    vl_command_t *command = apr_palloc(p, sizeof(*command));
    const server_rec *only = NULL;
    const char *host = NULL;
    const char *wrong = vl_command_parse(line, len, command);

    if (wrong)
        wrong = apr_psprintf(p, "'%s' is %s", command->word, wrong);
    else
        wrong = execute(p, command, &only, &host);
    if (wrong) {
        vl_out_text(out, "{\"error\":");
        vl_out_json(out, wrong);
        vl_out_text(out, "}\n");
        return;
    }
    if (command->verb == VL_COMMAND_MODULES)
        vl_modules_json(out);
    else if (command->verb == VL_COMMAND_FIGURES)
        vl_control_figures_json(out, accounts);
    else if (command->verb == VL_COMMAND_CLIENTS)
        vl_control_clients_json(out, accounts, only, host);
    else
        vl_status_json(out, vl_status_gather(p, only, host));
}
