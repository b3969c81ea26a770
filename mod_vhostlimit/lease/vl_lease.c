/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of a connection with leases, and the event that leads to the next one.
 *
 *   RUNNING  --no more input, lease or not-->  IDLE      (waits for its client)
 *   IDLE     --input, lease left or renewed--> RUNNING
 *   IDLE     --input, others are queued-->     PARKED    (and queued)
 *   IDLE     --KeepAliveTimeout-->             EXPIRED
 *   RUNNING  --held streams, others queued-->  RUNNING   (and queued; HTTP/2)
 *   RUNNING  --no more to do while queued-->   PARKED
 *   PARKED   --client has gone-->              RUNNING   (and refused: for the log)
 *   PARKED   --the same, HTTP/2-->             EXPIRED
 *   PARKED   --a worker takes it-->            RUNNING
 *   EXPIRED  --a worker takes it-->            (closed)
 *
 * The queue answers a queued connection with a lease or a refusal (`answer`) and
 * wakes it: the MPM if it is parked, mod_http2 if it runs.
 */
#include "lease/vl_lease.h"

#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ap_mpm.h>
#include <apr_ring.h>
#include <apr_portable.h>
#include <http_connection.h>
#include <http_core.h>
#include <http_protocol.h>
#include <mpm_common.h>
#include <util_filter.h>

#include "base/vl_client.h"
#include "base/vl_clock.h"
#include "lease/vl_frames.h"
#include "lease/vl_held.h"
#include "cost/vl_meter.h"
#include "base/vl_private.h"
#include "core/vl_thread.h"
#include "base/vl_wheel.h"

/* The CPU time that one lease may use. Longer leases cost fewer grants, shorter
 * ones give shorter waits: docs/design/007-leases.md has the measurements. */
#define QUANTUM_US 2000
#define QUANTUM_MIN_US 400
/* Within this time each queued connection of a site is to have had a lease. */
#define ROTATION_US 50000
/* A lease outlives a client's round trip of that length. */
#define GRACE_US 20000
/* Where connections are not parked: how long one may be idle when threads are
 * short. */
#define IDLE_US 100000
/* For the answer of a client whose input has ended, milliseconds. */
#define ASK_MS 10
/* The bytes of an alert over TLS are fewer. */
#define ALERT_MAX 64
/* Refusals in one tick of a child that stops. */
#define EXPIRE_MOST 16
/* Memory of the held frames of one connection, bytes: of 100 streams that have used up
 * their windows (H2MaxSessionStreams, H2WindowSize), and of their heads. A client that
 * sends more is read no further until the connection has a lease. */
#define HELD_MAX (100 * 65536 + 256 * 1024)

/* httpd 2.4.63 and newer have a state for connections that wait for the client.
 * Before that it is CONN_STATE_WRITE_COMPLETION, with CONN_SENSE_WANT_READ, and
 * with clogging_input_filters so that our hook is called afterwards. */
#ifdef AP_MPMQ_CAN_WAITIO
#define STATE_WAITIO CONN_STATE_ASYNC_WAITIO
#else
#define STATE_WAITIO CONN_STATE_WRITE_COMPLETION
#endif

typedef enum { RUNNING, IDLE, PARKED, EXPIRED } state_e;
typedef enum { NO_ANSWER, GRANTED, REFUSED } answer_e;
/* Whose the streams of an HTTP/2 connection in cleartext are, the first says. */
typedef enum { NOT_SENT, SENT, READ, TOLD } first_stream_e;

struct vl_lease_t {
    vl_waiter_t waiter;             /* first: a waiter is its lease */
    conn_rec *c;
    int fd;                         /* the client's socket */
    vl_client_t client;
    state_e state;
    int queued;
    answer_e answer;                /* of the queue, not used yet */
    int nested;                     /* the other hooks run, called by ours */
    int fresh;                      /* it has not been processed yet */
    int classified;                 /* account is the acceptor's guess ... */
    int known;                      /* ... or that of a request */
    int foreign;                    /* it speaks something else, by itself */
    apr_uint32_t account;
    apr_int64_t queue_timeout_us;   /* 0: the account does not queue */
    apr_int64_t keepalive_us;
    apr_int64_t credit_us;          /* left of the quantum; atomic */
    apr_int64_t idle_since_us;
    vl_timer_t timer;               /* KeepAliveTimeout */
    vl_grant_t *grant;                /* for the next request (HTTP/1) ... */
    vl_grant_t mine;                 /* ... what the queue gave */
    vl_reason_e refused;            /* of the streams of this run */
    int had_grant;                   /* its first slot was given back during the
                                     * handshake: it is first in the queue ... */
    apr_int64_t waited_us;          /* ... and has waited before */
    /* HTTP/2 */
    int http2;
    apr_uint32_t estimate_us;       /* reserved for each stream */
    int blocked;                    /* streams wait for the client */
    int occupies;                   /* its thread is counted (vl_thread.h) ... */
    apr_uint32_t occupied_for;      /* ... as one of this account */
    apr_array_header_t *tickets;    /* held for streams that begin */
    int may_begin;                  /* one more stream, with the lease */
    int has_worker;                 /* woken because one is free */
    int is_drained;                 /* the last read found nothing */
    int meets_http2;                /* its session has not begun */
    first_stream_e first;
    apr_int64_t cpu_us;             /* the thread's clock when last charged */
    vl_frames_t *frames;            /* NULL: it does not speak HTTP/2 */
    vl_held_t held;
    apr_bucket_brigade *input;
    /* Parked: the MPM polls poll_fd in place of the socket. While an HTTP/2
     * connection runs, mod_http2 does. */
    int wake_fd, poll_fd;           /* -1: not made */
    apr_uint32_t polled;            /* events of the socket that make poll_fd
                                     * readable */
    int swapped;                    /* poll_fd is in the socket */
    APR_RING_ENTRY(vl_lease_t) link;    /* with others that ... */
    struct leases_t *in;            /* ... are idle, or want a worker, or close */
};

APR_RING_HEAD(leases_t, vl_lease_t);

static ap_filter_rec_t *frame_filter;
static struct {
    vl_shm_t *shm;
    vl_wheel_t *wheel;
    struct leases_t *idle, *wanting, *closing;      /* oldest first */
    apr_uint32_t workers;           /* of mod_http2, in this child */
    apr_uint32_t waiting, *waiting_for;     /* of these, with a stream that waits;
                                             * by account */
    apr_uint32_t descriptors;
    int parks;
    int threads;                    /* of the MPM, in this child */
    int processes;                  /* of the MPM, at most */
    int has_waitio;                 /* the MPM has STATE_WAITIO for that */
    int leaving;
    int ended;                      /* nobody is granted anything any more */
} leases;

/* --- idle and closing connections ------------------------------------------ */

static void leave_ring_locked(vl_lease_t *lease)
{
    if (lease->in)
        APR_RING_REMOVE(lease, link);
    lease->in = NULL;
}

static void enter_ring_locked(vl_lease_t *lease, struct leases_t *ring)
{
    leave_ring_locked(lease);
    APR_RING_INSERT_TAIL(ring, lease, vl_lease_t, link);
    lease->in = ring;
}

apr_uint32_t vl_lease_descriptors(void)
{
    return __atomic_load_n(&leases.descriptors, __ATOMIC_RELAXED);
}

/* --- the descriptor that the MPM polls ------------------------------------ */

static void put_descriptor(vl_lease_t *lease, int fd)
{
    apr_socket_t *socket = ap_get_conn_socket(lease->c);
    apr_os_sock_t os = fd;

    if (socket)
        apr_os_sock_put(&socket, &os, lease->c->pool);
}

/* A descriptor that is readable when the connection is woken and at some events
 * of its client. */
static int make_poll_fd(vl_lease_t *lease)
{
    struct epoll_event wake = { .events = EPOLLIN };
    struct epoll_event client = { .events = EPOLLRDHUP };

    if (lease->poll_fd >= 0)
        return 1;
    lease->polled = client.events;
    lease->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    lease->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (lease->wake_fd >= 0 && lease->poll_fd >= 0
        && !epoll_ctl(lease->poll_fd, EPOLL_CTL_ADD, lease->wake_fd, &wake)
        && !epoll_ctl(lease->poll_fd, EPOLL_CTL_ADD, lease->fd, &client)) {
        __atomic_add_fetch(&leases.descriptors, 2, __ATOMIC_RELAXED);
        return 1;
    }
    if (lease->wake_fd >= 0)
        close(lease->wake_fd);
    if (lease->poll_fd >= 0)
        close(lease->poll_fd);
    lease->wake_fd = lease->poll_fd = -1;
    return 0;
}

static void poll_client(vl_lease_t *lease, apr_uint32_t events)
{
    struct epoll_event client = { .events = events };

    if (lease->poll_fd < 0 || lease->polled == events)
        return;
    lease->polled = events;
    epoll_ctl(lease->poll_fd, EPOLL_CTL_MOD, lease->fd, &client);
}

static void swap(vl_lease_t *lease)
{
    put_descriptor(lease, lease->poll_fd);
    lease->swapped = 1;
}

static void unswap(vl_lease_t *lease)
{
    if (!lease->swapped)
        return;
    lease->swapped = 0;
    put_descriptor(lease, lease->fd);
}

/* So much is held that nothing more is read, unless a frame has passed in part: its
 * rest has to follow. */
static int is_full(const vl_lease_t *lease)
{
    return lease->frames && lease->held.bytes > HELD_MAX
           && vl_frames_is_between(lease->frames);
}

/* A client that has closed its sending side may wait for an answer: the MPM is
 * not woken for that again. Streams that wait for their client need its input. */
static void park_locked(vl_lease_t *lease, int has_ended)
{
    apr_uint32_t events = has_ended ? 0 : EPOLLRDHUP;

    if (lease->blocked && !is_full(lease))
        events |= EPOLLIN;
    if (vl_has_pending_output(lease->c))
        events |= EPOLLOUT;
    poll_client(lease, events);
    swap(lease);
}

/* The connection whose hooks the calling thread runs. */
static __thread vl_lease_t *running;

/* The child stops. The MPM, which mod_http2 asks, says so before the acceptor knows. */
static int is_leaving(const vl_lease_t *lease)
{
    vl_lease_t *was_running = running;
    apr_status_t rv;
    int state;

    if (leases.leaving || !lease->frames)
        return leases.leaving;
    running = NULL;
    rv = ap_mpm_query(AP_MPMQ_MPM_STATE, &state);
    running = was_running;
    return rv == APR_SUCCESS && state == AP_MPMQ_STOPPING;
}

/* mpm_query hook. mod_http2 takes no new stream when it has heard that the child stops,
 * and that is what streams are to it that are held, or have not been read while their
 * connection was parked. It hears it when all that had come has passed. */
static int hide_state(int query, int *result, apr_status_t *rv)
{
    if (query != AP_MPMQ_MPM_STATE || !running || !running->frames
        || (running->is_drained && !running->frames->streams))
        return DECLINED;
    *result = AP_MPMQ_RUNNING;
    *rv = APR_SUCCESS;
    return OK;
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
    charge(lease, (apr_int64_t)us - (lease->frames ? lease->estimate_us : 0));
    if (!leases.parks)
        __atomic_store_n(&lease->idle_since_us, vl_clock_us(),
                         __ATOMIC_RELAXED);
}

static void count_queued_locked(vl_lease_t *lease, int by)
{
    if (lease->state == RUNNING)
        vl_park_count_with_thread_locked(lease->waiter.account, by);
    else
        vl_park_count_parked_locked(lease->waiter.account, by);
}

/* vl_waiter_done_fn */
static void done_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    vl_lease_t *lease = (vl_lease_t *)waiter;

    count_queued_locked(lease, -1);
    lease->queued = 0;
    memset(&lease->mine, 0, sizeof(lease->mine));
    lease->mine.ticket.account = waiter->account;
    lease->mine.waited_us = vl_clock_us() - waiter->since_us;
    if (ticket) {
        lease->mine.holds = 1;
        lease->mine.ticket = *ticket;
    }
    lease->mine.refused = refused;
    lease->answer = ticket || refused == VL_REASON_NONE ? GRANTED : REFUSED;
    if (lease->wake_fd >= 0)
        eventfd_write(lease->wake_fd, 1);
}

static void unqueue_locked(vl_lease_t *lease)
{
    if (!lease->queued)
        return;
    lease->queued = 0;
    count_queued_locked(lease, -1);
    vl_park_remove_locked(&lease->waiter);
}

/* From a thread to none, or back. */
static void change_state_locked(vl_lease_t *lease, state_e state)
{
    if (lease->queued)
        count_queued_locked(lease, -1);
    lease->state = state;
    if (lease->queued)
        count_queued_locked(lease, 1);
}

static int is_limited(const vl_lease_t *lease)
{
    return lease->known && !lease->foreign && lease->queue_timeout_us
           && vl_slot_queue(leases.shm, lease->account);
}

static void add_ticket_locked(vl_lease_t *lease, const vl_ticket_t *ticket)
{
    APR_ARRAY_PUSH(lease->tickets, vl_ticket_t) = *ticket;
}

/* The slot is for the connection's next request or stream. */
static void use_grant_locked(vl_lease_t *lease, const vl_grant_t *grant)
{
    if (lease->frames) {
        lease->may_begin = 1;
        lease->refused = grant->refused;
        if (grant->holds)
            add_ticket_locked(lease, &grant->ticket);
    }
    else {
        *lease->grant = *grant;
    }
}

static void use_answer_locked(vl_lease_t *lease)
{
    eventfd_t value;

    if (lease->answer == NO_ANSWER)
        return;
    eventfd_read(lease->wake_fd, &value);
    if (lease->answer == GRANTED)
        renew(lease);
    else
        __atomic_store_n(&lease->credit_us, 0, __ATOMIC_RELAXED);
    lease->answer = NO_ANSWER;
    use_grant_locked(lease, &lease->mine);
}

/* An HTTP/2 connection has a thread of the MPM as long as streams run. Too many
 * of one site's leave none for others. */
static int may_have_thread(vl_lease_t *lease)
{
    if (!lease->occupies
        && vl_thread_try_occupy(leases.shm, lease->account) != APR_SUCCESS)
        return 0;
    lease->occupies = 1;
    lease->occupied_for = lease->account;
    return 1;
}

/* The MPM closes connections that wait for longer than Timeout. They are refused
 * before that, so that the client gets an answer. */
static apr_int64_t longest_wait_us(const vl_lease_t *lease)
{
    apr_int64_t us = lease->c->base_server->timeout * 9 / 10;

    return us < lease->queue_timeout_us ? us : lease->queue_timeout_us;
}

/* The client has closed an idle connection: its next input is the end, or over TLS an
 * alert before it. That is no request, and needs no lease. */
static int input_is_end(const vl_lease_t *lease)
{
    apr_uint32_t events = vl_client_events(lease->fd);
    int length = 0;

    return (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
           && (!lease->frames || !lease->frames->streams)
           && !ioctl(lease->fd, FIONREAD, &length)
           && length <= (lease->client.tls ? ALERT_MAX : 0);
}

/* A slot that is free, or a place in the queue. Returns 1 if the connection has its
 * turn, or cannot be queued. */
static int ask_locked(vl_lease_t *lease, apr_int64_t since_us, int first)
{
    vl_grant_t grant = { 0 };

    renew(lease);
    if (vl_slot_try(leases.shm, lease->account, &grant.ticket) == APR_SUCCESS) {
        grant.holds = 1;
        use_grant_locked(lease, &grant);
        return 1;
    }
    if (leases.ended || input_is_end(lease) || !make_poll_fd(lease)) {
        use_grant_locked(lease, &grant);
        return 1;
    }
    lease->waiter.account = lease->account;
    lease->waiter.since_us = since_us;
    lease->waiter.deadline_us = since_us + longest_wait_us(lease);
    lease->waiter.done = done_locked;
    lease->waiter.in_mpm = 1;
    lease->waiter.may_defer = 1;
    lease->queued = 1;
    count_queued_locked(lease, 1);
    if (first)
        vl_park_put_back_locked(&lease->waiter);
    else
        vl_park_add_locked(&lease->waiter);
    if (lease->queued)
        return 0;
    use_answer_locked(lease);
    return 1;
}

/* A lease that is not used up goes on. */
static int goes_on_locked(vl_lease_t *lease, apr_int64_t now_us)
{
    vl_grant_t grant = { 0 };

    if (credit(lease) <= 0 || now_us - lease->idle_since_us >= GRACE_US)
        return 0;
    if (lease->frames && !lease->frames->streams)
        return may_have_thread(lease);
    if ((lease->frames && !may_have_thread(lease))
        || vl_slot_resume(leases.shm, lease->account, 0, &grant.ticket)
           != APR_SUCCESS)
        return 0;
    grant.holds = 1;
    use_grant_locked(lease, &grant);
    return 1;
}

/* Input has come. Returns 1 if the connection runs now. */
static int run_or_queue_locked(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_clock_us();
    apr_int64_t since_us = now_us - lease->waited_us;
    int first = lease->had_grant;

    lease->had_grant = 0;
    lease->waited_us = 0;
    return !is_limited(lease) || lease->blocked || goes_on_locked(lease, now_us)
           || ask_locked(lease, since_us, first);
}

typedef enum { RUN, PARK, CLOSE } next_e;

/* It is parked and queued. */
static next_e stay_parked_locked(vl_lease_t *lease)
{
    apr_uint32_t events = vl_client_events(lease->fd);

    if (vl_client_is_gone(&lease->client, lease->fd, events)) {
        unqueue_locked(lease);
        vl_slot_gone(leases.shm, lease->account);
        if (!lease->frames) {
            lease->grant->ticket.account = lease->account;
            lease->grant->refused = VL_REASON_GONE;
            return RUN;             /* for the access log */
        }
        lease->state = EXPIRED;
        return CLOSE;
    }
    if (lease->polled & EPOLLIN)
        return RUN;
    park_locked(lease, events != 0);
    return PARK;
}

/* A worker has the connection. */
static next_e next_locked(vl_lease_t *lease)
{
    next_e next = RUN;

    unswap(lease);
    vl_wheel_clear(&lease->timer);
    leave_ring_locked(lease);
    lease->refused = VL_REASON_NONE;
    if (lease->state == EXPIRED)
        return CLOSE;
    if (lease->queued)
        next = stay_parked_locked(lease);
    else if (lease->answer != NO_ANSWER)
        use_answer_locked(lease);
    else if (lease->state == IDLE && !run_or_queue_locked(lease)) {
        park_locked(lease, 0);
        next = PARK;
    }
    if (next != CLOSE)
        change_state_locked(lease, next == RUN ? RUNNING : PARKED);
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

/* mod_http2 has so many workers for all connections of a child. A stream that waits
 * for its client or its back end keeps its worker, so no account gets all of them: its
 * next streams are held. */
static int is_worker_left(apr_uint32_t account)
{
    return vl_admit_more(leases.waiting_for[account],
                         leases.workers > leases.waiting
                         ? leases.workers - leases.waiting : 0);
}

static void wake_wanting_locked(void)
{
    vl_lease_t *lease;

    APR_RING_FOREACH(lease, leases.wanting, vl_lease_t, link) {
        if (is_worker_left(lease->account)) {
            leave_ring_locked(lease);
            lease->has_worker = 1;
            eventfd_write(lease->wake_fd, 1);
            return;
        }
    }
}

void vl_lease_workers_wait(apr_uint32_t account, int by)
{
    if (!leases.parks || !leases.shm)
        return;
    vl_park_lock();
    leases.waiting += (apr_uint32_t)by;
    leases.waiting_for[account] += (apr_uint32_t)by;
    if (by < 0)
        wake_wanting_locked();
    vl_park_unlock();
}

/* It is woken when a worker is free. What it has been granted is others'. */
static void want_worker_locked(vl_lease_t *lease)
{
    vl_ticket_t *ticket;

    lease->may_begin = 0;
    while ((ticket = apr_array_pop(lease->tickets)))
        vl_slot_end(leases.shm, ticket, NULL);
    if (vl_slot_granted(leases.shm))
        vl_park_take_locked();
    enter_ring_locked(lease, leases.wanting);
}

/* A stream that begins is charged what a request of its account costs on
 * average, so that a lease lets in no more streams than it can pay for. The rest
 * is charged when the stream ends. */
static void reserve(vl_lease_t *lease)
{
    if (lease->known)
        charge(lease, lease->estimate_us);
}

static int begins_with_credit_locked(vl_lease_t *lease)
{
    vl_ticket_t ticket;

    if (credit(lease) <= 0) {
        if (vl_slot_contended(leases.shm))
            return 0;
        renew(lease);
    }
    if (vl_slot_resume(leases.shm, lease->account, 1, &ticket) != APR_SUCCESS)
        return 0;
    add_ticket_locked(lease, &ticket);
    return 1;
}

static int may_begin_locked(vl_lease_t *lease)
{
    if (!is_worker_left(lease->account) && make_poll_fd(lease)) {
        want_worker_locked(lease);
        return 0;
    }
    if (!lease->may_begin && !begins_with_credit_locked(lease))
        return 0;
    lease->may_begin = 0;
    return 1;
}

/* vl_frames_may_begin_fn. Each stream takes a slot, above the number of slots if
 * need be, as long as the lease lasts and its account is within its own limits. */
static int may_begin(void *context)
{
    vl_lease_t *lease = context;
    int may;

    if (!lease->known && lease->first == SENT)
        return 0;
    if (lease->first == NOT_SENT)
        lease->first = SENT;
    if (!is_limited(lease) || lease->refused)
        return 1;
    vl_park_lock();
    may = may_begin_locked(lease);
    vl_park_unlock();
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

/* Held streams that may begin. */
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
    /* Frames that belong to none of them. */
    if (some && !frames->streams)
        pass_pieces(lease, 0, bb);
    return some;
}

/* One bucket's bytes. Returns whether some of them pass. */
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

/* Nothing more can be read now. Returns 1 if held streams may begin; otherwise the
 * connection is queued, and mod_http2, or the MPM, is woken with the answer. */
static int ask_for_held(vl_lease_t *lease)
{
    int may;

    vl_park_lock();
    may = !lease->queued && lease->in != leases.wanting
          && (lease->answer != NO_ANSWER
              || ask_locked(lease, vl_clock_us(), 0));
    use_answer_locked(lease);
    vl_park_unlock();
    return may;
}

/* Connection input filter above mod_ssl. Reads until something passes or the
 * socket has no more: poll() does not see bytes that mod_ssl has decrypted. */
static apr_status_t filter_frames(ap_filter_t *f, apr_bucket_brigade *bb,
                                  ap_input_mode_t mode, apr_read_type_e block,
                                  apr_off_t readbytes)
{
    vl_lease_t *lease = f->ctx;
    apr_status_t rv = APR_SUCCESS;
    eventfd_t value;
    int passes = 0, shown;

    if (mode != AP_MODE_READBYTES) {
        /* Before the session begins, mod_ssl asks for its handshake once more, and
         * mod_http2 looks for the preface. */
        shown = lease->swapped;
        if (mode != AP_MODE_INIT)
            vl_lease_io(lease);
        rv = ap_get_brigade(f->next, bb, mode, block, readbytes);
        if (shown && !lease->swapped)
            swap(lease);
        return rv;
    }
    vl_lease_io(lease);
    charge_connection(lease);
    vl_park_lock();
    if (lease->first == READ || lease->has_worker) {
        lease->first = lease->first == READ ? TOLD : lease->first;
        lease->has_worker = 0;
        eventfd_read(lease->wake_fd, &value);
    }
    use_answer_locked(lease);
    vl_park_unlock();
    lease->is_drained = 0;
    if (lease->frames->streams && pass_held(lease, bb))
        return APR_SUCCESS;
    while (!passes && rv == APR_SUCCESS) {
        if (is_full(lease) && lease->frames->uploads) {
            release_all(lease, bb);
            return APR_SUCCESS;
        }
        if (is_full(lease) && block == APR_NONBLOCK_READ)
            rv = APR_EAGAIN;
        else
            rv = ap_get_brigade(f->next, lease->input, mode, block, readbytes);
        if (rv == APR_SUCCESS && APR_BRIGADE_EMPTY(lease->input))
            break;
        if (rv == APR_SUCCESS)
            rv = split_brigade(lease, bb, block, &passes);
    }
    if (!passes && lease->frames->streams && is_limited(lease)
        && (rv == APR_SUCCESS || APR_STATUS_IS_EAGAIN(rv))
        && ask_for_held(lease) && pass_held(lease, bb))
        return APR_SUCCESS;
    lease->is_drained = !passes;
    APR_BRIGADE_CONCAT(bb, lease->input);
    return rv;
}

vl_reason_e vl_lease_refused(const vl_lease_t *lease, apr_int64_t *ret_waited_us)
{
    *ret_waited_us = lease->mine.waited_us;
    return lease->refused;
}

int vl_lease_take(vl_lease_t *lease, vl_ticket_t *ret_ticket)
{
    vl_ticket_t *ticket = NULL;

    vl_park_lock();
    if (lease->tickets)
        ticket = apr_array_pop(lease->tickets);
    if (ticket)
        *ret_ticket = *ticket;
    vl_park_unlock();
    return ticket != NULL;
}

/* --- running -------------------------------------------------------------- */

static void occupy(vl_lease_t *lease)
{
    if (!(lease->known || lease->classified) || lease->occupies)
        return;
    lease->occupies = 1;
    lease->occupied_for = lease->account;
    vl_thread_occupy(leases.shm, lease->account);
}

static void free_thread(vl_lease_t *lease)
{
    if (lease->occupies)
        vl_thread_free(leases.shm, lease->occupied_for);
    lease->occupies = 0;
}

/* While a connection runs, mod_http2 polls what the socket has for a descriptor
 * when the session begins (h2_mplx_c1_create): poll_fd, so that the queue can
 * wake mod_http2. Our filters put the socket's own back before it is used. */
static void show_poll_fd(vl_lease_t *lease)
{
    if (!lease->meets_http2)
        return;
    lease->meets_http2 = 0;
    if (!make_poll_fd(lease))
        return;
    poll_client(lease, EPOLLIN | EPOLLRDHUP);
    swap(lease);
}

void vl_lease_io(vl_lease_t *lease)
{
    if (lease->nested)
        unswap(lease);
}

static void begin_run(vl_lease_t *lease)
{
    if (!lease->http2)
        return;
    lease->cpu_us = vl_meter_thread_us();
    lease->is_drained = 0;
    poll_client(lease, EPOLLIN | EPOLLRDHUP);
    show_poll_fd(lease);
    occupy(lease);
}

static void end_run(vl_lease_t *lease)
{
    vl_ticket_t ticket;

    if (!leases.parks)
        free_thread(lease);
    if (!lease->frames) {
        /* No request has come after all. */
        if (leases.parks && lease->grant->holds)
            vl_park_end(&lease->grant->ticket, NULL);
        if (leases.parks)
            lease->grant->holds = 0;
        return;
    }
    charge_connection(lease);
    free_thread(lease);
    lease->may_begin = 0;
    while (vl_lease_take(lease, &ticket))
        vl_park_end(&ticket, NULL);
}

static conn_state_e wait_state(void)
{
    return leases.has_waitio ? STATE_WAITIO : CONN_STATE_WRITE_COMPLETION;
}

/* The MPM waits for input of the client, or until the queue wakes the connection. */
static void wait_in_mpm(conn_rec *c)
{
    c->cs->state = wait_state();
    c->cs->sense = CONN_SENSE_WANT_READ;
    c->clogging_input_filters = !leases.has_waitio;
}

/* mod_http2 has told the MPM to wait. */
static int waits_in_mpm(const conn_rec *c)
{
    return c->cs->state == wait_state()
           && (leases.has_waitio || c->cs->sense == CONN_SENSE_WANT_READ);
}

static void wait_for_client(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_clock_us();

    vl_park_lock();
    lease->state = IDLE;
    lease->idle_since_us = now_us;
    enter_ring_locked(lease, leases.idle);
    if (!lease->blocked)
        vl_wheel_set(leases.wheel, &lease->timer,
                     now_us + __atomic_load_n(&lease->keepalive_us,
                                              __ATOMIC_RELAXED));
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

/* The MPM goes on with it; should it come back, it has been idle. */
static int leave_to_mpm(vl_lease_t *lease)
{
    vl_park_lock();
    unqueue_locked(lease);
    lease->state = IDLE;
    lease->idle_since_us = vl_clock_us();
    vl_park_unlock();
    return 0;
}

/* Streams are held. Returns 1 if the connection runs again at once. */
static int wait_with_held(vl_lease_t *lease)
{
    vl_park_lock();
    if (lease->queued || lease->in == leases.wanting) {
        park_locked(lease, 0);
        change_state_locked(lease, PARKED);
    }
    else if (lease->answer == NO_ANSWER) {
        lease->state = IDLE;
        lease->idle_since_us = vl_clock_us();
    }
    vl_park_unlock();
    return lease->state != PARKED;
}

/* After the other hooks. Returns 1 if the connection has more input already. */
static int after_run(vl_lease_t *lease, int rc)
{
    conn_rec *c = lease->c;
    int again;

    if (!lease->http2 && strcmp(ap_get_protocol(c), AP_PROTOCOL_HTTP1))
        lease->foreign = 1;
    lease->blocked = lease->frames && rc == OK && waits_in_mpm(c);
    if (!(lease->blocked || is_kept(c, rc)))
        return leave_to_mpm(lease);
    if (!is_limited(lease)
        || (is_leaving(lease) && !(lease->frames && lease->frames->streams))) {
        leave_to_mpm(lease);
        if (!lease->frames || !lease->frames->streams)
            return 0;
        /* The first stream came to nothing: the next says whose they are. */
        lease->first = NOT_SENT;
        c->cs->state = CONN_STATE_READ_REQUEST_LINE;
        return 1;
    }
    if (!lease->blocked && vl_flush(c) != APR_SUCCESS) {
        c->cs->state = CONN_STATE_LINGER;
        return 0;
    }
    if (lease->frames && lease->frames->streams) {
        /* Without STATE_WAITIO the MPM writes pending output before it waits. The
         * socket has poll_fd for a descriptor by then. */
        if (!leases.has_waitio && vl_has_pending_output(c))
            ap_flush_conn(c);
        again = wait_with_held(lease);
    }
    else if (!lease->blocked && vl_has_pending_output(c)) {
        return leave_to_mpm(lease);
    }
    else {
        wait_for_client(lease);
        again = !lease->blocked && vl_has_pending_input(c);
    }
    if (again)
        c->cs->state = CONN_STATE_READ_REQUEST_LINE;
    else
        wait_in_mpm(c);
    return again;
}

/* After the handshake the client has not sent its first request. */
static int has_sent_nothing(vl_lease_t *lease)
{
    conn_rec *c = lease->c;
    apr_bucket_brigade *bb;
    apr_status_t rv;
    int nothing;

    if (lease->http2 || !lease->grant->holds)
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
    vl_grant_t grant = *lease->grant;

    memset(lease->grant, 0, sizeof(*lease->grant));
    if (grant.holds)
        vl_park_end(&grant.ticket, NULL);
    lease->had_grant = 1;
    lease->waited_us = grant.waited_us;
    __atomic_store_n(&lease->credit_us, 0, __ATOMIC_RELAXED);
    lease->state = IDLE;
}

int vl_lease_process(vl_lease_t *lease)
{
    conn_rec *c = lease->c;
    next_e next;
    int rc, again;

    if (lease->nested || !leases.parks)
        return DECLINED;
    if (c->clogging_input_filters) {
        c->clogging_input_filters = 0;
        c->cs->state = CONN_STATE_READ_REQUEST_LINE;
    }
    if (lease->fresh) {
        lease->fresh = 0;
        if (has_sent_nothing(lease)) {
            give_slot_back(lease);
            wait_in_mpm(c);
            return OK;
        }
    }
    if (lease->state == PARKED && vl_has_pending_output(c))
        vl_flush(c);
    do {
        vl_park_lock();
        next = next_locked(lease);
        vl_park_unlock();
        if (next == CLOSE) {
            c->cs->state = CONN_STATE_LINGER;
            return OK;
        }
        if (next == PARK) {
            wait_in_mpm(c);
            return OK;
        }
        begin_run(lease);
        lease->nested = 1;
        running = lease;
        rc = ap_run_process_connection(c);
        running = NULL;
        lease->nested = 0;
        unswap(lease);
        end_run(lease);
        again = after_run(lease, rc);
    } while (again);
    return rc;
}

void vl_lease_request(vl_lease_t *lease, const request_rec *r)
{
    __atomic_store_n(&lease->keepalive_us, r->server->keep_alive_timeout,
                     __ATOMIC_RELAXED);
    if (!lease->http2)
        lease->client.http11 = r->proto_num >= HTTP_VERSION(1, 1);
    if (leases.parks && (!lease->frames || lease->first != SENT))
        return;
    vl_park_lock();
    if (leases.parks) {
        lease->first = READ;
        if (lease->wake_fd >= 0)
            eventfd_write(lease->wake_fd, 1);
    }
    else {
        leave_ring_locked(lease);
        if (!vl_lease_has_thread())
            free_thread(lease);
    }
    vl_park_unlock();
}

void vl_lease_belongs(vl_lease_t *lease, apr_uint32_t account,
                      apr_int64_t timeout_us)
{
    /* Streams of one connection begin on several threads. */
    if (!lease->http2 && lease->known && lease->account == account
        && lease->queue_timeout_us == timeout_us)
        return;
    vl_park_lock();
    lease->account = account;
    lease->queue_timeout_us = timeout_us;
    lease->known = 1;
    if (lease->occupies && lease->occupied_for != account)
        free_thread(lease);
    /* It has its thread while streams run, or until it ends. */
    if (lease->http2 || vl_lease_has_thread())
        occupy(lease);
    vl_park_unlock();
}

/* --- without parking ------------------------------------------------------ */

int vl_lease_resume(vl_lease_t *lease, int stream, vl_ticket_t *ret_ticket)
{
    apr_int64_t since_us = __atomic_load_n(&lease->idle_since_us,
                                           __ATOMIC_RELAXED);

    return credit(lease) > 0 && vl_clock_us() - since_us < GRACE_US
           && vl_slot_resume(leases.shm, lease->account, stream, ret_ticket)
              == APR_SUCCESS;
}

void vl_lease_renew(vl_lease_t *lease)
{
    renew(lease);
}

int vl_lease_ends(const vl_lease_t *lease)
{
    return lease->known && credit(lease) <= (apr_int64_t)lease->estimate_us;
}

/* No other thread sees to it. */
static int idles_with_process(vl_lease_t *lease)
{
    int leaves = 1;

    if (lease->known && !lease->occupies) {
        lease->occupies = 1;
        lease->occupied_for = lease->account;
        leaves = vl_thread_occupy_idle(leases.shm, lease->account,
                                       (apr_uint32_t)leases.processes);
    }
    return leaves && !vl_lease_threads_are_short();
}

int vl_lease_idles(vl_lease_t *lease)
{
    if (!vl_lease_has_thread())
        return idles_with_process(lease);
    vl_park_lock();
    lease->idle_since_us = vl_clock_us();
    enter_ring_locked(lease, leases.idle);
    vl_park_unlock();
    return 1;
}

int vl_lease_is_gone(vl_lease_t *lease)
{
    apr_uint32_t events = vl_client_events(lease->fd);
    struct pollfd pfd = { lease->fd, 0, 0 };

    if (!events)
        return 0;
    if (vl_client_is_gone(&lease->client, lease->fd, events))
        return 1;
    /* It has been asked, and may answer with a reset. */
    return poll(&pfd, 1, ASK_MS) > 0
           && vl_client_is_gone(&lease->client, lease->fd,
                                vl_client_events(lease->fd));
}

int vl_lease_waits(const vl_lease_t *lease)
{
    struct pollfd pfd = { lease->fd, POLLIN, 0 };

    return poll(&pfd, 1, IDLE_US / 1000) > 0;
}

/* --- the connection ------------------------------------------------------- */

/* The MPM closes the connection, or its pool is destroyed. */
static void leave(vl_lease_t *lease)
{
    vl_grant_t grant = { 0 };

    vl_park_lock();
    unswap(lease);
    vl_wheel_clear(&lease->timer);
    unqueue_locked(lease);
    if (lease->answer != NO_ANSWER)
        grant = lease->mine;
    lease->answer = NO_ANSWER;
    lease->state = EXPIRED;
    enter_ring_locked(lease, leases.closing);
    vl_park_unlock();
    if (grant.holds)
        vl_park_end(&grant.ticket, NULL);
}

static apr_status_t cleanup(void *data)
{
    vl_lease_t *lease = data;

    if (leases.shm) {
        leave(lease);
        end_run(lease);
    }
    vl_park_lock();
    leave_ring_locked(lease);
    vl_park_unlock();
    if (lease->frames)
        vl_held_free(&lease->held);
    __atomic_sub_fetch(&leases.descriptors, lease->poll_fd >= 0 ? 3 : 1,
                       __ATOMIC_RELAXED);
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
    if (!leases.parks)
        return;
    /* The end of its input is the end of an HTTP/2 connection, too. */
    lease->client.tls = 1;
    lease->tickets = apr_array_make(c->pool, 4, sizeof(vl_ticket_t));
    if (lease->grant->holds)
        APR_ARRAY_PUSH(lease->tickets, vl_ticket_t) = lease->grant->ticket;
    lease->may_begin = lease->grant->holds;
    lease->grant->holds = 0;
    lease->cpu_us = vl_meter_thread_us();
    lease->frames = apr_palloc(c->pool, sizeof(*lease->frames));
    vl_frames_init(lease->frames);
    vl_held_init(&lease->held);
    lease->input = apr_brigade_create(c->pool, c->bucket_alloc);
    ap_add_input_filter_handle(frame_filter, lease, NULL, c);
    lease->meets_http2 = 1;
    if (lease->nested)
        show_poll_fd(lease);
}

vl_lease_t *vl_lease_make(conn_rec *c, vl_grant_t *grant, int ready)
{
    vl_lease_t *lease = apr_pcalloc(c->pool, sizeof(*lease));
    const char *protocol = ap_get_protocol(c);

    lease->c = c;
    apr_os_sock_get(&lease->fd, ap_get_conn_socket(c));
    lease->wake_fd = lease->poll_fd = -1;
    lease->grant = grant;
    lease->fresh = lease->client.tls = !ready;
    lease->keepalive_us = c->base_server->keep_alive_timeout;
    lease->state = RUNNING;
    lease->classified = grant->holds || grant->given_back || grant->occupies;
    if (lease->classified)
        lease->account = grant->ticket.account;
    if (grant->holds)
        renew(lease);
    else if (grant->given_back) {
        lease->state = IDLE;
        lease->had_grant = 1;
        lease->waited_us = grant->waited_us;
    }
    if (protocol && !strcmp(protocol, "h2"))
        vl_lease_switch(lease);
    __atomic_add_fetch(&leases.descriptors, 1, __ATOMIC_RELAXED);
    apr_pool_cleanup_register(c->pool, lease, cleanup, apr_pool_cleanup_null);
    return lease;
}

static void expire_locked(vl_timer_t *timer)
{
    vl_lease_t *lease = (vl_lease_t *)(void *)
        ((char *)timer - offsetof(vl_lease_t, timer));

    struct pollfd pfd = { lease->fd, POLLIN, 0 };

    if (lease->state != IDLE)
        return;
    /* It is not idle any more, and the MPM is about to notice. */
    if (leases.leaving && poll(&pfd, 1, 0) > 0)
        return;
    /* The MPM polls the socket, finds its end and calls our hook. */
    lease->state = EXPIRED;
    shutdown(lease->fd, SHUT_RD);
}

/* The MPM closes a socket shortly before the connection's pool is destroyed. */
static int has_socket(const vl_lease_t *lease)
{
    int fd = -1;

    apr_os_sock_get(&fd, ap_get_conn_socket(lease->c));
    return fd == lease->fd;
}

int vl_lease_spare_locked(void)
{
    vl_lease_t *lease;

    while (!APR_RING_EMPTY(leases.closing, vl_lease_t, link)) {
        lease = APR_RING_FIRST(leases.closing);
        leave_ring_locked(lease);
        if (!has_socket(lease))
            continue;
        shutdown(lease->fd, SHUT_RDWR);
        return 1;
    }
    if (APR_RING_EMPTY(leases.idle, vl_lease_t, link))
        return 0;
    lease = APR_RING_FIRST(leases.idle);
    leave_ring_locked(lease);
    vl_wheel_clear(&lease->timer);
    expire_locked(&lease->timer);
    return 1;
}

/* Where connections are not parked, those that have been idle for a while give
 * their threads to others that wait for some. */
static void close_idle_locked(apr_int64_t now_us)
{
    vl_lease_t *lease;

    while (vl_lease_threads_are_short()
           && !APR_RING_EMPTY(leases.idle, vl_lease_t, link)
           && now_us - APR_RING_FIRST(leases.idle)->idle_since_us > IDLE_US) {
        lease = APR_RING_FIRST(leases.idle);
        leave_ring_locked(lease);
        shutdown(lease->fd, SHUT_RD);
    }
}

void vl_lease_tick(apr_int64_t now_us)
{
    vl_park_lock();
    if (!leases.parks && leases.shm)
        close_idle_locked(now_us);
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
    leases.ended = 1;
    vl_park_unlock();
}

void vl_lease_child_leave(void)
{
    vl_lease_t *lease;

    vl_park_lock();
    leases.leaving = 1;
    if (leases.wheel)
        vl_wheel_turn(leases.wheel, APR_INT64_MAX / 2, expire_locked);
    while (leases.wanting && !APR_RING_EMPTY(leases.wanting, vl_lease_t, link)) {
        lease = APR_RING_FIRST(leases.wanting);
        leave_ring_locked(lease);
        lease->has_worker = 1;
        eventfd_write(lease->wake_fd, 1);
    }
    vl_park_unlock();
}

int vl_lease_parks(void)
{
    return leases.parks;
}

int vl_lease_threads_are_short(void)
{
    return vl_thread_is_short(leases.shm, (apr_uint32_t)leases.processes);
}

int vl_lease_has_thread(void)
{
    return !leases.parks && leases.threads > 1;
}

static struct leases_t *ring_make(apr_pool_t *p)
{
    struct leases_t *ring = apr_palloc(p, sizeof(*ring));

    APR_RING_INIT(ring, vl_lease_t, link);
    return ring;
}

void vl_lease_child_init(apr_pool_t *pchild, vl_shm_t *shm, int ticks,
                         apr_uint32_t accounts, apr_uint32_t workers)
{
    int is_async = 0, has_waitio = 0;

    leases.shm = shm;
    leases.leaving = leases.ended = 0;
    leases.wheel = vl_wheel_create(pchild, vl_clock_us());
    leases.idle = ring_make(pchild);
    leases.wanting = ring_make(pchild);
    leases.closing = ring_make(pchild);
    leases.workers = workers;
    leases.waiting_for = apr_pcalloc(pchild, sizeof(apr_uint32_t) * accounts);
    ap_mpm_query(AP_MPMQ_IS_ASYNC, &is_async);
    if (ap_mpm_query(AP_MPMQ_MAX_THREADS, &leases.threads) != APR_SUCCESS)
        leases.threads = 1;
    if (ap_mpm_query(AP_MPMQ_MAX_DAEMONS, &leases.processes) != APR_SUCCESS)
        leases.processes = 1;
#ifdef AP_MPMQ_CAN_WAITIO
    ap_mpm_query(AP_MPMQ_CAN_WAITIO, &has_waitio);
#endif
    leases.parks = is_async && ticks;
    leases.has_waitio = has_waitio;
}

void vl_lease_register(void)
{
    ap_hook_mpm_query(hide_state, NULL, NULL, APR_HOOK_REALLY_FIRST);
    frame_filter = ap_register_input_filter("VHOSTLIMIT_FRAMES", filter_frames,
                                            NULL, AP_FTYPE_CONNECTION);
}
