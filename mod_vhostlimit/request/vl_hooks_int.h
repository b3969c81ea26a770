/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HOOKS_INT_H
#define VL_HOOKS_INT_H

/* For the files of this room only: requests (vl_hooks.c), their connections
 * (vl_hooks_conn.c) and the network (vl_hooks_net.c). */

#include <pthread.h>

#include <httpd.h>

#include "accept/vl_arrival.h"
#include "request/vl_handshake.h"
#include "lease/vl_lease.h"
#include "cost/vl_meter.h"
#include "core/vl_park.h"

/* A request that was looked at; lives in r->pool. */
typedef struct req_t {
    struct conn_t *conn;
    const request_rec *r;
    int exempt;                 /* nothing else is known of it */
    int running;                /* has a slot, unless its meter is paused */
    int leaves;                 /* its thread goes home at its end */
    int occupies;               /* paused: its thread is counted (vl_thread.h) */
    int is_endless;             /* paused until its end */
    int is_slow;                /* its client is */
    vl_admission_t admission;
    apr_int64_t waited_us;
    apr_int64_t started;        /* when it was let in */
    pthread_t thread;           /* that cpu_start was read on */
    apr_int64_t cpu_start;
    vl_meter_t meter;           /* while it runs */
    int measured;               /* cpu_us is final */
    apr_int64_t cpu_us;
} req_t;

/* Lives in c->pool. */
typedef struct conn_t {
    vl_passport_t *passport;    /* NULL: it came another way */
    vl_grant_t grant;             /* for its next request */
    vl_handshake_t *handshake;          /* until its first request, or NULL */
    vl_lease_t *lease;          /* NULL: it is a stream, or not yet processed */
    req_t *current;             /* at most one is being worked on */
    int is_last;                /* its client sends no request after this one */
    apr_size_t unasked;         /* bytes passed since its socket was last asked
                                 * whether it is full */
    struct conn_t *master;      /* of a stream */
} conn_t;

/* --- the request ---------------------------------------------------------- */

/* Its work is done. */
void vl_hooks_req_leave(req_t *req);
/* A slot is for work, not for the network: the request has none while its thread
 * waits for the client. Both may be called more than once. */
void vl_hooks_pause(req_t *req);
void vl_hooks_go_on(req_t *req);
/* CPU of the calling thread at the end of its last request, or now. */
apr_int64_t vl_hooks_thread_us(void);
/* What the calling thread has done since then is charged already. */
void vl_hooks_forget_thread(void);

/* --- the connection ------------------------------------------------------- */

void vl_hooks_conn_register(void);
void vl_hooks_conn_child_init(vl_shm_t *shm);
/* 1: there was one. */
int vl_hooks_end_handshake(conn_t *conn);
/* Its turn is for nobody. */
void vl_hooks_drop_grant(conn_t *conn);
/* The thread that the turn has occupied is free, or holds a slot. */
void vl_hooks_unoccupy(vl_grant_t *grant);

/* --- the network ---------------------------------------------------------- */

void vl_hooks_net_register(void);
void vl_hooks_net_child_init(void);
/* Its filters. */
void vl_hooks_net_add(conn_rec *c, conn_t *conn);
int vl_hooks_ends_request(const apr_bucket_brigade *bb);

#endif
