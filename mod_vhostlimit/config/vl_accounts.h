/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ACCOUNTS_H
#define VL_ACCOUNTS_H

/* Assigns an account in shared memory to every site that is not Off, and creates the
 * segment or replaces it when it is too small.  Finds the account that a request belongs to.
 * Main thread of the parent only, in post_config, except for vl_accounts_find(); the
 * functions of vl_shm.h take the segment lock themselves. */

#include <httpd.h>

#include "config/vl_conf.h"
#include "core/vl_hosts.h"
#include "core/vl_shm.h"

/* Assigns the accounts.  shm and capacity (in accounts) describe the segment of the previous
 * configuration; they are NULL and 0 at the first start.  If the segment cannot hold all
 * sites, or the number of hosts of VhostLimitAccounts, both are replaced and all counters
 * start from zero.  Fails at the first start only.  On a restart a vhost without an account
 * is switched off, and VhostLimitOnError decides whether its requests are refused or not
 * limited. */
apr_status_t vl_accounts_post_config(apr_pool_t *ptemp, server_rec *main_server,
                                     vl_shm_t **shm, apr_uint32_t *capacity);

/* Returns the account of a request for the host: that of the site or, with VhostLimitAccounts
 * Host, that of the host (vl_hosts.h).  host may be NULL.  Any thread of a child. */
static inline apr_uint32_t vl_accounts_find(vl_shm_t *shm, const vl_conf_t *conf, const char *host)
{
    return conf->accounts.by == VL_ACCOUNTS_HOST && conf->mode != VL_MODE_OFF
           ? vl_hosts_find(shm, conf->account, host) : conf->account;
}

#endif
