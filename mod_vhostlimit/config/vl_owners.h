/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_OWNERS_H
#define VL_OWNERS_H

/* Which site a folder, or a user of a database (VhostLimitDatabaseUser), belongs to. The sampler asks.
 * Owns the table of all users, which the parent fills while it reads the configuration. There is no
 * lock. Both searches return VL_NO_ACCOUNT if there is no such site, or if accounts of the site
 * belong to hosts. */

#include <httpd.h>

#include "config/vl_conf.h"

/* Parent, in check_config: makes the table. If two sites have the same name, it logs that and returns
 * APR_EINVAL. */
apr_status_t vl_owners_check(apr_pool_t *p, const server_rec *main_server);
/* Returns the account of the site that names the user, or else of the one with the longest beginning
 * of the name. */
apr_uint32_t vl_owners_of_user(const char *user);
/* Returns the account of the site whose virtual hosts have a directive with this folder, with a
 * path directly in it, or with a folder above it, unless several sites have the same right to it.
 * For programs that a server for several sites has started (Passenger). Walks the whole
 * configuration. */
apr_uint32_t vl_owners_of_folder(const char *folder);

#endif
