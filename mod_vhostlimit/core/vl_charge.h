/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CHARGE_H
#define VL_CHARGE_H

/* CPU time that is charged beside the ends of requests (vl_slot.h): that of back ends, which the sampler
 * measures (cost/vl_sampler.h, docs/design/005-cost.md), and of the acceptor for each connection; the credit
 * of capped accounts. Time in which nothing ran is never charged.
 *
 * This file owns, in the segment, what the acceptors have measured, and which child gives credit.
 *
 * Lock: the segment lock, which the functions take themselves unless stated otherwise.
 * Called by the timer of each child, and by the sampler. */

#include "core/vl_shm.h"

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
