/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HOOKS_INT_H
#define VL_HOOKS_INT_H

/*
 * Shared by the files of request/ only: requests (vl_hooks.c), their connections
 * (vl_hooks_conn.c) and the network filters (vl_hooks_net.c).
 * A conn_t lives in c->pool, a req_t in r->pool. `current` of a connection is NULL or a
 * request that has not ended. One thread at a time works on a connection, so neither has
 * a lock; only vl_meter_tick() reads a meter at the same time, under its own lock.
 */

#include <pthread.h>

#include <httpd.h>

#include "accept/vl_arrival.h"
#include "request/vl_handshake.h"
#include "lease/vl_lease.h"
#include "cost/vl_meter.h"
#include "core/vl_park.h"

typedef struct req_t {
    struct conn_t *conn;
    const request_rec *r;
    int exempt;                 /* not limited: nothing below is set */
    int running;                /* counted; has a slot unless the meter is paused */
    int resets_group;           /* its thread leaves the cgroup at its end */
    int occupies;               /* paused, and its thread is counted (vl_thread.h) */
    int is_endless;             /* paused until its end */
    int is_slow;                /* its client reads or sends slowly */
    vl_client_id_t client;      /* its client (vl_clients.h) */
    vl_admission_t admission;
    apr_int64_t waited_us;
    apr_int64_t started;        /* when it was admitted */
    pthread_t thread;           /* the thread that read cpu_start */
    apr_int64_t cpu_start;
    vl_meter_t meter;           /* only while `running` */
    int measured;               /* cpu_us is final */
    apr_int64_t cpu_us;
} req_t;

typedef struct conn_t {
    vl_passport_t *passport;    /* NULL: the acceptor has not seen the connection */
    vl_grant_t grant;           /* for the next request */
    vl_handshake_t *handshake;  /* until the first request, or NULL */
    vl_lease_t *lease;          /* NULL: a stream, or not yet processed */
    req_t *current;             /* the request that runs, or NULL */
    int is_last;                /* the client sends no request after this one */
    apr_size_t unchecked;       /* bytes passed since the socket was last checked */
    struct conn_t *master;      /* NULL unless this is a stream */
} conn_t;

/* --- the request ---------------------------------------------------------- */

/* The work of the request is done: returns the slot and charges the account. May be
 * called more than once. */
void vl_hooks_req_leave(req_t *req);
/* The request releases its slot while its thread waits for the client, and gets one
 * again when the thread continues. Both may be called more than once. */
void vl_hooks_pause(req_t *req);
void vl_hooks_go_on(req_t *req);
/* Returns the CPU clock of the calling thread, us, as read at the end of its last
 * request, or now if that reading is not valid. */
apr_int64_t vl_hooks_thread_us(void);
/* The work of the calling thread since then is charged already: that reading is not
 * valid. */
void vl_hooks_forget_thread(void);

/* --- the connection ------------------------------------------------------- */

void vl_hooks_conn_register(void);
void vl_hooks_conn_child_init(vl_shm_t *shm);
/* Charges the rest of the handshake. Returns 1 if there was a handshake. */
int vl_hooks_end_handshake(conn_t *conn);
/* Returns the connection's unused slot and forgets its grant. */
void vl_hooks_drop_grant(conn_t *conn);
/* The thread that is counted for the grant is free, or holds a slot: it is counted no
 * more. */
void vl_hooks_unoccupy(vl_grant_t *grant);

/* --- the network ---------------------------------------------------------- */

void vl_hooks_net_register(void);
void vl_hooks_net_child_init(void);
/* Adds the network filters to the connection. */
void vl_hooks_net_add(conn_rec *c, conn_t *conn);
/* Returns 1 if the brigade has an end-of-request bucket. */
int vl_hooks_ends_request(const apr_bucket_brigade *bb);

#endif
