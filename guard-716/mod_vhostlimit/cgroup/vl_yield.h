/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_YIELD_H
#define VL_YIELD_H

/* Sets the CPU weight of the cgroup tree against processes outside the tree
 * (docs/design/004-cgroups.md).  The weight is normally the maximum ("heavy"), so that
 * programs that are unrelated to the sites do not take CPU time from them.  While requests
 * wait for back ends outside the tree, such as a PHP-FPM for several sites or a database
 * proxy, these back ends need CPU time as much as Apache does.  Then the tree has the
 * default weight of any other group ("light").  The state belongs to one thread of each
 * child process and needs no lock. */

#include <apr_pools.h>

#include "cgroup/vl_cgroup.h"

/* Parent, while it is root: opens the file of the weight.  The child processes inherit the
 * descriptor; it is closed when p is cleared. */
void vl_yield_post_config(apr_pool_t *p, const vl_cgroup_t *cg);
/* Writes the light weight if yields is 1, the heavy one if it is 0, unless this child has
 * written that value last.  The
 * child process that reads CPU usage calls it ten times per second. */
void vl_yield_child_set(int yields);

#endif
