/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ARRIVAL_H
#define VL_ARRIVAL_H

/* Connections that have come and that the MPM has not seen: whose they are, and
 * where they wait.  The acceptor's thread (vl_accept.c) and the MPM's listener
 * share them; the lock is vl_park_lock(). */

#include <sys/socket.h>

#include <httpd.h>

#include "vl_park.h"
#include "vl_shm.h"

typedef struct vl_arrival_t vl_arrival_t;

/* Readable (an eventfd) while somebody may pass. */
int vl_arrival_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm);

/* A connection that was accepted; remote NULL: that another child has handed
 * on.  NULL: no memory, and it is closed. */
vl_arrival_t *vl_arrival_new(int fd, const struct sockaddr_storage *remote);
/* Puts it where it belongs.  One whose head is not complete is watched through
 * epoll_fd, with the arrival as the event's data. */
void vl_arrival_place(vl_arrival_t *arrival, int epoll_fd);
/* epoll_fd says that this one has sent more, or will send no more. */
void vl_arrival_revisit(vl_arrival_t *arrival, int epoll_fd,
                        apr_uint32_t events);
/* The next who may pass, NULL: nobody.  To be called by the MPM's listener. */
vl_arrival_t *vl_arrival_next(void);

/* The arrival becomes a socket of APR's, with its turn, and is no more. */
apr_status_t vl_arrival_socket(vl_arrival_t *arrival, apr_pool_t *p,
                               apr_socket_t **ret_sock);
/* The turn that such a socket carries; it is the caller's from now on.  0: the
 * socket came another way. */
int vl_arrival_turn(apr_socket_t *sock, vl_turn_t *ret_turn);

/* What time has changed: heads that have not come, waits that are over, slots
 * that are held for connections that the MPM does not take.  1: the MPM takes
 * nobody. */
int vl_arrival_tick(apr_int64_t now_us);

/* The descriptors of up to `most` arrivals, which are no more.  Returns how
 * many; 0: nobody is left.  _evict takes them from all places, and nothing is
 * granted to this child until the MPM asks again; _shed takes those in line. */
apr_size_t vl_arrival_evict(int *ret_fds, apr_size_t most);
apr_size_t vl_arrival_shed(int *ret_fds, apr_size_t most);

#endif
