/* SPDX-License-Identifier: Apache-2.0 */
/* The acceptor sleeps on an epoll set of
 * - the listening sockets (EPOLLEXCLUSIVE: one child wakes for a connection),
 * - the connections that wait for input or are watched for their close,
 * - the epoll set of suspended connections (vl_lease_handle_input()),
 * - the descriptor by which other children tell this one of granted slots.
 * Ten times a second it does its timed work, see tick(). It also checks whether the MPM
 * has closed its listeners because this child stops.
 *
 * Connections come from the listening sockets, and from other children that have
 * transferred them. They go to the MPM (vl_newconn.h). They go to another child if this
 * one has no thread for them and the other one has, and when this one stops. */
#include "accept/vl_acceptor.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ap_mpm.h>
#include <apr_thread_proc.h>
#include <mpm_common.h>
#include <scoreboard.h>

#include "accept/vl_newconn.h"
#include "accept/vl_child.h"
#include "accept/vl_classify.h"
#include "accept/vl_listener.h"
#include "accept/vl_relay.h"
#include "accept/vl_rescue.h"
#include "accept/vl_transfer.h"
#include "base/vl_clock.h"
#include "base/vl_own.h"
#include "base/vl_private.h"
#include "core/vl_charge.h"
#include "core/vl_slot.h"
#include "core/vl_engage.h"
#include "core/vl_shm_child.h"
#include "cost/vl_meter.h"
#include "lease/vl_lease.h"
#include "log/vl_notice.h"

#define TICK_MS 100
/* Time between two looks whether queued connections need threads of other children. */
#define SPREAD_US 5000
/* Connections accepted in one go, before other events are handled. */
#define ACCEPT_BATCH 64
#define EVENTS 64
/* A stopping child waits as long for other children to start, and for clients to
 * close. */
#define WAIT_FOR_OTHERS_US (1 * APR_USEC_PER_SEC)
#define STOP_US (3 * APR_USEC_PER_SEC)
/* When the server stops at once, clients have as long to take their answers.  The parent
 * looks for ended children after 16, 82, 344 and 1368 ms (ap_reclaim_child_processes). */
#define END_US (100 * 1000)
/* The rescue process ends when the server has been dormant for so long. */
#define RESCUE_US (5 * APR_USEC_PER_SEC)
/* Attempts, 10 ms apart, before connections that no child receives are closed. */
#define TRANSFER_TRIES 100
/* Connections per message. Another child receives all of them, if it has descriptors
 * for all. */
#define TRANSFER_BATCH 16
/* Interval of the warning that no descriptors are left. */
#define FULL_WARN_US (60 * APR_USEC_PER_SEC)

/* More than an acceptor needs that only waits for a processor. */
#define STALLED_US (1 * APR_USEC_PER_SEC)
/* Intervals of the thread: while the acceptor runs, and while it is stalled. */
#define CHECK_US (500 * 1000)

/* States of the acceptor, and what changes them:
 *
 *   PAUSED    --a tick finds no reason against it-------------> LISTENING
 *             --enough other children accept (balance())------> STANDBY
 *             --no descriptor for a transferred connection----> FULL
 *             --the MPM closes its listeners, or child ends---> DRAINING
 *   LISTENING --no descriptor for a new connection------------> PAUSED
 *             --MPM stalled, or no thread is free (balance())-> PAUSED
 *             --enough other children accept (balance())------> STANDBY
 *             --no descriptor for a transferred connection----> FULL
 *             --the MPM closes its listeners, or child ends---> DRAINING
 *   STANDBY   --fewer other children accept-------------------> LISTENING
 *             --MPM stalled, or no thread is free (balance())-> PAUSED
 *             --no descriptor for a transferred connection----> FULL
 *             --the MPM closes its listeners, or child ends---> DRAINING
 *   FULL      --transferred connections were received---------> PAUSED
 *             --the MPM closes its listeners, or child ends---> DRAINING
 *   each      --the server becomes dormant (follow())---------> DORMANT
 *   DORMANT   --the server becomes engaged--------------------> PAUSED
 *             --the MPM closes its listeners, or child ends---> DRAINING
 *   DRAINING  is the last one. */
typedef enum {
    PAUSED,                         /* accepts no connection before the next tick */
    LISTENING,                      /* the listening sockets are in the epoll set */
    STANDBY,                        /* as PAUSED, until fewer other children accept */
    FULL,                           /* as PAUSED; connections from other children get
                                     * the next descriptors */
    DORMANT,                        /* the MPM accepts (vl_engage.h) */
    DRAINING                        /* the real listening sockets are closed */
} acceptor_state_e;

static struct {
    acceptor_state_e state;
    int is_prefork;                 /* the acceptor for all children, and no thread */
    int epoll_fd;
    const vl_listeners_t *listeners;
    const sigset_t *signals;        /* signal mask while it sleeps, or NULL */
    apr_uint32_t ended_requests;    /* requests that had ended here at the last tick */
    ap_generation_t generation;     /* of this child */
    int at_once;                    /* atomic: all children end now (SIGTERM, SIGHUP) */
    int stopping;                   /* atomic: the child ends, see stop() */
    int closing;                    /* atomic: the MPM is about to close its listeners */
    int cannot_rest;                /* the MPM cannot accept: this child accepts in both states */
    apr_int64_t rests_since_us;     /* DORMANT: since when */
    apr_int64_t spread_us;          /* when spread() last looked */
    apr_thread_t *thread;           /* NULL: there is no such thread */
    pthread_mutex_t may_begin;      /* the thread starts to accept when it gets this */
    vl_listeners_t replaced;        /* its listeners */
} acceptor;

/* --- signs of life for the watchdog ----------------------------------------- */

static struct {
    apr_thread_t *thread;
    apr_int64_t alive_us;           /* atomic: last sign of life; 0: it is not expected */
    pthread_mutex_t lock;
    pthread_cond_t stop;
    int stopping;                   /* under the lock */
} watchdog = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void show_alive(void)
{
    if (__atomic_exchange_n(&watchdog.alive_us, vl_clock_us(), __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&watchdog.lock);
    pthread_cond_signal(&watchdog.stop);
    pthread_mutex_unlock(&watchdog.lock);
}

/* --- listening ------------------------------------------------------------ */

/* Their addresses are the sources of events of vl_lease_input_fd(), and of the socket for transfers. */
static const int lease_input, transfer_input;

/* source: the listener, the connection or one of these; NULL: the wake-up descriptor.  Returns
 * 0, or -1 and errno: the kernel has no memory or no watch left (epoll_ctl(2)). */
static int watch(int fd, apr_uint32_t events, const void *source)
{
    struct epoll_event ev = { events, { .ptr = (void *)source } };

    return epoll_ctl(acceptor.epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void watch_listeners(void)
{
    int i;

    if (acceptor.state == LISTENING)
        return;
    acceptor.state = LISTENING;
    for (i = 0; i < acceptor.listeners->n; i++)
        watch(acceptor.listeners->fds[i], EPOLLIN | EPOLLEXCLUSIVE,
              &acceptor.listeners->fds[i]);
}

/* Tells the other children whether this one takes new connections. When it stops, one that
 * stands by has to take its place. */
static void set_accepting(int accepting, apr_int64_t now_us)
{
    if (vl_shm_child_set_accepting(vl_child.shm, accepting ? now_us : 0) && !accepting)
        vl_slot_wake_all(vl_child.shm);
}

static void stop_listening(acceptor_state_e state)
{
    int i;

    set_accepting(0, 0);
    if (acceptor.state == DORMANT)
        epoll_ctl(acceptor.epoll_fd, EPOLL_CTL_DEL, vl_child.transfer_pair[0], NULL);
    for (i = 0; acceptor.state == LISTENING && i < acceptor.listeners->n; i++)
        epoll_ctl(acceptor.epoll_fd, EPOLL_CTL_DEL, acceptor.listeners->fds[i],
                  NULL);
    acceptor.state = state;
}

static void pause_listening(void)
{
    if (acceptor.state == LISTENING)
        stop_listening(PAUSED);
}

/* Returns 1 if the MPM has closed its listeners. Their next owner may set the sockets to
 * blocking mode, so this child must not call accept() any more. */
static int mpm_closed_listeners(void)
{
    const ap_listen_rec *first = acceptor.listeners->first;

    return first && !first->active;
}

/* Accepts from the i-th listener. When no descriptor is left the listening sockets stay readable, so they
 * leave the epoll set until the next tick. */
static void accept_batch(int i)
{
    const vl_local_t *local = &acceptor.listeners->local[i];
    struct sockaddr_storage remote;
    socklen_t len;
    int fd, n;

    for (n = 0; n < ACCEPT_BATCH && !mpm_closed_listeners(); n++) {
        len = sizeof(remote);
        fd = accept4(acceptor.listeners->fds[i], (struct sockaddr *)&remote, &len, SOCK_CLOEXEC);
        if (fd >= 0) {
            vl_newconn_accepted(fd, &remote, &local->address, local->length);
            continue;
        }
        if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
            return;
        if (vl_newconn_free_descriptor() != VL_FREED) {
            pause_listening();
            return;
        }
    }
}

/* --- connections from other children -------------------------------------- */

void vl_acceptor_warn_full(void)
{
    static apr_int64_t warned;
    apr_int64_t now = vl_clock_us();

    if (warned && now - warned < FULL_WARN_US)
        return;
    warned = now;
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, vl_child.main_server,
                 VLOGNO(0033) "no file descriptors left for connections that "
                 "other children transfer to this one: they stay queued. Raise "
                 "LimitNOFILE");
}

/* Receives the connections that other children have transferred. When no descriptor is
 * left, they come before new ones. */
static void receive_transfers(void)
{
    vl_batch_t batch;
    apr_status_t rv;
    apr_size_t i;

    do {
        rv = vl_transfer_receive(vl_child.transfer_pair, batch.fds, batch.passed,
                                 &batch.n);
        /* Until they are classified, one after the other, they have no record. */
        vl_waiters_lock();
        for (i = 0; i < batch.n; i++)
            vl_rescue_note(batch.fds[i], &batch.passed[i]);
        vl_waiters_unlock();
        for (i = 0; i < batch.n; i++)
            vl_newconn_received(batch.fds[i], &batch.passed[i], 0);
    } while (rv == APR_SUCCESS
             || (rv == APR_EMFILE && vl_newconn_free_descriptor() == VL_FREED));
    if (rv == APR_EMFILE) {
        vl_acceptor_warn_full();
        if (acceptor.state != DRAINING)
            stop_listening(FULL);
    }
    else if (acceptor.state == FULL) {
        acceptor.state = PAUSED;
    }
}

/* Begins to listen again, unless this child is FULL. EPOLLEXCLUSIVE does not repeat a
 * wake-up. This child may have consumed one and then left the epoll set, so each
 * listener is tried here. */
static void resume_listening(void)
{
    int i;

    if (acceptor.state == DORMANT)
        return;
    if (acceptor.state == FULL)
        receive_transfers();
    if (acceptor.state == FULL)
        return;
    watch_listeners();
    for (i = 0; i < acceptor.listeners->n; i++)
        accept_batch(i);
}

/* --- the two states of the server (vl_engage.h) ------------------------------ */

/* Gives the listening sockets to the MPM, or takes them back, when the server has become dormant
 * or engaged. */
static void follow(void)
{
    int rests = !acceptor.cannot_rest && vl_engage_is_dormant(vl_child.shm);

    if (rests && acceptor.is_prefork && acceptor.state != DORMANT) {
        stop_listening(DORMANT);
        vl_relay_wake_all(vl_child.shm);
        return;
    }
    if (rests && acceptor.state != DORMANT && acceptor.state != FULL) {
        stop_listening(DORMANT);
        /* The sender may have other shared memory, so that it cannot wake this acceptor. */
        watch(vl_child.transfer_pair[0], EPOLLIN | EPOLLEXCLUSIVE, &transfer_input);
        acceptor.rests_since_us = vl_clock_us();
        acceptor.cannot_rest = !vl_listener_child_let_mpm(1);
        rests = !acceptor.cannot_rest;
    }
    if (!rests && acceptor.state == DORMANT) {
        vl_listener_child_let_mpm(0);
        stop_listening(PAUSED);
        resume_listening();
        vl_rescue_start();
    }
}

/* --- connections to other children ---------------------------------------- */

/* Sends the connections of the batch from this index on, and closes those that were
 * sent. Returns the index of the first one that was not: other children have not
 * received earlier ones yet. */
static apr_size_t send_batch(const vl_batch_t *batch, apr_size_t from)
{
    apr_size_t some;

    for (; from < batch->n; from += some) {
        some = batch->n - from < TRANSFER_BATCH ? batch->n - from : TRANSFER_BATCH;
        if (vl_transfer_send(vl_child.transfer_pair, batch->fds + from,
                             batch->passed + from, some) != APR_SUCCESS)
            break;
        vl_transfer_close(batch->fds + from, some);
    }
    vl_slot_wake_all(vl_child.shm);
    return from;
}

/* Transfers up to `max` of these connections in one batch, and takes back those that
 * could not be sent. Returns 1 if all were sent, 0 if there was none. */
static int transfer_batch(vl_take_e which, apr_size_t max)
{
    vl_batch_t batch;
    apr_size_t sent, i;

    vl_newconn_take(which, max < VL_TRANSFER_MAX ? max : VL_TRANSFER_MAX, &batch);
    if (!batch.n)
        return 0;
    sent = send_batch(&batch, 0);
    for (i = sent; i < batch.n; i++)
        vl_newconn_received(batch.fds[i], &batch.passed[i], 1);
    return sent == batch.n;
}

/* Transfers all connections that wait here. */
static void transfer_all(void)
{
    while (transfer_batch(VL_TAKE_WAITING, VL_TRANSFER_MAX))
        ;
}

/* Transfers queued connections to children with free threads when this one has none left.
 * Requests that sleep need many threads, and waiting for the next tick would cost them more
 * time than their turn. */
static void spread(void)
{
    apr_int64_t now_us = vl_clock_us();
    vl_capacity_t capacity;

    if (acceptor.state != LISTENING || acceptor.is_prefork
        || now_us - acceptor.spread_us < SPREAD_US
        || (!vl_newconn_queued() && !vl_newconn_for_mpm()))
        return;
    acceptor.spread_us = now_us;
    vl_slot_capacity(vl_child.shm, &capacity);
    if (!capacity.here && capacity.elsewhere)
        transfer_batch(VL_TAKE_QUEUED, capacity.elsewhere);
}

/* The workers of a stopping event MPM exit as soon as the connections are no more than
 * the workers that are left. Sockets in their queue are not counted
 * (worker_thread_should_exit_early), so they would be lost. */
static void transfer_unbegun(void)
{
    int tries = TRANSFER_TRIES;
    vl_batch_t batch;
    apr_size_t sent;

    for (;;) {
        vl_newconn_take(VL_TAKE_UNBEGUN, VL_TRANSFER_MAX, &batch);
        if (!batch.n)
            return;
        sent = send_batch(&batch, 0);
        while (sent < batch.n && tries-- > 0) {
            apr_sleep(10 * 1000);
            sent = send_batch(&batch, sent);
        }
        vl_transfer_close(batch.fds + sent, batch.n - sent);
    }
}

/* --- events --------------------------------------------------------------- */

/* Called when other children have granted slots, transferred connections or died, or a
 * worker needs vl_newconn_after_events(). */
static void handle_wake_up(void)
{
    apr_uint64_t count;

    if (read(vl_shm_child_wake_fd(vl_child.shm), &count, sizeof(count)) < 0)
        return;
    vl_shm_child_reclaim_dead(vl_child.shm);
    vl_waiters_lock();
    vl_waiters_let_calls_locked();
    vl_waiters_take_locked();
    vl_waiters_refill_locked();
    vl_waiters_unlock();
    follow();
    if (acceptor.state == STANDBY && !vl_shm_child_is_standby(vl_child.shm, vl_clock_us()))
        resume_listening();
    if (acceptor.state == LISTENING || acceptor.state == STANDBY)
        receive_transfers();
}

/* Handles the events of one epoll_pwait(), which lasts until the next tick at most. */
static void wait_for_events(void)
{
    const int *fds = acceptor.listeners->fds;
    struct epoll_event events[EVENTS];
    int i, n, timeout_ms = TICK_MS;

    show_alive();
    if (acceptor.is_prefork && acceptor.state == DORMANT)
        vl_newconn_pass_all();
    if (acceptor.is_prefork)
        vl_newconn_relay();
    /* Without an end while there is nothing to do in time. Then no sign of life is expected. */
    if (acceptor.state == DORMANT && !vl_newconn_count() && !vl_lease_has_timers() && !vl_rescue_runs()
        && !__atomic_load_n(&acceptor.closing, __ATOMIC_RELAXED)
        && vl_engage_state(vl_child.shm).form != VL_FORM_TOGGLED) {
        __atomic_store_n(&watchdog.alive_us, 0, __ATOMIC_RELAXED);
        timeout_ms = -1;
    }
    n = epoll_pwait(acceptor.epoll_fd, events, EVENTS, timeout_ms, acceptor.signals);
    for (i = 0; i < n; i++) {
        void *source = events[i].data.ptr;

        if (!source)
            handle_wake_up();
        else if (source == &lease_input)
            vl_lease_handle_input();
        else if (source == &transfer_input)
            receive_transfers();
        else if ((const int *)source >= fds && (const int *)source < fds + acceptor.listeners->n)
            accept_batch((int)((const int *)source - fds));
        else
            vl_newconn_handle_event(source, events[i].events);
    }
    vl_newconn_after_events();
    spread();
}

/* --- the watchdog ------------------------------------------------------------ */

/* This thread handles timers while the acceptor is stalled, for example in a write to a log that is
 * not read, or on a file system that does not answer. It passes connections that are granted slots
 * to the MPM, and refuses connections whose deadline has passed. It opens, reads and logs nothing,
 * so it cannot stall where the acceptor does. */

/* The watchdog calls it ten times a second, concurrently with a stalled acceptor. */
static void work_while_stalled(apr_int64_t now_us)
{
    vl_capacity_t capacity;
    int mpm_stalled = vl_newconn_tick(now_us, 1);

    if (vl_lease_input_fd() >= 0)
        vl_lease_handle_input();
    /* Nothing is accepted or classified. Queued connections are still granted slots, or
     * transferred to children with free threads. */
    vl_slot_capacity(vl_child.shm, &capacity);
    if (mpm_stalled && capacity.elsewhere)
        transfer_all();
}

/* Waits without an end while no sign of life is expected. */
static void wait_until_locked(apr_int64_t until_us)
{
    struct timespec until = {
        (time_t)(until_us / APR_USEC_PER_SEC),
        (long)(until_us % APR_USEC_PER_SEC) * 1000
    };

    while (!watchdog.stopping && !__atomic_load_n(&watchdog.alive_us, __ATOMIC_RELAXED))
        pthread_cond_wait(&watchdog.stop, &watchdog.lock);
    while (!watchdog.stopping && vl_clock_us() < until_us)
        pthread_cond_timedwait(&watchdog.stop, &watchdog.lock, &until);
}

static void *APR_THREAD_FUNC watch_acceptor(apr_thread_t *thread, void *unused)
{
    pthread_mutex_lock(&watchdog.lock);
    while (!watchdog.stopping) {
        apr_int64_t now_us = vl_clock_us();
        apr_int64_t alive_us = __atomic_load_n(&watchdog.alive_us, __ATOMIC_RELAXED);
        int stalled = alive_us && now_us - alive_us > STALLED_US;

        if (stalled) {
            pthread_mutex_unlock(&watchdog.lock);
            work_while_stalled(now_us);
            pthread_mutex_lock(&watchdog.lock);
        }
        wait_until_locked(now_us + (stalled ? TICK_MS * 1000 : CHECK_US));
    }
    pthread_mutex_unlock(&watchdog.lock);
    return NULL;
}

static void start_watchdog(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, VL_CLOCK);
    pthread_cond_init(&watchdog.stop, &attr);
    pthread_condattr_destroy(&attr);
    if (apr_thread_create(&watchdog.thread, NULL, watch_acceptor, NULL,
                          vl_child.pool) != APR_SUCCESS)
        watchdog.thread = NULL;
}

/* --- timed work ----------------------------------------------------------- */

static void count_kills(void *data, apr_uint32_t account, apr_uint64_t kills)
{
    vl_charge_kills(vl_child.shm, account, kills);
}

/* Decides whether this child accepts connections until the next tick, and which ones it
 * exchanges with other children. mpm_stalled: the MPM takes no connections.
 *
 *   free threads here / elsewhere    listens                  connections
 *   MPM stalled       / some         no                       transfers all that wait
 *   none              / some         while its requests end   transfers queued ones
 *   MPM stalled       / none         yes                      -
 *   otherwise                        unless it stands by      receives transferred ones
 *
 * As many children accept as the server has processors, because more acceptors cannot run at
 * the same time. Then the connections, and the memory that serves them, are in few processes,
 * and a processor seldom switches from one process to another (docs/design/009-acceptors.md).
 * A child with few free threads or descriptors does not count, so another one accepts in its place. */
static void balance(int mpm_stalled, apr_int64_t now_us)
{
    vl_capacity_t capacity;
    int requests_end;

    vl_slot_capacity(vl_child.shm, &capacity);
    requests_end = capacity.ended != acceptor.ended_requests;
    acceptor.ended_requests = capacity.ended;
    if (mpm_stalled && capacity.elsewhere) {
        pause_listening();
        transfer_all();
    }
    else if (!capacity.here && capacity.elsewhere) {
        /* What is passed without being admitted waits for a thread although requests end. */
        if (requests_end && !vl_newconn_for_mpm())
            resume_listening();
        else
            pause_listening();
        transfer_batch(VL_TAKE_QUEUED, capacity.elsewhere);
    }
    else {
        if (acceptor.state != FULL && vl_shm_child_is_standby(vl_child.shm, now_us))
            stop_listening(STANDBY);
        else
            resume_listening();
        if (!mpm_stalled)
            receive_transfers();
    }
    set_accepting(acceptor.state == LISTENING && capacity.here > capacity.most / 4
                  && vl_newconn_has_descriptors(), now_us);
}

static void tick(apr_int64_t now_us)
{
    int mpm_stalled;

    vl_shm_child_reclaim_dead(vl_child.shm);
    vl_slot_revoke_stalled(vl_child.shm, now_us);
    vl_own_refresh(now_us);
    vl_meter_tick(now_us);
    vl_newconn_measure_arrivals(vl_meter_thread_us(), now_us);
    if (vl_charge_credit(vl_child.shm, now_us))         /* one child does this for all until it ends */
        vl_kills_child_read(vl_child.kills, count_kills, NULL);
    vl_notice_tick(now_us);
    vl_lease_tick(now_us);
    mpm_stalled = vl_newconn_tick(now_us, 0);
    vl_engage_tick(vl_child.shm, now_us, acceptor.is_prefork ? vl_newconn_count() : 0);
    follow();
    /* The rescue process is of use while connections are queued here. */
    if (acceptor.state != DORMANT)
        vl_rescue_start();
    else if (now_us - acceptor.rests_since_us > RESCUE_US && !vl_newconn_count())
        vl_rescue_stop();
    if (acceptor.is_prefork) {
        vl_relay_acceptor_tidy(vl_child.shm, vl_child.relay_pair, now_us);
        resume_listening();
        if (acceptor.state != DORMANT)
            receive_transfers();
    }
    else if (acceptor.state != DORMANT) {
        balance(mpm_stalled, now_us);
    }
}

/* --- the end -------------------------------------------------------------- */

/* Takes back connections that were relayed and that no child has received. */
static void recall_relayed(void)
{
    vl_passed_t passed;
    int fd;

    while (acceptor.is_prefork
           && vl_relay_acceptor_recall(vl_child.relay_pair, &passed, &fd)
              == APR_SUCCESS)
        vl_newconn_received(fd, &passed, 0);
}

/* Returns 1 if connections would be lost if the acceptor ended now. */
static int has_connections(void)
{
    return vl_newconn_count() > 0
           || (acceptor.is_prefork && vl_relay_pending(vl_child.relay_pair));
}

/* Connections are transferred to the other children. If none has started for a second,
 * they are transferred to a child that is about to start, or, when the server stops,
 * answered with 503. at_once: all children end now, and others start after them. */
static void empty(apr_int64_t elapsed_us, int at_once)
{
    if (!at_once && (acceptor.is_prefork ? vl_relay_has_acceptor(vl_child.shm)
                                         : vl_shm_child_count_active(vl_child.shm) > 0)) {
        transfer_all();
        return;
    }
    if (elapsed_us <= WAIT_FOR_OTHERS_US && !at_once)
        return;
    /* Before a restart the parent advances the generation. Before a graceful stop it removes its
     * pid file. At SIGTERM it does neither until its children have ended. */
    if ((at_once && acceptor.generation == ap_scoreboard_image->global->running_generation)
        || (access(vl_child.pid_file, F_OK) && errno == ENOENT)) {
        receive_transfers();
        recall_relayed();
        vl_newconn_answer_all();
    }
    else {
        recall_relayed();
        transfer_all();
    }
}

static int is_stopping(void)
{
    return __atomic_load_n(&acceptor.stopping, __ATOMIC_RELAXED);
}

/* Closing connections get the time that the MPM gives its own when the server stops. */
static void drain(void)
{
    apr_int64_t start_us = vl_clock_us(), end_us = start_us + STOP_US, now_us;
    int at_once = 0;

    vl_listener_child_let_mpm(0);
    stop_listening(DRAINING);
    vl_listener_child_close(acceptor.listeners);
    vl_shm_child_drain(vl_child.shm);
    vl_lease_child_drain();
    if (acceptor.is_prefork)
        vl_relay_acceptor_resign(vl_child.shm);
    do {
        now_us = vl_clock_us();
        if (!at_once && __atomic_load_n(&acceptor.at_once, __ATOMIC_RELAXED)) {
            at_once = 1;
            end_us = now_us + END_US;
        }
        empty(now_us - start_us, at_once);
        if (has_connections() || vl_lease_queued())
            wait_for_events();
        vl_lease_tick(vl_clock_us());
    } while (has_connections() && now_us < end_us);
    /* Established connections are granted leases as long as the MPM serves them. */
    while (vl_lease_parks() && !is_stopping()) {
        wait_for_events();
        vl_lease_tick(vl_clock_us());
    }
    vl_lease_child_end();
}

/* --- the life of the acceptor --------------------------------------------- */

int vl_acceptor_open(int is_prefork)
{
    int pass_fd;

    acceptor.is_prefork = is_prefork;
    ap_mpm_query(AP_MPMQ_GENERATION, &acceptor.generation);
    acceptor.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (acceptor.epoll_fd < 0)
        return -1;
    vl_classify_child_init();
    pass_fd = vl_newconn_child_init(acceptor.epoll_fd);
    if (pass_fd < 0) {
        close(acceptor.epoll_fd);
        return -1;
    }
    /* Without it each grant would wait for the next tick. */
    if (watch(vl_shm_child_wake_fd(vl_child.shm), EPOLLIN, NULL)) {
        close(pass_fd);
        close(acceptor.epoll_fd);
        return -1;
    }
    vl_rescue_child_init();
    return pass_fd;
}

void vl_acceptor_fail(int pass_fd, apr_status_t rv, const char *consequence)
{
    ap_log_error(APLOG_MARK, APLOG_ERR, rv, vl_child.main_server,
                 VLOGNO(0024) "this child has no descriptors or no thread for "
                 "its acceptor: %s. Raise LimitNOFILE or TasksMax", consequence);
    if (pass_fd >= 0) {
        close(pass_fd);
        close(acceptor.epoll_fd);
    }
}

void vl_acceptor_run(const vl_listeners_t *listeners, const sigset_t *signals)
{
    apr_int64_t ticked = acceptor.is_prefork ? vl_clock_us() : 0, now;

    acceptor.listeners = listeners;
    acceptor.signals = signals;
    follow();
    if (acceptor.state != DORMANT) {
        watch_listeners();
        vl_rescue_start();
    }
    while (!mpm_closed_listeners() && !is_stopping()) {
        if (acceptor.is_prefork && acceptor.state == DORMANT && !vl_newconn_count()) {
            vl_rescue_stop();
            vl_relay_acceptor_resign(vl_child.shm);
            return;
        }
        wait_for_events();
        now = vl_clock_us();
        if (now - ticked >= TICK_MS * 1000) {
            ticked = now;
            tick(now);
        }
    }
    drain();
    __atomic_store_n(&watchdog.alive_us, 0, __ATOMIC_RELAXED);
}

/* --- the acceptor as a thread ----------------------------------------------- */

#if AP_MODULE_MAGIC_AT_LEAST(20120211, 110)
/* child_stopping hook: the MPM is about to close its listeners, so a sleeping acceptor looks for that
 * from now on. Prefork calls it for a child that ends alone, too. */
static void expect_end(apr_pool_t *pchild, int graceful)
{
    if (!acceptor.thread)
        return;
    if (!graceful)
        __atomic_store_n(&acceptor.at_once, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&acceptor.closing, 1, __ATOMIC_RELAXED);
    vl_slot_wake_self(vl_child.shm);
}
#endif

void vl_acceptor_register(void)
{
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 110)
    ap_hook_child_stopping(expect_end, NULL, NULL, APR_HOOK_MIDDLE);
#endif
}

/* Runs before the pool is destroyed that holds the acceptor's data. */
static apr_status_t stop(void *unused)
{
    apr_uint64_t one = 1;
    apr_status_t rv;

    __atomic_store_n(&acceptor.stopping, 1, __ATOMIC_RELAXED);
    if (write(vl_shm_child_wake_fd(vl_child.shm), &one, sizeof(one)) > 0) {
        apr_thread_join(&rv, acceptor.thread);
        if (watchdog.thread) {
            pthread_mutex_lock(&watchdog.lock);
            watchdog.stopping = 1;
            pthread_cond_signal(&watchdog.stop);
            pthread_mutex_unlock(&watchdog.lock);
            apr_thread_join(&rv, watchdog.thread);
            watchdog.thread = NULL;
        }
        transfer_unbegun();
    }
    return APR_SUCCESS;
}

static void *APR_THREAD_FUNC run(apr_thread_t *thread, void *data)
{
    struct sched_param param = { 0 };
    int tries;

    pthread_mutex_lock(&acceptor.may_begin);
    pthread_mutex_unlock(&acceptor.may_begin);
    /* New connections then do not preempt the work on accepted ones, so several are
     * classified per wake-up. */
    sched_setscheduler(0, SCHED_BATCH, &param);
    for (tries = 0; !vl_listener_child_take_over(&acceptor.replaced) && !is_stopping(); tries++) {
        if (tries == VL_LISTENER_TRIES)
            vl_listener_report_wait();
        apr_sleep(1000);
    }
    vl_acceptor_run(&acceptor.replaced, NULL);
    return NULL;
}

/* Starts the thread, and then replaces the listeners: without the thread no connection
 * would be accepted. */
static apr_status_t start(int pass_fd)
{
    int *placeholders = NULL;       /* NULL: the MPM keeps its listeners */
    apr_status_t rv;

    if (!vl_listener_obstacle()) {
        placeholders = vl_listener_child_placeholders(pass_fd);
        if (!placeholders)
            return errno;
    }
    pthread_mutex_init(&acceptor.may_begin, NULL);
    pthread_mutex_lock(&acceptor.may_begin);
    rv = apr_thread_create(&acceptor.thread, NULL, run, NULL, vl_child.pool);
    if (rv != APR_SUCCESS) {
        acceptor.thread = NULL;
        if (placeholders)
            vl_listener_child_discard(placeholders);
        return rv;
    }
    if (placeholders)
        vl_listener_child_replace(placeholders, &acceptor.replaced);
    apr_pool_pre_cleanup_register(vl_child.pool, NULL, stop);
    return APR_SUCCESS;
}

int vl_acceptor_child_start(void)
{
    int pass_fd = vl_acceptor_open(0);
    apr_status_t rv = pass_fd < 0 ? errno : start(pass_fd);

    if (rv != APR_SUCCESS)
        vl_acceptor_fail(pass_fd, rv, "its requests wait with their threads");
    return acceptor.replaced.n > 0;
}

void vl_acceptor_child_begin(void)
{
    if (!acceptor.thread)
        return;
    if (vl_lease_input_fd() >= 0)
        watch(vl_lease_input_fd(), EPOLLIN, &lease_input);
    pthread_mutex_unlock(&acceptor.may_begin);
    start_watchdog();
}

int vl_acceptor_is_thread(void)
{
    return acceptor.thread != NULL;
}
