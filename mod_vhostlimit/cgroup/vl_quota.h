/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_QUOTA_H
#define VL_QUOTA_H

/* Whether a quota of CPU time stops the server: one of its cgroup, or of a cgroup above it,
 * as a container and CPUQuota= of systemd have.  The processors of the machine may be idle
 * then, but not for this server.  Quotas of sites (VhostLimitCPU) are not seen here.  The
 * descriptors are set before the child processes start and never change, so no lock is
 * needed. */

#include <apr_pools.h>

/* Parent: opens cpu.stat of the server's cgroup and of those above it.  The child processes
 * inherit the descriptors; they are closed when p is cleared. */
void vl_quota_post_config(apr_pool_t *p);
/* Returns in how many periods of their quotas these cgroups were stopped so far; 0 if there is
 * no cgroup to read. */
apr_uint64_t vl_quota_child_stops(void);

/* Returns the number in the line "nr_throttled" of cpu.stat; 0 if there is none.  Pure;
 * declared for its test. */
apr_uint64_t vl_quota_parse(const char *text);

#endif
