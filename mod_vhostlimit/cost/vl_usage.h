/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_USAGE_H
#define VL_USAGE_H

/* CPU time that the accounts' back ends have used, as their groups tell.
 *
 * One thread of one child reads at a time; each child has its own descriptors,
 * and only for accounts whose back ends are at work.  A file is kept open as
 * long as its reading grows, and is given up after VL_USAGE_IDLE calls in
 * which it did not.  Of the others VL_USAGE_LOOKS are looked at in each call,
 * in turn: their files are readable to everybody, and nothing is lost by
 * coming late, as the kernel counts on. */

#include <apr_errno.h>
#include <apr_pools.h>

#include "cgroup/vl_cgroup.h"

#define VL_USAGE_IDLE 600
#define VL_USAGE_LOOKS 20
/* Calls between two looks at who is in a group, and at who was killed in it. */
#define VL_USAGE_INSIDE 10

typedef struct vl_usage_t vl_usage_t;

/* Parent: room for so many accounts, then each of them. */
vl_usage_t *vl_usage_post_config_create(apr_pool_t *p, const vl_cgroup_t *cg,
                                        apr_uint32_t most);
/* has_memory: a limit of its memory, so the kernel may kill in its group. */
void vl_usage_post_config_add(vl_usage_t *usage, apr_uint32_t account,
                              const char *name, int has_memory);

/* us: in all since the group was made.  It may be less than the last time: the
 * group was made anew.  resident: a process has been in it for a second or so, a
 * pool's and not a program's. */
typedef void vl_usage_grown_fn(void *data, apr_uint32_t account,
                               apr_uint64_t us, int resident);

/* kills: as vl_usage_kills(). */
typedef void vl_usage_killed_fn(void *data, apr_uint32_t account,
                                apr_uint64_t kills);

/* Calls `grown` for accounts whose reading is another than at the last call
 * in this child; the first one a child makes is always another, unless 0.  And
 * `killed` when that number is another; the first one always is. */
void vl_usage_child_read(vl_usage_t *usage, vl_usage_grown_fn *grown,
                         vl_usage_killed_fn *killed, void *data);
/* Closes all files: another child reads from now on. */
void vl_usage_child_close(vl_usage_t *usage);

/* Processes of the account that the kernel has ended because of its memory
 * limit, since its group was made.  Opens and reads a file. */
apr_uint64_t vl_usage_kills(const vl_cgroup_t *cg, apr_pool_t *p,
                            const char *name);

/* Pure, here for its test: the number behind "oom_kill" in memory.oom_control
 * or memory.events; 0: there is none. */
apr_uint64_t vl_usage_parse_kills(const char *text);

/* Pure, here for its test: microseconds from the text of cpuacct.usage or of
 * cpu.stat.  APR_EINVAL: neither. */
apr_status_t vl_usage_parse(const char *text, apr_uint64_t *ret_us);

#endif
