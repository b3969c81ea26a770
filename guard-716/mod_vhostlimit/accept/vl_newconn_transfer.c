/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that leave this child without its MPM. They are transferred to other
 * children, or answered with 503 if there are no other children. */
#include "accept/vl_newconn_table.h"

#include <fcntl.h>

#include "accept/vl_newconn_answer.h"
#include "accept/vl_newconn_queue.h"
#include "accept/vl_rescue.h"

/* Returns a connection that waits here, without a grant, or NULL. */
static vl_newconn_t *find_waiting_locked(void)
{
    vl_newconn_t *newconn = vl_newconn_first_locked(INCOMPLETE_HEAD);

    if (!newconn)
        newconn = vl_newconn_first_locked(TRANSFER_FAILED);
    if (!newconn && (newconn = vl_newconn_first_locked(FOR_MPM)))
        vl_newconn_return_grant_locked(&newconn->grant);
    return newconn ? newconn : vl_newconn_unqueue_locked(0);
}

/* The descriptor is the MPM's, so the transfer gets a duplicate.  Without a free descriptor the
 * connection stays where it is, and the batch ends: the next one has the descriptors of this
 * one. */
static vl_newconn_t *find_unbegun_locked(void)
{
    vl_newconn_t *newconn = vl_newconn_first_locked(IN_MPM);
    int fd = newconn ? fcntl(newconn->fd, F_DUPFD_CLOEXEC, 0) : -1;

    if (fd < 0)
        return NULL;
    vl_newconn_return_grant_locked(&newconn->grant);
    vl_rescue_forget(newconn->fd);
    newconn->fd = fd;
    return newconn;
}

static vl_newconn_t *find_locked(vl_take_e which)
{
    switch (which) {
    case VL_TAKE_WAITING:
        return find_waiting_locked();
    case VL_TAKE_QUEUED:
        return vl_newconn_unqueue_locked(1);
    case VL_TAKE_UNBEGUN:
        break;
    }
    return find_unbegun_locked();
}

void vl_newconn_take(vl_take_e which, apr_size_t max, vl_batch_t *ret_batch)
{
    vl_newconn_t *newconn;
    apr_size_t n;

    vl_waiters_lock();
    if (which == VL_TAKE_WAITING)
        vl_newconn_set_mpm_stalled_locked(1);
    for (n = 0; n < max && (newconn = find_locked(which)); n++) {
        ret_batch->fds[n] = newconn->fd;
        ret_batch->passed[n] = vl_newconn_known(newconn);
        vl_newconn_release_locked(newconn);
    }
    ret_batch->n = n;
    vl_waiters_unlock();
}

void vl_newconn_answer_all(void)
{
    vl_newconn_t *newconn;

    vl_waiters_lock();
    while ((newconn = find_waiting_locked()))
        vl_newconn_answer_503_locked(newconn);
    vl_waiters_unlock();
}

apr_uint32_t vl_newconn_count(void)
{
    apr_uint32_t n;

    vl_waiters_lock();
    n = vl_newconns->count[INCOMPLETE_HEAD] + vl_newconns->count[QUEUED]
        + vl_newconns->count[FOR_MPM] + vl_newconns->count[TRANSFER_FAILED]
        + vl_newconns->count[LINGERING];
    vl_waiters_unlock();
    return n;
}
