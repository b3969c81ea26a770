/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_RELAY_H
#define VL_RELAY_H

/* Where a child works on one connection at a time (the prefork MPM), one child
 * accepts for all.  Whoever may pass goes through a socket pair, with the slot
 * that was granted, to whichever child asks next.
 *
 *   _acceptor_*   the child that accepts, and keeps the lines
 *   _child_*      the others
 *
 * The acceptor is granted slots for as many as ask (vl_slot.c).  A slot that it
 * has sent is counted in its own cell until the child says that it is there, so
 * that one that was in the hands of a killed child is found: see
 * vl_relay_acceptor_tidy(). */

#include <sys/socket.h>

#include "accept/vl_transfer.h"
#include "core/vl_park.h"

typedef struct vl_item_t {
    vl_grant_t grant;
    int ready;                      /* its request can be read at once */
    apr_int64_t epoch;              /* vl_relay.c's own: who sent it ... */
    apr_uint32_t number;            /* ... as which */
    socklen_t addr_len;             /* of both */
    struct sockaddr_storage local, remote;
} vl_item_t;

/* Parent.  ret_pair: the children's end, the acceptor's. */
apr_status_t vl_relay_create(int ret_pair[2]);
/* Parent: a child has died.  If it was the acceptor, a child that asks is told
 * to look. */
void vl_relay_parent_look(vl_shm_t *shm, const int pair[2]);

/* There is one, maybe this child. */
int vl_relay_has_acceptor(const vl_shm_t *shm);
/* 1: this child is it from now on.  0: another is. */
int vl_relay_claim(vl_shm_t *shm);
/* It is not any more.  Slots that were sent and not taken come back. */
void vl_relay_acceptor_resign(vl_shm_t *shm);

/* The descriptor stays open here.  APR_EAGAIN: the pair is full. */
apr_status_t vl_relay_acceptor_send(vl_shm_t *shm, const int pair[2],
                                    vl_item_t *item, int fd);
/* Now and then: slots that were taken by a child which died on the spot come
 * back. */
void vl_relay_acceptor_tidy(vl_shm_t *shm, const int pair[2],
                            apr_int64_t now_us);
/* One that was sent and not taken, after vl_relay_acceptor_resign(), and what
 * another child has to know of it.  APR_EMFILE, here and below: no descriptor is
 * left, and what is there stays there. */
apr_status_t vl_relay_acceptor_recall(const int pair[2],
                                      vl_passed_t *ret_passed, int *ret_fd);
/* 1: there is one. */
int vl_relay_pending(const int pair[2]);

/* This child could do with a connection, or no longer. */
void vl_relay_child_ask(vl_shm_t *shm);
void vl_relay_child_unask(vl_shm_t *shm);
/* Waits for one; it no longer asks when it has got it.  APR_EAGAIN: a signal
 * has come, or it is time to look around. */
apr_status_t vl_relay_child_receive(vl_shm_t *shm, const int pair[2],
                                    vl_item_t *ret_item, int *ret_fd);

#endif
