/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HOOKS_H
#define VL_HOOKS_H

/* The life of a request: it enters its vhost's account once it has been read,
 * and leaves when its work is done. */

#include <apr_pools.h>

#include "cgroup/vl_place.h"
#include "core/vl_shm.h"

void vl_hooks_register(apr_pool_t *p);

/* Child: the accounts to count in. */
void vl_hooks_child_init(vl_shm_t *shm, const vl_place_t *place);
/* Cleanup of pchild: from here on the shared memory is not used by connections whose
 * pools live longer, as they do when the process exits. */
apr_status_t vl_hooks_child_end(void *unused);

#endif
