/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_REQUEST_H
#define VL_REQUEST_H

/*
 * The life of a request: how it gets a slot, what it holds, and when it is charged.
 * vl_request.c owns the states of requests, the slots of running ones, and the CPU clocks
 * of the threads. The hooks of httpd (vl_hooks.c) and the filters for
 * slow clients (vl_hooks_net.c) call it.
 *
 * Invariants:
 *   - a request in RUNNING holds one grant, unless its meter is paused;
 *   - `current` of a connection is NULL or a request that has not ended;
 *   - the account and the client that a connection waited as are charged for what it gained, also
 *     if its request turns out to belong to another one, or cannot be read;
 *   - a req_t lives in r->pool and ends with it, a conn_t lives in c->pool.
 *
 * One thread at a time works on a connection, so there is no lock. Only vl_meter_tick()
 * reads a meter at the same time, under its own lock.
 */

#include <pthread.h>

#include <httpd.h>

#include "accept/vl_newconn.h"
#include "accept/vl_child.h"
#include "config/vl_conf.h"
#include "core/vl_engage.h"
#include "core/vl_waiters.h"
#include "cost/vl_meter.h"
#include "lease/vl_lease.h"
#include "request/vl_handshake.h"

/* States of a request, and what changes them:
 *
 *   new     --VhostLimitExempt---------------------------> EXEMPT
 *           --refused, or its site cannot be counted-----> REFUSED
 *           --the server is dormant----------------------> LISTED
 *           --admitted, or mode DryRun-------------------> RUNNING
 *           --no slot is free, and the MPM parks---------> WAITING
 *   WAITING --admitted-----------------------------------> RUNNING
 *           --refused------------------------------------> REFUSED
 *   LISTED  --end-of-request bucket, or its pool ends----> ENDED
 *           --tunnel or server-sent events begin---------> SHOWN
 *   RUNNING --tunnel or server-sent events begin---------> ENDLESS
 *           --end-of-request bucket, or its pool ends----> ENDED
 *           --upgrade to h2c-----------------------------> ENDED
 *   ENDLESS, SHOWN --end-of-request bucket, or its pool ends----> ENDED
 *
 * A request has no req_t if its site has mode Off, or if it cannot be counted and
 * VhostLimitOnError is open. */
typedef enum {
    REQ_EXEMPT,                 /* not limited: only conn and r are set */
    REQ_REFUSED,                /* the quick_handler hook answers it */
    REQ_WAITING,                /* without its thread (vl_lease_park_request()) */
    REQ_LISTED,                 /* the server was dormant at its begin (vl_engage.h) */
    REQ_RUNNING,                /* counted; holds a slot unless its meter is paused */
    REQ_ENDLESS,                /* counted; paused until its end */
    REQ_SHOWN,                  /* charged; the sampler sees its thread, so that its back end is charged */
    REQ_ENDED                   /* charged; holds nothing */
} req_state_e;

typedef struct req_t {
    req_state_e state;
    struct conn_t *conn;
    request_rec *r;
    apr_uint32_t account;       /* that it belongs to (vl_accounts_find()) */
    vl_client_id_t client;      /* its client (vl_clients.h); set if its site is On */
    vl_admission_t admission;   /* the decision, and the slot while it is counted */
    apr_int64_t waited_us;      /* in the queue */
    int has_gained;             /* it runs in place of a stream of `gained`, whose account and
                                 * client are charged too */
    vl_ticket_t gained;
    apr_int64_t started;        /* when it was admitted */
    vl_meter_t meter;           /* while it is counted */
    task_t *task;               /* LISTED: its entry of the table of tasks */
    int passes;                 /* a part of its response has passed filter_end() */
    int occupies;               /* paused, and its thread is counted (vl_slot.h) */
    int is_error_page;          /* it was refused, and its ErrorDocument has got a slot */
    int is_slow;                /* its client reads or sends slowly */
    int resets_group;           /* its thread leaves the cgroup at its end */
    pthread_t thread;           /* the thread that read cpu_start */
    struct worker_t *worker;    /* LISTED: of that thread */
    apr_int64_t cpu_start;
    int measured;               /* cpu_us is final */
    apr_int64_t cpu_us;
} req_t;

typedef struct conn_t {
    vl_conninfo_t *conninfo;    /* NULL: the acceptor has not seen the connection */
    vl_grant_t grant;           /* for the next request */
    int has_arrived;            /* no request is charged the acceptor's work for it yet */
    vl_handshake_t *handshake;  /* NULL: it had no slot for one */
    vl_lease_t *lease;          /* NULL: a stream, or not yet processed */
    req_t *current;             /* the request that runs, or NULL */
    req_t *waiting;             /* the request that waits without a thread, or NULL */
    req_t plain;                /* its memory, if it needs nothing more (vl_request_list_plain()) */
    const server_rec *server;   /* of the last request, if that was such a one; else NULL */
    const request_rec *seen;    /* the last request that has reached req_admit() */
    int fd;                     /* its socket, or -1 */
    vl_client_id_t client;      /* of its last request; valid for these three: */
    const apr_sockaddr_t *client_addr;
    const vl_conf_t *client_conf;
    apr_uint32_t client_user;   /* vl_hosts_identity() of its account */
    apr_table_t *sent;          /* header lines of the request as sent (vl_seen.h); NULL: no
                                 * directive of its site looks at them */
    int is_counted_early;       /* a request that has not reached req_admit(), before it was logged */
    int is_last;                /* the client sends no request after this one */
    enum {
        CONN_LATER,             /* any other */
        CONN_ACCEPTED,          /* the MPM accepted it, and no request of it has begun */
        CONN_FIRST              /* its request is the first one since then: it is not refused because
                                 * the server became engaged */
    } accepted;
    int is_counted;             /* vl_engage_accepted() counts it; atomic */
    int is_http2;               /* without TLS, and the acceptor has not seen it */
    ap_filter_t *hello_filter;  /* limits its TLS handshake; NULL: nothing does */
    int is_processed;           /* the MPM has run its hooks before */
    int is_http1;               /* ... and the protocol was HTTP/1 */
    int has_filters;            /* it has the filters of vl_hooks_net.h */
    apr_uint32_t account;       /* 1 + that of its last request, while it has no lease */
    int is_foreign;             /* the request waited in another account */
    apr_uint64_t host;          /* vl_request_host() of its last limited request, over HTTP/1 */
    apr_size_t unchecked;       /* bytes passed since the socket was last checked */
    struct conn_t *master;      /* NULL unless this is a stream */
} conn_t;

/* The connection is not counted by vl_engage_accepted() from now on. Any thread. */
static inline void vl_request_uncount(conn_t *conn)
{
    if (__atomic_load_n(&conn->is_counted, __ATOMIC_RELAXED)
        && __atomic_exchange_n(&conn->is_counted, 0, __ATOMIC_RELAXED))
        vl_engage_accepted(vl_child.shm, -1);
}

/* A request of the connection has begun. */
static inline void vl_request_conn_begun(conn_t *conn)
{
    if (conn->accepted == CONN_LATER)
        return;
    conn->accepted = conn->accepted == CONN_ACCEPTED ? CONN_FIRST : CONN_LATER;
    if (vl_lease_parks())
        vl_request_uncount(conn);
}

/* --- the request, from its admission to its end ------------------------------ */

/* Returns a hash of the host, without its port. */
apr_uint64_t vl_request_host(const char *host);
/* Returns a new req_t of the request. */
req_t *vl_request_make(request_rec *r, conn_t *conn, req_state_e state);
/* Returns 1 if requests of the site may have to wait. */
int vl_request_is_limited(const vl_conf_t *conf);
/* Returns the lease of the connection, for a stream that of its master connection. It is
 * NULL if the connection began while the server was dormant. */
vl_lease_t *vl_request_lease(const conn_t *conn);
/* Gets a slot, with the grant of the connection if there is one, or a refusal, and begins the request. Where
 * connections are not parked, it may block until there is either. Where they are, the request may be WAITING
 * afterwards. If it cannot be counted, it is refused, or is no req_t any more (VhostLimitOnError). */
void vl_request_admit(req_t *req, const vl_conf_t *conf);
/* Queues a WAITING request. Returns 1 if it is conn->waiting then. Otherwise returns 0, as
 * vl_request_admit() leaves it. */
int vl_request_wait(req_t *req, const vl_conf_t *conf);
/* The wait of conn->waiting is over: admits it. */
void vl_request_go(req_t *req, const vl_conf_t *conf);
/* Admits a request without a slot while the server is dormant: LISTED. Returns 0 if the
 * request has to ask for a slot. */
int vl_request_list(req_t *req, const vl_conf_t *conf);
/* The same for a request of a plain site (vl_conf_t) on an HTTP/1 connection without a lease. Sets
 * what it needs of *req, which may have been used before. */
int vl_request_list_plain(req_t *req, conn_t *conn, request_rec *r, const vl_conf_t *conf);
/* Child, before its threads start. */
void vl_request_child_init(void);
/* Moves the request to RUNNING or REFUSED, as req->admission says, and makes it `current`. Also for an
 * ErrorDocument, which has got a slot of its own. */
void vl_request_begin(req_t *req, const vl_conf_t *conf);
/* The request releases its slot while its thread waits for the client, and gets one
 * again when the thread continues. Both may be called more than once. */
void vl_request_pause(req_t *req);
void vl_request_go_on(req_t *req);
/* The work of the request is done: returns the slot, charges the account, and moves the
 * request to ENDED. Does nothing if the request is not counted. */
void vl_request_end(req_t *req);
/* Charges a request that was refused without a slot. After vl_request_stop_clock(). */
void vl_request_charge_refusal(const req_t *req);
/* Gives a slot to the error page of a request that was answered before it was admitted, and counts the request.
 * Returns 0 if no slot is free. */
int vl_request_admit_early(req_t *req, const vl_conf_t *conf);
/* Counts and charges a request that was answered before it was admitted. */
void vl_request_ended_early(req_t *req, const vl_conf_t *conf);
/* Returns 1 if the request is counted and has not ended. */
static inline int vl_request_is_counted(const req_t *req)
{
    return req->state == REQ_RUNNING || req->state == REQ_ENDLESS;
}

/* --- the thread ------------------------------------------------------------ */

/* Returns the CPU clock of the calling thread, us, as read at the end of its last
 * request, or now if that reading is not valid. */
apr_int64_t vl_request_thread_us(void);
/* Returns the reading from which the next request of the connection is charged: earlier by what the acceptor
 * has used for it. */
apr_int64_t vl_request_charged_from(struct conn_t *conn);
/* The work of the calling thread up to this reading of its clock, us, is charged already. */
void vl_request_charged_until(apr_int64_t us);
/* Returns the CPU time of the calling thread since the last charge, us, which the caller charges. Of
 * listed requests, and of a thread whose last reading is not valid, it is 0. */
apr_uint64_t vl_request_take_rest(void);
/* The work of the calling thread so far is charged to no request: the last reading is not valid. */
void vl_request_forget_thread(void);
/* The calling thread has worked for the account, by `requests` listed ones or a part of its
 * connection, for busy_us. Its CPU time is read and charged after many of them, or at once if
 * busy_us is long. Returns the part of a request that is charged now, 0 if it is not. */
apr_uint64_t vl_request_measure_listed(apr_uint32_t account, apr_int64_t busy_us);
/* The request works only now and then from now on: ENDLESS, or, if it is listed, ENDED. */
void vl_request_has_no_end(req_t *req);
/* Sets req->cpu_us if the calling thread has worked on the request. */
void vl_request_stop_clock(req_t *req);
/* The thread, and the processes that it forks, work for no site from now on. */
void vl_request_leave_groups(void);

/* --- the grant of the connection ------------------------------------------- */

/* Returns the connection's slot, which no request of its account has used, and forgets its grant.
 * The account and the client that waited are charged the work of the thread so far. counts: httpd or
 * another module has answered a request before it was admitted, and it is counted. */
void vl_request_end_grant(conn_t *conn, int counts);
/* A request of the connection is not limited: returns its slot, and the thread works for no site. */
void vl_request_pass_unlimited(conn_t *conn);
/* The thread that is counted for the grant is free, or holds a slot: it is counted no
 * more. */
void vl_request_unoccupy(vl_grant_t *grant);

#endif
