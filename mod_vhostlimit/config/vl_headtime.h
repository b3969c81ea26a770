/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HEADTIME_H
#define VL_HEADTIME_H

/* How long a client may take to send a request head or a ClientHello: as long as
 * Apache would let it.  mod_reqtimeout keeps its settings to itself, so they are
 * read from the configuration as it was written.  So does mod_ssl, and its hooks
 * want a connection. */

#include <httpd.h>

/* One stage of RequestReadTimeout. */
typedef struct vl_stage_t {
    apr_int64_t first_us;           /* 0: no limit but Timeout */
    apr_int64_t most_us;            /* with MinRate; 0: no bound */
    apr_int64_t us_per_byte;        /* 1 / MinRate; 0: bytes give no time */
} vl_stage_t;

typedef struct vl_headtime_t {
    vl_stage_t handshake, header;
    int tls;                        /* connections begin with a handshake */
} vl_headtime_t;

/* Parent: fills in the settings of all servers (vl_conf_t). */
void vl_headtime_post_config(server_rec *main_server);

/* When a client of server s, the default one of its address, is out of time.  Its
 * head began at began_us; the last of the bytes so far came at heard_us. */
apr_int64_t vl_headtime_deadline(const server_rec *s, int tls,
                                 apr_int64_t began_us, apr_int64_t heard_us,
                                 apr_size_t bytes);

#endif
