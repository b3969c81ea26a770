/* SPDX-License-Identifier: Apache-2.0 */
/* For each account, those in its line here are as many as its cell of this
 * child says are waiting, plus those whose grant is in the child's ring. */
#include "vl_park.h"

#include <pthread.h>

static struct {
    pthread_mutex_t lock;
    vl_shm_t *shm;
    vl_wait_t *lines;
    apr_uint32_t most;
} park = { .lock = PTHREAD_MUTEX_INITIALIZER };

void vl_park_child_init(apr_pool_t *pchild, vl_shm_t *shm,
                        apr_uint32_t accounts, apr_uint32_t most)
{
    park.shm = shm;
    park.lines = vl_wait_create(pchild, accounts);
    park.most = most;
}

void vl_park_lock(void)
{
    pthread_mutex_lock(&park.lock);
}

void vl_park_unlock(void)
{
    pthread_mutex_unlock(&park.lock);
}

void vl_park_remove_locked(vl_waiter_t *waiter)
{
    vl_wait_remove(park.lines, waiter);
    /* If its grant is on the way, vl_park_take_locked() will find the line
     * one shorter and give the slot back. */
    vl_slot_unwait(park.shm, waiter->account);
}

static void refuse_locked(vl_waiter_t *waiter, vl_reason_e reason)
{
    vl_park_remove_locked(waiter);
    waiter->done(waiter, NULL, reason);
}

/* It stands in line: the numbers follow, or it is refused.  1: it may wait.
 * What cannot be counted is not refused for that: its request decides. */
static int count_locked(vl_waiter_t *waiter)
{
    apr_status_t rv = vl_slot_wait(park.shm, waiter->account,
                                   waiter->since_us);

    if (rv == APR_SUCCESS)
        return 1;
    vl_wait_remove(park.lines, waiter);
    waiter->done(waiter, NULL, APR_STATUS_IS_EAGAIN(rv) ? VL_REASON_QUEUE
                                                        : VL_REASON_NONE);
    return 0;
}

void vl_park_add_locked(vl_waiter_t *waiter)
{
    vl_wait_add(park.lines, waiter);
    if (count_locked(waiter) && vl_slot_granted(park.shm))
        vl_park_take_locked();
    if (vl_wait_count(park.lines) > park.most)
        refuse_locked(vl_wait_newest_of_longest(park.lines), VL_REASON_QUEUE);
}

void vl_park_put_back_locked(vl_waiter_t *waiter)
{
    vl_wait_add_first(park.lines, waiter);
    count_locked(waiter);
}

void vl_park_end(const vl_ticket_t *ticket, const vl_cost_t *cost)
{
    vl_slot_end(park.shm, ticket, cost);
    if (vl_slot_granted(park.shm)) {
        vl_park_lock();
        vl_park_take_locked();
        vl_park_unlock();
    }
}

void vl_park_take_locked(void)
{
    vl_ticket_t ticket;

    while (vl_slot_take(park.shm, &ticket) == APR_SUCCESS) {
        vl_waiter_t *waiter = vl_wait_pop(park.lines, ticket.account);
        vl_waiter_t *next = vl_wait_first(park.lines, ticket.account);

        if (next)
            vl_slot_first(park.shm, ticket.account, next->since_us);
        if (waiter)
            waiter->done(waiter, &ticket, VL_REASON_NONE);
        else
            vl_slot_end(park.shm, &ticket, NULL);
    }
}

apr_uint32_t vl_park_expire_locked(apr_int64_t now_us)
{
    vl_waiter_t *waiter;
    apr_uint32_t n = 0;

    for (; (waiter = vl_wait_expired(park.lines, now_us)); n++)
        refuse_locked(waiter, VL_REASON_TIMEOUT);
    return n;
}

vl_waiter_t *vl_park_evict_locked(vl_waiter_done_fn done)
{
    vl_waiter_t *waiter = vl_wait_any(park.lines, done);

    if (waiter)
        vl_park_remove_locked(waiter);
    return waiter;
}
