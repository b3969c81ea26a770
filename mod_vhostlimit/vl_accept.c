/* SPDX-License-Identifier: Apache-2.0 */
/* The acceptor is a thread of ours in each child.  It sleeps on an epoll set of
 * the listening sockets (EPOLLEXCLUSIVE: one child wakes for a newcomer), of
 * connections whose head has not all come, and of the descriptor by which other
 * children say that they have granted us a slot.  Ten times a second it looks
 * for what time has changed: see vl_arrival_tick(), sockets that a stopping
 * child has handed on, the number of slots, and whether the MPM has closed its
 * listeners because this child stops.
 *
 * The MPM's listener thread polls an eventfd in place of each listening socket
 * and takes from accept_fair() whoever may pass.  When it does not, because its
 * threads or connections are at their limit, newcomers go on being sorted. */
#include "vl_accept.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ap_listen.h>
#include <ap_mpm.h>
#include <apr_portable.h>
#include <apr_strings.h>
#include <apr_thread_proc.h>
#include <unixd.h>

#include "vl_arrival.h"
#include "vl_handover.h"

#define TICK_MS 100
/* Accepted in one go; then whoever else has something to say. */
#define ACCEPT_BATCH 64
#define EVENTS 64
/* Tries, 10 ms apart, to hand on what nobody reads. */
#define HANDOVER_TRIES 100

typedef struct listener_t {
    ap_listen_rec *lr;
    int fd;                         /* the real one */
} listener_t;

static struct acceptor_t {
    vl_shm_t *shm;
    int epoll_fd;
    listener_t *listeners;
    int nlisteners;
    int deaf;                       /* they are not in the set, for a while */
    const int *handover;
    apr_thread_t *thread;
    int ending;                     /* atomic: the thread is to stop */
} *acceptor;

/* --- the MPM's listener thread -------------------------------------------- */

static apr_status_t accept_fair(void **csd, ap_listen_rec *lr,
                                apr_pool_t *ptrans)
{
    vl_arrival_t *arrival = vl_arrival_next();
    apr_socket_t *sock = NULL;
    apr_status_t rv;

    *csd = NULL;
    if (!arrival)
        return APR_EAGAIN;
    rv = vl_arrival_socket(arrival, ptrans, &sock);
    *csd = sock;
    return rv;
}

/* --- the acceptor --------------------------------------------------------- */

/* what: which listener_t or arrival, NULL: the wake-up descriptor. */
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

/* 0: nobody is there.  When no descriptor is left the sockets would stay
 * readable: they are not heard until the next tick. */
static int accept_one(const listener_t *l)
{
    struct sockaddr_storage remote;
    socklen_t len = sizeof(remote);
    int fd = accept4(l->fd, (struct sockaddr *)&remote, &len, SOCK_CLOEXEC);
    vl_arrival_t *arrival;

    if (fd >= 0) {
        arrival = vl_arrival_new(fd, &remote);
        if (arrival)
            vl_arrival_place(arrival, acceptor->epoll_fd);
    }
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS
             || errno == ENOMEM) {
        go_deaf();
    }
    return fd >= 0;
}

static void accept_some(const listener_t *l)
{
    int i;

    for (i = 0; i < ACCEPT_BATCH && accept_one(l); i++)
        ;
}

static void pick_up_grants(void)
{
    apr_uint64_t count;

    if (read(vl_shm_child_wake_fd(acceptor->shm), &count, sizeof(count)) < 0)
        return;
    vl_park_lock();
    vl_park_take_locked();
    vl_park_unlock();
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
    int i, n = epoll_wait(acceptor->epoll_fd, events, EVENTS, TICK_MS);

    for (i = 0; i < n; i++) {
        void *what = events[i].data.ptr;

        if (!what)
            pick_up_grants();
        else if (is_listener(what))
            accept_some(what);
        else
            vl_arrival_revisit(what, acceptor->epoll_fd);
    }
}

/* What another child has handed on is sorted like a newcomer. */
static void adopt(void)
{
    int fds[VL_HANDOVER_MAX];
    apr_size_t i, n;

    while ((n = vl_handover_receive(acceptor->handover, fds)) > 0) {
        for (i = 0; i < n; i++) {
            vl_arrival_t *arrival = vl_arrival_new(fds[i], NULL);

            if (arrival)
                vl_arrival_place(arrival, acceptor->epoll_fd);
        }
    }
}

/* A child whose MPM does not take anybody leaves newcomers to the others. */
static void tick(apr_int64_t now_us)
{
    int stuck;

    vl_slot_adjust(acceptor->shm, now_us);
    stuck = vl_arrival_tick(now_us);
    if (stuck) {
        go_deaf();
    }
    else {
        adopt();
        listen_on();
    }
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
}

/* The MPM has closed its listeners: so do we, and hand on who waits. */
static void give_away(void)
{
    int fds[VL_HANDOVER_MAX], i;
    apr_size_t n;

    go_deaf();
    for (i = 0; i < acceptor->nlisteners; i++)
        close(acceptor->listeners[i].fd);
    while ((n = vl_arrival_evict(fds, VL_HANDOVER_MAX)) > 0)
        hand_on(fds, n);
}

static int ending(void)
{
    return __atomic_load_n(&acceptor->ending, __ATOMIC_RELAXED);
}

/* The MPM sets its own accept function when its threads start, after
 * child_init: ours must come later.  Until then nobody can pass. */
static void take_over(void)
{
    int i;

    for (i = 0; i < acceptor->nlisteners; i++) {
        ap_listen_rec *lr = acceptor->listeners[i].lr;

        while (lr->accept_func != ap_unixd_accept && !ending())
            apr_sleep(1000);
        lr->accept_func = accept_fair;
    }
    listen_on();
}

static void *APR_THREAD_FUNC run(apr_thread_t *thread, void *data)
{
    apr_int64_t ticked = 0, now;

    take_over();
    while (acceptor->listeners[0].lr->active && !ending()) {
        wait_for_events();
        now = apr_time_now();
        if (now - ticked >= TICK_MS * 1000) {
            ticked = now;
            tick(now);
        }
    }
    give_away();
    return NULL;
}

/* Before the pool goes in which everything of ours lives. */
static apr_status_t stop(void *unused)
{
    apr_uint64_t one = 1;
    apr_status_t rv;

    __atomic_store_n(&acceptor->ending, 1, __ATOMIC_RELAXED);
    if (write(vl_shm_child_wake_fd(acceptor->shm), &one, sizeof(one)) > 0)
        apr_thread_join(&rv, acceptor->thread);
    return APR_SUCCESS;
}

/* --- set-up --------------------------------------------------------------- */

static int is_http(const ap_listen_rec *lr)
{
    return lr->active && (!lr->protocol || !strcmp(lr->protocol, "http")
                          || !strcmp(lr->protocol, "https"));
}

/* What the MPM polls for a listener becomes a descriptor of ours.  Each has its
 * own, because a poll set takes a descriptor once. */
static apr_status_t replace_listener(listener_t *l, ap_listen_rec *lr,
                                     int pass_fd, apr_pool_t *pchild)
{
    int fd = fcntl(pass_fd, F_DUPFD_CLOEXEC, 0);
    apr_socket_t *sd = NULL;

    if (fd < 0)
        return errno;
    l->lr = lr;
    apr_os_sock_get(&l->fd, lr->sd);
    fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK);
    apr_os_sock_put(&sd, &fd, pchild);
    lr->sd = sd;
    return APR_SUCCESS;
}

static void replace_listeners(int pass_fd, apr_pool_t *pchild)
{
    ap_listen_rec *lr;
    int n = 0;

    for (lr = ap_listeners; lr; lr = lr->next)
        n += is_http(lr);
    acceptor->listeners = apr_pcalloc(pchild, sizeof(listener_t) * (n + 1));
    for (lr = ap_listeners; lr; lr = lr->next) {
        listener_t *l = &acceptor->listeners[acceptor->nlisteners];

        if (is_http(lr) && replace_listener(l, lr, pass_fd, pchild)
            == APR_SUCCESS)
            acceptor->nlisteners++;
    }
}

static int can_work(const vl_shm_t *shm)
{
    int threaded = 0;

    ap_mpm_query(AP_MPMQ_IS_THREADED, &threaded);
    return threaded != AP_MPMQ_NOT_SUPPORTED && ap_num_listen_buckets <= 1
           && vl_shm_child_wake_fd(shm) >= 0;
}

void vl_accept_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, const int handover[2])
{
    int pass_fd;

    if (!can_work(shm))
        return;
    acceptor = apr_pcalloc(pchild, sizeof(*acceptor));
    acceptor->shm = shm;
    acceptor->handover = handover;
    acceptor->deaf = 1;
    acceptor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch(vl_shm_child_wake_fd(shm), EPOLLIN, NULL);
    pass_fd = vl_arrival_child_init(pchild, main_server, shm);
    replace_listeners(pass_fd, pchild);
    if (acceptor->nlisteners
        && apr_thread_create(&acceptor->thread, NULL, run, NULL, pchild)
           == APR_SUCCESS)
        apr_pool_pre_cleanup_register(pchild, NULL, stop);
}
