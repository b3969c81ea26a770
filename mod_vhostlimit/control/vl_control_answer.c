/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the commands of the control socket.  A change of limits is checked like the
 * directives first. */
#include <apr_hash.h>
#include <apr_strings.h>

#include "base/vl_clock.h"
#include "control/vl_command.h"
#include "config/vl_conf.h"
#include "control/vl_control_int.h"
#include "core/vl_fleet.h"
#include "core/vl_hosts.h"
#include "status/vl_modules.h"
#include "status/vl_status_int.h"

static apr_hash_t *by_site;         /* server_rec *: a virtual host of each site, by its name
                                     * in lower case */

void vl_control_answer_post_config(void)
{
    apr_pool_t *p = vl_control_server->process->pconf;
    const apr_array_header_t *servers = vl_conf_get(vl_control_server)->sites;
    int i;

    by_site = apr_hash_make(p);
    for (i = 0; i < servers->nelts; i++) {
        server_rec *first = APR_ARRAY_IDX(servers, i, server_rec *);
        char *name = apr_pstrdup(p, vl_conf_get(first)->site->name);

        ap_str_tolower(name);
        apr_hash_set(by_site, name, APR_HASH_KEY_STRING, first);
    }
}

/* --- selecting the vhost -------------------------------------------------- */

static int has_name(const server_rec *s, const char *name)
{
    return s->server_hostname && !ap_cstr_casecmp(s->server_hostname, name);
}

/* Returns a virtual host with that ServerName, or NULL if there is none.  Sets *ret_error if
 * two sites have the name. */
static const server_rec *find_by_server_name(apr_pool_t *p, const char *name,
                                             const char **ret_error)
{
    const server_rec *s, *found = NULL;

    for (s = vl_control_server; s; s = s->next) {
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

/* Finds a virtual host by the name of its site as the status page shows it, or by a
 * ServerName that only one site has.  Returns NULL and sets *ret_error if there is none. */
static const server_rec *find_vhost(apr_pool_t *p, const char *name,
                                    const char **ret_error)
{
    char *lower = apr_pstrdup(p, name);
    const server_rec *found, *s;

    ap_str_tolower(lower);
    found = apr_hash_get(by_site, lower, APR_HASH_KEY_STRING);
    if (!found)
        found = find_by_server_name(p, name, ret_error);
    if (found)
        return *ret_error ? NULL : found;
    *ret_error = apr_psprintf(p, "'%s' is no site that takes part", name);
    for (s = vl_control_server; s; s = s->next) {
        if (!ap_cstr_casecmp(vl_conf_get(s)->site->name, name) || has_name(s, name))
            *ret_error = apr_psprintf(p, "'%s' has VhostLimit Off: nothing of it waits "
                                      "or is refused here", name);
    }
    return NULL;
}

/* Returns a virtual host at which the host of that name has an account, or NULL. */
static const server_rec *find_host(const char *name)
{
    const server_rec *s;
    apr_uint32_t account;

    for (s = vl_control_server; s; s = s->next) {
        const vl_conf_t *conf = vl_conf_get(s);

        if (conf->mode != VL_MODE_OFF && conf->accounts.by == VL_ACCOUNTS_HOST
            && vl_hosts_lookup(vl_control_shm, conf->account, name, &account))
            return s;
    }
    return NULL;
}

/* Returns the error message for a command that would change the limits of a host. */
static const char *refuse_host(apr_pool_t *p, const char *host, const server_rec *s)
{
    return apr_psprintf(p, "'%s' is a host of site %s (VhostLimitAccounts) and has its "
                        "limits: change those of %s", host, vl_conf_get(s)->site->name,
                        vl_conf_get(s)->site->name);
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
    if (command->verb == VL_COMMAND_RESET || command->verb == VL_COMMAND_RESETPLAN) {
        change->reset = command->keys ? command->keys : VL_KEY_ALL;
        return NULL;
    }
    change->set = command->keys;
    if (command->number)
        change->until_us = vl_clock_us() + command->number * APR_USEC_PER_SEC;
    for (key = 0; key < VL_KEY_COUNT && !wrong; key++) {
        if (command->values[key])
            wrong = vl_conf_read_limit(p, key, command->values[key],
                                       &change->values);
    }
    return wrong;
}

/* --- many changes --------------------------------------------------------- */

static const char *find_wrong(apr_pool_t *p, const vl_command_t *command,
                              const char *wrong)
{
    return wrong ? apr_psprintf(p, "'%s' is %s", command->word, wrong) : NULL;
}

/* Parses one line of "bulk" into a job.  by_account: lines so far, by account, in order to
 * find a site that is named twice.  command: memory that all lines share, because it is
 * large. */
static const char *read_job(apr_pool_t *p, const char *line, int number,
                            apr_hash_t *by_account, vl_command_t *command,
                            vl_job_t *job)
{
    const char *wrong = find_wrong(p, command,
                                   vl_command_parse(line, strlen(line), command));
    apr_uint32_t *account;
    const int *earlier;

    if (wrong)
        return wrong;
    if (command->verb != VL_COMMAND_SET && command->verb != VL_COMMAND_RESET)
        return "only set and reset may follow bulk";
    job->s = find_vhost(p, command->vhost, &wrong);
    if (!job->s && (job->s = find_host(command->vhost)))
        return refuse_host(p, command->vhost, job->s);
    if (wrong || !job->s)
        return wrong;
    account = apr_pmemdup(p, &vl_conf_get(job->s)->account, sizeof(*account));
    earlier = apr_hash_get(by_account, account, sizeof(*account));
    if (earlier)
        return apr_psprintf(p, "site %s is in line %d too", vl_conf_get(job->s)->site->name,
                            *earlier);
    apr_hash_set(by_account, account, sizeof(*account),
                 apr_pmemdup(p, &number, sizeof(number)));
    return read_change(p, command, &job->change);
}

/* Executes the lines of "bulk": all or none. */
static const char *change_many(apr_pool_t *p, char *body, int *ret_n)
{
    apr_array_header_t *jobs = apr_array_make(p, 64, sizeof(vl_job_t));
    apr_hash_t *by_account = apr_hash_make(p);
    vl_command_t *command = apr_palloc(p, sizeof(*command));
    const char *wrong = NULL;
    char *line, *last;

    for (line = apr_strtok(body, "\n", &last); line && !wrong;
         line = apr_strtok(NULL, "\n", &last)) {
        vl_job_t *job = apr_array_push(jobs);

        memset(job, 0, sizeof(*job));
        wrong = read_job(p, line, jobs->nelts, by_account, command, job);
        if (wrong)
            wrong = apr_psprintf(p, "line %d: %s. Nothing is changed", jobs->nelts, wrong);
    }
    *ret_n = jobs->nelts;
    return wrong ? wrong : vl_control_change(p, (vl_job_t *)jobs->elts, jobs->nelts, "");
}

/* --- vhostlimit-fleet ----------------------------------------------------- */

/* Makes the leases of the command. Returns NULL or an error message. */
static const char *lease(const vl_command_t *command)
{
    apr_int64_t until_us = vl_clock_us() + (apr_int64_t)command->milliseconds * 1000;

    switch (vl_fleet_lease(vl_control_shm, command->generation, until_us, command->leases,
                           command->nleases)) {
    case APR_SUCCESS:
        return NULL;
    case APR_EMISMATCH:
        return "the configuration is another one now";
    case APR_EINVAL:
        return "a number is that of no site that takes part";
    default:
        return "shared memory cannot be written";
    }
}

apr_int64_t vl_control_leases_expire(apr_int64_t now_us)
{
    if (vl_fleet_expire(vl_control_shm, now_us) && vl_control_fork_may_log())
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, vl_control_server, VLOGNO(0064)
                     "vhostlimit-fleet has not renewed its parts in time: the configured "
                     "weights and limits hold on this server alone. Look at the service's "
                     "log and at vhostlimitctl fleet");
    return vl_fleet_state(vl_control_shm).until_us;
}

/* --- answers -------------------------------------------------------------- */

/* What a command has found or done, for its answer. */
typedef struct result_t {
    const server_rec *only;         /* the vhost of the answer; NULL: all vhosts */
    const char *host;               /* a host of that vhost that has an account; NULL: the
                                     * vhost itself */
    int changed;                    /* sites that bulk has changed */
} result_t;

/* Executes the command.  Returns NULL or an error message. */
static const char *execute(apr_pool_t *p, const vl_command_t *command, char *body,
                           result_t *result)
{
    int changes = command->verb == VL_COMMAND_SET || command->verb == VL_COMMAND_RESET;
    const char *wrong = NULL;
    /* For the log: how long a change holds. */
    const char *duration = command->number ? apr_psprintf(p, " for %" APR_INT64_T_FMT " s",
                                                          command->number) : "";
    vl_job_t job = { 0 };

    switch (command->verb) {
    case VL_COMMAND_LEASE:
        return lease(command);
    case VL_COMMAND_BULK:
        return change_many(p, body, &result->changed);
    case VL_COMMAND_SETPLAN:
    case VL_COMMAND_RESETPLAN:
        wrong = read_change(p, command, &job.change);
        return wrong ? wrong : vl_control_plans_change(p, command->vhost, &job.change, duration);
    default:
        break;
    }
    result->only = command->vhost ? find_vhost(p, command->vhost, &wrong) : NULL;
    if (command->vhost && !result->only && (result->only = find_host(command->vhost))) {
        result->host = command->vhost;
        wrong = changes ? refuse_host(p, command->vhost, result->only) : NULL;
    }
    if (wrong || !changes)
        return wrong;
    job.s = result->only;
    wrong = read_change(p, command, &job.change);
    return wrong ? wrong : vl_control_change(p, &job, 1, duration);
}

apr_size_t vl_control_body(const char *line, apr_size_t len)
{
    vl_command_t command;

    if (len < 5 || memcmp(line, "bulk\t", 5) || vl_command_parse(line, len, &command))
        return 0;
    return (apr_size_t)command.number;
}

const server_rec *vl_control_answer(const char *line, apr_size_t len, char *body, vl_out_t *out)
{
    apr_pool_t *p = out->pool;
    vl_command_t *command = apr_palloc(p, sizeof(*command));
    result_t result = { NULL, NULL, 0 };
    const char *wrong = find_wrong(p, command, vl_command_parse(line, len, command));

    if (!wrong)
        wrong = execute(p, command, body, &result);
    if (wrong) {
        vl_out_json(out, "{\"error\":", wrong);
        vl_out_text(out, "}\n");
        return NULL;
    }
    switch (command->verb) {
    case VL_COMMAND_MODULES:
        vl_modules_json(out);
        break;
    case VL_COMMAND_FIGURES:
        vl_status_figures(out, vl_status_gather(p, NULL, NULL));
        break;
    case VL_COMMAND_FLEET:
        vl_control_fleet_json(out, command->all);
        break;
    case VL_COMMAND_LEASE:
        vl_out_printf(out, "{\"leased\":%lu}\n", (unsigned long)command->nleases);
        break;
    case VL_COMMAND_CLIENTS:
        vl_control_clients_json(out, result.only, result.host);
        break;
    case VL_COMMAND_SANDBOX:
        return result.only;
    case VL_COMMAND_PLANS:
    case VL_COMMAND_SETPLAN:
    case VL_COMMAND_RESETPLAN:
        vl_control_plans_json(out, command->vhost);
        break;
    case VL_COMMAND_SAVEFILE:
        vl_out_json(out, "{\"save_file\":", vl_conf_get(vl_control_server)->save_file
                    ? vl_conf_get(vl_control_server)->save_file : "");
        vl_out_text(out, "}\n");
        break;
    case VL_COMMAND_BULK:
        vl_out_printf(out, "{\"changed\":%d}\n", result.changed);
        break;
    default:
        vl_status_json(out, vl_status_gather(p, result.only, result.host));
    }
    return NULL;
}
