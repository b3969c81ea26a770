/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SCRATCH_H
#define VL_SCRATCH_H

/* A request that nobody has sent, for what Apache can only be asked with one.
 * Modules may see it: whoever writes a line of a log about it. */

#include <apr_network_io.h>
#include <httpd.h>

/* Of the server, and with no headers; all of it lives in p. */
request_rec *vl_scratch_request(apr_pool_t *p, server_rec *s,
                                apr_sockaddr_t *local, apr_sockaddr_t *remote);

#endif
