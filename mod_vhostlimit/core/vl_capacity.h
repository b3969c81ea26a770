/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CAPACITY_H
#define VL_CAPACITY_H

/* Capacity thresholds: how many slots, and how many threads of a child process, one account
 * may hold. Some stay free for other accounts (vl_queue_may_take()). This file owns no state.
 * It computes the answers from the segment (vl_segment.h).
 *
 * A child that has the event or worker MPM runs requests on its threads. Under prefork every
 * child has one thread, so an account's processes are compared with the threshold instead of
 * its threads, and the acceptor is granted slots for all of them.
 *
 * All functions require the segment lock, except vl_capacity_count(), which takes it. Called
 * by the core; vl_capacity_count() is called by the acceptor. `child` is a column of the
 * segment. */

#include "core/vl_shm.h"

/* VhostLimitSlots auto: slots for each processor. A slot is runnable work (vl_queue.h), so
 * more would only make the kernel switch between more of it. */
#define VL_AUTO_PER_CPU 8
/* Returns the number of automatic slots. */
apr_uint32_t vl_capacity_auto(const vl_shm_t *shm);
/* Returns 1 if the account may hold one more of the server's slots. is_first: no other
 * account is due before it. */
int vl_capacity_may_take_slot(const vl_shm_t *shm, apr_uint32_t account, int is_first);

/* Counts the children that are not draining, after a change of one. */
void vl_capacity_count_children(vl_shm_t *shm);

/* Returns the number of requests that the child can run at once, or the number of
 * connections that the acceptor can relay. */
apr_uint32_t vl_capacity_most(const vl_shm_t *shm, apr_uint32_t child);
/* Returns the number of busy threads of the MPM in the child. */
apr_uint32_t vl_capacity_busy(const vl_shm_t *shm, apr_uint32_t child);
/* Returns how many more new connections the child can run. */
apr_uint32_t vl_capacity_left(const vl_shm_t *shm, apr_uint32_t child);
/* Returns 1 if the account may run one more new connection in the child. */
int vl_capacity_may_accept(const vl_shm_t *shm, apr_uint32_t child, apr_uint32_t account);
/* Returns 1 if the child can use one more grant of the account, for a new connection or for
 * a waiter that it already has. */
int vl_capacity_may_grant(const vl_shm_t *shm, apr_uint32_t child, apr_uint32_t account);
/* Returns 1 if the account exceeds its threshold in this child. */
int vl_capacity_is_exceeded(const vl_shm_t *shm, apr_uint32_t account);
/* Prefork only. Returns 1 if the account may use one more process. Its processes include
 * those of its idle connections. */
int vl_capacity_leaves_process(const vl_shm_t *shm, apr_uint32_t account);

/* Free capacity of this child (here) and of the other children together (elsewhere),
 * without the threads that each child reserves for accounts that hold none. ended: requests
 * that have ended in this child. */
typedef struct vl_capacity_t {
    apr_uint32_t here, elsewhere;
    apr_uint32_t most;              /* here, when no request runs */
    apr_uint32_t ended;             /* wraps around */
} vl_capacity_t;

/* Fills in *ret_capacity. Takes the segment lock. Not used under prefork. */
void vl_capacity_count(vl_shm_t *shm, vl_capacity_t *ret_capacity);

#endif
