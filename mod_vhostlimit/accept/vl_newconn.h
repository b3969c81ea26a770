/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_NEWCONN_H
#define VL_NEWCONN_H

/* New connections from accept() until a worker of the MPM begins with them:
 * classification, queueing, and the ways out of this child. A queued connection costs a
 * descriptor and a small record: no thread and no pool.
 * Owns the table of these connections; vl_newconn.c has their states.
 * The lock is vl_waiters_lock(). Each function takes it itself.
 * Callers: the acceptor (vl_acceptor.c), the MPM's listener thread (vl_listener.c), its
 * workers (request/), and the watchdog while the acceptor is stalled. */

#include <sys/socket.h>

#include <httpd.h>

#include "accept/vl_transfer.h"
#include "core/vl_waiters.h"
#include "accept/vl_relay.h"
#include "core/vl_shm.h"

typedef struct vl_newconn_t vl_newconn_t;

/* Makes the empty table. Returns a descriptor (an eventfd) that is readable while a
 * connection is to be passed to the MPM, or -1 if no descriptor is left. epoll_fd:
 * connections that wait for an event are added to it, with the vl_newconn_t as the data of
 * the event. */
int vl_newconn_child_init(int epoll_fd);

/* --- the acceptor --------------------------------------------------------- */

/* Classifies an accepted connection and moves it to its next state. Closes it if
 * memory is short. */
void vl_newconn_accepted(int fd, const struct sockaddr_storage *remote,
                         const struct sockaddr_storage *local, socklen_t local_length);
/* The same for a connection that another child has transferred. The time that it was
 * queued, and the time since its head began, go on. is_back: it is from vl_newconn_take(), and no other child
 * has received it. vl_newconn_after_events() classifies it then. */
void vl_newconn_received(int fd, const vl_passed_t *passed, int is_back);
typedef enum {
    VL_FREED_NONE,      /* no connection can be closed */
    VL_FREED_SOON,      /* the MPM has it and will close it */
    VL_FREED            /* a descriptor is free now */
} vl_freed_e;
/* Returns 1 if connections use less than half of the descriptors that they may use. */
int vl_newconn_has_descriptors(void);
/* Closes one connection because no descriptor is left. */
vl_freed_e vl_newconn_free_descriptor(void);
/* Measures vl_charge_arrival(). cpu_us: CPU time that the acceptor has used since it began.
 * Called about ten times a second. */
void vl_newconn_measure_arrivals(apr_int64_t cpu_us, apr_int64_t now_us);
/* Handles an event of epoll_fd: input, or the end of the connection. */
void vl_newconn_handle_event(vl_newconn_t *newconn, apr_uint32_t events);
/* Called after the events of each epoll_wait(). Classifies connections whose transfer
 * failed, and frees released records. */
void vl_newconn_after_events(void);

/* Called ten times a second. Handles heads that are too late, queue timeouts, and
 * slots of connections that the MPM does not take. Returns 1 if the MPM is stalled: it
 * asks for no connection. while_stalled: the watchdog calls, while the acceptor is stalled without holding the
 * lock. Connections with input that was not classified yet are passed to the MPM as they are. */
int vl_newconn_tick(apr_int64_t now_us, int while_stalled);

/* Connections between two children: their descriptors, and what the receiver needs to
 * know of each. */
typedef struct vl_batch_t {
    apr_size_t n;
    int fds[VL_TRANSFER_MAX];
    vl_passed_t passed[VL_TRANSFER_MAX];
} vl_batch_t;

typedef enum {
    VL_TAKE_WAITING,    /* queued ones, ones with incomplete heads, and ones that the MPM
                         * has not taken yet. This child is granted nothing from then on
                         * until its MPM asks for a connection. */
    VL_TAKE_QUEUED,     /* queued ones, and ones that need no grant and that the MPM has not
                         * taken yet */
    VL_TAKE_UNBEGUN     /* ones that the MPM took and no worker has begun. The MPM's
                         * threads have ended before. */
} vl_take_e;
/* Takes up to `max` connections out of this child, at most VL_TRANSFER_MAX. n is 0 if
 * none is left. */
void vl_newconn_take(vl_take_e which, apr_size_t max, vl_batch_t *ret_batch);
/* Prefork, the server is dormant: gives all connections that wait here to the MPM, unclassified. */
void vl_newconn_pass_all(void);
/* No other child is left: answers requests that were read with 503 and closes all
 * connections. */
void vl_newconn_answer_all(void);
/* Returns the number of queued connections here. Takes no lock: it may have just changed. */
apr_uint32_t vl_newconn_queued(void);
/* Returns the number of connections here. Connections that the MPM has do not count. */
apr_uint32_t vl_newconn_count(void);

/* --- the MPM's listener --------------------------------------------------- */

/* Returns 1 if vl_newconn_next() has to be called, because its descriptor is readable. No lock. */
int vl_newconn_for_mpm(void);
/* Makes an APR socket of the next connection for the MPM. It lives in p. Returns APR_EAGAIN if there is no
 * connection. *ret_csd is NULL then. */
apr_status_t vl_newconn_next(apr_pool_t *p, void **ret_csd);

/* --- the MPM in another process (vl_prefork.c) ---------------------------- */

/* Acceptor: sends the connections for the MPM in order, until one cannot be sent. A
 * connection that was sent is closed here. */
void vl_newconn_relay(void);
/* Child process: makes an APR socket of a connection that the acceptor sent. It lives
 * in p. */
apr_status_t vl_newconn_relayed_socket(const vl_item_t *item, int fd, apr_pool_t *p,
                                       apr_socket_t **ret_sock);

/* --- its workers ---------------------------------------------------------- */

/* Data of such a socket. It lives as long as the socket's pool. */
typedef struct vl_conninfo_t {
    vl_grant_t grant;             /* the worker that takes the slot clears grant.holds */
    int ready;                  /* the first request can be read at once */
    int http2;                  /* begins with the preface of HTTP/2 */
    apr_int64_t hello_us;       /* how long its head or ClientHello took to arrive */
    vl_newconn_t *newconn;      /* NULL: a worker has begun with the connection */
} vl_conninfo_t;

/* Called when a worker begins with the connection. Returns NULL if the socket did not
 * come from here. */
vl_conninfo_t *vl_newconn_begin(apr_socket_t *sock);
/* Shuts down a connection whose last answer has been sent. A duplicate of fd waits
 * here until the client closes, for at most linger_us; no worker is needed. fd stays
 * the caller's. Returns 0 if there is no descriptor or no memory. */
int vl_newconn_linger(int fd, apr_int64_t linger_us);

#endif
