/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_GATE_H
#define VL_GATE_H

/* The gate: later requests of kept-alive connections wait parked in the MPM,
 * without a thread, until their vhost's turn comes.
 *
 * Before Apache reads the next request the gate looks at its bytes, which stay
 * in the socket.  Over share, the connection stands in its vhost's line and
 * goes back to the MPM to wait for input (CONN_STATE_ASYNC_WAITIO), with
 * SO_RCVLOWAT above what has arrived, so that it does not wake.  Setting it to
 * 1 makes the kernel look again at once (tcp_set_rcvlowat in net/ipv4/tcp.c),
 * the MPM wakes, and the gate finds the turn. */

#include "vl_conn.h"
#include "vl_vhostmap.h"

void vl_gate_register(apr_pool_t *p);
/* Only where the acceptor works: grants come through its descriptor. */
void vl_gate_child_init(server_rec *main_server, vl_shm_t *shm,
                        vl_vhostmap_t *map);

/* A connection of this child begins; its turn is what it was accepted with. */
vl_conn_t *vl_gate_connection(conn_rec *c, apr_socket_t *csd,
                              const vl_turn_t *turn);

#endif
