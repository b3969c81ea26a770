/* SPDX-License-Identifier: Apache-2.0 */
/* The acceptor is a thread of ours in each child.  It sleeps on an epoll set of
 * the listening sockets (EPOLLEXCLUSIVE: one child wakes for a newcomer), of
 * connections whose head has not all come, and of the descriptor by which other
 * children say that they have granted us a slot.  Ten times a second it looks
 * for what time has changed: see vl_arrival_tick(), sockets that a stopping
 * child has handed on, the number of slots, and whether the MPM has closed its
 * listeners because this child stops.
 *
 * Under the prefork MPM the acceptor is no thread but one of the children, see
 * vl_prefork.c. */
#include "accept/vl_accept_int.h"

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
/* Accepted in one go; then whoever else has something to say. */
#define ACCEPT_BATCH 64
#define EVENTS 64

acceptor_t *vl_acceptor;

/* what: which listener or arrival, NULL: the wake-up descriptor. */
static void watch(int fd, apr_uint32_t events, void *what)
{
    struct epoll_event ev = { events, { .ptr = what } };

    epoll_ctl(vl_acceptor->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void listen_on(void)
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

/* 0: nobody is there.  When no descriptor is left the sockets would stay
 * readable: they are not heard until the next tick. */
static int accept_one(int i)
{
    const vl_local_t *local = &vl_acceptor->listeners.local[i];
    struct sockaddr_storage remote;
    socklen_t len = sizeof(remote);
    int fd = accept4(vl_acceptor->listeners.fds[i], (struct sockaddr *)&remote, &len, SOCK_CLOEXEC);

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

/* The MPM has closed its listeners: whose they are now may want to wait in
 * accept() as well. */
static int is_over(void)
{
    const ap_listen_rec *first = vl_acceptor->listeners.first;

    return first && !first->active;
}

/* i: of the listener. */
static void accept_some(int i)
{
    int n;

    for (n = 0; n < ACCEPT_BATCH && !is_over() && accept_one(i); n++)
        ;
}

/* Other children have granted us slots or handed connections on, or a worker
 * has something for vl_arrival_settle(). */
static void look_round(void)
{
    apr_uint64_t count;

    if (read(vl_shm_child_wake_fd(vl_acceptor->shm), &count, sizeof(count)) < 0)
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
    return vl_relay_acceptor_send(vl_acceptor->shm, vl_acceptor->relay, item,
                                  fd);
}

static int is_listener(const void *what)
{
    const int *fd = what, *fds = vl_acceptor->listeners.fds;

    return fd >= fds && fd < fds + vl_acceptor->listeners.n;
}

void vl_accept_wait_for_events(void)
{
    struct epoll_event events[EVENTS];
    int i, n;

    vl_watchdog_alive();
    if (vl_acceptor->relays)
        vl_arrival_relay(relay_one);
    n = epoll_pwait(vl_acceptor->epoll_fd, events, EVENTS, TICK_MS,
                    vl_acceptor->signals);
    for (i = 0; i < n; i++) {
        void *what = events[i].data.ptr;

        if (!what)
            look_round();
        else if (is_listener(what))
            accept_some((int)((const int *)what - vl_acceptor->listeners.fds));
        else
            vl_arrival_revisit(what, events[i].events);
    }
    vl_arrival_settle();
}

/* An exclusive wake-up is not said twice: one that a child used up which then
 * went deaf is made good for here. */
void vl_accept_resume_listening(void)
{
    int i;

    if (vl_acceptor->no_room)
        vl_accept_adopt();
    if (vl_acceptor->no_room)
        return;
    listen_on();
    for (i = 0; i < vl_acceptor->listeners.n; i++)
        accept_some(i);
}

static void charge_usage(void *data, apr_uint32_t account, apr_uint64_t us,
                         int resident)
{
    vl_charge_usage(vl_acceptor->shm, account, us, resident);
}

static void count_kills(void *data, apr_uint32_t account, apr_uint64_t kills)
{
    vl_charge_kills(vl_acceptor->shm, account, kills);
}

/* One child does, until it is gone. */
static void read_usage(apr_int64_t now_us)
{
    int mine = vl_charge_reads_usage(vl_acceptor->shm, now_us);

    if (mine) {
        vl_usage_child_read(vl_acceptor->usage, charge_usage, count_kills,
                            NULL);
        vl_yield_child_set(vl_charge_has_outside(vl_acceptor->shm, now_us));
    }
    else if (vl_acceptor->reads)
        vl_usage_child_close(vl_acceptor->usage);
    vl_acceptor->reads = mine;
}

static void tick(apr_int64_t now_us)
{
    int stuck;

    vl_slot_adjust(vl_acceptor->shm, now_us);
    vl_slot_revoke_stalled(vl_acceptor->shm, now_us);
    vl_meter_tick(now_us);
    vl_arrival_measure(vl_meter_thread_us());
    read_usage(now_us);
    vl_notice_tick(now_us);
    vl_lease_tick(now_us);
    stuck = vl_arrival_tick(now_us);
    if (!vl_acceptor->relays) {
        vl_accept_balance(stuck);
        return;
    }
    vl_relay_acceptor_tidy(vl_acceptor->shm, vl_acceptor->relay, now_us);
    vl_accept_resume_listening();
    vl_accept_adopt();
}

int vl_accept_is_ending(void)
{
    return __atomic_load_n(&vl_acceptor->ending, __ATOMIC_RELAXED);
}

static void accept_on(void)
{
    apr_int64_t ticked = 0, now;

    while (!is_over() && !vl_accept_is_ending()) {
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

    pthread_mutex_lock(&vl_acceptor->set_up);
    pthread_mutex_unlock(&vl_acceptor->set_up);
    /* Newcomers do not interrupt the work on those who have come: several are
     * sorted at once. */
    sched_setscheduler(0, SCHED_BATCH, &param);
    vl_listener_child_take_over(&vl_acceptor->listeners, vl_accept_is_ending);
    listen_on();
    accept_on();
    vl_watchdog_rest();
    return NULL;
}

/* Before the pool goes in which everything of ours lives. */
static apr_status_t stop(void *unused)
{
    apr_uint64_t one = 1;
    apr_status_t rv;

    __atomic_store_n(&vl_acceptor->ending, 1, __ATOMIC_RELAXED);
    if (write(vl_shm_child_wake_fd(vl_acceptor->shm), &one, sizeof(one)) > 0) {
        apr_thread_join(&rv, vl_acceptor->thread);
        vl_watchdog_stop();
        vl_accept_transfer_unbegun();
    }
    return APR_SUCCESS;
}

/* --- set-up --------------------------------------------------------------- */

/* The epoll set, and what is watched from the beginning.  Returns pass_fd, see
 * vl_arrival_child_init(), or -1: there are not enough descriptors. */
static int open_up(apr_pool_t *pchild)
{
    int pass_fd;

    vl_acceptor->not_listening = 1;
    vl_acceptor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (vl_acceptor->epoll_fd < 0)
        return -1;
    pass_fd = vl_arrival_child_init(pchild, vl_acceptor->main_server,
                                    vl_acceptor->shm, vl_acceptor->epoll_fd,
                                    vl_acceptor->most);
    if (pass_fd < 0) {
        close(vl_acceptor->epoll_fd);
        return -1;
    }
    watch(vl_shm_child_wake_fd(vl_acceptor->shm), EPOLLIN, NULL);
    return pass_fd;
}

static void warn_of(apr_status_t rv)
{
    ap_log_error(APLOG_MARK, APLOG_ERR, rv, vl_acceptor->main_server,
                 VLOGNO(0024) "connections cannot wait as sockets in this "
                 "child: %s", vl_acceptor->relays
                 ? "it tries again" : "their requests wait with threads");
}

static apr_status_t start_thread(apr_pool_t *pchild)
{
    apr_status_t rv;

    pthread_mutex_init(&vl_acceptor->set_up, NULL);
    pthread_mutex_lock(&vl_acceptor->set_up);
    rv = apr_thread_create(&vl_acceptor->thread, NULL, run, NULL, pchild);
    if (rv != APR_SUCCESS)
        vl_acceptor->thread = NULL;
    return rv;
}

/* Without the thread nobody would accept: it has to be there first.  Then it may
 * begin.  stand_ins: NULL, the MPM keeps its listeners. */
static apr_status_t begin_on(apr_pool_t *pchild, int *stand_ins)
{
    apr_status_t rv = start_thread(pchild);

    if (rv != APR_SUCCESS) {
        vl_listener_child_discard(stand_ins);
        return rv;
    }
    if (stand_ins)
        vl_listener_child_replace(pchild, stand_ins, &vl_acceptor->listeners);
    pthread_mutex_unlock(&vl_acceptor->set_up);
    vl_watchdog_start(pchild, vl_accept_stand_in);
    apr_pool_pre_cleanup_register(pchild, NULL, stop);
    return APR_SUCCESS;
}

static apr_status_t begin_with(apr_pool_t *pchild, int pass_fd)
{
    int *stand_ins;

    if (!vl_listener_may_replace())
        return begin_on(pchild, NULL);
    stand_ins = vl_listener_child_stand_ins(pchild, pass_fd);
    return stand_ins ? begin_on(pchild, stand_ins) : errno;
}

static void begin_thread(apr_pool_t *pchild)
{
    int pass_fd = open_up(pchild);
    apr_status_t rv = pass_fd < 0 ? errno : begin_with(pchild, pass_fd);

    if (rv == APR_SUCCESS)
        return;
    warn_of(rv);
    if (pass_fd >= 0) {
        close(pass_fd);
        close(vl_acceptor->epoll_fd);
    }
}

void vl_accept_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, const int handover[2],
                          const int relay[2], apr_uint32_t most,
                          vl_usage_t *usage)
{
    if (vl_shm_child_wake_fd(shm) < 0 || !vl_conf_knows_mpm())
        return;
    vl_acceptor = apr_pcalloc(pchild, sizeof(*vl_acceptor));
    vl_acceptor->shm = shm;
    vl_acceptor->handover = handover;
    vl_acceptor->relay = relay;
    vl_acceptor->usage = usage;
    vl_acceptor->main_server = main_server;
    vl_acceptor->most = most;
    vl_acceptor->pid_file = ap_runtime_dir_relative(pchild, ap_pid_fname);
    if (vl_listener_is_threaded())
        begin_thread(pchild);
    else if (vl_listener_may_replace())
        vl_acceptor->listeners.n = vl_prefork_child_init(pchild, shm, relay);
}

int vl_accept_open(apr_pool_t *pchild, const ap_listen_rec *real)
{
    vl_acceptor->relays = 1;
    if (vl_listener_child_copy(pchild, real, &vl_acceptor->listeners)) {
        if (open_up(pchild) >= 0)
            return 1;
        vl_listener_child_close(&vl_acceptor->listeners);
    }
    warn_of(errno);
    return 0;
}

void vl_accept_serve(const ap_listen_rec *first, const sigset_t *signals)
{
    vl_acceptor->listeners.first = first;
    vl_acceptor->signals = signals;
    listen_on();
    accept_on();
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
