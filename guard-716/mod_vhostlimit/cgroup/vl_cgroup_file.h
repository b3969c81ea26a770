/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_FILE_H
#define VL_CGROUP_FILE_H

/* Reads and writes the kernel's cgroup files and creates groups with mkdir().  The
 * functions keep no state and need no lock.  The parent calls them while it reads the
 * configuration, and later from the control thread.  A function that can fail returns
 * NULL on success, else an error message. */

#include <apr_pools.h>

/* Returns the content of the file, "" if it cannot be read. */
const char *vl_cgroup_file_read(apr_pool_t *p, const char *file);
/* Writes the value to the file.  On failure errno is set too. */
const char *vl_cgroup_file_write(const char *file, const char *value);
/* NULL, or called by the thread with the file's descriptor before each write, and with -1 after
 * it: the kernel may need seconds. */
extern __thread void (*vl_cgroup_write_hook)(int fd);
/* Creates the group below the mount point, and its parent groups as far as they do not
 * exist. */
const char *vl_cgroup_make_path(apr_pool_t *p, const char *mount,
                                const char *path);
/* Returns NULL if vl_cgroup_make_path() may succeed, else why it would fail.  Changes
 * nothing. */
const char *vl_cgroup_try_path(apr_pool_t *p, const char *mount,
                               const char *path);
/* v2: enables the controller for the groups below `path`. */
const char *vl_cgroup_enable(apr_pool_t *p, const char *mount,
                             const char *path, const char *controller);
/* Returns the device number of each disk, such as "8:0", as a NULL-terminated list.  It has
 * no partitions and no memory devices (ram, loop, zram). */
const char *const *vl_cgroup_disks(apr_pool_t *p);

#endif
