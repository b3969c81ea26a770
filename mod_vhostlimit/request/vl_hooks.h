/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HOOKS_H
#define VL_HOOKS_H

/*
 * The hooks of requests and of their connections. A request is counted for its site's
 * account after it has been read (post_read_request), and is counted no more when its work
 * is done. A request holds at most one slot.
 * The shared state is behind the locks of vl_park.h and vl_slot.h.
 */

#include <apr_pools.h>

/* Registers all hooks and filters. */
void vl_hooks_register(apr_pool_t *p);

#endif
