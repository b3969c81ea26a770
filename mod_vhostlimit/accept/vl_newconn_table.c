/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_newconn_table.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accept/vl_rescue.h"
#include "base/vl_clock.h"

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
    return APR_SUCCESS;
}

int vl_arrival_child_init(int epoll_fd)
{
    static child_arrivals_t of_child;       /* pools of connections outlive pchild */
    int i;

    vl_arrivals = &of_child;
    vl_arrivals->wheel = vl_wheel_create(vl_child.pool, vl_clock_us());
    vl_arrivals->epoll_fd = epoll_fd;
    vl_arrivals->pass_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (i = 0; i < STATES; i++)
        APR_RING_INIT(&vl_arrivals->ring[i], vl_arrival_t, link);
    apr_pool_cleanup_register(vl_child.pool, NULL, free_records,
                              apr_pool_cleanup_null);
    return vl_arrivals->pass_fd;
}

/* --- the lists of the states ---------------------------------------------- */

vl_arrival_t *vl_arrival_create(int fd)
{
    vl_arrival_t *arrival = calloc(1, sizeof(*arrival));

    if (!arrival) {
        vl_rescue_forget(fd);
        close(fd);
        return NULL;
    }
    arrival->fd = fd;
    return arrival;
}

static void unlink_locked(vl_arrival_t *arrival)
{
    vl_wheel_clear(&arrival->timer);
    APR_RING_REMOVE(arrival, link);
    vl_arrivals->count[arrival->state]--;
}

/* All processes use the same clock (vl_clock.h), so the times are valid in another
 * child. */
vl_passed_t vl_arrival_known(const vl_arrival_t *arrival)
{
    vl_passed_t known = { 0 };

    if (arrival->was_queued)
        known.since_us = arrival->waiter.since_us;
    else if (arrival->state == TRANSFER_FAILED)
        known.since_us = arrival->queued_since_us;
    else
        known.began_us = arrival->head_since_us;
    return known;
}

static void note_for_rescue(const vl_arrival_t *arrival)
{
    vl_passed_t known;

    switch (arrival->state) {
    case INCOMPLETE_HEAD:
    case QUEUED:
    case FOR_MPM:
    case TRANSFER_FAILED:
        known = vl_arrival_known(arrival);
        vl_rescue_note(arrival->fd, &known);
        break;
    case IN_MPM:                    /* as it was FOR_MPM */
        break;
    case CLASSIFYING:
    case LINGERING:
    case RELEASED:
    case STATES:
        vl_rescue_forget(arrival->fd);
        break;
    }
}

void vl_arrival_enter_locked(vl_arrival_t *arrival, state_e state)
{
    arrival->state = state;
    APR_RING_INSERT_TAIL(&vl_arrivals->ring[state], arrival, vl_arrival_t, link);
    vl_arrivals->count[state]++;
    note_for_rescue(arrival);
}

void vl_arrival_move_locked(vl_arrival_t *arrival, state_e state)
{
    unlink_locked(arrival);
    vl_arrival_enter_locked(arrival, state);
}

void vl_arrival_move_until_locked(vl_arrival_t *arrival, state_e state,
                                  apr_int64_t until_us)
{
    vl_arrival_move_locked(arrival, state);
    vl_wheel_set(vl_arrivals->wheel, &arrival->timer, until_us);
}

vl_arrival_t *vl_arrival_first_locked(state_e state)
{
    return APR_RING_EMPTY(&vl_arrivals->ring[state], vl_arrival_t, link)
           ? NULL : APR_RING_FIRST(&vl_arrivals->ring[state]);
}

/* --- the epoll set -------------------------------------------------------- */

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

void vl_arrival_watch_close_locked(vl_arrival_t *arrival)
{
    struct epoll_event ev = { EPOLLRDHUP | EPOLLET, { .ptr = arrival } };

    if (!arrival->watched
        && !epoll_ctl(vl_arrivals->epoll_fd, EPOLL_CTL_ADD, arrival->fd, &ev))
        arrival->watched = WATCHED_FOR_CLOSE;
}

/* --- the ends of a connection here ---------------------------------------- */

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

void vl_arrival_release_locked(vl_arrival_t *arrival)
{
    vl_rescue_forget(arrival->fd);
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

    vl_arrival_release_locked(arrival);
    close(fd);
}

void vl_arrival_linger_locked(vl_arrival_t *arrival, apr_int64_t linger_us)
{
    shutdown(arrival->fd, SHUT_WR);
    if (vl_arrival_watch_locked(arrival, 0))
        vl_arrival_move_until_locked(arrival, LINGERING, vl_clock_us() + linger_us);
    else
        vl_arrival_close_locked(arrival);
}

void vl_arrival_limit_lingering_locked(void)
{
    while (vl_arrivals->count[LINGERING] >= vl_child.max_lingering)
        vl_arrival_close_locked(vl_arrival_first_locked(LINGERING));
}

void vl_arrival_free_released_locked(void)
{
    vl_arrival_t *arrival;

    while ((arrival = vl_arrival_first_locked(RELEASED))) {
        unlink_locked(arrival);
        free(arrival);
    }
}
