/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that leave this child without its MPM. They are transferred to other
 * children, or answered with 503 if there are no other children. */
#include "accept/vl_newconn_table.h"

#include <fcntl.h>

#include "accept/vl_newconn_answer.h"
#include "accept/vl_newconn_queue.h"
#include "accept/vl_rescue.h"

/* Returns a connection that waits here, without a grant, or NULL. */
static vl_arrival_t *find_waiting_locked(void)
{
    vl_arrival_t *arrival = vl_arrival_first_locked(INCOMPLETE_HEAD);

    if (!arrival)
        arrival = vl_arrival_first_locked(TRANSFER_FAILED);
    if (!arrival && (arrival = vl_arrival_first_locked(FOR_MPM)))
        vl_arrival_return_grant_locked(&arrival->grant);
    return arrival ? arrival : vl_arrival_unqueue_locked(0);
}

/* The descriptor is the MPM's, so the transfer gets a duplicate. */
static vl_arrival_t *find_unbegun_locked(void)
{
    vl_arrival_t *arrival = vl_arrival_first_locked(IN_MPM);

    if (arrival) {
        vl_arrival_return_grant_locked(&arrival->grant);
        vl_rescue_forget(arrival->fd);
        arrival->fd = fcntl(arrival->fd, F_DUPFD_CLOEXEC, 0);
    }
    return arrival;
}

static vl_arrival_t *find_locked(vl_take_e which)
{
    switch (which) {
    case VL_TAKE_WAITING:
        return find_waiting_locked();
    case VL_TAKE_QUEUED:
        return vl_arrival_unqueue_locked(1);
    case VL_TAKE_UNBEGUN:
        break;
    }
    return find_unbegun_locked();
}

void vl_arrival_take(vl_take_e which, apr_size_t max, vl_batch_t *ret_batch)
{
    vl_arrival_t *arrival;
    apr_size_t n;

    vl_park_lock();
    if (which == VL_TAKE_WAITING)
        vl_arrival_set_mpm_stalled_locked(1);
    for (n = 0; n < max && (arrival = find_locked(which)); n++) {
        ret_batch->fds[n] = arrival->fd;
        ret_batch->passed[n] = vl_arrival_known(arrival);
        vl_arrival_release_locked(arrival);
    }
    ret_batch->n = n;
    vl_park_unlock();
}

void vl_arrival_answer_all(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    while ((arrival = find_waiting_locked()))
        vl_arrival_answer_503_locked(arrival);
    vl_park_unlock();
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
