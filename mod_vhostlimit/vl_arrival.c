/* SPDX-License-Identifier: Apache-2.0 */
/* Where the arrivals of this child are, and how the acceptor sorts them.  It is
 * the only one to free what may still be among the events it has got: see
 * vl_arrival_bury_locked(). */
#include "vl_arrival_int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vl_clock.h"
#include "vl_conf.h"
#include "vl_headtime.h"
#include "vl_look.h"

/* Of what a closing client still sends; then it is others' turn. */
#define DRAIN_SIZE (1 << 16)

places_t *vl_arrivals;

int vl_arrival_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, int epoll_fd, apr_uint32_t most)
{
    int i;

    vl_arrivals = apr_pcalloc(pchild, sizeof(*vl_arrivals));
    vl_arrivals->shm = shm;
    vl_look_child_init(pchild, main_server);
    vl_arrivals->wheel = vl_wheel_create(pchild, vl_clock_us());
    vl_arrivals->epoll_fd = epoll_fd;
    vl_arrivals->most = most;
    vl_arrivals->pass_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (i = 0; i < PLACES; i++)
        APR_RING_INIT(&vl_arrivals->in[i], vl_arrival_t, link);
    return vl_arrivals->pass_fd;
}

/* --- places --------------------------------------------------------------- */

static void leave_locked(vl_arrival_t *arrival)
{
    vl_wheel_clear(&arrival->timer);
    APR_RING_REMOVE(arrival, link);
    vl_arrivals->count[arrival->place]--;
}

static void enter_locked(vl_arrival_t *arrival, place_e place)
{
    arrival->place = place;
    APR_RING_INSERT_TAIL(&vl_arrivals->in[place], arrival, vl_arrival_t, link);
    vl_arrivals->count[place]++;
}

void vl_arrival_move_locked(vl_arrival_t *arrival, place_e place)
{
    leave_locked(arrival);
    enter_locked(arrival, place);
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
 * has been answered and only waits for its client to close.  Without such, and if
 * one site has more waiting connections here than there are idle ones, or ones
 * without a whole head, it is the newest of that site, so that a flood closes its
 * own.  Else it is the oldest idle kept connection, then the oldest one without a
 * whole head.  Returns 0 if there is none. */
static int close_one_locked(void)
{
    vl_arrival_t *arrival = vl_arrival_first_locked(LINGER);
    apr_uint32_t waiting, idle = vl_arrivals->count[IDLE];
    apr_uint32_t pending = vl_arrivals->count[PENDING];
    vl_waiter_t *newest;

    if (!arrival) {
        newest = vl_park_newest_of_longest_locked(vl_arrival_turn_locked,
                                                  &waiting);
        if (newest && waiting >= idle && waiting >= pending) {
            vl_park_remove_locked(newest);
            vl_arrival_reset_locked((vl_arrival_t *)newest);
            return 1;
        }
        arrival = vl_arrival_first_locked(idle ? IDLE : PENDING);
    }
    if (arrival)
        vl_arrival_close_locked(arrival);
    return arrival != NULL;
}

void vl_arrival_make_room_locked(void)
{
    while (vl_arrivals->count[IDLE] + vl_arrivals->count[LINGER]
           >= vl_arrivals->most)
        vl_arrival_close_locked(vl_arrival_first_locked(
            vl_arrivals->count[LINGER] ? LINGER : IDLE));
}

/* The threads need the descriptors that are left. */
static int is_crowded_locked(void)
{
    apr_uint32_t all = 0;
    int i;

    for (i = 0; i < PLACES; i++)
        all += i == VISIT || i == GONE ? 0 : vl_arrivals->count[i];
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

void vl_arrival_turn_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                            vl_reason_e refused)
{
    vl_arrival_t *arrival = (vl_arrival_t *)waiter;

    arrival->turn.holds = ticket != NULL;
    arrival->turn.ticket.account = waiter->account;
    if (ticket)
        arrival->turn.ticket = *ticket;
    arrival->turn.refused = refused;
    if (refused == VL_REASON_QUEUE)
        vl_arrival_refuse_locked(arrival);
    else
        vl_arrival_pass_locked(arrival);
}

void vl_arrival_give_back_locked(vl_turn_t *turn)
{
    if (turn->holds)
        vl_slot_end(vl_arrivals->shm, &turn->ticket, NULL);
    turn->holds = 0;
}

static void pass(vl_arrival_t *arrival)
{
    vl_park_lock();
    vl_arrival_pass_locked(arrival);
    vl_park_unlock();
}

/* It waits beside the queues until more of its head comes, as long as Apache
 * would wait. */
static void pend(vl_arrival_t *arrival, const vl_look_t *look)
{
    apr_int64_t now_us = vl_clock_us();

    if (!arrival->began_us)
        arrival->began_us = now_us;
    arrival->tls = look->tls;
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

static void line_up(vl_arrival_t *arrival)
{
    arrival->waited = 1;
    vl_park_lock();
    vl_arrival_watch_end_locked(arrival);
    vl_arrival_move_locked(arrival, LINE);
    vl_park_add_locked(&arrival->waiter);
    vl_park_unlock();
}

/* --- sorting -------------------------------------------------------------- */

/* The client sends nothing more.  Apache answers an incomplete first request.  A
 * connection that sent nothing, or a part of a later request, is closed here. */
static void give_up(vl_arrival_t *arrival, int nothing)
{
    vl_park_lock();
    if (nothing || arrival->keepalives)
        vl_arrival_close_locked(arrival);
    else
        vl_arrival_pass_locked(arrival);
    vl_park_unlock();
}

void vl_arrival_idle_locked(vl_arrival_t *arrival)
{
    arrival->began_us = arrival->asked_us = 0;
    vl_arrival_move_locked(arrival, IDLE);
    vl_wheel_set(vl_arrivals->wheel, &arrival->timer, arrival->idle_us);
}

static void idle(vl_arrival_t *arrival)
{
    vl_park_lock();
    vl_arrival_idle_locked(arrival);
    vl_park_unlock();
}

/* Its account's slot at once, or its line. */
static void ask(vl_arrival_t *arrival, const vl_conf_t *conf)
{
    vl_waiter_t *waiter = &arrival->waiter;

    waiter->account = conf->account;
    waiter->since_us = arrival->asked_us ? arrival->asked_us : vl_clock_us();
    waiter->deadline_us = waiter->since_us + conf->queue_timeout;
    waiter->done = vl_arrival_turn_locked;
    arrival->turn.timeout_us = conf->queue_timeout;
    waiter->may_defer = 1;
    arrival->conf = conf;
    if (vl_slot_try(vl_arrivals->shm, conf->account, &arrival->turn.ticket)
        == APR_SUCCESS) {
        arrival->turn.holds = 1;
        arrival->waited = arrival->asked_us != 0;
        pass(arrival);
    }
    else {
        line_up(arrival);
    }
}

static void ask_for(vl_arrival_t *arrival, const vl_look_t *look)
{
    const vl_conf_t *conf = vl_conf_get(look->server);

    arrival->began_us = 0;
    /* Whose the streams of an HTTP/2 connection are, each of them says. */
    if (!look->http2 && conf->mode == VL_MODE_ON && !look->exempt
        && vl_slot_queue(vl_arrivals->shm, conf->account)) {
        arrival->returns = !look->tls;
        arrival->tls = look->tls;
        arrival->head = look->head;
        arrival->http11 = look->http11;
        arrival->probed = 0;
        ask(arrival, conf);
    }
    else {
        pass(arrival);
    }
}

void vl_arrival_forget_turn(vl_arrival_t *arrival)
{
    arrival->returns = 0;
    arrival->waited = 0;
    memset(&arrival->turn, 0, sizeof(arrival->turn));
}

/* all: nothing more will come. */
static void sort(vl_arrival_t *arrival, int all)
{
    vl_look_t look;
    vl_look_e seen = vl_look(arrival->fd, &arrival->local, &arrival->remote,
                             arrival->addr_len, &look);

    vl_arrival_forget_turn(arrival);
    if (seen == VL_LOOK_ALL)
        ask_for(arrival, &look);
    else if (seen == VL_LOOK_CLOSED || all)
        give_up(arrival, seen != VL_LOOK_SOME);
    else if (seen == VL_LOOK_NOTHING && arrival->keepalives)
        idle(arrival);
    else
        pend(arrival, &look);
}

/* NULL: there is no memory, and it is closed. */
static vl_arrival_t *arrival_make(int fd)
{
    vl_arrival_t *arrival = calloc(1, sizeof(*arrival));

    if (!arrival) {
        close(fd);
        return NULL;
    }
    arrival->fd = fd;
    arrival->addr_len = sizeof(arrival->local);
    return arrival;
}

static vl_arrival_t *arrival_of(int fd, const struct sockaddr_storage *remote)
{
    vl_arrival_t *arrival = arrival_make(fd);
    socklen_t len = sizeof(arrival->remote);

    if (!arrival)
        return NULL;
    getsockname(fd, (struct sockaddr *)&arrival->local, &arrival->addr_len);
    if (remote)
        arrival->remote = *remote;
    else
        getpeername(fd, (struct sockaddr *)&arrival->remote, &len);
    return arrival;
}

static vl_arrival_t *arrival_passed(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = arrival_of(fd, NULL);

    if (!arrival)
        return NULL;
    arrival->keepalives = (apr_uint32_t)passed->keepalives;
    arrival->began_us = passed->began_us;
    arrival->asked_us = passed->since_us;
    arrival->idle_us = passed->idle_us;
    return arrival;
}

static void enter(vl_arrival_t *arrival, place_e place)
{
    vl_park_lock();
    if (place == SORTING && is_crowded_locked())
        close_one_locked();
    vl_arrivals->came += place == SORTING;
    enter_locked(arrival, place);
    vl_park_unlock();
}

void vl_arrival_come(int fd, const struct sockaddr_storage *remote)
{
    vl_arrival_t *arrival = arrival_of(fd, remote);

    if (!arrival)
        return;
    enter(arrival, SORTING);
    sort(arrival, 0);
}

/* If the client of an idle connection has sent something meanwhile, the epoll set
 * reports it once the connection is watched. */
void vl_arrival_adopt(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = arrival_passed(fd, passed);

    if (!arrival)
        return;
    enter(arrival, SORTING);
    if (!passed->idle_us) {
        sort(arrival, 0);
        return;
    }
    vl_park_lock();
    vl_arrival_make_room_locked();
    if (vl_arrival_watch_locked(arrival, EPOLLET))
        vl_arrival_idle_locked(arrival);
    else
        vl_arrival_close_locked(arrival);
    vl_park_unlock();
}

void vl_arrival_keep(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = arrival_passed(fd, passed);

    if (arrival)
        enter(arrival, FRESH);
}

void vl_arrival_come_back(const vl_item_t *item, int fd)
{
    vl_arrival_t *arrival = arrival_make(fd);

    if (!arrival)
        return;
    arrival->addr_len = item->addr_len;
    arrival->local = item->local;
    arrival->remote = item->remote;
    arrival->keepalives = item->keepalives;
    arrival->idle_us = item->until_us;
    vl_park_lock();
    enter_locked(arrival, SORTING);
    vl_arrival_make_room_locked();
    if (!vl_arrival_watch_locked(arrival, item->lingers ? 0 : EPOLLET))
        vl_arrival_close_locked(arrival);
    else if (item->lingers)
        vl_arrival_linger_locked(arrival, item->until_us);
    else
        vl_arrival_idle_locked(arrival);
    vl_park_unlock();
}

int vl_arrival_spare(void)
{
    int spared;

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
    case IDLE:
        vl_arrival_move_locked(arrival, SORTING);
        sorts = 1;
        break;
    case LINGER:
        if (!vl_arrival_drain(arrival->fd))
            vl_arrival_close_locked(arrival);
        break;
    case VISIT:
        arrival->news = 1;
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

static vl_arrival_t *next_fresh(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    arrival = vl_arrival_first_locked(FRESH);
    if (arrival)
        vl_arrival_move_locked(arrival, SORTING);
    vl_park_unlock();
    return arrival;
}

void vl_arrival_settle(void)
{
    vl_arrival_t *arrival;

    while ((arrival = next_fresh()))
        sort(arrival, 0);
    vl_park_lock();
    while ((arrival = vl_arrival_first_locked(GONE))) {
        leave_locked(arrival);
        free(arrival);
    }
    vl_park_unlock();
}
