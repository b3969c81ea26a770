/* SPDX-License-Identifier: Apache-2.0 */
/* A socket is in one of these places:
 *   pending   its head has not all come; in the epoll set, edge-triggered
 *   a line    (vl_wait.h) its turn has not come; one `waiting` in vl_slot.h
 *   passing   to be given to the MPM next, without a slot: it is to be
 *             refused, could not be told whose it is, or is not ours to limit
 * and then in the MPM's hands.  `lock` guards all of them; the listener thread
 * and the keeper share them.
 *
 * The keeper is a thread of ours that looks ten times a second for what time
 * has changed: heads that do not come, waits that are over, listeners that the
 * MPM has closed because the child stops. */
#include "vl_accept.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ap_listen.h>
#include <ap_mpm.h>
#include <apr_portable.h>
#include <apr_strings.h>
#include <apr_thread_proc.h>
#include <unixd.h>

#include "vl_conf.h"
#include "vl_peek.h"
#include "vl_private.h"
#include "vl_vhostmap.h"
#include "vl_wait.h"

/* A head that has not come by then is the MPM's, whose timeouts hold. */
#define PENDING_US (10 * APR_USEC_PER_SEC)
#define KEEPER_US (100 * 1000)
/* Accepted in one go; then the turn of those who wait. */
#define ACCEPT_BATCH 64
/* Bytes of a head that are looked at. */
#define PEEK_SIZE 8192

static const char mark_key[] = "vhostlimit";

typedef struct arrival_t {
    vl_waiter_t waiter;             /* first: a waiter is its arrival */
    APR_RING_ENTRY(arrival_t) link; /* in pending or passing */
    int fd;
    int pending;
    vl_reason_e refused;
    apr_sockaddr_t *unused;
    socklen_t addr_len;
    struct sockaddr_storage local, remote;
} arrival_t;

APR_RING_HEAD(arrivals_t, arrival_t);

typedef struct listener_t {
    ap_listen_rec *lr;
    int listen_fd;                  /* the real one; -1: closed */
    int epoll_fd;                   /* what the MPM polls */
} listener_t;

static struct {
    server_rec *main_server;
    vl_shm_t *shm;
    pthread_mutex_t lock;
    vl_vhostmap_t *map;
    vl_wait_t *lines;
    struct arrivals_t pending, passing;
    apr_uint32_t npending;
    listener_t *listeners;
    int nlisteners;
    apr_pool_t *scratch;            /* listener thread: a peer's addresses */
} acceptor = { .lock = PTHREAD_MUTEX_INITIALIZER };

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
    return vl_conf_get(vl_vhostmap_find(acceptor.map, acceptor.main_server,
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

static void pass_locked(arrival_t *arrival, vl_reason_e refused)
{
    arrival->refused = refused;
    APR_RING_INSERT_TAIL(&acceptor.passing, arrival, arrival_t, link);
}

static void line_up_locked(arrival_t *arrival, const vl_conf_t *conf)
{
    arrival->waiter.account = conf->account;
    arrival->waiter.deadline_us = arrival->waiter.since_us
                                  + conf->queue_timeout;
    vl_wait_add(acceptor.lines, &arrival->waiter);
    if (vl_slot_wait(acceptor.shm, conf->account) != APR_SUCCESS) {
        vl_wait_remove(acceptor.lines, &arrival->waiter);
        pass_locked(arrival, VL_REASON_QUEUE);
    }
}

static void pend_locked(arrival_t *arrival, int epoll_fd)
{
    struct epoll_event ev = { EPOLLIN | EPOLLRDHUP | EPOLLET,
                              { .ptr = arrival } };

    arrival->pending = 1;
    APR_RING_INSERT_TAIL(&acceptor.pending, arrival, arrival_t, link);
    acceptor.npending++;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, arrival->fd, &ev);
}

static void unpend_locked(arrival_t *arrival)
{
    int i;

    arrival->pending = 0;
    APR_RING_REMOVE(arrival, link);
    acceptor.npending--;
    for (i = 0; i < acceptor.nlisteners; i++)
        epoll_ctl(acceptor.listeners[i].epoll_fd, EPOLL_CTL_DEL, arrival->fd,
                  NULL);
}

/* 1: a slot was free, and the arrival is the MPM's with ret_ticket. */
static int sort_locked(arrival_t *arrival, const listener_t *l,
                       vl_ticket_t *ret_ticket)
{
    vl_peek_t peek;
    vl_peek_e seen = look(arrival, &peek);
    const vl_conf_t *conf;

    if (seen == VL_PEEK_MORE) {
        if (!arrival->pending)
            pend_locked(arrival, l->epoll_fd);
        return 0;
    }
    if (arrival->pending)
        unpend_locked(arrival);
    arrival->waiter.since_us = now_us();
    conf = conf_of(arrival, peek.host);
    if (conf->mode != VL_MODE_ON) {
        pass_locked(arrival, VL_REASON_NONE);
        return 0;
    }
    arrival->waiter.account = conf->account;
    if (vl_slot_try(acceptor.shm, conf->account, ret_ticket) == APR_SUCCESS)
        return 1;
    line_up_locked(arrival, conf);
    return 0;
}

/* --- the listener thread -------------------------------------------------- */

static arrival_t *accept_one(const listener_t *l)
{
    struct sockaddr_storage remote;
    socklen_t len = sizeof(remote), local_len = sizeof(remote);
    int fd = accept4(l->listen_fd, (struct sockaddr *)&remote, &len,
                     SOCK_CLOEXEC);
    arrival_t *arrival;

    if (fd < 0)
        return NULL;
    arrival = malloc(sizeof(*arrival));
    if (!arrival) {
        close(fd);
        return NULL;
    }
    arrival->fd = fd;
    arrival->pending = 0;
    arrival->refused = VL_REASON_NONE;
    arrival->addr_len = len;
    memcpy(&arrival->remote, &remote, len);
    arrival->waiter.since_us = now_us();
    getsockname(fd, (struct sockaddr *)&arrival->local, &local_len);
    return arrival;
}

/* Heads that were not complete and have had more. */
static arrival_t *revisit_locked(const listener_t *l, vl_ticket_t *ret_ticket)
{
    struct epoll_event events[64];
    int i, n = acceptor.npending ? epoll_wait(l->epoll_fd, events, 64, 0) : 0;

    for (i = 0; i < n; i++) {
        arrival_t *arrival = events[i].data.ptr;

        if (arrival && sort_locked(arrival, l, ret_ticket))
            return arrival;
    }
    return NULL;
}

static apr_status_t release_mark(void *data)
{
    vl_accept_mark_t *mark = data;

    if (mark->holds)
        vl_slot_end(acceptor.shm, &mark->ticket, NULL);
    mark->holds = 0;
    return APR_SUCCESS;
}

/* The arrival becomes a socket of APR's, with its mark. */
static apr_status_t hand_over(arrival_t *arrival, const vl_ticket_t *ticket,
                              void **csd, apr_pool_t *ptrans)
{
    vl_accept_mark_t *mark = apr_pcalloc(ptrans, sizeof(*mark));
    apr_os_sock_info_t info = {
        &arrival->fd, (struct sockaddr *)&arrival->local,
        (struct sockaddr *)&arrival->remote, arrival->remote.ss_family,
        SOCK_STREAM, APR_PROTO_TCP
    };
    apr_socket_t *sock;
    apr_status_t rv = apr_os_sock_make(&sock, &info, ptrans);

    mark->account = arrival->waiter.account;
    mark->refused = arrival->refused;
    if (ticket) {
        mark->holds = 1;
        mark->ticket = *ticket;
    }
    if (rv != APR_SUCCESS) {
        release_mark(mark);
        close(arrival->fd);
    }
    else {
        mark->waited_us = now_us() - arrival->waiter.since_us;
        apr_pool_cleanup_register(ptrans, mark, release_mark,
                                  apr_pool_cleanup_null);
        apr_socket_data_set(sock, mark, mark_key, NULL);
        *csd = sock;
    }
    free(arrival);
    return rv;
}

/* Whose turn it is, by the grants of this child. */
static arrival_t *granted_locked(vl_ticket_t *ret_ticket)
{
    vl_waiter_t *waiter;

    while (vl_slot_take(acceptor.shm, ret_ticket) == APR_SUCCESS) {
        waiter = vl_wait_pop(acceptor.lines, ret_ticket->account);
        if (waiter)
            return (arrival_t *)waiter;
        /* It gave up after the slot was granted. */
        vl_slot_end(acceptor.shm, ret_ticket, NULL);
    }
    return NULL;
}

static void signal_self(void)
{
    apr_uint64_t one = 1;

    if (write(vl_shm_child_wake_fd(acceptor.shm), &one, sizeof(one)) < 0)
        return;                     /* it is readable already */
}

static void quiet_self(void)
{
    apr_uint64_t count;

    if (read(vl_shm_child_wake_fd(acceptor.shm), &count, sizeof(count)) < 0)
        return;                     /* it was not readable */
}

static arrival_t *next_locked(vl_ticket_t *ticket, int *ret_holds)
{
    arrival_t *arrival;

    *ret_holds = 0;
    if (!APR_RING_EMPTY(&acceptor.passing, arrival_t, link)) {
        arrival = APR_RING_FIRST(&acceptor.passing);
        APR_RING_REMOVE(arrival, link);
        signal_self();
        return arrival;
    }
    *ret_holds = 1;
    arrival = granted_locked(ticket);
    if (arrival)
        return arrival;
    /* Nothing left; look once more after the descriptor was emptied, because
     * a grant in between would have been the reason it was readable. */
    quiet_self();
    arrival = granted_locked(ticket);
    if (arrival)
        signal_self();
    return arrival;
}

static const listener_t *listener_of(const ap_listen_rec *lr)
{
    int i;

    for (i = 0; i < acceptor.nlisteners - 1; i++) {
        if (acceptor.listeners[i].lr == lr)
            break;
    }
    return &acceptor.listeners[i];
}

/* A slot is free and nobody waits: the newcomer goes straight on, and whoever
 * else has come is left in the kernel until the MPM asks again.  Otherwise all
 * who have come are sorted before anybody is chosen, since who waits in the
 * kernel's queue waits in no fair one. */
static apr_status_t accept_fair(void **csd, ap_listen_rec *lr,
                                apr_pool_t *ptrans)
{
    const listener_t *l = listener_of(lr);
    arrival_t *arrival;
    vl_ticket_t ticket;
    int i, holds = 0;

    *csd = NULL;
    pthread_mutex_lock(&acceptor.lock);
    arrival = revisit_locked(l, &ticket);
    for (i = 0; !arrival && i < ACCEPT_BATCH; i++) {
        arrival_t *new = accept_one(l);

        if (!new)
            break;
        if (sort_locked(new, l, &ticket))
            arrival = new;
    }
    if (arrival)
        holds = 1;
    else
        arrival = next_locked(&ticket, &holds);
    pthread_mutex_unlock(&acceptor.lock);
    if (!arrival)
        return APR_EAGAIN;
    return hand_over(arrival, holds ? &ticket : NULL, csd, ptrans);
}

/* --- the keeper ----------------------------------------------------------- */

static void expire(void)
{
    apr_int64_t now = now_us();
    vl_waiter_t *waiter;
    int any = 0;

    pthread_mutex_lock(&acceptor.lock);
    while (!APR_RING_EMPTY(&acceptor.pending, arrival_t, link)) {
        arrival_t *oldest = APR_RING_FIRST(&acceptor.pending);

        if (oldest->waiter.since_us + PENDING_US > now)
            break;
        unpend_locked(oldest);
        pass_locked(oldest, VL_REASON_NONE);
        any = 1;
    }
    while ((waiter = vl_wait_expired(acceptor.lines, now))) {
        vl_wait_remove(acceptor.lines, waiter);
        vl_slot_unwait(acceptor.shm, waiter->account);
        pass_locked((arrival_t *)waiter, VL_REASON_TIMEOUT);
        any = 1;
    }
    pthread_mutex_unlock(&acceptor.lock);
    if (any)
        signal_self();
}

/* The MPM sets its own accept function when its threads start, after
 * child_init: ours must come later.  Until then our descriptor is silent. */
static void take_over(void)
{
    struct epoll_event listen_ev = { EPOLLIN, { .ptr = NULL } };
    int i;

    for (i = 0; i < acceptor.nlisteners; i++) {
        listener_t *l = &acceptor.listeners[i];

        while (l->lr->accept_func != ap_unixd_accept)
            apr_sleep(1000);
        l->lr->accept_func = accept_fair;
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->listen_fd, &listen_ev);
        if (!i)
            epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD,
                      vl_shm_child_wake_fd(acceptor.shm), &listen_ev);
    }
}

static void *APR_THREAD_FUNC keeper(apr_thread_t *thread, void *data)
{
    take_over();
    for (;;) {
        apr_sleep(KEEPER_US);
        expire();
    }
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
    apr_os_sock_get(&l->listen_fd, lr->sd);
    fcntl(l->listen_fd, F_SETFL,
          fcntl(l->listen_fd, F_GETFL) | O_NONBLOCK);
    apr_os_sock_put(&sd, &l->epoll_fd, pchild);
    lr->sd = sd;
    return APR_SUCCESS;
}

static int can_work(void)
{
    int threaded = 0;

    ap_mpm_query(AP_MPMQ_IS_THREADED, &threaded);
    return threaded != AP_MPMQ_NOT_SUPPORTED && ap_num_listen_buckets <= 1
           && vl_shm_child_wake_fd(acceptor.shm) >= 0;
}

void vl_accept_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, apr_uint32_t accounts)
{
    ap_listen_rec *lr;
    apr_thread_t *thread;
    apr_threadattr_t *attr;
    int n = 0;

    acceptor.main_server = main_server;
    acceptor.shm = shm;
    if (!can_work())
        return;
    acceptor.map = vl_vhostmap_child_init(pchild);
    acceptor.lines = vl_wait_create(pchild, accounts);
    APR_RING_INIT(&acceptor.pending, arrival_t, link);
    APR_RING_INIT(&acceptor.passing, arrival_t, link);
    for (lr = ap_listeners; lr; lr = lr->next)
        n += is_http(lr) && lr->active;
    acceptor.listeners = apr_pcalloc(pchild, sizeof(listener_t) * (n + 1));
    for (lr = ap_listeners; lr; lr = lr->next) {
        if (is_http(lr) && lr->active
            && replace_listener(&acceptor.listeners[acceptor.nlisteners], lr,
                                pchild) == APR_SUCCESS)
            acceptor.nlisteners++;
    }
    if (!acceptor.nlisteners)
        return;
    apr_threadattr_create(&attr, pchild);
    apr_threadattr_detach_set(attr, 1);
    apr_thread_create(&thread, attr, keeper, NULL, pchild);
}

vl_accept_mark_t *vl_accept_mark(apr_socket_t *csd)
{
    void *mark = NULL;

    if (apr_socket_data_get(&mark, mark_key, csd) != APR_SUCCESS)
        return NULL;
    return mark;
}
