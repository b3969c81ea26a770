/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LEASE_H
#define VL_LEASE_H

/*
 * Leases: established connections share the server by CPU time.
 *
 * A lease lets one connection run requests until its quantum (us of CPU time)
 * is used up. While nothing is queued, a lease is renewed without the queue.
 * Otherwise the connection finishes the requests that it has begun, reads no
 * new one and is parked: it waits in the event MPM, in CONN_STATE_ASYNC_WAITIO,
 * without a thread. The dispatcher (vl_slot.h) grants the next lease.
 *
 * Over HTTP/2 the frames that open new streams are held above mod_ssl while the
 * connection has no lease (vl_frames.h); everything else passes.
 *
 * The MPM closes idle connections that are in CONN_STATE_KEEPALIVE as soon as
 * all its workers are busy for a moment. Connections with leases wait in
 * CONN_STATE_ASYNC_WAITIO instead, and KeepAliveTimeout is applied here.
 *
 * Needs an MPM with AP_MPMQ_CAN_WAITIO (httpd 2.4.63 or newer, event). The lock
 * is vl_park_lock(); the waiters are in the queues of vl_park.h.
 */

#include <httpd.h>

#include "vl_park.h"

typedef struct vl_lease_t vl_lease_t;

void vl_lease_register(void);
void vl_lease_child_init(apr_pool_t *pchild, vl_shm_t *shm);

/* The MPM can park connections. */
int vl_lease_is_possible(void);

/* Before the connection is first processed, after a TLS handshake. *turn is
 * where the next request of the connection finds its slot; if it holds one now
 * the connection begins with a lease. Lives as long as c->pool. */
vl_lease_t *vl_lease_make(conn_rec *c, vl_turn_t *turn);

/* The process_connection hook. Returns DECLINED while it runs the other hooks
 * itself. */
int vl_lease_process(vl_lease_t *lease);

/* From now on the client speaks HTTP/2 (h2c by an upgrade): the connection
 * preface comes next. */
void vl_lease_switch(vl_lease_t *lease);

/* The MPM closes the connection. */
void vl_lease_leave(vl_lease_t *lease);

/* A request of the connection belongs to this account, which queues requests
 * for at most timeout_us (0: it does not queue), and whose connections wait
 * idle_us for their next request. */
void vl_lease_belongs(vl_lease_t *lease, apr_uint32_t account,
                      apr_int64_t timeout_us, apr_int64_t idle_us);

/* A request of the connection was charged so many us. Any thread. */
void vl_lease_charge(vl_lease_t *lease, apr_uint64_t us);

/* A stream begins: the slot that the queue gave to the connection, if it has not
 * been taken yet. Any thread. */
int vl_lease_take(vl_lease_t *lease, vl_ticket_t *ret_ticket);

/* Why the streams of the connection are refused; VL_REASON_NONE: they are not. */
vl_reason_e vl_lease_refused(const vl_lease_t *lease, apr_int64_t *ret_waited_us);

/* The acceptor, ten times a second: closes idle connections whose
 * KeepAliveTimeout has expired. */
void vl_lease_tick(apr_int64_t now_us);

/* The child stops: idle connections are closed, queued ones wait on. */
void vl_lease_child_leave(void);
/* 1: connections are queued in this child. */
int vl_lease_queued(void);
/* The shared memory is unmapped: connections that are closed from now on give
 * nothing back. */
void vl_lease_forget(void);
/* Nothing is granted to this child any more: queued connections run. */
void vl_lease_child_end(void);

#endif
