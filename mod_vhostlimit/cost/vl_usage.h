/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_USAGE_H
#define VL_USAGE_H

/*
 * Reads the CPU time that the back ends of accounts have used, from their cgroups.
 * One thread of one child reads at a time (vl_charge_reads_usage()), so there is no lock.
 * Each child has its own descriptors, and only for accounts whose back ends work. A file
 * stays open while its reading grows, and is closed after VL_USAGE_IDLE calls in which it
 * did not. Of the closed files, each call opens and reads VL_USAGE_LOOKS in rotation.
 * They are readable to all users. A late read loses nothing, because the kernel keeps
 * counting. The _post_config_ functions run in the parent, _child_ in the reading child.
 */

#include <apr_errno.h>
#include <apr_pools.h>

#include "cgroup/vl_cgroup.h"

#define VL_USAGE_IDLE 600
#define VL_USAGE_LOOKS 20
/* Readings between two checks of the processes in a cgroup, and of the processes that
 * the kernel has killed in it. */
#define VL_USAGE_INSIDE 10

typedef struct vl_usage_t vl_usage_t;

/* Parent: makes a reader for at most `most` accounts. Each is then added. */
vl_usage_t *vl_usage_post_config_create(apr_pool_t *p, const vl_cgroup_t *cg,
                                        apr_uint32_t most);
/* has_memory: the account has a memory limit, so the kernel may kill processes in its
 * cgroup. */
void vl_usage_post_config_add(vl_usage_t *usage, apr_uint32_t account,
                              const char *name, int has_memory);

/* us: total CPU time since the cgroup was made. It is less than the last time if the
 * cgroup was made anew. resident: a process has been in the cgroup for about a second,
 * so it belongs to a pool and is no CGI program. */
typedef void vl_usage_grown_fn(void *data, apr_uint32_t account,
                               apr_uint64_t us, int resident);

/* kills: as vl_usage_kills(). */
typedef void vl_usage_killed_fn(void *data, apr_uint32_t account,
                                apr_uint64_t kills);

/* Calls `grown` for each account whose reading differs from the last one in this child.
 * The first reading of a child always differs, unless it is 0. Calls `killed` when the
 * number of kills differs; the first one always does. */
void vl_usage_child_read(vl_usage_t *usage, vl_usage_grown_fn *grown,
                         vl_usage_killed_fn *killed, void *data);
/* Closes all files, because another child reads from now on. */
void vl_usage_child_close(vl_usage_t *usage);

/* Returns how many processes of the account the kernel has killed because of its memory
 * limit, since its cgroup was made. Opens and reads a file. Any process. */
apr_uint64_t vl_usage_kills(const vl_cgroup_t *cg, apr_pool_t *p,
                            const char *name);

/* Pure; exported for its test. Returns the number after "oom_kill" in the text of
 * memory.oom_control or memory.events, 0 if there is none. */
apr_uint64_t vl_usage_parse_kills(const char *text);

/* Pure; exported for its test. Reads microseconds from the text of cpuacct.usage or of
 * cpu.stat. Returns APR_EINVAL if it is neither. */
apr_status_t vl_usage_parse(const char *text, apr_uint64_t *ret_us);

#endif
