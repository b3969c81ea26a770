/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_NEWCONN_QUEUE_H
#define VL_NEWCONN_QUEUE_H

/* What a new connection has to do with slots: it asks for one, waits for it in the queue
 * of its site, gets a grant or a refusal, and returns the grant if it cannot use it.
 * Owns the done() callback of the waiters that are connections. A connection is QUEUED
 * while its waiter waits; its grant is valid from then on.
 * The lock is vl_waiters_lock(). Functions that end in _locked need it, the others take
 * it. */

#include "accept/vl_classify.h"
#include "accept/vl_newconn_table.h"

/* Asks for a slot of the account. The connection is passed at once if a slot is free, or if it is
 * a validation of ACME; otherwise it is queued or deferred. */
void vl_newconn_request_slot(vl_newconn_t *newconn, const vl_conf_t *conf,
                             const vl_classified_t *found);
/* Removes a connection from the queues and returns it, a queued one if there is any.
 * queued 1: returns no deferred one. Returns NULL if there is none. */
vl_newconn_t *vl_newconn_unqueue_locked(int queued);
/* The MPM takes no connections, or takes them again. While it is stalled, this child is
 * granted nothing. */
void vl_newconn_set_mpm_stalled_locked(int stalled);
/* Returns the slot and the thread of a grant. The child is paused, so that it is
 * granted nothing in exchange. */
void vl_newconn_return_grant_locked(vl_grant_t *grant);
/* Clears a grant that holds neither a slot nor a thread. */
void vl_newconn_clear_grant(vl_newconn_t *newconn);

/* The client of a connection in QUEUED or FOR_MPM has gone: counts it, returns its grant
 * or leaves the queue, and closes the connection. */
void vl_newconn_drop_gone_locked(vl_newconn_t *newconn);
/* Returns the first connection in FOR_MPM whose client is still there, or NULL. Drops
 * the connections before it. */
vl_newconn_t *vl_newconn_first_for_mpm_locked(void);

/* Closes one connection if the connections here use more than their part of the
 * descriptors. The rest is for the MPM's threads. vl_newconn_free_descriptor() chooses it. */
void vl_newconn_limit_descriptors_locked(void);

#endif
