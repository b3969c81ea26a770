/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ACCEPTOR_H
#define VL_ACCEPTOR_H

/* Connections are accepted early in each child process, classified by their first bytes,
 * which stay in the socket, and queued per site.  The MPM never sees a queued connection.
 * In place of each real listener the MPM polls a descriptor that is readable while a
 * connection is to be passed to it (vl_listener.h).
 *
 * The acceptor of this child process: the loop over its events and its timed work.
 * Owns the epoll set, the state of the acceptor (the table is in vl_acceptor.c), and the
 * exchange of connections with other children.
 *
 * Invariant: the listening sockets are in the epoll set only in the state LISTENING.
 *
 * There is no lock. One thread runs vl_acceptor_run(), and only it uses the state.
 * The callers are mod_vhostlimit.c, where the acceptor is a thread, and vl_prefork.c, where it is a
 * child process. request/ asks which it is. */

#include <signal.h>

#include <apr_errno.h>

#include "accept/vl_listener.h"

/* Registers the hook. */
void vl_acceptor_register(void);

/* --- a thread of each child ------------------------------------------------- */

/* Child, before its MPM starts its threads. Makes the acceptor and its thread, and takes over the
 * listeners where possible. The thread waits for vl_acceptor_child_begin(). Returns 1 if it took
 * them over. What prevents the thread is logged. */
int vl_acceptor_child_start(void);
/* Child, after vl_lease_child_init(), whose data the acceptor reads. It begins to accept. */
void vl_acceptor_child_begin(void);
/* Returns 1 if the acceptor is a thread of this child: it handles timers. Any thread. */
int vl_acceptor_is_thread(void);

/* --- one child for all (vl_prefork.c) --------------------------------------- */

/* Makes the epoll set, the classifier and the table of connections. is_prefork: this child
 * accepts for all children of the prefork MPM. Returns pass_fd (vl_newconn_child_init()), or
 * -1 if there are not enough descriptors. */
int vl_acceptor_open(int is_prefork);
/* vl_acceptor_run() cannot be called, because of rv: closes what was opened, and logs
 * that the acceptor cannot work in this child, with the consequence. pass_fd -1: nothing
 * was opened. */
void vl_acceptor_fail(int pass_fd, apr_status_t rv, const char *consequence);
/* Accepts connections until the MPM has closed its listeners, or the child ends. Then it closes the
 * real listeners, transfers or answers the connections here in at most 3 s, or 0.2 s if all children
 * end now (SIGTERM, SIGHUP), and returns. Where leases are granted it returns when the child ends.
 * Prefork: it also returns when the server is dormant and all connections here have passed to
 * other children; it may be called again then.
 * signals: signal mask while it sleeps, or NULL. */
void vl_acceptor_run(const vl_listeners_t *listeners, const sigset_t *signals);
/* Logs, at most once a minute, that connections from other children stay queued because
 * this child has no descriptors left. One thread of a child calls it. */
void vl_acceptor_warn_full(void);

#endif
