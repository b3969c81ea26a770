/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_MOUNT_H
#define VL_CGROUP_MOUNT_H

/* Finds where the kernel's cgroup controllers are mounted: with libcgroup, or
 * from /proc/self/mounts if the module was built without it (configure defines
 * VL_LIBCGROUP).  The only room that includes <libcgroup.h>. */

#include <apr_pools.h>

/* Parent, before the first vl_cgroup_mount_find() of each configuration. */
void vl_cgroup_mount_init(void);

/* The mount point of the controller in that version of cgroups, allocated in p.
 * NULL: that version does not have it. */
const char *vl_cgroup_mount_find(apr_pool_t *p, const char *controller,
                                 int version);

/* True if a v2 tree is mounted at the path. */
int vl_cgroup_mount_is_v2(const char *path);

/* Pure, for its test: the i-th mount point in a text like /proc/self/mounts
 * whose file system has that type and that option ("": any).  NULL: the text
 * has fewer than i + 1 of them. */
const char *vl_cgroup_parse_mounts(apr_pool_t *p, const char *text,
                                   const char *type, const char *option,
                                   int i);

#endif
