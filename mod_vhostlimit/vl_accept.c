/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads come here: the MPM's listener through accept_fair(), and the
 * keeper, a thread of ours that picks up what other children grant and looks
 * ten times a second for what time has changed: see vl_arrival_tick(), sockets
 * that a stopping child has handed on, the number of slots, and whether the MPM
 * has closed its listeners because this child stops. */
#include "vl_accept.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

#define KEEPER_MS 100
/* Accepted in one go; then the turn of those who wait. */
#define ACCEPT_BATCH 64
/* Handed on between two looks at who has come. */
#define PASS_BATCH 8
/* Tries, 10 ms apart, to hand on what nobody reads. */
#define HANDOVER_TRIES 100

typedef struct listener_t {
    ap_listen_rec *lr;
    int listen_fd;                  /* the real one */
    int epoll_fd;                   /* what the MPM polls */
    int deaf;                       /* listen_fd is not in it, for a while */
} listener_t;

static struct acceptor_t {
    vl_shm_t *shm;
    listener_t *listeners;
    int nlisteners;
    int since_sorted;               /* handed on since we looked who has come */
    const int *handover;
    apr_thread_t *keeper;
    int ending;                     /* atomic: the keeper is to stop */
} *acceptor;

/* --- the listener thread -------------------------------------------------- */

static void watch(const listener_t *l, int fd)
{
    struct epoll_event ev = { EPOLLIN, { .ptr = NULL } };

    epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

/* No descriptor is left: the listening socket would stay readable and the MPM
 * would call us for ever.  The keeper lets it be heard again. */
static void go_deaf(listener_t *l)
{
    vl_park_lock();
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, l->listen_fd, NULL);
    l->deaf = 1;
    vl_park_unlock();
}

static void hear_again(void)
{
    int i;

    vl_park_lock();
    for (i = 0; i < acceptor->nlisteners; i++) {
        listener_t *l = &acceptor->listeners[i];

        if (l->deaf)
            watch(l, l->listen_fd);
        l->deaf = 0;
    }
    vl_park_unlock();
}

static vl_arrival_t *accept_one(listener_t *l)
{
    struct sockaddr_storage remote;
    socklen_t len = sizeof(remote);
    int fd = accept4(l->listen_fd, (struct sockaddr *)&remote, &len,
                     SOCK_CLOEXEC);

    if (fd >= 0)
        return vl_arrival_new(fd, &remote);
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS
        || errno == ENOMEM)
        go_deaf(l);
    return NULL;
}

static listener_t *listener_of(const ap_listen_rec *lr)
{
    int i;

    for (i = 0; i < acceptor->nlisteners - 1; i++) {
        if (acceptor->listeners[i].lr == lr)
            break;
    }
    return &acceptor->listeners[i];
}

/* Sorts those who have come.  Not NULL: a slot is free and nobody waits, so the
 * newcomer goes straight on, and whoever else has come is left in the kernel
 * until the MPM asks again. */
static vl_arrival_t *sort_newcomers(listener_t *l)
{
    vl_arrival_t *arrival;
    int i;

    vl_arrival_revisit(l->epoll_fd);
    for (i = 0; i < ACCEPT_BATCH && (arrival = accept_one(l)); i++) {
        if (vl_arrival_sort(arrival, l->epoll_fd))
            return arrival;
    }
    return NULL;
}

/* All who have come are sorted before anybody is chosen, since who waits in
 * the kernel's queue waits in no fair one; but not before every single one. */
static apr_status_t accept_fair(void **csd, ap_listen_rec *lr,
                                apr_pool_t *ptrans)
{
    vl_arrival_t *arrival = NULL;
    apr_socket_t *sock = NULL;
    apr_status_t rv;

    *csd = NULL;
    if (acceptor->since_sorted++ < PASS_BATCH)
        arrival = vl_arrival_next();
    if (!arrival) {
        acceptor->since_sorted = 0;
        arrival = sort_newcomers(listener_of(lr));
    }
    if (!arrival)
        arrival = vl_arrival_next();
    if (!arrival)
        return APR_EAGAIN;
    rv = vl_arrival_socket(arrival, ptrans, &sock);
    *csd = sock;
    return rv;
}

/* --- the keeper ----------------------------------------------------------- */

static int ending(void)
{
    return __atomic_load_n(&acceptor->ending, __ATOMIC_RELAXED);
}

/* The MPM sets its own accept function when its threads start, after
 * child_init: ours must come later.  Until then its descriptor is silent. */
static void take_over(void)
{
    int i;

    for (i = 0; i < acceptor->nlisteners; i++) {
        ap_listen_rec *lr = acceptor->listeners[i].lr;

        while (lr->accept_func != ap_unixd_accept && !ending())
            apr_sleep(1000);
        lr->accept_func = accept_fair;
    }
    hear_again();
}

/* Until other children have granted us a slot, or it is time to look round. */
static void sleep_or_wake(void)
{
    struct pollfd pfd = { vl_shm_child_wake_fd(acceptor->shm), POLLIN, 0 };
    apr_uint64_t count;

    if (poll(&pfd, 1, KEEPER_MS) == 1
        && read(pfd.fd, &count, sizeof(count)) == sizeof(count)) {
        vl_park_lock();
        vl_park_take_locked();
        vl_park_unlock();
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
                vl_arrival_place(arrival, acceptor->listeners[0].epoll_fd);
        }
    }
}

/* The MPM has closed its listeners: so do we, and hand on who waits. */
static void give_away(void)
{
    int fds[VL_HANDOVER_MAX], i, tries;
    apr_size_t n;

    for (i = 0; i < acceptor->nlisteners; i++)
        close(acceptor->listeners[i].listen_fd);
    while ((n = vl_arrival_evict(fds, VL_HANDOVER_MAX)) > 0) {
        for (tries = HANDOVER_TRIES; tries
             && vl_handover_send(acceptor->handover, fds, n) != APR_SUCCESS;
             tries--)
            apr_sleep(10 * 1000);
        for (i = 0; i < (int)n; i++)
            close(fds[i]);
    }
}

static void *APR_THREAD_FUNC keeper(apr_thread_t *thread, void *data)
{
    apr_int64_t looked = 0, now;

    take_over();
    while (acceptor->listeners[0].lr->active && !ending()) {
        sleep_or_wake();
        now = apr_time_now();
        if (now - looked >= KEEPER_MS * 1000) {
            looked = now;
            adopt();
            hear_again();
            vl_slot_adjust(acceptor->shm, now);
            vl_arrival_tick(now);
        }
    }
    give_away();
    return NULL;
}

/* Before the pool goes in which everything of ours lives. */
static apr_status_t stop_keeper(void *unused)
{
    apr_uint64_t one = 1;
    apr_status_t rv;

    __atomic_store_n(&acceptor->ending, 1, __ATOMIC_RELAXED);
    if (write(vl_shm_child_wake_fd(acceptor->shm), &one, sizeof(one)) > 0)
        apr_thread_join(&rv, acceptor->keeper);
    return APR_SUCCESS;
}

/* --- set-up --------------------------------------------------------------- */

static int is_http(const ap_listen_rec *lr)
{
    return lr->active && (!lr->protocol || !strcmp(lr->protocol, "http")
                          || !strcmp(lr->protocol, "https"));
}

/* The MPM's descriptor for a listener becomes ours. */
static apr_status_t replace_listener(listener_t *l, ap_listen_rec *lr,
                                     int pass_fd, apr_pool_t *pchild)
{
    apr_socket_t *sd = NULL;

    l->lr = lr;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0)
        return errno;
    l->deaf = 1;
    watch(l, pass_fd);
    apr_os_sock_get(&l->listen_fd, lr->sd);
    fcntl(l->listen_fd, F_SETFL,
          fcntl(l->listen_fd, F_GETFL) | O_NONBLOCK);
    apr_os_sock_put(&sd, &l->epoll_fd, pchild);
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
    pass_fd = vl_arrival_child_init(pchild, main_server, shm);
    replace_listeners(pass_fd, pchild);
    if (acceptor->nlisteners
        && apr_thread_create(&acceptor->keeper, NULL, keeper, NULL, pchild)
           == APR_SUCCESS)
        apr_pool_pre_cleanup_register(pchild, NULL, stop_keeper);
}
