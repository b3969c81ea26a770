/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of connections, while the acceptor runs and while it is stalled. */
#include "accept/vl_newconn_table.h"

#include <stddef.h>
#include <sys/socket.h>

#include "accept/vl_newconn_answer.h"
#include "accept/vl_newconn_queue.h"
#include "core/vl_shm_child.h"

/* Connections that are refused in a tenth of a second: 50 in all children, at least 4
 * in each. The others are refused later. So a flood beyond the queue costs a bounded
 * part of the CPU time, however large it is. */
#define REFUSALS_ALL 50
#define REFUSALS_EACH 4

/* The MPM is stalled if pass_fd has been readable and the MPM has not asked for a
 * connection for as long. */
#define MPM_STALLED_US (100 * 1000)

static void expired_locked(vl_timer_t *timer)
{
    vl_newconn_t *newconn = (vl_newconn_t *)(void *)
        ((char *)timer - offsetof(vl_newconn_t, timer));

    if (newconn->state == INCOMPLETE_HEAD)
        vl_newconn_time_out_locked(newconn);
    else if (newconn->state == QUEUED)
        vl_newconn_watch_close_locked(newconn);
    else
        vl_newconn_close_locked(newconn);
}

/* Returns 1 if the MPM has stopped accepting, because its connections or its threads are
 * at their limit. */
static int mpm_stalls_locked(apr_int64_t now_us)
{
    apr_int64_t limit = now_us - MPM_STALLED_US;

    return vl_newconn_first_locked(FOR_MPM) && vl_newconns->mpm_polled_us <= limit
           && vl_newconns->signalled_us <= limit;
}

/* Returns the slots that a stalled MPM does not use. A connection that loses its slot is
 * queued again, before the others: the last one first, because each becomes the head of
 * its queue. This child is granted nothing, so no other record moves meanwhile. */
static void return_grants_locked(void)
{
    struct newconn_ring_t *passing = &vl_newconns->ring[FOR_MPM];
    vl_newconn_t *newconn, *before;

    for (newconn = APR_RING_LAST(passing);
         newconn != APR_RING_SENTINEL(passing, vl_newconn_t, link);
         newconn = before) {
        before = APR_RING_PREV(newconn, link);
        if (newconn->grant.holds) {
            vl_newconn_return_grant_locked(&newconn->grant);
            newconn->was_queued = 1;
            vl_newconn_move_locked(newconn, QUEUED);
            vl_waiters_put_back_locked(&newconn->waiter);
        }
    }
}

int vl_newconn_tick(apr_int64_t now_us)
{
    apr_uint32_t children = vl_shm_child_count_active(vl_child.shm);
    apr_uint32_t max = children ? REFUSALS_ALL / children : REFUSALS_ALL;
    int mpm_stalled;

    vl_waiters_lock();
    vl_waiters_expire_locked(now_us, max > REFUSALS_EACH ? max : REFUSALS_EACH);
    vl_waiters_refill_locked();
    vl_waiters_take_locked();
    vl_wheel_turn(vl_newconns->wheel, now_us, expired_locked);
    if (!vl_newconns->mpm_stalled && mpm_stalls_locked(now_us)) {
        vl_newconn_set_mpm_stalled_locked(1);
        return_grants_locked();
    }
    mpm_stalled = vl_newconns->mpm_stalled;
    vl_waiters_unlock();
    return mpm_stalled;
}

static void pass_with_input_locked(state_e state)
{
    struct newconn_ring_t *in = &vl_newconns->ring[state];
    vl_newconn_t *newconn, *next;
    char byte;

    for (newconn = APR_RING_FIRST(in);
         newconn != APR_RING_SENTINEL(in, vl_newconn_t, link); newconn = next) {
        next = APR_RING_NEXT(newconn, link);
        if (recv(newconn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
            vl_newconn_clear_grant(newconn);
            vl_newconn_pass_locked(newconn);
        }
    }
}

int vl_newconn_tick_while_stalled(apr_int64_t now_us)
{
    vl_waiters_lock();
    pass_with_input_locked(INCOMPLETE_HEAD);
    pass_with_input_locked(TRANSFER_FAILED);
    vl_waiters_unlock();
    return vl_newconn_tick(now_us);
}
