/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ARRIVAL_H
#define VL_ARRIVAL_H

/* New connections: whose they are, and where they wait until the MPM gets them:
 * a descriptor and a small record, no thread and no pool.
 *
 * The acceptor's thread (vl_accept.c), the MPM's listener and its workers share
 * them; the lock is vl_park_lock(). */

#include <sys/socket.h>

#include <httpd.h>

#include "accept/vl_transfer.h"
#include "core/vl_park.h"
#include "accept/vl_relay.h"
#include "core/vl_shm.h"

typedef struct vl_arrival_t vl_arrival_t;

/* epoll_fd: where those are watched that something is expected of, each with
 * its arrival as the event's data.  Returns a descriptor (an eventfd) that is
 * readable while somebody may pass. */
int vl_arrival_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, int epoll_fd, apr_uint32_t most);

/* --- the acceptor --------------------------------------------------------- */

/* A connection that was accepted is put where it belongs.  Without memory it is
 * closed. */
void vl_arrival_come(int fd, const struct sockaddr_storage *remote,
                     const struct sockaddr_storage *local,
                     socklen_t local_length);
/* The same of one that another child has passed on: what it has waited for, and
 * how long, goes on. */
void vl_arrival_adopt(int fd, const vl_passed_t *passed);
/* One of those that _evict or _shed took and nobody else has.  It is looked at by
 * vl_arrival_settle(). */
void vl_arrival_keep(int fd, const vl_passed_t *passed);
/* No descriptor is left for a newcomer: a connection that can do without is closed.
 * _SOON: the MPM has it, and closes it when it gets to it. */
typedef enum { VL_SPARED_NONE, VL_SPARED_SOON, VL_SPARED } vl_spared_e;
vl_spared_e vl_arrival_spare(void);
/* CPU time that the acceptor has used since it began: the cost of a refusal is
 * worked out from it.  Called now and then. */
void vl_arrival_measure(apr_int64_t cpu_us);
/* epoll_fd says that something has come from this one, or nothing will. */
void vl_arrival_revisit(vl_arrival_t *arrival, apr_uint32_t events);
/* After the events of one epoll_wait(): those who sent more before their last
 * answer was done are looked at, and who has gone is forgotten. */
void vl_arrival_settle(void);

/* What time has changed: heads that have not come, waits that are over, slots that
 * are held for connections that the MPM does not take.
 * 1: the MPM takes nobody. */
int vl_arrival_tick(apr_int64_t now_us);
/* The same by another thread while the acceptor hangs, in whatever but the lock.
 * Who has sent something that it has not looked at goes to the MPM as he is. */
int vl_arrival_stand_in(apr_int64_t now_us);

/* Takes up to `most` connections out of this child: their descriptors, and the
 * record that another child needs.  Returns how many; 0: none is left.  _evict
 * takes connections in any place, and this child is granted nothing until the MPM
 * asks again; _shed takes queued ones. */
apr_size_t vl_arrival_evict(int *ret_fds, vl_passed_t *ret_passed,
                            apr_size_t most);
apr_size_t vl_arrival_shed(int *ret_fds, vl_passed_t *ret_passed,
                           apr_size_t most);
/* The same of those that the MPM took and that no worker has begun.  Its threads
 * have ended. */
apr_size_t vl_arrival_unbegun(int *ret_fds, vl_passed_t *ret_passed,
                              apr_size_t most);
/* There are no other children: each is told so, as far as it can be (503), and
 * closed. */
void vl_arrival_dismiss(void);
/* How many are still here, but for those that the MPM has. */
apr_uint32_t vl_arrival_count(void);

/* --- the MPM's listener --------------------------------------------------- */

/* The next who may pass, NULL: nobody. */
vl_arrival_t *vl_arrival_next(void);
/* It becomes a socket of APR's, which lives in p. */
apr_status_t vl_arrival_socket(vl_arrival_t *arrival, apr_pool_t *p,
                               apr_socket_t **ret_sock);

/* --- the MPM in another process (vl_prefork.c) ---------------------------- */

/* The acceptor: who may pass is sent, one after the other, until that fails. */
typedef apr_status_t vl_arrival_send_fn(vl_item_t *item, int fd);
void vl_arrival_relay(vl_arrival_send_fn *send_one);
/* There: what was sent becomes a socket of APR's, which lives in p. */
apr_status_t vl_arrival_from(const vl_item_t *item, int fd, apr_pool_t *p,
                             apr_socket_t **ret_sock);

/* --- its workers ---------------------------------------------------------- */

/* What such a socket carries; it lives as long as the socket's pool. */
typedef struct vl_passport_t {
    vl_grant_t grant;             /* whoever takes it clears turn.holds */
    int ready;                  /* its first request can be read at once */
    int http2;                  /* it begins with the preface of HTTP/2 */
    vl_arrival_t *arrival;      /* NULL: a worker has begun with it */
} vl_passport_t;

/* A worker begins with the connection.  NULL: the socket came another way. */
vl_passport_t *vl_arrival_begin(apr_socket_t *sock);
/* The connection of this descriptor has had its last answer. It is shut down, and
 * waits here for its client to close, linger_us at most: that takes no second
 * worker.  The descriptor stays the caller's.  Returns 0 if that cannot be. */
int vl_arrival_linger(int fd, apr_int64_t linger_us);

#endif
