/* SPDX-License-Identifier: Apache-2.0 */
/* A request runs from post_read_request until its end-of-request bucket has passed down the
 * output filters. By then the handler has returned, and the kernel or the MPM's write
 * completion has all of its output. A request whose client reads more slowly than the
 * handler writes releases its slot while its thread waits (vl_hooks_net.c). A request that
 * does not reach its end-of-request bucket (aborted, HTTP/2 reset) ends when its pool is
 * destroyed.
 *
 * Internal redirects and subrequests are a part of the request that made them.
 *
 * A request is handled by one thread at a time, so this file has no lock. */
#include "request/vl_hooks.h"

#include <string.h>

#include <apr_strings.h>
#include <http_core.h>
#include <http_protocol.h>
#include <http_request.h>

#include "base/vl_clock.h"
#include "config/vl_conf.h"
#include "config/vl_exempt.h"
#include "request/vl_hooks_int.h"
#include "base/vl_private.h"
#include "core/vl_thread.h"

/* Average CPU time of the account's requests, us, from which a thread moves into the
 * site's cgroup. */
#define PLACE_MIN_US 1000

static vl_shm_t *accounts;
static const vl_place_t *places;

/* Reading a thread's CPU clock is a system call, so it is read once for each request, at
 * its end. The next request of the thread begins at that reading. Work of the thread
 * between the two, such as taking up the connection and a TLS handshake, is a part of
 * the next request's cost. */
static __thread struct {
    int known;                  /* us is where the next request begins */
    apr_int64_t us;
} last_end;

apr_int64_t vl_hooks_thread_us(void)
{
    return last_end.known ? last_end.us : vl_meter_thread_us();
}

void vl_hooks_forget_thread(void)
{
    last_end.known = 0;
}

static void start_cpu_clock(req_t *req)
{
    req->thread = pthread_self();
    req->cpu_start = vl_hooks_thread_us();
}

/* Sets cpu_us. The request may end on another thread, whose clock says nothing about it. */
static void stop_cpu_clock(req_t *req)
{
    if (req->measured || !pthread_equal(req->thread, pthread_self()))
        return;
    req->measured = 1;
    last_end.us = vl_meter_thread_us();
    last_end.known = 1;
    req->cpu_us = last_end.us - req->cpu_start;
}

/* Returns the lease of the connection, for a stream that of its master connection. It is
 * not NULL while a request is admitted or runs. */
static vl_lease_t *lease_of(const conn_t *conn)
{
    return conn->master ? conn->master->lease : conn->lease;
}

void vl_hooks_pause(req_t *req)
{
    if (!req->occupies && !req->conn->master && !vl_lease_has_thread()) {
        req->occupies = 1;
        vl_thread_occupy(accounts, req->admission.ticket.account);
    }
    vl_meter_pause(&req->meter);
}

void vl_hooks_go_on(req_t *req)
{
    vl_meter_go_on(&req->meter);
    if (req->occupies)
        vl_thread_free(accounts, req->admission.ticket.account);
    req->occupies = 0;
}

void vl_hooks_req_leave(req_t *req)
{
    vl_cost_t cost;
    apr_uint64_t charged;

    if (!req->running)
        return;
    vl_hooks_go_on(req);
    req->running = 0;
    vl_meter_end(&req->meter, &cost);
    stop_cpu_clock(req);
    if (req->resets_group && pthread_equal(req->thread, pthread_self()))
        vl_place_thread(places, VL_PLACE_NONE);
    cost.busy_us = vl_clock_us() - req->started - req->meter.paused_us;
    cost.cpu_us = req->cpu_us;
    cost.client = &req->client;
    charged = vl_park_end(&req->admission.ticket, &cost);
    vl_visitor_served(accounts, req->r, &req->client);
    vl_lease_charge(lease_of(req->conn), charged);
}

/* Charges the site for the CPU time of a request that was refused without a slot. */
static void charge_refusal(const req_t *req)
{
    const vl_conf_t *conf = vl_conf_get(req->r->server);

    if (req->admission.decision.verdict == VL_REFUSE && !req->admission.entered
        && req->admission.decision.reason != VL_REASON_ERROR
        && conf->mode == VL_MODE_ON && req->cpu_us > 0) {
        vl_charge_pay(accounts, conf->account, (apr_uint64_t)req->cpu_us);
        vl_slot_charge_client(accounts, conf->account, &req->client,
                              (apr_uint64_t)req->cpu_us);
    }
}

static apr_status_t req_pool_cleanup(void *data)
{
    req_t *req = data;

    vl_hooks_req_leave(req);
    charge_refusal(req);
    if (req->conn->current == req)
        req->conn->current = NULL;
    return APR_SUCCESS;
}

static void set_retry_after(request_rec *r, const vl_conf_t *conf,
                            const vl_admission_t *admission)
{
    apr_uint32_t seconds = vl_conf_retry_after(conf, admission->service_us,
                                               admission->concurrency);

    if (seconds)
        apr_table_setn(r->err_headers_out, "Retry-After",
                       apr_psprintf(r->pool, "%u", seconds));
}

/* Returns the decision in words, for VHOSTLIMIT_ACTION. */
static const char *action_name(const req_t *req)
{
    if (req->exempt)
        return "exempt";
    if (req->admission.decision.verdict == VL_PASS)
        return "pass";
    if (req->admission.decision.reason == VL_REASON_GONE)
        return "gone";
    return req->admission.entered ? "dryrun" : "refused";
}

static int refuse(request_rec *r, const vl_conf_t *conf, const req_t *req)
{
    const vl_admission_t *adm = &req->admission;

    set_retry_after(r, conf, adm);
    ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, VLOGNO(0006) "vhost %s: "
                  "refused with %d: %s, %u running", conf->account_name,
                  conf->status_code,
                  vl_admit_reason_name(adm->decision.reason),
                  adm->concurrency);
    return conf->status_code;
}

/* VhostLimitOnError closed: refuses the request without counting it. */
static void refuse_uncounted(req_t *req)
{
    req->admission.entered = 0;
    req->admission.decision.verdict = VL_REFUSE;
    req->admission.decision.reason = VL_REASON_ERROR;
}

/* Admits or refuses a request with the slot, or the refusal, that it was queued for. */
static void admit_with_grant(req_t *req, const vl_grant_t *grant,
                             const vl_conf_t *conf)
{
    vl_admission_t *adm = &req->admission;

    req->waited_us = grant->waited_us;
    adm->entered = grant->holds;
    if (grant->holds) {
        adm->ticket = grant->ticket;
        vl_slot_begin(accounts, grant->waited_us, adm);
    }
    else {
        adm->decision.verdict = VL_REFUSE;
        adm->decision.reason = grant->refused;
        if (grant->refused != VL_REASON_GONE)
            vl_slot_refused(accounts, conf->account, adm);
    }
}

/* Takes the slot of a stream whose connection can be parked. The stream began because
 * the connection has a lease. Returns 0 if the site is at its own limits. */
static int take_stream_slot(vl_lease_t *lease, const vl_conf_t *conf,
                            vl_grant_t *grant)
{
    grant->holds = vl_lease_take(lease, &grant->ticket);
    if (grant->holds && grant->ticket.account != conf->account) {
        vl_park_end(&grant->ticket, NULL);
        grant->holds = 0;
    }
    return grant->holds
           || vl_slot_resume(accounts, conf->account, 1, &grant->ticket)
              == APR_SUCCESS;
}

/* Waits for a slot with the thread blocked. Returns 0 at once if the site has too many
 * threads or too many thread waiters (vl_park_wait()). */
static int wait_with_thread(const req_t *req, const vl_conf_t *conf, vl_grant_t *grant)
{
    int is_stream = req->conn->master != NULL;
    int occupies = !is_stream && !vl_lease_has_thread(), waited;

    if (vl_lease_has_thread() && vl_thread_exceeds_capacity(accounts, conf->account))
        return 0;
    if (occupies
        && vl_thread_try_occupy(accounts, conf->account) != APR_SUCCESS)
        return 0;
    waited = vl_park_wait(conf->account, &req->client, is_stream, conf->queue_timeout, grant);
    if (occupies)
        vl_thread_free(accounts, conf->account);
    if (waited && grant->holds && !is_stream && vl_lease_is_gone(lease_of(req->conn))) {
        vl_park_end(&grant->ticket, NULL);
        grant->holds = 0;
        grant->refused = VL_REASON_GONE;
        vl_slot_gone(accounts, conf->account);
    }
    return waited;
}

/* Takes a slot for a request whose connection was not queued for it: by the lease, or a
 * free slot. If there is neither, the request waits with its thread (vl_park_wait()). If
 * it may not wait, it runs above the number of slots. */
static void take_slot(const req_t *req, vl_lease_t *lease,
                      const vl_conf_t *conf, vl_grant_t *grant)
{
    int takes_no_thread = req->conn->master || vl_lease_has_thread();
    apr_status_t rv;

    grant->holds = vl_lease_resume(lease, takes_no_thread, &grant->ticket);
    if (grant->holds)
        return;
    rv = vl_slot_try(accounts, conf->account, &grant->ticket);
    grant->holds = rv == APR_SUCCESS;
    if (APR_STATUS_IS_EAGAIN(rv) && !wait_with_thread(req, conf, grant)) {
        rv = vl_slot_resume(accounts, conf->account, takes_no_thread,
                            &grant->ticket);
        grant->holds = rv == APR_SUCCESS;
        if (APR_STATUS_IS_EAGAIN(rv))
            grant->refused = VL_REASON_QUEUE;
    }
    if (grant->holds)
        vl_lease_renew(lease);
}

/* Returns 1 if requests of the site may have to wait. */
static int is_limited(const vl_conf_t *conf)
{
    return conf->mode == VL_MODE_ON && vl_slot_queue(accounts, conf->account);
}

/* Fills in *grant with a slot or a refusal, unless it has one already. */
static void get_slot(const req_t *req, const vl_conf_t *conf, vl_grant_t *grant)
{
    vl_lease_t *lease = lease_of(req->conn);

    if (grant->holds || grant->refused)
        return;
    if (!req->conn->master || !vl_lease_parks()) {
        take_slot(req, lease, conf, grant);
        return;
    }
    grant->refused = vl_lease_refused(lease, &grant->waited_us);
    if (grant->refused || (grant->holds = take_stream_slot(lease, conf, grant)))
        return;
    /* The site is at its own limits. */
    if (!wait_with_thread(req, conf, grant))
        grant->refused = VL_REASON_QUEUE;
}

/* Takes the grant of the connection. If the request names another host than the
 * connection's first bytes did, the slot belongs to another site and is returned. */
static vl_grant_t take_grant(conn_t *conn, apr_uint32_t account)
{
    vl_grant_t grant;

    if (conn->grant.ticket.account != account)
        vl_hooks_drop_grant(conn);
    grant = conn->grant;
    memset(&conn->grant, 0, sizeof(grant));
    return grant;
}

/* Admits or refuses the request. Returns an error if it cannot be counted. */
static apr_status_t admit(req_t *req, const vl_conf_t *conf)
{
    vl_grant_t grant = take_grant(req->conn, conf->account);

    if (is_limited(conf))
        get_slot(req, conf, &grant);
    vl_hooks_unoccupy(&grant);
    if (!grant.holds && !grant.refused)
        return vl_slot_enter(accounts, conf->account, &req->admission);
    admit_with_grant(req, &grant, conf);
    return APR_SUCCESS;
}

/* Moves the thread into the site's cgroup if the site's requests use CPU time in their
 * thread. A move costs 5 us, and the kernel makes one move at a time. If the site has a
 * quota, the thread leaves the cgroup at the end of the request, so that the quota does
 * not throttle other work of the thread. */
static void place_thread(req_t *req, const vl_conf_t *conf)
{
    int moves = req->running && conf->mode == VL_MODE_ON
                && req->admission.thread_us >= PLACE_MIN_US;

    vl_place_thread(places, moves ? req->admission.ticket.account
                                  : VL_PLACE_NONE);
    req->resets_group = moves && vl_slot_capped(accounts, conf->account);
}

/* Closes a connection that cannot be parked after this request if other connections are
 * queued, and its lease will be used up or threads are short. Its next request is queued
 * with a new connection. The core asks for this variable (ap_set_keepalive) after it has
 * chosen chunks for an answer of unknown length. AP_CONN_CLOSE would leave such an answer
 * without an end. */
static void close_if_contended(request_rec *r, const req_t *req)
{
    if (!req->conn->master && !vl_lease_parks() && vl_slot_contended(accounts)
        && (vl_lease_ends(req->conn->lease) || vl_lease_threads_are_short()))
        apr_table_setn(r->subprocess_env, "nokeepalive", "1");
}

static void req_begin(req_t *req, const vl_conf_t *conf)
{
    req->running = req->admission.entered;
    if (req->running && (req->conn->master || vl_lease_has_thread())
        && !req->admission.ticket.stream)
        vl_thread_is_stream(accounts, &req->admission.ticket);
    place_thread(req, conf);
    req->started = vl_clock_us();
    vl_place_fork_for(places, conf->account);
    start_cpu_clock(req);
    if (req->running)
        vl_meter_begin(&req->meter, &req->admission.ticket, req->cpu_start,
                       req->conn->master ? vl_lease_workers_wait : NULL);
    req->conn->current = req;
}

/* The thread, and the processes that it forks, work for no site from now on. */
static void leave_groups(void)
{
    vl_place_fork_for(places, VL_PLACE_NONE);
    vl_place_thread(places, VL_PLACE_NONE);
}

/* The site or the request is not limited. */
static void pass_unlimited(conn_t *conn)
{
    vl_hooks_drop_grant(conn);
    last_end.known = 0;
    leave_groups();
}

static req_t *req_make(request_rec *r, conn_t *conn)
{
    req_t *req = apr_pcalloc(r->pool, sizeof(*req));

    req->conn = conn;
    req->r = r;
    return req;
}

/* Refuses a request whose site has no account (VL0003). */
static void refuse_without_account(request_rec *r, conn_t *conn)
{
    req_t *req = req_make(r, conn);

    refuse_uncounted(req);
    req->measured = 1;          /* cpu_us stays 0: the clock was not started */
    ap_set_module_config(r->request_config, &vhostlimit_module, req);
}

/* post_read_request hook. */
static int req_admit(request_rec *r)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    conn_t *conn = ap_get_module_config(r->connection->conn_config,
                                        &vhostlimit_module);
    vl_client_id_t client = { 0 };
    req_t *req;
    apr_status_t rv;
    int is_exempt;

    if (!conn)
        return DECLINED;
    if (r->main || r->prev) {
        if (!conn->current)     /* error document of a request that could not be read */
            leave_groups();
        return DECLINED;
    }
    if (vl_hooks_end_handshake(conn))
        last_end.known = 0;
    is_exempt = conf->mode != VL_MODE_OFF && conf->exempt && vl_exempt(r);
    if (conf->mode == VL_MODE_ON) {
        vl_visitor_identify(accounts, r->server, r, r->useragent_addr, &client);
        vl_visitor_cookie(accounts, r, &client);
    }
    if (is_limited(conf) && !is_exempt)
        vl_lease_belongs(lease_of(conn), conf->account, conf->queue_timeout, &client);
    vl_lease_request(lease_of(conn), r);
    if (conf->mode == VL_MODE_OFF) {
        pass_unlimited(conn);
        if (conf->refused)
            refuse_without_account(r, conn);
        return DECLINED;
    }
    req = req_make(r, conn);
    if (is_exempt) {
        req->exempt = 1;
        pass_unlimited(conn);
        ap_set_module_config(r->request_config, &vhostlimit_module, req);
        return DECLINED;
    }
    req->client = client;
    rv = admit(req, conf);
    if (rv != APR_SUCCESS) {
        ap_log_rerror(APLOG_MARK, APLOG_DEBUG, rv, r, VLOGNO(0007)
                      "vhost %s: not counted", conf->account_name);
        if (conf->on_error != VL_ERROR_CLOSED) {
            pass_unlimited(conn);
            return DECLINED;
        }
        refuse_uncounted(req);
    }
    close_if_contended(r, req);
    req_begin(req, conf);
    ap_set_module_config(r->request_config, &vhostlimit_module, req);
    apr_pool_cleanup_register(r->pool, req, req_pool_cleanup,
                              apr_pool_cleanup_null);
    return DECLINED;
}

/* quick_handler hook: answers a refused request. A status that post_read_request returns
 * ends the connection without an answer (ap_read_request). */
static int req_refuse(request_rec *r, int lookup)
{
    const req_t *req = ap_get_module_config(r->request_config,
                                            &vhostlimit_module);

    if (!req || lookup || req->exempt || req->admission.entered)
        return DECLINED;
    return refuse(r, vl_conf_get(r->server), req);
}

/* protocol_switch hook. With an upgrade to h2c the request becomes the first stream,
 * which takes a slot by itself. The handler of the upgrade request lasts as long as the
 * connection, so the request ends here. */
static int leave_at_switch(conn_rec *c, request_rec *r, server_rec *s,
                           const char *protocol)
{
    conn_t *conn = ap_get_module_config(c->conn_config, &vhostlimit_module);

    (void)s;
    if (r && conn && conn->current)
        vl_hooks_req_leave(conn->current);
    if (conn && conn->lease && !strncmp(protocol, "h2", 2))
        vl_lease_switch(conn->lease);
    return DECLINED;
}

/* Returns 1 if a back end (a proxied server, CGI, FastCGI) works on the request. */
static int has_back_end(const request_rec *r)
{
    static const char *const handlers[] = {
        "proxy-server", "cgi-script", "fcgid-script", NULL
    };
    int i;

    if (r->proxyreq || !r->handler)
        return r->proxyreq != PROXYREQ_NONE;
    for (i = 0; handlers[i]; i++) {
        if (!strcmp(r->handler, handlers[i]))
            return 1;
    }
    return !strncmp(r->handler, "proxy:", 6);
}

/* Returns 1 for mod_cgi, whose programs start in the account's cgroup. The daemon of
 * mod_cgid is outside of it. */
static int is_forked_by_us(const request_rec *r)
{
    return r->handler && !strcmp(r->handler, "cgi-script")
           && ap_find_linked_module("mod_cgi.c") != NULL;
}

/* fixups hook, the last one before the handler of the request, or of its internal
 * redirect. */
static int req_fixups(request_rec *r)
{
    conn_t *conn = ap_get_module_config(r->connection->conn_config,
                                        &vhostlimit_module);
    req_t *req = conn ? conn->current : NULL;

    if (req && req->running && !req->meter.elsewhere && has_back_end(r))
        vl_meter_elsewhere(&req->meter, is_forked_by_us(r)
                           && vl_place_forks(places,
                                             req->meter.ticket->account));
    return DECLINED;
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
    stop_cpu_clock(req);
    wait = apr_psprintf(r->pool, "%" APR_INT64_T_FMT, req->waited_us);
    cpu = apr_psprintf(r->pool, "%" APR_INT64_T_FMT, req->cpu_us);
    for (each = r; each; each = each->next) {
        apr_table_t *env = each->subprocess_env;

        apr_table_setn(env, "VHOSTLIMIT_ACTION", action_name(req));
        apr_table_setn(env, "VHOSTLIMIT_WAIT_US", wait);
        apr_table_setn(env, "VHOSTLIMIT_CPU_US", cpu);
        if (req->admission.decision.verdict != VL_PASS)
            apr_table_setn(env, "VHOSTLIMIT_REASON", vl_admit_reason_name(
                               req->admission.decision.reason));
    }
    return OK;
}

void vl_hooks_child_init(vl_shm_t *shm, const vl_place_t *place)
{
    accounts = shm;
    vl_handshake_child_init(shm);
    vl_hooks_conn_child_init(shm);
    places = place;
}

void vl_hooks_register(apr_pool_t *p)
{
    vl_handshake_register();
    vl_hooks_conn_register();
    /* Last: mod_remoteip and mod_setenvif have run, and a request that they refuse takes
     * no slot. */
    ap_hook_post_read_request(req_admit, NULL, NULL, APR_HOOK_REALLY_LAST);
    /* First: a page from a cache is work too. */
    ap_hook_quick_handler(req_refuse, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_fixups(req_fixups, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_protocol_switch(leave_at_switch, NULL, NULL,
                            APR_HOOK_REALLY_FIRST);
    /* First: the logs are written by later hooks. */
    ap_hook_log_transaction(req_log, NULL, NULL, APR_HOOK_REALLY_FIRST);
}
