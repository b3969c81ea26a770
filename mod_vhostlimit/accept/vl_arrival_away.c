/* SPDX-License-Identifier: Apache-2.0 */
/* Arrivals that are not for this child's MPM: they go to other children, or are
 * told that there are none. */
#include "accept/vl_arrival_int.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "base/vl_clock.h"

static vl_arrival_t *evict_one_locked(void)
{
    vl_arrival_t *arrival = vl_arrival_first_locked(PENDING);
    vl_waiter_t *waiter;

    if (!arrival)
        arrival = vl_arrival_first_locked(KEPT);
    if (!arrival && (arrival = vl_arrival_first_locked(PASSING)))
        vl_arrival_give_back_locked(&arrival->grant);
    if (!arrival && (waiter = vl_park_evict_locked(vl_arrival_granted_locked, 0)))
        arrival = (vl_arrival_t *)waiter;
    return arrival;
}

static vl_arrival_t *shed_one_locked(void)
{
    return (vl_arrival_t *)vl_park_evict_locked(vl_arrival_granted_locked, 1);
}

/* The descriptor is the MPM's. */
static vl_arrival_t *unbegun_one_locked(void)
{
    vl_arrival_t *arrival = vl_arrival_first_locked(PASSED);

    if (arrival) {
        vl_arrival_give_back_locked(&arrival->grant);
        arrival->fd = fcntl(arrival->fd, F_DUPFD_CLOEXEC, 0);
    }
    return arrival;
}

/* Times are those of one clock in all processes (vl_clock.h). */
static vl_passed_t passed_of(const vl_arrival_t *arrival)
{
    vl_passed_t passed = { 0 };

    if (arrival->waited)
        passed.since_us = arrival->waiter.since_us;
    else if (arrival->place == KEPT)
        passed.since_us = arrival->asked_us;
    else
        passed.began_us = arrival->began_us;
    return passed;
}

static apr_size_t take_out_locked(vl_arrival_t *(*one_locked)(void),
                                  int *ret_fds, vl_passed_t *ret_passed,
                                  apr_size_t most)
{
    vl_arrival_t *arrival;
    apr_size_t n;

    for (n = 0; n < most && (arrival = one_locked()); n++) {
        ret_fds[n] = arrival->fd;
        ret_passed[n] = passed_of(arrival);
        vl_arrival_bury_locked(arrival);
    }
    return n;
}

static apr_size_t take_out(vl_arrival_t *(*one_locked)(void), int *ret_fds,
                           vl_passed_t *ret_passed, apr_size_t most)
{
    apr_size_t n;

    vl_park_lock();
    n = take_out_locked(one_locked, ret_fds, ret_passed, most);
    vl_park_unlock();
    return n;
}

apr_size_t vl_arrival_evict(int *ret_fds, vl_passed_t *ret_passed,
                            apr_size_t most)
{
    apr_size_t n;

    vl_shm_child_pause(vl_arrivals->shm, 1);
    vl_park_lock();
    vl_arrivals->stuck = 1;
    vl_park_take_locked();
    n = take_out_locked(evict_one_locked, ret_fds, ret_passed, most);
    vl_park_unlock();
    return n;
}

apr_size_t vl_arrival_shed(int *ret_fds, vl_passed_t *ret_passed,
                           apr_size_t most)
{
    return take_out(shed_one_locked, ret_fds, ret_passed, most);
}

/* A request that has been read in full gets an answer. */
static void dismiss_locked(vl_arrival_t *arrival)
{
    static const char answer[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n";

    if (arrival->ready
        && send(arrival->fd, answer, sizeof(answer) - 1,
                MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        vl_arrival_close_locked(arrival);
        return;
    }
    shutdown(arrival->fd, SHUT_WR);
    if (vl_arrival_watch_locked(arrival, 0))
        vl_arrival_linger_locked(arrival, vl_clock_us() + SHORT_LINGER_US);
    else
        vl_arrival_close_locked(arrival);
}

void vl_arrival_dismiss(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    while ((arrival = evict_one_locked()))
        dismiss_locked(arrival);
    vl_park_unlock();
}

apr_size_t vl_arrival_unbegun(int *ret_fds, vl_passed_t *ret_passed,
                              apr_size_t most)
{
    return take_out(unbegun_one_locked, ret_fds, ret_passed, most);
}

apr_uint32_t vl_arrival_count(void)
{
    apr_uint32_t here;

    vl_park_lock();
    here = vl_arrivals->count[PENDING] + vl_arrivals->count[LINE]
           + vl_arrivals->count[PASSING] + vl_arrivals->count[KEPT]
           + vl_arrivals->count[LINGER];
    vl_park_unlock();
    return here;
}
