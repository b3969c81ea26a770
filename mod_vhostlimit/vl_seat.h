/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SEAT_H
#define VL_SEAT_H

/* Threads of the MPM that wait or are taken otherwise, and slots whose thread
 * waits for the network: what may be granted (vl_slot.h) depends on them. */

#include "vl_shm.h"

/* Who waits with a thread of the MPM takes a seat first, and leaves it when it
 * no longer waits.  How many an account may hold: vl_admit_seat(); and half of
 * a child's threads never wait.  APR_EAGAIN: none. */
apr_status_t vl_seat_take(vl_shm_t *shm, apr_uint32_t account);
void vl_seat_leave(vl_shm_t *shm, apr_uint32_t account);
/* The same for a thread that is not free if it does not wait, however many do.
 * APR_EAGAIN: see vl_seat_crowds(). */
apr_status_t vl_seat_keep(vl_shm_t *shm, apr_uint32_t account);

/* A slot is held and the network is waited for, without a seat.  While as many
 * of an account's slots stall as are not stalled in all, it is granted no more:
 * who opens connections and sends nothing gets half of the slots. */
void vl_seat_stall(vl_shm_t *shm, apr_uint32_t account);
void vl_seat_unstall(vl_shm_t *shm, apr_uint32_t account);

/* No thread comes free for who waits as a socket: until this is over no seat is
 * taken in this child by an account that overfills it, having so many of its
 * threads that too few are left for others (vl_admit_more()). */
void vl_seat_press(vl_shm_t *shm, int pressed);
int vl_seat_overfills(vl_shm_t *shm, apr_uint32_t account);
/* It does, and this child is pressed. */
int vl_seat_crowds(vl_shm_t *shm, apr_uint32_t account);

/* Under prefork: tells one who sits in another process, for an account that has too
 * many of those, to give up; he asks whether it was him, once. */
void vl_seat_drop_one(vl_shm_t *shm);
int vl_seat_is_dropped(vl_shm_t *shm);

/* So many of the account's line in this child wait with a thread, said before
 * they are counted as waiting; the MPM need not take those. */
void vl_seat_sitting(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t n);
/* The same of connections that the MPM has, without a thread. */
void vl_seat_parked(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t n);
/* What is granted to this child is theirs, because there is no thread for
 * others. */
int vl_seat_only_threads(vl_shm_t *shm);

#endif
