/* SPDX-License-Identifier: Apache-2.0 */
/* What can only be settled once all of the configuration has been read. */
#include "config/vl_conf.h"

#include <ap_mpm.h>
#include <apr_hash.h>
#include <apr_strings.h>
#include <http_core.h>

/* httpd hands a vhost without directives of ours the main server's struct
 * itself; what follows is written per server. */
static void own_conf(apr_pool_t *p, server_rec *s,
                     const server_rec *main_server)
{
    vl_conf_t *conf = vl_conf_get(s);

    if (s != main_server && conf == vl_conf_get(main_server))
        ap_set_module_config(s->module_config, &vhostlimit_module,
                             apr_pmemdup(p, conf, sizeof(*conf)));
}

static void fill_defaults(vl_conf_t *conf)
{
#define X(member, directive, args, def, min, max, unit, words, help) \
    if (conf->member == VL_UNSET) \
        conf->member = def;
    VL_SETTINGS(X)
#undef X
#define X(member, directive, least, help) \
    if (conf->member == VL_UNSET) \
        conf->member = 0;
    VL_SIZES(X)
#undef X
    if (conf->queue_timeout < 0)
        conf->queue_timeout = VL_QUEUE_TIMEOUT;
    if (!conf->cgroup)
        conf->cgroup = "auto";
}

/* "ServerName:port", without a port where the main server has none of its own;
 * the second of a name is "ServerName:port#2". */
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

static int same_limits(const vl_conf_t *a, const vl_conf_t *b)
{
#define X(member, directive, args, def, min, max, unit, words, help) \
    if (a->member != b->member) \
        return 0;
    VL_SETTINGS(X)
#undef X
#define X(member, directive, least, help) \
    if (a->member != b->member) \
        return 0;
    VL_SIZES(X)
#undef X
    return a->queue_timeout == b->queue_timeout;
}

/* The vhosts of a group have one account, so they must say the same of it. */
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

/* It works on each connection in a process that is forked for that, and both go
 * on with the request's place: one gives back what the other one holds. */
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

/* Listening sockets are taken over, and idle connections kept, in ways that rest
 * on the sources of the known MPMs: with another one the module limits nothing. */
static void leave_unknown_mpm(const server_rec *main_server,
                              const apr_array_header_t *servers)
{
    /* The first of the two passes at start would say it a second time. */
    int says = ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_CREATE_PRE_CONFIG
               || ap_state_query(AP_SQ_RUN_MODE) == AP_SQ_RM_CONFIG_TEST;
    int i, was_on = 0;

    if (vl_conf_knows_mpm())
        return;
    for (i = 0; i < servers->nelts; i++) {
        vl_conf_t *conf = vl_conf_get(APR_ARRAY_IDX(servers, i, server_rec *));

        was_on |= conf->mode != VL_MODE_OFF;
        conf->mode = VL_MODE_OFF;
    }
    if (was_on && says)
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

    /* Copies first: the main server's struct is still as it was read. */
    for (i = 0; i < servers->nelts; i++)
        own_conf(p, APR_ARRAY_IDX(servers, i, server_rec *), main_server);
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
    leave_unknown_mpm(main_server, servers);
    return rv == APR_SUCCESS ? check_itk(main_server, servers) : rv;
}
