/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_newconn_table.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accept/vl_rescue.h"
#include "base/vl_clock.h"

child_newconns_t *vl_newconns;

/* Frees the records when the child ends. The MPM closes the connections in IN_MPM later,
 * with cleanup_conninfo(), which then does nothing. */
static apr_status_t free_records(void *unused)
{
    state_e state;
    vl_newconn_t *newconn;

    for (state = CLASSIFYING; state < STATES; state++) {
        while ((newconn = vl_newconn_first_locked(state))) {
            APR_RING_REMOVE(newconn, link);
            free(newconn);
        }
    }
    return APR_SUCCESS;
}

int vl_newconn_child_init(int epoll_fd)
{
    static child_newconns_t of_child;       /* pools of connections outlive pchild */
    int i;

    vl_newconns = &of_child;
    vl_newconns->wheel = vl_wheel_create(vl_child.pool, vl_clock_us());
    vl_newconns->epoll_fd = epoll_fd;
    vl_newconns->pass_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (i = 0; i < STATES; i++)
        APR_RING_INIT(&vl_newconns->ring[i], vl_newconn_t, link);
    apr_pool_cleanup_register(vl_child.pool, NULL, free_records,
                              apr_pool_cleanup_null);
    return vl_newconns->pass_fd;
}

/* --- the lists of the states ---------------------------------------------- */

vl_newconn_t *vl_newconn_create(int fd)
{
    vl_newconn_t *newconn = calloc(1, sizeof(*newconn));

    if (!newconn) {
        vl_rescue_forget(fd);
        close(fd);
        return NULL;
    }
    newconn->fd = fd;
    return newconn;
}

static void unlink_locked(vl_newconn_t *newconn)
{
    vl_wheel_clear(&newconn->timer);
    APR_RING_REMOVE(newconn, link);
    vl_newconns->count[newconn->state]--;
}

/* All processes use the same clock (vl_clock.h), so the times are valid in another
 * child. */
vl_passed_t vl_newconn_known(const vl_newconn_t *newconn)
{
    vl_passed_t known = { 0 };

    if (newconn->was_queued)
        known.since_us = newconn->waiter.since_us;
    else if (newconn->state == TRANSFER_FAILED)
        known.since_us = newconn->queued_since_us;
    else
        known.began_us = newconn->head_since_us;
    return known;
}

static void note_for_rescue(const vl_newconn_t *newconn)
{
    vl_passed_t known;

    switch (newconn->state) {
    case INCOMPLETE_HEAD:
    case QUEUED:
    case FOR_MPM:
    case TRANSFER_FAILED:
        known = vl_newconn_known(newconn);
        vl_rescue_note(newconn->fd, &known);
        break;
    case IN_MPM:                    /* as it was FOR_MPM */
        break;
    case CLASSIFYING:
    case LINGERING:
    case RELEASED:
    case STATES:
        vl_rescue_forget(newconn->fd);
        break;
    }
}

void vl_newconn_enter_locked(vl_newconn_t *newconn, state_e state)
{
    newconn->state = state;
    APR_RING_INSERT_TAIL(&vl_newconns->ring[state], newconn, vl_newconn_t, link);
    vl_newconns->count[state]++;
    note_for_rescue(newconn);
}

void vl_newconn_move_locked(vl_newconn_t *newconn, state_e state)
{
    unlink_locked(newconn);
    vl_newconn_enter_locked(newconn, state);
}

void vl_newconn_move_until_locked(vl_newconn_t *newconn, state_e state,
                                  apr_int64_t until_us)
{
    vl_newconn_move_locked(newconn, state);
    vl_wheel_set(vl_newconns->wheel, &newconn->timer, until_us);
}

vl_newconn_t *vl_newconn_first_locked(state_e state)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): free_records() removes each from its ring */
    return APR_RING_EMPTY(&vl_newconns->ring[state], vl_newconn_t, link)
           ? NULL : APR_RING_FIRST(&vl_newconns->ring[state]);
}

/* --- the epoll set -------------------------------------------------------- */

int vl_newconn_watch_locked(vl_newconn_t *newconn, apr_uint32_t how)
{
    struct epoll_event ev = { EPOLLIN | EPOLLRDHUP | how, { .ptr = newconn } };
    int op = newconn->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (newconn->watched == WATCHED_FOR_INPUT && how)
        return 1;
    if (!epoll_ctl(vl_newconns->epoll_fd, op, newconn->fd, &ev))
        newconn->watched = WATCHED_FOR_INPUT;
    return newconn->watched == WATCHED_FOR_INPUT;
}

void vl_newconn_watch_close_locked(vl_newconn_t *newconn)
{
    struct epoll_event ev = { EPOLLRDHUP | EPOLLET, { .ptr = newconn } };

    if (!newconn->watched
        && !epoll_ctl(vl_newconns->epoll_fd, EPOLL_CTL_ADD, newconn->fd, &ev))
        newconn->watched = WATCHED_FOR_CLOSE;
}

/* --- the ends of a connection here ---------------------------------------- */

void vl_newconn_pass_locked(vl_newconn_t *newconn)
{
    apr_uint64_t one = 1;

    vl_newconn_move_locked(newconn, FOR_MPM);
    if (!vl_newconns->signalled) {
        vl_newconns->signalled = write(vl_newconns->pass_fd, &one, sizeof(one))
                                 == sizeof(one);
        vl_newconns->signalled_us = vl_clock_us();
    }
}

void vl_newconn_release_locked(vl_newconn_t *newconn)
{
    vl_rescue_forget(newconn->fd);
    if (newconn->conninfo)
        newconn->conninfo->newconn = NULL;
    newconn->conninfo = NULL;
    if (!newconn->watched) {
        unlink_locked(newconn);
        free(newconn);
        return;
    }
    epoll_ctl(vl_newconns->epoll_fd, EPOLL_CTL_DEL, newconn->fd, NULL);
    vl_newconn_move_locked(newconn, RELEASED);
}

void vl_newconn_close_locked(vl_newconn_t *newconn)
{
    int fd = newconn->fd;

    vl_newconn_release_locked(newconn);
    close(fd);
}

void vl_newconn_linger_locked(vl_newconn_t *newconn, apr_int64_t linger_us)
{
    shutdown(newconn->fd, SHUT_WR);
    if (vl_newconn_watch_locked(newconn, 0))
        vl_newconn_move_until_locked(newconn, LINGERING, vl_clock_us() + linger_us);
    else
        vl_newconn_close_locked(newconn);
}

void vl_newconn_limit_lingering_locked(void)
{
    while (vl_newconns->count[LINGERING] >= vl_child.max_lingering)
        vl_newconn_close_locked(vl_newconn_first_locked(LINGERING));
}

void vl_newconn_free_released_locked(void)
{
    vl_newconn_t *newconn;

    while ((newconn = vl_newconn_first_locked(RELEASED))) {
        unlink_locked(newconn);
        free(newconn);
    }
}
