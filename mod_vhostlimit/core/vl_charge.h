/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CHARGE_H
#define VL_CHARGE_H

/* The cost of requests, in CPU time only: that of Apache's threads, which their own clocks
 * measure, and that of back ends, which the sampler measures (cost/vl_sampler.h,
 * docs/design/005-cost.md). Time in which nothing ran is never charged.
 *
 * The sampler learns of back ends' CPU time later than the request ends. So a request is
 * charged an advance at its end: its time in service, at the account's recent ratio of
 * back-end CPU time to time in service. vl_charge_backend() replaces the advances by what
 * was measured, so the sum is exact.
 *
 * This file owns, in the segment, each account's advances and its charges for the status
 * page. It charges the account in vl_fair.h. Invariant: each request is charged the
 * CPU time of its thread once, however it is split into parts.
 *
 * Lock: the segment lock, which the functions take themselves unless stated otherwise.
 * Called by vl_slot.c at the end of a request, by the timer of each child while it runs
 * (vl_meter.h), and by the sampler. */

#include "core/vl_shm.h"

typedef struct vl_cost_t {
    apr_uint64_t busy_us;       /* from the start to the end */
    apr_uint64_t cpu_us;        /* CPU time of Apache's thread */
    apr_uint64_t charged_us;    /* part of it that vl_charge_part() has charged */
    const vl_client_id_t *client;   /* charged too (vl_fair.h), or NULL. If the request waited
                                     * as another one, that one is charged as well */
} vl_cost_t;

/* Charges the account us of CPU time for a part of a request's work. */
void vl_charge_part(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us);
/* The same under the segment lock. */
void vl_charge_part_locked(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us);
/* Ends the charging of a request: counts its cost for the status page, and returns the whole
 * cost with the advance for its back ends, us of CPU time, for vl_fair_end(). Requires the
 * segment lock. */
apr_uint64_t vl_charge_end_locked(vl_shm_t *shm, apr_uint32_t account,
                                  const vl_cost_t *cost);

/* The CPU time, us, that this child's acceptor (prefork: the acceptor of all) and the MPM's listener need
 * for a new connection, and for input of one that the acceptor polls. It is charged with the request. 0: not
 * known yet. No lock. */
void vl_charge_set_arrival(vl_shm_t *shm, apr_int64_t us);
apr_int64_t vl_charge_arrival(const vl_shm_t *shm);

/* Sampler: charges us of CPU time that back ends have used for the account since the last
 * call, in place of the advances. by: how it was found. Call it for each such account about
 * ten times a second, also with 0. database_us: the part of databases. */
void vl_charge_backend(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us,
                       apr_uint64_t database_us, vl_cost_by_e by);
/* Sampler: the account's back ends have had no work for long. Advances are 0 from now on. */
void vl_charge_backend_idle(vl_shm_t *shm, apr_uint32_t account);

/* Gives credit to the accounts with a cap, and dispatches. Every child calls it about ten
 * times a second. Returns 1 to one of the children, which reads the kernel's counts of
 * killed processes then. */
int vl_charge_credit(vl_shm_t *shm, apr_int64_t now_us);
/* Counts the processes of the account's group that the kernel killed for lack of memory.
 * kills: total since the group was created. vl_notice.c logs new ones. */
void vl_charge_kills(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t kills);

#endif
