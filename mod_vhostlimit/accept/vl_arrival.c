/* SPDX-License-Identifier: Apache-2.0 */
/* The states of this child's new connections, and their classification by the
 * acceptor. */
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

/* A connection that is queued for longer is watched for the close of its client. A
 * shorter one is checked before it is passed to the MPM, which saves two system calls. */
#define WATCH_CLOSE_US 100000
/* Bytes of input that are discarded in one call, so that other connections are not
 * delayed. */
#define DRAIN_SIZE (1 << 16)

child_arrivals_t *vl_arrivals;

/* Frees the records when the child ends. The MPM closes the connections in IN_MPM later,
 * with cleanup_passport(), which then does nothing. */
static apr_status_t free_records(void *unused)
{
    state_e state;
    vl_arrival_t *arrival;

    for (state = CLASSIFYING; state < STATES; state++) {
        while ((arrival = vl_arrival_first_locked(state))) {
            APR_RING_REMOVE(arrival, link);
            free(arrival);
        }
    }
    vl_arrivals->ended = 1;
    return APR_SUCCESS;
}

int vl_arrival_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, int epoll_fd, apr_uint32_t max)
{
    static child_arrivals_t of_child;       /* pools of connections outlive pchild */
    int i;

    vl_arrivals = &of_child;
    vl_arrivals->shm = shm;
    vl_arrivals->main_server = main_server;
    vl_classify_child_init(pchild, main_server, shm);
    vl_arrivals->wheel = vl_wheel_create(pchild, vl_clock_us());
    vl_arrivals->epoll_fd = epoll_fd;
    vl_arrivals->max_lingering = max;
    vl_arrivals->pass_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (i = 0; i < STATES; i++)
        APR_RING_INIT(&vl_arrivals->ring[i], vl_arrival_t, link);
    apr_pool_cleanup_register(pchild, NULL, free_records, apr_pool_cleanup_null);
    return vl_arrivals->pass_fd;
}

/* --- states --------------------------------------------------------------- */

static void unlink_locked(vl_arrival_t *arrival)
{
    vl_wheel_clear(&arrival->timer);
    APR_RING_REMOVE(arrival, link);
    vl_arrivals->count[arrival->state]--;
}

void vl_arrival_enter_locked(vl_arrival_t *arrival, state_e state)
{
    arrival->state = state;
    APR_RING_INSERT_TAIL(&vl_arrivals->ring[state], arrival, vl_arrival_t, link);
    vl_arrivals->count[state]++;
}

void vl_arrival_move_locked(vl_arrival_t *arrival, state_e state)
{
    unlink_locked(arrival);
    vl_arrival_enter_locked(arrival, state);
}

vl_arrival_t *vl_arrival_first_locked(state_e state)
{
    return APR_RING_EMPTY(&vl_arrivals->ring[state], vl_arrival_t, link)
           ? NULL : APR_RING_FIRST(&vl_arrivals->ring[state]);
}

int vl_arrival_watch_locked(vl_arrival_t *arrival, apr_uint32_t how)
{
    struct epoll_event ev = { EPOLLIN | EPOLLRDHUP | how, { .ptr = arrival } };
    int op = arrival->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (arrival->watched == WATCHED_FOR_INPUT && how)
        return 1;
    if (!epoll_ctl(vl_arrivals->epoll_fd, op, arrival->fd, &ev))
        arrival->watched = WATCHED_FOR_INPUT;
    return arrival->watched == WATCHED_FOR_INPUT;
}

void vl_arrival_watch_end_locked(vl_arrival_t *arrival)
{
    struct epoll_event ev = { EPOLLRDHUP | EPOLLET, { .ptr = arrival } };

    if (!arrival->watched
        && !epoll_ctl(vl_arrivals->epoll_fd, EPOLL_CTL_ADD, arrival->fd, &ev))
        arrival->watched = WATCHED_FOR_CLOSE;
}

void vl_arrival_bury_locked(vl_arrival_t *arrival)
{
    if (arrival->passport)
        arrival->passport->arrival = NULL;
    arrival->passport = NULL;
    if (!arrival->watched) {
        unlink_locked(arrival);
        free(arrival);
        return;
    }
    epoll_ctl(vl_arrivals->epoll_fd, EPOLL_CTL_DEL, arrival->fd, NULL);
    vl_arrival_move_locked(arrival, RELEASED);
}

void vl_arrival_close_locked(vl_arrival_t *arrival)
{
    int fd = arrival->fd;

    vl_arrival_bury_locked(arrival);
    close(fd);
}

/* Closes one connection because descriptors are short. Returns whether one is closed
 * now, will be closed soon, or none can be. It chooses in this order:
 * 1. the oldest lingering connection;
 * 2. the newest connection of the site with most queued connections here, if their
 *    number is at least that of connections with incomplete heads, and at least that
 *    of connections with leases; so a flood closes its own connections;
 * 3. a connection that the MPM has (vl_lease_spare_locked());
 * 4. the oldest connection with an incomplete head. */
static vl_spared_e close_one_locked(void)
{
    vl_arrival_t *arrival = vl_arrival_first_locked(LINGERING);
    apr_uint32_t waiting;
    vl_waiter_t *newest;

    if (!arrival) {
        newest = vl_park_newest_of_longest_locked(vl_arrival_granted_locked,
                                                  &waiting);
        if (newest && waiting >= vl_arrivals->count[INCOMPLETE_HEAD]
            && waiting >= vl_lease_descriptors()) {
            vl_park_remove_locked(newest);
            vl_arrival_reset_locked((vl_arrival_t *)newest);
            return VL_SPARED;
        }
        if (vl_lease_spare_locked())
            return VL_SPARED_SOON;
        arrival = vl_arrival_first_locked(INCOMPLETE_HEAD);
    }
    if (!arrival)
        return VL_SPARED_NONE;
    vl_arrival_close_locked(arrival);
    return VL_SPARED;
}

void vl_arrival_make_room_locked(void)
{
    while (vl_arrivals->count[LINGERING] >= vl_arrivals->max_lingering)
        vl_arrival_close_locked(vl_arrival_first_locked(LINGERING));
}

/* Returns 1 if the connections here use more than their part of the descriptors. The
 * rest is for the MPM's threads. */
static int descriptors_are_short_locked(void)
{
    apr_uint32_t all = vl_lease_descriptors();
    int i;

    for (i = 0; i < STATES; i++)
        all += i == IN_MPM || i == RELEASED ? 0 : vl_arrivals->count[i];
    return all / 2 > vl_arrivals->max_lingering;
}

void vl_arrival_pass_locked(vl_arrival_t *arrival)
{
    apr_uint64_t one = 1;

    vl_arrival_move_locked(arrival, FOR_MPM);
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

/* Waits for more of the head, outside of the queues and for as long as Apache would
 * wait. If epoll fails the connection is passed to the MPM. */
static void wait_for_head(vl_arrival_t *arrival, const vl_classified_t *found)
{
    apr_int64_t now_us = vl_clock_us();

    if (!arrival->head_since_us)
        arrival->head_since_us = now_us;
    arrival->client.tls = found->tls;
    vl_park_lock();
    if (vl_arrival_watch_locked(arrival, EPOLLET)) {
        vl_arrival_move_locked(arrival, INCOMPLETE_HEAD);
        vl_wheel_set(vl_arrivals->wheel, &arrival->timer,
                     vl_headtime_deadline(found->server, found->tls,
                                          arrival->head_since_us, now_us,
                                          found->bytes));
    }
    else {
        vl_arrival_pass_locked(arrival);
    }
    vl_park_unlock();
}

/* --- classification ------------------------------------------------------- */

/* Handles the end of the client's input. Apache answers an incomplete request. A
 * connection without any input is closed here. */
static void end_of_input(vl_arrival_t *arrival, int nothing)
{
    vl_park_lock();
    if (nothing)
        vl_arrival_close_locked(arrival);
    else
        vl_arrival_pass_locked(arrival);
    vl_park_unlock();
}

/* Asks for a slot of the account. The connection is passed at once if a slot is free;
 * otherwise it is queued or deferred. */
static void request_slot(vl_arrival_t *arrival, const vl_conf_t *conf,
                         const vl_client_id_t *client)
{
    vl_waiter_t *waiter = &arrival->waiter;

    waiter->account = conf->account;
    waiter->client = *client;
    waiter->since_us = arrival->queued_since_us ? arrival->queued_since_us
                                                : vl_clock_us();
    waiter->deadline_us = waiter->since_us + conf->queue_timeout;
    waiter->done = vl_arrival_granted_locked;
    arrival->grant.timeout_us = conf->queue_timeout;
    waiter->may_defer = 1;
    arrival->conf = conf;
    arrival->was_queued = 1;
    vl_park_lock();
    vl_arrival_move_locked(arrival, QUEUED);
    vl_wheel_set(vl_arrivals->wheel, &arrival->timer,
                 vl_clock_us() + WATCH_CLOSE_US);
    if (vl_park_ask_locked(waiter, &arrival->grant.ticket)) {
        arrival->grant.holds = 1;
        arrival->grant.ticket.client = *client;
        arrival->was_queued = arrival->queued_since_us != 0;
        vl_arrival_pass_locked(arrival);
    }
    vl_park_unlock();
}

/* The first stream of cleartext HTTP/2 tells the site of its connection. Until then
 * the connection counts for the default server of its address. It needs no slot. It is
 * queued only if that server has too many threads of this child. Returns 1 if the
 * connection was passed. */
static int try_pass_with_thread(vl_arrival_t *arrival, const vl_conf_t *conf)
{
    if (conf->mode != VL_MODE_ON
        || vl_thread_try_occupy(vl_arrivals->shm, conf->account) != APR_SUCCESS)
        return 0;
    arrival->grant.occupies = 1;
    arrival->grant.ticket.account = conf->account;
    pass(arrival);
    return 1;
}

/* Decides what a classified connection needs: a slot, only a thread, or nothing
 * because its site is not limited or the request is exempt. */
static void admit(vl_arrival_t *arrival, const vl_classified_t *found)
{
    const vl_conf_t *conf = vl_conf_get(found->server);

    arrival->head_since_us = 0;
    arrival->http2 = found->http2;
    if (found->http2 && try_pass_with_thread(arrival, conf))
        return;
    if (conf->mode == VL_MODE_ON && !found->exempt
        && vl_slot_queue(vl_arrivals->shm, conf->account)) {
        arrival->ready = !found->tls && !found->http2;
        arrival->client.tls = found->tls;
        arrival->is_head = found->head;
        arrival->client.http11 = found->http11 && !found->http2;
        arrival->client.probed = 0;
        request_slot(arrival, conf, &found->client);
    }
    else {
        pass(arrival);
    }
}

void vl_arrival_forget_grant(vl_arrival_t *arrival)
{
    arrival->ready = 0;
    arrival->was_queued = 0;
    memset(&arrival->grant, 0, sizeof(arrival->grant));
}

/* at_end: the client sends nothing more. */
static void classify(vl_arrival_t *arrival, int at_end)
{
    vl_classified_t found;
    vl_classify_e result = vl_classify(arrival->fd, &arrival->local,
                                       &arrival->remote, arrival->addr_len,
                                       &found);

    vl_arrival_forget_grant(arrival);
    if (result == VL_CLASSIFY_ALL)
        admit(arrival, &found);
    else if (result == VL_CLASSIFY_CLOSED || at_end)
        end_of_input(arrival, result != VL_CLASSIFY_SOME);
    else
        wait_for_head(arrival, &found);
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

/* Returns the record of a connection that another child transferred, or NULL without
 * memory. */
static vl_arrival_t *make_received(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = vl_arrival_make(fd);
    socklen_t length = sizeof(arrival->remote);

    if (!arrival)
        return NULL;
    find_local(arrival);
    getpeername(fd, (struct sockaddr *)&arrival->remote, &length);
    arrival->head_since_us = passed->began_us;
    arrival->queued_since_us = passed->since_us;
    return arrival;
}

static void add(vl_arrival_t *arrival, state_e state)
{
    vl_park_lock();
    if (state == CLASSIFYING && descriptors_are_short_locked())
        close_one_locked();
    vl_arrivals->accepted += state == CLASSIFYING;
    vl_arrival_enter_locked(arrival, state);
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
    add(arrival, CLASSIFYING);
    classify(arrival, 0);
}

void vl_arrival_adopt(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = make_received(fd, passed);

    if (!arrival)
        return;
    add(arrival, CLASSIFYING);
    classify(arrival, 0);
}

void vl_arrival_keep(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = make_received(fd, passed);

    if (arrival)
        add(arrival, TRANSFER_FAILED);
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
    static char discarded[DRAIN_SIZE];      /* MSG_TRUNC leaves it unwritten: tcp(7) */
    ssize_t n = recv(fd, discarded, sizeof(discarded),
                     MSG_TRUNC | MSG_DONTWAIT);

    return n > 0 || (n < 0 && errno == EAGAIN);
}

void vl_arrival_linger_locked(vl_arrival_t *arrival, apr_int64_t until_us)
{
    vl_arrival_move_locked(arrival, LINGERING);
    vl_wheel_set(vl_arrivals->wheel, &arrival->timer, until_us);
}

/* --- the acceptor --------------------------------------------------------- */

void vl_arrival_revisit(vl_arrival_t *arrival, apr_uint32_t events)
{
    int classify_again = 0;

    vl_park_lock();
    switch (arrival->state) {
    case INCOMPLETE_HEAD:
        vl_arrival_move_locked(arrival, CLASSIFYING);
        classify_again = 1;
        break;
    case LINGERING:
        if (!vl_arrival_drain(arrival->fd))
            vl_arrival_close_locked(arrival);
        break;
    case QUEUED:
        if (vl_arrival_is_gone_locked(arrival, events))
            vl_arrival_drop_gone_locked(arrival);
        break;
    default:
        break;
    }
    vl_park_unlock();
    if (classify_again)
        classify(arrival, !!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)));
}

static vl_arrival_t *next_failed_transfer(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    arrival = vl_arrival_first_locked(TRANSFER_FAILED);
    if (arrival)
        vl_arrival_move_locked(arrival, CLASSIFYING);
    vl_park_unlock();
    return arrival;
}

void vl_arrival_settle(void)
{
    vl_arrival_t *arrival;

    while ((arrival = next_failed_transfer()))
        classify(arrival, 0);
    vl_park_lock();
    while ((arrival = vl_arrival_first_locked(RELEASED))) {
        unlink_locked(arrival);
        free(arrival);
    }
    vl_park_unlock();
}
