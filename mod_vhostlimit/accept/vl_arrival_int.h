/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ARRIVAL_INT_H
#define VL_ARRIVAL_INT_H

/* For the files of this room only: vl_arrival.c puts each arrival where it
 * belongs, vl_arrival_time.c acts when nothing has come for too long,
 * vl_arrival_away.c gives it to other children, vl_arrival_mpm.c to the MPM,
 * vl_arrival_answer.c answers it without the MPM, and vl_arrival_gone.c forgets it
 * when its client has gone.  Each is in one place at a time. */

#include <apr_ring.h>

#include "accept/vl_arrival.h"
#include "base/vl_client.h"
#include "config/vl_conf.h"
#include "base/vl_wheel.h"

/* As long as the MPM waits for the client after closing an idle connection
 * (SECONDS_TO_LINGER). */
#define SHORT_LINGER_US (2 * APR_USEC_PER_SEC)

typedef enum {
    SORTING,                        /* the acceptor looks at it */
    PENDING,                        /* its head has not all come */
    LINE,                           /* (vl_park.h) its turn has not come; it is
                                     * queued or, beyond the queue, deferred */
    PASSING,                        /* to be given to the MPM next: its turn has
                                     * come, it is refused, could not be told
                                     * whose it is, or is not ours to limit */
    PASSED,                         /* the MPM has it, and no worker has begun */
    KEPT,                           /* no other child has taken it: it is sorted
                                     * again */
    LINGER,                         /* answered and shut down; the client has not
                                     * closed */
    GONE,                           /* memory to be freed */
    PLACES
} place_e;

typedef enum {
    UNWATCHED,
    WATCHED_FOR_END,                /* the client closes */
    WATCHED                         /* or sends something */
} watched_e;

struct vl_arrival_t {
    vl_waiter_t waiter;             /* first: a waiter is its arrival */
    APR_RING_ENTRY(vl_arrival_t) link;  /* with the others in its place */
    place_e place;
    vl_timer_t timer;               /* PENDING, LINE, LINGER */
    int fd;
    int watched;                    /* in the epoll set: a watched_e */
    int ready;                      /* its request can be read at once */
    int http2;                      /* HTTP/2's preface has come */
    apr_int64_t began_us;           /* its head, 0: not yet */
    apr_int64_t asked_us;           /* its request has waited since, in another
                                     * child; 0: it has not */
    int waited;                     /* since waiter.since_us, in line */
    vl_grant_t grant;
    const vl_conf_t *conf;          /* since it first was in LINE */
    vl_client_t client;
    int head;                       /* its method is HEAD */
    socklen_t addr_len;             /* of both */
    struct sockaddr_storage local, remote;
};

APR_RING_HEAD(arrivals_t, vl_arrival_t);

typedef struct places_t {
    vl_shm_t *shm;
    server_rec *main_server;
    vl_wheel_t *wheel;
    int epoll_fd;
    apr_uint32_t most;              /* in LINGER, and half of all */
    struct arrivals_t in[PLACES];
    apr_uint32_t count[PLACES];
    int pass_fd;                    /* eventfd: somebody is in PASSING */
    int signalled;                  /* it is readable */
    apr_int64_t signalled_us;       /* since when */
    apr_int64_t asked_us;           /* when the MPM last asked who may pass */
    int stuck;                      /* it has not for too long */
    apr_uint32_t came;              /* connections, wraps around */
    apr_uint32_t refusal_us;        /* CPU time that one costs here */
} places_t;

extern places_t *vl_arrivals;       /* of this child */

/* In no place yet.  NULL: there is no memory, and fd is closed. */
vl_arrival_t *vl_arrival_make(int fd);
void vl_arrival_enter_locked(vl_arrival_t *arrival, place_e place);
/* NULL: nobody is there. */
vl_arrival_t *vl_arrival_first_locked(place_e place);
void vl_arrival_move_locked(vl_arrival_t *arrival, place_e place);

/* how: EPOLLET, or 0 for one that closes, which is read piece by piece and may
 * have sent something before.  0: it cannot be watched. */
int vl_arrival_watch_locked(vl_arrival_t *arrival, apr_uint32_t how);
/* While it waits in LINE: only the end of the connection is an event. */
void vl_arrival_watch_end_locked(vl_arrival_t *arrival);
/* Its descriptor is no longer our business.  One that was watched may be among
 * the events that the acceptor is working on. */
void vl_arrival_bury_locked(vl_arrival_t *arrival);
void vl_arrival_close_locked(vl_arrival_t *arrival);

/* Some of what the client has sent is thrown away.  0: nothing more will come. */
int vl_arrival_drain(int fd);
/* 1: the client of this connection, which waits or has waited, has gone.
 * events: of epoll_wait() or poll(). */
int vl_arrival_is_gone_locked(vl_arrival_t *arrival, apr_uint32_t events);
/* It is counted as gone, whatever it waited for is given back, and it is closed.
 * It is in LINE or PASSING. */
void vl_arrival_drop_gone_locked(vl_arrival_t *arrival);
/* The first in PASSING whose client is still there, NULL: none.  Others are
 * dropped. */
vl_arrival_t *vl_arrival_first_passing_locked(void);

/* Its head or ClientHello has not come in time: 408 where Apache answers so, and
 * it is closed. */
void vl_arrival_time_out_locked(vl_arrival_t *arrival);
/* It is refused without the MPM: an HTTP request with a prepared answer, a TLS
 * connection with a reset.  Counted, and charged to its account. */
void vl_arrival_refuse_locked(vl_arrival_t *arrival);
/* Its connection is closed with a reset: descriptors are short.  Counted and
 * charged as well. */
void vl_arrival_reset_locked(vl_arrival_t *arrival);

/* For one more that has been answered. */
void vl_arrival_make_room_locked(void);
void vl_arrival_linger_locked(vl_arrival_t *arrival, apr_int64_t until_us);

/* To PASSING.  The MPM is told once that somebody may pass, and finds no more
 * when all have passed. */
void vl_arrival_pass_locked(vl_arrival_t *arrival);
/* done() of those in line. */
void vl_arrival_granted_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                            vl_reason_e refused);
/* With the child paused, so that no grant comes of it. */
void vl_arrival_give_back_locked(vl_grant_t *grant);
/* It has none. */
void vl_arrival_forget_grant(vl_arrival_t *arrival);

#endif
