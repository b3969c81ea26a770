/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HANDSHAKE_H
#define VL_HANDSHAKE_H

/* What a connection does before its first request: a TLS handshake, mostly, and
 * waiting for the client.  It comes with a slot, because a handshake burns CPU;
 * once it has to wait for the client it gives the slot back, because a slot is
 * for work, and its thread is counted as occupied (vl_thread.h).  So a client that
 * opens connections and sends nothing gets no slots, and not all threads. */

#include <httpd.h>

#include "core/vl_park.h"
#include "core/vl_shm.h"

void vl_handshake_register(void);
void vl_handshake_child_init(vl_shm_t *shm);

typedef struct vl_handshake_t vl_handshake_t;

/* turn is held, and outlives the connection's filters. */
vl_handshake_t *vl_handshake_begin(conn_rec *c, vl_grant_t *grant, apr_int64_t thread_us);
/* The first request has come, or the connection ends: what has not been charged
 * is.  The thread stays occupied (turn->occupies).  hello may be NULL. */
void vl_handshake_end(vl_handshake_t *handshake);

#endif
