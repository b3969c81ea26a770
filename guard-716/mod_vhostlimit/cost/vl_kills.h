/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_KILLS_H
#define VL_KILLS_H

/*
 * Reads how many processes of each site the kernel has killed because of VhostLimitMemory.
 * Only accounts with a memory limit are added. One thread of one child reads at a time
 * (vl_charge_credit()), so there is no lock. The files are readable to all users.
 */

#include <apr_errno.h>
#include <apr_pools.h>

#include "cgroup/vl_cgroup.h"

/* Calls of vl_kills_child_read() between two readings. */
#define VL_KILLS_EVERY 10

typedef struct vl_kills_t vl_kills_t;

/* Parent: makes a reader for at most `most` accounts. Each is then added. */
vl_kills_t *vl_kills_post_config_create(apr_pool_t *p, const vl_cgroup_t *cg,
                                        apr_uint32_t most);
void vl_kills_post_config_add(vl_kills_t *kills, apr_uint32_t account, const char *name);

/* Calls `killed` for each account whose number of kills differs from the last reading in
 * this child; the first reading always does. n: as vl_kills_of(). */
typedef void vl_kills_fn(void *data, apr_uint32_t account, apr_uint64_t n);
void vl_kills_child_read(vl_kills_t *kills, vl_kills_fn *killed, void *data);

/* Returns how many processes of the account the kernel has killed because of its memory
 * limit, since its cgroup was made. Opens and reads a file. Any process. */
apr_uint64_t vl_kills_of(const vl_cgroup_t *cg, apr_pool_t *p, const char *name);

/* Pure; exported for its test. Returns the number after "oom_kill" in the text of
 * memory.oom_control or memory.events, 0 if there is none. */
apr_uint64_t vl_kills_parse(const char *text);

#endif
