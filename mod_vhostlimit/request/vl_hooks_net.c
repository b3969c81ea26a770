/* SPDX-License-Identifier: Apache-2.0 */
/* Filters for clients that read their responses slowly or send their requests slowly. A
 * request holds no slot while its thread waits for its client. An asynchronous MPM keeps
 * the output that is pending when the request has ended.
 *
 * A stream of HTTP/2 waits for the buffer of mod_http2, which is no socket that could be
 * polled. vl_meter_tick() detects that a stream makes no progress. */
#include "request/vl_hooks_net.h"

#include <poll.h>
#include <sys/socket.h>

#include <ap_mpm.h>
#include <apr_portable.h>
#include <http_core.h>             /* before http_connection.h */
#include <http_connection.h>
#include <http_request.h>
#include <util_filter.h>

#include "base/vl_private.h"

/* A client that is not ready for this long is slow, milliseconds. */
#define SLOW_MS 10
/* Bytes that the core's filter keeps without blocking (FlushMaxThreshold). */
#define PIECE_MIN (1 << 16)
/* Bytes that are passed between two checks whether the socket is full. It is less than a
 * third of the smallest send buffer (tcp_wmem is 16 KB at first). */
#define UNCHECKED_MAX 4096

static ap_filter_rec_t *output_handle, *stream_output_handle, *input_handle;

/* Returns 1 if the client is not ready for SLOW_MS, or, if it is known to be slow, is
 * not ready now. */
static int is_not_ready(conn_rec *c, req_t *req, short events)
{
    struct pollfd pfd = { vl_socket_of(c), events, 0 };

    if (poll(&pfd, 1, req->is_slow ? 0 : SLOW_MS))
        return 0;
    req->is_slow = 1;
    return 1;
}

/* Returns how many bytes a socket accepts that is not full. A third of its buffer is
 * free then (sk_stream_min_wspace() of Linux), and the buffer also holds the overhead of
 * each packet. */
static apr_size_t piece_size(conn_rec *c)
{
    int size = 0;
    socklen_t len = sizeof(size);

    if (getsockopt(vl_socket_of(c), SOL_SOCKET, SO_SNDBUF, &size, &len)
        || size / 4 < PIECE_MIN)
        return PIECE_MIN;
    return (apr_size_t)size / 4;
}

/* Returns the bytes in the brigade. A bucket of unknown length counts as more than
 * UNCHECKED_MAX. */
static apr_size_t length_of(const apr_bucket_brigade *bb)
{
    apr_size_t length = 0;
    const apr_bucket *b;

    for (b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb);
         b = APR_BUCKET_NEXT(b))
        length += b->length == (apr_size_t)-1 ? UNCHECKED_MAX + 1 : b->length;
    return length;
}

/* Passes the brigade on. The request releases its slot if the core's filter may block on
 * the client. */
static apr_status_t pass_brigade(ap_filter_t *f, apr_bucket_brigade *bb, req_t *req)
{
    conn_t *conn = req->conn;
    apr_status_t rv;

    if (conn->unchecked > UNCHECKED_MAX) {
        if (is_not_ready(f->c, req, POLLOUT))
            vl_request_pause(req);
        else
            conn->unchecked = 0;
    }
    conn->unchecked += length_of(bb);
    rv = ap_pass_brigade(f->next, bb);
    if (conn->current == req)
        vl_request_go_on(req);
    return rv;
}

/* Returns 1 if the core sends the bucket with sendfile(). It does not read such a
 * bucket, and it keeps the rest. */
static int uses_sendfile(const apr_bucket *b)
{
    return APR_BUCKET_IS_FILE(b)
           && apr_file_flags_get(((apr_bucket_file *)b->data)->fd)
              & APR_SENDFILE_ENABLED;
}

/* Returns 1 if the brigade is longer than size, as far as that is known without reading
 * buckets. */
static int is_longer(const apr_bucket_brigade *bb, apr_size_t size)
{
    apr_size_t length = 0;
    const apr_bucket *b;

    for (b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb)
         && b->length != (apr_size_t)-1 && !uses_sendfile(b)
         && length <= size; b = APR_BUCKET_NEXT(b))
        length += b->length;
    return length > size;
}

/* Reads at least *size bytes into memory. Otherwise a part of a file that the core's
 * filter sets aside costs a descriptor. Data that is not mapped takes heap memory, so
 * *size is reduced to PIECE_MIN then. A file that has become shorter is an error
 * (APR_EOF), as for the core's filter. In all other cases the bytes that is_longer() has
 * counted exist. */
static apr_status_t read_piece(apr_bucket_brigade *bb, apr_size_t *size)
{
    apr_status_t rv = APR_SUCCESS;
    apr_size_t length = 0, unused;
    const char *data;
    apr_bucket *b;

    for (b = APR_BRIGADE_FIRST(bb); rv == APR_SUCCESS && length < *size;
         b = APR_BUCKET_NEXT(b)) {
        if (APR_BUCKET_IS_FILE(b)) {
            rv = apr_bucket_read(b, &data, &unused, APR_BLOCK_READ);
            if (!APR_BUCKET_IS_MMAP(b))
                *size = PIECE_MIN;
        }
        length += b->length;
    }
    return rv;
}

/* Passes the first `size` bytes and leaves the rest in bb. */
static apr_status_t pass_piece(ap_filter_t *f, apr_bucket_brigade *bb, req_t *req,
                               apr_bucket_brigade *rest, apr_size_t size)
{
    apr_bucket *after;
    apr_status_t rv = read_piece(bb, &size);

    if (rv == APR_SUCCESS)
        rv = apr_brigade_partition(bb, (apr_off_t)size, &after);
    if (rv != APR_SUCCESS) {
        /* The client would take another response for the rest of this one. */
        f->c->keepalive = AP_CONN_CLOSE;
        return rv;
    }
    apr_brigade_split_ex(bb, after, rest);
    rv = pass_brigade(f, bb, req);
    APR_BRIGADE_CONCAT(bb, rest);
    return rv;
}

/* Passes the brigade in pieces. A file arrives as one bucket. The core's filter would
 * map megabytes of it and block until they are sent, the last of them after the request
 * has ended. */
static apr_status_t pass_pieces(ap_filter_t *f, apr_bucket_brigade *bb,
                                req_t *req)
{
    conn_t *conn = req->conn;
    apr_bucket_brigade *rest = NULL;
    apr_status_t rv = APR_SUCCESS;
    apr_size_t size = PIECE_MIN;

    while (rv == APR_SUCCESS && is_longer(bb, size)
           && is_longer(bb, size = piece_size(f->c))) {
        if (!rest)
            rest = apr_brigade_create(req->r->pool, f->c->bucket_alloc);
        rv = pass_piece(f, bb, req, rest, size);
    }
    if (rv == APR_SUCCESS)
        rv = pass_brigade(f, bb, req);
    /* After the last piece an MPM that is not asynchronous would block after the request's end, unless the
     * socket takes all bytes since the last check. */
    if (vl_child.is_async || rv != APR_SUCCESS || conn->unchecked <= UNCHECKED_MAX
        || !vl_has_pending_output(f->c) || !is_not_ready(f->c, req, POLLOUT))
        return rv;
    APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_flush_create(bb->bucket_alloc));
    return pass_brigade(f, bb, req);
}

/* Connection output filter directly above the core's. An asynchronous MPM keeps the end
 * of the response, so a brigade with the end-of-request bucket passes unchanged. */
static apr_status_t filter_output(ap_filter_t *f, apr_bucket_brigade *bb)
{
    conn_t *conn = f->ctx;
    req_t *req = conn->current;

    if (conn->lease)
        vl_lease_restore_fd(conn->lease);
    if (!req || req->state != REQ_RUNNING || vl_hooks_ends_request(bb))
        return ap_pass_brigade(f->next, bb);
    return pass_pieces(f, bb, req);
}

/* The same filter for a stream of HTTP/2. */
static apr_status_t filter_stream_output(ap_filter_t *f, apr_bucket_brigade *bb)
{
    conn_t *conn = f->ctx;
    req_t *req = conn->current;
    apr_status_t rv;

    if (!req || req->state != REQ_RUNNING)
        return ap_pass_brigade(f->next, bb);
    vl_meter_may_wait(&req->meter);
    rv = ap_pass_brigade(f->next, bb);
    /* The pass may have destroyed the request. */
    if (conn->current == req)
        vl_request_go_on(req);
    return rv;
}

static int is_empty(apr_status_t rv, const apr_bucket_brigade *bb)
{
    return APR_STATUS_IS_EAGAIN(rv)
           || (rv == APR_SUCCESS && APR_BRIGADE_EMPTY(bb));
}

/* Returns 1 if a stream has no input. mod_http2 does not return from a nonblocking
 * AP_MODE_GETLINE before a line is complete (h2_c2_filter_in). */
static int has_no_input(ap_filter_t *f, apr_bucket_brigade *bb)
{
    apr_status_t rv = ap_get_brigade(f->next, bb, AP_MODE_SPECULATIVE,
                                     APR_NONBLOCK_READ, 1);
    int none = is_empty(rv, bb);

    apr_brigade_cleanup(bb);
    return none;
}

/* Connection input filter: the request releases its slot while its thread waits for the
 * body. */
static apr_status_t filter_input(ap_filter_t *f, apr_bucket_brigade *bb,
                                 ap_input_mode_t mode, apr_read_type_e block,
                                 apr_off_t readbytes)
{
    conn_t *conn = f->ctx;
    req_t *req = conn->current;
    apr_status_t rv;

    if (!req || req->state != REQ_RUNNING || block != APR_BLOCK_READ
        || (mode != AP_MODE_READBYTES && mode != AP_MODE_GETLINE))
        return ap_get_brigade(f->next, bb, mode, block, readbytes);
    if (f->c->master) {
        if (has_no_input(f, bb))
            vl_request_pause(req);
    }
    else {
        rv = ap_get_brigade(f->next, bb, mode, APR_NONBLOCK_READ, readbytes);
        if (!is_empty(rv, bb))
            return rv;
        if (is_not_ready(f->c, req, POLLIN))
            vl_request_pause(req);
    }
    rv = ap_get_brigade(f->next, bb, mode, APR_BLOCK_READ, readbytes);
    vl_request_go_on(req);
    return rv;
}

void vl_hooks_net_add(conn_rec *c, conn_t *conn)
{
    conn->has_filters = 1;
    ap_add_output_filter_handle(c->master ? stream_output_handle : output_handle,
                                conn, NULL, c);
    ap_add_input_filter_handle(input_handle, conn, NULL, c);
}

void vl_hooks_net_register(void)
{
    output_handle = ap_register_output_filter("VHOSTLIMIT_OUT", filter_output,
                                              NULL, AP_FTYPE_NETWORK - 1);
    stream_output_handle = ap_register_output_filter("VHOSTLIMIT_STREAM_OUT",
                                                     filter_stream_output, NULL,
                                                     AP_FTYPE_NETWORK - 1);
    input_handle = ap_register_input_filter("VHOSTLIMIT_IN", filter_input, NULL,
                                            AP_FTYPE_NETWORK - 1);
}
