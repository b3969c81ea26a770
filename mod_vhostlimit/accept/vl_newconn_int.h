/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_NEWCONN_INT_H
#define VL_NEWCONN_INT_H

/* The table of the new connections of this child process.
 * Owns the records, their descriptors until the MPM gets them, the list and the timer
 * of each state, the events that the epoll set reports, and the eventfd that tells the
 * MPM of connections.
 *
 * Invariants, under the lock:
 *   - each record is in exactly one state, and on the list of that state;
 *   - a timer is set in INCOMPLETE_HEAD, QUEUED and LINGERING only;
 *   - a connection is QUEUED if and only if its waiter is in vl_waiters.h;
 *   - pass_fd is readable while FOR_MPM is not empty;
 *   - a record that is in the epoll set is freed by the acceptor only, after the events
 *     that it works on.
 * The lock is vl_waiters_lock().  Functions that end in _locked need it.
 * For vl_newconn.c and vl_newconn_out.c. */

#include <apr_ring.h>

#include "accept/vl_newconn.h"
#include "accept/vl_child.h"
#include "base/vl_client.h"
#include "base/vl_wheel.h"
#include "config/vl_conf.h"

/* States of a connection, and what changes them:
 *
 *   new             --accept() or transfer-----------> CLASSIFYING
 *   new             --last answer sent by a worker---> LINGERING
 *   CLASSIFYING     --head incomplete----------------> INCOMPLETE_HEAD
 *                   --site has a limit---------------> QUEUED
 *                   --not limited, partial head------> FOR_MPM
 *                   --closed without any input-------> RELEASED
 *   INCOMPLETE_HEAD --input or close-----------------> CLASSIFYING
 *                   --too late, no request line------> LINGERING
 *                   --too late-----------------------> FOR_MPM
 *                   --input while acceptor stalls----> FOR_MPM
 *   QUEUED          --granted or refused-------------> FOR_MPM
 *                   --client has gone----------------> RELEASED
 *   FOR_MPM         --MPM asks for a connection------> IN_MPM
 *                   --relayed to a prefork child-----> RELEASED
 *                   --MPM stalled, slot returned-----> QUEUED
 *                   --client has gone----------------> RELEASED
 *   IN_MPM          --worker begins, or pool ends----> RELEASED
 *   TRANSFER_FAILED --next vl_newconn_after_events()-------> CLASSIFYING
 *                   --input while acceptor stalls----> FOR_MPM
 *   LINGERING       --client closes, or time is up---> RELEASED
 *   RELEASED        --next vl_newconn_after_events()-------> freed
 *
 * A transfer to another child, or a shortage of descriptors, also ends a state in
 * RELEASED. A transfer that fails ends in TRANSFER_FAILED, with a new record. When the
 * last child stops, connections are answered and become LINGERING. */
typedef enum {
    CLASSIFYING,                    /* the acceptor reads its first bytes */
    INCOMPLETE_HEAD,                /* waits for the rest of the head */
    QUEUED,                         /* queued, or deferred because the queue is full
                                     * (vl_waiters.h) */
    FOR_MPM,                        /* the MPM takes it next: granted, refused, not
                                     * limited, or its site cannot be found */
    IN_MPM,                         /* the MPM has it; no worker has begun with it */
    TRANSFER_FAILED,                /* no other child took it; the acceptor classifies it
                                     * again */
    LINGERING,                      /* answered and shut down; waits until the client
                                     * closes */
    RELEASED,                       /* its descriptor is no longer used here; the record
                                     * waits to be freed */
    STATES
} state_e;

/* What the epoll set reports of a connection. */
typedef enum {
    NOT_WATCHED,
    WATCHED_FOR_CLOSE,              /* an event when the client closes */
    WATCHED_FOR_INPUT               /* an event also when the client sends */
} watched_e;

struct vl_newconn_t {
    vl_waiter_t waiter;             /* first member: a waiter pointer is cast to its
                                     * connection */
    APR_RING_ENTRY(vl_newconn_t) link;  /* on the list of its state */
    state_e state;
    vl_timer_t timer;               /* set in INCOMPLETE_HEAD, QUEUED and LINGERING */
    int fd;
    int watched;                    /* watched_e: its state in the epoll set */
    int ready;                      /* the first request can be read at once */
    int http2;                      /* begins with the preface of HTTP/2 */
    apr_int64_t head_since_us;      /* when its head began to arrive; 0: not yet */
    apr_int64_t head_us;            /* how long that took */
    apr_size_t head_bytes;          /* of an incomplete head, so far ... */
    apr_size_t head_counted;        /* ... and those that MinRate counts */
    apr_int64_t queued_since_us;    /* when it was queued in another child; 0: it was not */
    int was_queued;                 /* it has been queued since waiter.since_us */
    vl_grant_t grant;
    vl_conninfo_t *conninfo;        /* IN_MPM: points back here; NULL before */
    vl_client_t client;
    socklen_t addr_len;             /* length of local and of remote */
    struct sockaddr_storage local, remote;
};

APR_RING_HEAD(newconn_ring_t, vl_newconn_t);

typedef struct child_newconns_t {
    vl_wheel_t *wheel;
    int epoll_fd;
    struct newconn_ring_t ring[STATES];
    apr_uint32_t count[STATES];
    int pass_fd;                    /* eventfd, readable while FOR_MPM is not empty */
    int signalled;                  /* pass_fd is readable */
    apr_int64_t signalled_us;       /* when it became readable */
    apr_int64_t mpm_polled_us;      /* when the MPM last asked for a connection */
    int mpm_stalled;                /* see vl_newconn_set_mpm_stalled_locked() */
    apr_uint32_t accepted;          /* connections so far; wraps around */
    apr_uint32_t refusal_us;        /* average cost of a refusal, us of CPU time */
} child_newconns_t;

/* The event MPM waits as long for the client after it has closed an idle connection
 * (SECONDS_TO_LINGER). */
#define SHORT_LINGER_US (2 * APR_USEC_PER_SEC)

extern child_newconns_t *vl_newconns;       /* one for each child process */

/* Moves a record to another state and clears its timer. */
void vl_newconn_move_locked(vl_newconn_t *newconn, state_e state);
/* Returns what another child needs to know of the connection. */
vl_passed_t vl_newconn_known(const vl_newconn_t *newconn);
/* Returns the oldest record in the state, or NULL if there is none. */
vl_newconn_t *vl_newconn_first_locked(state_e state);

/* Shuts down the connection and moves it to LINGERING, for linger_us at most. Closes it
 * if it cannot be watched. */
void vl_newconn_linger_locked(vl_newconn_t *newconn, apr_int64_t linger_us);
/* Gives up the record and leaves its descriptor to the caller. A record that was not
 * watched is freed. Another one may be among the events that the acceptor works on, so
 * it becomes RELEASED and vl_newconn_after_events() frees it. */
void vl_newconn_release_locked(vl_newconn_t *newconn);
/* The same as vl_newconn_release_locked(), and closes the descriptor. */
void vl_newconn_close_locked(vl_newconn_t *newconn);

/* Removes a connection from the queues and returns it, a queued one if there is any.
 * queued 1: returns no deferred one. Returns NULL if there is none. */
vl_newconn_t *vl_newconn_unqueue_locked(int queued);
/* The MPM takes no connections, or takes them again. While it is stalled, this child is
 * granted nothing. */
void vl_newconn_set_mpm_stalled_locked(int stalled);
/* Returns the slot and the thread of a grant. The child is paused, so that it is
 * granted nothing in exchange. */
void vl_newconn_return_grant_locked(vl_grant_t *grant);
/* Returns the first connection in FOR_MPM whose client is still there, or NULL. Drops
 * the connections before it. */
vl_newconn_t *vl_newconn_first_for_mpm_locked(void);

#endif
