/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ARRIVAL_TABLE_H
#define VL_ARRIVAL_TABLE_H

/* Internal to vl_arrival*.c: the connection record, its states, and what changes them.
 * vl_arrival.c classifies connections, vl_arrival_time.c handles their deadlines,
 * vl_arrival_mpm.c passes them to the MPM, vl_arrival_transfer.c transfers them to other
 * children, vl_arrival_answer.c answers them without the MPM, and vl_arrival_queue.c
 * drops them when their client has gone.
 *
 * Each record is in exactly one state, and on the list of that state.  Only the
 * acceptor frees a record that may be among its epoll events.
 * The lock is vl_park_lock().  Functions that end in _locked need it. */

#include <apr_ring.h>

#include "accept/vl_arrival.h"
#include "base/vl_client.h"
#include "config/vl_conf.h"
#include "base/vl_wheel.h"

/* The event MPM waits as long for the client after it has closed an idle connection
 * (SECONDS_TO_LINGER). */
#define SHORT_LINGER_US (2 * APR_USEC_PER_SEC)

/* States of a connection, and what changes them:
 *
 *   new             --accept() or transfer-----------> CLASSIFYING
 *   new             --last answer sent by a worker---> LINGERING
 *   CLASSIFYING     --head incomplete----------------> INCOMPLETE_HEAD
 *                   --site has a limit---------------> QUEUED
 *                   --not limited, partial head------> FOR_MPM
 *                   --closed without any input-------> RELEASED
 *   INCOMPLETE_HEAD --input or close-----------------> CLASSIFYING
 *                   --too late-----------------------> LINGERING
 *                   --input while acceptor stalls----> FOR_MPM
 *   QUEUED          --granted, or queue timeout------> FOR_MPM
 *                   --refused beyond the queue-------> LINGERING, with TLS RELEASED
 *                   --client has gone----------------> RELEASED
 *   FOR_MPM         --MPM asks for a connection------> IN_MPM
 *                   --relayed to a prefork child-----> RELEASED
 *                   --MPM stalled, slot returned-----> QUEUED
 *                   --client has gone----------------> RELEASED
 *   IN_MPM          --worker begins, or pool ends----> RELEASED
 *   TRANSFER_FAILED --next vl_arrival_settle()-------> CLASSIFYING
 *                   --input while acceptor stalls----> FOR_MPM
 *   LINGERING       --client closes, or time is up---> RELEASED
 *   RELEASED        --next vl_arrival_settle()-------> freed
 *
 * A transfer to another child, or a shortage of descriptors, also ends a state in
 * RELEASED. A transfer that fails ends in TRANSFER_FAILED, with a new record. When the
 * last child stops, connections are answered and become LINGERING. */
typedef enum {
    CLASSIFYING,                    /* the acceptor reads its first bytes */
    INCOMPLETE_HEAD,                /* waits for the rest of the head */
    QUEUED,                         /* queued, or deferred because the queue is full
                                     * (vl_park.h) */
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

struct vl_arrival_t {
    vl_waiter_t waiter;             /* first member: a waiter pointer is cast to its
                                     * connection */
    APR_RING_ENTRY(vl_arrival_t) link;  /* on the list of its state */
    state_e state;
    vl_timer_t timer;               /* set in INCOMPLETE_HEAD, QUEUED and LINGERING */
    int fd;
    int watched;                    /* watched_e: its state in the epoll set */
    int ready;                      /* the first request can be read at once */
    int http2;                      /* begins with the preface of HTTP/2 */
    apr_int64_t head_since_us;      /* when its head began to arrive; 0: not yet */
    apr_int64_t queued_since_us;    /* when it was queued in another child; 0: it was not */
    int was_queued;                 /* it has been queued since waiter.since_us */
    vl_grant_t grant;
    const vl_conf_t *conf;          /* its site's settings; set when it is first QUEUED */
    vl_client_t client;
    int is_head;                    /* the method is HEAD */
    socklen_t addr_len;             /* length of local and of remote */
    struct sockaddr_storage local, remote;
};

APR_RING_HEAD(arrival_ring_t, vl_arrival_t);

typedef struct child_arrivals_t {
    vl_shm_t *shm;
    server_rec *main_server;
    vl_wheel_t *wheel;
    int epoll_fd;
    apr_uint32_t max_lingering;     /* limit of LINGERING; half the limit of all */
    struct arrival_ring_t ring[STATES];
    apr_uint32_t count[STATES];
    int pass_fd;                    /* eventfd, readable while FOR_MPM is not empty */
    int signalled;                  /* pass_fd is readable */
    apr_int64_t signalled_us;       /* when it became readable */
    apr_int64_t mpm_polled_us;      /* when the MPM last asked for a connection */
    int mpm_stalled;                /* the MPM has not asked for MPM_STALLED_US */
    apr_uint32_t accepted;          /* connections so far; wraps around */
    apr_uint32_t refusal_us;        /* average cost of a refusal, us of CPU time */
} child_arrivals_t;

extern child_arrivals_t *vl_arrivals;       /* one for each child process */

/* Returns a record that is in no state yet. Returns NULL and closes fd if memory is
 * short. */
vl_arrival_t *vl_arrival_make(int fd);
/* Puts a record that is in no state into this one. */
void vl_arrival_enter_locked(vl_arrival_t *arrival, state_e state);
/* Returns the oldest record in the state, or NULL if there is none. */
vl_arrival_t *vl_arrival_first_locked(state_e state);
/* Moves a record to another state and clears its timer. */
void vl_arrival_move_locked(vl_arrival_t *arrival, state_e state);

/* Watches the connection for input. how: EPOLLET, or 0 for a lingering connection,
 * which is read in parts and may have sent input before. Returns 0 if it cannot be
 * watched. */
int vl_arrival_watch_locked(vl_arrival_t *arrival, apr_uint32_t how);
/* Watches a QUEUED connection only for its close. Does nothing if it is watched
 * already. */
void vl_arrival_watch_end_locked(vl_arrival_t *arrival);
/* Gives up the record and leaves its descriptor to the caller. A record that was not
 * watched is freed. Another one may be among the events that the acceptor works on, so
 * it becomes RELEASED and vl_arrival_settle() frees it. */
void vl_arrival_bury_locked(vl_arrival_t *arrival);
/* The same as vl_arrival_bury_locked(), and closes the descriptor. */
void vl_arrival_close_locked(vl_arrival_t *arrival);

/* Reads and discards up to DRAIN_SIZE bytes of input. Returns 0 at the end of the
 * input. */
int vl_arrival_drain(int fd);
/* Returns 1 if the client of this connection, which is or was queued, has gone.
 * events: of epoll_wait() or poll(). */
int vl_arrival_is_gone_locked(vl_arrival_t *arrival, apr_uint32_t events);
/* Counts a connection in QUEUED or FOR_MPM as gone, returns its grant or leaves the
 * queue, and closes it. */
void vl_arrival_drop_gone_locked(vl_arrival_t *arrival);
/* Returns the first connection in FOR_MPM whose client is still there, or NULL. Drops
 * the connections before it. */
vl_arrival_t *vl_arrival_first_passing_locked(void);

/* Closes a connection whose head or ClientHello is too late. It is answered with 408
 * first where Apache does so. */
void vl_arrival_time_out_locked(vl_arrival_t *arrival);
/* Refuses a connection without the MPM: an HTTP request gets a prepared answer, a TLS
 * connection a reset. The refusal is counted and charged to the account. */
void vl_arrival_refuse_locked(vl_arrival_t *arrival);
/* Closes a connection with a reset because descriptors are short. The refusal is
 * counted and charged as above. */
void vl_arrival_reset_locked(vl_arrival_t *arrival);

/* Closes the oldest LINGERING connections until one more fits the limit. */
void vl_arrival_make_room_locked(void);
/* Moves an answered connection to LINGERING until the client closes, or until_us. */
void vl_arrival_linger_locked(vl_arrival_t *arrival, apr_int64_t until_us);

/* Moves the connection to FOR_MPM. The first one makes pass_fd readable;
 * vl_arrival_next() clears it when the list is empty. */
void vl_arrival_pass_locked(vl_arrival_t *arrival);
/* The done() callback of queued connections (vl_park.h). */
void vl_arrival_granted_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                               vl_reason_e refused);
/* Returns the slot and the thread of a grant. The child is paused, so that it is
 * granted nothing in exchange. */
void vl_arrival_give_back_locked(vl_grant_t *grant);
/* Clears a grant that holds neither a slot nor a thread. */
void vl_arrival_forget_grant(vl_arrival_t *arrival);

#endif
