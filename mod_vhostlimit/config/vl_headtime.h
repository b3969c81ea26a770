/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HEADTIME_H
#define VL_HEADTIME_H

/* Deadlines for the request head and the ClientHello of a new connection, the same that
 * httpd would apply.  mod_reqtimeout does not export its settings, so they are read from
 * the configuration tree.  The same is done for SSLEngine: the hooks of mod_ssl need a
 * connection.  The parent writes the settings in post_config; after that any thread may
 * read them without a lock. */

#include <httpd.h>

/* One stage of RequestReadTimeout, such as header=20-40,MinRate=500. */
typedef struct vl_stage_t {
    apr_int64_t initial_us;         /* 0: only Timeout applies */
    apr_int64_t max_us;             /* upper bound with MinRate; 0: no bound */
    apr_int64_t us_per_byte;        /* 1 / MinRate; 0: received bytes add no time */
} vl_stage_t;

typedef struct vl_headtime_t {
    vl_stage_t handshake, header;
    int tls;                        /* 1: connections begin with a TLS handshake */
} vl_headtime_t;

/* Parent, in post_config: sets head_time in the vl_conf_t of all servers. */
void vl_headtime_post_config(server_rec *main_server);

/* Returns the deadline of the request head (tls 0) or of the ClientHello (tls 1), on the
 * clock of vl_clock_us().  s: the default server of the local address.  began_us: start of
 * the head.  last_byte_us: arrival of the last byte.  bytes: those that MinRate counts. */
apr_int64_t vl_headtime_deadline(const server_rec *s, int tls,
                                 apr_int64_t began_us, apr_int64_t last_byte_us,
                                 apr_size_t bytes);

#endif
