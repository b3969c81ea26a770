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
#include "vl_accept.h"

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

#include "vl_arrival.h"
#include "vl_clock.h"
#include "vl_deputy.h"
#include "vl_handover.h"
#include "vl_listener.h"
#include "vl_meter.h"
#include "vl_notice.h"
#include "vl_prefork.h"
#include "vl_press.h"
#include "vl_private.h"

#define TICK_MS 100
/* Accepted in one go; then whoever else has something to say. */
#define ACCEPT_BATCH 64
#define EVENTS 64
/* As long as a child that stops waits for other children to begin, and for
 * clients to close. */
#define ALONE_US (1 * APR_USEC_PER_SEC)
#define LEAVE_US (3 * APR_USEC_PER_SEC)
/* Tries, 10 ms apart, to hand on what nobody reads. */
#define HANDOVER_TRIES 100
/* Handed on at once: another child takes all of them when it has room for all. */
#define HANDOVER_BATCH 16
/* How often a child says that it has no room. */
#define FULL_WARN_US (60 * APR_USEC_PER_SEC)

static struct acceptor_t {
    vl_shm_t *shm;
    int epoll_fd;
    vl_listeners_t listeners;
    int relays;                     /* to the other children: the prefork MPM */
    const sigset_t *signals;        /* its mask while it sleeps, or NULL */
    int deaf;                       /* no listener is in the set, for a while */
    int no_room;                    /* for those who were handed on */
    int relay_deaf;                 /* what comes back is not in the set */
    apr_uint32_t ended;             /* requests of this child, at the last tick */
    const int *handover;
    const int *relay;
    const char *pid_file;
    server_rec *main_server;
    apr_uint32_t most;
    vl_usage_t *usage;
    int reads;                      /* it, for all children */
    apr_thread_t *thread;
    pthread_mutex_t set_up;         /* it begins when it gets this */
    int ending;                     /* atomic: the thread is to stop */
} *acceptor;

/* what: which listener or arrival, NULL: the wake-up descriptor, &relay: what
 * children send back. */
static void watch(int fd, apr_uint32_t events, void *what)
{
    struct epoll_event ev = { events, { .ptr = what } };

    epoll_ctl(acceptor->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void listen_on(void)
{
    int i;

    for (i = 0; acceptor->deaf && i < acceptor->listeners.n; i++)
        watch(acceptor->listeners.fds[i], EPOLLIN | EPOLLEXCLUSIVE,
              &acceptor->listeners.fds[i]);
    acceptor->deaf = 0;
}

static void go_deaf(void)
{
    int i;

    for (i = 0; !acceptor->deaf && i < acceptor->listeners.n; i++)
        epoll_ctl(acceptor->epoll_fd, EPOLL_CTL_DEL, acceptor->listeners.fds[i],
                  NULL);
    acceptor->deaf = 1;
}

static int is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS
           || error == ENOMEM;
}

/* 0: nobody is there.  When no descriptor is left the sockets would stay
 * readable: they are not heard until the next tick. */
static int accept_one(int listener)
{
    struct sockaddr_storage remote;
    socklen_t len = sizeof(remote);
    int fd = accept4(listener, (struct sockaddr *)&remote, &len, SOCK_CLOEXEC);

    if (fd >= 0) {
        vl_arrival_come(fd, &remote);
        return 1;
    }
    if (!is_shortage(errno))
        return 0;
    if (vl_arrival_spare())
        return 1;
    go_deaf();
    return 0;
}

static void accept_some(int listener)
{
    int i;

    for (i = 0; i < ACCEPT_BATCH && accept_one(listener); i++)
        ;
}

void vl_accept_warn_full(void)
{
    static apr_int64_t warned;
    apr_int64_t now = vl_clock_us();

    if (warned && now - warned < FULL_WARN_US)
        return;
    warned = now;
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, acceptor->main_server,
                 VLOGNO(0033) "this child has no descriptors left for "
                 "connections from other children: they wait until it has "
                 "some, or another child");
}

static apr_status_t adopt_some(void)
{
    int fds[VL_HANDOVER_MAX];
    apr_size_t i, n;
    apr_status_t rv = vl_handover_receive(acceptor->handover, fds, &n);

    for (i = 0; i < n; i++)
        vl_arrival_come(fds[i], NULL);
    return rv;
}

/* What another child has handed on is sorted like a newcomer, and when there is
 * no descriptor left comes before newcomers. */
static void adopt(void)
{
    apr_status_t rv;

    do {
        rv = adopt_some();
    } while (rv == APR_SUCCESS || (rv == APR_EMFILE && vl_arrival_spare()));
    acceptor->no_room = rv == APR_EMFILE;
    if (acceptor->no_room) {
        vl_accept_warn_full();
        go_deaf();
    }
}

/* Other children have granted us slots or handed connections on, or a worker
 * has something for vl_arrival_settle(). */
static void look_round(void)
{
    apr_uint64_t count;

    if (read(vl_shm_child_wake_fd(acceptor->shm), &count, sizeof(count)) < 0)
        return;
    vl_park_lock();
    vl_park_take_locked();
    vl_park_unlock();
    if (!acceptor->deaf)
        adopt();
}

static apr_status_t relay_one(vl_item_t *item, int fd)
{
    return vl_relay_acceptor_send(acceptor->shm, acceptor->relay, item, fd);
}

static void hear_relay(void)
{
    watch(acceptor->relay[1], EPOLLIN, &acceptor->relay);
    acceptor->relay_deaf = 0;
}

static apr_status_t take_one_back(void)
{
    vl_item_t item;
    int fd;
    apr_status_t rv = vl_relay_acceptor_take_back(acceptor->relay, &item, &fd);

    if (rv == APR_SUCCESS)
        vl_arrival_come_back(&item, fd);
    else if (rv == APR_EMFILE && vl_arrival_spare())
        rv = APR_SUCCESS;
    return rv;
}

/* Other children are done with a request. */
static void take_back(void)
{
    apr_status_t rv = APR_SUCCESS;
    int i;

    for (i = 0; i < ACCEPT_BATCH && rv == APR_SUCCESS; i++)
        rv = take_one_back();
    if (rv == APR_EMFILE) {
        vl_accept_warn_full();
        epoll_ctl(acceptor->epoll_fd, EPOLL_CTL_DEL, acceptor->relay[1], NULL);
        acceptor->relay_deaf = 1;
    }
}

static int is_listener(const void *what)
{
    const int *fd = what, *fds = acceptor->listeners.fds;

    return fd >= fds && fd < fds + acceptor->listeners.n;
}

static void wait_for_events(void)
{
    struct epoll_event events[EVENTS];
    int i, n;

    vl_deputy_alive();
    if (acceptor->relays)
        vl_arrival_relay(relay_one);
    n = epoll_pwait(acceptor->epoll_fd, events, EVENTS, TICK_MS,
                    acceptor->signals);
    for (i = 0; i < n; i++) {
        void *what = events[i].data.ptr;

        if (!what)
            look_round();
        else if (is_listener(what))
            accept_some(*(const int *)what);
        else if (what == &acceptor->relay)
            take_back();
        else
            vl_arrival_revisit(what, events[i].events);
    }
    vl_arrival_settle();
}

static void hand_on_batch(const int *fds, apr_size_t n)
{
    int tries = HANDOVER_TRIES;
    apr_size_t i;

    while (tries-- && vl_handover_send(acceptor->handover, fds, n)
           != APR_SUCCESS)
        apr_sleep(10 * 1000);
    for (i = 0; i < n; i++)
        close(fds[i]);
}

static void hand_on(const int *fds, apr_size_t n)
{
    apr_size_t i;

    for (i = 0; i < n; i += HANDOVER_BATCH)
        hand_on_batch(fds + i, n - i < HANDOVER_BATCH ? n - i : HANDOVER_BATCH);
    vl_slot_wake_others(acceptor->shm);
}

/* Everybody who waits goes to the other children. */
static void hand_on_all(void)
{
    int fds[VL_HANDOVER_MAX];
    apr_size_t n;

    while ((n = vl_arrival_evict(fds, VL_HANDOVER_MAX)) > 0)
        hand_on(fds, n);
}

/* Who waits for a thread of this child that others have free. */
static void hand_on_some(apr_uint32_t most)
{
    int fds[VL_HANDOVER_MAX];
    apr_size_t n = vl_arrival_shed(fds, most < VL_HANDOVER_MAX
                                        ? most : VL_HANDOVER_MAX);

    if (n)
        hand_on(fds, n);
}

/* An exclusive wake-up is not said twice: one that a child used up which then
 * went deaf is made good for here. */
static void hear(void)
{
    int i;

    if (acceptor->no_room)
        adopt();
    if (acceptor->no_room)
        return;
    listen_on();
    for (i = 0; i < acceptor->listeners.n; i++)
        accept_some(acceptor->listeners.fds[i]);
}

static void charge_usage(void *data, apr_uint32_t account, apr_uint64_t us,
                         int resident)
{
    vl_charge_usage(acceptor->shm, account, us, resident);
}

static void count_kills(void *data, apr_uint32_t account, apr_uint64_t kills)
{
    vl_charge_kills(acceptor->shm, account, kills);
}

/* One child does, until it is gone. */
static void read_usage(apr_int64_t now_us)
{
    int mine = vl_charge_reads_usage(acceptor->shm, now_us);

    if (mine)
        vl_usage_child_read(acceptor->usage, charge_usage, count_kills, NULL);
    else if (acceptor->reads)
        vl_usage_child_close(acceptor->usage);
    acceptor->reads = mine;
}

/* A child whose MPM takes nobody leaves the work to those that can do it, if there
 * are some.  So does one whose threads are all taken: who waits goes to where some
 * are free, and so do newcomers, unless threads here come free all the time. */
static void share_work(int stuck, apr_int64_t now_us)
{
    vl_rooms_t rooms;
    int full, stalled;

    vl_slot_rooms(acceptor->shm, &rooms);
    vl_press_tick(acceptor->shm, &rooms, now_us);
    full = !rooms.here && rooms.elsewhere;
    stalled = full && rooms.ended == acceptor->ended;
    acceptor->ended = rooms.ended;
    if ((stuck && rooms.elsewhere) || stalled)
        go_deaf();
    else
        hear();
    if (stuck && rooms.elsewhere)
        hand_on_all();
    else if (full)
        hand_on_some(rooms.elsewhere);
    else if (!stuck)
        adopt();
}

static void tick(apr_int64_t now_us)
{
    int stuck;

    vl_slot_adjust(acceptor->shm, now_us);
    vl_slot_pass_over(acceptor->shm, now_us);
    vl_meter_tick();
    read_usage(now_us);
    vl_notice_tick(now_us);
    stuck = vl_arrival_tick(now_us);
    if (!acceptor->relays) {
        share_work(stuck, now_us);
        return;
    }
    vl_relay_acceptor_tidy(acceptor->shm, acceptor->relay, now_us);
    if (acceptor->relay_deaf)
        hear_relay();
    hear();
    adopt();
}

/* The parent removes its pid file before it tells its children to stop for good,
 * which is all that tells this from a restart. */
static int server_stops(void)
{
    return access(acceptor->pid_file, F_OK) && errno == ENOENT;
}

/* Somebody takes what is handed on. */
static int others_take(void)
{
    return acceptor->relays ? vl_relay_has_acceptor(acceptor->shm)
                           : vl_shm_child_others(acceptor->shm) > 0;
}

/* What no child has taken, or will take, comes back. */
static void recall(void)
{
    int fd;

    while (acceptor->relays && vl_relay_acceptor_recall(acceptor->relay, &fd)
           == APR_SUCCESS)
        vl_arrival_come(fd, NULL);
}

/* Somebody would be lost if we ended now. */
static int is_needed(void)
{
    return vl_arrival_leave() > 0
           || (acceptor->relays && vl_relay_pending(acceptor->relay));
}

/* The MPM has closed its listeners: so do we.  Who waits goes to the other
 * children; when there are none, because the server stops and not only this
 * child, and none has come for a second, nobody will serve them.  Connections
 * that are closing get the time that the MPM gives its own then. */
static void give_away(void)
{
    apr_int64_t start = vl_clock_us(), passed;
    int i;

    go_deaf();
    for (i = 0; i < acceptor->listeners.n; i++)
        close(acceptor->listeners.fds[i]);
    vl_shm_child_leave(acceptor->shm);
    if (acceptor->relays)
        vl_relay_acceptor_resign(acceptor->shm);
    do {
        passed = vl_clock_us() - start;
        if (others_take()) {
            hand_on_all();
        }
        else if (passed > ALONE_US && server_stops()) {
            adopt();
            recall();
            vl_arrival_dismiss();
        }
        else if (passed > ALONE_US) {
            hand_on_all();          /* to whoever comes */
        }
        if (is_needed())
            wait_for_events();
    } while (is_needed() && passed < LEAVE_US);
}

static int ending(void)
{
    return __atomic_load_n(&acceptor->ending, __ATOMIC_RELAXED);
}

static void accept_on(void)
{
    const ap_listen_rec *first = acceptor->listeners.first;
    apr_int64_t ticked = 0, now;

    while ((!first || first->active) && !ending()) {
        wait_for_events();
        now = vl_clock_us();
        if (now - ticked >= TICK_MS * 1000) {
            ticked = now;
            tick(now);
        }
    }
    give_away();
}

static void *APR_THREAD_FUNC run(apr_thread_t *thread, void *data)
{
    struct sched_param param = { 0 };

    pthread_mutex_lock(&acceptor->set_up);
    pthread_mutex_unlock(&acceptor->set_up);
    /* Newcomers do not interrupt the work on those who have come: several are
     * sorted at once. */
    sched_setscheduler(0, SCHED_BATCH, &param);
    vl_listener_child_take_over(&acceptor->listeners, ending);
    listen_on();
    accept_on();
    vl_deputy_rest();
    return NULL;
}

/* The acceptor hangs: nobody comes, and nobody is sorted, but who waits here has
 * his turn or goes where threads are free. */
static void stand_in(apr_int64_t now_us)
{
    vl_rooms_t rooms;
    int stuck = vl_arrival_stand_in(now_us);

    vl_slot_rooms(acceptor->shm, &rooms);
    if (stuck && rooms.elsewhere)
        hand_on_all();
}

/* A dying event MPM's workers leave as soon as it has as few connections as are
 * left of them, and sockets in their queue are not counted
 * (worker_thread_should_exit_early): those would be lost. */
static void hand_on_unbegun(void)
{
    int fds[VL_HANDOVER_MAX];
    apr_size_t n;

    while ((n = vl_arrival_unbegun(fds, VL_HANDOVER_MAX)) > 0)
        hand_on(fds, n);
}

/* Before the pool goes in which everything of ours lives. */
static apr_status_t stop(void *unused)
{
    apr_uint64_t one = 1;
    apr_status_t rv;

    __atomic_store_n(&acceptor->ending, 1, __ATOMIC_RELAXED);
    if (write(vl_shm_child_wake_fd(acceptor->shm), &one, sizeof(one)) > 0) {
        apr_thread_join(&rv, acceptor->thread);
        vl_deputy_stop();
        hand_on_unbegun();
    }
    return APR_SUCCESS;
}

/* --- set-up --------------------------------------------------------------- */

/* The epoll set, and what is watched from the beginning.  Returns pass_fd, see
 * vl_arrival_child_init(), or -1: there are not enough descriptors. */
static int open_up(apr_pool_t *pchild)
{
    int pass_fd;

    acceptor->deaf = 1;
    acceptor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (acceptor->epoll_fd < 0)
        return -1;
    pass_fd = vl_arrival_child_init(pchild, acceptor->main_server,
                                    acceptor->shm, acceptor->epoll_fd,
                                    acceptor->most);
    if (pass_fd < 0) {
        close(acceptor->epoll_fd);
        return -1;
    }
    watch(vl_shm_child_wake_fd(acceptor->shm), EPOLLIN, NULL);
    return pass_fd;
}

static void warn_of(apr_status_t rv)
{
    ap_log_error(APLOG_MARK, APLOG_ERR, rv, acceptor->main_server,
                 VLOGNO(0024) "connections cannot wait as sockets in this "
                 "child: %s", acceptor->relays
                 ? "it tries again" : "their requests wait with threads");
}

static apr_status_t start_thread(apr_pool_t *pchild)
{
    pthread_mutex_init(&acceptor->set_up, NULL);
    pthread_mutex_lock(&acceptor->set_up);
    return apr_thread_create(&acceptor->thread, NULL, run, NULL, pchild);
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
        vl_listener_child_replace(pchild, stand_ins, &acceptor->listeners);
    pthread_mutex_unlock(&acceptor->set_up);
    vl_deputy_start(pchild, stand_in);
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
        close(acceptor->epoll_fd);
    }
}

void vl_accept_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, const int handover[2],
                          const int relay[2], apr_uint32_t most,
                          vl_usage_t *usage)
{
    if (vl_shm_child_wake_fd(shm) < 0)
        return;
    acceptor = apr_pcalloc(pchild, sizeof(*acceptor));
    acceptor->shm = shm;
    acceptor->handover = handover;
    acceptor->relay = relay;
    acceptor->usage = usage;
    acceptor->main_server = main_server;
    acceptor->most = most;
    acceptor->pid_file = ap_runtime_dir_relative(pchild, ap_pid_fname);
    if (vl_listener_is_threaded())
        begin_thread(pchild);
    else if (vl_listener_may_replace())
        acceptor->listeners.n = vl_prefork_child_init(pchild, shm, relay);
}

int vl_accept_open(apr_pool_t *pchild, const ap_listen_rec *real)
{
    acceptor->relays = 1;
    if (vl_listener_child_copy(pchild, real, &acceptor->listeners)) {
        if (open_up(pchild) >= 0)
            return 1;
        vl_listener_child_close(&acceptor->listeners);
    }
    warn_of(errno);
    return 0;
}

void vl_accept_serve(const ap_listen_rec *first, const sigset_t *signals)
{
    acceptor->listeners.first = first;
    acceptor->signals = signals;
    hear_relay();
    listen_on();
    accept_on();
}

int vl_accept_works(void)
{
    if (acceptor)
        return acceptor->listeners.n > 0;
    return vl_listener_may_replace() && vl_listener_is_there()
           && (vl_listener_is_threaded() || vl_prefork_can_spare_one());
}
