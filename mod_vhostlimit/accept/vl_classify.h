/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LOOK_H
#define VL_LOOK_H

/* What the first bytes of a socket, which stay in it, say of its request: whose
 * it is, as Apache would map it.  The acceptor's thread only. */

#include <sys/socket.h>

#include <httpd.h>

void vl_look_child_init(apr_pool_t *pchild, server_rec *main_server);

typedef enum {
    VL_LOOK_CLOSED,                 /* by the client */
    VL_LOOK_NOTHING,                /* has come ... */
    VL_LOOK_SOME,                   /* ... of a head */
    VL_LOOK_ALL
} vl_look_e;

typedef struct vl_look_t {
    const server_rec *server;
    int tls, http2;
    int head, http11;               /* see vl_peek.h */
    int exempt;                     /* by VhostLimitExempt */
    apr_size_t bytes;               /* of a head that has not all come */
} vl_look_t;

/* ret_look is filled in with VL_LOOK_ALL.  With VL_LOOK_NOTHING and VL_LOOK_SOME
 * server is the default one of the address, and tls says whether a handshake is
 * expected or has begun. */
vl_look_e vl_look(int fd, const struct sockaddr_storage *local,
                  const struct sockaddr_storage *remote, socklen_t addr_len,
                  vl_look_t *ret_look);

#endif
