/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_MOUNT_H
#define VL_CGROUP_MOUNT_H

/* Finds where the kernel's cgroup controllers are mounted: with libcgroup if configure
 * defines VL_LIBCGROUP, else from /proc/self/mounts.  vl_cgroup_mount.c is the only file
 * that includes <libcgroup.h>.  Main thread of the parent only; there is no lock. */

#include <apr_pools.h>

/* To be called before the first vl_cgroup_mount_find() of each configuration. */
void vl_cgroup_mount_init(void);

/* Returns the mount point of the controller in the given cgroup version, allocated in p.
 * NULL: that version does not have the controller. */
const char *vl_cgroup_mount_find(apr_pool_t *p, const char *controller,
                                 int version);

/* Returns 1 if a v2 tree is mounted at the path. */
int vl_cgroup_mount_is_v2(const char *path);

/* Has no side effects and is exported for its unit test.  Returns the i-th mount point, i
 * from 0, in a text like /proc/self/mounts with a file system of the given type and option
 * ("": any option).  NULL: there are no more. */
const char *vl_cgroup_parse_mounts(apr_pool_t *p, const char *text,
                                   const char *type, const char *option,
                                   int i);

#endif
