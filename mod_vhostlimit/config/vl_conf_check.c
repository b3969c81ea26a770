/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and defaults that need the complete configuration.  Main thread of the parent, in
 * post_config. */
#include "config/vl_conf.h"

#include <ap_mpm.h>
#include <apr_hash.h>
#include <apr_strings.h>
#include <http_core.h>

/* Gives the server a configuration struct of its own.  A vhost without directives of this
 * module shares the main server's struct, but post_config writes per server. */
static void copy_shared_conf(apr_pool_t *p, server_rec *s,
                             const server_rec *main_server)
{
    vl_conf_t *conf = vl_conf_get(s);

    if (s != main_server && conf == vl_conf_get(main_server))
        ap_set_module_config(s->module_config, &vhostlimit_module,
                             apr_pmemdup(p, conf, sizeof(*conf)));
}

/* Replaces unset values by their defaults. */
static void fill_defaults(vl_conf_t *conf)
{
#define X(member, directive, args, def, min, max, unit, words, help) \
    if (conf->member == VL_UNSET) \
        conf->member = def;
    VL_SETTINGS(X)
#undef X
#define X(member, directive, min, help) \
    if (conf->member == VL_UNSET) \
        conf->member = 0;
    VL_SIZES(X)
#undef X
    vl_visitor_conf_finish(&conf->visitors);
    if (conf->queue_timeout < 0)
        conf->queue_timeout = VL_QUEUE_TIMEOUT;
    if (!conf->cgroup)
        conf->cgroup = "auto";
}

/* Returns the account name of a vhost without a group: "ServerName:port", or "ServerName"
 * if the main server has no port.  The second vhost with the same name is
 * "ServerName:port#2".  seen: counts the uses of each name. */
static const char *name_account(apr_pool_t *p, const server_rec *s,
                                apr_hash_t *seen)
{
    char *name = apr_pstrdup(p, s->server_hostname ? s->server_hostname
                                                   : "_default_");
    unsigned port = s->port;
    unsigned *count;

    ap_str_tolower(name);
    if (!port && s->addrs)
        port = s->addrs->host_port;
    if (port)
        name = apr_psprintf(p, "%s:%u", name, port);
    count = apr_hash_get(seen, name, APR_HASH_KEY_STRING);
    if (count)
        return apr_psprintf(p, "%s#%u", name, ++*count);
    count = apr_palloc(p, sizeof(*count));
    *count = 1;
    apr_hash_set(seen, name, APR_HASH_KEY_STRING, count);
    return name;
}

/* Returns 1 if all settings of both vhosts are equal. */
static int same_limits(const vl_conf_t *a, const vl_conf_t *b)
{
#define X(member, directive, args, def, min, max, unit, words, help) \
    if (a->member != b->member) \
        return 0;
    VL_SETTINGS(X)
#undef X
#define X(member, directive, min, help) \
    if (a->member != b->member) \
        return 0;
    VL_SIZES(X)
#undef X
    return a->queue_timeout == b->queue_timeout;
}

/* Names the account of a vhost after its group.  All vhosts of a group share one account,
 * so their limits must be equal.  Else logs both vhosts and returns APR_EINVAL.  groups:
 * the first server_rec of each group. */
static apr_status_t join_group(server_rec *s, apr_hash_t *groups)
{
    vl_conf_t *conf = vl_conf_get(s);
    const server_rec *other = apr_hash_get(groups, conf->group,
                                           APR_HASH_KEY_STRING);

    conf->account_name = conf->group;
    if (!other) {
        apr_hash_set(groups, conf->group, APR_HASH_KEY_STRING, s);
        return APR_SUCCESS;
    }
    if (same_limits(conf, vl_conf_get(other)))
        return APR_SUCCESS;
    ap_log_error(APLOG_MARK, APLOG_EMERG, 0, s, VLOGNO(0015) "VhostLimitGroup "
                 "%s: the vhosts of a group share one account, and those in "
                 "%s:%u and %s:%u have different limits", conf->group + 1,
                 other->defn_name ? other->defn_name : "?",
                 other->defn_line_number, s->defn_name ? s->defn_name : "?",
                 s->defn_line_number);
    return APR_EINVAL;
}

/* Returns APR_ENAMETOOLONG and logs it if the account name does not fit shared memory. */
static apr_status_t check_length(const server_rec *main_server,
                                 const server_rec *s)
{
    const vl_conf_t *conf = vl_conf_get(s);

    if (strlen(conf->account_name) < VL_NAME_SIZE)
        return APR_SUCCESS;
    ap_log_error(APLOG_MARK, APLOG_EMERG, 0, main_server, VLOGNO(0001)
                 "ServerName in %s:%u is longer than %d bytes: %s",
                 s->defn_name ? s->defn_name : "?", s->defn_line_number,
                 VL_NAME_SIZE - 12, conf->account_name);
    return APR_ENAMETOOLONG;
}

/* Refuses to start together with mpm_itk, unless the module is off.  mpm_itk forks a
 * process for each connection.  The parent and the child of that fork both own the
 * request's slot, so one of them releases a slot that the other still uses. */
static apr_status_t check_itk(const server_rec *main_server,
                              const apr_array_header_t *servers)
{
    int i;

    if (!ap_find_linked_module("mpm_itk.c"))
        return APR_SUCCESS;
    for (i = 0; i < servers->nelts; i++) {
        if (vl_conf_get(APR_ARRAY_IDX(servers, i, server_rec *))->mode
            == VL_MODE_OFF)
            continue;
        ap_log_error(APLOG_MARK, APLOG_EMERG, 0, main_server, VLOGNO(0032)
                     "VhostLimit does not work beside mpm_itk: unload one of "
                     "them, or write VhostLimit Off");
        return APR_ENOTIMPL;
    }
    return APR_SUCCESS;
}

int vl_conf_knows_mpm(void)
{
    static const char *const known[] = { "event", "worker", "prefork" };
    unsigned i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!strcmp(ap_show_mpm(), known[i]))
            return 1;
    }
    return 0;
}

/* Switches the module off for all servers if the MPM is unknown.  The module takes over
 * listening sockets and parks idle connections in ways that depend on the source code of
 * the known MPMs. */
static void disable_on_unknown_mpm(const server_rec *main_server,
                                   const apr_array_header_t *servers)
{
    /* Without this check both configuration passes at start would log the warning. */
    int may_log = ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_CREATE_PRE_CONFIG
                  || ap_state_query(AP_SQ_RUN_MODE) == AP_SQ_RM_CONFIG_TEST;
    int i, was_on = 0;

    if (vl_conf_knows_mpm())
        return;
    for (i = 0; i < servers->nelts; i++) {
        vl_conf_t *conf = vl_conf_get(APR_ARRAY_IDX(servers, i, server_rec *));

        was_on |= conf->mode != VL_MODE_OFF;
        conf->mode = VL_MODE_OFF;
    }
    if (was_on && may_log)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0034)
                     "the MPM %s is unknown to mod_vhostlimit: all vhosts are "
                     "served as with VhostLimit Off. Use event, worker or "
                     "prefork", ap_show_mpm());
}

apr_status_t vl_conf_post_config(apr_pool_t *p, apr_pool_t *ptemp,
                                 server_rec *main_server)
{
    apr_array_header_t *servers = vl_conf_servers(ptemp, main_server);
    apr_hash_t *seen = apr_hash_make(ptemp), *groups = apr_hash_make(ptemp);
    apr_status_t rv = APR_SUCCESS;
    int i;

    /* Copy all structs first, while the main server's struct is unmodified. */
    for (i = 0; i < servers->nelts; i++)
        copy_shared_conf(p, APR_ARRAY_IDX(servers, i, server_rec *), main_server);
    for (i = 0; i < servers->nelts && rv == APR_SUCCESS; i++) {
        server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);
        vl_conf_t *conf = vl_conf_get(s);

        fill_defaults(conf);
        if (conf->group && conf->mode != VL_MODE_OFF) {
            rv = join_group(s, groups);
            continue;
        }
        conf->account_name = name_account(p, s, seen);
        rv = check_length(main_server, s);
    }
    disable_on_unknown_mpm(main_server, servers);
    return rv == APR_SUCCESS ? check_itk(main_server, servers) : rv;
}
