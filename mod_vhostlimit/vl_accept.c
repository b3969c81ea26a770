/* SPDX-License-Identifier: Apache-2.0 */
/* The acceptor is a thread of ours in each child.  It sleeps on an epoll set of
 * the listening sockets (EPOLLEXCLUSIVE: one child wakes for a newcomer), of
 * connections whose head has not all come, and of the descriptor by which other
 * children say that they have granted us a slot.  Ten times a second it looks
 * for what time has changed: see vl_arrival_tick(), sockets that a stopping
 * child has handed on, the number of slots, and whether the MPM has closed its
 * listeners because this child stops.
 *
 * The event MPM's listener thread polls an eventfd in place of each listening
 * socket and takes from accept_fair() whoever may pass.  When it does not,
 * because its threads or connections are at their limit, newcomers go on being
 * sorted.  The worker MPM's does not poll when there is one listener, and lets
 * one child at a time accept when there are more: it is given one, and waits in
 * accept_fair().
 *
 * Under the prefork MPM the acceptor is no thread but one of the children, see
 * vl_prefork.c. */
#include "vl_accept.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <ap_listen.h>
#include <ap_mpm.h>
#include <mpm_common.h>
#include <apr_portable.h>
#include <apr_strings.h>
#include <apr_thread_proc.h>
#include <unixd.h>

#include "vl_arrival.h"
#include "vl_clock.h"
#include "vl_handover.h"
#include "vl_meter.h"
#include "vl_notice.h"
#include "vl_prefork.h"

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

typedef struct listener_t {
    int fd;                         /* the real listening socket */
} listener_t;

static struct acceptor_t {
    vl_shm_t *shm;
    int epoll_fd;
    listener_t *listeners;
    int nlisteners;
    const ap_listen_rec *first;     /* of those that were replaced */
    int pass_fd;                    /* see vl_arrival_child_init() */
    int waits;                      /* accept_fair() does: the worker MPM */
    int relays;                     /* to the other children: the prefork MPM */
    const sigset_t *signals;        /* its mask while it sleeps, or NULL */
    int deaf;                       /* they are not in the set, for a while */
    apr_uint32_t ended;             /* requests of this child, at the last tick */
    const int *handover;
    const int *relay;
    const char *pid_file;
    server_rec *main_server;
    apr_uint32_t most;
    vl_usage_t *usage;
    int reads;                      /* it, for all children */
    apr_thread_t *thread;
    int ending;                     /* atomic: the thread is to stop */
} *acceptor;

static int is_http(const ap_listen_rec *lr)
{
    return lr->active && (!lr->protocol || !strcmp(lr->protocol, "http")
                          || !strcmp(lr->protocol, "https"));
}

/* --- the MPM's listener thread -------------------------------------------- */

/* NULL: a signal has come, by which the MPM stops its listener thread. */
static vl_arrival_t *wait_for_next(void)
{
    struct pollfd pfd = { acceptor->pass_fd, POLLIN, 0 };
    vl_arrival_t *arrival;

    while (!(arrival = vl_arrival_next())) {
        if (poll(&pfd, 1, -1) < 0)
            return NULL;
    }
    return arrival;
}

static apr_status_t accept_fair(void **csd, ap_listen_rec *lr,
                                apr_pool_t *ptrans)
{
    vl_arrival_t *arrival = acceptor->waits ? wait_for_next()
                                            : vl_arrival_next();
    apr_socket_t *sock = NULL;
    apr_status_t rv;

    *csd = NULL;
    if (!arrival) {
        /* The worker MPM forgets the pool when there is no connection. */
        if (acceptor->waits)
            apr_pool_destroy(ptrans);
        return acceptor->waits ? APR_EINTR : APR_EAGAIN;
    }
    rv = vl_arrival_socket(arrival, ptrans, &sock);
    *csd = sock;
    return rv;
}

/* --- the acceptor --------------------------------------------------------- */

/* what: which listener_t or arrival, NULL: the wake-up descriptor, &relay: what
 * children send back. */
static void watch(int fd, apr_uint32_t events, void *what)
{
    struct epoll_event ev = { events, { .ptr = what } };

    epoll_ctl(acceptor->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void listen_on(void)
{
    int i;

    for (i = 0; acceptor->deaf && i < acceptor->nlisteners; i++)
        watch(acceptor->listeners[i].fd, EPOLLIN | EPOLLEXCLUSIVE,
              &acceptor->listeners[i]);
    acceptor->deaf = 0;
}

static void go_deaf(void)
{
    int i;

    for (i = 0; !acceptor->deaf && i < acceptor->nlisteners; i++)
        epoll_ctl(acceptor->epoll_fd, EPOLL_CTL_DEL, acceptor->listeners[i].fd,
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
static int accept_one(const listener_t *l)
{
    struct sockaddr_storage remote;
    socklen_t len = sizeof(remote);
    int fd = accept4(l->fd, (struct sockaddr *)&remote, &len, SOCK_CLOEXEC);

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

static void accept_some(const listener_t *l)
{
    int i;

    for (i = 0; i < ACCEPT_BATCH && accept_one(l); i++)
        ;
}

/* What another child has handed on is sorted like a newcomer. */
static void adopt(void)
{
    int fds[VL_HANDOVER_MAX];
    apr_size_t i, n;

    while ((n = vl_handover_receive(acceptor->handover, fds)) > 0) {
        for (i = 0; i < n; i++)
            vl_arrival_come(fds[i], NULL);
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

/* Other children are done with a request. */
static void take_back(void)
{
    vl_item_t item;
    int i, fd;

    for (i = 0; i < ACCEPT_BATCH
         && (fd = vl_relay_acceptor_take_back(acceptor->relay, &item)) >= 0;
         i++)
        vl_arrival_come_back(&item, fd);
}

static int is_listener(const void *what)
{
    const listener_t *l = what;

    return l >= acceptor->listeners
           && l < acceptor->listeners + acceptor->nlisteners;
}

static void wait_for_events(void)
{
    struct epoll_event events[EVENTS];
    int i, n;

    if (acceptor->relays)
        vl_arrival_relay(relay_one);
    n = epoll_pwait(acceptor->epoll_fd, events, EVENTS, TICK_MS,
                    acceptor->signals);
    for (i = 0; i < n; i++) {
        void *what = events[i].data.ptr;

        if (!what)
            look_round();
        else if (is_listener(what))
            accept_some(what);
        else if (what == &acceptor->relay)
            take_back();
        else
            vl_arrival_revisit(what, events[i].events);
    }
    vl_arrival_settle();
}

static void hand_on(const int *fds, apr_size_t n)
{
    int tries = HANDOVER_TRIES;
    apr_size_t i;

    while (tries-- && vl_handover_send(acceptor->handover, fds, n)
           != APR_SUCCESS)
        apr_sleep(10 * 1000);
    for (i = 0; i < n; i++)
        close(fds[i]);
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

    listen_on();
    for (i = 0; i < acceptor->nlisteners; i++)
        accept_some(&acceptor->listeners[i]);
}

static void charge_usage(void *data, apr_uint32_t account, apr_uint64_t us,
                         int resident)
{
    vl_slot_usage(acceptor->shm, account, us, resident);
}

static void count_kills(void *data, apr_uint32_t account, apr_uint64_t kills)
{
    vl_slot_kills(acceptor->shm, account, kills);
}

/* One child does, until it is gone. */
static void read_usage(apr_int64_t now_us)
{
    int mine = vl_slot_reads_usage(acceptor->shm, now_us);

    if (mine)
        vl_usage_child_read(acceptor->usage, charge_usage, count_kills, NULL);
    else if (acceptor->reads)
        vl_usage_child_close(acceptor->usage);
    acceptor->reads = mine;
}

/* A child whose MPM takes nobody leaves the work to those that can do it.  So
 * does one whose threads are all taken: who waits goes to where some are free,
 * and so do newcomers, unless threads here come free all the time. */
static void share_work(int stuck)
{
    vl_rooms_t rooms;
    int full, stalled;

    vl_slot_rooms(acceptor->shm, &rooms);
    full = !rooms.here && rooms.elsewhere;
    stalled = full && rooms.ended == acceptor->ended;
    acceptor->ended = rooms.ended;
    if (stuck || stalled)
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
    vl_meter_tick();
    read_usage(now_us);
    vl_notice_tick(now_us);
    stuck = vl_arrival_tick(now_us);
    if (!acceptor->relays) {
        share_work(stuck);
        return;
    }
    vl_relay_acceptor_tidy(acceptor->shm, acceptor->relay, now_us);
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

    while (acceptor->relays
           && (fd = vl_relay_acceptor_recall(acceptor->relay)) >= 0)
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
    for (i = 0; i < acceptor->nlisteners; i++)
        close(acceptor->listeners[i].fd);
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

/* The MPM sets its own accept function when its threads start, after
 * child_init: ours must come later.  Until then nobody can pass. */
static void take_over(void)
{
    ap_listen_rec *lr;

    for (lr = ap_listeners; lr && acceptor->first; lr = lr->next) {
        if (!is_http(lr))
            continue;
        while (lr->accept_func != ap_unixd_accept && !ending())
            apr_sleep(1000);
        lr->accept_func = accept_fair;
    }
    listen_on();
}

static void accept_on(void)
{
    apr_int64_t ticked = 0, now;

    while ((!acceptor->first || acceptor->first->active) && !ending()) {
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

    /* Newcomers do not interrupt the work on those who have come: several are
     * sorted at once. */
    sched_setscheduler(0, SCHED_BATCH, &param);
    take_over();
    accept_on();
    return NULL;
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
        hand_on_unbegun();
    }
    return APR_SUCCESS;
}

/* --- set-up --------------------------------------------------------------- */

/* What the event MPM polls for a listener.  Each has its own, because a poll
 * set takes a descriptor once. */
static int polled_fd(void)
{
    return fcntl(acceptor->pass_fd, F_DUPFD_CLOEXEC, 0);
}

int vl_accept_empty_fd(void)
{
    struct sockaddr_un unnamed = { .sun_family = AF_UNIX };
    struct timeval timeout = { 0, 10000 };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && (bind(fd, (struct sockaddr *)&unnamed, sizeof(sa_family_t))
                    || listen(fd, 1)
                    || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout,
                                  sizeof(timeout)))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* We accept until nobody is there. */
static int real_fd(const ap_listen_rec *lr)
{
    int fd = -1;

    apr_os_sock_get(&fd, lr->sd);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

static apr_status_t replace_listener(ap_listen_rec *lr, apr_pool_t *pchild)
{
    int fd = acceptor->waits ? vl_accept_empty_fd() : polled_fd();
    apr_socket_t *sd = NULL;

    if (fd < 0)
        return errno;
    acceptor->listeners[acceptor->nlisteners++].fd = real_fd(lr);
    apr_os_sock_put(&sd, &fd, pchild);
    lr->sd = sd;
    return APR_SUCCESS;
}

static void replace_listeners(apr_pool_t *pchild)
{
    ap_listen_rec *lr;
    int n = 0;

    for (lr = ap_listeners; lr; lr = lr->next)
        n += is_http(lr);
    acceptor->listeners = apr_pcalloc(pchild, sizeof(listener_t) * (n + 1));
    for (lr = ap_listeners; lr; lr = lr->next) {
        if (is_http(lr) && replace_listener(lr, pchild) == APR_SUCCESS
            && !acceptor->first)
            acceptor->first = lr;
    }
    if (acceptor->waits) {
        /* In this child only; who waits has a listener. */
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        ap_listeners->next = NULL;
    }
}

static int is_async(void)
{
    int async = 0;

    return ap_mpm_query(AP_MPMQ_IS_ASYNC, &async) == APR_SUCCESS && async;
}

static int is_threaded(void)
{
    int threaded = 0;

    return ap_mpm_query(AP_MPMQ_IS_THREADED, &threaded) == APR_SUCCESS
           && threaded != AP_MPMQ_NOT_SUPPORTED;
}

static int may_replace(void)
{
    const ap_listen_rec *lr;

    if (ap_num_listen_buckets > 1)
        return 0;
    /* The worker MPM's only listener must be ours. */
    for (lr = ap_listeners; lr && !is_async(); lr = lr->next) {
        if (!is_http(lr))
            return 0;
    }
    return 1;
}

/* The epoll set, and what is watched from the beginning. */
static void open_up(apr_pool_t *pchild)
{
    acceptor->deaf = 1;
    acceptor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch(vl_shm_child_wake_fd(acceptor->shm), EPOLLIN, NULL);
    acceptor->pass_fd = vl_arrival_child_init(pchild, acceptor->main_server,
                                              acceptor->shm,
                                              acceptor->epoll_fd,
                                              acceptor->most);
}

static void begin_thread(apr_pool_t *pchild)
{
    acceptor->waits = !is_async();
    open_up(pchild);
    if (may_replace())
        replace_listeners(pchild);
    if (apr_thread_create(&acceptor->thread, NULL, run, NULL, pchild)
           == APR_SUCCESS)
        apr_pool_pre_cleanup_register(pchild, NULL, stop);
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
    if (is_threaded())
        begin_thread(pchild);
    else if (may_replace())
        acceptor->nlisteners = vl_prefork_child_init(pchild, shm, relay);
}

void vl_accept_serve(apr_pool_t *pchild, const ap_listen_rec *first,
                     const ap_listen_rec *real, const sigset_t *signals)
{
    int i = 0;

    acceptor->first = first;
    acceptor->relays = 1;
    acceptor->signals = signals;
    acceptor->listeners = apr_pcalloc(pchild, sizeof(listener_t)
                                              * acceptor->nlisteners);
    /* Its own, since the MPM closes those. */
    for (; real; real = real->next)
        acceptor->listeners[i++].fd = fcntl(real_fd(real), F_DUPFD_CLOEXEC, 0);
    open_up(pchild);
    watch(acceptor->relay[1], EPOLLIN, &acceptor->relay);
    listen_on();
    accept_on();
}

static int has_listener(void)
{
    const ap_listen_rec *lr = ap_listeners;

    while (lr && !is_http(lr))
        lr = lr->next;
    return lr != NULL;
}

int vl_accept_works(void)
{
    if (acceptor)
        return acceptor->nlisteners > 0;
    return may_replace() && has_listener()
           && (is_threaded() || vl_prefork_can_spare_one());
}
