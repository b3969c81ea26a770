/* SPDX-License-Identifier: Apache-2.0 */
/* How much a child can still work on, and how much of that one account may have:
 * its threads, less those that are not free. */
#include "core/vl_capacity.h"

#include <string.h>

#include "core/vl_shm_int.h"

/* The event MPM's listener keeps the last idle thread to itself and then stops
 * accepting (connections_above_limit), so it works on one request less. */
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

static int can_be_granted_to(const child_t *child)
{
    return child->pid && !child->stalled && child->ring_len < RING_SIZE;
}

/* For connections that the MPM has already: it need not accept them. */
static apr_uint32_t room_for_parked(const vl_shm_t *shm, apr_uint32_t c)
{
    const child_t *child = &shm->children[c];
    apr_uint32_t most = vl_capacity_most(shm, c), busy = vl_capacity_busy(child);

    return can_be_granted_to(child) && most > busy ? most - busy : 0;
}

apr_uint32_t vl_capacity_left(const vl_shm_t *shm, apr_uint32_t c)
{
    return shm->children[c].paused ? 0 : room_for_parked(shm, c);
}

apr_uint32_t vl_capacity_granted_to(const child_t *child, apr_uint32_t account)
{
    apr_uint32_t i, n = 0;

    for (i = 0; i < child->ring_len; i++)
        n += vl_shm_ticket((child_t *)child, i)->account == account;
    return n;
}

/* Children of one thread are as threads of one child. */
static apr_uint32_t processes_of(const vl_shm_t *shm, apr_uint32_t account)
{
    return shm->queue.flows[account].running + shm->accounts[account].occupied;
}

/* Threads of the child that the account has. The acceptor of prefork is granted
 * slots for all processes. */
static apr_uint32_t threads_of(const vl_shm_t *shm, apr_uint32_t c,
                               apr_uint32_t account, apr_uint32_t granted)
{
    const cell_t *cell = vl_shm_cell(shm, c, account);

    if (shm->head->acceptor == c + 1)
        return processes_of(shm, account);
    return cell->running + granted - cell->streams + cell->occupied;
}

static int is_left_of(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account,
                      apr_uint32_t granted, apr_uint32_t room)
{
    return vl_admit_more(threads_of(shm, c, account, granted), room);
}

int vl_capacity_is_left(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account,
                    apr_uint32_t granted)
{
    return is_left_of(shm, c, account, granted, vl_capacity_left(shm, c));
}

static apr_uint32_t processes_left(const vl_shm_t *shm)
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

static int overfills_processes(const vl_shm_t *shm, apr_uint32_t account)
{
    apr_uint32_t held = processes_of(shm, account);

    return held > 1 && !vl_admit_more(held - 1, processes_left(shm) + 1);
}

int vl_capacity_leaves_process_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    return vl_admit_more(processes_of(shm, account), processes_left(shm));
}

int vl_capacity_is_exceeded_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    const child_t *child = &shm->children[shm->self];
    apr_uint32_t most = vl_capacity_most(shm, shm->self);
    apr_uint32_t busy = vl_capacity_busy(child) - child->ring_len;
    apr_uint32_t held = threads_of(shm, shm->self, account, 0);

    if (child->threads == 1)
        return overfills_processes(shm, account);
    return held > 1
           && !vl_admit_more(held - 1, most + 1 > busy ? most + 1 - busy : 0);
}

int vl_capacity_may_grant(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account)
{
    const child_t *child = &shm->children[c];
    const cell_t *cell = vl_shm_cell(shm, c, account);
    apr_uint32_t granted = vl_capacity_granted_to(child, account);

    return vl_capacity_is_left(shm, c, account, granted)
           || (__atomic_load_n(&cell->parked, __ATOMIC_RELAXED) > granted
               && is_left_of(shm, c, account, granted,
                             room_for_parked(shm, c)))
           || (__atomic_load_n(&cell->with_thread, __ATOMIC_RELAXED) > granted
               && can_be_granted_to(child));
}

/* What is left when one account has all it may is for others. */
static apr_uint32_t room_for_anybody(const vl_shm_t *shm, apr_uint32_t c)
{
    apr_uint32_t room = vl_capacity_left(shm, c);

    return vl_admit_more(vl_capacity_busy(&shm->children[c]), room) ? room : 0;
}

void vl_capacity_count(vl_shm_t *shm, vl_capacity_t *ret_rooms)
{
    apr_uint32_t c;

    memset(ret_rooms, 0, sizeof(*ret_rooms));
    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    for (c = 0; c < shm->head->columns; c++)
        *(c == shm->self ? &ret_rooms->here : &ret_rooms->elsewhere)
            += room_for_anybody(shm, c);
    ret_rooms->ended = shm->children[shm->self].ended;
    vl_shm_unlock(shm);
}
