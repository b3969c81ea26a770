/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that leave this child without its MPM. They are transferred to other
 * children, or answered with 503 if there are no other children. */
#include "accept/vl_arrival_table.h"

#include <fcntl.h>

#include "accept/vl_arrival_answer.h"
#include "accept/vl_arrival_queue.h"

/* Returns a connection that can be transferred, without a grant, or NULL. */
static vl_arrival_t *take_any_locked(void)
{
    vl_arrival_t *arrival = vl_arrival_first_locked(INCOMPLETE_HEAD);

    if (!arrival)
        arrival = vl_arrival_first_locked(TRANSFER_FAILED);
    if (!arrival && (arrival = vl_arrival_first_locked(FOR_MPM)))
        vl_arrival_give_back_locked(&arrival->grant);
    return arrival ? arrival : vl_arrival_unqueue_locked(0);
}

static vl_arrival_t *take_queued_locked(void)
{
    return vl_arrival_unqueue_locked(1);
}

/* The descriptor is the MPM's, so the transfer gets a duplicate. */
static vl_arrival_t *take_unbegun_locked(void)
{
    vl_arrival_t *arrival = vl_arrival_first_locked(IN_MPM);

    if (arrival) {
        vl_arrival_give_back_locked(&arrival->grant);
        arrival->fd = fcntl(arrival->fd, F_DUPFD_CLOEXEC, 0);
    }
    return arrival;
}

/* All processes use the same clock (vl_clock.h), so the times are valid in the other
 * child. */
static vl_passed_t transfer_record(const vl_arrival_t *arrival)
{
    vl_passed_t passed = { 0 };

    if (arrival->was_queued)
        passed.since_us = arrival->waiter.since_us;
    else if (arrival->state == TRANSFER_FAILED)
        passed.since_us = arrival->queued_since_us;
    else
        passed.began_us = arrival->head_since_us;
    return passed;
}

static apr_size_t take_locked(vl_arrival_t *(*take_one_locked)(void),
                              int *ret_fds, vl_passed_t *ret_passed,
                              apr_size_t max)
{
    vl_arrival_t *arrival;
    apr_size_t n;

    for (n = 0; n < max && (arrival = take_one_locked()); n++) {
        ret_fds[n] = arrival->fd;
        ret_passed[n] = transfer_record(arrival);
        vl_arrival_bury_locked(arrival);
    }
    return n;
}

static apr_size_t take(vl_arrival_t *(*take_one_locked)(void), int *ret_fds,
                       vl_passed_t *ret_passed, apr_size_t max)
{
    apr_size_t n;

    vl_park_lock();
    n = take_locked(take_one_locked, ret_fds, ret_passed, max);
    vl_park_unlock();
    return n;
}

apr_size_t vl_arrival_evict(int *ret_fds, vl_passed_t *ret_passed,
                            apr_size_t max)
{
    apr_size_t n;

    vl_shm_child_pause(vl_child.shm, 1);
    vl_park_lock();
    vl_arrivals->mpm_stalled = 1;
    vl_park_take_locked();
    n = take_locked(take_any_locked, ret_fds, ret_passed, max);
    vl_park_unlock();
    return n;
}

apr_size_t vl_arrival_shed(int *ret_fds, vl_passed_t *ret_passed,
                           apr_size_t max)
{
    return take(take_queued_locked, ret_fds, ret_passed, max);
}

void vl_arrival_dismiss(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    while ((arrival = take_any_locked()))
        vl_arrival_answer_503_locked(arrival);
    vl_park_unlock();
}

apr_size_t vl_arrival_unbegun(int *ret_fds, vl_passed_t *ret_passed,
                              apr_size_t max)
{
    return take(take_unbegun_locked, ret_fds, ret_passed, max);
}

apr_uint32_t vl_arrival_count(void)
{
    apr_uint32_t n;

    vl_park_lock();
    n = vl_arrivals->count[INCOMPLETE_HEAD] + vl_arrivals->count[QUEUED]
        + vl_arrivals->count[FOR_MPM] + vl_arrivals->count[TRANSFER_FAILED]
        + vl_arrivals->count[LINGERING];
    vl_park_unlock();
    return n;
}
