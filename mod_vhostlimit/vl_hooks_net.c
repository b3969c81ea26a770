/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that take their answers slowly.  While the thread waits for one, a seat
 * takes the place of its request's slot, or the slot stalls.  What is left when
 * the request is done an asynchronous MPM keeps: see vl_drain.h. */
#include "vl_hooks_int.h"

#include <poll.h>

#include <ap_mpm.h>
#include <apr_portable.h>
#include <http_core.h>             /* before http_connection.h */
#include <http_connection.h>
#include <http_request.h>
#include <util_filter.h>

#include "vl_drain.h"
#include "vl_seat.h"

/* A client that takes nothing for so long is slow. */
#define SLOW_MS 10
/* What the core's filter keeps without waiting (FlushMaxThreshold). */
#define PIECE_SIZE (1 << 16)

static ap_filter_rec_t *net_filter_handle;
static vl_shm_t *accounts;
static int is_async;

int vl_hooks_ends_request(const apr_bucket_brigade *bb)
{
    const apr_bucket *b;

    for (b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb);
         b = APR_BUCKET_NEXT(b)) {
        if (AP_BUCKET_IS_EOR(b))
            return 1;
    }
    return 0;
}

static int is_full(conn_rec *c)
{
    apr_socket_t *socket = ap_get_conn_socket(c);
    struct pollfd pfd = { -1, POLLOUT, 0 };

    return socket && apr_os_sock_get(&pfd.fd, socket) == APR_SUCCESS
           && poll(&pfd, 1, SLOW_MS) == 0;
}

/* The core's filter would wait for the client now. */
static void wait_if_full(conn_rec *c, req_t *req)
{
    if (!req->passed++ || !req->running || req->stalls || !is_full(c))
        return;
    vl_hooks_take_seat(req);
    if (!req->running)
        return;
    req->stalls = 1;
    vl_seat_stall(accounts, req->admission.ticket.account);
}

static void wait_no_more(req_t *req)
{
    if (req->stalls)
        vl_seat_unstall(accounts, req->admission.ticket.account);
    req->stalls = 0;
}

/* There is more than one piece, and it need not be read to know that. */
static int is_long(const apr_bucket_brigade *bb)
{
    apr_size_t length = 0;
    const apr_bucket *b;

    for (b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb)
         && b->length != (apr_size_t)-1 && length <= PIECE_SIZE;
         b = APR_BUCKET_NEXT(b))
        length += b->length;
    return length > PIECE_SIZE;
}

static apr_status_t pass_piece(ap_filter_t *f, apr_bucket_brigade *bb,
                               apr_bucket_brigade *rest)
{
    apr_bucket *after;
    apr_status_t rv = apr_brigade_partition(bb, PIECE_SIZE, &after);

    if (rv != APR_SUCCESS)
        return rv;
    apr_brigade_split_ex(bb, after, rest);
    rv = ap_pass_brigade(f->next, bb);
    APR_BRIGADE_CONCAT(bb, rest);
    return rv;
}

/* The last one.  An MPM that keeps nothing would wait after the request. */
static apr_status_t pass_last(ap_filter_t *f, apr_bucket_brigade *bb,
                              const req_t *req)
{
    if (!is_async && (req->stalls || req->seated))
        APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_flush_create(bb->bucket_alloc));
    return ap_pass_brigade(f->next, bb);
}

/* A file comes as a whole.  The core's filter would map megabytes of it and wait
 * until they are sent, in the end after the request is done. */
static apr_status_t pass_pieces(ap_filter_t *f, apr_bucket_brigade *bb,
                                req_t *req)
{
    apr_bucket_brigade *rest = NULL;
    apr_status_t rv = APR_SUCCESS;

    while (rv == APR_SUCCESS && is_long(bb)) {
        if (!rest)
            rest = apr_brigade_create(req->r->pool, f->c->bucket_alloc);
        wait_if_full(f->c, req);
        rv = pass_piece(f, bb, rest);
    }
    if (rv != APR_SUCCESS)
        return rv;
    wait_if_full(f->c, req);
    return pass_last(f, bb, req);
}

/* Connection output filter, right above the core's.  The end of an answer that
 * keeps for the MPM. */
static apr_status_t filter_net(ap_filter_t *f, apr_bucket_brigade *bb)
{
    conn_t *conn = f->ctx;
    req_t *req = conn->current;
    apr_status_t rv;

    if (!req || !(req->running || req->seated) || vl_hooks_ends_request(bb))
        return ap_pass_brigade(f->next, bb);
    rv = pass_pieces(f, bb, req);
    wait_no_more(req);
    return rv;
}

void vl_hooks_begin_drain(const conn_rec *c, conn_t *conn,
                          apr_uint32_t account)
{
    if (!c->data_in_output_filters || c->aborted || c->master)
        return;
    conn->drains = 1;
    conn->drained = account;
    vl_drain_begin(accounts, account);
}

void vl_hooks_end_drain(conn_t *conn)
{
    if (conn->drains)
        vl_drain_end(accounts, conn->drained);
    conn->drains = 0;
}

void vl_hooks_net_add(conn_rec *c, conn_t *conn)
{
    ap_add_output_filter_handle(net_filter_handle, conn, NULL, c);
}

void vl_hooks_net_child_init(vl_shm_t *shm)
{
    accounts = shm;
    if (ap_mpm_query(AP_MPMQ_IS_ASYNC, &is_async) != APR_SUCCESS)
        is_async = 0;
}

void vl_hooks_net_register(void)
{
    net_filter_handle = ap_register_output_filter("VHOSTLIMIT_NET", filter_net,
                                                  NULL, AP_FTYPE_NETWORK - 1);
}
