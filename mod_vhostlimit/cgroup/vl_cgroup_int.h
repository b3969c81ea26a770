/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_INT_H
#define VL_CGROUP_INT_H

/* Private to the files cgroup/vl_cgroup*.c.  vl_cgroup.c finds the hierarchies and creates
 * the tree, vl_cgroup_account.c creates and removes the groups of the accounts, and
 * vl_cgroup_path.c builds path names.  There is no lock: see vl_cgroup.h. */

#include <stdio.h>

#include <apr_hash.h>

#include "cgroup/vl_cgroup.h"

/* Name of the tree's root below the group in which the server was started, name of the
 * server's group in the tree, and name of the v1 group for threads in the account's group.
 * The file name of an account never begins with a dot, so it is never ".server". */
#define ROOT_NAME "/vhostlimit"
#define SERVER_NAME "/.server"
#define THREADS_NAME "/threads"

/* The hierarchy of one controller. */
typedef struct controller_t {
    int version;                /* cgroup version 1 or 2; 0: the module does not use it */
    const char *mount;          /* mount point of the hierarchy */
    const char *missing;        /* why the controller is unavailable; NULL: available */
} controller_t;

/* The groups of one account. */
typedef struct group_t {
    const char *name;           /* file name of the account */
    vl_cgroup_limits_t limits;  /* that the kernel's files have */
    int is_set;                 /* 1: the groups exist and have `limits` */
    int n_fds;                  /* descriptors of vl_place.h; 0: not open */
    int fds[1 + VL_CG_CONTROLLERS];     /* for threads, then one for each hierarchy; -1: none */
} group_t;

/* The tree survives a reload of the module, string literals do not: all strings here are
 * allocated in `pool`, see copy_constants(). */
struct vl_cgroup_t {
    apr_pool_t *pool;
    const char *backend;
    const char *path;               /* from the hierarchy's root; "" when off */
    const char *reason;
    const char *origin;             /* group in which the server was started; NULL: the
                                     * server has not moved into the tree */
    controller_t controllers[VL_CG_CONTROLLERS];
    const char *const *disks;       /* see vl_cgroup_disks() */
    apr_hash_t *accounts;           /* accounts that were added: file name -> group_t */
    const vl_cgroup_t *same;        /* the previous tree, if no group of it was removed and
                                     * the kernel is the same; else NULL */
    apr_uint64_t links;             /* vl_cgroup_links() after the configuration was read */
    apr_hash_t *left;               /* accounts with groups that could not be removed:
                                     * file name -> itself */
    vl_cgroup_t *earlier;           /* previous tree with another path that could not be
                                     * removed yet; a linked list */
};

/* Returns a controller for the i-th distinct mount point in use, i from 0; NULL: there are
 * no more. */
const controller_t *vl_cgroup_hierarchy(const vl_cgroup_t *cg, int i);
/* Returns the path of the group for the account's threads, allocated in p.  name: the
 * account's file name. */
const char *vl_cgroup_threads_path(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *name);

/* Returns the groups of an account that was added, or NULL.  p: for temporary strings. */
group_t *vl_cgroup_group(const vl_cgroup_t *cg, apr_pool_t *p, const char *account);
/* Returns the number of groups right below the tree's root and the server's group, in all
 * hierarchies: if it is the same, no group was removed. */
apr_uint64_t vl_cgroup_links(const vl_cgroup_t *cg);
/* Creates the group in every hierarchy in use.  Returns NULL or an error message. */
const char *vl_cgroup_make_group(const vl_cgroup_t *cg, apr_pool_t *p,
                                 const char *path);
/* Writes the limits of one controller for the group at `path`.  Does nothing if the
 * controller is not in use.  Returns NULL or an error message. */
const char *vl_cgroup_set(const vl_cgroup_t *cg, apr_pool_t *p,
                          vl_cgroup_controller_e controller, const char *path,
                          const vl_cgroup_limits_t *limits);
/* Returns the path of the group of the process in the cpu hierarchy, "" for the root group and
 * for a process that has ended.  pid: "self" is the caller. */
const char *vl_cgroup_of(const vl_cgroup_t *cg, apr_pool_t *p, const char *pid);
/* Records the groups of sites that a server which has ended has left in the tree as cg->left.
 * Finds none while another server uses the tree. */
void vl_cgroup_find_left(vl_cgroup_t *cg);
/* Moves the calling process, and those of its own group that descend from it, into the group at
 * `path` of the cpu hierarchy.  Returns NULL or an error message. */
const char *vl_cgroup_move_self(const vl_cgroup_t *cg, apr_pool_t *p,
                                const char *path);

/* vl_cgroup_mount.c finds where the kernel's controllers are mounted: with libcgroup if configure
 * defines VL_LIBCGROUP, else from /proc/self/mounts.  It is the only file that includes
 * <libcgroup.h>.  Main thread of the parent only. */

/* To be called before the first vl_cgroup_mount_find() of each configuration. */
void vl_cgroup_mount_init(void);
/* Returns the mount point of the controller in the given cgroup version, allocated in p.
 * NULL: that version does not have the controller. */
const char *vl_cgroup_mount_find(apr_pool_t *p, const char *controller,
                                 int version);
/* Returns the cgroup version of what is mounted at the path, 0 if it is something else. */
int vl_cgroup_mount_version(const char *path);
/* Exported for its unit test.  Returns the next mount point in a text like /proc/self/mounts with
 * a file system of the given type and option ("": any option).  NULL: there are no more. */
const char *vl_cgroup_mount_next(apr_pool_t *p, FILE *mounts, const char *type,
                                 const char *option);

#endif
