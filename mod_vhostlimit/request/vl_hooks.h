/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HOOKS_H
#define VL_HOOKS_H

/*
 * The hooks of requests and of their connections. A request is counted for its site's
 * account after it has been read (post_read_request), and is counted no more when its work
 * is done. A request holds at most one slot.
 * The shared state is behind the locks of vl_park.h and vl_slot.h. The module's own hooks
 * call these functions: _register when the module is loaded, _child_init before the
 * child's threads start.
 */

#include <apr_pools.h>

#include "cgroup/vl_place.h"
#include "core/vl_shm.h"

/* Registers all hooks and filters. */
void vl_hooks_register(apr_pool_t *p);

/* shm: the accounts to count in. place: the sites' cgroups. */
void vl_hooks_child_init(vl_shm_t *shm, const vl_place_t *place);
/* Cleanup of pchild. The pools of some connections live longer than pchild when the
 * process exits. From now on they do not use the shared memory. Returns APR_SUCCESS. */
apr_status_t vl_hooks_child_end(void *unused);

#endif
