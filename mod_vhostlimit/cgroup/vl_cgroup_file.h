/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_FILE_H
#define VL_CGROUP_FILE_H

/* Reading and writing the kernel's small files, and making groups by hand.
 * Functions that fail return a sentence, or errno's text. */

#include <apr_pools.h>

/* The text, "" when it cannot be read. */
const char *vl_cgroup_file_read(apr_pool_t *p, const char *file);
/* NULL, or why not; errno says it too. */
const char *vl_cgroup_file_write(const char *file, const char *value);
/* Makes the group below the mount point, and those above it. */
const char *vl_cgroup_make_path(apr_pool_t *p, const char *mount,
                                const char *path);
/* v2: the controller becomes usable in the groups below `path`. */
const char *vl_cgroup_enable(apr_pool_t *p, const char *mount,
                             const char *path, const char *controller);
/* "8:0" of each disk, NULL-terminated.  Partitions and what lives in memory are
 * none. */
const char *const *vl_cgroup_disks(apr_pool_t *p);

#endif
