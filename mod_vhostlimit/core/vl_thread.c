/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_thread.h"

#include "core/vl_admit.h"
#include "core/vl_capacity.h"
#include "core/vl_dispatch.h"
#include "core/vl_segment.h"
#include "core/vl_slot.h"

static void occupy_locked(vl_shm_t *shm, apr_uint32_t account, int by)
{
    vl_segment_cell(shm, shm->self, account)->occupied += (apr_uint32_t)by;
    shm->children[shm->self].occupied += (apr_uint32_t)by;
    shm->accounts[account].occupied += (apr_uint32_t)by;
}

void vl_thread_occupy(vl_shm_t *shm, apr_uint32_t account)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    occupy_locked(shm, account, 1);
    vl_segment_unlock(shm);
}

/* Returns 1 if requests of the account may be queued. The capacity threshold applies only
 * to such accounts, because a queue limit of 0 says that nothing waits. */
static int is_limited(const vl_shm_t *shm, apr_uint32_t account)
{
    const vl_limits_t *limits = vl_segment_limits(shm, account);

    return limits->mode == VL_MODE_ON && limits->queue;
}

apr_status_t vl_thread_try_occupy(vl_shm_t *shm, apr_uint32_t account)
{
    apr_status_t rv = vl_segment_lock_child(shm);

    if (rv != APR_SUCCESS)
        return rv;
    occupy_locked(shm, account, 1);
    if (is_limited(shm, account)
        && vl_capacity_is_exceeded(shm, account)) {
        occupy_locked(shm, account, -1);
        rv = APR_EAGAIN;
    }
    vl_segment_unlock(shm);
    return rv;
}

void vl_thread_free(vl_shm_t *shm, apr_uint32_t account)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    occupy_locked(shm, account, -1);
    vl_dispatch_and_unlock(shm);
}

void vl_thread_is_stream(vl_shm_t *shm, vl_ticket_t *ticket)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    ticket->stream = 1;
    vl_segment_cell(shm, shm->self, ticket->account)->streams++;
    shm->children[shm->self].streams++;
    vl_segment_unlock(shm);
}

void vl_thread_waiting(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t n)
{
    if (shm->self != NO_CHILD)
        __atomic_store_n(&vl_segment_cell(shm, shm->self, account)->thread_waiters, n,
                         __ATOMIC_RELAXED);
}

void vl_thread_parked(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t n)
{
    if (shm->self != NO_CHILD)
        __atomic_store_n(&vl_segment_cell(shm, shm->self, account)->parked, n,
                         __ATOMIC_RELAXED);
}

static apr_uint32_t load(const apr_uint32_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static apr_uint32_t count_alive(const vl_shm_t *shm)
{
    apr_uint32_t c, alive = 0;

    for (c = 0; c < load(&shm->head->columns); c++)
        alive += __atomic_load_n(&shm->children[c].pid, __ATOMIC_RELAXED) != 0;
    return alive;
}

int vl_thread_occupy_idle(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t max)
{
    int may_grow;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 1;
    occupy_locked(shm, account, 1);
    may_grow = !shm->head->acceptor || !is_limited(shm, account)
               || vl_capacity_leaves_process(shm, account);
    vl_segment_unlock(shm);
    return may_grow || count_alive(shm) < max;
}

static int are_processes_short(const vl_shm_t *shm, apr_uint32_t max)
{
    return !load(&shm->head->asking)
           && (count_alive(shm) >= max || vl_slot_contended(shm));
}

int vl_thread_is_short(const vl_shm_t *shm, apr_uint32_t max)
{
    const child_t *child;

    if (shm->self == NO_CHILD)
        return 0;
    if (load(&shm->head->acceptor))
        return are_processes_short(shm, max);
    if (!vl_slot_contended(shm))
        return 0;
    child = &shm->children[shm->self];
    return (load(&child->running) - load(&child->streams)
            + load(&child->occupied) + 1) * 5
           >= (load(&child->threads) - 1) * 4;
}

int vl_thread_exceeds_capacity(vl_shm_t *shm, apr_uint32_t account)
{
    int result;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    result = vl_capacity_is_exceeded(shm, account);
    vl_segment_unlock(shm);
    return result;
}

int vl_thread_only_in_mpm(vl_shm_t *shm)
{
    int result;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    result = shm->children[shm->self].state != CHILD_ACCEPTING
             || vl_capacity_busy(shm, shm->self)
                > vl_capacity_most(shm, shm->self);
    vl_segment_unlock(shm);
    return result;
}
