/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PLACE_H
#define VL_PLACE_H

/* Moving into an account's group.  The kernel asks for the rights of whoever
 * opened the file, so the parent opens it as root and a child's thread writes
 * itself in; O_CLOEXEC keeps it from what is executed.
 *
 * A thread moves for CPU time only.  A process that a thread forks in order to
 * execute a program (mod_cgi) is made the account's back end, in all
 * hierarchies, before it executes: say so by vl_place_fork_for(). */

#include <apr_errno.h>
#include <apr_pools.h>

#include "cgroup/vl_cgroup.h"

typedef struct vl_place_t vl_place_t;

#define VL_PLACE_NONE ((apr_uint32_t)-1)

/* Parent.  The descriptors are closed with p, and no more than `most` are
 * opened: accounts that come later have none. */
vl_place_t *vl_place_post_config_create(apr_pool_t *p, const vl_cgroup_t *cg,
                                        apr_uint32_t accounts,
                                        apr_uint32_t most);
/* APR_ENOSPC: no descriptor was left for it; APR_ENOENT: it has no group. */
apr_status_t vl_place_post_config_add(vl_place_t *place, apr_uint32_t account,
                                      const char *name);
/* How many are open, and how many all accounts would need. */
apr_uint32_t vl_place_open_count(const vl_place_t *place);
apr_uint32_t vl_place_wanted_count(const vl_place_t *place);

/* For vl_place_enter(): of the account's threads; of the server, where every
 * thread begins.  -1: there is none, all stay where they are. */
int vl_place_thread_fd(const vl_place_t *place, apr_uint32_t account);
int vl_place_home_fd(const vl_place_t *place);

/* 1: what is forked for the account is in its group. */
int vl_place_forks(const vl_place_t *place, apr_uint32_t account);

/* The calling thread moves.  APR_ENOENT or ENODEV: the group is gone. */
apr_status_t vl_place_enter(int fd);

/* The calling thread works for the account from now on, VL_PLACE_NONE: for
 * nobody, and moves there unless it is there. */
void vl_place_thread(const vl_place_t *place, apr_uint32_t account);

/* What the calling thread forks from now on is the account's; VL_PLACE_NONE:
 * nobody's. */
void vl_place_fork_for(const vl_place_t *place, apr_uint32_t account);

#endif
