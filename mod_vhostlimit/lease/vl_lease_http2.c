/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of a connection. Where connections cannot be parked (worker, prefork), the
 * state does not change.
 *
 *   RUNNING  a thread of the MPM runs the connection's hooks
 *   IDLE     the MPM polls the connection, which waits for its client
 *   PARKED   the MPM polls the connection, which is queued, or waits for a worker of
 *            mod_http2
 *   EXPIRED  the connection is to be closed
 *
 *   from     event                                                  to
 *   (new)    connection begins                                      RUNNING
 *   (new)    connection begins, handshake has released its slot     IDLE
 *   RUNNING  handshake is done, no request has come (slot returned) IDLE
 *   RUNNING  no more input, or the MPM continues the connection     IDLE
 *   RUNNING  streams are held, no slot is free (HTTP/2)             RUNNING, queued
 *   RUNNING  streams are held, no worker of mod_http2 is left       RUNNING, in want_worker
 *   RUNNING  end of the run while queued or in want_worker          PARKED
 *   IDLE     input, and lease left, or slot free, or not limited    RUNNING
 *   IDLE     input, no lease left, no slot free                     PARKED, queued
 *   IDLE     KeepAliveTimeout, child stops, or descriptors short    EXPIRED
 *   PARKED   answer of the queue, or worker of mod_http2 is free    RUNNING
 *   PARKED   input for running streams that wait for their client   RUNNING, queued
 *   PARKED   client has gone, HTTP/1 (the request is refused)       RUNNING
 *   PARKED   client has gone, HTTP/2                                EXPIRED
 *   any      the MPM closes the connection, or its pool ends        EXPIRED
 *
 * The acceptor's thread changes IDLE to EXPIRED (expire_locked()). The last row happens in
 * vl_lease_close(), or in the cleanup of the connection's pool. vl_lease_process(), called
 * by a worker of the MPM, makes all other changes.
 *
 * The queue answers a queued connection with a lease or with a refusal (`answer`), and then
 * makes wake_fd readable. That wakes the MPM if the connection is parked, and mod_http2 if
 * it runs.
 *
 * The MPM closes idle connections in CONN_STATE_KEEPALIVE as soon as all its workers are
 * busy for a moment. A connection with leases therefore waits in the state of a parked
 * one, and this file applies KeepAliveTimeout.
 *
 * Functions that end in _locked need vl_park_lock(). Exported functions without that
 * ending take the lock themselves where they need it.
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
#include "base/vl_pages.h"
#include "lease/vl_frames.h"
#include "lease/vl_held.h"
#include "cost/vl_meter.h"
#include "base/vl_private.h"
#include "core/vl_thread.h"
#include "base/vl_wheel.h"

/* The quantum: CPU time that one lease may use. A longer quantum costs fewer grants, a
 * shorter one gives shorter waits. docs/design/007-leases.md has the measurements. */
#define QUANTUM_US 2000
#define QUANTUM_MIN_US 400
/* The quantum is chosen so that each queued connection of a site gets a lease within
 * this time. */
#define ROTATION_US 50000
/* Unused credit expires when the connection has been idle for this long. A shorter round
 * trip of the client costs no new lease. */
#define GRACE_US 20000
/* Without parking, a connection that has been idle for this long is closed when threads
 * are short. */
#define IDLE_US 100000
/* Milliseconds to wait for the reset with which a closed client answers "100 Continue"
 * (vl_client.h). */
#define ASK_MS 10
/* Upper bound for the bytes of a TLS alert. */
#define ALERT_MAX 64
/* Upper bound for queue timeouts that one tick of a stopping child handles. */
#define EXPIRE_MOST 16
/* Upper bound for the held frames of one connection, bytes of memory. It covers 100
 * streams that have used up their windows (H2MaxSessionStreams, H2WindowSize) and their
 * heads. When a client sends more, no more of its input is read until the connection has
 * a lease. */
#define HELD_MAX (100 * 65536 + 256 * 1024)

/* httpd 2.4.63 and newer have a state for connections that wait for the client. Older
 * versions use CONN_STATE_WRITE_COMPLETION with CONN_SENSE_WANT_READ. There
 * clogging_input_filters is set too, so that the MPM calls the process_connection hooks
 * afterwards. */
#ifdef AP_MPMQ_CAN_WAITIO
#define STATE_WAITIO CONN_STATE_ASYNC_WAITIO
#else
#define STATE_WAITIO CONN_STATE_WRITE_COMPLETION
#endif

typedef enum { RUNNING, IDLE, PARKED, EXPIRED } state_e;
typedef enum { NO_ANSWER, GRANTED, REFUSED } answer_e;
/* The first stream of an HTTP/2 connection in cleartext tells its site. Until that
 * stream's request has been read, the account is not known, and later streams are held.
 * STREAM_NONE: no stream has passed. STREAM_PASSED: the first has passed to mod_http2.
 * STREAM_READ: its request has been read. STREAM_SEEN: the input filter has seen
 * STREAM_READ. */
typedef enum { STREAM_NONE, STREAM_PASSED, STREAM_READ, STREAM_SEEN } first_stream_e;

struct vl_lease_t {
    vl_waiter_t waiter;             /* first: a waiter is cast to its lease */
    vl_client_id_t client_id;       /* the client of its last request */
    conn_rec *c;
    int fd;                         /* the client's socket */
    vl_client_t client;
    state_e state;
    int queued;
    answer_e answer;                /* of the queue, not used yet */
    int nested;                     /* vl_lease_process() runs the other hooks */
    int is_new;                     /* vl_lease_process() has not been called */
    int classified;                 /* account was set by the acceptor ... */
    int account_known;              /* ... or by a request */
    int other_protocol;             /* neither HTTP/1 nor HTTP/2 */
    apr_uint32_t account;
    apr_int64_t queue_timeout_us;   /* 0: the account does not queue */
    apr_int64_t keepalive_us;
    apr_int64_t credit_us;          /* left of the quantum; atomic */
    apr_int64_t idle_since_us;
    vl_timer_t timer;               /* KeepAliveTimeout */
    vl_grant_t *grant;              /* for the next request (HTTP/1) */
    vl_grant_t queue_grant;         /* what the queue answered */
    vl_reason_e refused;            /* of the streams of this run */
    int requeue_at_head;            /* the first slot was returned during the
                                     * handshake ... */
    apr_int64_t waited_us;          /* ... after the connection waited so long */
    /* HTTP/2 */
    int http2;
    apr_uint32_t estimate_us;       /* charged in advance for each stream */
    int streams_blocked;            /* running streams wait for the client */
    int has_worker;                 /* a worker of the MPM runs it; under the park lock */
    int thread_counted;             /* the connection's thread is counted
                                     * (vl_thread.h) ... */
    apr_uint32_t thread_account;    /* ... for this account */
    apr_array_header_t *tickets;    /* slots for streams that begin */
    int stream_allowed;             /* the grant admits one more stream */
    int worker_free;                /* woken because a worker is free */
    int input_exhausted;            /* the last read found nothing */
    int session_pending;            /* mod_http2 has not begun its session */
    first_stream_e first_stream;
    apr_int64_t cpu_us;             /* the thread's clock at the last charge */
    vl_frames_t *frames;            /* NULL: the connection is not HTTP/2 */
    vl_held_t held;
    apr_bucket_brigade *input;
    /* A parked connection has poll_fd in its socket, and the MPM polls it. While an
     * HTTP/2 connection runs, mod_http2 polls it. */
    int wake_fd, poll_fd;           /* -1: not made */
    apr_uint32_t polled;            /* events of the socket that make poll_fd
                                     * readable */
    int poll_fd_installed;          /* the socket has poll_fd in place of fd */
    APR_RING_ENTRY(vl_lease_t) all_link;
    APR_RING_ENTRY(vl_lease_t) link;
    struct lease_ring_t *ring;      /* idle, want_worker, closing, or NULL */
};

APR_RING_HEAD(lease_ring_t, vl_lease_t);

static ap_filter_rec_t *frame_filter;
static struct {
    vl_shm_t *shm;                  /* NULL: shared memory is unmapped */
    vl_wheel_t *wheel;
    struct lease_ring_t *idle, *want_worker, *closing;  /* oldest first */
    struct lease_ring_t *all;       /* leases of this child process */
    apr_uint32_t workers;           /* threads of mod_http2 in this child */
    apr_uint32_t waiting;           /* of these, with a stream that waits for its
                                     * client or its back end */
    apr_uint32_t *waiting_by_account;
    apr_uint32_t descriptors;       /* atomic */
    int parks;                      /* connections can be parked */
    int threads;                    /* of the MPM, in this child */
    int processes;                  /* of the MPM, upper bound */
    int has_waitio;                 /* the MPM has CONN_STATE_ASYNC_WAITIO */
    int stopping;                   /* the child stops */
    int granting_ended;             /* the child is granted no more slots */
} vl_leases;

/* --- rings of idle, waiting and closing connections ----------------------- */

static void vl_lease_leave_ring_locked(vl_lease_t *lease)
{
    if (lease->ring)
        APR_RING_REMOVE(lease, link);
    lease->ring = NULL;
}

static void vl_lease_enter_ring_locked(vl_lease_t *lease, struct lease_ring_t *ring)
{
    vl_lease_leave_ring_locked(lease);
    APR_RING_INSERT_TAIL(ring, lease, vl_lease_t, link);
    lease->ring = ring;
}

apr_uint32_t vl_lease_descriptors(void)
{
    return __atomic_load_n(&vl_leases.descriptors, __ATOMIC_RELAXED);
}

/* --- the descriptor that the MPM and mod_http2 poll ----------------------- */

static void put_descriptor(vl_lease_t *lease, int fd)
{
    apr_socket_t *socket = ap_get_conn_socket(lease->c);
    apr_os_sock_t os = fd;

    if (socket)
        apr_os_sock_put(&socket, &os, lease->c->pool);
}

/* Makes wake_fd and poll_fd. poll_fd is an epoll descriptor that is readable when
 * wake_fd is written, and at the events of the client's socket in `polled`. Returns 0 if
 * no descriptor is left. */
static int vl_lease_make_poll_fd(vl_lease_t *lease)
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
        __atomic_add_fetch(&vl_leases.descriptors, 2, __ATOMIC_RELAXED);
        return 1;
    }
    if (lease->wake_fd >= 0)
        close(lease->wake_fd);
    if (lease->poll_fd >= 0)
        close(lease->poll_fd);
    lease->wake_fd = lease->poll_fd = -1;
    return 0;
}

static void vl_lease_poll_client(vl_lease_t *lease, apr_uint32_t events)
{
    struct epoll_event client = { .events = events };

    if (lease->poll_fd < 0 || lease->polled == events)
        return;
    lease->polled = events;
    epoll_ctl(lease->poll_fd, EPOLL_CTL_MOD, lease->fd, &client);
}

static void vl_lease_install_poll_fd(vl_lease_t *lease)
{
    put_descriptor(lease, lease->poll_fd);
    lease->poll_fd_installed = 1;
}

static void vl_lease_uninstall_poll_fd(vl_lease_t *lease)
{
    if (!lease->poll_fd_installed)
        return;
    lease->poll_fd_installed = 0;
    put_descriptor(lease, lease->fd);
}

/* Returns 1 if the held frames use so much memory that no more input is read. The rest
 * of a frame that has passed in part still has to follow. */
static int vl_lease_is_held_full(const vl_lease_t *lease)
{
    return lease->frames && lease->held.bytes > HELD_MAX
           && vl_frames_is_between(lease->frames);
}

/* Installs poll_fd before the MPM polls the connection. has_ended: the client has closed
 * its sending side and may still wait for the answer, so that event must not wake the
 * MPM again. Streams that wait for their client need its input. */
static void vl_lease_park_locked(vl_lease_t *lease, int has_ended)
{
    apr_uint32_t events = has_ended ? 0 : EPOLLRDHUP;

    if (lease->streams_blocked && !vl_lease_is_held_full(lease))
        events |= EPOLLIN;
    if (vl_has_pending_output(lease->c))
        events |= EPOLLOUT;
    vl_lease_poll_client(lease, events);
    vl_lease_install_poll_fd(lease);
}

/* The connection whose process_connection hooks the calling thread runs. */
static __thread vl_lease_t *vl_lease_current;

/* Returns 1 if the child stops. The MPM, whose state mod_http2 queries, knows this
 * before the acceptor does. The query must not be answered by hide_stopping_state(). */
static int vl_lease_is_stopping(const vl_lease_t *lease)
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
    if (query != AP_MPMQ_MPM_STATE || !vl_lease_current || !vl_lease_current->frames
        || (vl_lease_current->input_exhausted && !vl_lease_current->frames->streams))
        return DECLINED;
    *result = AP_MPMQ_RUNNING;
    *rv = APR_SUCCESS;
    return OK;
}

/* --- credit and the queue ------------------------------------------------- */

/* Starts a new quantum. The quantum shrinks as more connections of the site are queued,
 * so that the last of them does not wait for the whole quanta of all others. */
void vl_lease_renew(vl_lease_t *lease)
{
    apr_int64_t us = ROTATION_US
                     / ((apr_int64_t)vl_slot_queued(vl_leases.shm, lease->account)
                        + 1);

    if (us > QUANTUM_US)
        us = QUANTUM_US;
    if (us < QUANTUM_MIN_US)
        us = QUANTUM_MIN_US;
    lease->estimate_us = vl_slot_estimate(vl_leases.shm, lease->account);
    __atomic_store_n(&lease->credit_us, us, __ATOMIC_RELAXED);
}

static apr_int64_t vl_lease_credit(const vl_lease_t *lease)
{
    return __atomic_load_n(&lease->credit_us, __ATOMIC_RELAXED);
}

static void vl_lease_use_credit(vl_lease_t *lease, apr_int64_t us)
{
    __atomic_sub_fetch(&lease->credit_us, us, __ATOMIC_RELAXED);
}

void vl_lease_charge(vl_lease_t *lease, apr_uint64_t us)
{
    vl_lease_use_credit(lease, (apr_int64_t)us - (lease->frames ? lease->estimate_us : 0));
    if (!vl_leases.parks)
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

/* vl_waiter_done_fn: stores the answer of the queue and wakes the connection. */
static void vl_lease_answer_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                                   vl_reason_e refused)
{
    vl_lease_t *lease = (vl_lease_t *)waiter;

    count_queued_locked(lease, -1);
    lease->queued = 0;
    memset(&lease->queue_grant, 0, sizeof(lease->queue_grant));
    lease->queue_grant.ticket.account = waiter->account;
    lease->queue_grant.waited_us = vl_clock_us() - waiter->since_us;
    if (ticket) {
        lease->queue_grant.holds = 1;
        lease->queue_grant.ticket = *ticket;
    }
    lease->queue_grant.refused = refused;
    lease->answer = ticket || refused == VL_REASON_NONE ? GRANTED : REFUSED;
    if (lease->wake_fd >= 0)
        eventfd_write(lease->wake_fd, 1);
}

static void vl_lease_unqueue_locked(vl_lease_t *lease)
{
    if (!lease->queued)
        return;
    lease->queued = 0;
    count_queued_locked(lease, -1);
    vl_park_remove_locked(&lease->waiter);
}

/* The connection has nothing to run: it ends, or its held streams have begun on credit or
 * were reset. Returns the grant that it has got in the meantime. */
static vl_grant_t vl_lease_leave_queue_locked(vl_lease_t *lease)
{
    vl_grant_t grant = { 0 };
    eventfd_t value;

    vl_lease_unqueue_locked(lease);
    if (lease->answer != NO_ANSWER) {
        eventfd_read(lease->wake_fd, &value);
        grant = lease->queue_grant;
        lease->answer = NO_ANSWER;
    }
    return grant;
}

/* Changes the state, and keeps the counts of waiters with a thread and without one. */
static void vl_lease_change_state_locked(vl_lease_t *lease, state_e state)
{
    if (lease->queued)
        count_queued_locked(lease, -1);
    lease->state = state;
    if (lease->queued)
        count_queued_locked(lease, 1);
}

/* Returns 1 if the connection's requests may have to wait. */
static int vl_lease_is_limited(const vl_lease_t *lease)
{
    return lease->account_known && !lease->other_protocol && lease->queue_timeout_us
           && vl_slot_queue(vl_leases.shm, lease->account);
}

static void vl_lease_add_ticket_locked(vl_lease_t *lease, const vl_ticket_t *ticket)
{
    APR_ARRAY_PUSH(lease->tickets, vl_ticket_t) = *ticket;
}

/* Gives the slot, or the refusal, to the next request or stream of the connection. */
static void use_grant_locked(vl_lease_t *lease, const vl_grant_t *grant)
{
    if (lease->frames) {
        lease->stream_allowed = 1;
        lease->refused = grant->refused;
        if (grant->holds)
            vl_lease_add_ticket_locked(lease, &grant->ticket);
    }
    else {
        *lease->grant = *grant;
    }
}

/* Uses the answer of the queue, if there is one: a new lease, or a refusal. */
static void vl_lease_use_answer_locked(vl_lease_t *lease)
{
    eventfd_t value;

    if (lease->answer == NO_ANSWER)
        return;
    eventfd_read(lease->wake_fd, &value);
    if (lease->answer == GRANTED)
        vl_lease_renew(lease);
    else
        __atomic_store_n(&lease->credit_us, 0, __ATOMIC_RELAXED);
    lease->answer = NO_ANSWER;
    use_grant_locked(lease, &lease->queue_grant);
}

/* Counts the thread of the connection for its account (vl_thread.h). Requires the park
 * lock. */
static void vl_lease_count_thread(vl_lease_t *lease)
{
    if (!(lease->account_known || lease->classified) || lease->thread_counted)
        return;
    lease->thread_counted = 1;
    lease->thread_account = lease->account;
    vl_thread_occupy(vl_leases.shm, lease->account);
}

static void vl_lease_uncount_thread(vl_lease_t *lease)
{
    if (lease->thread_counted)
        vl_thread_free(vl_leases.shm, lease->thread_account);
    lease->thread_counted = 0;
}

/* An HTTP/2 connection keeps a thread of the MPM as long as its streams run. Returns 0
 * if its site has so many threads that none would be left for others. */
static int may_have_thread(vl_lease_t *lease)
{
    if (!lease->thread_counted
        && vl_thread_try_occupy(vl_leases.shm, lease->account) != APR_SUCCESS)
        return 0;
    lease->thread_counted = 1;
    lease->thread_account = lease->account;
    return 1;
}

/* The MPM closes connections that wait for longer than Timeout. They are refused before
 * that, so that the client gets an answer. */
static apr_int64_t longest_wait_us(const vl_lease_t *lease)
{
    apr_int64_t us = lease->c->base_server->timeout * 9 / 10;

    return us < lease->queue_timeout_us ? us : lease->queue_timeout_us;
}

/* Returns 1 if the client has closed an idle connection. Its input is then empty, or
 * over TLS an alert. That is no request and needs no lease. */
static int input_is_end(const vl_lease_t *lease)
{
    apr_uint32_t events = vl_client_events(lease->fd);
    int length = 0;

    return (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
           && (!lease->frames || !lease->frames->streams)
           && !ioctl(lease->fd, FIONREAD, &length)
           && length <= (lease->client.tls ? ALERT_MAX : 0);
}

/* Begins a new lease with a free slot, or queues the connection. first: at the head of
 * the queue. Returns 1 if the connection may run now, which includes a connection that
 * cannot be queued. */
static int vl_lease_request_slot_locked(vl_lease_t *lease, apr_int64_t since_us, int first)
{
    vl_grant_t grant = { 0 };

    vl_lease_renew(lease);
    if (vl_slot_try(vl_leases.shm, lease->account, &grant.ticket) == APR_SUCCESS) {
        grant.holds = 1;
        use_grant_locked(lease, &grant);
        return 1;
    }
    if (vl_leases.granting_ended || input_is_end(lease) || !vl_lease_make_poll_fd(lease)) {
        use_grant_locked(lease, &grant);
        return 1;
    }
    lease->waiter.account = lease->account;
    lease->waiter.client = lease->client_id;
    lease->waiter.since_us = since_us;
    lease->waiter.deadline_us = since_us + longest_wait_us(lease);
    lease->waiter.done = vl_lease_answer_locked;
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
    vl_lease_use_answer_locked(lease);
    return 1;
}

/* Continues a lease that has credit left and takes a slot for the next request. Returns
 * 0 if the lease is used up or has expired, or if the site is at its own limits. */
static int continue_locked(vl_lease_t *lease, apr_int64_t now_us)
{
    vl_grant_t grant = { 0 };

    if (vl_lease_credit(lease) <= 0 || now_us - lease->idle_since_us >= GRACE_US)
        return 0;
    if (lease->frames && !lease->frames->streams)
        return may_have_thread(lease);
    if (lease->frames && !may_have_thread(lease))
        return 0;
    if (vl_slot_continue(vl_leases.shm, lease->account, lease->http2 ? VL_SLOT_HTTP2 : 0,
                         &grant.ticket) != APR_SUCCESS) {
        vl_lease_uncount_thread(lease);
        return 0;
    }
    grant.holds = 1;
    use_grant_locked(lease, &grant);
    return 1;
}

/* Handles input on an idle connection. Returns 1 if the connection runs now, and 0 if it
 * has been queued. */
static int vl_lease_run_or_queue_locked(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_clock_us();
    apr_int64_t since_us = now_us - lease->waited_us;
    int first = lease->requeue_at_head;

    lease->requeue_at_head = 0;
    lease->waited_us = 0;
    return !vl_lease_is_limited(lease) || lease->streams_blocked
           || continue_locked(lease, now_us)
           || vl_lease_request_slot_locked(lease, since_us, first);
}

/* --- a worker of the MPM takes up a connection ---------------------------- */

typedef enum { RUN, PARK, CLOSE } next_e;

/* What to do with a queued connection that a worker of the MPM has taken up. It runs if
 * its client has gone (HTTP/1), so that the access log has its request, or if streams
 * that wait for their client may have input. */
static next_e next_of_queued_locked(vl_lease_t *lease)
{
    apr_uint32_t events = vl_client_events(lease->fd);

    if (vl_client_is_gone(&lease->client, lease->fd, events)) {
        vl_lease_unqueue_locked(lease);
        vl_slot_gone(vl_leases.shm, lease->account, vl_clock_us() - lease->waiter.since_us);
        if (!lease->frames) {
            lease->grant->ticket.account = lease->account;
            lease->grant->refused = VL_REASON_GONE;
            return RUN;
        }
        lease->state = EXPIRED;
        return CLOSE;
    }
    if (lease->polled & EPOLLIN)
        return RUN;
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
    if (lease->state == EXPIRED)
        return CLOSE;
    if (lease->queued)
        next = next_of_queued_locked(lease);
    else if (lease->answer != NO_ANSWER)
        vl_lease_use_answer_locked(lease);
    else if (lease->state == IDLE && !vl_lease_run_or_queue_locked(lease)) {
        vl_lease_park_locked(lease, 0);
        next = PARK;
    }
    if (next != CLOSE)
        vl_lease_change_state_locked(lease, next == RUN ? RUNNING : PARKED);
    return next;
}

/* --- HTTP/2: charges and workers ------------------------------------------ */

/* Charges the account and the lease for the CPU time that the connection's thread has
 * used since the last charge. */
static void vl_lease_charge_connection(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_meter_thread_us();
    apr_int64_t us = now_us - lease->cpu_us;

    lease->cpu_us = now_us;
    if (us <= 0 || !lease->account_known)
        return;
    vl_charge_pay(vl_leases.shm, lease->account, (apr_uint64_t)us);
    vl_slot_charge_client(vl_leases.shm, lease->account, &lease->client_id, (apr_uint64_t)us);
    vl_lease_use_credit(lease, us);
}

/* mod_http2 has one pool of workers for all connections of a child. A stream that waits
 * for its client or its back end keeps its worker. Returns 0 if one more would leave too
 * few for other accounts (vl_admit_more()). Then the account's next streams are held. */
static int may_use_worker(apr_uint32_t account)
{
    return vl_admit_more(vl_leases.waiting_by_account[account],
                         vl_leases.workers > vl_leases.waiting
                         ? vl_leases.workers - vl_leases.waiting : 0);
}

/* Wakes the oldest connection in want_worker whose account may use a worker. */
static void wake_one_for_worker_locked(void)
{
    vl_lease_t *lease;

    APR_RING_FOREACH(lease, vl_leases.want_worker, vl_lease_t, link) {
        if (may_use_worker(lease->account)) {
            vl_lease_leave_ring_locked(lease);
            lease->worker_free = 1;
            eventfd_write(lease->wake_fd, 1);
            return;
        }
    }
}

void vl_lease_workers_wait(apr_uint32_t account, int by)
{
    if (!vl_leases.parks || !vl_leases.shm)
        return;
    vl_park_lock();
    vl_leases.waiting += (apr_uint32_t)by;
    vl_leases.waiting_by_account[account] += (apr_uint32_t)by;
    if (by < 0)
        wake_one_for_worker_locked();
    vl_park_unlock();
}

/* Puts the connection in want_worker until a worker is free. Slots that it has been
 * granted go to other connections. */
static void wait_for_worker_locked(vl_lease_t *lease)
{
    vl_ticket_t *ticket;

    lease->stream_allowed = 0;
    while ((ticket = apr_array_pop(lease->tickets)))
        vl_slot_end(vl_leases.shm, ticket, NULL);
    if (vl_slot_granted(vl_leases.shm))
        vl_park_take_locked();
    vl_lease_enter_ring_locked(lease, vl_leases.want_worker);
}

/* --- HTTP/2: streams that begin ------------------------------------------- */

/* Charges the lease in advance for a stream that begins, with the average cost of a
 * request of its account. A lease therefore admits no more streams than it can pay for.
 * The difference is charged when the stream ends. */
static void reserve(vl_lease_t *lease)
{
    if (lease->account_known)
        vl_lease_use_credit(lease, lease->estimate_us);
}

/* Takes a slot for one more stream on the credit of the lease. Without credit the lease
 * is renewed, unless other connections are queued. Returns 0 if the stream has to wait. */
static int take_slot_by_credit_locked(vl_lease_t *lease)
{
    vl_ticket_t ticket;

    if (vl_lease_credit(lease) <= 0) {
        if (vl_slot_contended(vl_leases.shm))
            return 0;
        vl_lease_renew(lease);
    }
    if (vl_slot_continue(vl_leases.shm, lease->account, VL_SLOT_HTTP2 | VL_SLOT_NO_THREAD,
                         &ticket) != APR_SUCCESS)
        return 0;
    vl_lease_add_ticket_locked(lease, &ticket);
    return 1;
}

static int may_begin_locked(vl_lease_t *lease)
{
    if (!may_use_worker(lease->account) && vl_lease_make_poll_fd(lease)) {
        wait_for_worker_locked(lease);
        return 0;
    }
    if (!lease->stream_allowed && !take_slot_by_credit_locked(lease))
        return 0;
    lease->stream_allowed = 0;
    return 1;
}

/* vl_frames_may_begin_fn. Each stream takes a slot while the lease lasts and its account
 * is within its own limits (vl_slot_continue()). */
static int may_begin(void *context)
{
    vl_lease_t *lease = context;
    int may;

    if (!lease->account_known && lease->first_stream == STREAM_PASSED)
        return 0;
    if (lease->first_stream == STREAM_NONE)
        lease->first_stream = STREAM_PASSED;
    if (!vl_lease_is_limited(lease) || lease->refused)
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

    vl_park_lock();
    may = !lease->queued && lease->ring != vl_leases.want_worker
          && (lease->answer != NO_ANSWER
              || vl_lease_request_slot_locked(lease, vl_clock_us(), 0));
    vl_lease_use_answer_locked(lease);
    vl_park_unlock();
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
    vl_lease_charge_connection(lease);
    vl_park_lock();
    if (lease->first_stream == STREAM_READ || lease->worker_free) {
        lease->first_stream = lease->first_stream == STREAM_READ
                              ? STREAM_SEEN : lease->first_stream;
        lease->worker_free = 0;
        eventfd_read(lease->wake_fd, &value);
    }
    vl_lease_use_answer_locked(lease);
    vl_park_unlock();
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
    *ret_waited_us = lease->queue_grant.waited_us;
    return lease->refused;
}

int vl_lease_take_slot(vl_lease_t *lease, vl_ticket_t *ret_ticket)
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

/* --- one run: a worker of the MPM runs the connection's hooks ------------- */

/* mod_http2 takes the descriptor that it polls from the socket when its session begins
 * (h2_mplx_c1_create()). Installs poll_fd there, so that the queue can wake mod_http2.
 * The filters restore the socket's own descriptor before it is used
 * (vl_lease_restore_fd()). */
static void vl_lease_prepare_session(vl_lease_t *lease)
{
    if (!lease->session_pending)
        return;
    lease->session_pending = 0;
    if (!vl_lease_make_poll_fd(lease))
        return;
    vl_lease_poll_client(lease, EPOLLIN | EPOLLRDHUP);
    vl_lease_install_poll_fd(lease);
}

void vl_lease_restore_fd(vl_lease_t *lease)
{
    if (lease->nested)
        vl_lease_uninstall_poll_fd(lease);
}

static void begin_run(vl_lease_t *lease)
{
    vl_park_lock();
    lease->has_worker = 1;
    if (lease->http2)
        vl_lease_count_thread(lease);
    vl_park_unlock();
    if (!lease->http2)
        return;
    lease->cpu_us = vl_meter_thread_us();
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
        vl_park_end(&grant.ticket, NULL);
    if (grant.occupies)
        vl_thread_free(vl_leases.shm, grant.ticket.account);
}

/* Returns the slots that the run has not used. */
static void end_run(vl_lease_t *lease)
{
    vl_ticket_t ticket;

    vl_park_lock();
    lease->has_worker = 0;
    vl_lease_uncount_thread(lease);
    vl_park_unlock();
    if (!lease->frames) {
        /* No request has come. */
        if (vl_leases.parks)
            drop_grant(lease);
        return;
    }
    vl_lease_charge_connection(lease);
    lease->stream_allowed = 0;
    while (vl_lease_take_slot(lease, &ticket))
        vl_park_end(&ticket, NULL);
}

static conn_state_e wait_state(void)
{
    return vl_leases.has_waitio ? STATE_WAITIO : CONN_STATE_WRITE_COMPLETION;
}

/* Makes the MPM poll the connection until the client sends input or the queue wakes it. */
static void wait_in_mpm(conn_rec *c)
{
    c->cs->state = wait_state();
    c->cs->sense = CONN_SENSE_WANT_READ;
    c->clogging_input_filters = !vl_leases.has_waitio;
}

/* Returns 1 if mod_http2 has left the connection to the MPM to poll. */
static int waits_in_mpm(const conn_rec *c)
{
    return c->cs->state == wait_state()
           && (vl_leases.has_waitio || c->cs->sense == CONN_SENSE_WANT_READ);
}

/* The connection becomes idle. KeepAliveTimeout runs unless streams wait for the client. */
static void wait_for_client(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_clock_us();
    vl_grant_t grant;

    vl_park_lock();
    grant = vl_lease_leave_queue_locked(lease);
    lease->state = IDLE;
    lease->idle_since_us = now_us;
    vl_lease_enter_ring_locked(lease, vl_leases.idle);
    if (!lease->streams_blocked)
        vl_wheel_set(vl_leases.wheel, &lease->timer,
                     now_us + __atomic_load_n(&lease->keepalive_us,
                                              __ATOMIC_RELAXED));
    vl_park_unlock();
    if (grant.holds)
        vl_park_end(&grant.ticket, NULL);
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

/* The MPM continues the connection by itself. If the MPM calls the hook again, the
 * connection has been idle. Returns 0. */
static int leave_to_mpm(vl_lease_t *lease)
{
    vl_park_lock();
    vl_lease_unqueue_locked(lease);
    lease->state = IDLE;
    lease->idle_since_us = vl_clock_us();
    vl_park_unlock();
    return 0;
}

/* The run has ended with held streams. Returns 1 if the connection runs again at once. */
static int wait_with_held(vl_lease_t *lease)
{
    vl_park_lock();
    if (lease->queued || lease->ring == vl_leases.want_worker) {
        vl_lease_park_locked(lease, 0);
        vl_lease_change_state_locked(lease, PARKED);
    }
    else if (lease->answer == NO_ANSWER) {
        lease->state = IDLE;
        lease->idle_since_us = vl_clock_us();
    }
    vl_park_unlock();
    return lease->state != PARKED;
}

/* --- the process_connection hook ------------------------------------------ */

/* Decides what the connection does after the other hooks have run. Returns 1 if it runs
 * again at once, because it has more input already. */
static int after_run(vl_lease_t *lease, int rc)
{
    conn_rec *c = lease->c;
    int again;

    if (!lease->http2 && strcmp(ap_get_protocol(c), AP_PROTOCOL_HTTP1))
        lease->other_protocol = 1;
    lease->streams_blocked = lease->frames && rc == OK && waits_in_mpm(c);
    if (!(lease->streams_blocked || is_kept_alive(c, rc)))
        return leave_to_mpm(lease);
    if (!vl_lease_is_limited(lease)
        || (vl_lease_is_stopping(lease) && !(lease->frames && lease->frames->streams))) {
        leave_to_mpm(lease);
        if (!lease->frames || !lease->frames->streams)
            return 0;
        /* No request came from the first stream, so the next stream tells the site. */
        lease->first_stream = STREAM_NONE;
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
        wait_for_client(lease);
        again = !lease->streams_blocked && vl_has_pending_input(c);
    }
    if (again)
        c->cs->state = CONN_STATE_READ_REQUEST_LINE;
    else
        wait_in_mpm(c);
    return again;
}

/* Returns 1 if the connection holds a slot, and after the handshake its client has not
 * sent the first request. */
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

/* Returns the slot: a connection that waits for its client holds none. It is queued at
 * the head when its request comes. */
static void return_slot(vl_lease_t *lease)
{
    lease->waited_us = lease->grant->waited_us;
    drop_grant(lease);
    lease->requeue_at_head = 1;
    __atomic_store_n(&lease->credit_us, 0, __ATOMIC_RELAXED);
    lease->state = IDLE;
}

int vl_lease_process(vl_lease_t *lease)
{
    conn_rec *c = lease->c;
    next_e next;
    int rc, again;

    if (lease->nested || !vl_leases.parks)
        return DECLINED;
    if (c->clogging_input_filters) {
        c->clogging_input_filters = 0;
        c->cs->state = CONN_STATE_READ_REQUEST_LINE;
    }
    if (lease->is_new) {
        lease->is_new = 0;
        if (has_sent_nothing(lease)) {
            return_slot(lease);
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

void vl_lease_note_request(vl_lease_t *lease, const request_rec *r)
{
    __atomic_store_n(&lease->keepalive_us, r->server->keep_alive_timeout,
                     __ATOMIC_RELAXED);
    if (!lease->http2)
        lease->client.http11 = r->proto_num >= HTTP_VERSION(1, 1);
    if (vl_leases.parks && (!lease->frames || lease->first_stream != STREAM_PASSED))
        return;
    vl_park_lock();
    if (vl_leases.parks) {
        lease->first_stream = STREAM_READ;
        if (lease->wake_fd >= 0)
            eventfd_write(lease->wake_fd, 1);
    }
    else {
        vl_lease_leave_ring_locked(lease);
        if (!vl_lease_has_thread())
            vl_lease_uncount_thread(lease);
    }
    vl_park_unlock();
}

void vl_lease_set_account(vl_lease_t *lease, apr_uint32_t account,
                          apr_int64_t timeout_us, const vl_client_id_t *client)
{
    /* Streams of one HTTP/2 connection begin on several threads, so only HTTP/1 may read
     * these fields without the lock. */
    if (!lease->http2 && lease->account_known && lease->account == account
        && lease->queue_timeout_us == timeout_us && lease->client_id.key == client->key
        && lease->client_id.class_no == client->class_no)
        return;
    vl_park_lock();
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
    vl_park_unlock();
}

/* --- worker and prefork: connections that keep their thread --------------- */

int vl_lease_resume(vl_lease_t *lease, int no_thread, vl_ticket_t *ret_ticket)
{
    apr_int64_t since_us = __atomic_load_n(&lease->idle_since_us,
                                           __ATOMIC_RELAXED);
    unsigned flags = (lease->http2 ? VL_SLOT_HTTP2 : 0) | (no_thread ? VL_SLOT_NO_THREAD : 0);

    return vl_lease_credit(lease) > 0 && vl_clock_us() - since_us < GRACE_US
           && vl_slot_continue(vl_leases.shm, lease->account, flags, ret_ticket) == APR_SUCCESS;
}

int vl_lease_ends_with_next(const vl_lease_t *lease)
{
    return lease->account_known && vl_lease_credit(lease) <= (apr_int64_t)lease->estimate_us;
}

/* Under prefork there is no other thread in this process. The idle connection's process
 * is counted here. Returns 0 if processes are short, and the caller closes the
 * connection. */
static int idle_under_prefork(vl_lease_t *lease)
{
    int leaves = 1;

    if (lease->account_known && !lease->thread_counted) {
        lease->thread_counted = 1;
        lease->thread_account = lease->account;
        leaves = vl_thread_occupy_idle(vl_leases.shm, lease->account,
                                       (apr_uint32_t)vl_leases.processes);
    }
    return leaves && !vl_lease_threads_are_short();
}

int vl_lease_begin_idle(vl_lease_t *lease)
{
    if (!vl_lease_has_thread())
        return idle_under_prefork(lease);
    vl_park_lock();
    lease->idle_since_us = vl_clock_us();
    vl_lease_enter_ring_locked(lease, vl_leases.idle);
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

/* The MPM closes the connection, or its pool is destroyed: leaves the queue and the
 * timer, and returns a slot that was granted and not used. */
static void detach(vl_lease_t *lease)
{
    vl_grant_t grant;

    vl_park_lock();
    vl_lease_uninstall_poll_fd(lease);
    vl_wheel_clear(&lease->timer);
    grant = vl_lease_leave_queue_locked(lease);
    lease->state = EXPIRED;
    vl_lease_enter_ring_locked(lease, vl_leases.closing);
    vl_park_unlock();
    if (grant.holds)
        vl_park_end(&grant.ticket, NULL);
}

static apr_status_t cleanup(void *data)
{
    vl_lease_t *lease = data;

    if (vl_leases.shm) {
        detach(lease);
        end_run(lease);
    }
    vl_park_lock();
    /* After vl_lease_forget() the rings are gone with the child's pool. */
    if (vl_leases.shm) {
        vl_lease_leave_ring_locked(lease);
        APR_RING_REMOVE(lease, all_link);
    }
    vl_park_unlock();
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
    if (!lease->nested && vl_leases.shm)
        detach(lease);
}

void vl_lease_begin_http2(vl_lease_t *lease)
{
    conn_rec *c = lease->c;

    if (lease->http2)
        return;
    lease->http2 = 1;
    if (!vl_leases.parks)
        return;
    /* The end of the input ends an HTTP/2 connection, as it ends a TLS connection. */
    lease->client.tls = 1;
    lease->tickets = apr_array_make(c->pool, 4, sizeof(vl_ticket_t));
    if (lease->grant->holds)
        APR_ARRAY_PUSH(lease->tickets, vl_ticket_t) = lease->grant->ticket;
    lease->stream_allowed = lease->grant->holds;
    lease->grant->holds = 0;
    lease->cpu_us = vl_meter_thread_us();
    lease->frames = apr_palloc(c->pool, sizeof(*lease->frames));
    vl_frames_init(lease->frames);
    vl_held_init(&lease->held);
    lease->input = apr_brigade_create(c->pool, c->bucket_alloc);
    ap_add_input_filter_handle(frame_filter, lease, NULL, c);
    lease->session_pending = 1;
    if (lease->nested)
        vl_lease_prepare_session(lease);
}

vl_lease_t *vl_lease_make(conn_rec *c, vl_grant_t *grant, int ready)
{
    vl_lease_t *lease = apr_pcalloc(c->pool, sizeof(*lease));
    const char *protocol = ap_get_protocol(c);

    lease->c = c;
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
    vl_park_lock();
    APR_RING_INSERT_TAIL(vl_leases.all, lease, vl_lease_t, all_link);
    vl_park_unlock();
    apr_pool_cleanup_register(c->pool, lease, cleanup, apr_pool_cleanup_null);
    return lease;
}

/* --- timeouts, and shortage of descriptors or threads --------------------- */

/* Closes an idle connection whose KeepAliveTimeout has expired (vl_wheel_turn()). */
static void expire_locked(vl_timer_t *timer)
{
    vl_lease_t *lease = (vl_lease_t *)(void *)
        ((char *)timer - offsetof(vl_lease_t, timer));

    struct pollfd pfd = { lease->fd, POLLIN, 0 };

    if (lease->state != IDLE)
        return;
    /* The connection has input that the MPM has not noticed yet. */
    if (vl_leases.stopping && poll(&pfd, 1, 0) > 0)
        return;
    /* The MPM polls the socket, finds its end and calls vl_lease_process(). */
    lease->state = EXPIRED;
    shutdown(lease->fd, SHUT_RD);
}

/* Returns 0 if the MPM has closed the socket. It does so shortly before it destroys the
 * connection's pool. */
static int has_socket(const vl_lease_t *lease)
{
    int fd = -1;

    apr_os_sock_get(&fd, ap_get_conn_socket(lease->c));
    return fd == lease->fd;
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
        expire_locked(&lease->timer);
    else
        shutdown(lease->fd, SHUT_RD);       /* Its thread, which reads, finds the end. */
    return 1;
}

/* Under worker: closes connections that have been idle for longer than IDLE_US while
 * threads are short. */
static void close_idle_locked(apr_int64_t now_us)
{
    vl_lease_t *lease;

    while (vl_lease_threads_are_short()
           && !APR_RING_EMPTY(vl_leases.idle, vl_lease_t, link)
           && now_us - APR_RING_FIRST(vl_leases.idle)->idle_since_us > IDLE_US) {
        lease = APR_RING_FIRST(vl_leases.idle);
        vl_lease_leave_ring_locked(lease);
        shutdown(lease->fd, SHUT_RD);
    }
}

void vl_lease_tick(apr_int64_t now_us)
{
    vl_park_lock();
    if (!vl_leases.parks && vl_leases.shm)
        close_idle_locked(now_us);
    /* As long as the child does not stop, the acceptor's tick handles queue timeouts. */
    if (vl_leases.stopping)
        vl_park_expire_locked(now_us, EXPIRE_MOST);
    if (vl_leases.wheel)
        vl_wheel_turn(vl_leases.wheel, now_us, expire_locked);
    vl_park_unlock();
}

/* --- the child process ---------------------------------------------------- */

void vl_lease_forget(void)
{
    vl_leases.shm = NULL;
}

int vl_lease_queued(void)
{
    int any;

    vl_park_lock();
    any = vl_park_has_locked(vl_lease_answer_locked);
    vl_park_unlock();
    return any;
}

void vl_lease_child_end(void)
{
    vl_waiter_t *waiter;

    vl_park_lock();
    while ((waiter = vl_park_evict_locked(vl_lease_answer_locked, 0)))
        vl_lease_answer_locked(waiter, NULL, VL_REASON_NONE);
    vl_leases.granting_ended = 1;
    vl_park_unlock();
}

void vl_lease_child_drain(void)
{
    vl_lease_t *lease;

    vl_park_lock();
    vl_leases.stopping = 1;
    if (vl_leases.wheel)
        vl_wheel_turn(vl_leases.wheel, APR_INT64_MAX / 2, expire_locked);
    while (vl_leases.want_worker && !APR_RING_EMPTY(vl_leases.want_worker, vl_lease_t, link)) {
        lease = APR_RING_FIRST(vl_leases.want_worker);
        vl_lease_leave_ring_locked(lease);
        lease->worker_free = 1;
        eventfd_write(lease->wake_fd, 1);
    }
    vl_park_unlock();
}

int vl_lease_parks(void)
{
    return vl_leases.parks;
}

int vl_lease_threads_are_short(void)
{
    return vl_thread_is_short(vl_leases.shm, (apr_uint32_t)vl_leases.processes);
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

    vl_leases.shm = shm;
    vl_leases.stopping = vl_leases.granting_ended = 0;
    vl_leases.wheel = vl_wheel_create(pchild, vl_clock_us());
    vl_leases.idle = ring_make(pchild);
    vl_leases.want_worker = ring_make(pchild);
    vl_leases.closing = ring_make(pchild);
    vl_leases.all = apr_palloc(pchild, sizeof(*vl_leases.all));
    APR_RING_INIT(vl_leases.all, vl_lease_t, all_link);
    vl_leases.workers = workers;
    vl_leases.waiting_by_account = vl_pages_make(pchild, accounts, sizeof(apr_uint32_t));
    ap_mpm_query(AP_MPMQ_IS_ASYNC, &is_async);
    if (ap_mpm_query(AP_MPMQ_MAX_THREADS, &vl_leases.threads) != APR_SUCCESS)
        vl_leases.threads = 1;
    if (ap_mpm_query(AP_MPMQ_MAX_DAEMONS, &vl_leases.processes) != APR_SUCCESS)
        vl_leases.processes = 1;
#ifdef AP_MPMQ_CAN_WAITIO
    ap_mpm_query(AP_MPMQ_CAN_WAITIO, &has_waitio);
#endif
    vl_leases.parks = is_async && ticks;
    vl_leases.has_waitio = has_waitio;
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
    vl_park_lock();
    APR_RING_FOREACH(lease, vl_leases.all, vl_lease_t, all_link) {
        conn_state_e waiting = wait_state();

        __atomic_compare_exchange_n(&lease->c->cs->state, &waiting,
                                    CONN_STATE_CHECK_REQUEST_LINE_READABLE, 0,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    vl_park_unlock();
}
#endif

void vl_lease_register(void)
{
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 110)
    ap_hook_child_stopping(stop_waiting, NULL, NULL, APR_HOOK_MIDDLE);
#endif
    ap_hook_mpm_query(hide_stopping_state, NULL, NULL, APR_HOOK_REALLY_FIRST);
    frame_filter = ap_register_input_filter("VHOSTLIMIT_FRAMES", filter_frames,
                                            NULL, AP_FTYPE_CONNECTION);
}
