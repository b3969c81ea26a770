/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HTTP2_H
#define VL_HTTP2_H

/* The threads that mod_http2 works with. */

#include <httpd.h>

/* How many threads mod_http2 has at most, in a child with so many threads of the
 * MPM; 0: there is no mod_http2. */
apr_uint32_t vl_http2_workers(int threads);

/* Parked connections count as connections of the event MPM, which accepts no more
 * than AsyncRequestWorkerFactor allows. It is raised where the configuration does
 * not set it: descriptors are what limits parked connections. */
void vl_http2_let_wait(apr_pool_t *pconf, server_rec *main_server);

#endif
