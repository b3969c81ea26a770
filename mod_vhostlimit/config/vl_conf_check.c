/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and defaults that need the complete configuration.  Main thread of the parent, in
 * check_config. */
#include "config/vl_conf.h"

#include <ap_mpm.h>
#include <apr_strings.h>
#include <http_core.h>
#include <http_main.h>

#include "config/vl_plans.h"

static const apr_array_header_t *list_servers(apr_pool_t *p, server_rec *main_server)
{
    apr_array_header_t *servers;
    server_rec *s, **to;
    int n = 1;

    for (s = main_server->next; s; s = s->next)
        n++;
    servers = apr_array_make(p, n, sizeof(server_rec *));
    servers->nelts = n;
    to = (server_rec **)servers->elts;
    to[0] = main_server;
    for (s = main_server->next; s; s = s->next)
        to[--n] = s;
    return servers;
}

/* A <VirtualHost> section.  httpd gives the server the directive's pointer to the file name
 * (virtualhost_section() in server/core.c). */
typedef struct place_t {
    const char *file;
    apr_uintptr_t line;
} place_t;

/* Finds the section of each server.  One walk of the tree serves all servers. */
static void find_sections(apr_pool_t *ptemp, const apr_array_header_t *servers)
{
    apr_hash_t *sections = apr_hash_make(ptemp);
    const ap_directive_t *d;
    int i;

    for (d = ap_conftree; d; d = d->next) {
        place_t *at;

        if (*d->directive != '<' || ap_cstr_casecmp(d->directive, "<VirtualHost"))
            continue;
        at = apr_palloc(ptemp, sizeof(*at));
        at->file = d->filename;
        at->line = (apr_uintptr_t)d->line_num;
        if (!apr_hash_get(sections, at, sizeof(*at)))
            apr_hash_set(sections, at, sizeof(*at), d);
    }
    for (i = 0; i < servers->nelts; i++) {
        const server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);
        const place_t at = { s->defn_name, s->defn_line_number };

        vl_conf_get(s)->section = s->is_virtual ? apr_hash_get(sections, &at, sizeof(at)) : NULL;
    }
}

/* Replaces unset values by their defaults. */
static void fill_defaults(vl_conf_t *conf)
{
#define X(member, directive, args, def, min, max, unit, words, help) \
    if (conf->member == VL_UNSET) \
        conf->member = def;
    VL_SETTINGS(X)
#undef X
    if (conf->sharing.clients == VL_UNSET) {
        conf->sharing.clients = 1;
        conf->sharing.bits4 = VL_CLIENT_BITS4;
        conf->sharing.bits6 = VL_CLIENT_BITS6;
    }
    if (conf->sharing.known == VL_KNOWN_UNSET) {
        conf->sharing.known = VL_KNOWN_OFF;
        conf->sharing.share = VL_KNOWN_SHARE;
    }
    if (conf->accounts.by == VL_ACCOUNTS_UNSET)
        conf->accounts.by = VL_ACCOUNTS_VHOST;
    if (conf->queue_timeout < 0)
        conf->queue_timeout = VL_QUEUE_TIMEOUT;
    if (!conf->cgroup)
        conf->cgroup = VL_CGROUP;
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

/* Logs a combination that stops the start. */
static apr_status_t refuse_accounts(const char *why)
{
    ap_log_error(APLOG_MARK, APLOG_EMERG, 0, ap_server_conf, VLOGNO(0045)
                 "VhostLimitAccounts: %s", why);
    return APR_EINVAL;
}

/* Checks VhostLimitAccounts Host: not in a group, and one value of max=. */
static apr_status_t check_accounts(apr_pool_t *ptemp, const apr_array_header_t *servers)
{
    const vl_conf_t *conf, *first = NULL;
    int i;

    for (i = 0; i < servers->nelts; i++) {
        conf = vl_conf_get(APR_ARRAY_IDX(servers, i, server_rec *));
        if (conf->mode == VL_MODE_OFF || conf->accounts.by != VL_ACCOUNTS_HOST)
            continue;
        if (*conf->site->name == '@')
            return refuse_accounts(apr_psprintf(ptemp, "Host gives each host name an "
                "account, and VhostLimitGroup gives all of %s one: remove one of them, or "
                "write VhostLimitAccounts Vhost in a virtual host of the group",
                conf->site->name));
        if (!conf->accounts.max)
            continue;
        if (first && first->accounts.max != conf->accounts.max)
            return refuse_accounts(apr_psprintf(ptemp, "max= is one number for the whole "
                "server, but it is %d for site %s and %d for site %s: write the same number, "
                "or write it once", first->accounts.max, first->site->name,
                conf->accounts.max, conf->site->name));
        first = conf;
    }
    return APR_SUCCESS;
}

int vl_conf_knows_mpm(void)
{
    const char *mpm = ap_show_mpm();

    return !strcmp(mpm, "event") || !strcmp(mpm, "worker") || !strcmp(mpm, "prefork");
}

/* The MPM is unknown, and the module was switched off for a server because of that. */
static int is_off_for_mpm;

/* Switches the module off for all servers if the MPM is unknown.  The module takes over
 * listening sockets and parks idle connections in ways that depend on the source code of
 * the known MPMs. */
static void disable_on_unknown_mpm(const apr_array_header_t *servers)
{
    int i;

    is_off_for_mpm = 0;
    if (vl_conf_knows_mpm())
        return;
    for (i = 0; i < servers->nelts; i++) {
        vl_conf_t *conf = vl_conf_get(APR_ARRAY_IDX(servers, i, server_rec *));

        is_off_for_mpm |= conf->mode != VL_MODE_OFF;
        conf->mode = VL_MODE_OFF;
    }
}

void vl_conf_post_config(const server_rec *main_server)
{
    if (is_off_for_mpm)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0034)
                     "the MPM %s is unknown to mod_vhostlimit: all sites are "
                     "served as with VhostLimit Off. Use event, worker or "
                     "prefork", ap_show_mpm());
    vl_sites_report_unused(main_server);
}

apr_status_t vl_conf_check(apr_pool_t *p, apr_pool_t *ptemp,
                           server_rec *main_server)
{
    const apr_array_header_t *servers = list_servers(p, main_server);
    apr_status_t rv;
    int i;

    vl_conf_get(main_server)->servers = servers;
    /* Each server gets a configuration struct of its own first, while the main server's is unmodified.
     * A vhost without directives of this module shares that one, but post_config writes per server. */
    for (i = 1; i < servers->nelts; i++) {
        server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);
        vl_conf_t *conf = vl_conf_get(s);

        if (conf == vl_conf_get(main_server))
            ap_set_module_config(s->module_config, &vhostlimit_module,
                                 apr_pmemdup(p, conf, sizeof(*conf)));
    }
    find_sections(ptemp, servers);
    rv = vl_plans_find(main_server);
    if (rv == APR_SUCCESS)
        rv = vl_sites_find(p, ptemp, main_server);
    for (i = 0; i < servers->nelts && rv == APR_SUCCESS; i++) {
        server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);
        vl_conf_t *conf = vl_conf_get(s);

        fill_defaults(conf);
        if (conf->unplanned)
            fill_defaults(conf->unplanned);
        conf->needs_head = conf->exempt || conf->sharing.classes
                           || conf->sharing.known == VL_KNOWN_COOKIE;
        if (strlen(conf->site->name) < VL_NAME_SIZE)
            continue;
        /* It does not fit shared memory. */
        rv = APR_ENAMETOOLONG;
        ap_log_error(APLOG_MARK, APLOG_EMERG, 0, main_server, VLOGNO(0001)
                     "ServerName in %s:%u is longer than %d bytes: %s. Shorten it",
                     s->defn_name ? s->defn_name : "?", s->defn_line_number,
                     VL_NAME_SIZE - 12, conf->site->name);
    }
    if (rv == APR_SUCCESS)
        rv = check_accounts(ptemp, servers);
    disable_on_unknown_mpm(servers);
    if (rv == APR_SUCCESS)
        vl_sites_list(p, main_server);
    if (rv == APR_SUCCESS && ap_state_query(AP_SQ_RUN_MODE) == AP_SQ_RM_CONFIG_TEST)
        vl_conf_post_config(main_server);
    return rv == APR_SUCCESS ? check_itk(main_server, servers) : rv;
}
