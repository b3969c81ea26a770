/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_EXEMPT_H
#define VL_EXEMPT_H

/* VhostLimitExempt: requests that are never queued and never refused, such as the
 * requests of a health check.  The functions keep no state and need no lock; any thread
 * of a child process may call them. */

#include <apr_network_io.h>
#include <httpd.h>

/* Evaluates the expression of the request's vhost.  Returns 1 if the request is exempt.  An
 * expression that fails exempts no request. */
int vl_exempt(request_rec *r);

/* Returns a scratch request (vl_scratch.h), allocated in p, with the request line and the
 * header lines of the first bytes of a connection that the MPM has not accepted yet.  Returns
 * NULL if the bytes are no plain request head (TLS, or a PROXY header that the caller has not
 * skipped).  What depends on such a request is decided later. */
request_rec *vl_exempt_scratch(apr_pool_t *p, server_rec *s, const char *bytes,
                               apr_size_t len, apr_sockaddr_t *local,
                               apr_sockaddr_t *remote);

#endif
