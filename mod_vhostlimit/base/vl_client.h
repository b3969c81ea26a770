/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CLIENT_H
#define VL_CLIENT_H

/*
 * Clients that leave while their connection waits: nothing is to run for them.
 *
 * A reset says so. An end of the input (FIN) does not: the client has closed the
 * connection, or only its sending side, and then waits for the answer, as HTTP
 * allows. TCP shows no difference until the server sends something: a closed
 * client answers that with a reset. So a client of HTTP/1.1 is sent "100
 * Continue", which every such client has to take, asked for or not (RFC 9110,
 * 15.2). To a client of HTTP/1.0 nothing may be sent before the answer (RFC 9110,
 * 15.2 as well): it counts as waiting. A TLS connection whose input has ended is
 * of no use to anybody.
 */

#include <apr.h>

typedef struct vl_client_t {
    int tls, http11;                /* what its connection speaks */
    int probed;                     /* it has been sent 100 (Continue) */
} vl_client_t;

/* Returns 1 if the client has gone. events: of epoll_wait() or poll(). */
int vl_client_is_gone(vl_client_t *client, int fd, apr_uint32_t events);
/* Asks the socket. */
apr_uint32_t vl_client_events(int fd);
/* Returns 1 if there is input that has not been read. */
int vl_client_has_sent(int fd);

#endif
