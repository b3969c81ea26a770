/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of requests: what the acceptor knows of a connection, its handshake,
 * its lease, and the output filter that sees the end of each response. */
#include "request/vl_hooks.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <apr_portable.h>
#include <http_core.h>             /* before http_connection.h */
#include <http_connection.h>
#include <http_protocol.h>
#include <http_request.h>
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 102)
#include <http_ssl.h>
#endif
#include <util_filter.h>

#include "accept/vl_acceptor.h"
#include "accept/vl_classify.h"
#include "accept/vl_listener.h"
#include "accept/vl_peek.h"
#include "accept/vl_transfer.h"
#include "base/vl_client.h"
#include "base/vl_clock.h"
#include "base/vl_private.h"
#include "config/vl_sharing.h"
#include "core/vl_dispatch.h"
#include "core/vl_engage.h"
#include "request/vl_hooks_net.h"
#include "request/vl_request.h"

/* The media type of server-sent events. */
#define EVENTS "text/event-stream"

static ap_filter_rec_t *end_filter_handle, *late_filter_handle, *hello_filter_handle;
static vl_hooks_go_fn *process_waiting;

/* Returns 1 if input of the client is available, in a filter or in the socket. */
static int has_input(conn_rec *c, apr_bucket_brigade *bb)
{
    apr_status_t rv;
    int has;

    apr_brigade_cleanup(bb);
    rv = ap_get_brigade(c->input_filters, bb, AP_MODE_SPECULATIVE,
                        APR_NONBLOCK_READ, 1);
    has = rv == APR_SUCCESS ? !APR_BRIGADE_EMPTY(bb)
                            : !APR_STATUS_IS_EAGAIN(rv);
    apr_brigade_cleanup(bb);
    return has;
}

/* After a response: a kept connection that cannot be parked keeps its thread. When
 * threads are short, it closes if its client is idle for a tenth of a second. Under
 * worker the acceptor's tick closes it (vl_lease_tick()), under prefork this function
 * does. */
static void begin_idle(ap_filter_t *f, conn_t *conn, apr_bucket_brigade *bb)
{
    conn_rec *c = f->c;

    if (!conn->lease || c->master || vl_lease_parks() || c->keepalive != AP_CONN_KEEPALIVE
        || c->aborted)
        return;
    if (vl_lease_begin_idle(conn->lease) || has_input(c, bb))
        return;
    /* The core sends the end of a short response with the flush that follows. */
    APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_flush_create(c->bucket_alloc));
    if (ap_pass_brigade(f->next, bb) != APR_SUCCESS
        || vl_lease_await_input(conn->lease))
        return;
    apr_table_setn(c->notes, "short-lingering-close", "1");
    c->keepalive = AP_CONN_CLOSE;
}

/* Returns 1 if the first request could be read at once. Then there was no handshake. */
static int is_ready(const conn_t *conn)
{
    return conn->conninfo && conn->conninfo->ready;
}

/* Returns 1 for a connection without TLS, as far as that is known. */
static int is_cleartext(conn_rec *c, const conn_t *conn)
{
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 102)
    return conn->conninfo ? conn->conninfo->ready : !ap_ssl_conn_is_ssl(c);
#else
    return is_ready(conn);
#endif
}

/* Returns how long Apache lingers (MAX_SECS_TO_LINGER, SECONDS_TO_LINGER). */
static apr_int64_t linger_us(const conn_rec *c)
{
    return apr_time_from_sec(apr_table_get(c->notes, "short-lingering-close")
                             ? 2 : 30);
}

/* Returns 1 if the client sends no request after this one, because it has said that it
 * closes the connection (RFC 9112, 9.6). A request with a body does not count: what
 * follows it is not known. */
static int is_last(const request_rec *r)
{
    const char *connection = apr_table_get(r->headers_in, "Connection");

    if (apr_table_get(r->headers_in, "Content-Length")
        || apr_table_get(r->headers_in, "Transfer-Encoding"))
        return 0;
    if (r->proto_num < HTTP_VERSION(1, 1))
        return !connection
               || !ap_find_token(r->pool, connection, "keep-alive");
    return connection && ap_find_token(r->pool, connection, "close");
}

/* Closes a cleartext connection after its last response. Lingering protects the response from
 * the reset that unread input causes. If no input can follow, it is left out, as nginx does.
 * That saves six system calls. If c->aborted is set, the MPM closes the socket at once without
 * shutting it down.
 *
 * Otherwise the acceptor lingers (vl_newconn_linger()). The event MPM would poll the connection
 * until its client closes, and a second worker would then close it. Under worker the thread
 * would wait. Under prefork the child waits, because the acceptor is another process. */
static void linger(conn_rec *c, const conn_t *conn)
{
    int acceptor_lingers, fd = -1;

    if (c->keepalive != AP_CONN_CLOSE || c->aborted || !is_cleartext(c, conn))
        return;
    acceptor_lingers = vl_acceptor_is_thread() && !vl_engage_is_dormant(vl_child.shm);
    if (!acceptor_lingers && !conn->is_last)
        return;
    if (vl_has_pending_output(c))
        vl_flush(c);
    apr_os_sock_get(&fd, ap_get_conn_socket(c));
    if (!c->aborted && !vl_has_pending_output(c)
        && ((conn->is_last && !vl_client_has_sent(fd))
            || (acceptor_lingers && vl_newconn_linger(fd, linger_us(c)))))
        c->aborted = 1;
}

/* Returns 1 if the request lasts as long as both ends keep it, and works only now and
 * then: a tunnel (ap_proxy_tunnel_create), such as a WebSocket, or server-sent events. */
static int is_endless(req_t *req)
{
    const request_rec *r = req->r;

    /* The first part is the head. The next one follows at once. */
    if (!req->passes++ && r->status != HTTP_SWITCHING_PROTOCOLS)
        return 0;
    if (r->status == HTTP_SWITCHING_PROTOCOLS
        || r->output_filters == r->connection->output_filters)
        return 1;
    while (r->next)
        r = r->next;
    return r->content_type && !ap_cstr_casecmpn(r->content_type, EVENTS,
                                                sizeof(EVENTS) - 1);
}

/* The end of a response. */
static __attribute__((noinline)) apr_status_t pass_end(ap_filter_t *f, apr_bucket_brigade *bb)
{
    conn_t *conn = f->ctx;
    req_t *req = conn->current;
    apr_status_t rv;

    if (req && f->c->keepalive == AP_CONN_CLOSE)
        conn->is_last = is_last(req->r);
    rv = ap_pass_brigade(f->next, bb);
    if (req && conn->lease)
        vl_lease_sent();
    /* The pass may have destroyed the request, and with it conn->current. */
    if (conn->current) {
        vl_request_end(conn->current);
        conn->current = NULL;
    }
    if (!req && conn->grant.holds) {    /* the request ended early, and its client reads slowly */
        vl_request_end_grant(conn, 1);
        conn->is_counted_early = 1;
    }
    if (rv == APR_SUCCESS && (conn->lease || f->c->keepalive == AP_CONN_CLOSE)) {
        begin_idle(f, conn, bb);
        linger(f->c, conn);
    }
    return rv;
}

/* Connection output filter above TLS, because encrypting the end of the response is a
 * part of the request's work. It ends the request after its end-of-request bucket has
 * passed. That bucket is never before the end of the stream. */
static apr_status_t filter_end(ap_filter_t *f, apr_bucket_brigade *bb)
{
    const apr_bucket *last = APR_BRIGADE_LAST(bb);
    const conn_t *conn = f->ctx;

    if (last != APR_BRIGADE_SENTINEL(bb) && APR_BUCKET_IS_EOS(last))
        return ap_pass_brigade(f->next, bb);
    if (vl_hooks_ends_request(bb))
        return pass_end(f, bb);
    if (conn->current && (conn->current->state == REQ_LISTED || conn->current->state == REQ_RUNNING)
        && is_endless(conn->current))
        vl_request_has_no_end(conn->current);
    return ap_pass_brigade(f->next, bb);
}

/* Returns the slot of a connection that ends before a request has used it. */
static apr_status_t conn_cleanup(void *data)
{
    conn_t *conn = data;

    /* The process exits. The parent reclaims the slots of this child. */
    if (vl_child.ended)
        return APR_SUCCESS;
    vl_request_uncount(conn);
    if (conn->current == &conn->plain)
        vl_request_end(&conn->plain);
    vl_handshake_close(conn->handshake);
    vl_request_end_grant(conn, 0);
    return APR_SUCCESS;
}

/* Connection input filter: the rest of the head has not come in time. mod_reqtimeout would wait
 * for it once more. */
static apr_status_t filter_late(ap_filter_t *f, apr_bucket_brigade *bb, ap_input_mode_t mode,
                                apr_read_type_e block, apr_off_t readbytes)
{
    apr_status_t rv = ap_get_brigade(f->next, bb, mode, APR_NONBLOCK_READ, readbytes);
    int is_empty = APR_STATUS_IS_EAGAIN(rv) || (rv == APR_SUCCESS && APR_BRIGADE_EMPTY(bb));

    (void)block;
    return is_empty && mode != AP_MODE_INIT ? APR_TIMEUP : rv;
}

/* Takes the grant that the acceptor has left for the connection, and begins its
 * handshake. */
static void take_conninfo(conn_rec *c, conn_t *conn)
{
    vl_lease_use_batch_policy();
    conn->grant = conn->conninfo->grant;
    conn->has_arrived = 1;
    conn->conninfo->grant.holds = conn->conninfo->grant.occupies = 0;
    if (conn->grant.holds && !conn->conninfo->ready)
        conn->handshake = vl_handshake_begin(c, &conn->grant, vl_request_thread_us());
    if (conn->grant.late)
        ap_add_input_filter_handle(late_filter_handle, NULL, NULL, c);
}

/* pre_connection hook, also for the secondary connections of HTTP/2. */
static int pre_connection(conn_rec *c, void *csd)
{
    conn_t *conn = apr_pcalloc(c->pool, sizeof(*conn));

    conn->fd = -1;
    if (c->master) {
        conn->master = ap_get_module_config(c->master->conn_config, &vhostlimit_module);
    }
    else {
        apr_os_sock_get(&conn->fd, csd);
        conn->is_counted = vl_listener_was_direct(conn->fd);
        conn->accepted = conn->is_counted ? CONN_ACCEPTED : CONN_LATER;
        conn->conninfo = conn->is_counted ? NULL : vl_newconn_begin(csd);
        if (!vl_lease_parks() && !vl_lease_has_thread()
            && (vl_acceptor_is_thread() || vl_child.has_sockets)) {
            conn->accepted = conn->conninfo ? CONN_LATER : CONN_ACCEPTED;
            conn->is_counted = 1;
            vl_engage_accepted(vl_child.shm, 1);
        }
    }
    if (conn->conninfo)
        take_conninfo(c, conn);
    ap_set_module_config(c->conn_config, &vhostlimit_module, conn);
    apr_pool_cleanup_register(c->pool, conn, conn_cleanup,
                              apr_pool_cleanup_null);
    ap_add_output_filter_handle(end_filter_handle, conn, NULL, c);
    if (!vl_engage_is_dormant(vl_child.shm))
        vl_hooks_net_add(c, conn);
    return OK;
}

/* Limits a TLS handshake (RequestReadTimeout handshake=). The hook of mod_reqtimeout runs after this
 * module's (vl_hooks_conn_register()), so after the handshake. */
typedef struct vl_hello_t {
    const server_rec *server;
    apr_int64_t began_us;
    apr_size_t bytes;
} vl_hello_t;

/* Connection input filter below mod_ssl. */
static apr_status_t filter_hello(ap_filter_t *f, apr_bucket_brigade *bb, ap_input_mode_t mode,
                                 apr_read_type_e block, apr_off_t readbytes)
{
    vl_hello_t *hello = f->ctx;
    apr_socket_t *socket = ap_get_conn_socket(f->c);
    apr_int64_t now_us = vl_clock_us();
    apr_int64_t left_us = vl_headtime_deadline(hello->server, 1, hello->began_us, now_us, hello->bytes)
                          - now_us;
    apr_interval_time_t timeout_us;
    apr_off_t bytes = 0;
    apr_status_t rv = APR_TIMEUP;

    apr_socket_timeout_get(socket, &timeout_us);
    if (left_us > 0) {
        apr_socket_timeout_set(socket, left_us < timeout_us ? left_us : timeout_us);
        rv = ap_get_brigade(f->next, bb, mode, block, readbytes);
        apr_socket_timeout_set(socket, timeout_us);
    }
    if (APR_STATUS_IS_TIMEUP(rv))
        apr_table_setn(f->c->notes, "short-lingering-close", "1");
    else if (rv == APR_SUCCESS && mode != AP_MODE_SPECULATIVE
             && apr_brigade_length(bb, 0, &bytes) == APR_SUCCESS && bytes > 0)
        hello->bytes += (apr_size_t)bytes;
    return rv;
}

static void limit_handshake(conn_rec *c, conn_t *conn)
{
    vl_hello_t *hello;

    if (!vl_conf_get(c->base_server)->head_time.handshake.initial_us || is_cleartext(c, conn))
        return;
    hello = apr_pcalloc(c->pool, sizeof(*hello));
    hello->server = c->base_server;
    hello->began_us = vl_clock_us() - (conn->conninfo ? conn->conninfo->hello_us : 0);
    conn->hello_filter = ap_add_input_filter_handle(hello_filter_handle, hello, NULL, c);
}

/* Ends a TLS connection that has waited beyond the queue. A handshake would cost more than the
 * refusal. The access log has no request line, as of a request that httpd has not read in time. */
static void refuse_hello(conn_rec *c, conn_t *conn)
{
    const struct linger reset = { 1, 0 };
    req_t unlogged = { 0 }, *req = &unlogged;
    const vl_grant_t *grant = &conn->grant;
    request_rec *r = vl_classify_hello(c);
    int fd;

    if (r)
        req = vl_request_make(r, conn, REQ_REFUSED);
    req->thread = pthread_self();
    req->cpu_start = vl_request_charged_from(conn);
    req->waited_us = grant->waited_us;
    req->admission.refused = VL_REASON_QUEUE;
    if (r) {
        r->status = vl_conf_get(r->server)->status_code;
        ap_run_log_transaction(r);
    }
    vl_request_stop_clock(req);
    vl_slot_reset(vl_child.shm, grant->ticket.account,
                  req->cpu_us > 0 ? (apr_uint32_t)req->cpu_us : 0);
    if (apr_os_sock_get(&fd, ap_get_conn_socket(c)) == APR_SUCCESS)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    c->keepalive = AP_CONN_CLOSE;
    c->aborted = 1;
}

/* process_connection hook, before the TLS handshake. A connection that the MPM has accepted
 * while the server was dormant goes to the acceptor if the server is engaged before any byte of
 * it was read. */
static int begin_connection(conn_rec *c)
{
    conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);
    const vl_passed_t new = { 0 };
    int fd = -1, is_sent;

    if (!conn || conn->is_processed)
        return DECLINED;
    conn->is_processed = 1;
    if (conn->grant.reset) {
        refuse_hello(c, conn);
        return OK;
    }
    if (conn->accepted == CONN_ACCEPTED && !vl_engage_is_dormant(vl_child.shm) && vl_acceptor_is_thread())
        fd = fcntl(vl_socket_of(c), F_DUPFD_CLOEXEC, 0);
    is_sent = fd >= 0 && vl_transfer_send(vl_child.transfer_pair, &fd, &new, 1) == APR_SUCCESS;
    if (fd >= 0)
        close(fd);
    if (!is_sent) {
        limit_handshake(c, conn);
        return DECLINED;
    }
    vl_dispatch_wake_self(vl_child.shm);
    c->aborted = 1;             /* the MPM closes its descriptor, and sends nothing */
    c->keepalive = AP_CONN_CLOSE;
    if (c->cs)
        c->cs->state = CONN_STATE_LINGER;
    return OK;
}

/* Makes the lease after the handshake, when the protocol is known. */
static void begin_lease(conn_rec *c, conn_t *conn)
{
    apr_uint32_t account = conn->grant.ticket.account;
    apr_int64_t timeout_us = conn->grant.timeout_us;
    vl_client_id_t client = conn->grant.ticket.client;

    conn->lease = vl_lease_make(c, &conn->grant, is_cleartext(c, conn));
    /* A parked connection has no thread. Under worker the lease counts its thread. */
    if (vl_lease_parks() || vl_lease_has_thread())
        vl_request_unoccupy(&conn->grant);
    if ((conn->conninfo ? conn->conninfo->http2 : conn->is_http2)
        && ap_is_allowed_protocol(c, NULL, NULL, "h2c"))
        vl_lease_begin_http2(conn->lease);
    else if (timeout_us)
        vl_lease_set_account(conn->lease, account, timeout_us, &client);
}

void vl_hooks_conn_lease(conn_rec *c)
{
    conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);

    if (conn->lease)
        return;
    begin_lease(c, conn);
    vl_lease_was_idle(conn->lease);
    if (conn->account && conn->server) {
        vl_sharing_identify(vl_child.shm, conn->account - 1, conn->server, NULL, NULL,
                            c->client_addr, &conn->client);
        conn->client_conf = vl_conf_get(conn->server);
        conn->server = NULL;
    }
    if (conn->account) {
        vl_lease_set_account(conn->lease, conn->account - 1, conn->client_conf->queue_timeout,
                             &conn->client);
        if (vl_lease_has_thread())
            vl_request_uncount(conn);
    }
}

/* Returns 1 if a connection without TLS, which the acceptor has not seen, begins with HTTP/2. Reads
 * what mod_http2 would read next. */
static int begins_http2(conn_rec *c)
{
    static const char preface[] = "PRI * HTTP/2.0";
    apr_bucket_brigade *bb;
    apr_size_t n = sizeof(preface) - 1;
    char bytes[sizeof(preface)];
    int begins;

    if (!ap_is_allowed_protocol(c, NULL, NULL, "h2c"))
        return 0;
    bb = apr_brigade_create(c->pool, c->bucket_alloc);
    begins = ap_get_brigade(c->input_filters, bb, AP_MODE_SPECULATIVE, APR_BLOCK_READ, 24)
             == APR_SUCCESS && apr_brigade_flatten(bb, bytes, &n) == APR_SUCCESS
             && n > 2 && !memcmp(bytes, preface, n);
    apr_brigade_destroy(bb);
    return begins;
}

/* Returns 1 if the MPM handles the connection as it does without this module. */
static int is_left_to_mpm(conn_rec *c, conn_t *conn, int is_http1)
{
    if (is_http1 && !conn->lease && !conn->conninfo && !c->keepalives && is_cleartext(c, conn))
        conn->is_http2 = begins_http2(c);
    return is_http1 && !conn->is_http2 && vl_engage_has_room(vl_child.shm, conn->account) && !conn->grant.holds
           && !conn->grant.occupies && !conn->grant.refused
           && (!conn->lease || vl_lease_rest(conn->lease));
}

/* Reads what the filters would read next, without blocking. mod_ssl keeps all of it for the next
 * read only if it is asked for as much as its buffer holds. */
static apr_ssize_t read_ahead(conn_rec *c, char *bytes)
{
    apr_bucket_brigade *bb = apr_brigade_create(c->pool, c->bucket_alloc);
    apr_size_t n = AP_IOBUFSIZE;

    if (ap_get_brigade(c->input_filters, bb, AP_MODE_SPECULATIVE, APR_NONBLOCK_READ, AP_IOBUFSIZE)
            != APR_SUCCESS || apr_brigade_flatten(bb, bytes, &n) != APR_SUCCESS)
        n = 0;
    apr_brigade_destroy(bb);
    return (apr_ssize_t)n;
}

/* vl_lease_look_fn. A head that is not complete would hold the thread that reads it. */
static int look_at_next(conn_rec *c, int varies, int behind_filters)
{
    const conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);
    char bytes[AP_IOBUFSIZE];
    vl_peek_t peek;
    apr_ssize_t n = behind_filters ? read_ahead(c, bytes)
                                   : recv(conn->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

    return n > 0 && vl_peek(bytes, (apr_size_t)n, &peek) != VL_PEEK_MORE
           && (varies || vl_request_host(peek.host) != conn->host);
}

/* process_connection hook, after the TLS handshake. Over HTTP/2 the handshake ends here,
 * because each stream takes its own slot while this thread waits for the streams and for
 * the client. Over HTTP/1 it ends with the first request. */
static int process_connection(conn_rec *c)
{
    conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);
    int is_http1, is_first, rc;

    if (!conn || c->master)
        return DECLINED;
    if (conn->hello_filter)
        ap_remove_input_filter(conn->hello_filter);
    conn->hello_filter = NULL;
    if (conn->current == &conn->plain) {    /* its end has not passed filter_end() */
        vl_request_end(&conn->plain);
        conn->current = NULL;
    }
    if (conn->is_http1 && !conn->lease && vl_engage_has_room(vl_child.shm, conn->account))
        return DECLINED;
    is_http1 = !strcmp(ap_get_protocol(c), AP_PROTOCOL_HTTP1);
    if (!is_http1)
        vl_handshake_end(conn->handshake);
    if (is_left_to_mpm(c, conn, is_http1)) {
        conn->is_http1 = 1;
        return DECLINED;
    }
    if (!conn->has_filters)
        vl_hooks_net_add(c, conn);
    is_first = !conn->lease;
    if (is_first && c->keepalives)
        vl_hooks_conn_lease(c);
    else if (is_first)
        begin_lease(c, conn);
    rc = vl_lease_process(conn->lease);
    if (rc != DECLINED)
        vl_handshake_leave(conn->handshake);
    if (!is_http1 && conn->account && vl_engage_is_dormant(vl_child.shm))
        vl_request_measure_listed(conn->account - 1, 0);
    else if (!is_http1 && vl_lease_charged_until(conn->lease))
        vl_request_charged_until(vl_lease_charged_until(conn->lease));
    else if (rc != DECLINED && (!is_http1 || (is_first && !is_ready(conn) && !conn->handshake && !conn->account)))
        vl_request_forget_thread();     /* a handshake without a request */
    if (!vl_lease_parks() && !is_http1)
        vl_request_end_grant(conn, 0);
    return rc == DECLINED && conn->waiting ? process_waiting(c, conn->waiting) : rc;
}

/* pre_close_connection hook. */
static int pre_close(conn_rec *c)
{
    conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);

    if (conn && conn->lease && !c->master)
        vl_lease_close(conn->lease);
    return DECLINED;
}

void vl_hooks_conn_register(vl_hooks_go_fn *go)
{
    static const char *const tls[] = { "mod_ssl.c", NULL };
    static const char *const http2[] = { "mod_http2.c", "http_core.c",
                                         "mod_reqtimeout.c", NULL };

    end_filter_handle = ap_register_output_filter("VHOSTLIMIT_END", filter_end,
                                                  NULL, AP_FTYPE_CONNECTION);
    /* Directly above mod_reqtimeout, which does not wait in a non-blocking read. */
    late_filter_handle = ap_register_input_filter("VHOSTLIMIT_LATE", filter_late, NULL,
                                                  AP_FTYPE_CONNECTION + 7);
    hello_filter_handle = ap_register_input_filter("VHOSTLIMIT_HANDSHAKE", filter_hello, NULL,
                                                   AP_FTYPE_CONNECTION + 8);
    vl_handshake_register();
    vl_hooks_net_register();
    /* Before any request of the connection exists, so that the request's filters are
     * chained behind these, and before mod_ssl, so that conn_cleanup() runs after its cleanup.
     * Secondary connections (HTTP/2) come here too. */
    ap_hook_pre_connection(pre_connection, NULL, tls, APR_HOOK_MIDDLE);
    ap_hook_process_connection(begin_connection, NULL, tls, APR_HOOK_REALLY_FIRST);
    ap_hook_process_connection(process_connection, tls, http2,
                               APR_HOOK_MIDDLE);
    ap_hook_pre_close_connection(pre_close, NULL, NULL, APR_HOOK_REALLY_FIRST);
    process_waiting = go;
    vl_lease_register(vl_newconn_linger, look_at_next);
}
