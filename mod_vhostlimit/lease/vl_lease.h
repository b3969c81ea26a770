/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LEASE_H
#define VL_LEASE_H

/*
 * A lease lets one established connection run requests until its quantum (us of CPU
 * time) is used up. While nothing is queued, a lease is renewed without the queue.
 * Otherwise the connection finishes the requests that have begun, reads no new one, and
 * is parked in the event MPM without a thread until it is granted the next lease
 * (vl_slot.h). Over HTTP/2 only the frames that open new streams are held, above mod_ssl
 * (vl_frames.h). Other MPMs cannot park: there a connection keeps its thread, and closes
 * when its lease is used up and other connections are queued.
 * The lock is vl_waiters_lock(). Functions in _locked need it; the caller of the others must
 * not hold it. The connection's own thread calls them unless a comment says otherwise.
 */

#include <httpd.h>

#include "core/vl_waiters.h"

typedef struct vl_lease_t vl_lease_t;

/* Lingers on the descriptor, of which it makes a copy. Returns 0 if it cannot. */
typedef int (*vl_lease_linger_fn)(int fd, apr_int64_t linger_us);
/* Returns 1 if the head of the next request of an idle connection is complete, and it may belong to
 * another site or client than the last one: its host is another, or the connection `varies`. The
 * head stays where it is. behind_filters: the connection's thread calls, without the lock. */
typedef int (*vl_lease_look_fn)(conn_rec *c, int varies, int behind_filters);
void vl_lease_register(vl_lease_linger_fn linger, vl_lease_look_fn look);
/* Parent, in check_config: if mod_http2 is loaded. */
void vl_lease_http2_register(void);
/* Child, before its threads start. ticks: vl_lease_tick() will be called in this child.
 * workers: most threads that mod_http2 has in this child. */
void vl_lease_child_init(apr_pool_t *pchild, vl_shm_t *shm, int ticks,
                         apr_uint32_t accounts, apr_uint32_t workers);

/* Puts the calling worker into SCHED_BATCH. Its threads do not preempt the listener when
 * the listener wakes them, so the listener classifies and passes on several connections
 * before a worker begins with the first. docs/design/003-fair-accept.md says what that
 * gains. */
void vl_lease_use_batch_policy(void);

/* Returns 1 if connections of this child can be parked. */
int vl_lease_parks(void);
/* Returns 1 if a connection keeps its thread until it ends and is counted so (worker). */
int vl_lease_has_thread(void);
/* See vl_slot_threads_are_short(). Any thread. */
int vl_lease_threads_are_short(void);

/* Makes the lease of a connection, after a TLS handshake and before the connection is
 * first processed. *grant: where the next request of the connection finds its slot. If
 * *grant holds one, the connection begins with a lease. ready: the first request can be
 * read at once. The lease lives as long as c->pool. */
vl_lease_t *vl_lease_make(conn_rec *c, vl_grant_t *grant, int ready);

/* Returns the key of the connection (vl_own.h) if its client is on this machine, else 0. Any thread. */
apr_uint32_t vl_lease_key(const vl_lease_t *lease);
/* Returns 1 if a connection has a timer that vl_lease_tick() handles. Takes no lock. */
int vl_lease_has_timers(void);
/* The server is dormant: the MPM alone handles an idle HTTP/1 connection from now on, until
 * vl_lease_process() is called. Returns 0 if the connection is not idle. */
int vl_lease_rest(vl_lease_t *lease);
/* A lease that was made while the MPM handled its connection: the connection is idle, or runs its
 * request alone. */
void vl_lease_was_idle(vl_lease_t *lease);

/* The process_connection hook. It runs the other hooks itself. Returns DECLINED while it
 * does so, and where connections are not parked. */
int vl_lease_process(vl_lease_t *lease);

/* Where connections are not parked, each request asks for its slot with these functions. */

/* Continues the lease with a slot (VL_ASK_LEASE, or without no_thread VL_ASK_KEPT). Returns 0 if the
 * lease is used up, or if the client was idle for too long. no_thread: `stream` of vl_slot_ask(). */
int vl_lease_resume(vl_lease_t *lease, int no_thread, vl_ticket_t *ret_ticket);
/* Begins a new lease: the next request has a slot that it was queued for. */
void vl_lease_renew(vl_lease_t *lease);
/* Returns 1 if the lease will be used up when a request that begins now has ended. */
int vl_lease_ends_with_next(const vl_lease_t *lease);
/* The connection waits for its next request. Under worker it is closed after a tenth of
 * a second when threads are short (vl_lease_tick()). Under prefork this returns 0 if
 * processes are short; the caller then closes the connection. */
int vl_lease_begin_idle(vl_lease_t *lease);
/* Returns 1 if the client has gone while its request waited with a thread. */
int vl_lease_is_gone(vl_lease_t *lease);
/* Waits until the client sends something, for a tenth of a second at most. Returns 0 if
 * nothing has come. */
int vl_lease_await_input(const vl_lease_t *lease);

/* The client speaks HTTP/2 from now on. Its connection preface comes next, also after an
 * upgrade to h2c. */
void vl_lease_begin_http2(vl_lease_t *lease);

/* Restores the descriptor of the socket. To be called before the socket is used. */
void vl_lease_restore_fd(vl_lease_t *lease);

/* The MPM closes the connection: the lease leaves the queue and returns unused slots. */
void vl_lease_close(vl_lease_t *lease);

/* A request of the connection belongs to this account, which queues requests for at most
 * timeout_us, and is from this client. Any thread. */
void vl_lease_set_account(vl_lease_t *lease, apr_uint32_t account,
                          apr_int64_t timeout_us, const vl_client_id_t *client);
/* Returns 1 if the connection, over HTTP/1, waited in another account before. */
int vl_lease_is_foreign(const vl_lease_t *lease, apr_uint32_t account);
/* Called for each request of the connection, limited or not. Its KeepAliveTimeout and
 * its protocol version apply until the next request. Any thread. */
void vl_lease_note_request(vl_lease_t *lease, const request_rec *r);

/* The request that the thread has read waits without it, in the queue of this account and client.
 * The caller returns SUSPENDED to httpd. With the answer vl_lease_process() runs the
 * process_connection hooks again, and *grant of vl_lease_make() has the slot or the refusal. grant:
 * how long the request has waited, and whether it waits at the head. Returns 0 if it cannot. */
int vl_lease_park_request(vl_lease_t *lease, const request_rec *r, apr_uint32_t account,
                          const vl_client_id_t *client, const vl_grant_t *grant);

/* The response has been sent. The thread has nearly finished with the connection. */
void vl_lease_sent(void);
/* Returns the reading of the calling thread's clock, us, up to which the run of an HTTP/2 connection
 * that has just ended is charged; 0 if it was not measured. */
apr_int64_t vl_lease_charged_until(const vl_lease_t *lease);

/* Reduces the credit by what a request of the connection was charged. Any thread. */
void vl_lease_charge(vl_lease_t *lease, apr_uint64_t us);

/* Takes a slot that the lease holds for a stream that begins. Returns 0 if there is
 * none. Any thread. */
int vl_lease_take_slot(vl_lease_t *lease, vl_ticket_t *ret_ticket);

/* Changes the number of mod_http2's workers whose stream of this account waits for its
 * client or its back end. Any thread. */
void vl_lease_workers_wait(apr_uint32_t account, int by);

/* Returns why the streams of the connection are refused, or VL_REASON_NONE if they are
 * not. Any thread. */
vl_reason_e vl_lease_refused(const vl_lease_t *lease, apr_int64_t *ret_waited_us);
/* Worker: returns how long an HTTP/2 connection waited before its handshake, to the first stream
 * that asks. Any thread. */
apr_int64_t vl_lease_take_wait(vl_lease_t *lease);

/* The acceptor calls this ten times a second. It closes idle connections whose
 * KeepAliveTimeout has expired. */
void vl_lease_tick(apr_int64_t now_us);

/* The acceptor polls this descriptor, if it is not -1, and calls vl_lease_handle_input() when it
 * is readable: suspended connections have events. */
int vl_lease_input_fd(void);
void vl_lease_handle_input(void);
/* Returns the number of such events, and of answers of the queue; wraps around. Any thread. */
apr_uint32_t vl_lease_arrivals(void);
/* Returns the number of those of the connection since the last call. Any thread. */
apr_uint32_t vl_lease_take_arrivals(vl_lease_t *lease);

/* Returns the number of descriptors that connections with leases use. Any thread. */
apr_uint32_t vl_lease_descriptors(void);
/* Descriptors are short: shuts down the oldest closing connection whose client has not
 * closed yet, or else the oldest idle one. The MPM closes it soon. Returns 0 if there is
 * none. */
int vl_lease_close_one_locked(void);

/* The child stops: idle connections are closed, queued ones stay queued. */
void vl_lease_child_drain(void);
/* Returns 1 if connections are queued in this child. */
int vl_lease_queued(void);
/* The shared memory is unmapped: connections that are closed from now on return no
 * slots. */
void vl_lease_forget(void);
/* The child is granted no more slots: queued connections run without one. */
void vl_lease_child_end(void);

#endif
