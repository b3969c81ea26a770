/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SCRATCH_H
#define VL_SCRATCH_H

/* A scratch request: a request_rec that no client has sent, for httpd functions that need
 * one.  Other modules may see it, for example a hook that formats error log lines.  The
 * files keep no state and need no lock. */

#include <apr_network_io.h>
#include <httpd.h>

/* Returns a scratch request of the server without headers, allocated in p. */
request_rec *vl_scratch_request(apr_pool_t *p, server_rec *s,
                                apr_sockaddr_t *local, apr_sockaddr_t *remote);

#endif
