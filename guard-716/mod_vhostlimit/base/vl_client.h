/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CLIENT_H
#define VL_CLIENT_H

/* Detects clients that close a queued connection, so that their requests are not run.  A
 * reset is certain.  A FIN is not: the client has closed the connection, or only its
 * sending side, and waits for the response, as HTTP allows.  TCP shows the difference only
 * when the server sends data: a closed client answers with a reset.  So an HTTP/1.1 client
 * gets "100 Continue", which it must accept at any time (RFC 9110, 15.2).  An HTTP/1.0
 * client must not get data before the response (ibid.), so it counts as present.  A TLS
 * connection after the end of its input is useless and counts as closed.  There is no lock:
 * only one thread at a time may use a vl_client_t. */

#include <apr.h>

typedef struct vl_client_t {
    int tls, http11;                /* protocol of the connection */
    int probed;                     /* 1: "100 Continue" has been sent */
} vl_client_t;

/* Returns 1 if the client has closed the connection.  events: of epoll_wait() or poll().
 * May send "100 Continue", once for each connection. */
int vl_client_is_gone(vl_client_t *client, int fd, apr_uint32_t events);
/* Returns the current events of the socket, of POLLRDHUP, POLLHUP and POLLERR; never
 * blocks. */
apr_uint32_t vl_client_events(int fd);
/* Returns 1 if the socket has unread input; never blocks. */
int vl_client_has_sent(int fd);

#endif
