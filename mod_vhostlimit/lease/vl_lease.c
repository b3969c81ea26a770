/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection with leases, from its begin to its end: the process_connection hook, what a
 * connection does between two requests, and its timeouts. vl_lease_int.h has the table of
 * states.
 *
 * The MPM closes idle connections in CONN_STATE_KEEPALIVE as soon as all its workers are
 * busy for a moment. A connection with leases therefore waits in the state of a parked
 * one, and this file applies KeepAliveTimeout.
 */
#include "lease/vl_lease_int.h"

#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ap_mpm.h>
#include <apr_portable.h>
#include <http_connection.h>
#include <http_core.h>
#include <mpm_common.h>

#include "base/vl_clock.h"
#include "config/vl_headtime.h"
#include "base/vl_own.h"
#include "base/vl_pages.h"
#include "base/vl_private.h"
#include "core/vl_slot.h"
#include "core/vl_engage.h"
#include "cost/vl_meter.h"

/* Without parking, a connection that has been idle for this long is closed when threads
 * are short. */
#define IDLE_US 100000
/* A suspended connection that has been idle for this long frees what its pools keep. */
#define TRIM_US 1000000
/* The free nodes that its requests leave, of 8 KB or more each: three to five (docs/design/008-scale.md). */
#define TRIM_NODES 8
/* Milliseconds to wait for the reset with which a closed client answers "100 Continue"
 * (vl_client.h). */
#define ASK_MS 10
/* Upper bound for queue timeouts that one tick of a stopping child handles. */
#define EXPIRE_MOST 16

/* httpd 2.4.63 and newer have a state for connections that wait for the client. Older
 * versions use CONN_STATE_WRITE_COMPLETION with CONN_SENSE_WANT_READ. There
 * clogging_input_filters is set too, so that the MPM calls the process_connection hooks
 * afterwards. */
#ifdef AP_MPMQ_CAN_WAITIO
#define STATE_WAITIO CONN_STATE_ASYNC_WAITIO
#else
#define STATE_WAITIO CONN_STATE_WRITE_COMPLETION
#endif

/* --- a worker of the MPM takes up a connection ---------------------------- */

typedef enum { RUN, PARK, CLOSE } next_e;

/* Counts the connections whose timers the acceptor handles. It may sleep without an end while
 * there is none. */
static void count_awake(int by)
{
    if (__atomic_add_fetch(&vl_leases.awake, by, __ATOMIC_SEQ_CST) == 1 && by > 0
        && vl_engage_is_dormant(vl_leases.shm))
        vl_slot_wake_self(vl_leases.shm);
}

int vl_lease_has_timers(void)
{
    return __atomic_load_n(&vl_leases.awake, __ATOMIC_SEQ_CST) > 0;
}

/* What to do with a queued connection that a worker of the MPM has taken up. It runs if
 * its client has gone (HTTP/1), so that the access log has its request, or if streams
 * that wait for their client may have input. */
static next_e next_of_queued_locked(vl_lease_t *lease)
{
    apr_uint32_t events = vl_client_events(lease->fd);

    if (vl_client_is_gone(&lease->client, lease->fd, events)) {
        vl_lease_unqueue_locked(lease);
        vl_slot_gone(vl_leases.shm, lease->waiter.account,
                     vl_clock_us() - lease->waiter.since_us);
        if (!lease->frames) {
            lease->grant->ticket.account = lease->waiter.account;
            lease->grant->refused = VL_REASON_GONE;
            return RUN;
        }
        lease->state = EXPIRED;
        return CLOSE;
    }
    if (lease->polled & EPOLLIN)
        return RUN;
    if (lease->frames)
        vl_lease_park_locked(lease, events != 0);
    return PARK;
}

/* A worker of the MPM has taken up the connection. Returns what the worker does with it. */
static next_e next_locked(vl_lease_t *lease)
{
    next_e next = RUN;

    vl_lease_uninstall_poll_fd(lease);
    vl_wheel_clear(&lease->timer);
    vl_lease_leave_ring_locked(lease);
    lease->refused = VL_REASON_NONE;
    lease->has_events = 0;
    vl_lease_takes_next = 0;
    vl_lease_start_runner_locked();
    if (lease->state == EXPIRED)
        return CLOSE;
    if (lease->queued)
        next = next_of_queued_locked(lease);
    else if (lease->answer != NO_ANSWER)
        vl_lease_use_answer_locked(lease);
    else if (lease->ready)
        lease->ready = 0;
    else if (lease->state == IDLE && !vl_lease_run_or_queue_locked(lease)) {
        if (lease->frames)
            vl_lease_park_locked(lease, 0);
        next = PARK;
    }
    if (next != CLOSE)
        vl_lease_change_state_locked(lease, next == RUN ? RUNNING : PARKED);
    return next;
}

/* --- one run: a worker of the MPM runs the connection's hooks ------------- */

static void begin_run(vl_lease_t *lease)
{
    lease->is_measured = !vl_engage_is_dormant(vl_leases.shm);
    if (!lease->http2) {
        lease->has_worker = 1;
        return;
    }
    vl_waiters_lock();
    lease->has_worker = 1;
    vl_lease_count_thread(lease);
    vl_waiters_unlock();
    if (lease->is_measured)
        vl_lease_begin_charges(lease);
    lease->input_exhausted = 0;
    vl_lease_poll_client(lease, EPOLLIN | EPOLLRDHUP);
    vl_lease_prepare_session(lease);
}

/* Returns the slot for the next request (HTTP/1), or the thread that is counted since the
 * handshake released the slot (vl_handshake.h). */
static void drop_grant(vl_lease_t *lease)
{
    vl_grant_t grant = *lease->grant;

    memset(lease->grant, 0, sizeof(*lease->grant));
    if (grant.holds)
        vl_waiters_end(&grant.ticket, NULL);
    if (grant.occupies)
        vl_slot_unoccupy(vl_leases.shm, grant.ticket.account);
}

/* n streams that passed while the server was dormant have begun, or will not. */
static void forget_passed_locked(vl_lease_t *lease, apr_uint32_t n)
{
    lease->passed -= n;
    vl_leases.passed -= n;
}

/* Returns the slots that the run has not used. */
static void end_run(vl_lease_t *lease)
{
    vl_ticket_t ticket;

    if (lease->http2 || lease->thread_counted) {
        vl_waiters_lock();
        lease->has_worker = 0;
        vl_lease_uncount_thread(lease);
        forget_passed_locked(lease, lease->passed);
        vl_waiters_unlock();
    }
    if (!lease->frames) {
        /* No request has come. */
        if (vl_leases.parks)
            drop_grant(lease);
        return;
    }
    if (lease->is_measured)
        vl_lease_charge_connection(lease);
    lease->stream_allowed = 0;
    while (vl_lease_take_slot(lease, &ticket))
        vl_waiters_end(&ticket, NULL);
}

static conn_state_e wait_state(void)
{
    return vl_leases.has_waitio ? STATE_WAITIO : CONN_STATE_WRITE_COMPLETION;
}

/* Makes the MPM suspend a connection of HTTP/1 whose requests are queued. Makes it poll others
 * until the client sends input or the queue wakes them.
 * Event before httpd 2.4.41 moves a connection without pending output to
 * CONN_STATE_CHECK_REQUEST_LINE_READABLE, also with CONN_SENSE_WANT_READ
 * (process_socket()). There it closes the connection when no worker is idle. */
static void wait_in_mpm(vl_lease_t *lease)
{
    conn_rec *c = lease->c;

    if (lease->suspended || (!lease->http2 && lease->state == PARKED)) {
        vl_lease_suspend(lease);
        return;
    }
    c->cs->state = wait_state();
    c->cs->sense = CONN_SENSE_WANT_READ;
    c->clogging_input_filters = !vl_leases.has_waitio;
    if (vl_leases.polls_for_output && !vl_has_pending_output(c)) {
        vl_set_pending_output(c, 1);
        lease->pretends_output = 1;
    }
}

/* The MPM has polled the connection. */
static void end_wait_in_mpm(vl_lease_t *lease)
{
    conn_rec *c = lease->c;

    if (c->clogging_input_filters) {
        c->clogging_input_filters = 0;
        c->cs->state = CONN_STATE_READ_REQUEST_LINE;
    }
    if (lease->pretends_output) {
        lease->pretends_output = 0;
        vl_set_pending_output(c, 0);
    }
}

/* The connection becomes idle. KeepAliveTimeout runs unless streams wait for the client. */
static void wait_for_client(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_clock_us();
    apr_int64_t keepalive_us = __atomic_load_n(&lease->keepalive_us, __ATOMIC_RELAXED);
    vl_grant_t grant;

    vl_waiters_lock();
    grant = vl_lease_leave_queue_locked(lease);
    lease->state = IDLE;
    lease->idle_since_us = now_us;
    vl_lease_enter_ring_locked(lease, vl_leases.idle);
    if (!lease->streams_blocked)
        vl_wheel_set(vl_leases.wheel, &lease->timer,
                     lease->http2 || keepalive_us < TRIM_US ? now_us + keepalive_us
                                                            : now_us + TRIM_US);
    vl_waiters_unlock();
    if (grant.holds)
        vl_waiters_end(&grant.ticket, NULL);
}

/* Returns 1 if the hooks have left an HTTP/1 or HTTP/2 connection to wait for its next
 * request. */
static int is_kept_alive(const conn_rec *c, int rc)
{
    return (rc == OK || rc == DONE) && !c->aborted
           && c->keepalive == AP_CONN_KEEPALIVE
           && (c->cs->state == CONN_STATE_WRITE_COMPLETION
               || c->cs->state == CONN_STATE_CHECK_REQUEST_LINE_READABLE)
           && c->cs->sense != CONN_SENSE_WANT_READ;
}

/* Sends the output of a suspended connection, as the MPM does for others. If the client does not take
 * all of it now, the connection waits, for Timeout at most. Returns 1 if the connection may wait for
 * its next request. */
static int send_output(vl_lease_t *lease)
{
    conn_rec *c = lease->c;

    if (c->aborted || vl_flush(c) != APR_SUCCESS) {
        c->cs->state = CONN_STATE_LINGER;
        return 0;
    }
    if (vl_has_pending_output(c)) {
        vl_waiters_lock();
        lease->state = IDLE;
        lease->wants_output = 1;
        vl_wheel_set(vl_leases.wheel, &lease->timer, vl_clock_us() + c->base_server->timeout);
        vl_waiters_unlock();
        vl_lease_suspend(lease);
        return 0;
    }
    if (c->keepalive != AP_CONN_KEEPALIVE || (vl_lease_is_stopping(lease) && !vl_has_pending_input(c))) {
        c->cs->state = CONN_STATE_LINGER;
        return 0;
    }
    return 1;
}

/* The MPM continues the connection by itself. If the MPM calls the hook again, the
 * connection has been idle. Returns 0. */
static int leave_to_mpm(vl_lease_t *lease)
{
    vl_waiters_lock();
    vl_lease_unqueue_locked(lease);
    lease->state = IDLE;
    lease->idle_since_us = vl_clock_us();
    vl_waiters_unlock();
    return 0;
}

/* The run has ended with held streams. Returns 1 if the connection runs again at once. */
static int wait_with_held(vl_lease_t *lease)
{
    vl_waiters_lock();
    if (lease->queued || lease->ring == vl_leases.want_worker) {
        vl_lease_park_locked(lease, 0);
        vl_lease_change_state_locked(lease, PARKED);
    }
    else if (lease->answer == NO_ANSWER) {
        lease->state = IDLE;
        lease->idle_since_us = vl_clock_us();
    }
    vl_waiters_unlock();
    return lease->state != PARKED;
}

/* --- the process_connection hook ------------------------------------------ */

/* The connection waits for its next request. Returns 1 if it has it already. */
static int await_request(vl_lease_t *lease)
{
    int again;

    wait_for_client(lease);
    again = !lease->streams_blocked && vl_has_pending_input(lease->c);
    /* Its next request would be queued now. */
    if (!again && !lease->http2 && !lease->suspended && lease->can_suspend
        && (lease->varies || vl_lease_credit(lease) <= 0) && vl_lease_is_limited(lease)
        && vl_slot_contended(vl_leases.shm))
        vl_lease_suspend(lease);
    return again;
}

/* Decides what the connection does after the other hooks have run. Returns 1 if it runs
 * again at once, because it has more input already. */
static int after_run(vl_lease_t *lease, int rc)
{
    conn_rec *c = lease->c;
    int again;

    if (lease->state == PARKED)         /* vl_lease_park_request() */
        return 0;
    if (!lease->http2 && strcmp(ap_get_protocol(c), AP_PROTOCOL_HTTP1))
        lease->other_protocol = 1;
    /* mod_http2 has left the connection to the MPM to poll. */
    lease->streams_blocked = lease->frames && rc == OK && c->cs->state == wait_state()
                             && (vl_leases.has_waitio || c->cs->sense == CONN_SENSE_WANT_READ);
    if (lease->suspended && !lease->http2) {
        if ((rc != OK && rc != DONE) || c->cs->state != CONN_STATE_WRITE_COMPLETION
            || !send_output(lease))
            return 0;
        again = await_request(lease);
        if (again)
            c->cs->state = CONN_STATE_READ_REQUEST_LINE;
        else
            vl_lease_suspend(lease);
        return again;
    }
    if (!(lease->streams_blocked || is_kept_alive(c, rc)))
        return leave_to_mpm(lease);
    if (!vl_lease_is_limited(lease)
        || (vl_lease_is_stopping(lease) && !(lease->frames && lease->frames->streams))) {
        leave_to_mpm(lease);
        if (!lease->frames || !lease->frames->streams)
            return 0;
        /* No request came from the first stream, so the next stream tells the site. */
        vl_waiters_lock();
        lease->first_stream = STREAM_NONE;
        vl_waiters_unlock();
        c->cs->state = CONN_STATE_READ_REQUEST_LINE;
        return 1;
    }
    if (!lease->streams_blocked && vl_flush(c) != APR_SUCCESS) {
        c->cs->state = CONN_STATE_LINGER;
        return 0;
    }
    if (lease->frames && lease->frames->streams) {
        /* Without STATE_WAITIO the MPM writes pending output before it polls. By then
         * the socket has poll_fd in place of its own descriptor. */
        if (!vl_leases.has_waitio && vl_has_pending_output(c))
            ap_flush_conn(c);
        again = wait_with_held(lease);
    }
    else if (!lease->streams_blocked && vl_has_pending_output(c)) {
        return leave_to_mpm(lease);
    }
    else {
        again = await_request(lease);
    }
    if (again)
        c->cs->state = CONN_STATE_READ_REQUEST_LINE;
    else
        wait_in_mpm(lease);
    return again;
}

/* Returns 1 if the connection holds a slot, or held one until its handshake waited for the
 * client, and the client has not sent the first request. */
static int has_sent_nothing(vl_lease_t *lease)
{
    conn_rec *c = lease->c;
    apr_bucket_brigade *bb;
    apr_status_t rv;
    int nothing;

    if (lease->http2 || !(lease->grant->holds || lease->grant->given_back))
        return 0;
    bb = apr_brigade_create(c->pool, c->bucket_alloc);
    rv = ap_get_brigade(c->input_filters, bb, AP_MODE_SPECULATIVE,
                        APR_NONBLOCK_READ, 1);
    nothing = APR_STATUS_IS_EAGAIN(rv)
              || (rv == APR_SUCCESS && APR_BRIGADE_EMPTY(bb));
    apr_brigade_destroy(bb);
    return nothing;
}

/* Returns the slot: a connection that waits for its client holds none. It is queued at
 * the head when its request comes, for the rest of its time, and is closed when mod_reqtimeout
 * would close it. */
static void return_slot(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_clock_us();

    lease->waited_us = lease->grant->waited_us;
    drop_grant(lease);
    lease->requeue_at_head = 1;
    __atomic_store_n(&lease->credit_us, 0, __ATOMIC_RELAXED);
    vl_waiters_lock();
    lease->state = IDLE;
    vl_wheel_set(vl_leases.wheel, &lease->timer,
                 vl_headtime_deadline(lease->c->base_server, 0, now_us, now_us, 0));
    vl_waiters_unlock();
}

/* The MPM has polled a parked connection for output. */
static void flush_parked(vl_lease_t *lease)
{
    int is_parked;

    vl_waiters_lock();
    is_parked = lease->state == PARKED;
    vl_waiters_unlock();
    if (!is_parked)
        return;
    vl_lease_uninstall_poll_fd(lease);
    vl_flush(lease->c);
}

static void end_rest(vl_lease_t *lease)
{
    if (!lease->at_rest)
        return;
    lease->at_rest = 0;
    count_awake(1);
}

int vl_lease_process(vl_lease_t *lease)
{
    conn_rec *c = lease->c;
    next_e next;
    int rc, again;

    if (lease->nested || !vl_leases.parks)
        return DECLINED;
    end_rest(lease);
    end_wait_in_mpm(lease);
    lease->can_suspend = vl_lease_can_suspend(lease);
    if (lease->is_new) {
        lease->is_new = 0;
        if (has_sent_nothing(lease)) {
            return_slot(lease);
            wait_in_mpm(lease);
            return OK;
        }
    }
    if (lease->wants_output && lease->state != EXPIRED) {
        lease->wants_output = 0;
        if (!send_output(lease) || !await_request(lease)) {
            if (c->cs->state != CONN_STATE_LINGER)
                vl_lease_suspend(lease);
            return OK;
        }
    }
    else if (vl_has_pending_output(c)) {
        flush_parked(lease);
    }
    do {
        /* The server may become engaged before the request is queued. */
        lease->reads_first = vl_engage_is_dormant(vl_leases.shm)
                             || (vl_lease_must_look(lease)
                                 && vl_leases.look(lease->c, lease->varies, 1));
        vl_waiters_lock();
        next = next_locked(lease);
        vl_waiters_unlock();
        if (next == CLOSE) {
            c->aborted |= (unsigned)lease->wants_output;    /* its client is too slow */
            c->cs->state = CONN_STATE_LINGER;
            return OK;
        }
        if (next == PARK) {
            wait_in_mpm(lease);
            return OK;
        }
        begin_run(lease);
        lease->nested = 1;
        vl_lease_current = lease;
        rc = ap_run_process_connection(c);
        vl_lease_current = NULL;
        lease->nested = 0;
        vl_lease_uninstall_poll_fd(lease);
        end_run(lease);
        again = after_run(lease, rc);
    } while (again);
    return rc;
}

apr_int64_t vl_lease_charged_until(const vl_lease_t *lease)
{
    return lease->frames && lease->is_measured ? lease->cpu_us : 0;
}

void vl_lease_was_idle(vl_lease_t *lease)
{
    if (vl_leases.parks && lease->state == RUNNING && !lease->http2) {
        lease->state = IDLE;
        lease->is_new = 0;
    }
}

int vl_lease_rest(vl_lease_t *lease)
{
    int rests;

    if (lease->suspended)
        return 0;
    if (lease->nested || !vl_leases.parks || lease->at_rest)
        return !lease->nested;
    vl_waiters_lock();
    rests = lease->state == IDLE && !lease->http2 && !lease->is_new && !lease->ready
            && !lease->queued && lease->answer == NO_ANSWER && !lease->streams_blocked;
    if (rests) {
        vl_lease_uninstall_poll_fd(lease);
        vl_wheel_clear(&lease->timer);
        vl_lease_leave_ring_locked(lease);
        lease->at_rest = 1;
        lease->requeue_at_head = 0;     /* its first request runs now */
        lease->waited_us = 0;
        count_awake(-1);
    }
    vl_waiters_unlock();
    if (rests)
        end_wait_in_mpm(lease);
    return rests;
}

/* The MPM would have to poll an HTTP/2 connection. */
static void refuse_h2c(const request_rec *r)
{
    if (ap_find_token(r->pool, apr_table_get(r->headers_in, "Upgrade"), "h2c"))
        apr_table_unset(r->headers_in, "Upgrade");
}

int vl_lease_park_request(vl_lease_t *lease, const request_rec *r, apr_uint32_t account,
                          const vl_client_id_t *client, const vl_grant_t *grant)
{
    if (!vl_leases.parks || lease->http2 || lease->other_protocol
        || lease->c->clogging_input_filters || !vl_lease_can_suspend(lease))
        return 0;
    vl_waiters_lock();
    if (vl_leases.granting_ended) {
        vl_waiters_unlock();
        return 0;
    }
    end_rest(lease);
    lease->state = PARKED;
    vl_lease_suspend(lease);
    vl_lease_queue_locked(lease, account, client, vl_clock_us() - grant->waited_us,
                          grant->given_back);
    vl_waiters_unlock();
    refuse_h2c(r);
    return 1;
}

void vl_lease_note_request(vl_lease_t *lease, const request_rec *r)
{
    __atomic_store_n(&lease->keepalive_us, r->server->keep_alive_timeout,
                     __ATOMIC_RELAXED);
    if (!lease->http2)
        lease->client.http11 = r->proto_num >= HTTP_VERSION(1, 1);
    if (lease->suspended)
        refuse_h2c(r);
    if (vl_leases.parks && !lease->frames)
        return;
    vl_waiters_lock();
    if (vl_leases.parks) {
        /* Later streams may begin. */
        if (lease->first_stream == STREAM_PASSED) {
            lease->first_stream = STREAM_READ;
            vl_lease_wake_locked(lease);
        }
        forget_passed_locked(lease, lease->passed > 0);
    }
    else {
        vl_lease_leave_ring_locked(lease);
        if (!vl_lease_has_thread())
            vl_lease_uncount_thread(lease);
    }
    vl_waiters_unlock();
}

void vl_lease_set_account(vl_lease_t *lease, apr_uint32_t account,
                          apr_int64_t timeout_us, const vl_client_id_t *client)
{
    /* Streams of one HTTP/2 connection begin on several threads, so only HTTP/1 may read
     * these fields without the lock. */
    if (!lease->http2 && lease->account_known && lease->account == account
        && lease->queue_timeout_us == timeout_us && lease->client_id.key == client->key
        && lease->client_id.class_no == client->class_no && lease->client_id.band == client->band)
        return;
    vl_waiters_lock();
    lease->varies |= !lease->http2 && lease->account_known
                     && (lease->account != account || lease->client_id.key != client->key
                         || lease->client_id.class_no != client->class_no);
    lease->account = account;
    lease->queue_timeout_us = timeout_us;
    lease->client_id = *client;
    lease->account_known = 1;
    if (lease->thread_counted && lease->thread_account != account)
        vl_lease_uncount_thread(lease);
    /* A stream may call this when the connection has no worker of the MPM. A worker that
     * takes the connection up later counts its thread then. Under worker the connection
     * keeps its thread until it ends. */
    if (vl_leases.parks ? lease->has_worker && lease->http2
                     : lease->http2 || vl_lease_has_thread())
        vl_lease_count_thread(lease);
    vl_waiters_unlock();
}

int vl_lease_is_foreign(const vl_lease_t *lease, apr_uint32_t account)
{
    return !lease->http2 && lease->account_known && lease->account != account;
}

/* --- worker and prefork: connections that keep their thread --------------- */

int vl_lease_resume(vl_lease_t *lease, int no_thread, vl_ticket_t *ret_ticket)
{
    apr_int64_t since_us = __atomic_load_n(&lease->idle_since_us,
                                           __ATOMIC_RELAXED);

    return vl_lease_credit(lease) > 0 && vl_clock_us() - since_us < VL_LEASE_GRACE_US
           && vl_slot_ask(vl_leases.shm, lease->account, no_thread ? VL_ASK_LEASE : VL_ASK_KEPT, no_thread, ret_ticket)
              == APR_SUCCESS;
}

apr_uint32_t vl_lease_key(const vl_lease_t *lease)
{
    return lease->waiter.key;
}

int vl_lease_ends_with_next(const vl_lease_t *lease)
{
    return lease->account_known && vl_lease_credit(lease) <= (apr_int64_t)lease->estimate_us;
}

int vl_lease_begin_idle(vl_lease_t *lease)
{
    int leaves = 1;

    if (vl_lease_has_thread()) {
        vl_waiters_lock();
        lease->idle_since_us = vl_clock_us();
        vl_lease_enter_ring_locked(lease, vl_leases.idle);
        vl_waiters_unlock();
        return 1;
    }
    /* Under prefork there is no other thread in this process. The idle connection's process
     * is counted here. */
    if (lease->account_known && !lease->thread_counted) {
        lease->thread_counted = 1;
        lease->thread_account = lease->account;
        leaves = vl_slot_occupy(vl_leases.shm, lease->account, VL_OCCUPY_IDLE);
    }
    return leaves && !vl_lease_threads_are_short();
}

int vl_lease_is_gone(vl_lease_t *lease)
{
    apr_uint32_t events = vl_client_events(lease->fd);
    struct pollfd pfd = { lease->fd, 0, 0 };

    if (!events)
        return 0;
    if (vl_client_is_gone(&lease->client, lease->fd, events))
        return 1;
    /* The client was sent "100 Continue" and may answer with a reset. */
    return poll(&pfd, 1, ASK_MS) > 0
           && vl_client_is_gone(&lease->client, lease->fd,
                                vl_client_events(lease->fd));
}

int vl_lease_await_input(const vl_lease_t *lease)
{
    struct pollfd pfd = { lease->fd, POLLIN, 0 };

    return poll(&pfd, 1, IDLE_US / 1000) > 0;
}

/* --- begin and end of a connection ---------------------------------------- */

/* Returns 0 if the MPM has closed the socket. It does so shortly before it destroys the
 * connection's pool. */
static int has_socket(const vl_lease_t *lease)
{
    int fd = -1;

    apr_os_sock_get(&fd, ap_get_conn_socket(lease->c));
    return fd == lease->fd;
}

/* The MPM closes the connection, or its pool is destroyed: leaves the queue and the
 * timer, and returns a slot that was granted and not used. */
static void detach(vl_lease_t *lease)
{
    vl_grant_t grant;

    vl_waiters_lock();
    vl_lease_uninstall_poll_fd(lease);
    vl_wheel_clear(&lease->timer);
    if (has_socket(lease) && lease->in_input_set) {
        epoll_ctl(vl_leases.input_fd, EPOLL_CTL_DEL, lease->fd, NULL);
        lease->in_input_set = 0;
    }
    grant = vl_lease_leave_queue_locked(lease);
    lease->state = EXPIRED;
    vl_lease_enter_ring_locked(lease, vl_leases.closing);
    vl_waiters_unlock();
    if (grant.holds)
        vl_waiters_end(&grant.ticket, NULL);
}

static apr_status_t cleanup(void *data)
{
    vl_lease_t *lease = data;

    vl_lease_forget_suspend(lease);
    if (vl_leases.shm) {
        detach(lease);
        end_run(lease);
    }
    vl_waiters_lock();
    /* After vl_lease_forget() the rings are gone with the child's pool. */
    if (vl_leases.shm) {
        vl_lease_leave_ring_locked(lease);
        APR_RING_REMOVE(lease, all_link);
        if (!lease->at_rest)
            count_awake(-1);
    }
    vl_waiters_unlock();
    if (lease->frames)
        vl_held_free(&lease->held);
    __atomic_sub_fetch(&vl_leases.descriptors, lease->poll_fd >= 0 ? 3 : 1,
                       __ATOMIC_RELAXED);
    if (lease->poll_fd >= 0)
        close(lease->poll_fd);
    if (lease->wake_fd >= 0)
        close(lease->wake_fd);
    lease->poll_fd = lease->wake_fd = -1;
    return APR_SUCCESS;
}

void vl_lease_close(vl_lease_t *lease)
{
    vl_lease_forget_suspend(lease);
    if (!lease->nested && vl_leases.shm)
        detach(lease);
}

vl_lease_t *vl_lease_make(conn_rec *c, vl_grant_t *grant, int ready)
{
    vl_lease_t *lease = apr_pcalloc(c->pool, sizeof(*lease));
    const char *protocol = ap_get_protocol(c);

    lease->c = c;
    lease->waiter.key = vl_own_key((struct sockaddr *)&c->local_addr->sa, (struct sockaddr *)&c->client_addr->sa);
    lease->sbh = c->sbh;
    apr_os_sock_get(&lease->fd, ap_get_conn_socket(c));
    lease->wake_fd = lease->poll_fd = -1;
    lease->grant = grant;
    lease->is_new = lease->client.tls = !ready;
    lease->keepalive_us = c->base_server->keep_alive_timeout;
    lease->state = RUNNING;
    lease->classified = grant->holds || grant->given_back || grant->occupies;
    if (lease->classified)
        lease->account = grant->ticket.account;
    if (grant->holds)
        vl_lease_renew(lease);
    else if (grant->given_back) {
        lease->state = IDLE;
        lease->requeue_at_head = 1;
        lease->waited_us = grant->waited_us;
    }
    if (protocol && !strcmp(protocol, "h2"))
        vl_lease_begin_http2(lease);
    __atomic_add_fetch(&vl_leases.descriptors, 1, __ATOMIC_RELAXED);
    vl_waiters_lock();
    APR_RING_INSERT_TAIL(vl_leases.all, lease, vl_lease_t, all_link);
    vl_waiters_unlock();
    count_awake(1);
    apr_pool_cleanup_register(c->pool, lease, cleanup, apr_pool_cleanup_null);
    return lease;
}

/* --- timeouts, and shortage of descriptors or threads --------------------- */

/* Closes an idle connection. */
static void expire_locked(vl_lease_t *lease)
{
    struct pollfd pfd = { lease->fd, POLLIN, 0 };

    if (lease->state != IDLE)
        return;
    /* The connection has input that the MPM has not noticed yet. */
    if (vl_leases.stopping && poll(&pfd, 1, 0) > 0)
        return;
    lease->state = EXPIRED;
    /* The MPM polls the socket, finds its end and calls vl_lease_process(). */
    if (!lease->suspended)
        shutdown(lease->fd, SHUT_RD);
    else
        vl_lease_wake_locked(lease);
}

/* event gives each connection an allocator, which keeps up to MaxMemFree for the next request. APR
 * frees what is above a limit only as it is returned: so the free nodes are taken and returned. No
 * other thread uses the pools of a suspended connection that is not busy. */
static void trim_pools(apr_pool_t *p)
{
    apr_allocator_t *allocator = apr_pool_allocator_get(p);
    apr_memnode_t *nodes = NULL, *node;
    int i;

    for (i = 0; i < TRIM_NODES && (node = apr_allocator_alloc(allocator, 1)); i++) {
        node->next = nodes;
        nodes = node;
    }
    apr_allocator_max_free_set(allocator, 1);
    if (nodes)
        apr_allocator_free(allocator, nodes);
    apr_allocator_max_free_set(allocator, ap_max_mem_free);
}

/* vl_wheel_fn: closes an idle connection whose KeepAliveTimeout has expired. */
static void time_is_up_locked(vl_timer_t *timer)
{
    vl_lease_t *lease = (vl_lease_t *)(void *)((char *)timer - offsetof(vl_lease_t, timer));
    apr_int64_t due_us = lease->idle_since_us
                         + __atomic_load_n(&lease->keepalive_us, __ATOMIC_RELAXED);

    if (lease->state != IDLE || lease->ring != vl_leases.idle || vl_clock_us() >= due_us) {
        expire_locked(lease);
        return;
    }
    if (lease->suspended && !lease->busy)
        trim_pools(lease->c->pool);
    vl_wheel_set(vl_leases.wheel, timer, due_us);
}

int vl_lease_close_one_locked(void)
{
    vl_lease_t *lease;

    while (!APR_RING_EMPTY(vl_leases.closing, vl_lease_t, link)) {
        lease = APR_RING_FIRST(vl_leases.closing);
        vl_lease_leave_ring_locked(lease);
        if (!has_socket(lease))
            continue;
        shutdown(lease->fd, SHUT_RDWR);
        return 1;
    }
    if (APR_RING_EMPTY(vl_leases.idle, vl_lease_t, link))
        return 0;
    lease = APR_RING_FIRST(vl_leases.idle);
    vl_lease_leave_ring_locked(lease);
    vl_wheel_clear(&lease->timer);
    if (vl_leases.parks)
        expire_locked(lease);
    else
        shutdown(lease->fd, SHUT_RD);       /* Its thread, which reads, finds the end. */
    return 1;
}

void vl_lease_tick(apr_int64_t now_us)
{
    vl_lease_t *lease;

    vl_waiters_lock();
    /* A thread that was about to take a ready connection may have been stopped by other work. */
    if (vl_leases.parks)
        vl_lease_start_runner_locked();
    /* Under worker: closes connections that have been idle for long while threads are short. */
    while (!vl_leases.parks && vl_leases.shm && vl_lease_threads_are_short()
           && !APR_RING_EMPTY(vl_leases.idle, vl_lease_t, link)
           && now_us - APR_RING_FIRST(vl_leases.idle)->idle_since_us > IDLE_US) {
        lease = APR_RING_FIRST(vl_leases.idle);
        vl_lease_leave_ring_locked(lease);
        shutdown(lease->fd, SHUT_RD);
    }
    /* As long as the child does not stop, the acceptor's tick does this. Without it a child that
     * was stalled (vl_slot_revoke_stalled()) would be granted nothing any more. */
    if (vl_leases.stopping) {
        vl_waiters_expire_locked(now_us, EXPIRE_MOST);
        vl_waiters_take_locked();
    }
    if (vl_leases.wheel)
        vl_wheel_turn(vl_leases.wheel, now_us, time_is_up_locked);
    vl_waiters_unlock();
}

/* --- the child process ---------------------------------------------------- */

void vl_lease_forget(void)
{
    vl_leases.shm = NULL;
}

int vl_lease_queued(void)
{
    int any;

    vl_waiters_lock();
    any = vl_waiters_has_locked(vl_lease_answer_locked);
    vl_waiters_unlock();
    return any;
}

void vl_lease_child_end(void)
{
    vl_waiter_t *waiter;

    vl_waiters_lock();
    while ((waiter = vl_waiters_evict_locked(vl_lease_answer_locked, 0)))
        vl_lease_answer_locked(waiter, NULL, VL_REASON_NONE);
    vl_leases.granting_ended = 1;
    vl_waiters_unlock();
}

void vl_lease_child_drain(void)
{
    vl_lease_t *lease;

    vl_waiters_lock();
    vl_leases.stopping = 1;
    /* A connection whose first request comes after its TLS handshake is not idle. */
    APR_RING_FOREACH(lease, vl_leases.all, vl_lease_t, all_link) {
        if (vl_leases.wheel && lease->state == IDLE && !lease->requeue_at_head) {
            vl_wheel_clear(&lease->timer);
            expire_locked(lease);
        }
    }
    while (vl_leases.want_worker && !APR_RING_EMPTY(vl_leases.want_worker, vl_lease_t, link)) {
        lease = APR_RING_FIRST(vl_leases.want_worker);
        vl_lease_leave_ring_locked(lease);
        lease->worker_free = 1;
        vl_lease_wake_locked(lease);
    }
    vl_waiters_unlock();
}

int vl_lease_input_fd(void)
{
    return vl_leases.input_fd;
}

int vl_lease_parks(void)
{
    return vl_leases.parks;
}

int vl_lease_threads_are_short(void)
{
    return vl_slot_threads_are_short(vl_leases.shm);
}

int vl_lease_has_thread(void)
{
    return !vl_leases.parks && vl_leases.threads > 1;
}

static struct lease_ring_t *ring_make(apr_pool_t *p)
{
    struct lease_ring_t *ring = apr_palloc(p, sizeof(*ring));

    APR_RING_INIT(ring, vl_lease_t, link);
    return ring;
}

void vl_lease_child_init(apr_pool_t *pchild, vl_shm_t *shm, int ticks,
                         apr_uint32_t accounts, apr_uint32_t workers)
{
    int is_async = 0, has_waitio = 0;
    ap_version_t httpd;

    vl_leases.shm = shm;
    vl_leases.stopping = vl_leases.granting_ended = vl_leases.awake = 0;
    vl_leases.passed = 0;
    vl_leases.wheel = vl_wheel_create(pchild, vl_clock_us());
    vl_leases.idle = ring_make(pchild);
    vl_leases.want_worker = ring_make(pchild);
    vl_leases.closing = ring_make(pchild);
    vl_leases.ready = ring_make(pchild);
    vl_leases.nready = vl_leases.starting = 0;
    vl_leases.ended = 0;
    vl_leases.all = apr_palloc(pchild, sizeof(*vl_leases.all));
    APR_RING_INIT(vl_leases.all, vl_lease_t, all_link);
    vl_leases.workers = workers;
    vl_leases.waiting_by_account = vl_pages_make(pchild, accounts, sizeof(apr_uint32_t));
    ap_mpm_query(AP_MPMQ_IS_ASYNC, &is_async);
    if (ap_mpm_query(AP_MPMQ_MAX_THREADS, &vl_leases.threads) != APR_SUCCESS)
        vl_leases.threads = 1;
#ifdef AP_MPMQ_CAN_WAITIO
    ap_mpm_query(AP_MPMQ_CAN_WAITIO, &has_waitio);
#endif
    vl_leases.parks = is_async && ticks;
    vl_leases.input_fd = vl_leases.parks ? epoll_create1(EPOLL_CLOEXEC) : -1;
    vl_leases.has_waitio = has_waitio;
    ap_get_server_revision(&httpd);
    vl_leases.polls_for_output = !has_waitio && httpd.minor == 4 && httpd.patch < 41;
}

#if AP_MODULE_MAGIC_AT_LEAST(20120211, 110)
/* child_stopping hook. When event stops at once, its workers end, but its listener waits for
 * one with each connection in wait_state() that has an event (get_worker(), blocking).
 * Only join_workers() ends such a wait, after half a second each and ten of them at most, so
 * a busy server took six seconds to stop. The listener waits for no worker with a connection
 * that is kept alive. The counters of its queues, which are wrong then, are not used again:
 * the listener ends with its present events. */
static void stop_waiting(apr_pool_t *pchild, int graceful)
{
    vl_lease_t *lease;

    if (graceful || !vl_leases.parks)
        return;
    vl_waiters_lock();
    vl_leases.ended = 1;
    APR_RING_FOREACH(lease, vl_leases.all, vl_lease_t, all_link) {
        conn_state_e waiting = wait_state();

        /* As the MPM does with the sockets of its workers */
        if (lease->suspended && lease->busy && has_socket(lease))
            shutdown(lease->fd, SHUT_RDWR);
        __atomic_compare_exchange_n(&lease->c->cs->state, &waiting,
                                    CONN_STATE_CHECK_REQUEST_LINE_READABLE, 0,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    vl_waiters_unlock();
}
#endif

void vl_lease_register(vl_lease_linger_fn linger, vl_lease_look_fn look)
{
    vl_leases.look = look;
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 110)
    ap_hook_child_stopping(stop_waiting, NULL, NULL, APR_HOOK_MIDDLE);
#endif
    vl_lease_run_register(linger);
}
