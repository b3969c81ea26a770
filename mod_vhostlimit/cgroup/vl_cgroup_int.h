/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_INT_H
#define VL_CGROUP_INT_H

/* For the files of this room only: vl_cgroup.c finds the hierarchies and makes
 * the tree, vl_cgroup_account.c its groups, vl_cgroup_path.c knows where things
 * are. */

#include <apr_hash.h>

#include "cgroup/vl_cgroup.h"

/* Name of the tree below the server's own group, of the server's group in the
 * tree, and in v1 of the threads' below the account's.  No account's file name
 * begins with a dot. */
#define ROOT_NAME "/vhostlimit"
#define SERVER_NAME "/.server"
#define THREADS_NAME "/threads"

/* Where a controller is; version 0: not in use. */
typedef struct place_t {
    int version;
    const char *mount;
    const char *missing;        /* why it cannot be had; NULL: it can */
} place_t;

/* Outlives a reload of the module, whose literals do not: see copy_constants(). */
struct vl_cgroup_t {
    apr_pool_t *pool;
    const char *backend;
    const char *path;               /* from the hierarchy's root; "" when off */
    const char *reason;
    const char *origin;             /* where the server was started; NULL: it
                                     * is there still */
    place_t places[VL_CG_CONTROLLERS];
    const char *const *disks;
    apr_hash_t *accounts;           /* file name -> itself: what was added */
    apr_hash_t *left;               /* the same, of what could not be removed */
    vl_cgroup_t *earlier;           /* a tree at another path, of which the same
                                     * is true; it may have one too */
};

/* The i-th of different mount points in use; NULL: there are not so many. */
const place_t *vl_cgroup_hierarchy(const vl_cgroup_t *cg, int i);
/* Of an account's threads; name is its file name. */
const char *vl_cgroup_threads_path(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *name);

/* In every hierarchy in use.  NULL, or why not. */
const char *vl_cgroup_make_group(const vl_cgroup_t *cg, apr_pool_t *p,
                                 const char *path);
/* In every hierarchy in use. */
void vl_cgroup_remove_group(const vl_cgroup_t *cg, apr_pool_t *p,
                            const char *path);
/* Sets what the controller knows of; nothing where it is not in use.  NULL, or
 * why not. */
const char *vl_cgroup_set(const vl_cgroup_t *cg, apr_pool_t *p,
                          vl_cgroup_controller_e controller, const char *path,
                          const vl_cgroup_limits_t *limits);
/* The server's process and its children move into the group of the cpu
 * hierarchy. */
const char *vl_cgroup_move_self(const vl_cgroup_t *cg, apr_pool_t *p,
                                const char *path);

#endif
