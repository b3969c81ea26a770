/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CLASSIFY_H
#define VL_CLASSIFY_H

/* Classification of a connection by its first bytes, which stay in the socket: finds
 * the server that Apache would map its request to.
 * Owns the cache of (address a client connected to, host that it asks for) -> server, as
 * Apache maps it: the answer is Apache's own for a scratch request.
 * There is no lock: only the acceptor's thread may call vl_classify(). */

#include <sys/socket.h>

#include <httpd.h>

#include "core/vl_shm.h"

/* Child, before its acceptor starts. */
void vl_classify_child_init(void);

typedef enum {
    VL_CLASSIFY_CLOSED,                 /* the client has closed the connection */
    VL_CLASSIFY_NOTHING,                /* no byte has arrived */
    VL_CLASSIFY_SOME,                   /* the head is incomplete */
    VL_CLASSIFY_ALL                     /* the head or the ClientHello is complete */
} vl_classify_e;

typedef struct vl_classified_t {
    const server_rec *server;
    apr_uint32_t account;           /* valid unless its site is Off */
    int tls, http2;
    int http11;                     /* see vl_peek.h */
    int exempt;                     /* by VhostLimitExempt */
    int forwarded;                  /* see vl_peek.h; 1 also with a PROXY header */
    int acme;                       /* a validation of ACME, which does not wait */
    vl_client_id_t client;          /* set if its site is On */
    apr_size_t bytes;               /* of an incomplete head ... */
    apr_size_t in_lines;            /* ... and of its complete lines; over TLS all bytes */
} vl_classified_t;

/* VL_CLASSIFY_ALL fills in ret_found, except for bytes and in_lines. VL_CLASSIFY_NOTHING
 * and VL_CLASSIFY_SOME set these, server, the default one of the address, and tls, which says
 * whether a handshake is expected or has begun. */
vl_classify_e vl_classify(int fd, const struct sockaddr_storage *local,
                          const struct sockaddr_storage *remote, socklen_t addr_len,
                          vl_classified_t *ret_found);

/* Returns a request for the log: that of the ClientHello that is in the socket, with the server and
 * the client that vl_classify() finds. Returns NULL without one. Any thread may call. */
request_rec *vl_classify_hello(conn_rec *c);

#endif
