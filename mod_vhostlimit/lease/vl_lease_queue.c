/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The credit of a lease, the queue, what wakes a connection, and the input of suspended
 * connections.
 *
 * The queue answers a queued connection with a lease or with a refusal (`answer`), and then
 * makes a suspended connection ready. It makes wake_fd of others readable, which wakes the
 * MPM if the connection is parked, and mod_http2 if it runs.
 */
#include "lease/vl_lease_int.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <apr_portable.h>
#include <http_core.h>

#include "base/vl_clock.h"
#include "base/vl_private.h"
#include "core/vl_engage.h"
#include "core/vl_slot.h"

/* The quantum: CPU time that one lease may use. A longer quantum costs fewer grants, a
 * shorter one gives shorter waits. docs/design/007-leases.md has the measurements. */
#define QUANTUM_US 2000
#define QUANTUM_MIN_US 200
/* The quantum is chosen so that each queued connection of a site gets a lease within
 * this time. */
#define ROTATION_US 20000
/* Connections whose input the acceptor handles before it releases the lock. */
#define INPUT_BATCH 64
/* Upper bound for the bytes of a TLS alert. */
#define ALERT_MAX 64
/* Upper bound for the held frames of one connection, bytes of memory. It covers 100
 * streams that have used up their windows (H2MaxSessionStreams, H2WindowSize) and their
 * heads. When a client sends more, no more of its input is read until the connection has
 * a lease. */
#define HELD_MAX (100 * 65536 + 256 * 1024)

child_leases_t vl_leases;
__thread int vl_lease_takes_next;

/* --- rings of idle, waiting and closing connections ----------------------- */

void vl_lease_leave_ring_locked(vl_lease_t *lease)
{
    if (lease->ring)
        APR_RING_REMOVE(lease, link);
    lease->ring = NULL;
}

void vl_lease_enter_ring_locked(vl_lease_t *lease, struct lease_ring_t *ring)
{
    vl_lease_leave_ring_locked(lease);
    APR_RING_INSERT_TAIL(ring, lease, vl_lease_t, link);
    lease->ring = ring;
}

apr_uint32_t vl_lease_descriptors(void)
{
    return __atomic_load_n(&vl_leases.descriptors, __ATOMIC_RELAXED);
}

void vl_lease_start_runner_locked(void)
{
    if (vl_lease_takes_next || vl_leases.ended || vl_leases.nready <= vl_leases.starting)
        return;
    vl_leases.starting++;
    /* A timer that expires in the microsecond in which the listener looks would wait for its
     * next look. */
    if (ap_mpm_register_timed_callback(-1, vl_leases.run, NULL) != APR_SUCCESS)
        vl_leases.starting--;
}

void vl_lease_wake_locked(vl_lease_t *lease)
{
    if (!lease->suspended) {
        if (lease->wake_fd >= 0)
            eventfd_write(lease->wake_fd, 1);
        return;
    }
    if (lease->busy || lease->ring == vl_leases.ready)
        return;
    vl_lease_enter_ring_locked(lease, vl_leases.ready);
    vl_leases.nready++;
    vl_lease_start_runner_locked();
}

/* The connection uses what it was woken for. */
static void clear_wake_locked(const vl_lease_t *lease)
{
    eventfd_t value;

    if (lease->wake_fd >= 0)
        eventfd_read(lease->wake_fd, &value);
}

/* --- the descriptor that the MPM and mod_http2 poll ----------------------- */

static void put_descriptor(vl_lease_t *lease, int fd)
{
    apr_socket_t *socket = ap_get_conn_socket(lease->c);
    apr_os_sock_t os = fd;

    if (socket)
        apr_os_sock_put(&socket, &os, lease->c->pool);
}

int vl_lease_make_poll_fd(vl_lease_t *lease)
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

void vl_lease_poll_client(vl_lease_t *lease, apr_uint32_t events)
{
    struct epoll_event client = { .events = events };

    if (lease->poll_fd < 0 || lease->polled == events)
        return;
    lease->polled = events;
    epoll_ctl(lease->poll_fd, EPOLL_CTL_MOD, lease->fd, &client);
}

void vl_lease_install_poll_fd(vl_lease_t *lease)
{
    put_descriptor(lease, lease->poll_fd);
    lease->poll_fd_installed = 1;
}

void vl_lease_uninstall_poll_fd(vl_lease_t *lease)
{
    if (!lease->poll_fd_installed)
        return;
    lease->poll_fd_installed = 0;
    put_descriptor(lease, lease->fd);
}

int vl_lease_is_held_full(const vl_lease_t *lease)
{
    /* The rest of a frame that has passed in part still has to follow. */
    return lease->frames && lease->held.bytes > HELD_MAX
           && vl_frames_is_between(lease->frames);
}

void vl_lease_park_locked(vl_lease_t *lease, int has_ended)
{
    apr_uint32_t events = has_ended ? 0 : EPOLLRDHUP;

    if (lease->streams_blocked && !vl_lease_is_held_full(lease))
        events |= EPOLLIN;
    if (vl_has_pending_output(lease->c))
        events |= EPOLLOUT;
    vl_lease_poll_client(lease, events);
    vl_lease_install_poll_fd(lease);
}

void vl_lease_restore_fd(vl_lease_t *lease)
{
    if (lease->nested)
        vl_lease_uninstall_poll_fd(lease);
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
    __atomic_store_n(&lease->estimate_us, vl_slot_estimate(vl_leases.shm, lease->account),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&lease->credit_us, us, __ATOMIC_RELAXED);
}

apr_int64_t vl_lease_credit(const vl_lease_t *lease)
{
    return __atomic_load_n(&lease->credit_us, __ATOMIC_RELAXED);
}

void vl_lease_use_credit(vl_lease_t *lease, apr_int64_t us)
{
    __atomic_sub_fetch(&lease->credit_us, us, __ATOMIC_RELAXED);
}

void vl_lease_charge(vl_lease_t *lease, apr_uint64_t us)
{
    apr_int64_t paid_us = lease->frames
                          ? __atomic_load_n(&lease->estimate_us, __ATOMIC_RELAXED) : 0;

    vl_lease_use_credit(lease, (apr_int64_t)us - paid_us);
    if (!vl_leases.parks)
        __atomic_store_n(&lease->idle_since_us, vl_clock_us(),
                         __ATOMIC_RELAXED);
}

static void count_queued_locked(vl_lease_t *lease, int by)
{
    vl_slot_count_in_mpm(vl_leases.shm, lease->waiter.account, lease->state == RUNNING, by);
}

/* The acceptor works for the connection. */
static void count_arrival_locked(vl_lease_t *lease)
{
    __atomic_add_fetch(&lease->arrivals, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&vl_leases.arrivals, vl_leases.arrivals + 1, __ATOMIC_RELAXED);
}

void vl_lease_answer_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                            vl_reason_e refused)
{
    vl_lease_t *lease = (vl_lease_t *)waiter;

    count_arrival_locked(lease);
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
    vl_lease_wake_locked(lease);
}

void vl_lease_unqueue_locked(vl_lease_t *lease)
{
    if (!lease->queued)
        return;
    lease->queued = 0;
    count_queued_locked(lease, -1);
    vl_waiters_remove_locked(&lease->waiter);
}

vl_grant_t vl_lease_leave_queue_locked(vl_lease_t *lease)
{
    vl_grant_t grant = { 0 };

    vl_lease_unqueue_locked(lease);
    if (lease->answer != NO_ANSWER) {
        clear_wake_locked(lease);
        grant = lease->queue_grant;
        lease->answer = NO_ANSWER;
    }
    return grant;
}

void vl_lease_change_state_locked(vl_lease_t *lease, state_e state)
{
    if (lease->queued)
        count_queued_locked(lease, -1);
    lease->state = state;
    if (lease->queued)
        count_queued_locked(lease, 1);
}

int vl_lease_is_limited_locked(const vl_lease_t *lease)
{
    return lease->account_known && !lease->other_protocol && lease->queue_timeout_us
           && vl_slot_queue(vl_leases.shm, lease->account);
}

/* Only streams of HTTP/2 set the account in another thread than that of the connection. */
int vl_lease_is_limited(const vl_lease_t *lease)
{
    int limited;

    if (!lease->http2)
        return vl_lease_is_limited_locked(lease);
    vl_waiters_lock();
    limited = vl_lease_is_limited_locked(lease);
    vl_waiters_unlock();
    return limited;
}

/* Gives the slot, or the refusal, to the next request or stream of the connection. */
static void use_grant_locked(vl_lease_t *lease, const vl_grant_t *grant)
{
    if (lease->frames) {
        lease->stream_allowed = 1;
        lease->queue_grant.waited_us = grant->waited_us;
        lease->refused = grant->refused;
        if (grant->holds)
            APR_ARRAY_PUSH(lease->tickets, vl_ticket_t) = grant->ticket;
    }
    else {
        *lease->grant = *grant;
    }
}

void vl_lease_use_answer_locked(vl_lease_t *lease)
{
    if (lease->answer == NO_ANSWER)
        return;
    clear_wake_locked(lease);
    if (lease->answer == GRANTED)
        vl_lease_renew(lease);
    else
        __atomic_store_n(&lease->credit_us, 0, __ATOMIC_RELAXED);
    lease->answer = NO_ANSWER;
    use_grant_locked(lease, &lease->queue_grant);
}

void vl_lease_count_thread(vl_lease_t *lease)
{
    if (!(lease->account_known || lease->classified) || lease->thread_counted)
        return;
    lease->thread_counted = 1;
    lease->thread_account = lease->account;
    vl_slot_occupy(vl_leases.shm, lease->account, VL_OCCUPY);
}

void vl_lease_uncount_thread(vl_lease_t *lease)
{
    if (lease->thread_counted)
        vl_slot_unoccupy(vl_leases.shm, lease->thread_account);
    lease->thread_counted = 0;
}

/* An HTTP/2 connection keeps a thread of the MPM as long as its streams run. Returns 0
 * if its site has so many threads that none would be left for others. */
static int may_have_thread(vl_lease_t *lease)
{
    if (!lease->thread_counted
        && !vl_slot_occupy(vl_leases.shm, lease->account, VL_OCCUPY_ASK))
        return 0;
    lease->thread_counted = 1;
    lease->thread_account = lease->account;
    return 1;
}

/* Returns 1 if the client has closed an idle connection. Its input is then empty, or
 * over TLS an alert. That is no request and needs no lease. */
static int input_is_end(const vl_lease_t *lease)
{
    apr_uint32_t events = lease->suspended ? lease->events : vl_client_events(lease->fd);
    int length = 0;

    return (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
           && (!lease->frames || !lease->frames->streams)
           && !ioctl(lease->fd, FIONREAD, &length)
           && length <= (lease->client.tls ? ALERT_MAX : 0);
}

/* Returns 1 if the bytes of the next request are behind filters, so that only the thread of the
 * connection may look at them. */
static int is_hidden(const vl_lease_t *lease)
{
    return lease->client.tls || vl_has_pending_input(lease->c);
}

/* Returns 1 if the next request is another site's or client's than the last one: it is read now,
 * without a slot, and then waits where it belongs (vl_lease_park_request()). Without credit it does
 * not run before others. */
static int is_read_first(vl_lease_t *lease)
{
    if (lease->frames
        || !(is_hidden(lease) ? lease->reads_first : vl_leases.look(lease->c, lease->varies, 0)))
        return 0;
    __atomic_store_n(&lease->credit_us, 0, __ATOMIC_RELAXED);
    return 1;
}

void vl_lease_queue_locked(vl_lease_t *lease, apr_uint32_t account, const vl_client_id_t *client,
                           apr_int64_t since_us, int first)
{
    /* The MPM closes connections that wait for longer than Timeout. They are refused before
     * that, so that the client gets an answer. */
    apr_int64_t us = lease->c->base_server->timeout * 9 / 10;

    lease->waiter.account = account;
    lease->waiter.client = *client;
    lease->waiter.since_us = since_us;
    lease->waiter.deadline_us = since_us + (us < lease->queue_timeout_us
                                            ? us : lease->queue_timeout_us);
    lease->waiter.done = vl_lease_answer_locked;
    lease->waiter.in_mpm = 1;
    lease->waiter.may_defer = 1;
    lease->queued = 1;
    count_queued_locked(lease, 1);
    if (first)
        vl_waiters_put_back_locked(&lease->waiter);
    else
        vl_waiters_take_or_queue_locked(&lease->waiter, NULL);
}

/* A connection that cannot be queued may run. */
int vl_lease_request_slot_locked(vl_lease_t *lease, apr_int64_t since_us, int first)
{
    vl_grant_t grant = { 0 };

    vl_lease_renew(lease);
    /* VL_ASK_NEW admits nothing before queued requests. */
    if (!vl_slot_contended(vl_leases.shm)
        && vl_slot_ask(vl_leases.shm, lease->account, VL_ASK_NEW, 0, &grant.ticket)
           == APR_SUCCESS) {
        grant.holds = 1;
        grant.waited_us = lease->waited_us;     /* before the handshake */
        use_grant_locked(lease, &grant);
        return 1;
    }
    if (vl_leases.granting_ended || input_is_end(lease)
        || !(lease->frames ? vl_lease_make_poll_fd(lease) : lease->can_suspend)
        || (!first && is_read_first(lease))) {
        use_grant_locked(lease, &grant);
        return 1;
    }
    vl_lease_queue_locked(lease, lease->account, &lease->client_id, since_us, first);
    if (lease->queued)
        return 0;
    vl_lease_use_answer_locked(lease);
    return 1;
}

/* The credit of one client is none of the next one's. */
static int has_credit(const vl_lease_t *lease, apr_int64_t now_us)
{
    return !lease->varies && vl_lease_credit(lease) > 0
           && now_us - lease->idle_since_us < VL_LEASE_GRACE_US;
}

/* Continues a lease that has credit left and takes a slot for the next request. Returns
 * 0 if the lease is used up or has expired, or if the site is at its own limits. */
static int continue_locked(vl_lease_t *lease, apr_int64_t now_us)
{
    vl_grant_t grant = { 0 };

    if (!has_credit(lease, now_us))
        return 0;
    if (lease->frames && !lease->frames->streams)
        return may_have_thread(lease);
    if (lease->frames && !may_have_thread(lease))
        return 0;
    if (vl_slot_ask(vl_leases.shm, lease->account, lease->frames ? VL_ASK_LEASE : VL_ASK_KEPT, 0, &grant.ticket)
        != APR_SUCCESS) {
        vl_lease_uncount_thread(lease);
        return 0;
    }
    grant.holds = 1;
    use_grant_locked(lease, &grant);
    return 1;
}

int vl_lease_run_or_queue_locked(vl_lease_t *lease)
{
    apr_int64_t now_us = vl_clock_us();
    apr_int64_t since_us = now_us - lease->waited_us;
    int first = lease->requeue_at_head, runs;

    lease->requeue_at_head = 0;
    runs = vl_engage_is_dormant(vl_leases.shm) || !vl_lease_is_limited_locked(lease)
           || lease->streams_blocked
           || continue_locked(lease, now_us)
           || vl_lease_request_slot_locked(lease, since_us, first);
    lease->waited_us = lease->reads_first = 0;
    return runs;
}

int vl_lease_must_look(const vl_lease_t *lease)
{
    return !lease->http2 && is_hidden(lease) && lease->state == IDLE && !lease->ready && !lease->requeue_at_head
           && !vl_engage_is_dormant(vl_leases.shm) && vl_lease_is_limited_locked(lease)
           && !has_credit(lease, vl_clock_us());
}

/* --- suspended connections -------------------------------------------------- */

/* Makes the acceptor poll the socket, which has an event at once if it has input already. An
 * event comes once for each change (EPOLLET), so that it costs no other system call. */
static void watch_locked(vl_lease_t *lease, apr_uint32_t events)
{
    struct epoll_event ev = { events | EPOLLRDHUP | EPOLLET, { .ptr = lease } };
    int op = lease->in_input_set ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (!epoll_ctl(vl_leases.input_fd, op, lease->fd, &ev)) {
        lease->in_input_set = 1;
        return;
    }
    lease->state = EXPIRED;
    vl_lease_wake_locked(lease);
}

/* An idle connection has input. Queues it, or takes a slot for it. */
static void begin_request_locked(vl_lease_t *lease, apr_uint32_t events)
{
    vl_wheel_clear(&lease->timer);
    vl_lease_leave_ring_locked(lease);
    lease->events = events;
    lease->reads_first = vl_engage_is_dormant(vl_leases.shm);
    if (vl_lease_must_look(lease)) {
        vl_lease_wake_locked(lease);
        return;
    }
    lease->ready = vl_lease_run_or_queue_locked(lease);
    if (lease->ready)
        vl_lease_wake_locked(lease);
    else
        vl_lease_change_state_locked(lease, PARKED);
}

apr_uint32_t vl_lease_take_arrivals(vl_lease_t *lease)
{
    return __atomic_exchange_n(&lease->arrivals, 0, __ATOMIC_RELAXED);
}

apr_uint32_t vl_lease_arrivals(void)
{
    return __atomic_load_n(&vl_leases.arrivals, __ATOMIC_RELAXED);
}

/* A connection leaves the epoll set under the lock before its memory is freed. The set is
 * read under the lock too, so no event refers to a connection that has ended. */
void vl_lease_handle_input(void)
{
    struct epoll_event events[INPUT_BATCH];
    int i, n;

    vl_waiters_lock();
    n = epoll_wait(vl_leases.input_fd, events, INPUT_BATCH, 0);
    for (i = 0; i < n; i++) {
        vl_lease_t *lease = events[i].data.ptr;

        lease->has_events = 1;
        count_arrival_locked(lease);
        if (lease->busy || lease->ring == vl_leases.ready)
            continue;
        if (lease->state == IDLE && !lease->wants_output)
            begin_request_locked(lease, events[i].events);
        else if (lease->state == IDLE || (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
            vl_lease_wake_locked(lease);
    }
    vl_waiters_unlock();
}

/* Returns 1 if the socket has input or an end, which *ret_events tells. Without an event since
 * the run began there is none, but for input that the run did not read. */
static int has_more(const vl_lease_t *lease, apr_uint32_t *ret_events)
{
    char byte;
    ssize_t n;

    if (!lease->has_events)
        return 0;
    n = recv(lease->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);
    *ret_events = n > 0 ? 0 : EPOLLRDHUP;
    return n >= 0 || errno != EAGAIN;
}

void vl_lease_release_locked(vl_lease_t *lease)
{
    apr_uint32_t events;

    lease->busy = 0;
    if (lease->state == EXPIRED || lease->answer != NO_ANSWER)
        vl_lease_wake_locked(lease);
    else if (lease->state == IDLE && lease->wants_output)
        watch_locked(lease, EPOLLOUT);
    else if (lease->state == IDLE && has_more(lease, &events))
        begin_request_locked(lease, events);
    else if (lease->state == IDLE && vl_leases.stopping) {
        lease->state = EXPIRED;
        vl_lease_wake_locked(lease);
    }
    else if (lease->state == IDLE)
        watch_locked(lease, EPOLLIN);
    else if (!lease->in_input_set || lease->has_events)
        watch_locked(lease, 0);         /* an end that came during the run is an event again */
}
