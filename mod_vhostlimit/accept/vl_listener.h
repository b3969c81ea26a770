/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LISTENER_H
#define VL_LISTENER_H

/* The sockets that Apache listens on: the acceptor (vl_accept.h) gets them, and
 * the MPM something else in their place. */

#include <sys/socket.h>

#include <httpd.h>
#include <ap_listen.h>

/* The local address of all connections to a listener; length 0: it listens on more than
 * one. */
typedef struct vl_local_t {
    struct sockaddr_storage address;
    socklen_t length;
} vl_local_t;

typedef struct vl_listeners_t {
    int *fds;                       /* the real listening sockets */
    vl_local_t *local;              /* of each */
    int n;
    const ap_listen_rec *first;     /* of those that were replaced, or NULL */
} vl_listeners_t;

/* The MPM has threads. */
int vl_listener_is_threaded(void);
/* There is one for HTTP. */
int vl_listener_is_there(void);
/* The MPM can do without them. */
int vl_listener_may_replace(void);

/* Parent.  Its acceptors do not wait in accept().  Apache is told so, which else
 * would not undo it in a configuration without this module. */
void vl_listener_open_logs(void);

/* Child.  What the MPM gets, one for each listener for HTTP.  pass_fd: readable
 * while somebody may pass.  NULL: there are not enough descriptors. */
int *vl_listener_child_stand_ins(apr_pool_t *pchild, int pass_fd);
/* They are not needed.  NULL: there are none. */
void vl_listener_child_discard(const int *stand_ins);
void vl_listener_child_replace(apr_pool_t *pchild, const int *stand_ins,
                               vl_listeners_t *ret_listeners);
/* The MPM sets its own accept function when its threads start, after
 * child_init: ours must come later.  Until then nobody can pass. */
void vl_listener_child_take_over(const vl_listeners_t *listeners,
                                 int (*ending)(void));
/* A child that accepts for others (vl_prefork.h) has listeners->n of its own,
 * since the MPM closes those in `real`.  0: there are not enough descriptors. */
int vl_listener_child_copy(apr_pool_t *pchild, const ap_listen_rec *real,
                           vl_listeners_t *listeners);
void vl_listener_child_close(const vl_listeners_t *listeners);

/* What an MPM that does not poll accepts from until our accept function is in
 * place: a listening socket that nobody connects to and that gives up after
 * 10 ms.  -1: no descriptor is left. */
int vl_listener_empty_fd(void);

#endif
