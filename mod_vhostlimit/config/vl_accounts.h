/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ACCOUNTS_H
#define VL_ACCOUNTS_H

/* Which vhosts have an account: all that are not Off are entered in shared memory,
 * as far as there is room for them. */

#include <httpd.h>

#include "core/vl_shm.h"

/* How many accounts at most: vhosts of a group share one. */
apr_uint32_t vl_accounts_count(server_rec *main_server);
/* Parent, with the configuration read.  shm and capacity (accounts): those of the
 * last configuration, NULL and 0 at the start.  They are replaced, and counts start
 * again, when there are more vhosts than room.  Fails at the start only: a restart
 * goes on without whom there is no room for (VhostLimitOnError). */
apr_status_t vl_accounts_post_config(server_rec *main_server, vl_shm_t **shm,
                                  apr_uint32_t *capacity);

#endif
