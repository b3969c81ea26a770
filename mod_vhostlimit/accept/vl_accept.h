/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ACCEPT_H
#define VL_ACCEPT_H

/* The acceptor: a thread of each child process that accepts connections early, classifies
 * them by their first bytes, which stay in the socket, and queues them per site.  The
 * MPM never sees a queued connection.  In place of each real listener the MPM polls a
 * descriptor that is readable while a connection is to be passed to it (vl_listener.h).
 *
 * Under prefork one child is the acceptor for all (vl_prefork.h).  With several listener
 * buckets (ListenCoresBucketsRatio), or protocols other than HTTP under worker and
 * prefork, nothing is queued here: the thread handles timers, and the grants of requests
 * that wait with their threads.  Prefork has no such thread then. */

#include <signal.h>

#include <httpd.h>
#include <ap_listen.h>

/* Parent. Called as soon as its listeners are open: before, they are not final, and
 * children of an earlier configuration may still accept from them. */
void vl_accept_open_logs(void);
/* Child, before its MPM starts its threads. Starts the acceptor and takes over the
 * listeners where possible. */
void vl_accept_child_init(void);
/* Prepares the calling process to accept for all children (prefork). real: list with
 * the real sockets. Returns 0 if there are not enough descriptors. */
int vl_accept_open(const ap_listen_rec *real);
/* Accepts for all children, and returns when the MPM has closed its listeners: `first`
 * is no longer active. signals: signal mask while it sleeps. */
void vl_accept_serve(const ap_listen_rec *first, const sigset_t *signals);
/* Logs, at most once a minute, that connections from other children stay queued
 * because this child has no descriptors left. */
void vl_accept_warn_full(void);
/* Returns 1 if the acceptor's thread handles timers in this child. */
int vl_accept_keeps_time(void);
/* Returns 1 if connections are queued as sockets in this child; in the parent, if they
 * will be. */
int vl_accept_works(void);

#endif
