/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_THREAD_H
#define VL_THREAD_H

/* Threads of the MPM, for the capacity of a child (vl_capacity.h).
 *
 * A running request has a slot and a thread. Other threads are occupied without a slot: the
 * thread of an HTTP/2 connection while its streams run on threads of mod_http2; a thread
 * that waits for its client (a TLS handshake, an upload, a response that is read slowly);
 * and a thread waiter. They are counted for their account, so that no account gets all
 * threads of a child (vl_admit_more()).
 *
 * This file owns, in the segment, occupied of accounts, children and cells, and
 * thread_waiters and parked of this child's cells. Invariant: each vl_thread_occupy() and
 * relative is undone once by vl_thread_free(); occupied of an account and of a child is the
 * sum of the cells.
 *
 * Lock: the segment lock, which the functions take themselves unless their comment says
 * otherwise. Called in children, by the threads that run connections and by vl_waiters.c. */

#include "core/vl_slot.h"

/* Counts one more thread of this child as occupied by the account without a slot. */
void vl_thread_occupy(vl_shm_t *shm, apr_uint32_t account);
/* The same if the account stays below its capacity threshold. Otherwise returns APR_EAGAIN
 * and counts nothing. */
apr_status_t vl_thread_try_occupy(vl_shm_t *shm, apr_uint32_t account);
/* Prefork: an idle connection keeps its process. Counts that process. Returns 0 if the
 * account could then get none of the `max` processes any more, so the connection should
 * close. */
int vl_thread_occupy_idle(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t max);
/* Undoes vl_thread_occupy() and dispatches. */
void vl_thread_free(vl_shm_t *shm, apr_uint32_t account);

/* The slot that is held belongs to a stream, which uses no thread of the MPM. */
void vl_thread_is_stream(vl_shm_t *shm, vl_ticket_t *ticket);

/* Sets the number of the account's thread waiters in this child. Call it before they are
 * counted as waiting. The MPM need not accept them. Takes no lock. */
void vl_thread_waiting(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t n);
/* The same for connections that are parked in the MPM. They need a thread of the MPM, but
 * the MPM need not accept them. */
void vl_thread_parked(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t n);
/* Returns 1 if requests are queued and one account could not get any more threads of this
 * child (vl_admit_more()). Prefork: returns 1 if no process is free, and `max` processes
 * exist or requests are queued. Takes no lock, so the answer is not exact. */
int vl_thread_is_short(const vl_shm_t *shm, apr_uint32_t max);
/* Returns 1 if the account exceeds its capacity threshold: for threads of this child, or
 * for processes under prefork. */
int vl_thread_exceeds_capacity(vl_shm_t *shm, apr_uint32_t account);

/* Returns 1 if the MPM accepts no connections. Grants of this child are then for
 * connections that the MPM already has. */
int vl_thread_only_in_mpm(vl_shm_t *shm);

#endif
