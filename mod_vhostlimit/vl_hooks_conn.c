/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of requests: what each comes with, who else works on it, and
 * what its filters see of how the answers get on. */
#include "vl_hooks.h"
#include "vl_hooks_int.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <http_core.h>             /* before http_connection.h */
#include <http_connection.h>
#include <http_protocol.h>
#include <http_request.h>
#include <util_filter.h>

#include "vl_private.h"
#include "vl_relay.h"
#include "vl_return.h"
#include "vl_seat.h"

static ap_filter_rec_t *end_filter_handle;
static vl_shm_t *accounts;

/* The request is done.  For the MPM the client of a connection that comes back
 * has gone.  While nobody waits, for a slot or for a process, the MPM's own way
 * is the cheaper one. */
static void take_back(conn_rec *c, conn_t *conn, apr_bucket_brigade *bb)
{
    if (!vl_arrival_returns(conn->visit) || c->aborted
        || (!vl_slot_contended(accounts) && !vl_relay_short(accounts)))
        return;
    if (vl_return(c, conn->visit, conn->idle_us, bb)) {
        c->keepalive = AP_CONN_CLOSE;
        c->aborted = 1;
    }
    else {
        conn->stays = 1;
    }
}

/* Bytes to and fro, for as long as both ends like (ap_proxy_tunnel_create): a
 * WebSocket. */
static int is_tunnel(const req_t *req)
{
    return req->r->output_filters == req->r->connection->output_filters;
}

/* Connection output filter, above TLS: encrypting the end of the response is
 * still work. */
static apr_status_t filter_end(ap_filter_t *f, apr_bucket_brigade *bb)
{
    conn_t *conn = f->ctx;
    int ends = vl_hooks_ends_request(bb);
    int counted = conn->current && conn->current->admission.entered;
    apr_uint32_t account = counted
                           ? conn->current->admission.ticket.account : 0;
    apr_status_t rv;

    if (!ends && conn->current && conn->current->running
        && is_tunnel(conn->current))
        vl_hooks_take_seat(conn->current);
    if (ends && conn->current)
        vl_hooks_leave_seat(conn->current);
    rv = ap_pass_brigade(f->next, bb);
    /* Before its slot is another's, so that they are not more than may. */
    if (ends && counted)
        vl_hooks_begin_drain(f->c, conn, account);
    /* The pass may have destroyed the request, and with it conn->current. */
    if (ends && conn->current) {
        vl_hooks_req_leave(conn->current);
        conn->current = NULL;
    }
    if (ends && rv == APR_SUCCESS)
        take_back(f->c, conn, bb);
    return rv;
}

void vl_hooks_unseat(vl_turn_t *turn)
{
    if (turn->seated)
        vl_seat_leave(accounts, turn->ticket.account);
    turn->seated = 0;
}

void vl_hooks_drop_turn(conn_t *conn)
{
    vl_turn_t turn = conn->turn;

    memset(&conn->turn, 0, sizeof(conn->turn));
    vl_hooks_unseat(&turn);
    if (turn.holds)
        vl_park_end(&turn.ticket, NULL);
}

int vl_hooks_end_hello(conn_t *conn)
{
    int ends = conn->hello != NULL;

    vl_hello_end(conn->hello);
    conn->hello = NULL;
    return ends;
}

/* An asynchronous MPM has the thread of a connection back with its last stream. */
static void part(conn_t *conn)
{
    if (!conn->master)
        vl_park_unlink(&conn->link);
    else if (conn->joined)
        vl_park_part(&conn->master->link, !vl_hooks_is_async());
}

/* A connection that ends before a request has used its turn. */
static apr_status_t conn_cleanup(void *data)
{
    conn_t *conn = data;

    /* The parent takes back what this child still holds. */
    if (!accounts)
        return APR_SUCCESS;
    vl_hello_end(conn->hello);
    vl_hooks_end_drain(conn);
    vl_hooks_drop_turn(conn);
    part(conn);
    return APR_SUCCESS;
}

static int class_before;

static void restore_class(void)
{
    struct sched_param param = { 0 };

    sched_setscheduler(0, class_before, &param);
}

/* What a worker forks (CGI programs) runs in the class that the server was
 * started with.  SCHED_RESET_ON_FORK would not do it: it resets real-time classes
 * only (sched(7)). */
static void keep_class_of_programs(void)
{
    class_before = sched_getscheduler(0);
    pthread_atfork(NULL, NULL, restore_class);
}

/* Threads of this class do not preempt the listener when it wakes them, so it
 * sorts and hands on several connections before the first of them is worked
 * on; docs/design/003-fair-accept.md says what that gains. */
static void yield_to_listener(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static __thread int done;
    struct sched_param param = { 0 };

    if (done)
        return;
    done = 1;
    pthread_once(&once, keep_class_of_programs);
    sched_setscheduler(0, SCHED_BATCH, &param);
}

static void begin_visit(conn_rec *c, conn_t *conn)
{
    yield_to_listener();
    conn->turn = conn->visit->turn;
    conn->visit->turn.holds = 0;
    c->keepalives = (int)conn->visit->keepalives;
    if (conn->turn.holds && !conn->visit->ready)
        conn->hello = vl_hello_begin(c, &conn->turn, vl_hooks_thread_us());
}

static int pre_connection(conn_rec *c, void *csd)
{
    conn_t *conn = apr_pcalloc(c->pool, sizeof(*conn));

    conn->visit = c->master ? NULL : vl_arrival_begin(csd);
    if (c->master)
        conn->master = ap_get_module_config(c->master->conn_config,
                                            &vhostlimit_module);
    if (conn->visit)
        begin_visit(c, conn);
    ap_set_module_config(c->conn_config, &vhostlimit_module, conn);
    apr_pool_cleanup_register(c->pool, conn, conn_cleanup,
                              apr_pool_cleanup_null);
    ap_add_output_filter_handle(end_filter_handle, conn, NULL, c);
    if (!c->master)
        vl_hooks_net_add(c, conn);
    return OK;
}

static void begin_lease(conn_rec *c, conn_t *conn)
{
    apr_uint32_t account = conn->turn.ticket.account;
    apr_int64_t timeout_us = conn->turn.timeout_us;

    vl_hooks_unseat(&conn->turn);
    conn->lease = vl_lease_make(c, &conn->turn);
    vl_lease_belongs(conn->lease, account, timeout_us,
                     c->base_server->keep_alive_timeout);
}

/* What the client had not taken at the end of its last request may have been sent
 * since. */
static int process_with_lease(conn_rec *c, conn_t *conn)
{
    int is_first = conn->processed == 1, rc = vl_lease_process(conn->lease);

    /* A handshake and the frames of HTTP/2 are charged already. */
    if (rc != DECLINED && (is_first || strcmp(ap_get_protocol(c),
                                              AP_PROTOCOL_HTTP1)))
        vl_hooks_forget_thread();
    if (rc != DECLINED && !vl_has_pending_output(c))
        vl_hooks_end_drain(conn);
    return rc;
}

/* The handshake is done.  What is spoken now has streams, which ask for themselves,
 * while this thread waits for them and for the client. */
static int process_connection(conn_rec *c)
{
    conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);
    int is_http1;

    if (!conn || c->master)
        return DECLINED;
    is_http1 = !strcmp(ap_get_protocol(c), AP_PROTOCOL_HTTP1);
    if (!is_http1)
        vl_hooks_end_hello(conn);
    if (!conn->processed++ && vl_lease_is_possible()
        && conn->turn.timeout_us && !vl_arrival_returns(conn->visit))
        begin_lease(c, conn);
    if (conn->lease)
        return process_with_lease(c, conn);
    if (!is_http1)
        vl_hooks_drop_turn(conn);
    return DECLINED;
}

static int pre_close(conn_rec *c)
{
    conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);

    if (conn && conn->lease && !c->master)
        vl_lease_leave(conn->lease);
    return DECLINED;
}

apr_status_t vl_hooks_child_end(void *unused)
{
    accounts = NULL;
    vl_lease_forget();
    return APR_SUCCESS;
}

void vl_hooks_conn_child_init(vl_shm_t *shm)
{
    accounts = shm;
    vl_hooks_net_child_init(shm);
}

void vl_hooks_conn_register(void)
{
    static const char *const tls[] = { "mod_ssl.c", NULL };
    static const char *const http2[] = { "mod_http2.c", "http_core.c",
                                         "mod_reqtimeout.c", NULL };

    end_filter_handle = ap_register_output_filter("VHOSTLIMIT_END", filter_end,
                                                  NULL, AP_FTYPE_CONNECTION);
    vl_hooks_net_register();
    /* Before any request of the connection exists, so that its filters are
     * chained behind ours.  Secondary connections (HTTP/2) come here too. */
    ap_hook_pre_connection(pre_connection, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_process_connection(process_connection, tls, http2,
                               APR_HOOK_MIDDLE);
    ap_hook_pre_close_connection(pre_close, NULL, NULL, APR_HOOK_REALLY_FIRST);
    vl_lease_register();
}
