/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SCRATCH_H
#define VL_SCRATCH_H

/* A scratch request: a request_rec that no client has sent, for httpd functions that need
 * one.  Other modules may see it, for example a hook that formats error log lines.  The
 * files keep no state and need no lock. */

#include <apr_buckets.h>
#include <apr_network_io.h>
#include <httpd.h>

/* Returns a scratch request of the server without headers, allocated in p. */
request_rec *vl_scratch_request(apr_pool_t *p, server_rec *s,
                                apr_sockaddr_t *local, apr_sockaddr_t *remote);

/* Reads the first bytes of a connection into the scratch request with the functions by which
 * httpd reads a request (ap_read_request(), protocol.c): the request line, the target, the
 * header lines, the host name and the server. server: the one that the Host line names, or NULL:
 * httpd's search, which compares all names. alloc: of the calling thread. Returns 0 if httpd would
 * refuse the head. */
int vl_scratch_read(request_rec *r, server_rec *server, const char *bytes, apr_size_t len,
                    apr_bucket_alloc_t *alloc);

#endif
