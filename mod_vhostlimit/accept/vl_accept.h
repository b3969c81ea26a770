/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ACCEPT_H
#define VL_ACCEPT_H

/* Connections are accepted early in each child process, classified by their first bytes,
 * which stay in the socket, and queued per site.  The MPM never sees a queued connection.
 * In place of each real listener the MPM polls a descriptor that is readable while a
 * connection is to be passed to it (vl_listener.h).
 *
 * This file chooses how: the acceptor (vl_acceptor.h) is a thread of each child, or under
 * prefork one child for all (vl_prefork.h).  If the listeners cannot be taken over
 * (vl_listener_obstacle()), nothing is queued here: the thread handles timers, and the grants
 * of requests that wait with their threads.  Prefork has no such thread then.
 *
 * Owns that choice.  It does not change after vl_accept_child_init(), so there
 * is no lock.  mod_vhostlimit.c is the caller; any thread may ask vl_accept_works(). */

/* Child, after vl_child_init() and before its MPM starts its threads. Makes the acceptor
 * and takes over the listeners where possible. */
void vl_accept_child_init(void);
/* Returns 1 if this child can follow the state of the server (vl_engage.h). */
int vl_accept_follows(void);
/* Parent: returns 1 if the MPM can accept while the server is dormant (vl_engage.h). */
int vl_accept_may_rest(void);
/* Returns 1 if connections are queued as sockets in this child; in the parent, if they
 * will be. */
int vl_accept_works(void);

#endif
