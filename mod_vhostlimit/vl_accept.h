/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ACCEPT_H
#define VL_ACCEPT_H

/* The fair acceptor: new connections wait here, as bare sockets in their
 * vhost's line, before the MPM ever sees them.
 *
 * In each child the descriptor that the MPM polls for a listening socket is
 * replaced by an epoll descriptor that contains that socket, and its accept
 * function by ours, which accepts early, reads (without consuming) whose
 * request has come, and hands on the connection whose turn it is.  A waiting
 * connection costs a descriptor and a small record: no thread, no pool.
 *
 * Works with the event and worker MPMs; elsewhere, or with several listener
 * buckets (ListenCoresBucketsRatio), it stands aside. */

#include <httpd.h>

#include "vl_shm.h"
#include "vl_slot.h"

/* What is known of a connection that came this way; its socket carries it. */
typedef struct vl_accept_mark_t {
    int holds;                  /* the ticket is held, by the connection's
                                 * pool until it is taken over */
    vl_ticket_t ticket;
    vl_reason_e refused;        /* to be refused, with this reason */
    apr_uint32_t account;       /* that it waited for */
    apr_int64_t waited_us;
} vl_accept_mark_t;

/* Parent: the way by which a child that stops hands on what waits in it. */
apr_status_t vl_accept_post_config(apr_pool_t *process_pool);

/* Child, before its MPM starts its threads.  Takes the listeners over where
 * that can be done. */
void vl_accept_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, apr_uint32_t accounts);

/* NULL: the connection did not come through here. */
vl_accept_mark_t *vl_accept_mark(apr_socket_t *csd);

#endif
