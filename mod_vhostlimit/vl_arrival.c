/* SPDX-License-Identifier: Apache-2.0 */
/* An arrival is in one of these places:
 *   pending   its head has not all come; in an epoll set, edge-triggered
 *   a line    (vl_park.h) its turn has not come
 *   passing   to be given to the MPM next: its turn has come, it is refused,
 *             could not be told whose it is, or is not ours to limit
 * and then in the MPM's hands. */
#include "vl_arrival.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <apr_portable.h>
#include <apr_strings.h>

#include "vl_conf.h"
#include "vl_peek.h"
#include "vl_vhostmap.h"

/* A head that has not come by then is the MPM's, whose timeouts hold. */
#define PENDING_US (10 * APR_USEC_PER_SEC)
/* The MPM was told that somebody may pass and has not come for so long. */
#define STUCK_US (100 * 1000)
/* Bytes of a head that are looked at. */
#define PEEK_SIZE 8192

static const char turn_key[] = "vhostlimit";

struct vl_arrival_t {
    vl_waiter_t waiter;             /* first: a waiter is its arrival */
    APR_RING_ENTRY(vl_arrival_t) link;  /* in pending or passing */
    int fd;
    int epoll_fd;                   /* while pending, else -1 */
    int waited;                     /* since waiter.since_us, in line */
    vl_turn_t turn;
    socklen_t addr_len;             /* of both */
    struct sockaddr_storage local, remote;
};

APR_RING_HEAD(arrivals_t, vl_arrival_t);

static struct places_t {
    server_rec *main_server;
    vl_shm_t *shm;
    vl_vhostmap_t *map;
    struct arrivals_t pending, passing;
    apr_uint32_t npending;
    int pass_fd;                    /* eventfd: somebody is in passing */
    int signalled;                  /* it is readable */
    apr_int64_t signalled_us;       /* since when */
    apr_int64_t asked_us;           /* when the MPM last asked who may pass */
    int stuck;                      /* it has not for too long */
} *places;

int vl_arrival_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm)
{
    places = apr_pcalloc(pchild, sizeof(*places));
    places->main_server = main_server;
    places->shm = shm;
    places->map = vl_vhostmap_child_init(pchild);
    places->pass_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    APR_RING_INIT(&places->pending, vl_arrival_t, link);
    APR_RING_INIT(&places->passing, vl_arrival_t, link);
    return places->pass_fd;
}

/* --- passing -------------------------------------------------------------- */

/* The MPM is told once that somebody may pass, and finds no more when all have
 * passed. */
static void pass_locked(vl_arrival_t *arrival)
{
    apr_uint64_t one = 1;

    APR_RING_INSERT_TAIL(&places->passing, arrival, vl_arrival_t, link);
    if (!places->signalled) {
        places->signalled = write(places->pass_fd, &one, sizeof(one))
                            == sizeof(one);
        places->signalled_us = apr_time_now();
    }
}

static void quiet_locked(void)
{
    apr_uint64_t count;

    if (places->signalled
        && read(places->pass_fd, &count, sizeof(count)) == sizeof(count))
        places->signalled = 0;
}

static void turn_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    vl_arrival_t *arrival = (vl_arrival_t *)waiter;

    arrival->turn.holds = ticket != NULL;
    if (ticket)
        arrival->turn.ticket = *ticket;
    arrival->turn.refused = refused;
    pass_locked(arrival);
}

/* One socket a call is all the MPM takes, so pass_fd stays readable as long as
 * there are more. */
vl_arrival_t *vl_arrival_next(void)
{
    vl_arrival_t *arrival = NULL;

    vl_park_lock();
    places->asked_us = apr_time_now();
    if (places->stuck) {
        places->stuck = 0;
        vl_shm_child_pause(places->shm, 0);
        vl_park_take_locked();
    }
    if (APR_RING_EMPTY(&places->passing, vl_arrival_t, link)) {
        quiet_locked();
    }
    else {
        arrival = APR_RING_FIRST(&places->passing);
        APR_RING_REMOVE(arrival, link);
    }
    vl_park_unlock();
    return arrival;
}

/* --- sorting -------------------------------------------------------------- */

vl_arrival_t *vl_arrival_new(int fd, const struct sockaddr_storage *remote)
{
    vl_arrival_t *arrival = calloc(1, sizeof(*arrival));
    socklen_t len = sizeof(arrival->remote);

    if (!arrival) {
        close(fd);
        return NULL;
    }
    arrival->fd = fd;
    arrival->epoll_fd = -1;
    arrival->waiter.done = turn_locked;
    arrival->addr_len = sizeof(arrival->local);
    getsockname(fd, (struct sockaddr *)&arrival->local, &arrival->addr_len);
    if (remote)
        arrival->remote = *remote;
    else
        getpeername(fd, (struct sockaddr *)&arrival->remote, &len);
    return arrival;
}

static void address_of(apr_sockaddr_t *sa, const struct sockaddr_storage *ss,
                       socklen_t len)
{
    memset(sa, 0, sizeof(*sa));
    memcpy(&sa->sa, ss, len);
    sa->family = ss->ss_family;
    sa->salen = len;
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

static const vl_conf_t *conf_of(const vl_arrival_t *arrival, const char *host)
{
    apr_sockaddr_t local;

    address_of(&local, &arrival->local, arrival->addr_len);
    return vl_conf_get(vl_vhostmap_find(places->map, places->main_server,
                                        &local, host));
}

/* 0: the client has gone, and the MPM will see for itself. */
static int look(const vl_arrival_t *arrival, vl_peek_e *ret_seen,
                vl_peek_t *peek)
{
    char bytes[PEEK_SIZE];
    ssize_t n = recv(arrival->fd, bytes, sizeof(bytes),
                     MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN) {
        *ret_seen = VL_PEEK_MORE;
        return 1;
    }
    if (n <= 0)
        return 0;
    *ret_seen = vl_peek(bytes, (apr_size_t)n, peek);
    if (*ret_seen == VL_PEEK_MORE && n == sizeof(bytes))
        *ret_seen = VL_PEEK_NO_HOST;
    return 1;
}

static void pend(vl_arrival_t *arrival, int epoll_fd)
{
    struct epoll_event ev = { EPOLLIN | EPOLLRDHUP | EPOLLET,
                              { .ptr = arrival } };

    vl_park_lock();
    arrival->epoll_fd = epoll_fd;
    if (!arrival->waiter.since_us)
        arrival->waiter.since_us = apr_time_now();
    APR_RING_INSERT_TAIL(&places->pending, arrival, vl_arrival_t, link);
    places->npending++;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, arrival->fd, &ev);
    vl_park_unlock();
}

static void unpend_locked(vl_arrival_t *arrival)
{
    epoll_ctl(arrival->epoll_fd, EPOLL_CTL_DEL, arrival->fd, NULL);
    arrival->epoll_fd = -1;
    APR_RING_REMOVE(arrival, link);
    places->npending--;
}

static void line_up(vl_arrival_t *arrival)
{
    arrival->waited = 1;
    vl_park_lock();
    vl_park_add_locked(&arrival->waiter);
    vl_park_unlock();
}

/* 1: it has no place and may pass at once.  all: nothing more will come. */
static int sort(vl_arrival_t *arrival, int epoll_fd, int all)
{
    vl_peek_t peek;
    vl_peek_e seen;
    const vl_conf_t *conf;

    if (!look(arrival, &seen, &peek) || (all && seen == VL_PEEK_MORE))
        return 1;
    if (seen == VL_PEEK_MORE) {
        pend(arrival, epoll_fd);
        return 0;
    }
    /* Whose the streams of an HTTP/2 connection are, each of them says. */
    if (peek.http2)
        return 1;
    conf = conf_of(arrival, peek.host);
    if (conf->mode != VL_MODE_ON || !conf->queue)
        return 1;
    arrival->waiter.account = conf->account;
    arrival->waiter.since_us = apr_time_now();
    arrival->waiter.deadline_us = arrival->waiter.since_us
                                  + conf->queue_timeout;
    if (vl_slot_try(places->shm, conf->account, &arrival->turn.ticket)
        == APR_SUCCESS) {
        arrival->turn.holds = 1;
        return 1;
    }
    line_up(arrival);
    return 0;
}

static void place(vl_arrival_t *arrival, int epoll_fd, int all)
{
    if (sort(arrival, epoll_fd, all)) {
        vl_park_lock();
        pass_locked(arrival);
        vl_park_unlock();
    }
}

void vl_arrival_place(vl_arrival_t *arrival, int epoll_fd)
{
    place(arrival, epoll_fd, 0);
}

void vl_arrival_revisit(vl_arrival_t *arrival, int epoll_fd,
                        apr_uint32_t events)
{
    vl_park_lock();
    unpend_locked(arrival);
    vl_park_unlock();
    place(arrival, epoll_fd, events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
}

/* --- leaving -------------------------------------------------------------- */

/* A connection that ends before anybody asked for its turn. */
static apr_status_t release_turn(void *data)
{
    vl_turn_t *turn = data;

    if (turn->holds)
        vl_park_end(&turn->ticket, NULL);
    turn->holds = 0;
    return APR_SUCCESS;
}

apr_status_t vl_arrival_socket(vl_arrival_t *arrival, apr_pool_t *p,
                               apr_socket_t **ret_sock)
{
    vl_turn_t *turn = apr_pmemdup(p, &arrival->turn, sizeof(*turn));
    apr_os_sock_info_t info = {
        &arrival->fd, (struct sockaddr *)&arrival->local,
        (struct sockaddr *)&arrival->remote, arrival->local.ss_family,
        SOCK_STREAM, APR_PROTO_TCP
    };
    apr_socket_t *sock = NULL;
    apr_status_t rv = apr_os_sock_make(&sock, &info, p);

    apr_pool_cleanup_register(p, turn, release_turn, apr_pool_cleanup_null);
    if (rv == APR_SUCCESS) {
        if (arrival->waited)
            turn->waited_us = apr_time_now() - arrival->waiter.since_us;
        apr_socket_data_set(sock, turn, turn_key, NULL);
        *ret_sock = sock;
    }
    else {
        close(arrival->fd);
    }
    free(arrival);
    return rv;
}

int vl_arrival_turn(apr_socket_t *sock, vl_turn_t *ret_turn)
{
    void *data = NULL;
    vl_turn_t *turn;

    if (apr_socket_data_get(&data, turn_key, sock) != APR_SUCCESS || !data)
        return 0;
    turn = data;
    *ret_turn = *turn;
    turn->holds = 0;
    return 1;
}

/* Under the lock, and with the child paused, so that no grant comes of it. */
static void give_back_locked(vl_turn_t *turn)
{
    if (turn->holds)
        vl_slot_end(places->shm, &turn->ticket, NULL);
    turn->holds = 0;
}

static vl_arrival_t *evict_one_locked(void)
{
    vl_arrival_t *arrival = NULL;
    vl_waiter_t *waiter;

    if (!APR_RING_EMPTY(&places->pending, vl_arrival_t, link)) {
        arrival = APR_RING_FIRST(&places->pending);
        unpend_locked(arrival);
    }
    else if (!APR_RING_EMPTY(&places->passing, vl_arrival_t, link)) {
        arrival = APR_RING_FIRST(&places->passing);
        APR_RING_REMOVE(arrival, link);
        give_back_locked(&arrival->turn);
    }
    else if ((waiter = vl_park_evict_locked(turn_locked))) {
        arrival = (vl_arrival_t *)waiter;
    }
    return arrival;
}

apr_size_t vl_arrival_evict(int *ret_fds, apr_size_t most)
{
    vl_arrival_t *arrival;
    apr_size_t n;

    vl_park_lock();
    vl_shm_child_pause(places->shm, 1);
    /* Grants on the way become turns, which are given back below. */
    vl_park_take_locked();
    for (n = 0; n < most && (arrival = evict_one_locked()); n++) {
        ret_fds[n] = arrival->fd;
        free(arrival);
    }
    vl_park_unlock();
    return n;
}

apr_size_t vl_arrival_shed(int *ret_fds, apr_size_t most)
{
    vl_waiter_t *waiter;
    apr_size_t n;

    vl_park_lock();
    for (n = 0; n < most && (waiter = vl_park_evict_locked(turn_locked)); n++) {
        ret_fds[n] = ((vl_arrival_t *)waiter)->fd;
        free(waiter);
    }
    vl_park_unlock();
    return n;
}

/* --- time ----------------------------------------------------------------- */

static void stop_waiting_for_heads_locked(apr_int64_t now_us)
{
    while (!APR_RING_EMPTY(&places->pending, vl_arrival_t, link)) {
        vl_arrival_t *oldest = APR_RING_FIRST(&places->pending);

        if (oldest->waiter.since_us + PENDING_US > now_us)
            break;
        unpend_locked(oldest);
        pass_locked(oldest);
    }
}

/* The MPM has stopped accepting, because its connections or its threads are at
 * their limit, and slots that nobody uses are held here: they go back, and no
 * more are granted to this child until the MPM asks again.  Who has had a slot
 * taken away waits again, before the others. */
static void give_up_slots_locked(apr_int64_t now_us)
{
    apr_int64_t limit = now_us - STUCK_US;
    vl_arrival_t *arrival, *before;

    if (places->stuck || APR_RING_EMPTY(&places->passing, vl_arrival_t, link)
        || places->asked_us > limit || places->signalled_us > limit)
        return;
    places->stuck = 1;
    vl_shm_child_pause(places->shm, 1);
    vl_park_take_locked();
    for (arrival = APR_RING_LAST(&places->passing);
         arrival != APR_RING_SENTINEL(&places->passing, vl_arrival_t, link);
         arrival = before) {
        before = APR_RING_PREV(arrival, link);
        if (arrival->turn.holds) {
            APR_RING_REMOVE(arrival, link);
            give_back_locked(&arrival->turn);
            arrival->waited = 1;
            vl_park_put_back_locked(&arrival->waiter);
        }
    }
}

int vl_arrival_tick(apr_int64_t now_us)
{
    int stuck;

    vl_park_lock();
    vl_park_expire_locked(now_us);
    vl_park_take_locked();
    stop_waiting_for_heads_locked(now_us);
    give_up_slots_locked(now_us);
    stuck = places->stuck;
    vl_park_unlock();
    return stuck;
}
