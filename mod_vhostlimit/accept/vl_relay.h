/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_RELAY_H
#define VL_RELAY_H

/* Relay of connections from the acceptor to the other children, under the prefork MPM.
 * A connection goes through a socket pair, with its slot. The first child that asks is
 * woken for it, and another one may read it if that one is faster.
 *   _acceptor_*  called by the acceptor
 *   _child_*     called by the other children
 * The acceptor is granted slots for as many connections as children ask for
 * (vl_slot.c). A slot that was sent is counted in the acceptor's cell until the child
 * takes it. So a slot that a killed child was about to take is found, see
 * vl_relay_acceptor_tidy(). The lock of the segment is taken inside. */

#include <sys/socket.h>

#include "accept/vl_transfer.h"
#include "core/vl_waiters.h"

typedef struct vl_item_t {
    vl_grant_t grant;
    int ready;                      /* the first request can be read at once */
    apr_int64_t epoch;              /* internal: which acceptor sent it */
    apr_uint32_t number;            /* internal: its number at that acceptor */
    socklen_t addr_len;             /* length of local and of remote */
    struct sockaddr_storage local, remote;
} vl_item_t;

/* Parent, after the death of a child. If it was the acceptor, wakes a child that asks
 * for a connection, which then becomes the acceptor. */
void vl_relay_parent_check(vl_shm_t *shm);

/* Returns 1 if there is an acceptor. It may be this child. */
int vl_relay_has_acceptor(const vl_shm_t *shm);
/* Returns 1 if this child is the acceptor from now on, 0 if another child is. */
int vl_relay_claim(vl_shm_t *shm);
/* This child is not the acceptor any more. Slots that were sent and not taken are
 * canceled. */
void vl_relay_acceptor_resign(vl_shm_t *shm);

/* Sends a connection. fd stays open here. Returns APR_EAGAIN if the pair is full. */
apr_status_t vl_relay_acceptor_send(vl_shm_t *shm, const int pair[2],
                                    vl_item_t *item, int fd);
/* Called at each tick. Cancels slots that a child received and did not take because it
 * died, and wakes another child for a connection that it did not receive. */
void vl_relay_acceptor_tidy(vl_shm_t *shm, const int pair[2],
                            apr_int64_t now_us);
/* After vl_relay_acceptor_resign(), takes back a connection that was sent and not
 * received. ret_passed: what another child needs to know of it. Returns APR_EMFILE, as
 * below, if no descriptor is left; the connection then stays in the pair. */
apr_status_t vl_relay_acceptor_recall(const int pair[2],
                                      vl_passed_t *ret_passed, int *ret_fd);
/* Returns 1 if a connection is in the pair. */
int vl_relay_pending(const int pair[2]);

/* The server is dormant: wakes the children that ask for a connection. */
void vl_relay_wake_all(vl_shm_t *shm);
/* This child asks for a connection, or does not any more. */
void vl_relay_child_ask(vl_shm_t *shm);
void vl_relay_child_stop_asking(vl_shm_t *shm);
/* Receives a connection, and waits for it if `sleeps` is 1. The child stops asking when it has received one.
 * Returns APR_EAGAIN after a signal, when it is time to check for an acceptor, or if there is none, and
 * APR_EMFILE without waiting if no descriptor is left for a connection. */
apr_status_t vl_relay_child_receive(vl_shm_t *shm, const int pair[2], int sleeps,
                                    vl_item_t *ret_item, int *ret_fd);

#endif
