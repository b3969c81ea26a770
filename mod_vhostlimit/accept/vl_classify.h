/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CLASSIFY_H
#define VL_CLASSIFY_H

/* What the first bytes of a socket, which stay in it, say of its request: whose
 * it is, as Apache would map it.  The acceptor's thread only. */

#include <sys/socket.h>

#include <httpd.h>

void vl_classify_child_init(apr_pool_t *pchild, server_rec *main_server);

typedef enum {
    VL_CLASSIFY_CLOSED,                 /* by the client */
    VL_CLASSIFY_NOTHING,                /* has come ... */
    VL_CLASSIFY_SOME,                   /* ... of a head */
    VL_CLASSIFY_ALL
} vl_classify_e;

typedef struct vl_classified_t {
    const server_rec *server;
    int tls, http2;
    int head, http11;               /* see vl_peek.h */
    int exempt;                     /* by VhostLimitExempt */
    apr_size_t bytes;               /* of a head that has not all come */
} vl_classified_t;

/* ret_look is filled in with VL_CLASSIFY_ALL.  With VL_CLASSIFY_NOTHING and VL_CLASSIFY_SOME
 * server is the default one of the address, and tls says whether a handshake is
 * expected or has begun. */
vl_classify_e vl_classify(int fd, const struct sockaddr_storage *local,
                  const struct sockaddr_storage *remote, socklen_t addr_len,
                  vl_classified_t *ret_look);

#endif
