/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PATH_H
#define VL_PATH_H

/* Resolves paths of the configuration, of which the owner of a site may control a part.  The
 * owner of a folder can replace each file in it by a symbolic link, so the parent, which is
 * root, must not follow such a link into files of another site.  No state and no lock. */

#include <apr_pools.h>
#include <sys/types.h>

/* What a path leads to. */
typedef struct vl_path_t {
    const char *real;           /* absolute, without links; NULL: it does not exist */
    int leaves;                 /* a link leads out of its folder, and a user other than root
                                 * can replace it */
    int is_foreign;             /* leaves, and the target may belong to another site */
} vl_path_t;

/* Resolves an absolute path.  shared_user: programs of all sites run as this user, so a link
 * of it shows nothing about the owner of the target. */
void vl_path_resolve(apr_pool_t *p, const char *path, uid_t shared_user, vl_path_t *ret_path);

/* Returns 1 if path is the folder or lies below it. */
int vl_path_is_below(const char *path, const char *folder);

/* Opens a path with O_PATH and close-on-exec.  Without symbolic links in it: fails with
 * ELOOP if there is one now.  Returns -1 and errno on an error.  Allocates nothing. */
int vl_path_open_real(const char *real);

#endif
