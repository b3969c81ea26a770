/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ACCEPTOR_H
#define VL_ACCEPTOR_H

/* The acceptor of this child process: the loop over its events and its timed work.
 * Owns the epoll set, the state of the acceptor (the table is in vl_acceptor.c), and the
 * exchange of connections with other children.
 *
 * Invariant: the listening sockets are in the epoll set only in the state LISTENING.
 *
 * There is no lock. One thread runs vl_acceptor_run(), and only it uses the state. The
 * functions that other threads may call say so.
 * The callers are vl_accept.c, where the acceptor is a thread, and vl_prefork.c, where it
 * is a child process. */

#include <signal.h>

#include <apr_errno.h>

#include "accept/vl_listener.h"

/* Makes the epoll set, the classifier and the table of connections. is_prefork: this child
 * accepts for all children of the prefork MPM. Returns pass_fd (vl_newconn_child_init()), or
 * -1 if there are not enough descriptors. */
int vl_acceptor_open(int is_prefork);
/* Makes the acceptor watch vl_lease_input_fd(). After vl_lease_child_init(). */
void vl_acceptor_watch_leases(void);
/* vl_acceptor_run() cannot be called, because of rv: closes what was opened, and logs
 * that the acceptor cannot work in this child, with the consequence. pass_fd -1: nothing
 * was opened. */
void vl_acceptor_fail(int pass_fd, apr_status_t rv, const char *consequence);

/* Accepts connections until the MPM has closed its listeners, or vl_acceptor_stop() was
 * called. Then it closes the real listeners, transfers or answers the connections here
 * in at most 3 s, and returns. Where leases are granted it returns when the child ends.
 * Prefork: it also returns when the server is dormant and all connections here have passed to
 * other children; it may be called again then.
 * signals: signal mask while it sleeps, or NULL. */
void vl_acceptor_run(const vl_listeners_t *listeners, const sigset_t *signals);
/* Any thread: vl_acceptor_run() is to return soon. Returns 0 if the acceptor cannot be
 * woken. */
int vl_acceptor_stop(void);
/* Any thread: the MPM is about to close its listeners, so a sleeping acceptor looks for that from now
 * on. at_once: all children of the server end now (SIGTERM, SIGHUP), so what vl_acceptor_run() does at
 * its end takes 0.2 s at most. */
void vl_acceptor_expect_end(int at_once);
/* Returns 1 after vl_acceptor_stop(). Any thread. */
int vl_acceptor_is_stopping(void);

/* The watchdog: a thread that handles timers while the acceptor is stalled. If no thread can be
 * created the child has none. vl_acceptor_stop_watchdog() returns when it has ended. */
void vl_acceptor_start_watchdog(void);
void vl_acceptor_stop_watchdog(void);
/* Transfers connections that the MPM took and no worker has begun. The acceptor's thread
 * and the MPM's threads have ended. */
void vl_acceptor_transfer_unbegun(void);

/* Logs, at most once a minute, that connections from other children stay queued because
 * this child has no descriptors left. One thread of a child calls it. */
void vl_acceptor_warn_full(void);

#endif
