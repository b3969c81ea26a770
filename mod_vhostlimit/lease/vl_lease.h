/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LEASE_H
#define VL_LEASE_H

/*
 * Leases: established connections share the server by CPU time.
 *
 * A lease lets one connection run requests until its quantum (us of CPU time)
 * is used up. While nothing is queued, a lease is renewed without the queue.
 * Otherwise the connection finishes the requests that it has begun, reads no
 * new one and is parked: it waits in the event MPM without a thread. The
 * dispatcher (vl_slot.h) grants the next lease.
 *
 * Over HTTP/2 the frames that open new streams are held above mod_ssl while the
 * connection has no lease (vl_frames.h); everything else passes.
 *
 * The MPM closes idle connections that are in CONN_STATE_KEEPALIVE as soon as
 * all its workers are busy for a moment. Connections with leases wait in the
 * state of parked ones instead, and KeepAliveTimeout is applied here.
 *
 * Only the event MPM can park. Under worker and prefork a connection keeps its
 * thread: it closes when its lease is used up and others are queued.
 *
 * The lock is vl_park_lock(); the waiters are in the queues of vl_park.h.
 */

#include <httpd.h>

#include "core/vl_park.h"

typedef struct vl_lease_t vl_lease_t;

void vl_lease_register(void);
/* ticks: vl_lease_tick() will be called in this child. workers: of mod_http2. */
void vl_lease_child_init(apr_pool_t *pchild, vl_shm_t *shm, int ticks,
                         apr_uint32_t accounts, apr_uint32_t workers);

/* Connections of this child can be parked. */
int vl_lease_parks(void);
/* A connection has its thread until it ends, and is counted so (worker). */
int vl_lease_has_thread(void);
/* See vl_thread_is_short(). */
int vl_lease_threads_are_short(void);

/* Before the connection is first processed, after a TLS handshake. *turn is
 * where the next request of the connection finds its slot; if it holds one now
 * the connection begins with a lease. ready: its first request can be read at
 * once. Lives as long as c->pool. */
vl_lease_t *vl_lease_make(conn_rec *c, vl_grant_t *grant, int ready);

/* The process_connection hook. Returns DECLINED while it runs the other hooks
 * itself, and where connections are not parked. */
int vl_lease_process(vl_lease_t *lease);

/* Where connections are not parked, a request asks for itself. */

/* The lease goes on: a slot, above the number of slots if need be. Returns 0 if
 * it is used up, or the client was idle for too long. stream: see
 * vl_slot_resume(). */
int vl_lease_resume(vl_lease_t *lease, int stream, vl_ticket_t *ret_ticket);
/* The next request has a slot that was queued for: a new lease. */
void vl_lease_renew(vl_lease_t *lease);
/* The lease will be used up when a request that begins now has ended. */
int vl_lease_ends(const vl_lease_t *lease);
/* The connection waits for its next request. Under worker it is closed after a tenth of
 * a second when threads are short (vl_lease_tick()). Returns 0 under prefork if processes
 * are short: the caller closes it then. */
int vl_lease_idles(vl_lease_t *lease);
/* Its client has gone while its request waited with a thread. */
int vl_lease_is_gone(vl_lease_t *lease);
/* Waits until the client sends something, for a tenth of a second. Returns 0 if
 * nothing came. */
int vl_lease_waits(const vl_lease_t *lease);

/* From now on the client speaks HTTP/2 (h2c by an upgrade): the connection
 * preface comes next. */
void vl_lease_switch(vl_lease_t *lease);

/* Before the socket of the connection is used. */
void vl_lease_io(vl_lease_t *lease);

/* The MPM closes the connection. */
void vl_lease_leave(vl_lease_t *lease);

/* A request of the connection belongs to this account, which queues requests
 * for at most timeout_us. */
void vl_lease_belongs(vl_lease_t *lease, apr_uint32_t account,
                      apr_int64_t timeout_us);
/* A request of the connection, of whatever account: its KeepAliveTimeout and its
 * protocol hold until the next. */
void vl_lease_request(vl_lease_t *lease, const request_rec *r);

/* A request of the connection was charged so many us. Any thread. */
void vl_lease_charge(vl_lease_t *lease, apr_uint64_t us);

/* A stream begins: the slot that the queue gave to the connection, if it has not
 * been taken yet. Any thread. */
int vl_lease_take(vl_lease_t *lease, vl_ticket_t *ret_ticket);

/* So many more workers of mod_http2 have a stream of the account that waits for its
 * client or its back end. Any thread. */
void vl_lease_workers_wait(apr_uint32_t account, int by);

/* Why the streams of the connection are refused; VL_REASON_NONE: they are not. */
vl_reason_e vl_lease_refused(const vl_lease_t *lease, apr_int64_t *ret_waited_us);

/* The acceptor, ten times a second: closes idle connections whose
 * KeepAliveTimeout has expired. */
void vl_lease_tick(apr_int64_t now_us);

/* Descriptors that connections with leases have. */
apr_uint32_t vl_lease_descriptors(void);
/* Descriptors are short: the oldest connection that closes and whose client has
 * not, or else the oldest idle one, is shut down, and the MPM closes it soon.
 * Returns 0 if there is none. */
int vl_lease_spare_locked(void);

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
