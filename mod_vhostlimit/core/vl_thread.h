/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_THREAD_H
#define VL_THREAD_H

/*
 * Threads of the MPM, for the decision what may be granted (vl_capacity.h).
 *
 * A request that holds a slot has a thread. Other threads are occupied without
 * a slot: the one of an HTTP/2 connection while its streams run on threads of
 * mod_http2, and one that waits for its client (a TLS handshake, an upload, an
 * answer that is read slowly) or for a slot. They are counted for their
 * account, so that no account gets all the threads of a child
 * (vl_admit_more()).
 */

#include "core/vl_slot.h"

/* A connection of the account occupies a thread of this child without a slot. */
void vl_thread_occupy(vl_shm_t *shm, apr_uint32_t account);
/* The same if enough threads are left for other accounts, else APR_EAGAIN. */
apr_status_t vl_thread_try_occupy(vl_shm_t *shm, apr_uint32_t account);
/* Under prefork, a connection that is idle keeps its process. Returns 0 if the account
 * could have no more of `most` processes then: so it should close. */
int vl_thread_occupy_idle(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t most);
void vl_thread_free(vl_shm_t *shm, apr_uint32_t account);

/* The slot that is held is a stream's, which takes no thread of the MPM. */
void vl_thread_is_stream(vl_shm_t *shm, vl_ticket_t *ticket);

/* So many of the account's waiters in this child have a thread already. To be
 * called before they are counted as waiting: the MPM need not take those. */
void vl_thread_waiting(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t n);
/* The same of connections that are parked in the MPM. They need a thread of it,
 * but the MPM need not accept them. */
void vl_thread_parked(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t n);
/* Returns 1 if connections wait, and one account could have no more of this child's
 * threads (vl_admit_more()). Under prefork it returns 1 if no process is free, and
 * `most` processes exist or connections wait. It reads without the lock, so the
 * answer is not exact. */
int vl_thread_is_short(const vl_shm_t *shm, apr_uint32_t most);
/* The account has more of this child's threads, under prefork of the processes,
 * than one account may have. */
int vl_thread_exceeds_capacity(vl_shm_t *shm, apr_uint32_t account);

/* Returns 1 if the MPM accepts nothing. Slots that this child is granted are then for
 * connections that the MPM already has. */
int vl_thread_only_in_mpm(vl_shm_t *shm);

#endif
