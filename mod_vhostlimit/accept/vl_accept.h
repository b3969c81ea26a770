/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ACCEPT_H
#define VL_ACCEPT_H

/* The fair acceptor: new connections wait with us, as bare sockets in their
 * vhost's line, before the MPM ever sees them.
 *
 * A thread of ours in each child accepts early, reads (without consuming) whose
 * request has come, and lets it wait.  What the MPM polls for a listening socket
 * is replaced by a descriptor that is readable while somebody may pass, and the
 * listener's accept function by one that hands on whose turn it is.  A waiting
 * connection costs a descriptor and a small record: no thread, no pool.
 *
 * Under the prefork MPM one of the children does all that for the others, see
 * vl_prefork.h.
 *
 * With several listener buckets (ListenCoresBucketsRatio), or other protocols
 * beside HTTP under worker and prefork, the thread only keeps time and picks up
 * grants for requests that wait with their threads; prefork has none. */

#include <signal.h>

#include <httpd.h>
#include <ap_listen.h>

#include "core/vl_shm.h"
#include "cost/vl_usage.h"

/* Parent, as soon as its listeners are open: before that they are not as they
 * stay, and children of an earlier configuration may accept from them still. */
void vl_accept_open_logs(void);
/* Child, before its MPM starts its threads.  Takes the listeners over where
 * that can be done.  handover and relay: see vl_transfer.h and vl_relay.h; they
 * must last.  most: how many kept-alive connections may wait here for their
 * next request. */
void vl_accept_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, const int handover[2],
                          const int relay[2], apr_uint32_t most,
                          vl_usage_t *usage);
/* The calling process is to accept for all.  real: a list with the real sockets.
 * 0: it cannot, for want of descriptors. */
int vl_accept_open(apr_pool_t *pchild, const ap_listen_rec *real);
/* Then it does nothing but that, until the MPM has closed its listeners: `first`
 * is no longer active.  signals: its mask while it sleeps. */
void vl_accept_serve(const ap_listen_rec *first, const sigset_t *signals);
/* Who is to come from another child waits, for want of descriptors here: a line
 * in the log, once a minute. */
void vl_accept_warn_full(void);
/* A thread of ours looks what time has changed, in this child. */
int vl_accept_keeps_time(void);
/* Connections wait with us in this child. */
int vl_accept_works(void);

#endif
