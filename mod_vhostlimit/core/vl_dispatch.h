/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_DISPATCH_H
#define VL_DISPATCH_H

/* The dispatcher gives free slots to queued waiters of all child processes.
 *
 * It chooses the account by the fair queue (vl_fair.h), within the capacity thresholds
 * (vl_admit.h), and then the child in which that account's first waiter probably waits.
 * The grant goes into that child's ring. Another child is woken through its eventfd, after
 * the lock is released. The calling child is not: it checks vl_slot_granted().
 *
 * This file owns the rings: grants enter them, are taken from them, and are revoked from
 * children that do not take them. Invariants: a single store makes a grant valid, takes it
 * or revokes it; a stalled child has an empty ring.
 *
 * Lock: the segment lock, which the functions take themselves unless their comment says
 * otherwise. Called by the core after every change that may make a waiter eligible. Children
 * call vl_dispatch_revoke_stalled() and vl_dispatch_wake_all() from their timers. */

#include "core/vl_shm.h"

/* Dispatches, and wakes every child that has grants: the process that made them may have
 * died before it woke the child. Also for the parent. */
void vl_dispatch(vl_shm_t *shm);
/* Dispatches and releases the lock, which the caller holds. */
void vl_dispatch_and_unlock(vl_shm_t *shm);
/* The same, and takes up to max grants of this child. Returns their number. */
apr_uint32_t vl_dispatch_take_and_unlock(vl_shm_t *shm, vl_ticket_t *ret_tickets,
                                         apr_uint32_t max);
/* Takes the next grant of this child, whose ring must not be empty. Requires the segment
 * lock. */
void vl_dispatch_take_locked(vl_shm_t *shm, vl_ticket_t *ret_ticket);

/* Revokes the grants of children that have not taken any for a second, and marks those
 * children as stalled. They are granted nothing until vl_slot_take() clears the mark. Every child calls this
 * periodically. */
void vl_dispatch_revoke_stalled(vl_shm_t *shm, apr_int64_t now_us);

/* Wakes all other children. Takes no lock: the sampler needs none, and the rescue process
 * (vl_rescue.c) may take none. The kernel knows no robust locks of a process that clone() made,
 * so a lock that it held at its death would never be free again. */
void vl_dispatch_wake_all(const vl_shm_t *shm);
/* Wakes the acceptor of this child. */
void vl_dispatch_wake_self(const vl_shm_t *shm);
/* If the account's queue is not full, wakes one other child that has deferred connections
 * of the account, preferably one that has no queued connection of it. */
void vl_dispatch_wake_deferred(vl_shm_t *shm, apr_uint32_t account);

#endif
