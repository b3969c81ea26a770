/* SPDX-License-Identifier: Apache-2.0 */
/* The acceptor is a thread in each child. It sleeps on an epoll set of
 * - the listening sockets (EPOLLEXCLUSIVE: one child wakes for a connection),
 * - the connections whose head is incomplete,
 * - the descriptor by which other children tell this one of granted slots.
 * Ten times a second it handles timers (vl_arrival_tick()), connections that a
 * stopping child has transferred, and the number of slots. It also checks whether the
 * MPM has closed its listeners because this child stops.
 *
 * Under the prefork MPM the acceptor is one of the children and no thread, see
 * vl_prefork.c. */
#include "accept/vl_acceptor.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ap_listen.h>
#include <mpm_common.h>
#include <apr_strings.h>
#include <apr_thread_proc.h>

#include "accept/vl_arrival.h"
#include "base/vl_clock.h"
#include "config/vl_conf.h"
#include "accept/vl_watchdog.h"
#include "lease/vl_lease.h"
#include "accept/vl_listener.h"
#include "cost/vl_meter.h"
#include "log/vl_notice.h"
#include "accept/vl_prefork.h"
#include "base/vl_private.h"
#include "cgroup/vl_yield.h"

#define TICK_MS 100
/* Connections accepted in one go, before other events are handled. */
#define ACCEPT_BATCH 64
#define EVENTS 64

acceptor_t *vl_acceptor;

/* source: the listener or the connection; NULL: the wake-up descriptor. */
static void watch(int fd, apr_uint32_t events, void *source)
{
    struct epoll_event ev = { events, { .ptr = source } };

    epoll_ctl(vl_acceptor->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void watch_listeners(void)
{
    int i;

    for (i = 0; vl_acceptor->not_listening && i < vl_acceptor->listeners.n; i++)
        watch(vl_acceptor->listeners.fds[i], EPOLLIN | EPOLLEXCLUSIVE,
              &vl_acceptor->listeners.fds[i]);
    vl_acceptor->not_listening = 0;
}

void vl_accept_stop_listening(void)
{
    int i;

    for (i = 0; !vl_acceptor->not_listening && i < vl_acceptor->listeners.n; i++)
        epoll_ctl(vl_acceptor->epoll_fd, EPOLL_CTL_DEL,
                  vl_acceptor->listeners.fds[i], NULL);
    vl_acceptor->not_listening = 1;
}

static int is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS
           || error == ENOMEM;
}

/* Returns 0 if no connection was accepted. When no descriptor is left the listening
 * sockets stay readable, so they leave the epoll set until the next tick. */
static int accept_one(int i)
{
    const vl_local_t *local = &vl_acceptor->listeners.local[i];
    struct sockaddr_storage remote;
    socklen_t len = sizeof(remote);
    int fd = accept4(vl_acceptor->listeners.fds[i], (struct sockaddr *)&remote,
                     &len, SOCK_CLOEXEC);

    if (fd >= 0) {
        vl_arrival_come(fd, &remote, &local->address, local->length);
        return 1;
    }
    if (!is_shortage(errno))
        return 0;
    if (vl_arrival_spare() == VL_SPARED)
        return 1;
    vl_accept_stop_listening();
    return 0;
}

/* Returns 1 if the MPM has closed its listeners. Their next owner may set the sockets to
 * blocking mode, so this child must not call accept() any more. */
static int mpm_closed_listeners(void)
{
    const ap_listen_rec *first = vl_acceptor->listeners.first;

    return first && !first->active;
}

/* i: index of the listener. */
static void accept_batch(int i)
{
    int n;

    for (n = 0; n < ACCEPT_BATCH && !mpm_closed_listeners() && accept_one(i); n++)
        ;
}

/* Called when other children have granted slots or transferred connections, or a
 * worker needs vl_arrival_settle(). */
static void handle_wake_up(void)
{
    apr_uint64_t count;

    if (read(vl_shm_child_wake_fd(vl_child.shm), &count, sizeof(count)) < 0)
        return;
    vl_park_lock();
    vl_park_take_locked();
    vl_park_refill_locked();
    vl_park_unlock();
    if (!vl_acceptor->not_listening)
        vl_accept_adopt();
}

static apr_status_t relay_one(vl_item_t *item, int fd)
{
    return vl_relay_acceptor_send(vl_child.shm, vl_child.relay_pair,
                                  item, fd);
}

static int is_listener(const void *source)
{
    const int *fd = source, *fds = vl_acceptor->listeners.fds;

    return fd >= fds && fd < fds + vl_acceptor->listeners.n;
}

void vl_accept_wait_for_events(void)
{
    struct epoll_event events[EVENTS];
    int i, n;

    vl_watchdog_alive();
    if (vl_acceptor->is_prefork)
        vl_arrival_relay(relay_one);
    n = epoll_pwait(vl_acceptor->epoll_fd, events, EVENTS, TICK_MS,
                    vl_acceptor->signals);
    for (i = 0; i < n; i++) {
        void *source = events[i].data.ptr;

        if (!source)
            handle_wake_up();
        else if (is_listener(source))
            accept_batch((int)((const int *)source - vl_acceptor->listeners.fds));
        else
            vl_arrival_revisit(source, events[i].events);
    }
    vl_arrival_settle();
}

/* EPOLLEXCLUSIVE does not repeat a wake-up. This child may have consumed one and then
 * left the epoll set, so each listener is tried here. */
void vl_accept_resume_listening(void)
{
    int i;

    if (vl_acceptor->no_descriptors)
        vl_accept_adopt();
    if (vl_acceptor->no_descriptors)
        return;
    watch_listeners();
    for (i = 0; i < vl_acceptor->listeners.n; i++)
        accept_batch(i);
}

static void charge_usage(void *data, apr_uint32_t account, apr_uint64_t us,
                         int resident)
{
    vl_charge_usage(vl_child.shm, account, us, resident);
}

static void count_kills(void *data, apr_uint32_t account, apr_uint64_t kills)
{
    vl_charge_kills(vl_child.shm, account, kills);
}

/* One child reads for all until it ends. */
static void read_usage(apr_int64_t now_us)
{
    int mine = vl_charge_reads_usage(vl_child.shm, now_us);

    if (mine) {
        vl_usage_child_read(vl_child.usage, charge_usage, count_kills,
                            NULL);
        vl_yield_child_set(vl_charge_has_outside(vl_child.shm, now_us));
    }
    else if (vl_acceptor->reads_usage)
        vl_usage_child_close(vl_child.usage);
    vl_acceptor->reads_usage = mine;
}

static void tick(apr_int64_t now_us)
{
    int mpm_stalled;

    vl_slot_adjust(vl_child.shm, now_us);
    vl_slot_revoke_stalled(vl_child.shm, now_us);
    vl_meter_tick(now_us);
    vl_arrival_measure(vl_meter_thread_us());
    read_usage(now_us);
    vl_notice_tick(now_us);
    vl_lease_tick(now_us);
    mpm_stalled = vl_arrival_tick(now_us);
    if (!vl_acceptor->is_prefork) {
        vl_accept_balance(mpm_stalled);
        return;
    }
    vl_relay_acceptor_tidy(vl_child.shm, vl_child.relay_pair, now_us);
    vl_accept_resume_listening();
    vl_accept_adopt();
}

int vl_accept_is_ending(void)
{
    return __atomic_load_n(&vl_acceptor->stopping, __ATOMIC_RELAXED);
}

static void accept_until_stopped(void)
{
    apr_int64_t ticked = 0, now;

    while (!mpm_closed_listeners() && !vl_accept_is_ending()) {
        vl_accept_wait_for_events();
        now = vl_clock_us();
        if (now - ticked >= TICK_MS * 1000) {
            ticked = now;
            tick(now);
        }
    }
    vl_accept_leave();
}

static void *APR_THREAD_FUNC run(apr_thread_t *thread, void *data)
{
    struct sched_param param = { 0 };

    pthread_mutex_lock(&vl_acceptor->may_begin);
    pthread_mutex_unlock(&vl_acceptor->may_begin);
    /* New connections then do not preempt the work on accepted ones, so several are
     * classified per wake-up. */
    sched_setscheduler(0, SCHED_BATCH, &param);
    vl_listener_child_take_over(&vl_acceptor->listeners, vl_accept_is_ending);
    watch_listeners();
    accept_until_stopped();
    vl_watchdog_rest();
    return NULL;
}

/* Runs before the pool is destroyed that holds the acceptor's data. */
static apr_status_t stop(void *unused)
{
    apr_uint64_t one = 1;
    apr_status_t rv;

    __atomic_store_n(&vl_acceptor->stopping, 1, __ATOMIC_RELAXED);
    if (write(vl_shm_child_wake_fd(vl_child.shm), &one, sizeof(one)) > 0) {
        apr_thread_join(&rv, vl_acceptor->thread);
        vl_watchdog_stop();
        vl_accept_transfer_unbegun();
    }
    return APR_SUCCESS;
}

/* --- set-up --------------------------------------------------------------- */

/* Makes the epoll set with its first descriptors. Returns pass_fd
 * (vl_arrival_child_init()), or -1 if there are not enough descriptors. */
static int open_epoll(void)
{
    int pass_fd;

    vl_acceptor->not_listening = 1;
    vl_acceptor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (vl_acceptor->epoll_fd < 0)
        return -1;
    pass_fd = vl_arrival_child_init(vl_acceptor->epoll_fd);
    if (pass_fd < 0) {
        close(vl_acceptor->epoll_fd);
        return -1;
    }
    watch(vl_shm_child_wake_fd(vl_child.shm), EPOLLIN, NULL);
    return pass_fd;
}

static void log_failure(apr_status_t rv)
{
    ap_log_error(APLOG_MARK, APLOG_ERR, rv, vl_child.main_server,
                 VLOGNO(0024) "connections cannot wait as sockets in this "
                 "child: %s", vl_acceptor->is_prefork
                 ? "it tries again" : "their requests wait with threads");
}

static apr_status_t start_thread(apr_pool_t *pchild)
{
    apr_status_t rv;

    pthread_mutex_init(&vl_acceptor->may_begin, NULL);
    pthread_mutex_lock(&vl_acceptor->may_begin);
    rv = apr_thread_create(&vl_acceptor->thread, NULL, run, NULL, pchild);
    if (rv != APR_SUCCESS)
        vl_acceptor->thread = NULL;
    return rv;
}

/* Starts the thread before the listeners are replaced: without it no connection would
 * be accepted. Then the thread may begin. placeholders: NULL if the MPM keeps its
 * listeners. */
static apr_status_t start_with(apr_pool_t *pchild, int *placeholders)
{
    apr_status_t rv = start_thread(pchild);

    if (rv != APR_SUCCESS) {
        vl_listener_child_discard(placeholders);
        return rv;
    }
    if (placeholders)
        vl_listener_child_replace(pchild, placeholders, &vl_acceptor->listeners);
    pthread_mutex_unlock(&vl_acceptor->may_begin);
    vl_watchdog_start(pchild, vl_accept_stand_in);
    apr_pool_pre_cleanup_register(pchild, NULL, stop);
    return APR_SUCCESS;
}

static apr_status_t start_acceptor(apr_pool_t *pchild, int pass_fd)
{
    int *placeholders;

    if (!vl_listener_may_replace())
        return start_with(pchild, NULL);
    placeholders = vl_listener_child_stand_ins(pchild, pass_fd);
    return placeholders ? start_with(pchild, placeholders) : errno;
}

static void open_and_start(apr_pool_t *pchild)
{
    int pass_fd = open_epoll();
    apr_status_t rv = pass_fd < 0 ? errno : start_acceptor(pchild, pass_fd);

    if (rv == APR_SUCCESS)
        return;
    log_failure(rv);
    if (pass_fd >= 0) {
        close(pass_fd);
        close(vl_acceptor->epoll_fd);
    }
}

void vl_accept_child_init(void)
{
    if (vl_shm_child_wake_fd(vl_child.shm) < 0 || !vl_conf_knows_mpm())
        return;
    vl_acceptor = apr_pcalloc(vl_child.pool, sizeof(*vl_acceptor));
    vl_acceptor->pid_file = ap_runtime_dir_relative(vl_child.pool, ap_pid_fname);
    if (vl_listener_is_threaded())
        open_and_start(vl_child.pool);
    else if (vl_listener_may_replace())
        vl_acceptor->listeners.n = vl_prefork_child_init();
}

int vl_accept_open(const ap_listen_rec *real)
{
    vl_acceptor->is_prefork = 1;
    if (vl_listener_child_copy(vl_child.pool, real, &vl_acceptor->listeners)) {
        if (open_epoll() >= 0)
            return 1;
        vl_listener_child_close(&vl_acceptor->listeners);
    }
    log_failure(errno);
    return 0;
}

void vl_accept_serve(const ap_listen_rec *first, const sigset_t *signals)
{
    vl_acceptor->listeners.first = first;
    vl_acceptor->signals = signals;
    watch_listeners();
    accept_until_stopped();
}

void vl_accept_open_logs(void)
{
    if (vl_accept_works())
        vl_listener_open_logs();
}

int vl_accept_keeps_time(void)
{
    return vl_acceptor && vl_acceptor->thread;
}

int vl_accept_works(void)
{
    if (vl_acceptor)
        return vl_acceptor->listeners.n > 0;
    return vl_conf_knows_mpm() && vl_listener_may_replace()
           && vl_listener_is_there()
           && (vl_listener_is_threaded() || vl_prefork_can_spare_one());
}
