/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HTTP2_H
#define VL_HTTP2_H

/*
 * The configuration of mod_http2's threads, and of the event MPM for connections that wait
 * in it. No state and no lock. mod_vhostlimit.c calls these functions.
 */

#include <httpd.h>

/* Returns the most threads that mod_http2 has in a child with this number of MPM
 * threads, 0 if mod_http2 is not loaded. Parent or child, after the configuration was
 * read. */
apr_uint32_t vl_http2_workers(int threads);

/* Raises AsyncRequestWorkerFactor unless the configuration sets it. Parked connections
 * count as connections of the event MPM, which accepts no more than this factor allows.
 * Descriptors are the real limit of parked connections. Parent, post_config. */
void vl_http2_let_wait(apr_pool_t *pconf, server_rec *main_server);

/* Logs a warning if mod_http2 has too few threads for sites with limits. Parent,
 * post_config. */
void vl_http2_check_workers(server_rec *main_server);

#endif
