/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_accounts.h"

#include <ap_mpm.h>
#include <http_log.h>
#include <http_main.h>

#include "config/vl_conf.h"
#include "config/vl_sharing.h"
#include "base/vl_private.h"
#include "core/vl_hosts.h"

/* Spare accounts for sites that later configurations add or rename.  Untouched pages of
 * the segment use no memory. */
#define SPARE_ACCOUNTS 1024

/* Returns the number of hosts that may have an account at once.  vl_conf_check() has checked
 * that no two sites say different numbers. */
static apr_uint32_t count_hosts(const apr_array_header_t *sites)
{
    apr_uint32_t max = 0;
    int i, is_used = 0;

    for (i = 0; i < sites->nelts; i++) {
        const vl_conf_t *conf = vl_conf_get(APR_ARRAY_IDX(sites, i, server_rec *));

        if (conf->accounts.by == VL_ACCOUNTS_HOST) {
            is_used = 1;
            max = conf->accounts.max ? (apr_uint32_t)conf->accounts.max : max;
        }
    }
    return is_used && !max ? VL_HOSTS : max;
}

/* Creates a segment for twice as many accounts plus SPARE_ACCOUNTS, and destroys the old
 * one.  Counters start from zero.  *shm and *shm_capacity are unchanged on failure. */
static apr_status_t make_segment(server_rec *main_server,
                                 apr_uint32_t accounts, apr_uint32_t hosts,
                                 vl_shm_t **shm, apr_uint32_t *shm_capacity)
{
    apr_uint32_t capacity = accounts * 2 + SPARE_ACCOUNTS;
    vl_shm_t *made;
    apr_status_t rv;
    int daemons = 1;

    if (*shm)
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, main_server, VLOGNO(0005)
                     "%u sites and %u hosts need more shared memory than there was "
                     "(for %u and %u): counters start again", accounts, hosts,
                     *shm_capacity, vl_hosts_count(*shm).max);
    ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &daemons);
    /* Twice the daemons: the MPM may start a replacement before the parent has noticed
     * the exit of a child process. */
    rv = vl_shm_post_config_create(ap_pglobal, capacity, hosts, daemons * 2, &made);
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, *shm ? APLOG_ERR : APLOG_EMERG, rv,
                     main_server, VLOGNO(0002) "shared memory for %u sites and %u hosts "
                     "in %d children cannot be made, so the %s. Raise the memory limit or "
                     "LimitNOFILE, or lower ServerLimit%s", capacity, hosts, daemons * 2,
                     *shm ? "old one stays in use" : "server does not start",
                     hosts ? " or max= of VhostLimitAccounts" : "");
        return rv;
    }
    if (*shm)
        vl_shm_post_config_destroy(*shm);
    *shm = made;
    *shm_capacity = capacity;
    return APR_SUCCESS;
}

/* Finds or creates the account of the vhost's site.  Returns APR_SUCCESS if the vhost has an
 * account now or its mode is Off, APR_ENOSPC if the segment is full. */
static apr_status_t enter_account(server_rec *s, vl_shm_t *shm)
{
    vl_conf_t *conf = vl_conf_get(s);
    vl_values_t values = vl_conf_values(conf);
    apr_status_t rv;

    if (conf->mode == VL_MODE_OFF)
        return APR_SUCCESS;
    rv = vl_shm_post_config_account(shm, conf->site->name, conf->mode, &values,
                                    &conf->account);
    if (rv == APR_SUCCESS)
        vl_sharing_post_config(s, shm);
    return rv;
}

/* Assigns an account to every site.  Sites that already have one come first: otherwise a
 * new site could be given the account of another site.  Returns APR_ENOSPC only if
 * may_disable is 0: accounts of removed sites are still in use.  Otherwise it switches the module off
 * for a vhost that gets no account, so that a restart succeeds. */
static apr_status_t enter_accounts(apr_pool_t *ptemp, server_rec *main_server, vl_shm_t *shm,
                                   int may_disable)
{
    apr_array_header_t *others = apr_array_make(ptemp, 16, sizeof(server_rec *));
    int i, failed = 0;
    apr_status_t rv;
    vl_conf_t *conf;
    server_rec *s;

    vl_shm_post_config_begin(shm);
    for (s = main_server; s; s = s->next) {
        if (!vl_shm_post_config_knows(shm, vl_conf_get(s)->site->name)
            || enter_account(s, shm) != APR_SUCCESS)
            APR_ARRAY_PUSH(others, server_rec *) = s;
    }
    for (i = 0; i < others->nelts; i++) {
        s = APR_ARRAY_IDX(others, i, server_rec *);
        rv = enter_account(s, shm);
        if (rv == APR_SUCCESS)
            continue;
        if (!may_disable)
            return rv;
        failed = 1;
        conf = vl_conf_get(s);
        conf->refused = conf->mode == VL_MODE_ON
                        && conf->on_error == VL_ERROR_CLOSED;
        conf->mode = VL_MODE_OFF;
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, s, VLOGNO(0003)
                     "no room for site %s in shared memory (see VL0002): its "
                     "requests are %s until a restart finds room", conf->site->name,
                     conf->refused ? "refused" : "not limited");
    }
    if (failed)
        vl_sites_list(main_server->process->pconf, main_server);
    return APR_SUCCESS;
}

apr_status_t vl_accounts_post_config(apr_pool_t *ptemp, server_rec *main_server,
                                     vl_shm_t **shm, apr_uint32_t *capacity)
{
    const apr_array_header_t *sites = vl_conf_get(main_server)->sites;
    apr_uint32_t accounts = (apr_uint32_t)sites->nelts, hosts = count_hosts(sites);
    apr_status_t rv = APR_ENOSPC;
    int i;

    if (*shm && accounts <= *capacity && hosts <= vl_hosts_count(*shm).max)
        rv = enter_accounts(ptemp, main_server, *shm, 0);
    if (rv == APR_ENOSPC) {
        rv = make_segment(main_server, accounts, hosts, shm, capacity);
        if (*shm)
            rv = enter_accounts(ptemp, main_server, *shm, 1);
    }
    if (rv != APR_SUCCESS)
        return rv;
    vl_hosts_post_config_limit(*shm, hosts);
    sites = vl_conf_get(main_server)->sites;    /* some may have been switched off */
    for (i = 0; i < sites->nelts; i++) {
        const vl_conf_t *conf = vl_conf_get(APR_ARRAY_IDX(sites, i, server_rec *));
        int has_hosts = conf->accounts.by == VL_ACCOUNTS_HOST;

        vl_shm_post_config_hosts(*shm, conf->account, has_hosts);
        /* The hosts that have accounts already get the limits of their site. */
        if (has_hosts)
            vl_hosts_refresh(*shm, conf->account);
    }
    return APR_SUCCESS;
}
