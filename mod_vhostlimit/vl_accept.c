/* SPDX-License-Identifier: Apache-2.0 */
/* A socket is in one of these places:
 *   pending   its head has not all come; in the epoll set, edge-triggered
 *   a line    (vl_park.h) its turn has not come
 *   passing   to be given to the MPM next: its turn has come, it is refused,
 *             could not be told whose it is, or is not ours to limit
 * and then in the MPM's hands.  vl_park_lock() guards all of them; the listener
 * thread and the keeper share them.
 *
 * The keeper is a thread of ours that picks up what other children grant, and
 * looks ten times a second for what time has changed: heads that do not come,
 * waits that are over, sockets that a stopping child has handed on, listeners
 * that the MPM has closed because this child stops. */
#include "vl_accept.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ap_listen.h>
#include <ap_mpm.h>
#include <apr_portable.h>
#include <apr_strings.h>
#include <apr_thread_proc.h>
#include <unixd.h>

#include "vl_conf.h"
#include "vl_handover.h"
#include "vl_park.h"
#include "vl_peek.h"
#include "vl_private.h"
#include "vl_vhostmap.h"

/* A head that has not come by then is the MPM's, whose timeouts hold. */
#define PENDING_US (10 * APR_USEC_PER_SEC)
#define KEEPER_MS 100
/* The MPM was told that somebody may pass and has not come for so long. */
#define STUCK_US (100 * 1000)
/* Accepted in one go; then the turn of those who wait. */
#define ACCEPT_BATCH 64
/* Handed on between two looks at who has come. */
#define PASS_BATCH 8
/* Bytes of a head that are looked at. */
#define PEEK_SIZE 8192

static const char turn_key[] = "vhostlimit";

typedef struct arrival_t {
    vl_waiter_t waiter;             /* first: a waiter is its arrival */
    APR_RING_ENTRY(arrival_t) link; /* in pending or passing */
    int fd;
    int pending;
    int waited;                     /* since waiter.since_us, in line */
    vl_turn_t turn;
    socklen_t addr_len;
    struct sockaddr_storage local, remote;
} arrival_t;

APR_RING_HEAD(arrivals_t, arrival_t);

typedef struct listener_t {
    ap_listen_rec *lr;
    int listen_fd;                  /* the real one; -1: closed */
    int epoll_fd;                   /* what the MPM polls */
    int deaf;                       /* listen_fd is not in it, for a while */
} listener_t;

static struct acceptor_t {
    server_rec *main_server;
    vl_shm_t *shm;
    vl_vhostmap_t *map;
    struct arrivals_t pending, passing;
    apr_uint32_t npending;
    int pass_fd;                    /* eventfd: somebody is in passing */
    int signalled;                  /* it is readable */
    apr_int64_t signalled_us;       /* since when */
    apr_int64_t accepted_us;        /* when the MPM last asked */
    int stuck;                      /* it has not for too long */
    int since_sorted;               /* handed on since we looked who has come */
    listener_t *listeners;
    int nlisteners;
    const int *handover;
    int stopped;
} *acceptor;

static apr_int64_t now_us(void)
{
    return apr_time_now();
}

/* --- sorting what has come ------------------------------------------------ */

static void address_of(apr_sockaddr_t *sa, struct sockaddr_storage *ss,
                       socklen_t len)
{
    memset(sa, 0, sizeof(*sa));
    memcpy(&sa->sa, ss, len);
    sa->family = ss->ss_family;
    sa->salen = len;
    sa->addr_str_len = 46;
    if (ss->ss_family == AF_INET) {
        sa->ipaddr_ptr = &sa->sa.sin.sin_addr;
        sa->ipaddr_len = sizeof(struct in_addr);
        sa->port = ntohs(sa->sa.sin.sin_port);
    }
    else {
        sa->ipaddr_ptr = &sa->sa.sin6.sin6_addr;
        sa->ipaddr_len = sizeof(struct in6_addr);
        sa->port = ntohs(sa->sa.sin6.sin6_port);
    }
}

static const vl_conf_t *conf_of(arrival_t *arrival, const char *host)
{
    apr_sockaddr_t local;

    address_of(&local, &arrival->local, arrival->addr_len);
    return vl_conf_get(vl_vhostmap_find(acceptor->map, acceptor->main_server,
                                        &local, host));
}

/* VL_PEEK_NO_HOST when the client has gone: the MPM will see for itself. */
static vl_peek_e look(const arrival_t *arrival, vl_peek_t *peek)
{
    char bytes[PEEK_SIZE];
    ssize_t n = recv(arrival->fd, bytes, sizeof(bytes),
                     MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return VL_PEEK_MORE;
    if (n <= 0 || n == sizeof(bytes)) {
        peek->host[0] = '\0';
        return n <= 0 ? VL_PEEK_NO_HOST : vl_peek(bytes, (apr_size_t)n, peek)
               == VL_PEEK_HOST ? VL_PEEK_HOST : VL_PEEK_NO_HOST;
    }
    return vl_peek(bytes, (apr_size_t)n, peek);
}

/* The MPM is told once that somebody may pass, and finds no more when all have
 * passed. */
static void pass_locked(arrival_t *arrival)
{
    apr_uint64_t one = 1;

    APR_RING_INSERT_TAIL(&acceptor->passing, arrival, arrival_t, link);
    if (!acceptor->signalled) {
        acceptor->signalled = write(acceptor->pass_fd, &one, sizeof(one))
                              == sizeof(one);
        acceptor->signalled_us = now_us();
    }
}

static void quiet_locked(void)
{
    apr_uint64_t count;

    if (acceptor->signalled
        && read(acceptor->pass_fd, &count, sizeof(count)) == sizeof(count))
        acceptor->signalled = 0;
}

static void turn_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    arrival_t *arrival = (arrival_t *)waiter;

    arrival->turn.holds = ticket != NULL;
    if (ticket)
        arrival->turn.ticket = *ticket;
    arrival->turn.refused = refused;
    pass_locked(arrival);
}

static void pend_locked(arrival_t *arrival, int epoll_fd)
{
    struct epoll_event ev = { EPOLLIN | EPOLLRDHUP | EPOLLET,
                              { .ptr = arrival } };

    arrival->pending = 1;
    arrival->waiter.since_us = now_us();
    APR_RING_INSERT_TAIL(&acceptor->pending, arrival, arrival_t, link);
    acceptor->npending++;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, arrival->fd, &ev);
}

static void unpend_locked(arrival_t *arrival)
{
    int i;

    arrival->pending = 0;
    APR_RING_REMOVE(arrival, link);
    acceptor->npending--;
    for (i = 0; i < acceptor->nlisteners; i++)
        epoll_ctl(acceptor->listeners[i].epoll_fd, EPOLL_CTL_DEL, arrival->fd,
                  NULL);
}

static void line_up(arrival_t *arrival, const vl_conf_t *conf)
{
    vl_waiter_t *waiter = &arrival->waiter;

    arrival->waited = 1;
    waiter->account = conf->account;
    waiter->since_us = now_us();
    waiter->deadline_us = waiter->since_us + conf->queue_timeout;
    vl_park_lock();
    vl_park_add_locked(waiter);
    vl_park_unlock();
}

/* A newcomer, in no place yet.  1: it may go on at once. */
static int sort(arrival_t *arrival, const listener_t *l)
{
    vl_peek_t peek;
    const vl_conf_t *conf;

    if (look(arrival, &peek) == VL_PEEK_MORE) {
        vl_park_lock();
        pend_locked(arrival, l->epoll_fd);
        vl_park_unlock();
        return 0;
    }
    conf = conf_of(arrival, peek.host);
    if (conf->mode != VL_MODE_ON || !conf->queue)
        return 1;
    if (vl_slot_try(acceptor->shm, conf->account, &arrival->turn.ticket)
        == APR_SUCCESS) {
        arrival->turn.holds = 1;
        return 1;
    }
    line_up(arrival, conf);
    return 0;
}

static void sort_and_pass(arrival_t *arrival, const listener_t *l)
{
    if (sort(arrival, l)) {
        vl_park_lock();
        pass_locked(arrival);
        vl_park_unlock();
    }
}

/* --- the listener thread -------------------------------------------------- */

static arrival_t *arrival_new(int fd)
{
    arrival_t *arrival = calloc(1, sizeof(*arrival));

    if (!arrival) {
        close(fd);
        return NULL;
    }
    arrival->fd = fd;
    arrival->waiter.done = turn_locked;
    arrival->addr_len = sizeof(arrival->local);
    getsockname(fd, (struct sockaddr *)&arrival->local, &arrival->addr_len);
    return arrival;
}

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

static arrival_t *accept_one(listener_t *l)
{
    struct sockaddr_storage remote;
    socklen_t len = sizeof(remote);
    int fd = accept4(l->listen_fd, (struct sockaddr *)&remote, &len,
                     SOCK_CLOEXEC);
    arrival_t *arrival = fd < 0 ? NULL : arrival_new(fd);

    if (arrival)
        memcpy(&arrival->remote, &remote, len);
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS
             || errno == ENOMEM)
        go_deaf(l);
    return arrival;
}

/* Heads that were not complete and have had more: they become newcomers.  Level
 * and edge as they are, one that is still not complete is not seen again until
 * more has come. */
static void revisit(const listener_t *l)
{
    struct epoll_event events[64];
    arrival_t *arrival;
    int i, found, n = 0;

    if (acceptor->npending)
        n = epoll_wait(l->epoll_fd, events, 64, 0);
    for (i = 0; i < n; i++) {
        arrival = events[i].data.ptr;
        if (!arrival)
            continue;               /* the listener or pass_fd */
        vl_park_lock();
        found = arrival->pending;   /* else the keeper was faster */
        if (found)
            unpend_locked(arrival);
        vl_park_unlock();
        if (found)
            sort_and_pass(arrival, l);
    }
}

/* A connection that ends before anybody asked for its turn. */
static apr_status_t release_turn(void *data)
{
    vl_turn_t *turn = data;

    if (turn->holds)
        vl_park_end(&turn->ticket, NULL);
    turn->holds = 0;
    return APR_SUCCESS;
}

/* The arrival becomes a socket of APR's, with its turn. */
static apr_status_t hand_over(arrival_t *arrival, void **csd,
                              apr_pool_t *ptrans)
{
    vl_turn_t *turn = apr_pmemdup(ptrans, &arrival->turn, sizeof(*turn));
    apr_os_sock_info_t info = {
        &arrival->fd, (struct sockaddr *)&arrival->local,
        (struct sockaddr *)&arrival->remote, arrival->local.ss_family,
        SOCK_STREAM, APR_PROTO_TCP
    };
    apr_socket_t *sock;
    apr_status_t rv = apr_os_sock_make(&sock, &info, ptrans);

    if (rv != APR_SUCCESS) {
        release_turn(turn);
        close(arrival->fd);
    }
    else {
        if (arrival->waited)
            turn->waited_us = now_us() - arrival->waiter.since_us;
        apr_pool_cleanup_register(ptrans, turn, release_turn,
                                  apr_pool_cleanup_null);
        apr_socket_data_set(sock, turn, turn_key, NULL);
        *csd = sock;
    }
    free(arrival);
    return rv;
}

/* One socket a call is all the MPM takes, so our descriptor stays readable as
 * long as there are more. */
static arrival_t *next_passing(void)
{
    arrival_t *arrival = NULL;

    vl_park_lock();
    acceptor->accepted_us = now_us();
    if (acceptor->stuck) {
        acceptor->stuck = 0;
        vl_shm_child_pause(acceptor->shm, 0);
    }
    if (APR_RING_EMPTY(&acceptor->passing, arrival_t, link)) {
        quiet_locked();
    }
    else {
        arrival = APR_RING_FIRST(&acceptor->passing);
        APR_RING_REMOVE(arrival, link);
    }
    vl_park_unlock();
    return arrival;
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

/* A slot is free and nobody waits: the newcomer goes straight on, and whoever
 * else has come is left in the kernel until the MPM asks again.  Otherwise all
 * who have come are sorted before anybody is chosen, since who waits in the
 * kernel's queue waits in no fair one. */
static apr_status_t accept_fair(void **csd, ap_listen_rec *lr,
                                apr_pool_t *ptrans)
{
    listener_t *l = listener_of(lr);
    arrival_t *arrival;
    int i, free_slot = 0;

    *csd = NULL;
    if (acceptor->since_sorted++ < PASS_BATCH) {
        arrival = next_passing();
        if (arrival)
            return hand_over(arrival, csd, ptrans);
    }
    acceptor->since_sorted = 0;
    revisit(l);
    for (i = 0; !free_slot && i < ACCEPT_BATCH && (arrival = accept_one(l));
         i++)
        free_slot = sort(arrival, l);
    if (!free_slot)
        arrival = next_passing();
    return arrival ? hand_over(arrival, csd, ptrans) : APR_EAGAIN;
}

/* --- handing on ----------------------------------------------------------- */

/* Anybody who is still here. */
static arrival_t *evict_locked(void)
{
    arrival_t *arrival = NULL;
    vl_waiter_t *waiter;

    if (!APR_RING_EMPTY(&acceptor->pending, arrival_t, link)) {
        arrival = APR_RING_FIRST(&acceptor->pending);
        unpend_locked(arrival);
    }
    else if (!APR_RING_EMPTY(&acceptor->passing, arrival_t, link)) {
        arrival = APR_RING_FIRST(&acceptor->passing);
        APR_RING_REMOVE(arrival, link);
        release_turn(&arrival->turn);
    }
    else if ((waiter = vl_park_evict_locked(turn_locked))) {
        arrival = (arrival_t *)waiter;
    }
    return arrival;
}

/* The MPM has closed its listeners: so do we, and hand on who waits. */
static void give_away(void)
{
    int fds[VL_HANDOVER_MAX], i, tries;
    apr_size_t n;

    vl_park_lock();
    if (!acceptor->stopped) {
        acceptor->stopped = 1;
        vl_shm_child_pause(acceptor->shm, 1);
        for (i = 0; i < acceptor->nlisteners; i++)
            close(acceptor->listeners[i].listen_fd);
    }
    do {
        arrival_t *arrival;

        for (n = 0; n < VL_HANDOVER_MAX && (arrival = evict_locked()); n++) {
            fds[n] = arrival->fd;
            free(arrival);
        }
        /* The pair is full only while nobody reads it. */
        for (tries = 100; n && tries
             && vl_handover_send(acceptor->handover, fds, n) != APR_SUCCESS;
             tries--)
            apr_sleep(10 * 1000);
        for (i = 0; i < (int)n; i++)
            close(fds[i]);
    } while (n);
    /* Turns that come too late go back. */
    vl_park_take_locked();
    vl_park_unlock();
}

static apr_status_t give_away_at_exit(void *unused)
{
    give_away();
    return APR_SUCCESS;
}

/* What another child has handed on is sorted like a newcomer. */
static void adopt(void)
{
    int fds[VL_HANDOVER_MAX];
    apr_size_t i, n;

    while ((n = vl_handover_receive(acceptor->handover, fds)) > 0) {
        for (i = 0; i < n; i++) {
            arrival_t *arrival = arrival_new(fds[i]);
            socklen_t len = sizeof(arrival->remote);

            if (!arrival)
                continue;
            getpeername(fds[i], (struct sockaddr *)&arrival->remote, &len);
            sort_and_pass(arrival, &acceptor->listeners[0]);
        }
    }
}

/* --- the keeper ----------------------------------------------------------- */

static void expire(void)
{
    apr_int64_t now = now_us();

    vl_park_lock();
    vl_park_expire_locked(now);
    while (!APR_RING_EMPTY(&acceptor->pending, arrival_t, link)) {
        arrival_t *oldest = APR_RING_FIRST(&acceptor->pending);

        if (oldest->waiter.since_us + PENDING_US > now)
            break;
        unpend_locked(oldest);
        pass_locked(oldest);
    }
    vl_park_unlock();
}

static int listening(void)
{
    return acceptor->listeners[0].lr->active;
}

/* The MPM sets its own accept function when its threads start, after
 * child_init: ours must come later.  Until then its descriptor is silent. */
static void take_over(void)
{
    int i;

    for (i = 0; i < acceptor->nlisteners; i++) {
        ap_listen_rec *lr = acceptor->listeners[i].lr;

        while (lr->accept_func != ap_unixd_accept)
            apr_sleep(1000);
        lr->accept_func = accept_fair;
    }
    hear_again();
}

/* The MPM has stopped accepting, because its connections or its threads are at
 * their limit, and slots that nobody uses are held here: they go back, and no
 * more are granted to this child until the MPM accepts again.  Who has had a
 * slot taken away passes without. */
static void give_up_slots(void)
{
    arrival_t *arrival;
    apr_int64_t limit = now_us() - STUCK_US;

    vl_park_lock();
    if (!APR_RING_EMPTY(&acceptor->passing, arrival_t, link)
        && acceptor->accepted_us < limit && acceptor->signalled_us < limit
        && !acceptor->stuck) {
        acceptor->stuck = 1;
        vl_shm_child_pause(acceptor->shm, 1);
        vl_park_take_locked();
        APR_RING_FOREACH(arrival, &acceptor->passing, arrival_t, link) {
            if (arrival->turn.holds)
                vl_slot_end(acceptor->shm, &arrival->turn.ticket, NULL);
            arrival->turn.holds = 0;
        }
    }
    vl_park_unlock();
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

static void *APR_THREAD_FUNC keeper(apr_thread_t *thread, void *data)
{
    apr_int64_t looked = 0;

    take_over();
    while (listening()) {
        sleep_or_wake();
        if (now_us() - looked >= KEEPER_MS * 1000) {
            looked = now_us();
            expire();
            adopt();
            hear_again();
            give_up_slots();
            vl_slot_adjust(acceptor->shm, looked);
            vl_park_lock();
            vl_park_take_locked();
            vl_park_unlock();
        }
    }
    give_away();
    return NULL;
}

/* --- set-up --------------------------------------------------------------- */

static int is_http(const ap_listen_rec *lr)
{
    return !lr->protocol || !strcmp(lr->protocol, "http")
           || !strcmp(lr->protocol, "https");
}

/* The MPM's descriptor for a listener becomes ours. */
static apr_status_t replace_listener(listener_t *l, ap_listen_rec *lr,
                                     apr_pool_t *pchild)
{
    apr_socket_t *sd = NULL;

    l->lr = lr;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0)
        return errno;
    l->deaf = 1;
    watch(l, acceptor->pass_fd);
    apr_os_sock_get(&l->listen_fd, lr->sd);
    fcntl(l->listen_fd, F_SETFL,
          fcntl(l->listen_fd, F_GETFL) | O_NONBLOCK);
    apr_os_sock_put(&sd, &l->epoll_fd, pchild);
    lr->sd = sd;
    return APR_SUCCESS;
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
    ap_listen_rec *lr;
    apr_thread_t *thread;
    apr_threadattr_t *attr;
    int n = 0;

    if (!can_work(shm))
        return;
    acceptor = apr_pcalloc(pchild, sizeof(*acceptor));
    acceptor->main_server = main_server;
    acceptor->shm = shm;
    acceptor->handover = handover;
    acceptor->map = vl_vhostmap_child_init(pchild);
    acceptor->pass_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    APR_RING_INIT(&acceptor->pending, arrival_t, link);
    APR_RING_INIT(&acceptor->passing, arrival_t, link);
    for (lr = ap_listeners; lr; lr = lr->next)
        n += is_http(lr) && lr->active;
    acceptor->listeners = apr_pcalloc(pchild, sizeof(listener_t) * (n + 1));
    for (lr = ap_listeners; lr; lr = lr->next) {
        if (is_http(lr) && lr->active
            && replace_listener(&acceptor->listeners[acceptor->nlisteners], lr,
                                pchild) == APR_SUCCESS)
            acceptor->nlisteners++;
    }
    if (!acceptor->nlisteners)
        return;
    /* The keeper may not get to it. */
    apr_pool_pre_cleanup_register(pchild, NULL, give_away_at_exit);
    apr_threadattr_create(&attr, pchild);
    apr_threadattr_detach_set(attr, 1);
    apr_thread_create(&thread, attr, keeper, NULL, pchild);
}

/* Threads of this class do not preempt the listener when it wakes them, so it
 * sorts and hands on several connections before the first of them is worked
 * on; see docs/design/003-fair-accept.md for what that gains. */
static void yield_to_listener(void)
{
    static __thread int done;
    struct sched_param param = { 0 };

    if (!done)
        done = !sched_setscheduler(0, SCHED_BATCH, &param) || 1;
}

void vl_accept_turn(apr_socket_t *csd, vl_turn_t *ret_turn)
{
    void *data = NULL;
    vl_turn_t *turn;

    if (!acceptor)
        return;
    yield_to_listener();
    if (apr_socket_data_get(&data, turn_key, csd) != APR_SUCCESS || !data)
        return;
    turn = data;
    *ret_turn = *turn;
    turn->holds = 0;
}
