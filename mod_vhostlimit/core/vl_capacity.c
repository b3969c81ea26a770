/* SPDX-License-Identifier: Apache-2.0 */
/* Capacity of a child process: its threads that are not busy, and the capacity threshold
 * that one account may use of them. */
#include "core/vl_capacity.h"

#include <string.h>

#include "core/vl_segment.h"

/* The event MPM's listener keeps the last idle thread for itself and then stops accepting
 * (connections_above_limit). So a child runs one request less than it has threads. */
apr_uint32_t vl_capacity_most(const vl_shm_t *shm, apr_uint32_t c)
{
    const child_t *child = &shm->children[c];

    if (shm->head->acceptor == c + 1)
        return shm->head->asking;
    return child->threads > 1 ? child->threads - 1 : child->threads;
}

apr_uint32_t vl_capacity_busy(const child_t *child)
{
    return child->running - child->streams + child->occupied;
}

static int accepts_grants(const child_t *child)
{
    return child->pid && !child->stalled && child->ring_len < RING_SIZE;
}

/* Returns the capacity for connections that the MPM already has and need not accept. */
static apr_uint32_t left_for_parked(const vl_shm_t *shm, apr_uint32_t c)
{
    const child_t *child = &shm->children[c];
    apr_uint32_t most = vl_capacity_most(shm, c), busy = vl_capacity_busy(child);

    return accepts_grants(child) && most > busy ? most - busy : 0;
}

apr_uint32_t vl_capacity_left(const vl_shm_t *shm, apr_uint32_t c)
{
    return shm->children[c].paused ? 0 : left_for_parked(shm, c);
}

apr_uint32_t vl_capacity_granted_to(const child_t *child, apr_uint32_t account)
{
    apr_uint32_t i, n = 0;

    for (i = 0; i < child->ring_len; i++)
        n += vl_segment_ticket((child_t *)child, i)->account == account;
    return n;
}

/* Returns the child processes that the account uses. Under prefork every child has one
 * thread, so processes are compared with the threshold instead of threads. */
static apr_uint32_t processes_of(const vl_shm_t *shm, apr_uint32_t account)
{
    return shm->queue.flows[account].running + shm->accounts[account].occupied;
}

/* Returns the number of threads of child c that the account holds. granted: its slots in
 * the child's ring. Under prefork the acceptor is granted slots for all processes. */
static apr_uint32_t threads_of(const vl_shm_t *shm, apr_uint32_t c,
                               apr_uint32_t account, apr_uint32_t granted)
{
    const cell_t *cell = vl_segment_cell(shm, c, account);

    if (shm->head->acceptor == c + 1)
        return processes_of(shm, account);
    return cell->running + granted - cell->streams + cell->occupied;
}

static int is_below_threshold(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account,
                              apr_uint32_t granted, apr_uint32_t left)
{
    return vl_admit_more(threads_of(shm, c, account, granted), left);
}

int vl_capacity_is_left(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account,
                    apr_uint32_t granted)
{
    return is_below_threshold(shm, c, account, granted, vl_capacity_left(shm, c));
}

static apr_uint32_t processes_free(const vl_shm_t *shm)
{
    apr_uint32_t c, all = 0, busy = 0;

    if (shm->head->acceptor)
        return shm->head->asking;
    for (c = 0; c < shm->head->columns; c++) {
        all += shm->children[c].pid != 0;
        busy += vl_capacity_busy(&shm->children[c]);
    }
    return all > busy ? all - busy : 0;
}

static int exceeds_processes(const vl_shm_t *shm, apr_uint32_t account)
{
    apr_uint32_t held = processes_of(shm, account);

    return held > 1 && !vl_admit_more(held - 1, processes_free(shm) + 1);
}

int vl_capacity_leaves_process_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    return vl_admit_more(processes_of(shm, account), processes_free(shm));
}

int vl_capacity_is_exceeded_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    const child_t *child = &shm->children[shm->self];
    apr_uint32_t most = vl_capacity_most(shm, shm->self);
    apr_uint32_t busy = vl_capacity_busy(child) - child->ring_len;
    apr_uint32_t held = threads_of(shm, shm->self, account, 0);

    if (child->threads == 1)
        return exceeds_processes(shm, account);
    return held > 1
           && !vl_admit_more(held - 1, most + 1 > busy ? most + 1 - busy : 0);
}

int vl_capacity_may_grant(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account)
{
    const child_t *child = &shm->children[c];
    const cell_t *cell = vl_segment_cell(shm, c, account);
    apr_uint32_t granted = vl_capacity_granted_to(child, account);

    return vl_capacity_is_left(shm, c, account, granted)
           || (__atomic_load_n(&cell->parked, __ATOMIC_RELAXED) > granted
               && is_below_threshold(shm, c, account, granted,
                                     left_for_parked(shm, c)))
           || (__atomic_load_n(&cell->thread_waiters, __ATOMIC_RELAXED) > granted
               && accepts_grants(child));
}

/* Returns the free capacity of child c for an account that already holds all busy threads
 * there. The rest below the capacity threshold is reserved for other accounts. */
static apr_uint32_t left_for_any_account(const vl_shm_t *shm, apr_uint32_t c)
{
    apr_uint32_t left = vl_capacity_left(shm, c);

    return vl_admit_more(vl_capacity_busy(&shm->children[c]), left) ? left : 0;
}

void vl_capacity_count(vl_shm_t *shm, vl_capacity_t *ret_capacity)
{
    apr_uint32_t c;

    memset(ret_capacity, 0, sizeof(*ret_capacity));
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    for (c = 0; c < shm->head->columns; c++)
        *(c == shm->self ? &ret_capacity->here : &ret_capacity->elsewhere)
            += left_for_any_account(shm, c);
    ret_capacity->ended = shm->children[shm->self].ended;
    vl_segment_unlock(shm);
}
