/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PEEK_H
#define VL_PEEK_H

/* Which host do the first bytes of a connection ask for?  Pure parsers of what
 * came from outside; they only sort a connection into a queue, so what they
 * cannot read is left to Apache to judge. */

#include <apr.h>

typedef enum {
    VL_PEEK_MORE,               /* cannot be told from what has arrived, but
                                 * perhaps the host of a head */
    VL_PEEK_HOST,               /* complete, and names a host */
    VL_PEEK_NO_HOST             /* complete, or not what we can read: the
                                 * vhost is the default one of the address */
} vl_peek_e;

/* An ordinary name fits; a longer one is VL_PEEK_NO_HOST. */
#define VL_PEEK_HOST_SIZE 256

typedef struct vl_peek_t {
    char host[VL_PEEK_HOST_SIZE];   /* as sent, no port taken off */
    int http2;                      /* HTTP/2's preface (RFC 9113, 3.4) */
    int tls;                        /* host is from a ClientHello's SNI */
    int head;                       /* the method is HEAD */
    int http11;                     /* the protocol is HTTP/1.1 */
} vl_peek_t;

/* Reads a request head (RFC 9112) or a TLS ClientHello (RFC 8446, also split
 * over several records), either behind a PROXY protocol header v1 or v2.
 * A request head is complete when its empty line has come: only then would a
 * thread not have to wait for the client. */
vl_peek_e vl_peek(const char *bytes, apr_size_t len, vl_peek_t *ret_peek);

#endif
