/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PREFORK_H
#define VL_PREFORK_H

/* The prefork MPM: one of its children accepts and keeps the lines for all, the
 * others are given a connection each, when its turn has come. */

#include <httpd.h>

#include "core/vl_shm.h"

/* There are children enough for one to do nothing else.  Parent or child. */
int vl_prefork_can_spare_one(void);

/* Child, before its MPM's loop.  relay: see vl_relay.h; it must last.  Returns
 * how many listeners are ours now; 0: none, the MPM accepts as ever. */
int vl_prefork_child_init(apr_pool_t *pchild, vl_shm_t *shm,
                          const int relay[2]);

#endif
