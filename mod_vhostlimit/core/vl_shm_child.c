/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of a child (child_t.state), and the event that leads to the next one. Only the child
 * itself changes its state, except for FREE.
 *
 *   FREE (no pid)  --a child starts-->       ACCEPTING   (vl_shm_child_attach())
 *   ACCEPTING      --its MPM is stalled-->   PAUSED      (vl_shm_child_pause(1))
 *   PAUSED         --its MPM polls again-->  ACCEPTING   (vl_shm_child_pause(0))
 *   either         --it stops-->             DRAINING    (vl_shm_child_drain())
 *   any            --it has died-->          FREE        (vl_shm_parent_reclaim(), or
 *                                                         another child attaches)
 *                                            DRAINING    (vl_shm_child_reclaim_dead()),
 *                                                         until it is FREE
 *
 * Three marks are independent of the state, so they are not part of it:
 *   - stalled: other processes set it, in any state, and the child clears it and then goes
 *     on in the state it had (vl_slot.c);
 *   - asks: under prefork, the child waits for a connection (vl_relay.c);
 *   - woken: its eventfd has been written since its ring was last found empty. It saves
 *     system calls (vl_slot.c).
 */
#include "core/vl_shm_child.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "core/vl_slot.h"
#include "core/vl_segment.h"

/* A child says ten times a second that it takes new connections. One that has not done so for
 * this long does not count, because its acceptor may hang. */
#define ACCEPTING_FOR_US (300 * 1000)

/* Counts the children that are not draining, after a change of one. */
static void count_active_locked(vl_shm_t *shm)
{
    apr_uint32_t c, n = 0;

    for (c = 0; c < shm->head->columns; c++)
        n += shm->children[c].pid && shm->children[c].state != CHILD_DRAINING;
    __atomic_store_n(&shm->head->attached, n, __ATOMIC_RELAXED);
}

static apr_uint32_t reclaim_locked(vl_shm_t *shm, apr_uint32_t child)
{
    child_t *dead = &shm->children[child];
    apr_uint32_t a, i, left = dead->lost + dead->ring_len;

    for (i = 0; i < dead->tasks; i++) {
        task_t *task = vl_duty_task(shm, child, i);
        apr_uint32_t word = __atomic_exchange_n(&task->account, 0, __ATOMIC_RELAXED);

        if (!(word & TASK_LISTED))
            continue;
        if (!__atomic_sub_fetch(&shm->accounts[vl_duty_account(word)].listed, 1, __ATOMIC_RELAXED))
            __atomic_sub_fetch(&shm->head->engage.sites, 1, __ATOMIC_RELAXED);
        __atomic_sub_fetch(&shm->head->engage.load, task->load, __ATOMIC_RELAXED);
        left++;
    }
    for (i = 0; i < dead->ring_len; i++)
        vl_fair_forget(&shm->queue, vl_segment_ticket(dead, i)->account, 1);
    for (i = 0; i < vl_segment_count(shm); i++) {
        cell_t *cell = &shm->cells[child][a = vl_segment_account(shm, i)];

        if (cell->running)
            vl_fair_forget(&shm->queue, a, cell->running);
        if (cell->waiting)
            vl_fair_abandon(&shm->queue, a, cell->waiting);
        left += cell->running + cell->waiting + cell->deferred;
        shm->accounts[a].deferred -= cell->deferred;
        shm->accounts[a].occupied -= cell->occupied;
        shm->queue.accounts[a].called -= cell->called;
        memset(cell, 0, sizeof(*cell));
    }
    if (dead->threads == 1)
        __atomic_sub_fetch(&shm->head->engage.busy, dead->accepted, __ATOMIC_RELAXED);
    shm->head->calls -= dead->calls;
    __atomic_fetch_sub(&shm->head->asking, dead->asks != 0, __ATOMIC_RELAXED);
    __atomic_store_n(&shm->sleeping[child], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&shm->accepting_us[child], 0, __ATOMIC_RELAXED);
    if (shm->head->acceptor == child + 1)
        vl_segment_set_acceptor_locked(shm, 0);
    memset(dead, 0, sizeof(*dead));
    count_active_locked(shm);
    return left;
}

apr_status_t vl_shm_child_attach(vl_shm_t *shm, pid_t pid,
                                 apr_uint32_t threads)
{
    apr_status_t rv = vl_segment_lock(shm);
    apr_uint32_t c, found = NO_CHILD;

    if (rv != APR_SUCCESS)
        return rv;
    for (c = 0; c < shm->head->children && found == NO_CHILD; c++) {
        pid_t owner = shm->children[c].pid;

        /* A child may be replaced before the parent is notified of its death, and its
         * process id may have been reused for this process. */
        if (owner && (owner == pid || (kill(owner, 0) && errno == ESRCH)))
            reclaim_locked(shm, c);
        if (!shm->children[c].pid)
            found = c;
    }
    if (found != NO_CHILD) {
        shm->children[found].pid = pid;
        shm->children[found].threads = threads;
        if (found >= shm->head->columns)
            shm->head->columns = found + 1;
        count_active_locked(shm);
    }
    shm->self = found;
    vl_segment_unlock(shm);
    vl_slot_dispatch(shm);
    return found == NO_CHILD ? APR_ENOSPC : APR_SUCCESS;
}

static void set_state(vl_shm_t *shm, child_state_e state)
{
    child_t *child;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    child = &shm->children[shm->self];
    if (child->state != CHILD_DRAINING)
        child->state = state;
    count_active_locked(shm);
    vl_segment_unlock(shm);
    vl_slot_dispatch(shm);
}

void vl_shm_child_pause(vl_shm_t *shm, int paused)
{
    set_state(shm, paused ? CHILD_PAUSED : CHILD_ACCEPTING);
}

void vl_shm_child_drain(vl_shm_t *shm)
{
    set_state(shm, CHILD_DRAINING);
}

apr_uint32_t vl_shm_child_count_active(const vl_shm_t *shm)
{
    return __atomic_load_n(&shm->head->attached, __ATOMIC_RELAXED);
}

int vl_shm_child_wake_fd(const vl_shm_t *shm)
{
    return shm->self == NO_CHILD ? -1 : shm->wake_fds[shm->self];
}

int vl_shm_child_set_accepting(vl_shm_t *shm, apr_int64_t now_us)
{
    return shm->self != NO_CHILD
           && __atomic_exchange_n(&shm->accepting_us[shm->self], now_us, __ATOMIC_SEQ_CST);
}

int vl_shm_child_is_standby(const vl_shm_t *shm, apr_int64_t now_us)
{
    apr_uint32_t c, n, accepting = 0;

    if (shm->self == NO_CHILD)
        return 0;
    n = __atomic_load_n(&shm->accepting_us[shm->self], __ATOMIC_SEQ_CST) ? shm->self
                                                                         : shm->head->children;
    for (c = 0; c < n && accepting < shm->head->processors; c++)
        accepting += c != shm->self && now_us - __atomic_load_n(&shm->accepting_us[c], __ATOMIC_SEQ_CST)
                                       < ACCEPTING_FOR_US;
    return accepting >= shm->head->processors;
}

apr_uint32_t vl_shm_parent_reclaim(vl_shm_t *shm, pid_t pid)
{
    apr_uint32_t c, left = 0;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return 0;
    for (c = 0; c < shm->head->children; c++) {
        if (shm->children[c].pid == pid)
            left += reclaim_locked(shm, c);
    }
    vl_segment_unlock(shm);
    vl_slot_dispatch(shm);
    return left;
}

void vl_shm_child_died(vl_shm_t *shm, pid_t pid)
{
    if (shm->self == NO_CHILD)
        return;
    __atomic_store_n(&shm->children[shm->self].died, pid, __ATOMIC_RELAXED);
    __atomic_store_n(&shm->head->died, 1, __ATOMIC_RELEASE);
}

void vl_shm_child_reclaim_dead(vl_shm_t *shm)
{
    apr_uint32_t c, lost;
    pid_t pid;

    if (!__atomic_load_n(&shm->head->died, __ATOMIC_RELAXED)
        || vl_segment_lock(shm) != APR_SUCCESS)
        return;
    __atomic_store_n(&shm->head->died, 0, __ATOMIC_RELAXED);
    for (c = 0; c < shm->head->columns; c++) {
        child_t *dead = &shm->children[c];

        pid = __atomic_exchange_n(&dead->died, 0, __ATOMIC_ACQUIRE);
        if (!pid || pid != dead->pid)
            continue;
        lost = reclaim_locked(shm, c);
        dead->pid = pid;
        dead->lost = lost;
        dead->state = CHILD_DRAINING;
    }
    vl_segment_unlock(shm);
    vl_slot_dispatch(shm);
}

apr_uint32_t vl_shm_child_count(vl_shm_t *shm)
{
    apr_uint32_t c, alive = 0;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return 0;
    for (c = 0; c < shm->head->children; c++)
        alive += shm->children[c].pid != 0;
    vl_segment_unlock(shm);
    return alive;
}
