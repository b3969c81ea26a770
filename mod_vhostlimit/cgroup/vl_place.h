/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PLACE_H
#define VL_PLACE_H

/* Moves threads and forked processes into the groups of accounts.  The kernel checks the
 * rights of the process that opened a cgroup file, so the parent opens the files as root
 * and the threads of the child processes write to them.  O_CLOEXEC hides the descriptors
 * from executed programs.  A thread moves in the cpu hierarchy only.  A process that a
 * thread forks to execute a program (mod_cgi) becomes a back end of the account, in all
 * hierarchies, before it executes: see vl_place_fork_for().  The parent fills the struct
 * in post_config; after that it is constant and needs no lock. */

#include <apr_errno.h>
#include <apr_pools.h>

#include "cgroup/vl_cgroup.h"

typedef struct vl_place_t {
    const vl_cgroup_t *cg;
    apr_uint32_t max_open, open;        /* descriptors */
    apr_uint32_t wanted;                /* descriptors that all accounts need */
    /* A thread that writes "0" to a file moves to its group; -1: there is none. */
    int server_fd;                      /* file of the server's group, in which threads start */
    const int **fds;                    /* group_t.fds, indexed by account */
} vl_place_t;

/* Instead of an account: none. */
#define VL_PLACE_NONE ((apr_uint32_t)-1)

/* Parent.  accounts: capacity of shared memory in accounts.  At most max_open descriptors
 * are opened; accounts that are added after that have none.  The tree keeps the descriptors
 * of accounts for the next configuration, until their groups are removed. */
vl_place_t *vl_place_post_config_create(apr_pool_t *p, const vl_cgroup_t *cg,
                                        apr_uint32_t accounts,
                                        apr_uint32_t max_open);
/* Parent: opens the files of the account.  APR_ENOSPC: max_open is reached.  APR_ENOENT:
 * the account has no group. */
apr_status_t vl_place_post_config_add(vl_place_t *place, apr_uint32_t account,
                                      const char *name);
/* Moves the calling thread to the account's group for threads, unless it is there already.
 * VL_PLACE_NONE: moves it back to the server's group. */
void vl_place_thread(const vl_place_t *place, apr_uint32_t account);

/* From now on processes that the calling thread forks become back ends of the account.
 * VL_PLACE_NONE: they stay in the group that they inherit. */
void vl_place_fork_for(const vl_place_t *place, apr_uint32_t account);

#endif
