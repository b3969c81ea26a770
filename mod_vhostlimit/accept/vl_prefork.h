/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PREFORK_H
#define VL_PREFORK_H

/* The prefork MPM: one child accepts, classifies and queues connections for all. The
 * others get one connection each, when it is granted a slot.
 * Owns the state of that in a child: the moved listener list and the thread that moves
 * it. The lock of the segment decides which child is the acceptor (vl_relay.h).
 * Called from mod_vhostlimit.c. */

/* Child, before the MPM's loop, if vl_listener_obstacle() is NULL. Returns 1 if the listeners
 * were replaced; otherwise the MPM accepts as usual. */
int vl_prefork_child_init(void);

#endif
