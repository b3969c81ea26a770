/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_EXEMPT_H
#define VL_EXEMPT_H

/* VhostLimitExempt: requests that never wait and are never refused, such as
 * those of a health check. */

#include <apr_network_io.h>
#include <httpd.h>

/* By the vhost's expression.  One that fails exempts nobody. */
int vl_exempt(request_rec *r);

/* The same, of the first bytes of a connection that has not been accepted by
 * the MPM: a scratch request is made of the request line and the header lines.
 * What cannot be read so (TLS, a PROXY header) is not exempt yet. */
int vl_exempt_early(apr_pool_t *p, server_rec *s, const char *bytes,
                    apr_size_t len, apr_sockaddr_t *local,
                    apr_sockaddr_t *remote);

/* NULL, or why an expression cannot be used: it would look up other requests,
 * which the early one has none of. */
const char *vl_exempt_wrong(apr_pool_t *p, const char *text);

#endif
