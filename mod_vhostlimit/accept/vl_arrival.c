/* SPDX-License-Identifier: Apache-2.0 */
/* Where the arrivals of this child are, and how the acceptor sorts them.  It is
 * the only one to free what may still be among the events it has got: see
 * vl_arrival_bury_locked(). */
#include "accept/vl_arrival_int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/vl_clock.h"
#include "config/vl_conf.h"
#include "config/vl_headtime.h"
#include "lease/vl_lease.h"
#include "accept/vl_classify.h"
#include "core/vl_thread.h"

/* A connection that waits for longer is watched for the end of its client.  One that
 * does not is asked before it is passed: two system calls less. */
#define WATCH_END_US 100000
/* Of what a closing client still sends; then it is others' turn. */
#define DRAIN_SIZE (1 << 16)

places_t *vl_arrivals;

/* The child ends.  Those that the MPM has are its to close. */
static apr_status_t free_all(void *unused)
{
    place_e place;
    vl_arrival_t *arrival;

    for (place = SORTING; place < PLACES; place++) {
        while (place != PASSED && (arrival = vl_arrival_first_locked(place))) {
            APR_RING_REMOVE(arrival, link);
            free(arrival);
        }
    }
    return APR_SUCCESS;
}

int vl_arrival_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, int epoll_fd, apr_uint32_t most)
{
    int i;

    vl_arrivals = apr_pcalloc(pchild, sizeof(*vl_arrivals));
    vl_arrivals->shm = shm;
    vl_arrivals->main_server = main_server;
    vl_classify_child_init(pchild, main_server);
    vl_arrivals->wheel = vl_wheel_create(pchild, vl_clock_us());
    vl_arrivals->epoll_fd = epoll_fd;
    vl_arrivals->most = most;
    vl_arrivals->pass_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (i = 0; i < PLACES; i++)
        APR_RING_INIT(&vl_arrivals->in[i], vl_arrival_t, link);
    apr_pool_cleanup_register(pchild, NULL, free_all, apr_pool_cleanup_null);
    return vl_arrivals->pass_fd;
}

/* --- places --------------------------------------------------------------- */

static void leave_locked(vl_arrival_t *arrival)
{
    vl_wheel_clear(&arrival->timer);
    APR_RING_REMOVE(arrival, link);
    vl_arrivals->count[arrival->place]--;
}

void vl_arrival_enter_locked(vl_arrival_t *arrival, place_e place)
{
    arrival->place = place;
    APR_RING_INSERT_TAIL(&vl_arrivals->in[place], arrival, vl_arrival_t, link);
    vl_arrivals->count[place]++;
}

void vl_arrival_move_locked(vl_arrival_t *arrival, place_e place)
{
    leave_locked(arrival);
    vl_arrival_enter_locked(arrival, place);
}

vl_arrival_t *vl_arrival_first_locked(place_e place)
{
    return APR_RING_EMPTY(&vl_arrivals->in[place], vl_arrival_t, link)
           ? NULL : APR_RING_FIRST(&vl_arrivals->in[place]);
}

int vl_arrival_watch_locked(vl_arrival_t *arrival, apr_uint32_t how)
{
    struct epoll_event ev = { EPOLLIN | EPOLLRDHUP | how, { .ptr = arrival } };
    int op = arrival->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (arrival->watched == WATCHED && how)
        return 1;
    if (!epoll_ctl(vl_arrivals->epoll_fd, op, arrival->fd, &ev))
        arrival->watched = WATCHED;
    return arrival->watched == WATCHED;
}

void vl_arrival_watch_end_locked(vl_arrival_t *arrival)
{
    struct epoll_event ev = { EPOLLRDHUP | EPOLLET, { .ptr = arrival } };

    if (!arrival->watched
        && !epoll_ctl(vl_arrivals->epoll_fd, EPOLL_CTL_ADD, arrival->fd, &ev))
        arrival->watched = WATCHED_FOR_END;
}

void vl_arrival_bury_locked(vl_arrival_t *arrival)
{
    if (!arrival->watched) {
        leave_locked(arrival);
        free(arrival);
        return;
    }
    epoll_ctl(vl_arrivals->epoll_fd, EPOLL_CTL_DEL, arrival->fd, NULL);
    vl_arrival_move_locked(arrival, GONE);
}

void vl_arrival_close_locked(vl_arrival_t *arrival)
{
    int fd = arrival->fd;

    vl_arrival_bury_locked(arrival);
    close(fd);
}

/* Closes one connection because descriptors are short.  That is the oldest that
 * was refused here and only waits for its client to close.  Without such, and if
 * one site has more waiting connections here than there are others, in the MPM or
 * without a whole head, it is the newest of that site, so that a flood closes its
 * own.  Else it is one that the MPM has (vl_lease_spare_locked()), then the oldest
 * one without a whole head. */
static vl_spared_e close_one_locked(void)
{
    vl_arrival_t *arrival = vl_arrival_first_locked(LINGER);
    apr_uint32_t waiting;
    vl_waiter_t *newest;

    if (!arrival) {
        newest = vl_park_newest_of_longest_locked(vl_arrival_granted_locked,
                                                  &waiting);
        if (newest && waiting >= vl_arrivals->count[PENDING]
            && waiting >= vl_lease_descriptors()) {
            vl_park_remove_locked(newest);
            vl_arrival_reset_locked((vl_arrival_t *)newest);
            return VL_SPARED;
        }
        if (vl_lease_spare_locked())
            return VL_SPARED_SOON;
        arrival = vl_arrival_first_locked(PENDING);
    }
    if (!arrival)
        return VL_SPARED_NONE;
    vl_arrival_close_locked(arrival);
    return VL_SPARED;
}

void vl_arrival_make_room_locked(void)
{
    while (vl_arrivals->count[LINGER] >= vl_arrivals->most)
        vl_arrival_close_locked(vl_arrival_first_locked(LINGER));
}

/* The threads need the descriptors that are left. */
static int is_crowded_locked(void)
{
    apr_uint32_t all = vl_lease_descriptors();
    int i;

    for (i = 0; i < PLACES; i++)
        all += i == PASSED || i == GONE ? 0 : vl_arrivals->count[i];
    return all / 2 > vl_arrivals->most;
}

void vl_arrival_pass_locked(vl_arrival_t *arrival)
{
    apr_uint64_t one = 1;

    vl_arrival_move_locked(arrival, PASSING);
    if (!vl_arrivals->signalled) {
        vl_arrivals->signalled = write(vl_arrivals->pass_fd, &one, sizeof(one))
                                 == sizeof(one);
        vl_arrivals->signalled_us = vl_clock_us();
    }
}

void vl_arrival_granted_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                            vl_reason_e refused)
{
    vl_arrival_t *arrival = (vl_arrival_t *)waiter;

    arrival->grant.holds = ticket != NULL;
    arrival->grant.ticket.account = waiter->account;
    if (ticket)
        arrival->grant.ticket = *ticket;
    arrival->grant.refused = refused;
    if (refused == VL_REASON_QUEUE)
        vl_arrival_refuse_locked(arrival);
    else
        vl_arrival_pass_locked(arrival);
}

void vl_arrival_give_back_locked(vl_grant_t *grant)
{
    if (grant->holds)
        vl_slot_end(vl_arrivals->shm, &grant->ticket, NULL);
    if (grant->occupies)
        vl_thread_free(vl_arrivals->shm, grant->ticket.account);
    grant->holds = grant->occupies = 0;
}

static void pass(vl_arrival_t *arrival)
{
    vl_park_lock();
    vl_arrival_pass_locked(arrival);
    vl_park_unlock();
}

/* It waits beside the queues until more of its head comes, as long as Apache
 * would wait. */
static void pend(vl_arrival_t *arrival, const vl_classified_t *look)
{
    apr_int64_t now_us = vl_clock_us();

    if (!arrival->began_us)
        arrival->began_us = now_us;
    arrival->client.tls = look->tls;
    vl_park_lock();
    if (vl_arrival_watch_locked(arrival, EPOLLET)) {
        vl_arrival_move_locked(arrival, PENDING);
        vl_wheel_set(vl_arrivals->wheel, &arrival->timer,
                     vl_headtime_deadline(look->server, look->tls,
                                          arrival->began_us, now_us,
                                          look->bytes));
    }
    else {
        vl_arrival_pass_locked(arrival);
    }
    vl_park_unlock();
}

/* --- sorting -------------------------------------------------------------- */

/* The client sends nothing more.  Apache answers an incomplete request.  A
 * connection that sent nothing is closed here. */
static void give_up(vl_arrival_t *arrival, int nothing)
{
    vl_park_lock();
    if (nothing)
        vl_arrival_close_locked(arrival);
    else
        vl_arrival_pass_locked(arrival);
    vl_park_unlock();
}

/* Its account's slot at once, or its line. */
static void ask(vl_arrival_t *arrival, const vl_conf_t *conf)
{
    vl_waiter_t *waiter = &arrival->waiter;

    waiter->account = conf->account;
    waiter->since_us = arrival->asked_us ? arrival->asked_us : vl_clock_us();
    waiter->deadline_us = waiter->since_us + conf->queue_timeout;
    waiter->done = vl_arrival_granted_locked;
    arrival->grant.timeout_us = conf->queue_timeout;
    waiter->may_defer = 1;
    arrival->conf = conf;
    arrival->waited = 1;
    vl_park_lock();
    vl_arrival_move_locked(arrival, LINE);
    vl_wheel_set(vl_arrivals->wheel, &arrival->timer,
                 vl_clock_us() + WATCH_END_US);
    if (vl_park_ask_locked(waiter, &arrival->grant.ticket)) {
        arrival->grant.holds = 1;
        arrival->waited = arrival->asked_us != 0;
        vl_arrival_pass_locked(arrival);
    }
    vl_park_unlock();
}

/* Whose the streams of HTTP/2 in cleartext are, the first of them says. Until then
 * the connection counts as one of the address's default server. It needs no slot,
 * and waits only if that server has too many of this child's threads. */
static int passes_with_thread(vl_arrival_t *arrival, const vl_conf_t *conf)
{
    if (conf->mode != VL_MODE_ON
        || vl_thread_try_occupy(vl_arrivals->shm, conf->account) != APR_SUCCESS)
        return 0;
    arrival->grant.occupies = 1;
    arrival->grant.ticket.account = conf->account;
    pass(arrival);
    return 1;
}

static void ask_for(vl_arrival_t *arrival, const vl_classified_t *look)
{
    const vl_conf_t *conf = vl_conf_get(look->server);

    arrival->began_us = 0;
    arrival->http2 = look->http2;
    if (look->http2 && passes_with_thread(arrival, conf))
        return;
    if (conf->mode == VL_MODE_ON && !look->exempt
        && vl_slot_queue(vl_arrivals->shm, conf->account)) {
        arrival->ready = !look->tls && !look->http2;
        arrival->client.tls = look->tls;
        arrival->head = look->head;
        arrival->client.http11 = look->http11 && !look->http2;
        arrival->client.probed = 0;
        ask(arrival, conf);
    }
    else {
        pass(arrival);
    }
}

void vl_arrival_forget_grant(vl_arrival_t *arrival)
{
    arrival->ready = 0;
    arrival->waited = 0;
    memset(&arrival->grant, 0, sizeof(arrival->grant));
}

/* all: nothing more will come. */
static void sort(vl_arrival_t *arrival, int all)
{
    vl_classified_t look;
    vl_classify_e seen = vl_classify(arrival->fd, &arrival->local, &arrival->remote,
                             arrival->addr_len, &look);

    vl_arrival_forget_grant(arrival);
    if (seen == VL_CLASSIFY_ALL)
        ask_for(arrival, &look);
    else if (seen == VL_CLASSIFY_CLOSED || all)
        give_up(arrival, seen != VL_CLASSIFY_SOME);
    else
        pend(arrival, &look);
}

vl_arrival_t *vl_arrival_make(int fd)
{
    vl_arrival_t *arrival = calloc(1, sizeof(*arrival));

    if (!arrival) {
        close(fd);
        return NULL;
    }
    arrival->fd = fd;
    return arrival;
}

static void find_local(vl_arrival_t *arrival)
{
    arrival->addr_len = sizeof(arrival->local);
    getsockname(arrival->fd, (struct sockaddr *)&arrival->local,
                &arrival->addr_len);
}

static vl_arrival_t *arrival_passed(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = vl_arrival_make(fd);
    socklen_t length = sizeof(arrival->remote);

    if (!arrival)
        return NULL;
    find_local(arrival);
    getpeername(fd, (struct sockaddr *)&arrival->remote, &length);
    arrival->began_us = passed->began_us;
    arrival->asked_us = passed->since_us;
    return arrival;
}

static void enter(vl_arrival_t *arrival, place_e place)
{
    vl_park_lock();
    if (place == SORTING && is_crowded_locked())
        close_one_locked();
    vl_arrivals->came += place == SORTING;
    vl_arrival_enter_locked(arrival, place);
    vl_park_unlock();
}

void vl_arrival_come(int fd, const struct sockaddr_storage *remote,
                     const struct sockaddr_storage *local,
                     socklen_t local_length)
{
    vl_arrival_t *arrival = vl_arrival_make(fd);

    if (!arrival)
        return;
    arrival->remote = *remote;
    arrival->local = *local;
    arrival->addr_len = local_length;
    if (!local_length)
        find_local(arrival);
    enter(arrival, SORTING);
    sort(arrival, 0);
}

void vl_arrival_adopt(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = arrival_passed(fd, passed);

    if (!arrival)
        return;
    enter(arrival, SORTING);
    sort(arrival, 0);
}

void vl_arrival_keep(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = arrival_passed(fd, passed);

    if (arrival)
        enter(arrival, KEPT);
}

vl_spared_e vl_arrival_spare(void)
{
    vl_spared_e spared;

    vl_park_lock();
    spared = close_one_locked();
    vl_park_unlock();
    return spared;
}

/* --- closing -------------------------------------------------------------- */

int vl_arrival_drain(int fd)
{
    static char untouched[DRAIN_SIZE];      /* MSG_TRUNC: tcp(7) */
    ssize_t n = recv(fd, untouched, sizeof(untouched),
                     MSG_TRUNC | MSG_DONTWAIT);

    return n > 0 || (n < 0 && errno == EAGAIN);
}

void vl_arrival_linger_locked(vl_arrival_t *arrival, apr_int64_t until_us)
{
    vl_arrival_move_locked(arrival, LINGER);
    vl_wheel_set(vl_arrivals->wheel, &arrival->timer, until_us);
}

/* --- the acceptor --------------------------------------------------------- */

void vl_arrival_revisit(vl_arrival_t *arrival, apr_uint32_t events)
{
    int sorts = 0;

    vl_park_lock();
    switch (arrival->place) {
    case PENDING:
        vl_arrival_move_locked(arrival, SORTING);
        sorts = 1;
        break;
    case LINGER:
        if (!vl_arrival_drain(arrival->fd))
            vl_arrival_close_locked(arrival);
        break;
    case LINE:
        if (vl_arrival_is_gone_locked(arrival, events))
            vl_arrival_drop_gone_locked(arrival);
        break;
    default:
        break;
    }
    vl_park_unlock();
    if (sorts)
        sort(arrival, !!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)));
}

static vl_arrival_t *next_kept(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    arrival = vl_arrival_first_locked(KEPT);
    if (arrival)
        vl_arrival_move_locked(arrival, SORTING);
    vl_park_unlock();
    return arrival;
}

void vl_arrival_settle(void)
{
    vl_arrival_t *arrival;

    while ((arrival = next_kept()))
        sort(arrival, 0);
    vl_park_lock();
    while ((arrival = vl_arrival_first_locked(GONE))) {
        leave_locked(arrival);
        free(arrival);
    }
    vl_park_unlock();
}
