/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of a connection with leases, and the event that leads to the next one.
 *
 *   RUNNING  --no more input, lease or not-->  IDLE      (waits for its client)
 *   IDLE     --input, lease left or renewed--> RUNNING
 *   IDLE     --input, others are queued-->     QUEUED    (parked)
 *   IDLE     --KeepAliveTimeout-->             EXPIRED
 *   QUEUED   --grant-->                        GRANTED   (the MPM is woken)
 *   QUEUED   --queue timeout-->                REFUSED   (the MPM is woken)
 *   QUEUED   --client has gone-->              EXPIRED
 *   GRANTED, REFUSED --a worker takes it-->    RUNNING
 *   EXPIRED  --a worker takes it-->            (closed)
 */
#include "vl_lease.h"

#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ap_mpm.h>
#include <apr_portable.h>
#include <http_connection.h>
#include <http_core.h>
#include <http_protocol.h>
#include <util_filter.h>

#include "vl_clock.h"
#include "vl_frames.h"
#include "vl_link.h"
#include "vl_meter.h"
#include "vl_private.h"
#include "vl_seat.h"
#include "vl_wheel.h"

/* The CPU time that one lease may use. Longer leases cost fewer grants, shorter
 * ones give shorter waits: docs/design/007-leases.md has the measurements. */
#define QUANTUM_US 2000
#define QUANTUM_MIN_US 100
/* Within this time each queued connection of a site is to have had a lease. */
#define ROTATION_US 50000
/* A lease outlives a client's round trip of that length. */
#define GRACE_US 20000
/* Refusals in one tick of a child that stops. */
#define EXPIRE_MOST 16
/* Held frames of one connection, bytes. A client that sends more is read no
 * further until the connection has a lease. */
#define HELD_MAX (256 * 1024)

/* Older versions cannot park, so no connection has leases: any state will do. */
#ifdef AP_MPMQ_CAN_WAITIO
#define STATE_WAITIO CONN_STATE_ASYNC_WAITIO
#else
#define STATE_WAITIO CONN_STATE_SUSPENDED
#endif

typedef enum { RUNNING, IDLE, QUEUED, GRANTED, REFUSED, EXPIRED } state_e;

struct vl_lease_t {
    vl_waiter_t waiter;             /* first: a waiter is its lease */
    conn_rec *c;
    int fd;                         /* the client's socket */
    state_e state;
    int nested;                     /* the other hooks run, called by ours */
    int fresh;                      /* it has not been processed yet */
    int known;                      /* account is known */
    apr_uint32_t account;
    apr_int64_t queue_timeout_us;   /* 0: the account does not queue */
    apr_int64_t keepalive_us;
    apr_int64_t credit_us;          /* left of the quantum; atomic */
    apr_int64_t idle_since_us;
    vl_timer_t timer;               /* KeepAliveTimeout */
    apr_int64_t expires_us;
    vl_turn_t *turn;                /* for the next request (HTTP/1) ... */
    vl_turn_t mine;                 /* ... what the queue gave */
    vl_reason_e refused;            /* of the streams of this run */
    int had_turn;                   /* its first slot was given back during the
                                     * handshake: it is first in the queue ... */
    apr_int64_t waited_us;          /* ... and has waited before */
    /* HTTP/2 */
    int http2;
    apr_uint32_t estimate_us;       /* reserved for each stream */
    int blocked;                    /* streams wait for the client */
    int linked;                     /* its thread is counted (vl_link.h) ... */
    apr_uint32_t linked_account;    /* ... as one of this account */
    vl_ticket_t ticket;             /* for the next stream ... */
    int holds;                      /* ... is held */
    apr_int64_t cpu_us;             /* the thread's clock when last charged */
    vl_frames_t *frames;            /* NULL: it does not speak HTTP/2 */
    apr_bucket_brigade *held, *input;
    apr_size_t held_bytes;
    /* parked: the MPM polls poll_fd in place of the socket */
    int wake_fd, poll_fd;           /* -1: not made */
    int swapped;
};

static ap_filter_rec_t *frame_filter;
static struct {
    vl_shm_t *shm;
    vl_wheel_t *wheel;
    int possible;
    int leaving;
} leases;

/* --- the descriptor that the MPM polls ------------------------------------ */

static void put_descriptor(vl_lease_t *lease, int fd)
{
    apr_socket_t *socket = ap_get_conn_socket(lease->c);
    apr_os_sock_t os = fd;

    if (socket)
        apr_os_sock_put(&socket, &os, lease->c->pool);
}

/* A descriptor that is readable when the connection is granted a lease and when
 * its client has gone, but not when the client sends something. */
static int make_poll_fd(vl_lease_t *lease)
{
    struct epoll_event wake = { .events = EPOLLIN };
    struct epoll_event gone = { .events = EPOLLRDHUP };

    if (lease->poll_fd >= 0)
        return 1;
    lease->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    lease->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (lease->wake_fd >= 0 && lease->poll_fd >= 0
        && !epoll_ctl(lease->poll_fd, EPOLL_CTL_ADD, lease->wake_fd, &wake)
        && !epoll_ctl(lease->poll_fd, EPOLL_CTL_ADD, lease->fd, &gone))
        return 1;
    if (lease->wake_fd >= 0)
        close(lease->wake_fd);
    if (lease->poll_fd >= 0)
        close(lease->poll_fd);
    lease->wake_fd = lease->poll_fd = -1;
    return 0;
}

static void park_locked(vl_lease_t *lease)
{
    put_descriptor(lease, lease->poll_fd);
    lease->swapped = 1;
}

static void unpark_locked(vl_lease_t *lease)
{
    eventfd_t value;

    if (!lease->swapped)
        return;
    lease->swapped = 0;
    put_descriptor(lease, lease->fd);
    eventfd_read(lease->wake_fd, &value);
}

static void wake_locked(vl_lease_t *lease)
{
    if (lease->swapped)
        eventfd_write(lease->wake_fd, 1);
}

static int is_client_gone(const vl_lease_t *lease)
{
    struct pollfd pfd = { lease->fd, POLLRDHUP, 0 };

    return poll(&pfd, 1, 0) > 0
           && pfd.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* --- the queue ------------------------------------------------------------ */

/* The quantum shrinks as more connections of the site are queued, so that the
 * last of them does not wait for whole quanta of all others. */
static void renew(vl_lease_t *lease)
{
    apr_int64_t us = ROTATION_US
                     / ((apr_int64_t)vl_slot_queued(leases.shm, lease->account)
                        + 1);

    if (us > QUANTUM_US)
        us = QUANTUM_US;
    if (us < QUANTUM_MIN_US)
        us = QUANTUM_MIN_US;
    lease->estimate_us = vl_slot_estimate(leases.shm, lease->account);
    __atomic_store_n(&lease->credit_us, us, __ATOMIC_RELAXED);
}

static apr_int64_t credit(const vl_lease_t *lease)
{
    return __atomic_load_n(&lease->credit_us, __ATOMIC_RELAXED);
}

static void charge(vl_lease_t *lease, apr_int64_t us)
{
    __atomic_sub_fetch(&lease->credit_us, us, __ATOMIC_RELAXED);
}

void vl_lease_charge(vl_lease_t *lease, apr_uint64_t us)
{
    charge(lease, (apr_int64_t)us - (lease->http2 ? lease->estimate_us : 0));
}

/* vl_waiter_done_fn */
static void done_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    vl_lease_t *lease = (vl_lease_t *)waiter;

    vl_park_count_parked_locked(waiter->account, -1);
    memset(&lease->mine, 0, sizeof(lease->mine));
    lease->mine.ticket.account = waiter->account;
    lease->mine.waited_us = vl_clock_us() - waiter->since_us;
    if (ticket) {
        lease->mine.holds = 1;
        lease->mine.ticket = *ticket;
    }
    lease->mine.refused = refused;
    lease->state = ticket || refused == VL_REASON_NONE ? GRANTED : REFUSED;
    wake_locked(lease);
}

static void unqueue_locked(vl_lease_t *lease)
{
    vl_park_count_parked_locked(lease->waiter.account, -1);
    vl_park_remove_locked(&lease->waiter);
}

static int is_limited(const vl_lease_t *lease)
{
    return lease->known && lease->queue_timeout_us
           && vl_slot_queue(leases.shm, lease->account);
}

/* The slot is for the connection's next request or stream. */
static void use_turn_locked(vl_lease_t *lease, const vl_turn_t *turn)
{
    if (lease->http2) {
        lease->holds = turn->holds;
        lease->ticket = turn->ticket;
        lease->refused = turn->refused;
    }
    else {
        *lease->turn = *turn;
    }
}

/* An HTTP/2 connection has a thread of the MPM as long as streams run. Too many
 * of one site's leave none for others. */
static int may_have_thread(vl_lease_t *lease)
{
    if (!lease->linked
        && vl_link_begin(leases.shm, lease->account) != APR_SUCCESS)
        return 0;
    lease->linked = 1;
    lease->linked_account = lease->account;
    return 1;
}

/* The MPM closes connections that wait for longer than Timeout. They are refused
 * before that, so that the client gets an answer. */
static apr_int64_t longest_wait_us(const vl_lease_t *lease)
{
    apr_int64_t us = lease->c->base_server->timeout * 9 / 10;

    return us < lease->queue_timeout_us ? us : lease->queue_timeout_us;
}

/* 1: the connection runs now; 0: it is parked. */
static int run_or_queue_locked(vl_lease_t *lease, apr_int64_t now_us)
{
    vl_turn_t turn = { 0 };
    apr_int64_t since_us = now_us - lease->waited_us;
    int had_turn = lease->had_turn;

    lease->had_turn = 0;
    lease->waited_us = 0;
    if (!is_limited(lease))
        return 1;
    if (lease->blocked)
        return 1;
    if (credit(lease) > 0 && now_us - lease->idle_since_us < GRACE_US) {
        /* Each stream takes a slot of its own. */
        if (lease->http2 && may_have_thread(lease))
            return 1;
        if (!lease->http2
            && vl_slot_resume(leases.shm, lease->account, 0, &turn.ticket)
               == APR_SUCCESS) {
            turn.holds = 1;
            use_turn_locked(lease, &turn);
            return 1;
        }
    }
    renew(lease);
    if (vl_slot_try(leases.shm, lease->account, &turn.ticket) == APR_SUCCESS) {
        turn.holds = 1;
        use_turn_locked(lease, &turn);
        return 1;
    }
    if (leases.leaving || !make_poll_fd(lease))
        return 1;
    lease->waiter.account = lease->account;
    lease->waiter.since_us = since_us;
    lease->waiter.deadline_us = since_us + longest_wait_us(lease);
    lease->waiter.done = done_locked;
    lease->waiter.in_mpm = 1;
    lease->waiter.may_defer = 1;
    lease->state = QUEUED;
    vl_park_count_parked_locked(lease->account, 1);
    if (had_turn)
        vl_park_put_back_locked(&lease->waiter);
    else
        vl_park_add_locked(&lease->waiter);
    if (lease->state == QUEUED) {
        park_locked(lease);
        return 0;
    }
    use_turn_locked(lease, &lease->mine);
    return 1;
}

typedef enum { RUN, PARK, CLOSE } next_e;

/* A worker has the connection. */
static next_e next_locked(vl_lease_t *lease)
{
    next_e next = RUN;

    unpark_locked(lease);
    vl_wheel_clear(&lease->timer);
    lease->refused = VL_REASON_NONE;
    switch (lease->state) {
    case QUEUED:
        if (is_client_gone(lease)) {
            unqueue_locked(lease);
            vl_slot_gone(leases.shm, lease->account);
            lease->state = EXPIRED;
            return CLOSE;
        }
        park_locked(lease);
        return PARK;
    case EXPIRED:
        return CLOSE;
    case GRANTED:
        renew(lease);
        use_turn_locked(lease, &lease->mine);
        break;
    case REFUSED:
        __atomic_store_n(&lease->credit_us, 0, __ATOMIC_RELAXED);
        use_turn_locked(lease, &lease->mine);
        break;
    case IDLE:
        next = run_or_queue_locked(lease, vl_clock_us()) ? RUN : PARK;
        break;
    case RUNNING:
        break;
    }
    if (next == RUN)
        lease->state = RUNNING;
    return next;
}

/* --- HTTP/2 --------------------------------------------------------------- */

/* What the thread of the connection has done since it was last asked. */
static void charge_connection(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_meter_thread_us();
    apr_int64_t us = now_us - lease->cpu_us;

    lease->cpu_us = now_us;
    if (us <= 0 || !lease->known)
        return;
    vl_charge_pay(leases.shm, lease->account, (apr_uint64_t)us);
    charge(lease, us);
}

/* 1: frames that open new streams are held. */
static int is_gate_closed(vl_lease_t *lease)
{
    if (!is_limited(lease) || leases.leaving || lease->refused
        || credit(lease) > 0)
        return 0;
    if (vl_slot_contended(leases.shm))
        return 1;
    renew(lease);
    return 0;
}

/* A stream that begins is charged what a request of its account costs on
 * average, so that a lease lets in no more streams than it can pay for. The rest
 * is charged when the stream ends. */
static void reserve(vl_lease_t *lease)
{
    if (lease->known)
        charge(lease, lease->estimate_us);
}

/* Held streams, until the credit is used up; at least one. In `held` each stream
 * begins with a flush bucket, which stays here. */
static int pass_held(vl_lease_t *lease, apr_bucket_brigade *bb)
{
    apr_bucket_brigade *held = lease->held;
    int some = 0;

    while (!APR_BRIGADE_EMPTY(held) && !(some && is_gate_closed(lease))) {
        apr_bucket *b = APR_BRIGADE_FIRST(held);

        if (APR_BUCKET_IS_FLUSH(b))
            apr_bucket_delete(b);
        while (!APR_BRIGADE_EMPTY(held)
               && !APR_BUCKET_IS_FLUSH(b = APR_BRIGADE_FIRST(held))) {
            APR_BUCKET_REMOVE(b);
            APR_BRIGADE_INSERT_TAIL(bb, b);
            lease->held_bytes -= b->length;
        }
        vl_frames_release_one(lease->frames);
        reserve(lease);
        some = 1;
    }
    return some;
}

static void release_all(vl_lease_t *lease, apr_bucket_brigade *bb)
{
    apr_bucket *b = APR_BRIGADE_FIRST(lease->held), *next;

    for (; b != APR_BRIGADE_SENTINEL(lease->held); b = next) {
        next = APR_BUCKET_NEXT(b);
        if (APR_BUCKET_IS_FLUSH(b))
            apr_bucket_delete(b);
    }
    APR_BRIGADE_CONCAT(bb, lease->held);
    lease->held_bytes = 0;
}

/* One bucket's bytes. Returns whether some of them pass. */
static int split_bytes(vl_lease_t *lease, const char *data, apr_size_t length,
                       apr_bucket_brigade *bb)
{
    int passes = 0;

    while (length) {
        vl_frames_e verdict;
        vl_span_t span;
        apr_size_t n = vl_frames_next(lease->frames, is_gate_closed(lease),
                                      data, length, &verdict, &span);
        apr_bucket_brigade *to = bb;

        data += n;
        length -= n;
        switch (verdict) {
        case VL_FRAMES_NONE:
            continue;
        case VL_FRAMES_HOLD_NEW:
            APR_BRIGADE_INSERT_TAIL(lease->held, apr_bucket_flush_create(
                                        lease->held->bucket_alloc));
            to = lease->held;
            break;
        case VL_FRAMES_HOLD:
            to = lease->held;
            break;
        case VL_FRAMES_RELEASE:
            release_all(lease, bb);
            reserve(lease);
            break;
        case VL_FRAMES_PASS_NEW:
            reserve(lease);
            break;
        case VL_FRAMES_PASS:
            break;
        }
        passes |= to == bb;
        if (to == lease->held)
            lease->held_bytes += span.length;
        apr_brigade_write(to, NULL, NULL, span.data, span.length);
    }
    return passes;
}

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

/* Connection input filter above mod_ssl. Reads until something passes or the
 * socket has no more: poll() does not see bytes that mod_ssl has decrypted. */
static apr_status_t filter_frames(ap_filter_t *f, apr_bucket_brigade *bb,
                                  ap_input_mode_t mode, apr_read_type_e block,
                                  apr_off_t readbytes)
{
    vl_lease_t *lease = f->ctx;
    apr_status_t rv;
    int passes = 0;

    if (mode != AP_MODE_READBYTES)
        return ap_get_brigade(f->next, bb, mode, block, readbytes);
    charge_connection(lease);
    if (lease->frames->streams && !is_gate_closed(lease) && pass_held(lease, bb))
        return APR_SUCCESS;
    while (!passes) {
        if (lease->held_bytes > HELD_MAX && block == APR_NONBLOCK_READ)
            return APR_EAGAIN;
        rv = ap_get_brigade(f->next, lease->input, mode, block, readbytes);
        if (rv != APR_SUCCESS || APR_BRIGADE_EMPTY(lease->input)) {
            APR_BRIGADE_CONCAT(bb, lease->input);
            return rv;
        }
        rv = split_brigade(lease, bb, block, &passes);
        if (rv != APR_SUCCESS)
            return rv;
    }
    return APR_SUCCESS;
}

vl_reason_e vl_lease_refused(const vl_lease_t *lease, apr_int64_t *ret_waited_us)
{
    *ret_waited_us = lease->mine.waited_us;
    return lease->refused;
}

int vl_lease_take(vl_lease_t *lease, vl_ticket_t *ret_ticket)
{
    int holds;

    vl_park_lock();
    holds = lease->holds;
    *ret_ticket = lease->ticket;
    lease->holds = 0;
    vl_park_unlock();
    return holds;
}

/* --- running -------------------------------------------------------------- */

static void begin_run(vl_lease_t *lease)
{
    if (!lease->http2)
        return;
    lease->cpu_us = vl_meter_thread_us();
    if (lease->known && !lease->linked) {
        lease->linked = 1;
        lease->linked_account = lease->account;
        vl_link_hold(leases.shm, lease->account);
    }
}

static void end_run(vl_lease_t *lease)
{
    vl_ticket_t ticket;

    if (!lease->http2)
        return;
    charge_connection(lease);
    if (lease->linked)
        vl_link_end(leases.shm, lease->linked_account);
    lease->linked = 0;
    if (vl_lease_take(lease, &ticket))
        vl_park_end(&ticket, NULL);
}

/* As the MPM does in CONN_STATE_WRITE_COMPLETION. */
static apr_status_t flush(conn_rec *c)
{
    ap_filter_t *last = c->output_filters;

    while (last->next)
        last = last->next;
    return last->frec->filter_func.out_func(last, NULL);
}

static void wait_for_client(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_clock_us();

    vl_park_lock();
    lease->state = IDLE;
    lease->idle_since_us = now_us;
    if (!lease->blocked)
        vl_wheel_set(leases.wheel, &lease->timer,
                     now_us + lease->keepalive_us);
    vl_park_unlock();
}

static int is_kept(const conn_rec *c, int rc)
{
    return (rc == OK || rc == DONE) && !c->aborted
           && c->keepalive == AP_CONN_KEEPALIVE
           && (c->cs->state == CONN_STATE_WRITE_COMPLETION
               || c->cs->state == CONN_STATE_CHECK_REQUEST_LINE_READABLE)
           && c->cs->sense != CONN_SENSE_WANT_READ;
}

/* After the other hooks. 1: the connection has more input already. */
static int after_run(vl_lease_t *lease, int *rc)
{
    conn_rec *c = lease->c;

    lease->blocked = 0;
    if (lease->http2 && *rc == OK && c->cs->state == STATE_WAITIO) {
        /* mod_http2 waits for the client. Held streams need a lease first. */
        lease->blocked = !lease->frames->streams;
        wait_for_client(lease);
        if (!lease->blocked)
            c->cs->state = CONN_STATE_READ_REQUEST_LINE;
        return !lease->blocked;
    }
    if (!is_kept(c, *rc) || !is_limited(lease) || leases.leaving) {
        /* The MPM goes on with it; should it come back, it has been idle. */
        lease->state = IDLE;
        lease->idle_since_us = vl_clock_us();
        return 0;
    }
    if (flush(c) != APR_SUCCESS) {
        c->cs->state = CONN_STATE_LINGER;
        return 0;
    }
    if (vl_has_pending_output(c)) {
        lease->state = IDLE;
        lease->idle_since_us = vl_clock_us();
        return 0;
    }
    wait_for_client(lease);
    if (vl_has_pending_input(c) || (lease->frames && lease->frames->streams)) {
        c->cs->state = CONN_STATE_READ_REQUEST_LINE;
        return 1;
    }
    c->cs->state = STATE_WAITIO;
    c->cs->sense = CONN_SENSE_WANT_READ;
    return 0;
}

/* After the handshake the client has not sent its first request. */
static int has_sent_nothing(vl_lease_t *lease)
{
    conn_rec *c = lease->c;
    apr_bucket_brigade *bb;
    apr_status_t rv;
    int nothing;

    if (lease->http2 || !lease->turn->holds)
        return 0;
    bb = apr_brigade_create(c->pool, c->bucket_alloc);
    rv = ap_get_brigade(c->input_filters, bb, AP_MODE_SPECULATIVE,
                        APR_NONBLOCK_READ, 1);
    nothing = APR_STATUS_IS_EAGAIN(rv)
              || (rv == APR_SUCCESS && APR_BRIGADE_EMPTY(bb));
    apr_brigade_destroy(bb);
    return nothing;
}

/* A slot is for work. The connection gets the next one when its request comes. */
static void give_slot_back(vl_lease_t *lease)
{
    vl_turn_t turn = *lease->turn;

    memset(lease->turn, 0, sizeof(*lease->turn));
    if (turn.holds)
        vl_park_end(&turn.ticket, NULL);
    if (turn.seated)
        vl_seat_leave(leases.shm, turn.ticket.account);
    lease->had_turn = 1;
    lease->waited_us = turn.waited_us;
    __atomic_store_n(&lease->credit_us, 0, __ATOMIC_RELAXED);
    lease->state = IDLE;
}

int vl_lease_process(vl_lease_t *lease)
{
    conn_rec *c = lease->c;
    next_e next;
    int rc, again;

    if (lease->nested)
        return DECLINED;
    if (lease->fresh) {
        lease->fresh = 0;
        if (has_sent_nothing(lease)) {
            give_slot_back(lease);
            c->cs->state = STATE_WAITIO;
            c->cs->sense = CONN_SENSE_WANT_READ;
            return OK;
        }
    }
    do {
        vl_park_lock();
        next = next_locked(lease);
        vl_park_unlock();
        if (next == CLOSE) {
            c->cs->state = CONN_STATE_LINGER;
            return OK;
        }
        if (next == PARK) {
            c->cs->state = STATE_WAITIO;
            c->cs->sense = CONN_SENSE_WANT_READ;
            return OK;
        }
        begin_run(lease);
        lease->nested = 1;
        rc = ap_run_process_connection(c);
        lease->nested = 0;
        end_run(lease);
        again = after_run(lease, &rc);
    } while (again);
    return rc;
}

void vl_lease_belongs(vl_lease_t *lease, apr_uint32_t account,
                      apr_int64_t timeout_us, apr_int64_t idle_us)
{
    vl_park_lock();
    lease->account = account;
    lease->queue_timeout_us = timeout_us;
    lease->keepalive_us = idle_us;
    lease->known = 1;
    vl_park_unlock();
}

/* --- the connection ------------------------------------------------------- */

/* The MPM closes the connection, or its pool is destroyed. */
static void leave(vl_lease_t *lease)
{
    vl_turn_t turn = { 0 };

    vl_park_lock();
    unpark_locked(lease);
    vl_wheel_clear(&lease->timer);
    if (lease->state == QUEUED)
        unqueue_locked(lease);
    if (lease->state == GRANTED)
        turn = lease->mine;
    lease->state = EXPIRED;
    vl_park_unlock();
    if (turn.holds)
        vl_park_end(&turn.ticket, NULL);
}

static apr_status_t cleanup(void *data)
{
    vl_lease_t *lease = data;

    if (leases.shm) {
        leave(lease);
        end_run(lease);
    }
    if (lease->poll_fd >= 0)
        close(lease->poll_fd);
    if (lease->wake_fd >= 0)
        close(lease->wake_fd);
    lease->poll_fd = lease->wake_fd = -1;
    return APR_SUCCESS;
}

void vl_lease_leave(vl_lease_t *lease)
{
    if (!lease->nested && leases.shm)
        leave(lease);
}

void vl_lease_switch(vl_lease_t *lease)
{
    conn_rec *c = lease->c;

    if (lease->http2)
        return;
    lease->http2 = 1;
    lease->holds = lease->turn->holds;
    lease->ticket = lease->turn->ticket;
    lease->turn->holds = 0;
    lease->cpu_us = vl_meter_thread_us();
    lease->frames = apr_palloc(c->pool, sizeof(*lease->frames));
    vl_frames_init(lease->frames);
    lease->held = apr_brigade_create(c->pool, c->bucket_alloc);
    lease->input = apr_brigade_create(c->pool, c->bucket_alloc);
    ap_add_input_filter_handle(frame_filter, lease, NULL, c);
}

vl_lease_t *vl_lease_make(conn_rec *c, vl_turn_t *turn)
{
    vl_lease_t *lease = apr_pcalloc(c->pool, sizeof(*lease));
    const char *protocol = ap_get_protocol(c);

    lease->c = c;
    apr_os_sock_get(&lease->fd, ap_get_conn_socket(c));
    lease->wake_fd = lease->poll_fd = -1;
    lease->turn = turn;
    lease->fresh = 1;
    lease->state = RUNNING;
    if (turn->holds || turn->given_back)
        lease->account = turn->ticket.account;
    if (turn->holds)
        renew(lease);
    else if (turn->given_back) {
        lease->state = IDLE;
        lease->had_turn = 1;
        lease->waited_us = turn->waited_us;
    }
    if (protocol && !strcmp(protocol, "h2"))
        vl_lease_switch(lease);
    apr_pool_cleanup_register(c->pool, lease, cleanup, apr_pool_cleanup_null);
    return lease;
}

static void expire_locked(vl_timer_t *timer)
{
    vl_lease_t *lease = (vl_lease_t *)(void *)
        ((char *)timer - offsetof(vl_lease_t, timer));

    if (lease->state != IDLE)
        return;
    /* The MPM polls the socket, finds its end and calls our hook. */
    lease->state = EXPIRED;
    shutdown(lease->fd, SHUT_RD);
}

void vl_lease_tick(apr_int64_t now_us)
{
    vl_park_lock();
    /* The acceptor's tick does that otherwise. */
    if (leases.leaving)
        vl_park_expire_locked(now_us, EXPIRE_MOST);
    if (leases.wheel)
        vl_wheel_turn(leases.wheel, now_us, expire_locked);
    vl_park_unlock();
}

void vl_lease_forget(void)
{
    leases.shm = NULL;
}

int vl_lease_queued(void)
{
    int any;

    vl_park_lock();
    any = vl_park_has_locked(done_locked);
    vl_park_unlock();
    return any;
}

void vl_lease_child_end(void)
{
    vl_waiter_t *waiter;

    vl_park_lock();
    while ((waiter = vl_park_evict_locked(done_locked, 0)))
        done_locked(waiter, NULL, VL_REASON_NONE);
    vl_park_unlock();
}

void vl_lease_child_leave(void)
{
    vl_park_lock();
    leases.leaving = 1;
    if (leases.wheel)
        vl_wheel_turn(leases.wheel, APR_INT64_MAX / 2, expire_locked);
    vl_park_unlock();
}

int vl_lease_is_possible(void)
{
    return leases.possible;
}

void vl_lease_child_init(apr_pool_t *pchild, vl_shm_t *shm)
{
    int can = 0;

    leases.shm = shm;
    leases.leaving = 0;
    leases.wheel = vl_wheel_create(pchild, vl_clock_us());
#ifdef AP_MPMQ_CAN_WAITIO
    if (ap_mpm_query(AP_MPMQ_CAN_WAITIO, &can) != APR_SUCCESS)
        can = 0;
#endif
    leases.possible = can;
}

void vl_lease_register(void)
{
    frame_filter = ap_register_input_filter("VHOSTLIMIT_FRAMES", filter_frames,
                                            NULL, AP_FTYPE_CONNECTION);
}
