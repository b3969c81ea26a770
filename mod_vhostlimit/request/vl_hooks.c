/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of httpd for a connection and its requests, and their filters, in the order in which httpd calls
 * them. */
#include "request/vl_hooks.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <apr_portable.h>
#include <apr_strings.h>
#include <http_core.h>             /* before http_connection.h */
#include <http_connection.h>
#include <http_protocol.h>
#include <http_request.h>
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 102)
#include <http_ssl.h>
#endif
#include <scoreboard.h>
#include <util_filter.h>

#include "accept/vl_acceptor.h"
#include "accept/vl_classify.h"
#include "accept/vl_listener.h"
#include "accept/vl_peek.h"
#include "accept/vl_transfer.h"
#include "base/vl_client.h"
#include "base/vl_clock.h"
#include "base/vl_private.h"
#include "config/vl_accounts.h"
#include "config/vl_conf.h"
#include "config/vl_seen.h"
#include "config/vl_sharing.h"
#include "core/vl_engage.h"
#include "core/vl_hosts.h"
#include "core/vl_slot.h"
#include "request/vl_hooks_net.h"
#include "request/vl_request.h"

/* The media type of server-sent events. */
#define EVENTS "text/event-stream"

static ap_filter_rec_t *end_filter_handle, *late_filter_handle, *hello_filter_handle;
/* 1: a directive contains the name of a variable. Setting them costs 2 % of a short response. */
static int has_variables;

/* --- a connection begins ---------------------------------------------------- */

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
    if (conn->conninfo) {       /* takes the grant that the acceptor has left, and begins the handshake */
        vl_lease_use_batch_policy();
        conn->grant = conn->conninfo->grant;
        conn->has_arrived = 1;
        conn->conninfo->grant.holds = conn->conninfo->grant.occupies = 0;
        if (conn->grant.holds && !conn->conninfo->ready)
            conn->handshake = vl_handshake_begin(c, &conn->grant, vl_request_thread_us());
        if (conn->grant.late)
            ap_add_input_filter_handle(late_filter_handle, NULL, NULL, c);
    }
    ap_set_module_config(c->conn_config, &vhostlimit_module, conn);
    apr_pool_cleanup_register(c->pool, conn, conn_cleanup,
                              apr_pool_cleanup_null);
    ap_add_output_filter_handle(end_filter_handle, conn, NULL, c);
    if (!vl_engage_is_dormant(vl_child.shm))
        vl_hooks_net_add(c, conn);
    return OK;
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

/* Limits a TLS handshake (RequestReadTimeout handshake=). The hook of mod_reqtimeout runs after this
 * module's (vl_hooks_register()), so after the handshake. */
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
    vl_hello_t *hello;
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
    if (is_sent) {
        vl_slot_wake_self(vl_child.shm);
        c->aborted = 1;             /* the MPM closes its descriptor, and sends nothing */
        c->keepalive = AP_CONN_CLOSE;
        if (c->cs)
            c->cs->state = CONN_STATE_LINGER;
        return OK;
    }
    if (vl_conf_get(c->base_server)->head_time.handshake.initial_us && !is_cleartext(c, conn)) {
        hello = apr_pcalloc(c->pool, sizeof(*hello));
        hello->server = c->base_server;
        hello->began_us = vl_clock_us() - (conn->conninfo ? conn->conninfo->hello_us : 0);
        conn->hello_filter = ap_add_input_filter_handle(hello_filter_handle, hello, NULL, c);
    }
    return DECLINED;
}

/* --- its lease, and each time that a thread takes it up ---------------------- */

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

/* Makes the lease of a connection that began while the server was dormant. */
static void begin_lease_late(conn_rec *c)
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

/* vl_lease_look_fn. A head that is not complete would hold the thread that reads it. */
static int look_at_next(conn_rec *c, int varies, int behind_filters)
{
    const conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);
    char bytes[AP_IOBUFSIZE];
    apr_size_t length = AP_IOBUFSIZE;
    apr_bucket_brigade *bb;
    vl_peek_t peek;
    apr_ssize_t n = 0;

    if (!behind_filters) {
        n = recv(conn->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    }
    else {
        /* What the filters would read next, without blocking. mod_ssl keeps all of it for the next read only
         * if it is asked for as much as its buffer holds. */
        bb = apr_brigade_create(c->pool, c->bucket_alloc);
        if (ap_get_brigade(c->input_filters, bb, AP_MODE_SPECULATIVE, APR_NONBLOCK_READ, AP_IOBUFSIZE)
                == APR_SUCCESS && apr_brigade_flatten(bb, bytes, &length) == APR_SUCCESS)
            n = (apr_ssize_t)length;
        apr_brigade_destroy(bb);
    }
    return n > 0 && vl_peek(bytes, (apr_size_t)n, &peek) != VL_PEEK_MORE
           && (varies || vl_request_host(peek.host) != conn->host);
}

static int go(conn_rec *c, req_t *req);

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
        begin_lease_late(c);
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
    return rc == DECLINED && conn->waiting ? go(c, conn->waiting) : rc;
}

/* pre_close_connection hook. */
static int pre_close(conn_rec *c)
{
    conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);

    if (conn && conn->lease && !c->master)
        vl_lease_close(conn->lease);
    return DECLINED;
}

/* --- a request ---------------------------------------------------------------- */

static apr_status_t req_pool_cleanup(void *data)
{
    req_t *req = data;

    if (!req->conn->master)
        vl_lease_sent();
    vl_request_end(req);
    vl_request_charge_refusal(req);
    if (req->conn->current == req)
        req->conn->current = NULL;
    return APR_SUCCESS;
}

/* The request is not limited, because of its site (mode Off) or of VhostLimitExempt. */
static void pass_or_refuse_uncounted(request_rec *r, conn_t *conn,
                                     const vl_conf_t *conf)
{
    req_t *req;

    vl_request_pass_unlimited(conn);
    if (conf->mode != VL_MODE_OFF) {
        vl_request_make(r, conn, REQ_EXEMPT);
    }
    else if (conf->refused) {
        req = vl_request_make(r, conn, REQ_REFUSED);
        req->admission.refused = VL_REASON_ERROR;       /* its site has no account (VL0003) */
        req->measured = 1;      /* cpu_us stays 0: the clock was not started */
    }
}

/* Admits a request while the server is dormant, if that depends on nothing but its site. Returns 0
 * if it does, or if the request has to ask for a slot. */
static int admit_plain(request_rec *r, conn_t *conn, const vl_conf_t *conf)
{
    req_t *req = &conn->plain;

    if (!conf->is_plain || conn->lease || conn->conninfo || conn->master
        || r->useragent_addr != r->connection->client_addr)
        return 0;
    if (has_variables)
        req = vl_request_make(r, conn, REQ_REFUSED);
    if (!vl_request_list_plain(req, conn, r, conf))
        return 0;
    if (has_variables)
        apr_pool_cleanup_register(r->pool, req, req_pool_cleanup, apr_pool_cleanup_null);
    if (conn->server != r->server) {
        conn->server = r->server;
        conn->account = vl_request_is_limited(conf) ? conf->account + 1 : 0;
        conn->client_conf = NULL;
    }
    return 1;
}

/* Admits or refuses a request of a site that is limited or in DryRun. */
static void admit(request_rec *r, conn_t *conn, const vl_conf_t *conf,
                  apr_uint32_t account, const vl_client_id_t *client)
{
    req_t *req = vl_request_make(r, conn, REQ_REFUSED);    /* until it is admitted */

    req->account = account;
    req->client = *client;
    apr_pool_cleanup_register(r->pool, req, req_pool_cleanup, apr_pool_cleanup_null);
    if (vl_request_list(req, conf))
        return;
    if (!conn->master && !conn->lease) {
        begin_lease_late(r->connection);
        vl_lease_note_request(conn->lease, r);
    }
    vl_request_admit(req, conf);
}

/* Finds the client of the request. That of a connection without a proxy does not change,
 * unless the site's settings need the request. */
static void identify(request_rec *r, conn_t *conn, const vl_conf_t *conf,
                     apr_uint32_t account)
{
    apr_uint32_t user = vl_hosts_identity(vl_child.shm, account);

    if (conn->client_conf == conf && conn->client_user == user
        && conn->client_addr == r->useragent_addr
        && conf->sharing.known == VL_KNOWN_OFF && !conf->sharing.classes)
        return;
    vl_sharing_identify(vl_child.shm, account, r->server, r, conn->sent, r->useragent_addr,
                        &conn->client);
    conn->client_conf = conf;
    conn->client_user = user;
    /* The address of a proxied request is in the request's pool. */
    conn->client_addr = r->useragent_addr == r->connection->client_addr
                        ? r->useragent_addr : NULL;
}

/* Tells the lease which account the next request of its connection waits in. A lease of another
 * account ends, so that the request waits in its own. */
static void set_lease_account(request_rec *r, conn_t *conn, const vl_conf_t *conf,
                              apr_uint32_t account, apr_uint32_t next)
{
    vl_client_id_t client = conn->client;
    vl_lease_t *lease = vl_request_lease(conn);

    conn->is_foreign = lease && !conn->master && vl_lease_is_foreign(lease, account);
    if (!lease)
        return;
    if (!conn->master)
        conn->host = vl_request_host(r->hostname ? r->hostname : "");
    if (conn->is_foreign)
        vl_lease_charge(lease, APR_USEC_PER_SEC);
    if (next != account && conf->mode == VL_MODE_ON)
        vl_sharing_identify(vl_child.shm, next, r->server, r, conn->sent, r->useragent_addr,
                            &client);
    vl_lease_set_account(lease, next, conf->queue_timeout, &client);
    if (vl_lease_has_thread())
        vl_request_uncount(conn->master ? conn->master : conn);
}

/* Writes what the first request of a connection waited as, and what it is: account, class, band and
 * hash of the client, or "exempt". t/597 compares both. */
static void trace_identity(request_rec *r, const conn_t *conn, apr_uint32_t account,
                           const vl_client_id_t *is, int is_exempt)
{
    const vl_client_id_t *waited = &conn->grant.ticket.client;

    if (conn->conninfo && (conn->conninfo->ready || !conn->grant.timeout_us)
        && !r->connection->keepalives)
        ap_log_rerror(APLOG_MARK, APLOG_TRACE1, 0, r, "waited as %s %u %u %u %016" APR_UINT64_T_HEX_FMT
                      ", is %s %u %u %u %016" APR_UINT64_T_HEX_FMT,
                      conn->grant.timeout_us ? "limited" : "exempt", conn->grant.ticket.account,
                      waited->class_no, waited->band, waited->key,
                      is_exempt ? "exempt" : "limited", account, is->class_no, is->band, is->key);
}

/* Tells the modules whose hooks run later that requests of the account wait, or have waited in
 * the last second. After the wait of this one. */
static void tell_contention(request_rec *r, apr_uint32_t account)
{
    apr_uint32_t waiting = vl_slot_queued(vl_child.shm, account)
                           + vl_slot_deferred(vl_child.shm, account);

    if (waiting || vl_shm_is_contended(vl_child.shm, account))
        apr_table_setn(r->subprocess_env, "VHOSTLIMIT_BUSY", apr_psprintf(r->pool, "%u", waiting));
}

/* post_read_request hook, before other modules change the header lines. */
static int req_keep_sent(request_rec *r)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    conn_t *conn = ap_get_module_config(r->connection->conn_config, &vhostlimit_module);

    if (conn && !r->main && !r->prev)
        conn->sent = conf->needs_head ? apr_table_copy(r->pool, r->headers_in) : NULL;
    return DECLINED;
}

static __attribute__((noinline)) void admit_other(request_rec *r, conn_t *conn, const vl_conf_t *conf)
{
    vl_client_id_t client = { 0 };
    apr_uint32_t account, found;
    int is_exempt;

    vl_sandbox_fork_for(NULL);
    if (!conn)
        return;
    if (r->main || r->prev) {
        if (!conn->current)     /* error document of a request that could not be read */
            vl_request_leave_groups();
        return;
    }
    conn->server = NULL;
    vl_handshake_end(conn->handshake);
    is_exempt = conf->mode != VL_MODE_OFF && conf->exempt && vl_seen_is_exempt(r, conn->sent);
    found = vl_accounts_find(vl_child.shm, conf, r->hostname);
    /* A connection may have been granted a slot of its site before the host got an account. */
    account = (conn->grant.holds || conn->grant.refused) && conn->grant.ticket.account == conf->account
              ? conf->account : found;
    __atomic_store_n(&(conn->master ? conn->master : conn)->account,
                     vl_request_is_limited(conf) && !is_exempt ? account + 1 : 0,
                     __ATOMIC_RELAXED);
    if (conf->mode == VL_MODE_ON) {
        identify(r, conn, conf, account);
        client = conn->client;
        vl_sharing_cookie(vl_child.shm, account, r, &client);
    }
    if (conf->mode == VL_MODE_ON)
        trace_identity(r, conn, account, &client, is_exempt);
    if (vl_request_is_limited(conf) && !is_exempt)
        set_lease_account(r, conn, conf, account, found);
    if (vl_request_lease(conn))
        vl_lease_note_request(vl_request_lease(conn), r);
    if (conf->mode == VL_MODE_OFF || is_exempt)
        pass_or_refuse_uncounted(r, conn, conf);
    else
        admit(r, conn, conf, account, &client);
    if (conf->mode == VL_MODE_ON)
        tell_contention(r, account);
}

/* post_read_request hook. */
static int req_admit(request_rec *r)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    conn_t *conn = ap_get_module_config(r->connection->conn_config,
                                        &vhostlimit_module);

    if (conn && !r->main && !r->prev) {
        conn->seen = r;
        vl_request_conn_begun(conn->master ? conn->master : conn);
        if (admit_plain(r, conn, conf))
            return DECLINED;
    }
    admit_other(r, conn, conf);
    return DECLINED;
}

/* Processes a request that has waited without its thread (conn_t.waiting), as a process_connection hook.
 * vl_lease_process() has run the hooks again when the wait was over. */
static int go(conn_rec *c, req_t *req)
{
    request_rec *r = req->r;
    const vl_conf_t *conf = vl_conf_get(r->server);

    vl_sandbox_fork_for(NULL);
    vl_request_go(req, conf);
    tell_contention(r, req->account);
    /* As ap_process_http_async_connection() */
    c->cs->state = CONN_STATE_HANDLER;
    ap_update_child_status(c->sbh, SERVER_BUSY_WRITE, r);
    ap_process_async_request(r);
    if (c->cs->state != CONN_STATE_WRITE_COMPLETION && c->cs->state != CONN_STATE_SUSPENDED)
        c->cs->state = CONN_STATE_LINGER;
    return OK;
}

static __attribute__((noinline)) int wait_or_refuse(request_rec *r, req_t *req)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    const vl_admission_t *adm;
    apr_uint32_t seconds;

    if (req->state == REQ_WAITING && vl_request_wait(req, conf))
        return SUSPENDED;
    if (req->state != REQ_REFUSED)
        return DECLINED;
    adm = &req->admission;
    seconds = vl_conf_retry_after(conf, adm->service_us, adm->concurrency);
    if (seconds)
        apr_table_setn(r->err_headers_out, "Retry-After",
                       apr_psprintf(r->pool, "%u", seconds));
    /* The refusals of deferred connections are so many a second (vl_newconn.c). On a kept
     * connection the next one would follow at once. */
    if (adm->refused == VL_REASON_QUEUE && req->waited_us && !r->connection->master)
        r->connection->keepalive = AP_CONN_CLOSE;
    ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, VLOGNO(0006) "site %s: "
                  "refused with %d: %s, %u running", conf->site->name,
                  conf->status_code,
                  vl_slot_reason_name(adm->refused),
                  adm->concurrency);
    return conf->status_code;
}

/* quick_handler hook: lets a request wait, and answers a refused one. A status that
 * post_read_request returns ends the connection without an answer (ap_read_request). */
static int req_wait_or_refuse(request_rec *r, int lookup)
{
    req_t *req = ap_get_module_config(r->request_config, &vhostlimit_module);

    return !req || lookup ? DECLINED : wait_or_refuse(r, req);
}

/* protocol_switch hook. With an upgrade to h2c the request becomes the first stream,
 * which takes a slot by itself. The handler of the upgrade request lasts as long as the
 * connection, so the request ends here. */
static int end_at_switch(conn_rec *c, request_rec *r, server_rec *s,
                         const char *protocol)
{
    conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);

    (void)s;
    if (r && conn && conn->current)
        vl_request_end(conn->current);
    if (conn)
        conn->is_http1 = 0;
    if (!conn || conn->master || strncmp(protocol, "h2", 2) != 0)
        return DECLINED;
    if (r)                      /* an upgrade in a dormant server, not a TLS handshake */
        begin_lease_late(c);
    if (conn->lease)
        vl_lease_begin_http2(conn->lease);
    return DECLINED;
}

/* Returns 1 if a handler other than that of files works on the request: it may start a program
 * or wait for another server. Without a handler of its own, a file has its media type as the
 * name of one. */
static int has_handler(const request_rec *r)
{
    if (r->proxyreq != PROXYREQ_NONE || !r->handler)
        return r->proxyreq != PROXYREQ_NONE;
    return !strncmp(r->handler, "proxy:", 6)
           || (strcmp(r->handler, "default-handler") && !strchr(r->handler, '/'));
}

/* Returns 1 if the request, an error page, is that of one which has ended before req_admit(). */
static int is_of_ended(const request_rec *r, const conn_t *conn, const vl_conf_t *conf)
{
    const request_rec *first = r;

    while (first->prev)
        first = first->prev;
    return first != r && !r->main && conn && conn->seen != first && vl_request_is_limited(conf)
           && !(conf->exempt && vl_seen_is_exempt((request_rec *)r, conn->sent));
}

/* Gives a slot to the error page of such a request. */
static int admit_early_page(request_rec *r, conn_t *conn, const vl_conf_t *conf)
{
    req_t *req = vl_request_make(r, conn, REQ_REFUSED);

    req->account = vl_accounts_find(vl_child.shm, conf, r->hostname);
    apr_pool_cleanup_register(r->pool, req, req_pool_cleanup, apr_pool_cleanup_null);
    if (vl_request_admit_early(req, conf))
        return DECLINED;
    req->admission.refused = VL_REASON_ERROR;
    return conf->status_code;
}

/* fixups hook, the last one before the handler of the request, or of its internal
 * redirect.  From here on the thread starts programs in the sandbox of the site.  Programs
 * that authenticate have run before, outside of it: the server's administrator has chosen
 * them, and some of them are setuid. */
static int req_fixups(request_rec *r)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    conn_t *conn = ap_get_module_config(r->connection->conn_config,
                                        &vhostlimit_module);
    req_t *req = conn ? conn->current : NULL;
    const vl_sandbox_t *programs = conf->programs;

    if (programs && conf->owner == VL_OWNER_SANDBOX && conf->mode != VL_MODE_OFF
        && vl_shm_is_unconfined(vl_child.shm, conf->account))
        programs = NULL;
    /* Without a sandbox of the site req_admit() has prepared the thread. */
    if (conf->programs)
        vl_sandbox_fork_for(programs);
    /* The programs of mod_cgi start in the account's cgroup. The daemon of mod_cgid is outside of it. */
    if (programs && r->handler && !strcmp(r->handler, "cgi-script")
        && ap_find_linked_module("mod_cgi.c"))
        vl_sandbox_await_end(r->pool);
    if (!has_handler(r))
        return DECLINED;
    if (r->prev && req && req->state == REQ_REFUSED && conf->mode == VL_MODE_ON) {
        /* The error page of a request that was refused. Without a free slot Apache's own text is sent: the
         * page must not cost what the refusal has saved. */
        if (vl_slot_ask(vl_child.shm, req->account, VL_ASK_ERROR_PAGE, 0, &req->admission.ticket) != APR_SUCCESS)
            return conf->status_code;
        req->is_error_page = req->admission.entered = 1;
        vl_request_begin(req, conf);
        return DECLINED;
    }
    if (!req && is_of_ended(r, conn, conf))
        return admit_early_page(r, conn, conf);
    if (req && req->state == REQ_LISTED)
        vl_duty_tell(vl_child.shm, VL_UNTIL_ENGAGED);
    if (req && vl_request_is_counted(req))
        vl_meter_may_last(&req->meter);
    return DECLINED;
}

/* --- the end of a response ---------------------------------------------------- */

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
    /* As long as Apache does (MAX_SECS_TO_LINGER, SECONDS_TO_LINGER). */
    const apr_int64_t linger_us = apr_time_from_sec(apr_table_get(c->notes, "short-lingering-close") ? 2 : 30);
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
            || (acceptor_lingers && vl_newconn_linger(fd, linger_us))))
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

/* Returns the decision in words, for VHOSTLIMIT_ACTION. */
static const char *action_name(const req_t *req)
{
    if (req->state == REQ_EXEMPT)
        return "exempt";
    if (!req->admission.refused)
        return "pass";
    if (req->admission.refused == VL_REASON_GONE)
        return "gone";
    return req->admission.entered && !req->is_error_page ? "dryrun" : "refused";
}

/* log_transaction hook: sets the variables for logs. mod_log_config reads the
 * environment of the last request in a chain of internal redirects, other modules that
 * of the first, so all requests of the chain get them. */
static int req_log(request_rec *r)
{
    req_t *req = ap_get_module_config(r->request_config, &vhostlimit_module);
    request_rec *each;
    const char *wait, *cpu;

    if (!req)
        return DECLINED;
    vl_request_stop_clock(req);
    wait = req->waited_us ? apr_off_t_toa(r->pool, (apr_off_t)req->waited_us) : "0";
    cpu = apr_off_t_toa(r->pool, (apr_off_t)req->cpu_us);
    for (each = r; each; each = each->next) {
        apr_table_t *env = each->subprocess_env;

        apr_table_setn(env, "VHOSTLIMIT_ACTION", action_name(req));
        apr_table_setn(env, "VHOSTLIMIT_WAIT_US", wait);
        apr_table_setn(env, "VHOSTLIMIT_CPU_US", cpu);
        if (req->admission.refused)
            apr_table_setn(env, "VHOSTLIMIT_REASON",
                           vl_slot_reason_name(req->admission.refused));
    }
    return OK;
}

/* log_transaction hook. A request without a file name may have ended before req_admit():
 * another module has denied it in post_read_request, or it could not be parsed. */
static int req_ended_early(request_rec *r)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    conn_t *conn;
    req_t *req;

    if (r->filename || !r->the_request)
        return DECLINED;
    conn = ap_get_module_config(r->connection->conn_config, &vhostlimit_module);
    if (!conn || conn->seen == r || r->status == HTTP_REQUEST_TIME_OUT || conf->mode != VL_MODE_ON)
        return DECLINED;
    if (conn->is_counted_early) {
        conn->is_counted_early = 0;
        return DECLINED;
    }
    req = vl_request_make(r, conn, REQ_REFUSED);
    req->account = vl_accounts_find(vl_child.shm, conf, r->hostname);
    vl_request_ended_early(req, conf);
    return DECLINED;
}

/* --- set-up --------------------------------------------------------------------- */

static int names_variable(const ap_directive_t *d)
{
    for (; d; d = d->next) {
        if ((d->args && ap_strstr_c(d->args, "VHOSTLIMIT_")) || names_variable(d->first_child))
            return 1;
    }
    return 0;
}

void vl_hooks_post_config(server_rec *s)
{
    for (; s; s = s->next) {
        vl_conf_t *conf = vl_conf_get(s);

        conf->is_plain = conf->mode == VL_MODE_ON && !conf->exempt && !conf->programs
                         && !conf->sharing.classes && conf->sharing.known == VL_KNOWN_OFF
                         && conf->accounts.by != VL_ACCOUNTS_HOST;
    }
}

void vl_hooks_check_config(server_rec *s)
{
    const char *before = apr_hook_debug_current;
    int keeps = 0, gives = 0;

    /* The order of hooks goes by this name. httpd sets it while it loads a module. */
    apr_hook_debug_current = "mod_vhostlimit.c";
    for (; s; s = s->next) {
        const vl_conf_t *conf = vl_conf_get(s);

        keeps |= conf->needs_head;
        gives |= conf->sharing.known == VL_KNOWN_COOKIE;
    }
    if (keeps)
        ap_hook_post_read_request(req_keep_sent, NULL, NULL, APR_HOOK_REALLY_FIRST);
    if (gives)
        vl_sharing_register();
    has_variables = names_variable(ap_conftree);
    /* First: the logs are written by later hooks. */
    if (has_variables)
        ap_hook_log_transaction(req_log, NULL, NULL, APR_HOOK_REALLY_FIRST);
    if (ap_find_linked_module("mod_http2.c"))
        vl_lease_http2_register();
    apr_hook_debug_current = before;
    apr_hook_sort_all();
}

void vl_hooks_register(void)
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
    vl_lease_register(vl_newconn_linger, look_at_next);
    /* Last: mod_remoteip and mod_setenvif have run, and a request that they refuse takes
     * no slot. */
    ap_hook_post_read_request(req_admit, NULL, NULL, APR_HOOK_REALLY_LAST);
    /* First: a page from a cache is work too. */
    ap_hook_quick_handler(req_wait_or_refuse, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_fixups(req_fixups, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_protocol_switch(end_at_switch, NULL, NULL,
                            APR_HOOK_REALLY_FIRST);
    ap_hook_log_transaction(req_ended_early, NULL, NULL, APR_HOOK_REALLY_FIRST);
}
