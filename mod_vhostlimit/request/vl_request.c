/* SPDX-License-Identifier: Apache-2.0 */
/* A request runs from post_read_request until its end-of-request bucket has passed down the
 * output filters. By then the handler has returned, and the kernel or the MPM's write
 * completion has all of its output. A request whose client reads more slowly than the
 * handler writes releases its slot while its thread waits (vl_hooks_net.c). A request that
 * does not reach its end-of-request bucket (aborted, HTTP/2 reset) ends when its pool is
 * destroyed.
 *
 * Internal redirects and subrequests are a part of the request that made them. */
#include "request/vl_request.h"

#include <string.h>

#include <apr_lib.h>

#include "base/vl_clock.h"
#include "base/vl_private.h"
#include "config/vl_sharing.h"
#include "core/vl_engage.h"
#include "core/vl_charge.h"
#include "core/vl_slot.h"

/* Average CPU time of the account's requests, us, from which a thread moves into the
 * site's cgroup. */
#define PLACE_MIN_US 1000

/* --- the thread's CPU clock, and its cgroup -------------------------------- */

/* Reading a thread's CPU clock is a system call, so it is read once for each request, at
 * its end. The next request of the thread begins at that reading. Work of the thread
 * between the two, such as taking up the connection and a TLS handshake, is a part of
 * the next request's cost.
 *
 * While the server is dormant it is read once for many listed requests: after so many, ... */
#define LISTED_MOST 256
/* ... or so many accounts, or after a request that took so long. */
#define LISTED_ACCOUNTS 16
#define LISTED_LONG_US 5000

typedef struct worker_t {
    pthread_t self;             /* valid if it has ever had a task */
    task_t *task;               /* an entry of the table of tasks that it keeps, or NULL */
    const vl_conf_t *plain;     /* it is in no cgroup, and its forks are ready for a plain request
                                 * of this site; else NULL */
    int known;                  /* us is where the next request begins */
    int forgotten;              /* it was known before. Else the thread is new, and 0 is right */
    apr_int64_t us;
    apr_uint32_t requests, accounts;    /* listed ones since then */
    struct {
        apr_uint32_t account, requests;
        apr_uint64_t busy_us;
    } of[LISTED_ACCOUNTS];
} worker_t;

static __thread worker_t this_worker;
static pthread_key_t worker_ends;

/* Destructor of worker_ends. */
static void forget_worker(void *data)
{
    worker_t *w = data;

    vl_meter_give_task(w->task);
    w->task = NULL;
}

void vl_request_child_init(void)
{
    memset(&this_worker, 0, sizeof(this_worker));
    pthread_key_create(&worker_ends, forget_worker);
}

static __attribute__((cold)) task_t *make_task(worker_t *w)
{
    w->self = pthread_self();
    pthread_setspecific(worker_ends, w);
    return vl_meter_take_task();
}

/* w: of the calling thread, or NULL. */
static inline void give_task(worker_t *w, task_t *task)
{
    if (w && !w->task)
        w->task = task;
    else
        vl_meter_give_task(task);
}

static void count_listed(worker_t *w, apr_uint32_t account, apr_uint64_t busy_us)
{
    apr_uint32_t i;

    for (i = 0; i < w->accounts && w->of[i].account != account; i++)
        ;
    if (i == w->accounts) {
        w->of[i].account = account;
        w->of[i].requests = 0;
        w->of[i].busy_us = 0;
        w->accounts++;
    }
    w->of[i].requests++;
    w->of[i].busy_us += busy_us;
    w->requests++;
}

/* Charges the accounts for the CPU time of the thread since the last reading, in proportion to
 * their requests. */
static void charge_listed(worker_t *w, apr_uint64_t us)
{
    apr_uint32_t i;

    for (i = 0; i < w->accounts; i++)
        vl_engage_charge(vl_child.shm, w->of[i].account, w->of[i].requests,
                         w->of[i].busy_us, us * w->of[i].requests / w->requests);
    w->requests = w->accounts = 0;
    w->plain = NULL;            /* the sites' requests may have become long */
}

/* Returns what the thread has used since the last reading. */
static apr_uint64_t read_clock(worker_t *w)
{
    apr_int64_t before_us = w->us, us;

    w->us = vl_meter_thread_us();
    us = w->known || !w->forgotten ? w->us - before_us : 0;
    w->known = 1;
    return us > 0 ? (apr_uint64_t)us : 0;
}

/* Returns this thread's worker_t, without listed requests that are not charged. */
static __attribute__((cold)) worker_t *settle(void)
{
    worker_t *w = &this_worker;

    if (w->requests)
        charge_listed(w, read_clock(w));
    return w;
}

/* The part of earlier, short requests is what is known of requests of their accounts. */
static __attribute__((cold)) apr_uint64_t charge_long(worker_t *w, apr_uint32_t account, apr_uint64_t busy_us)
{
    apr_uint64_t us = read_clock(w), earlier_us = 0;
    apr_uint32_t i;

    for (i = 0; i < w->accounts; i++)
        earlier_us += (apr_uint64_t)w->of[i].requests
                      * vl_slot_estimate(vl_child.shm, w->of[i].account);
    if (earlier_us > us)
        earlier_us = us;
    if (w->requests)
        charge_listed(w, earlier_us);
    us -= earlier_us;
    /* The work includes that of taking up the connection. */
    vl_engage_charge(vl_child.shm, account, 1, busy_us > us ? busy_us : us, us);
    return us;
}

static apr_uint64_t measure_listed(worker_t *w, apr_uint32_t account, apr_int64_t busy_us)
{
    apr_uint64_t us = busy_us > 0 ? (apr_uint64_t)busy_us : 0;

    if (us >= LISTED_LONG_US)
        return charge_long(w, account, us);
    if (!w->known && w->forgotten)
        read_clock(w);
    count_listed(w, account, us);
    if (w->requests >= LISTED_MOST || w->accounts == LISTED_ACCOUNTS)
        settle();
    return 0;
}

apr_uint64_t vl_request_measure_listed(apr_uint32_t account, apr_int64_t busy_us)
{
    return measure_listed(&this_worker, account, busy_us);
}

apr_int64_t vl_request_thread_us(void)
{
    const worker_t *w = settle();

    return w->known ? w->us : vl_meter_thread_us();
}

apr_int64_t vl_request_charged_from(conn_t *conn)
{
    apr_int64_t arrivals = conn->has_arrived + (conn->lease ? vl_lease_take_arrivals(conn->lease) : 0);

    conn->has_arrived = 0;
    return vl_request_thread_us() - arrivals * vl_charge_arrival(vl_child.shm);
}

void vl_request_charged_until(apr_int64_t us)
{
    worker_t *w = settle();

    w->us = us;
    w->known = 1;
}

apr_uint64_t vl_request_take_rest(void)
{
    worker_t *w = &this_worker;

    return w->known && !w->requests ? read_clock(w) : 0;
}

void vl_request_forget_thread(void)
{
    worker_t *w = settle();

    w->known = 0;
    w->forgotten = 1;
}

/* The request may end on another thread, whose clock says nothing about it. */
void vl_request_stop_clock(req_t *req)
{
    if (req->measured || !pthread_equal(req->thread, pthread_self()))
        return;
    req->measured = 1;
    if (req->state == REQ_LISTED) {
        req->cpu_us = (apr_int64_t)measure_listed(req->worker, req->account,
                                                  vl_clock_coarse_us() - req->started);
        if (!req->cpu_us)
            req->cpu_us = vl_slot_estimate(vl_child.shm, req->account);
        return;
    }
    this_worker.us = vl_meter_thread_us();
    this_worker.known = 1;
    req->cpu_us = this_worker.us - req->cpu_start;
}

/* Moves the thread into the site's cgroup if the site's requests use CPU time in their
 * thread. A move costs 5 us, and the kernel makes one move at a time. If the site has a
 * quota, the thread leaves the cgroup at the end of the request, so that the quota does
 * not throttle other work of the thread. */
static void place_thread(req_t *req, const vl_conf_t *conf)
{
    int moves = req->state != REQ_REFUSED && conf->mode == VL_MODE_ON
                && req->admission.thread_us >= PLACE_MIN_US;

    this_worker.plain = NULL;
    vl_place_thread(vl_child.place, moves ? conf->account : VL_PLACE_NONE);
    req->resets_group = moves && vl_slot_capped(vl_child.shm, conf->account);
}

void vl_request_leave_groups(void)
{
    this_worker.plain = NULL;
    vl_place_fork_for(vl_child.place, VL_PLACE_NONE);
    vl_sandbox_fork_for(NULL);
    vl_place_thread(vl_child.place, VL_PLACE_NONE);
}

/* --- the grant of the connection ------------------------------------------- */

/* Returns the CPU time of the thread since its last request, and charges it to no other one. On
 * a thread whose clock says nothing it is the account's estimate. */
static apr_uint64_t take_thread_us(apr_uint32_t account)
{
    worker_t *w = settle();

    return w->known ? read_clock(w) : vl_slot_estimate(vl_child.shm, account);
}

static void charge_part(apr_uint32_t account, const vl_client_id_t *client, apr_uint64_t us, int refused)
{
    vl_slot_charge(vl_child.shm, account, us);
    vl_fair_charge_client(vl_child.shm, account, client, us, refused);
}

void vl_request_unoccupy(vl_grant_t *grant)
{
    if (grant->occupies)
        vl_slot_unoccupy(vl_child.shm, grant->ticket.account);
    grant->occupies = 0;
}

void vl_request_end_grant(conn_t *conn, int counts)
{
    vl_grant_t grant = conn->grant;
    vl_admission_t adm = { .ticket = grant.ticket };
    vl_cost_t cost = { .client = &grant.ticket.client };
    apr_uint32_t account = grant.ticket.account;

    memset(&conn->grant, 0, sizeof(conn->grant));
    vl_request_unoccupy(&grant);
    if (!grant.holds)
        return;
    cost.cpu_us = cost.busy_us = take_thread_us(account);
    if (counts)
        vl_slot_begin(vl_child.shm, grant.waited_us, &adm);
    else
        charge_part(account, &grant.ticket.client, cost.cpu_us, 0);
    vl_waiters_end(&grant.ticket, counts ? &cost : NULL);
}

void vl_request_pass_unlimited(conn_t *conn)
{
    vl_request_end_grant(conn, 0);
    vl_request_forget_thread();
    vl_request_leave_groups();
}

/* Takes the grant of the connection. If the request names another host than the
 * connection's first bytes did, the slot belongs to another site and is returned. */
static vl_grant_t take_grant(conn_t *conn, apr_uint32_t account)
{
    vl_grant_t grant;

    if (conn->grant.ticket.account != account)
        vl_request_end_grant(conn, 0);
    grant = conn->grant;
    memset(&conn->grant, 0, sizeof(grant));
    return grant;
}

/* --- admission ------------------------------------------------------------- */

vl_lease_t *vl_request_lease(const conn_t *conn)
{
    return conn->master ? conn->master->lease : conn->lease;
}

/* Returns the key of the connection of a client on this machine, or 0. */
static apr_uint32_t own_key(const req_t *req)
{
    const vl_lease_t *lease = vl_request_lease(req->conn);

    return lease ? vl_lease_key(lease) : 0;
}

/* Gets a slot for a request that a running one waits for. */
static apr_status_t ask_call(const req_t *req, vl_grant_t *grant)
{
    apr_uint32_t key = own_key(req), call = key ? vl_duty_call(vl_child.shm, key) : 0;

    return call ? vl_slot_ask_call(vl_child.shm, req->account, call, req->conn->master != NULL, &grant->ticket)
                : APR_EAGAIN;
}

/* Waits for a slot with the thread blocked. Returns 0 at once if the site has too many
 * threads or too many thread waiters (vl_waiters_wait()). A connection that has given back its
 * slot during its handshake always waits: it was granted the slot below these limits. */
static int wait_with_thread(const req_t *req, const vl_conf_t *conf, vl_grant_t *grant)
{
    int is_stream = req->conn->master != NULL;
    int occupies = !is_stream && !vl_lease_has_thread(), waited;

    if (occupies && grant->given_back)
        vl_slot_occupy(vl_child.shm, req->account, VL_OCCUPY);
    else if ((occupies || (vl_lease_has_thread() && !grant->given_back))
             && !vl_slot_occupy(vl_child.shm, req->account,
                                occupies ? VL_OCCUPY_ASK : VL_OCCUPIED))
        return 0;
    waited = vl_waiters_wait(req->account, &req->client, own_key(req), is_stream,
                             conf->queue_timeout, grant);
    if (occupies)
        vl_slot_unoccupy(vl_child.shm, req->account);
    if (waited && grant->holds && !is_stream
        && vl_lease_is_gone(vl_request_lease(req->conn))) {
        vl_waiters_end(&grant->ticket, NULL);
        grant->holds = 0;
        grant->refused = VL_REASON_GONE;
        vl_slot_gone(vl_child.shm, req->account, grant->waited_us);
    }
    return waited;
}

/* Gets a slot for a stream whose connection can be parked. The stream began because its
 * connection has a lease. In this order:
 * 1. the streams of the connection are refused,
 * 2. the lease holds a slot,
 * 3. its site is below its own limits, or it is a call: a slot, above the number of slots if necessary,
 * 4. it waits with its thread,
 * 5. it may not wait: a refusal. */
static void get_stream_slot(req_t *req, const vl_conf_t *conf, vl_grant_t *grant)
{
    vl_lease_t *lease = vl_request_lease(req->conn);

    grant->refused = vl_lease_refused(lease, &grant->waited_us);
    if (grant->refused)
        return;
    if (vl_lease_take_slot(lease, &grant->ticket)) {
        grant->holds = grant->ticket.account == req->account;
        if (grant->holds)
            return;
        req->has_gained = 1;
        req->gained = grant->ticket;
        vl_waiters_end(&grant->ticket, NULL);
    }
    grant->holds = vl_slot_ask(vl_child.shm, req->account, VL_ASK_FORCED, 1, &grant->ticket)
                   == APR_SUCCESS || ask_call(req, grant) == APR_SUCCESS;
    if (!grant->holds && !wait_with_thread(req, conf, grant))
        grant->refused = VL_REASON_QUEUE;
}

/* Returns 1 if a thread of mod_http2 or of worker runs the request: the MPM's threads of the child
 * are not counted for it. */
static int takes_no_thread(const req_t *req)
{
    return req->conn->master || vl_lease_has_thread();
}

/* Gets a slot for a request whose connection was not queued for it: its lease continues, a slot is
 * free, or the request is a call. Returns APR_EAGAIN if it has to wait. */
static apr_status_t get_free_slot(const req_t *req, vl_grant_t *grant)
{
    vl_lease_t *lease = vl_request_lease(req->conn);
    apr_status_t rv = APR_SUCCESS;

    if (req->conn->master)
        grant->waited_us = vl_lease_take_wait(lease);
    if (!vl_lease_resume(lease, takes_no_thread(req), &grant->ticket)) {
        rv = vl_slot_ask(vl_child.shm, req->account, VL_ASK_NEW, 0, &grant->ticket);
        if (APR_STATUS_IS_EAGAIN(rv))
            rv = ask_call(req, grant);
        if (rv == APR_SUCCESS)
            vl_lease_renew(lease);
    }
    grant->holds = rv == APR_SUCCESS;
    return rv;
}

/* Gets a slot for a request that cannot wait without its thread, in this order:
 * 1. it waits with its thread,
 * 2. it may not wait: a slot above the number of slots,
 * 3. its site is at its own limits, or the request has waited in another account and would overtake
 *    those of its site: a refusal. */
static void await_slot(const req_t *req, const vl_conf_t *conf, vl_grant_t *grant)
{
    apr_status_t rv = APR_EAGAIN;

    if (!wait_with_thread(req, conf, grant)) {
        if (!req->conn->is_foreign || !vl_slot_queued(vl_child.shm, req->account))
            rv = vl_slot_ask(vl_child.shm, req->account, VL_ASK_FORCED, takes_no_thread(req),
                             &grant->ticket);
        grant->holds = rv == APR_SUCCESS;
        if (APR_STATUS_IS_EAGAIN(rv))
            grant->refused = VL_REASON_QUEUE;
    }
    if (grant->holds)
        vl_lease_renew(vl_request_lease(req->conn));
}

apr_uint64_t vl_request_host(const char *host)
{
    apr_uint64_t hash = 0xcbf29ce484222325;     /* FNV-1a */
    char end = *host == '[' ? ']' : ':';

    for (; *host && *host != end; host++)
        hash = (hash ^ (unsigned char)apr_tolower(*host)) * 0x100000001b3;
    return hash;
}

req_t *vl_request_make(request_rec *r, conn_t *conn, req_state_e state)
{
    req_t *req = apr_pcalloc(r->pool, sizeof(*req));

    req->state = state;
    req->conn = conn;
    req->r = r;
    ap_set_module_config(r->request_config, &vhostlimit_module, req);
    return req;
}

int vl_request_is_limited(const vl_conf_t *conf)
{
    return conf->mode == VL_MODE_ON && vl_slot_queue(vl_child.shm, conf->account);
}

/* Admits or refuses the request: with the slot, or the refusal, that it was queued for, or at once. Then
 * begins it. */
static void admit_now(req_t *req, const vl_grant_t *grant, const vl_conf_t *conf)
{
    vl_admission_t *adm = &req->admission;
    apr_status_t rv = APR_SUCCESS;

    if (grant->holds || grant->refused)
        req->waited_us = grant->waited_us;
    if (grant->holds) {
        adm->entered = 1;
        adm->ticket = grant->ticket;
        vl_slot_begin(vl_child.shm, grant->waited_us, adm);
    }
    else if (grant->refused) {
        adm->refused = grant->refused;
        if (grant->refused != VL_REASON_GONE)
            vl_slot_refused(vl_child.shm, req->account, adm);
    }
    else {
        rv = vl_slot_enter(vl_child.shm, req->account, adm);
    }
    if (rv != APR_SUCCESS) {
        ap_log_rerror(APLOG_MARK, APLOG_DEBUG, rv, req->r, VLOGNO(0007)
                      "site %s: a request cannot be counted (see VL0008)",
                      conf->site->name);
        if (conf->on_error != VL_ERROR_CLOSED) {
            ap_set_module_config(req->r->request_config, &vhostlimit_module, NULL);
            vl_request_pass_unlimited(req->conn);
            return;
        }
        adm->refused = VL_REASON_ERROR;
    }
    /* Closes a connection that cannot be parked after this request if other connections are queued, and its
     * lease will be used up or threads are short. Its next request is queued with a new connection. The core
     * asks for this variable (ap_set_keepalive) after it has chosen chunks for an answer of unknown length.
     * AP_CONN_CLOSE would leave such an answer without an end. */
    if (!req->conn->master && !vl_lease_parks() && vl_slot_contended(vl_child.shm)
        && (vl_lease_ends_with_next(req->conn->lease) || vl_lease_threads_are_short()))
        apr_table_setn(req->r->subprocess_env, "nokeepalive", "1");
    vl_request_begin(req, conf);
}

void vl_request_admit(req_t *req, const vl_conf_t *conf)
{
    vl_grant_t grant = take_grant(req->conn, req->account);

    /* vl_waiters_wait() counts the thread itself, and overwrites the grant. */
    vl_request_unoccupy(&grant);
    grant.given_back |= req->conn->accepted == CONN_FIRST;
    if (!grant.holds && !grant.refused && vl_request_lease(req->conn)
        && vl_request_is_limited(conf)) {
        if (req->conn->master && vl_lease_parks())
            get_stream_slot(req, conf, &grant);
        else if (APR_STATUS_IS_EAGAIN(get_free_slot(req, &grant))) {
            if (vl_lease_parks()) {
                req->state = REQ_WAITING;
                req->conn->grant = grant;
                return;
            }
            await_slot(req, conf, &grant);
        }
    }
    admit_now(req, &grant, conf);
}

int vl_request_wait(req_t *req, const vl_conf_t *conf)
{
    conn_t *conn = req->conn;
    vl_grant_t grant = conn->grant;
    worker_t *w;

    memset(&conn->grant, 0, sizeof(conn->grant));
    /* As soon as it is queued another thread may end the wait, but none runs the connection before
     * this one has left it. */
    if (vl_lease_park_request(conn->lease, req->r, req->account, &req->client, &grant)) {
        conn->waiting = req;
        /* The thread works for others from now on. */
        w = settle();
        charge_part(req->account, &req->client, w->known ? read_clock(w) : 0, 0);
        vl_request_leave_groups();
        return 1;
    }
    await_slot(req, conf, &grant);
    admit_now(req, &grant, conf);
    return 0;
}

void vl_request_go(req_t *req, const vl_conf_t *conf)
{
    vl_grant_t grant = take_grant(req->conn, req->account);

    req->conn->waiting = NULL;
    admit_now(req, &grant, conf);
}

/* Moves the request to LISTED. Returns 0 if it has to ask for a slot. */
static inline int list(req_t *req, worker_t *w, int fd, int is_stream)
{
    req->task = w->task ? w->task : make_task(w);
    w->task = NULL;             /* it keeps the entry, so that the next request needs no lock */
    if (!vl_engage_list(vl_child.shm, req->task, req->account, fd, is_stream)) {
        give_task(w, req->task);
        return 0;
    }
    req->state = REQ_LISTED;
    req->started = vl_clock_coarse_us();
    req->thread = w->self;
    req->worker = w;
    req->conn->current = req;
    return 1;
}

int vl_request_list(req_t *req, const vl_conf_t *conf)
{
    conn_t *conn = req->conn;

    if (conn->grant.holds || conn->grant.refused || !vl_engage_is_dormant(vl_child.shm))
        return 0;
    vl_request_unoccupy(&conn->grant);
    if (!list(req, &this_worker, conn->fd, takes_no_thread(req)))
        return 0;
    memset(&conn->grant, 0, sizeof(conn->grant));
    req->admission.thread_us = vl_slot_thread_us(vl_child.shm, req->account);
    place_thread(req, conf);
    vl_place_fork_for(vl_child.place, conf->account);
    return 1;
}

/* Requests of a plain site may follow each other on a thread without any change to it, unless they
 * are so long that the thread moves (place_thread()). */
static __attribute__((cold)) int prepare_plain(worker_t *w, const vl_conf_t *conf)
{
    if (vl_slot_thread_us(vl_child.shm, conf->account) >= PLACE_MIN_US)
        return 0;
    vl_request_leave_groups();
    vl_place_fork_for(vl_child.place, conf->account);
    w->plain = conf;
    return 1;
}

int vl_request_list_plain(req_t *req, conn_t *conn, request_rec *r, const vl_conf_t *conf)
{
    worker_t *w = &this_worker;

    if (w->plain != conf && !prepare_plain(w, conf))
        return 0;
    req->conn = conn;
    req->r = r;
    req->account = conf->account;
    req->measured = req->passes = 0;
    return list(req, w, conn->fd, vl_lease_has_thread());
}

void vl_request_begin(req_t *req, const vl_conf_t *conf)
{
    int is_stream = req->conn->master != NULL;

    req->state = req->admission.entered ? REQ_RUNNING : REQ_REFUSED;
    if (req->state == REQ_RUNNING && (is_stream || vl_lease_has_thread())
        && !req->admission.ticket.stream)
        vl_slot_is_stream(vl_child.shm, &req->admission.ticket);
    place_thread(req, conf);
    req->started = vl_clock_us();
    vl_place_fork_for(vl_child.place, conf->account);
    req->thread = pthread_self();
    req->cpu_start = vl_request_charged_from(req->conn);
    if (req->state == REQ_RUNNING)
        vl_meter_begin(&req->meter, &req->admission.ticket, req->cpu_start,
                       is_stream ? -1 : vl_socket_of(req->r->connection),
                       own_key(req), is_stream ? vl_lease_workers_wait : NULL);
    req->conn->current = req;
}

/* --- while it runs, and its end -------------------------------------------- */

static void occupy(req_t *req)
{
    if (req->occupies || req->conn->master || vl_lease_has_thread())
        return;
    req->occupies = 1;
    vl_slot_occupy(vl_child.shm, req->account, VL_OCCUPY);
}

static void unoccupy(req_t *req)
{
    if (req->occupies)
        vl_slot_unoccupy(vl_child.shm, req->account);
    req->occupies = 0;
}

void vl_request_pause(req_t *req)
{
    occupy(req);
    vl_meter_pause(&req->meter);
}

void vl_request_go_on(req_t *req)
{
    vl_meter_go_on(&req->meter);
    unoccupy(req);
}

/* The cost of a request that got a slot while it ran is charged like that of the others. */
static void end_listed(req_t *req)
{
    worker_t *w = pthread_equal(req->thread, pthread_self()) ? req->worker : NULL;

    if (vl_engage_unlist(vl_child.shm, req->task, &req->admission.ticket))
        vl_waiters_end(&req->admission.ticket, NULL);
    give_task(w, req->task);
    if (req != &req->conn->plain) {
        vl_request_stop_clock(req);
        vl_sharing_served(vl_child.shm, req->account, req->r, &req->client);
    }
    else if (w)
        measure_listed(w, req->account, vl_clock_coarse_us() - req->started);
    req->state = REQ_ENDED;
}

void vl_request_has_no_end(req_t *req)
{
    worker_t *w = req->worker;

    if (req->state == REQ_LISTED) {
        end_listed(req);
        occupy(req);
        if (!pthread_equal(req->thread, pthread_self()) || !w->task)
            return;
        req->task = w->task;
        w->task = NULL;
        vl_duty_show_paused(vl_child.shm, req->task, req->account, vl_socket_of(req->r->connection));
        req->state = REQ_SHOWN;
        return;
    }
    req->state = REQ_ENDLESS;
    vl_request_pause(req);
}

static __attribute__((noinline)) void end_counted(req_t *req)
{
    vl_cost_t cost;
    apr_uint64_t charged;

    if (req->state == REQ_SHOWN) {
        vl_duty_leave(vl_child.shm, vl_duty_number(vl_child.shm, req->task));
        give_task(pthread_equal(req->thread, pthread_self()) ? req->worker : NULL, req->task);
        req->state = REQ_ENDED;
    }
    if (req->state == REQ_ENDED)
        unoccupy(req);
    if (!vl_request_is_counted(req))
        return;
    vl_request_go_on(req);
    req->state = REQ_ENDED;
    vl_meter_end(&req->meter, &cost);
    vl_request_stop_clock(req);
    if (req->resets_group && pthread_equal(req->thread, pthread_self()))
        vl_place_thread(vl_child.place, VL_PLACE_NONE);
    cost.busy_us = vl_clock_us() - req->started - req->meter.paused_us;
    cost.cpu_us = req->cpu_us;
    cost.client = &req->client;
    charged = vl_waiters_end(&req->admission.ticket, &cost);
    if (req->has_gained)
        charge_part(req->gained.account, &req->gained.client, charged, 0);
    vl_sharing_served(vl_child.shm, req->account, req->r, &req->client);
    if (vl_request_lease(req->conn))
        vl_lease_charge(vl_request_lease(req->conn), charged);
}

void vl_request_end(req_t *req)
{
    if (req->state == REQ_LISTED)
        end_listed(req);
    else
        end_counted(req);
}

void vl_request_charge_refusal(const req_t *req)
{
    if (req->state == REQ_REFUSED && req->admission.refused != VL_REASON_ERROR
        && vl_conf_get(req->r->server)->mode == VL_MODE_ON && req->cpu_us > 0)
        charge_part(req->account, &req->client, (apr_uint64_t)req->cpu_us, 1);
}

int vl_request_admit_early(req_t *req, const vl_conf_t *conf)
{
    vl_admission_t *adm = &req->admission;
    vl_grant_t grant;

    if (!vl_request_list(req, conf)) {
        grant = take_grant(req->conn, req->account);
        vl_request_unoccupy(&grant);
        if (!grant.holds && vl_slot_ask(vl_child.shm, req->account, VL_ASK_NEW, 0, &adm->ticket) != APR_SUCCESS)
            return 0;
        if (grant.holds)
            adm->ticket = grant.ticket;
        adm->entered = 1;
        req->waited_us = grant.waited_us;
        vl_slot_begin(vl_child.shm, grant.waited_us, adm);
        vl_request_begin(req, conf);
    }
    req->conn->is_counted_early = 1;
    return 1;
}

void vl_request_ended_early(req_t *req, const vl_conf_t *conf)
{
    conn_t *conn = req->conn;

    if (conn->grant.holds)
        vl_request_end_grant(conn, 1);
    else if (vl_request_list(req, conf)) {
        vl_request_end(req);
        conn->current = NULL;
    }
    else {
        req->admission.ticket.account = req->account;
        vl_slot_begin(vl_child.shm, 0, &req->admission);
        charge_part(req->account, &req->client, take_thread_us(req->account), 0);
    }
}
