/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HTTP2_H
#define VL_HTTP2_H

/* The threads that mod_http2 works with. */

#include <httpd.h>

/* Where the configuration does not say how many of them a child may have at most
 * (H2MaxWorkers) and a vhost is On, it is enough for those that wait; see
 * vl_park_sit(). */
void vl_http2_post_config(apr_pool_t *pconf, server_rec *main_server);

/* How many that is; 0: there is no HTTP/2, or nobody waits. */
apr_uint32_t vl_http2_workers(void);

/* Parked connections count as connections of the event MPM, which accepts no more
 * than AsyncRequestWorkerFactor allows. It is raised where the configuration does
 * not set it: descriptors are what limits parked connections. */
void vl_http2_let_wait(apr_pool_t *pconf, server_rec *main_server);

#endif
