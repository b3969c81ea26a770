/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CHARGE_H
#define VL_CHARGE_H

/* The cost of requests: the CPU time of their threads, plus the work of back ends. Back-end
 * work is measured by the CPU time of the account's cgroup if possible, and otherwise
 * estimated by a clock (docs/design/005-cost.md).
 *
 * This file owns, in the segment, the clock of back-end work and each account's averages,
 * last readings and charges for the status page. It charges the account's flow in
 * vl_queue.h. Invariants: head.elsewhere is the sum of the children's; what is measured is
 * charged either as an average when a request ends, and corrected by vl_charge_usage(), or
 * not at all.
 *
 * Lock: the segment lock, which the functions take themselves unless stated otherwise.
 * Called by vl_slot.c at the end of a request, by the thread of the request while it runs
 * (vl_meter.h), and by the timer of each child (vl_usage.h). */

#include "core/vl_shm.h"

typedef struct vl_cost_t {
    apr_uint64_t busy_us;       /* from the start to the end */
    apr_uint64_t cpu_us;        /* CPU time of Apache's thread */
    int elsewhere;              /* 1: runs in a back end since ... */
    apr_uint64_t elsewhere_from;    /* ... this reading of the clock */
    apr_uint64_t charged_us;    /* part of it that vl_charge_part() has charged */
    int grouped;                /* 1: its back end is in the account's cgroup */
    const vl_client_id_t *client;   /* charged too (vl_clients.h), or NULL. If the request waited
                                     * as another one, that one is charged as well */
} vl_cost_t;

/* Counts a request that is sent to a back end (PHP-FPM, CGI, a proxied server), which uses
 * CPU time that its thread's clock does not show. Returns the reading of the clock for
 * vl_cost_t.elsewhere_from. */
apr_uint64_t vl_charge_elsewhere(vl_shm_t *shm, apr_int64_t now_us);

/* Returns a recent reading of the same clock. Takes no lock. */
apr_uint64_t vl_charge_elsewhere_clock(const vl_shm_t *shm);
/* vl_charge_elsewhere_pause() stops the clock of a request whose back end waits for the
 * client, too, and returns the value for vl_charge_elsewhere_go_on(). That one continues
 * the clock and returns a new reading in place of `from`. */
apr_uint64_t vl_charge_elsewhere_pause(vl_shm_t *shm, apr_int64_t now_us,
                                       apr_uint64_t from);
apr_uint64_t vl_charge_elsewhere_go_on(vl_shm_t *shm, apr_int64_t now_us,
                                       apr_uint64_t done);

/* Returns the estimated back-end work since that reading, us of CPU time. Returns 0 for an
 * account whose back ends are measured: vl_charge_usage() charges them. */
apr_uint64_t vl_charge_so_far(vl_shm_t *shm, apr_uint32_t account,
                              apr_uint64_t from);
/* Charges the account us of CPU time for a part of a request's work. */
void vl_charge_part(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us);

/* The same under the segment lock. */
void vl_charge_part_locked(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us);
/* Ends the charging of a request: counts its cost, refunds cost->charged_us, and returns the
 * whole cost, us of CPU time, for vl_queue_end(). Requires the segment lock. */
apr_uint64_t vl_charge_end_locked(vl_shm_t *shm, apr_uint32_t account,
                                  const vl_cost_t *cost);

/* Returns 1 if this child is the one that currently reads the usage of back ends. In that
 * case it also gives credit to the accounts with a cap. Every child calls it about ten
 * times a second. Dispatches. */
int vl_charge_reads_usage(vl_shm_t *shm, apr_int64_t now_us);
/* Charges the measured CPU time of the account's cgroup, unless hosts share the group
 * (vl_shm_post_config_hosts()). us: what its processes have used in total. resident: its back
 * ends are among them, so their requests need not be charged by the clock. */
void vl_charge_usage(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us,
                     int resident);

/* Returns 1 if requests have recently run in back ends that no group measures, because they
 * are outside of the tree. Takes no lock. */
int vl_charge_has_outside(const vl_shm_t *shm, apr_int64_t now_us);

/* Counts the processes of the account's group that the kernel killed for lack of memory.
 * kills: total since the group was created. vl_notice.c logs new ones. */
void vl_charge_kills(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t kills);

#endif
