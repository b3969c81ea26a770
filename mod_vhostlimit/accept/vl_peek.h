/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PEEK_H
#define VL_PEEK_H

/* Pure parsers of the first bytes of a connection: which host does it ask for? The
 * input is not trusted. The result only chooses a queue; what cannot be parsed is left
 * to Apache. There is no state and no lock; any caller. */

#include <apr.h>

typedef enum {
    VL_PEEK_MORE,               /* incomplete; the host may be known already */
    VL_PEEK_HOST,               /* complete, and names a host */
    VL_PEEK_NO_HOST             /* complete, or not parsable: the server is the default
                                 * one of the address */
} vl_peek_e;

/* A longer name is VL_PEEK_NO_HOST. */
#define VL_PEEK_HOST_SIZE 256

typedef struct vl_peek_t {
    char host[VL_PEEK_HOST_SIZE];   /* as sent, with its port */
    int http2;                      /* HTTP/2's preface (RFC 9113, 3.4) */
    int tls;                        /* host is from the SNI of a ClientHello */
    int acme;                       /* a validation of ACME: a ClientHello that asks for acme-tls/1
                                     * (RFC 8737), or http-01 (RFC 8555, 8.3) */
    int is_plain;                   /* the target is a path, with at most one Host line and no
                                     * folded line: host is the one that httpd finds */
    int http11;                     /* the protocol is HTTP/1.1 */
    int forwarded;                  /* a proxy says that it sends the request for another client */
    apr_size_t proxy_length;        /* bytes of the PROXY header; 0: there is none */
    unsigned char client[16];       /* the address in a PROXY header ... */
    apr_size_t client_length;       /* ... 4 or 16 bytes; 0: there is none */
} vl_peek_t;

/* Parses a request head (RFC 9112) or a TLS ClientHello (RFC 8446, also split over
 * several records). A PROXY protocol header v1 or v2 may precede it. A request head is
 * complete when its empty line has arrived: only then does a thread not wait for the
 * client. */
vl_peek_e vl_peek(const char *bytes, apr_size_t len, vl_peek_t *ret_peek);

#endif
