/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 connections of the event MPM: the input filter that holds the frames of streams
 * until the lease allows them, the workers of mod_http2, and what the connection's thread is
 * charged.
 */
#include "lease/vl_lease_int.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <ap_mpm.h>
#include <http_core.h>
#include <mpm_common.h>

#include "base/vl_clock.h"
#include "base/vl_private.h"
#include "cost/vl_meter.h"
#include "core/vl_engage.h"
#include "core/vl_slot.h"

/* A run that lasts is charged at these intervals while no request is queued, and while some
 * are. A charge costs locks and a system call. */
#define CHARGE_INTERVAL_US 10000
#define CHARGE_INTERVAL_QUEUED_US 100

static ap_filter_rec_t *frame_filter;
__thread vl_lease_t *vl_lease_current;
/* 1: this child has had a connection with frames. Read before vl_lease_current, which costs a call. */
static int has_frames;

/* --- the state of the MPM, as mod_http2 sees it --------------------------- */

/* Returns 1 if the child stops. The MPM, whose state mod_http2 queries, knows this
 * before the acceptor does. The query must not be answered by hide_stopping_state(). */
int vl_lease_is_stopping(const vl_lease_t *lease)
{
    vl_lease_t *was_current = vl_lease_current;
    apr_status_t rv;
    int state;

    if (vl_leases.stopping || !lease->frames)
        return vl_leases.stopping;
    vl_lease_current = NULL;
    rv = ap_mpm_query(AP_MPMQ_MPM_STATE, &state);
    vl_lease_current = was_current;
    return rv == APR_SUCCESS && state == AP_MPMQ_STOPPING;
}

/* mpm_query hook. mod_http2 accepts no new stream once the MPM reports that the child
 * stops. Streams that are held, or that arrived while their connection was parked, are
 * new to mod_http2. So the state is hidden from it until all input that has arrived has
 * passed. */
static int hide_stopping_state(int query, int *result, apr_status_t *rv)
{
    if (query != AP_MPMQ_MPM_STATE || !__atomic_load_n(&has_frames, __ATOMIC_RELAXED)
        || !vl_lease_current || !vl_lease_current->frames
        || (vl_lease_current->input_exhausted && !vl_lease_current->frames->streams))
        return DECLINED;
    *result = AP_MPMQ_RUNNING;
    *rv = APR_SUCCESS;
    return OK;
}

/* --- HTTP/2: charges and workers ------------------------------------------ */

void vl_lease_begin_charges(vl_lease_t *lease)
{
    lease->cpu_us = vl_meter_thread_us();
    lease->charged_us = vl_clock_us();
}

void vl_lease_charge_connection(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_meter_thread_us();
    apr_int64_t us = now_us - lease->cpu_us;
    vl_client_id_t client;
    apr_uint32_t account;
    int is_known;

    lease->cpu_us = now_us;
    if (us <= 0)
        return;
    /* A stream may set them meanwhile. */
    vl_waiters_lock();
    is_known = lease->account_known;
    account = lease->account;
    client = lease->client_id;
    vl_waiters_unlock();
    if (!is_known)
        return;
    vl_slot_charge(vl_leases.shm, account, (apr_uint64_t)us);
    vl_fair_charge_client(vl_leases.shm, account, &client, (apr_uint64_t)us, 0);
    vl_lease_use_credit(lease, us);
}

/* The same before a read, because the credit decides whether the next stream may begin.
 * While nothing is queued the lease is renewed in any case. end_run() charges the rest. */
static void charge_at_read(vl_lease_t *lease)
{
    apr_int64_t now_us, interval_us;

    if (!lease->is_measured)
        return;
    now_us = vl_clock_us();
    interval_us = vl_slot_contended(vl_leases.shm) ? CHARGE_INTERVAL_QUEUED_US
                                                               : CHARGE_INTERVAL_US;

    if (now_us - lease->charged_us < interval_us)
        return;
    lease->charged_us = now_us;
    vl_lease_charge_connection(lease);
}

/* mod_http2 has one pool of workers for all connections of a child. A stream that waits
 * for its client or its back end keeps its worker. Returns 0 if one more would leave too
 * few for other accounts (vl_slot_more()). Then the account's next streams are held. */
static int may_use_worker(apr_uint32_t account)
{
    return vl_slot_more(vl_leases.waiting_by_account[account],
                         vl_leases.workers > vl_leases.waiting
                         ? vl_leases.workers - vl_leases.waiting : 0);
}

void vl_lease_workers_wait(apr_uint32_t account, int by)
{
    vl_lease_t *lease;

    if (!vl_leases.parks || !vl_leases.shm)
        return;
    vl_waiters_lock();
    vl_leases.waiting += (apr_uint32_t)by;
    vl_leases.waiting_by_account[account] += (apr_uint32_t)by;
    if (by < 0) {
        /* Wakes the oldest connection whose account may use a worker. */
        APR_RING_FOREACH(lease, vl_leases.want_worker, vl_lease_t, link) {
            if (!may_use_worker(lease->account))
                continue;
            vl_lease_leave_ring_locked(lease);
            lease->worker_free = 1;
            eventfd_write(lease->wake_fd, 1);
            break;
        }
    }
    vl_waiters_unlock();
}

/* --- HTTP/2: streams that begin ------------------------------------------- */

/* Charges the lease in advance for a stream that begins, with the average cost of a
 * request of its account. A lease therefore admits no more streams than it can pay for.
 * The difference is charged when the stream ends. */
static void reserve(vl_lease_t *lease)
{
    vl_waiters_lock();
    if (lease->account_known)
        vl_lease_use_credit(lease, lease->estimate_us);
    vl_waiters_unlock();
}

/* Returns 1 if a stream may begin. Puts the connection in want_worker if no worker is free for it.
 * Slots that it has been granted go to other connections then. Takes a slot on the credit of the
 * lease if none was granted. Without credit the lease is renewed, unless other connections are
 * queued. */
static int may_begin_locked(vl_lease_t *lease)
{
    vl_ticket_t *ticket, taken;

    if (!may_use_worker(lease->account) && vl_lease_make_poll_fd(lease)) {
        lease->stream_allowed = 0;
        while ((ticket = apr_array_pop(lease->tickets)))
            vl_slot_end(vl_leases.shm, ticket, NULL);
        if (vl_slot_granted(vl_leases.shm))
            vl_waiters_take_locked();
        vl_lease_enter_ring_locked(lease, vl_leases.want_worker);
        return 0;
    }
    if (lease->stream_allowed) {
        lease->stream_allowed = 0;
        return 1;
    }
    if (vl_lease_credit(lease) <= 0) {
        if (vl_slot_contended(vl_leases.shm))
            return 0;
        vl_lease_renew(lease);
    }
    if (vl_slot_ask(vl_leases.shm, lease->account, VL_ASK_LEASE, 1, &taken) != APR_SUCCESS)
        return 0;
    APR_ARRAY_PUSH(lease->tickets, vl_ticket_t) = taken;
    return 1;
}

/* Returns 1 if the server is dormant, and passes the stream. Streams that have passed and not begun use
 * half of mod_http2's threads at most, so that all can wait when the server becomes engaged. */
static int passes_dormant_locked(vl_lease_t *lease)
{
    if (!vl_engage_has_room(vl_leases.shm, lease->account_known ? lease->account + 1 : 0))
        return 0;
    if (vl_leases.passed * 2 >= vl_leases.workers) {
        vl_engage_now(vl_leases.shm, VL_ENGAGED_THREADS);
        return 0;
    }
    lease->passed++;
    vl_leases.passed++;
    return 1;
}

/* vl_frames_may_begin_fn. Each stream takes a slot while the lease lasts and its account
 * is within its own limits (VL_ASK_LEASE). */
static int may_begin(void *context)
{
    vl_lease_t *lease = context;
    int may;

    vl_waiters_lock();
    if (lease->first_stream == STREAM_NONE)
        lease->first_stream = STREAM_PASSED;
    else if (lease->first_stream == STREAM_PASSED && !lease->account_known) {
        vl_waiters_unlock();
        return 0;
    }
    may = passes_dormant_locked(lease) || !vl_lease_is_limited_locked(lease)
          || lease->refused || may_begin_locked(lease);
    vl_waiters_unlock();
    return may;
}

static void pass_pieces(vl_lease_t *lease, apr_uint32_t stream,
                        apr_bucket_brigade *bb)
{
    vl_piece_t *piece;

    while ((piece = vl_held_take(&lease->held, stream)))
        APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_heap_create(
            piece->bytes, piece->length, vl_held_free_bytes, bb->bucket_alloc));
}

static void release_all(vl_lease_t *lease, apr_bucket_brigade *bb)
{
    vl_frames_release_all(lease->frames);
    pass_pieces(lease, 0, bb);
    reserve(lease);
}

/* Passes held streams, oldest first, as long as they may begin. Returns 1 if any has
 * passed. */
static int pass_held(vl_lease_t *lease, apr_bucket_brigade *bb)
{
    vl_frames_t *frames = lease->frames;
    int some = 0;

    while (frames->streams && vl_frames_is_between(frames) && may_begin(lease)) {
        apr_uint32_t stream = frames->stream[0].id;

        some = 1;
        if (!vl_held_is_free(&lease->held, stream)) {
            release_all(lease, bb);
            break;
        }
        pass_pieces(lease, stream, bb);
        vl_frames_release_one(frames);
        reserve(lease);
    }
    /* Frames that belong to no held stream. */
    if (some && !frames->streams)
        pass_pieces(lease, 0, bb);
    return some;
}

/* --- HTTP/2: the input filter --------------------------------------------- */

/* Splits the bytes of one bucket into those that pass, appended to bb, and those that
 * are held. Returns 1 if any bytes pass. */
static int split_bytes(vl_lease_t *lease, const char *data, apr_size_t length,
                       apr_bucket_brigade *bb)
{
    int passes = 0;

    while (length) {
        vl_frames_e verdict;
        vl_span_t span;
        apr_size_t n = vl_frames_next(lease->frames, may_begin, lease, data,
                                      length, &verdict, &span);

        data += n;
        length -= n;
        switch (verdict) {
        case VL_FRAMES_NONE:
            continue;
        case VL_FRAMES_HOLD_NEW:
            vl_held_begin(&lease->held, lease->frames->id,
                          lease->frames->is_block,
                          VL_FRAMES_HEADER + (apr_size_t)lease->frames->payload);
            /* fall through */
        case VL_FRAMES_HOLD:
            vl_held_add(&lease->held, span.data, span.length);
            continue;
        case VL_FRAMES_RELEASE:
            release_all(lease, bb);
            break;
        case VL_FRAMES_PASS_NEW:
            reserve(lease);
            break;
        case VL_FRAMES_PASS:
            break;
        }
        passes = 1;
        apr_brigade_write(bb, NULL, NULL, span.data, span.length);
    }
    return passes;
}

/* Does the same for all of lease->input. *ret_passes is 1 if anything passes. */
static apr_status_t split_brigade(vl_lease_t *lease, apr_bucket_brigade *bb,
                                  apr_read_type_e block, int *ret_passes)
{
    *ret_passes = 0;
    while (!APR_BRIGADE_EMPTY(lease->input)) {
        apr_bucket *b = APR_BRIGADE_FIRST(lease->input);
        const char *data;
        apr_size_t length;
        apr_status_t rv;

        if (APR_BUCKET_IS_METADATA(b)) {
            APR_BUCKET_REMOVE(b);
            APR_BRIGADE_INSERT_TAIL(bb, b);
            *ret_passes = 1;
            continue;
        }
        rv = apr_bucket_read(b, &data, &length, block);
        if (rv != APR_SUCCESS)
            return rv;
        *ret_passes |= split_bytes(lease, data, length, bb);
        apr_bucket_delete(b);
    }
    return APR_SUCCESS;
}

/* Called when no more input can be read. Returns 1 if held streams may begin. Otherwise
 * the connection is queued, and the answer wakes mod_http2 or the MPM. */
static int request_slot_for_held(vl_lease_t *lease)
{
    int may;

    vl_waiters_lock();
    may = !lease->queued && lease->ring != vl_leases.want_worker
          && (lease->answer != NO_ANSWER
              || vl_lease_request_slot_locked(lease, vl_clock_us(), 0));
    vl_lease_use_answer_locked(lease);
    vl_waiters_unlock();
    return may;
}

/* Connection input filter above mod_ssl. It reads until some bytes pass or the socket
 * has no more input, because poll() does not see bytes that mod_ssl has decrypted
 * already. */
static apr_status_t filter_frames(ap_filter_t *f, apr_bucket_brigade *bb,
                                  ap_input_mode_t mode, apr_read_type_e block,
                                  apr_off_t readbytes)
{
    vl_lease_t *lease = f->ctx;
    apr_status_t rv = APR_SUCCESS;
    eventfd_t value;
    int passes = 0, was_installed;

    if (mode != AP_MODE_READBYTES) {
        /* Before the HTTP/2 session begins, mod_ssl asks for its handshake once more,
         * and mod_http2 looks for the preface. */
        was_installed = lease->poll_fd_installed;
        if (mode != AP_MODE_INIT)
            vl_lease_restore_fd(lease);
        rv = ap_get_brigade(f->next, bb, mode, block, readbytes);
        if (was_installed && !lease->poll_fd_installed)
            vl_lease_install_poll_fd(lease);
        return rv;
    }
    vl_lease_restore_fd(lease);
    charge_at_read(lease);
    vl_waiters_lock();
    if (lease->first_stream == STREAM_READ || lease->worker_free) {
        lease->first_stream = lease->first_stream == STREAM_READ
                              ? STREAM_SEEN : lease->first_stream;
        lease->worker_free = 0;
        eventfd_read(lease->wake_fd, &value);
    }
    vl_lease_use_answer_locked(lease);
    vl_waiters_unlock();
    lease->input_exhausted = 0;
    if (lease->frames->streams && pass_held(lease, bb))
        return APR_SUCCESS;
    while (!passes && rv == APR_SUCCESS) {
        if (vl_lease_is_held_full(lease) && lease->frames->uploads) {
            release_all(lease, bb);
            return APR_SUCCESS;
        }
        if (vl_lease_is_held_full(lease) && block == APR_NONBLOCK_READ)
            rv = APR_EAGAIN;
        else
            rv = ap_get_brigade(f->next, lease->input, mode, block, readbytes);
        if (rv == APR_SUCCESS && APR_BRIGADE_EMPTY(lease->input))
            break;
        if (rv == APR_SUCCESS)
            rv = split_brigade(lease, bb, block, &passes);
    }
    if (!passes && lease->frames->streams && vl_lease_is_limited(lease)
        && (rv == APR_SUCCESS || APR_STATUS_IS_EAGAIN(rv))
        && request_slot_for_held(lease) && pass_held(lease, bb))
        return APR_SUCCESS;
    lease->input_exhausted = !passes;
    APR_BRIGADE_CONCAT(bb, lease->input);
    return rv;
}

vl_reason_e vl_lease_refused(const vl_lease_t *lease, apr_int64_t *ret_waited_us)
{
    vl_reason_e refused;

    vl_waiters_lock();
    *ret_waited_us = lease->queue_grant.waited_us;
    refused = lease->refused;
    vl_waiters_unlock();
    return refused;
}

apr_int64_t vl_lease_take_wait(vl_lease_t *lease)
{
    return __atomic_exchange_n(&lease->waited_us, 0, __ATOMIC_RELAXED);
}

int vl_lease_take_slot(vl_lease_t *lease, vl_ticket_t *ret_ticket)
{
    vl_ticket_t *ticket = NULL;

    vl_waiters_lock();
    if (lease->tickets)
        ticket = apr_array_pop(lease->tickets);
    if (ticket)
        *ret_ticket = *ticket;
    vl_waiters_unlock();
    return ticket != NULL;
}

/* --- HTTP/2: the session begins ------------------------------------------- */

/* mod_http2 takes the descriptor that it polls from the socket when its session begins
 * (h2_mplx_c1_create()). Installs poll_fd there, so that the queue can wake mod_http2.
 * The filters restore the socket's own descriptor before it is used
 * (vl_lease_restore_fd()). */
void vl_lease_prepare_session(vl_lease_t *lease)
{
    if (!lease->session_pending)
        return;
    lease->session_pending = 0;
    if (!vl_lease_make_poll_fd(lease))
        return;
    vl_lease_poll_client(lease, EPOLLIN | EPOLLRDHUP);
    vl_lease_install_poll_fd(lease);
}

void vl_lease_begin_http2(vl_lease_t *lease)
{
    conn_rec *c = lease->c;

    if (lease->http2)
        return;
    lease->http2 = 1;
    lease->queue_grant.waited_us = lease->grant->waited_us;
    if (!vl_leases.parks) {
        lease->waited_us = lease->grant->waited_us;
        return;
    }
    /* The end of the input ends an HTTP/2 connection, as it ends a TLS connection. */
    lease->client.tls = 1;
    lease->tickets = apr_array_make(c->pool, 4, sizeof(vl_ticket_t));
    if (lease->grant->holds)
        APR_ARRAY_PUSH(lease->tickets, vl_ticket_t) = lease->grant->ticket;
    lease->stream_allowed = lease->grant->holds;
    lease->grant->holds = 0;
    lease->is_measured = !vl_engage_is_dormant(vl_leases.shm);
    if (lease->is_measured)
        vl_lease_begin_charges(lease);
    lease->frames = apr_pcalloc(c->pool, sizeof(*lease->frames));
    __atomic_store_n(&has_frames, 1, __ATOMIC_RELAXED);
    lease->input = apr_brigade_create(c->pool, c->bucket_alloc);
    ap_add_input_filter_handle(frame_filter, lease, NULL, c);
    lease->session_pending = 1;
    if (lease->nested)
        vl_lease_prepare_session(lease);
}

void vl_lease_http2_register(void)
{
    ap_hook_mpm_query(hide_stopping_state, NULL, NULL, APR_HOOK_REALLY_FIRST);
    frame_filter = ap_register_input_filter("VHOSTLIMIT_FRAMES", filter_frames,
                                            NULL, AP_FTYPE_CONNECTION);
}
