/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HANDSHAKE_H
#define VL_HANDSHAKE_H

/*
 * Work of a connection before its first request, usually a TLS handshake. The connection
 * begins with a slot, because a handshake uses CPU time. As soon as it has to wait for the
 * client it releases the slot, and its thread is counted as occupied (vl_slot.h). So a
 * client that opens connections and sends nothing gets no slots, and not all threads.
 * There is no lock. The hooks of the connection call these functions on its thread, and
 * the cleanup of its pool may call vl_handshake_end() on another one.
 */

#include <httpd.h>

#include "core/vl_waiters.h"
#include "core/vl_shm.h"

/* Registers the input filter. */
void vl_handshake_register(void);

typedef struct vl_handshake_t vl_handshake_t;

/* Begins to charge the handshake. *grant holds a slot and lives longer than the
 * connection's filters. thread_us: the thread's CPU clock at the start. */
vl_handshake_t *vl_handshake_begin(conn_rec *c, vl_grant_t *grant, apr_int64_t thread_us);
/* The thread leaves the connection: charges what it has used for the handshake. In this and the
 * following functions handshake may be NULL: there was none. */
void vl_handshake_leave(vl_handshake_t *handshake);
/* The same when the first request has come. The thread stays counted (grant->occupies). */
void vl_handshake_end(vl_handshake_t *handshake);
/* The connection has been closed: charges what that has cost its thread. */
void vl_handshake_close(vl_handshake_t *handshake);

#endif
