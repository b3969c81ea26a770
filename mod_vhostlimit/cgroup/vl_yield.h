/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_YIELD_H
#define VL_YIELD_H

/*
 * The tree's weight beside what runs outside of it (docs/design/004-cgroups.md).
 *
 * It is heavy, so that programs that have nothing to do with the sites do not take
 * their CPU time. While requests wait for back ends that are outside of the tree (a
 * PHP-FPM for several sites, a database's proxy), those need CPU time as much as
 * Apache does, and the tree weighs no more than any other group.
 */

#include <apr_pools.h>

#include "cgroup/vl_cgroup.h"

/* Parent, as root: the file stays open for the children, as long as p lives. */
void vl_yield_post_config(apr_pool_t *p, const vl_cgroup_t *cg);
/* The child that keeps time, ten times a second. */
void vl_yield_child_set(int yields);

#endif
