/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of httpd for a request, in the order in which httpd calls them. */
#include "request/vl_hooks.h"

#include <string.h>

#include <apr_portable.h>
#include <apr_strings.h>
#include <http_core.h>             /* before http_connection.h */
#include <http_connection.h>
#include <http_protocol.h>
#include <http_request.h>
#include <scoreboard.h>

#include "config/vl_accounts.h"
#include "config/vl_conf.h"
#include "core/vl_hosts.h"
#include "config/vl_sharing.h"
#include "config/vl_seen.h"
#include "request/vl_request.h"
#include "base/vl_private.h"

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

/* Closes a connection that cannot be parked after this request if other connections are
 * queued, and its lease will be used up or threads are short. Its next request is queued
 * with a new connection. The core asks for this variable (ap_set_keepalive) after it has
 * chosen chunks for an answer of unknown length. AP_CONN_CLOSE would leave such an answer
 * without an end. */
static void close_if_contended(request_rec *r, const req_t *req)
{
    if (!req->conn->master && !vl_lease_parks() && vl_slot_contended(vl_child.shm)
        && (vl_lease_ends_with_next(req->conn->lease) || vl_lease_threads_are_short()))
        apr_table_setn(r->subprocess_env, "nokeepalive", "1");
}

/* The site or the request is not limited. */
static void pass_unlimited(conn_t *conn)
{
    vl_request_end_grant(conn, 0);
    vl_request_forget_thread();
    vl_request_leave_groups();
}

/* The request is refused without being counted: its site has no account (VL0003), or it
 * cannot be counted and VhostLimitOnError is closed. */
static void refuse_uncounted(req_t *req)
{
    req->admission.entered = 0;
    req->admission.refused = VL_REASON_ERROR;
}

/* The request is not limited, because of its site (mode Off) or of VhostLimitExempt. */
static void pass_or_refuse_uncounted(request_rec *r, conn_t *conn,
                                     const vl_conf_t *conf)
{
    req_t *req;

    pass_unlimited(conn);
    if (conf->mode != VL_MODE_OFF) {
        vl_request_make(r, conn, REQ_EXEMPT);
    }
    else if (conf->refused) {
        req = vl_request_make(r, conn, REQ_REFUSED);
        refuse_uncounted(req);
        req->measured = 1;      /* cpu_us stays 0: the clock was not started */
    }
}

/* 1: a directive contains the name of a variable. Setting them costs 2 % of a short response. */
static int has_variables;

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

/* Begins an admitted or refused request. rv: of its admission. */
static void begin(request_rec *r, req_t *req, const vl_conf_t *conf, apr_status_t rv)
{
    if (rv != APR_SUCCESS) {
        ap_log_rerror(APLOG_MARK, APLOG_DEBUG, rv, r, VLOGNO(0007)
                      "site %s: a request cannot be counted (see VL0008)",
                      conf->site->name);
        if (conf->on_error != VL_ERROR_CLOSED) {
            ap_set_module_config(r->request_config, &vhostlimit_module, NULL);
            pass_unlimited(req->conn);
            return;
        }
        refuse_uncounted(req);
    }
    close_if_contended(r, req);
    vl_request_begin(req, conf);
}

/* Admits or refuses a request of a site that is limited or in DryRun. */
static void admit(request_rec *r, conn_t *conn, const vl_conf_t *conf,
                  apr_uint32_t account, const vl_client_id_t *client)
{
    req_t *req = vl_request_make(r, conn, REQ_REFUSED);    /* until it is admitted */
    apr_status_t rv;

    req->account = account;
    req->client = *client;
    apr_pool_cleanup_register(r->pool, req, req_pool_cleanup, apr_pool_cleanup_null);
    if (vl_request_list(req, conf))
        return;
    if (!conn->master && !conn->lease) {
        vl_hooks_conn_lease(r->connection);
        vl_lease_note_request(conn->lease, r);
    }
    rv = vl_request_admit(req, conf);
    if (req->state != REQ_WAITING)
        begin(r, req, conf, rv);
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

/* Returns the account in which the request runs. A connection may have been granted a slot of
 * its site before the host got an account. */
static apr_uint32_t account_of(const conn_t *conn, const vl_conf_t *conf, apr_uint32_t found)
{
    const vl_grant_t *grant = &conn->grant;

    return (grant->holds || grant->refused) && grant->ticket.account == conf->account
           ? conf->account : found;
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
    account = account_of(conn, conf, found);
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

int vl_hooks_go(conn_rec *c, req_t *req)
{
    request_rec *r = req->r;
    const vl_conf_t *conf = vl_conf_get(r->server);

    vl_sandbox_fork_for(NULL);
    begin(r, req, conf, vl_request_go(req, conf));
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
    apr_status_t rv;

    if (req->state == REQ_WAITING) {
        rv = vl_request_wait(req, conf);
        if (req->conn->waiting)
            return SUSPENDED;
        begin(r, req, conf, rv);
    }
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
                  vl_admit_reason_name(adm->refused),
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
        vl_hooks_conn_lease(c);
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

/* Gives a slot to the error page of a request that was refused. Without a free slot Apache's
 * own text is sent: the page must not cost what the refusal has saved. */
static int admit_error_page(request_rec *r, req_t *req)
{
    const vl_conf_t *conf = vl_conf_get(r->server);

    if (vl_slot_ask(vl_child.shm, req->account, VL_ASK_ERROR_PAGE, 0, &req->admission.ticket) != APR_SUCCESS)
        return conf->status_code;
    req->is_error_page = req->admission.entered = 1;
    vl_request_begin(req, conf);
    return DECLINED;
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

/* The same for a request that has ended before its admission. */
static int admit_early_page(request_rec *r, conn_t *conn, const vl_conf_t *conf)
{
    req_t *req = vl_request_make(r, conn, REQ_REFUSED);

    req->account = vl_accounts_find(vl_child.shm, conf, r->hostname);
    apr_pool_cleanup_register(r->pool, req, req_pool_cleanup, apr_pool_cleanup_null);
    if (vl_request_admit_early(req, conf))
        return DECLINED;
    refuse_uncounted(req);
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
    if (r->prev && req && req->state == REQ_REFUSED && conf->mode == VL_MODE_ON)
        return admit_error_page(r, req);
    if (!req && is_of_ended(r, conn, conf))
        return admit_early_page(r, conn, conf);
    if (req && req->state == REQ_LISTED)
        vl_duty_tell(vl_child.shm, VL_UNTIL_ENGAGED);
    if (req && vl_request_is_counted(req))
        vl_meter_may_last(&req->meter);
    return DECLINED;
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
                           vl_admit_reason_name(req->admission.refused));
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
