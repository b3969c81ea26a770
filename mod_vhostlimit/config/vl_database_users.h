/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_DATABASE_USERS_H
#define VL_DATABASE_USERS_H

/* VhostLimitDatabaseUser: which site a user of a database belongs to. It owns the table of all names,
 * which the parent fills while it reads the configuration. The sampler reads it; there is no lock. */

#include <httpd.h>

#include "config/vl_conf.h"

/* Parent, in check_config: makes the table. If two sites have the same name, it logs that and returns
 * APR_EINVAL. */
apr_status_t vl_database_users_check(apr_pool_t *p, const server_rec *main_server);
/* Returns the account of the site that names the user, or else of the one with the longest beginning
 * of the name. Returns VL_NO_ACCOUNT if there is none, or if accounts of the site belong to hosts. */
apr_uint32_t vl_database_users_account(const char *user);

#endif
