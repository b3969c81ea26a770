/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_capacity.h"

#include <string.h>

#include "core/vl_admit.h"
#include "core/vl_segment.h"

static apr_uint32_t difference(apr_uint32_t all, apr_uint32_t used)
{
    return all > used ? all - used : 0;
}

apr_uint32_t vl_capacity_auto(const vl_shm_t *shm)
{
    return shm->head->processors * VL_AUTO_PER_CPU;
}

/* With automatic slots an account is within its share of CPU time, not of slots. Some are kept
 * for accounts that hold none: they would wait for the end of a request otherwise, however little they ask for. An account
 * that is not first leaves them free too. Otherwise one with a small weight, which often holds
 * none, would get more than its share. Slots are counted in thousandths. */
int vl_capacity_may_take_slot(const vl_shm_t *shm, apr_uint32_t account, int is_first)
{
    apr_uint32_t held = shm->queue.flows[account].load;
    apr_uint32_t left = vl_queue_free(&shm->queue);

    if (vl_queue_has_own(&shm->queue, account, is_first))
        return 1;
    if (!left)
        return is_first && vl_queue_has_slot(&shm->queue, account);
    if (shm->head->auto_on)
        return (!held && is_first) || left > vl_capacity_auto(shm) * 1000 / 5
               || vl_queue_is_light(&shm->queue, account)
               || (is_first && vl_queue_may_exceed(&shm->queue, account));
    return vl_queue_may_take(&shm->queue, account, held, left);
}

/* --- threads of one child ------------------------------------------------- */

/* The event MPM's listener keeps the last idle thread for itself and then stops accepting
 * (connections_above_limit). So a child runs one request less than it has threads. */
apr_uint32_t vl_capacity_most(const vl_shm_t *shm, apr_uint32_t c)
{
    const child_t *child = &shm->children[c];

    if (shm->head->acceptor == c + 1)
        return shm->head->asking;
    return child->threads > 1 ? child->threads - 1 : child->threads;
}

apr_uint32_t vl_capacity_busy(const vl_shm_t *shm, apr_uint32_t c)
{
    const child_t *child = &shm->children[c];

    return child->running - child->streams + child->occupied;
}

void vl_capacity_count_children(vl_shm_t *shm)
{
    apr_uint32_t c, n = 0;

    for (c = 0; c < shm->head->columns; c++)
        n += shm->children[c].pid && shm->children[c].state != CHILD_DRAINING;
    shm->head->attached = n;
}

/* What is kept free for other accounts may make the MPM see so many idle threads that it starts no
 * further child process. While it can start some, their threads count as free too, until so few are
 * left of those that run that it does. threads: of a child; 1 under prefork, where left is the
 * number of idle children. */
static apr_uint32_t with_growth(const vl_shm_t *shm, apr_uint32_t left, apr_uint32_t threads)
{
    const head_t *head = shm->head;
    apr_uint32_t more = difference(head->processes, head->attached), needed = head->spare;

    if (!more || !head->attached)
        return left;
    if (threads > 1) {
        /* One idle thread of each child is not in left. */
        needed = difference(head->spare, 1) / head->attached;
        more = (more * threads + head->attached - 1) / head->attached;
    }
    return left && left >= needed ? left + more : left;
}

static int accepts_grants(const child_t *child)
{
    return child->pid && !child->stalled && child->ring_len < RING_SIZE;
}

/* Returns the capacity for connections that the MPM already has and need not accept. */
static apr_uint32_t left_for_parked(const vl_shm_t *shm, apr_uint32_t c)
{
    if (!accepts_grants(&shm->children[c]))
        return 0;
    return difference(vl_capacity_most(shm, c), vl_capacity_busy(shm, c));
}

/* The same for left threads of child c. */
static apr_uint32_t left_growing(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t left)
{
    return with_growth(shm, left, shm->head->acceptor == c + 1 ? 1 : shm->children[c].threads);
}

apr_uint32_t vl_capacity_left(const vl_shm_t *shm, apr_uint32_t c)
{
    if (shm->children[c].state != CHILD_ACCEPTING)
        return 0;
    return left_for_parked(shm, c);
}

/* Returns the number of grants of the account in the ring of child c. */
static apr_uint32_t granted_to(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account)
{
    child_t *child = &shm->children[c];
    apr_uint32_t i, n = 0;

    for (i = 0; i < child->ring_len; i++)
        n += vl_segment_ticket(child, i)->account == account;
    return n;
}

/* Returns the number of child processes that the account uses. */
static apr_uint32_t processes_of(const vl_shm_t *shm, apr_uint32_t account)
{
    return shm->queue.flows[account].running + shm->accounts[account].occupied;
}

/* Returns the number of threads of child c that the account holds. granted: its slots in
 * the child's ring. */
static apr_uint32_t threads_of(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account,
                               apr_uint32_t granted)
{
    const cell_t *cell = vl_segment_cell(shm, c, account);

    if (shm->head->acceptor == c + 1)
        return processes_of(shm, account);
    return cell->running + granted - cell->streams + cell->occupied;
}

int vl_capacity_may_accept(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account)
{
    apr_uint32_t granted = granted_to(shm, c, account);

    return vl_queue_may_take(&shm->queue, account, threads_of(shm, c, account, granted),
                             left_growing(shm, c, vl_capacity_left(shm, c)));
}

int vl_capacity_may_grant(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account)
{
    const cell_t *cell = vl_segment_cell(shm, c, account);
    apr_uint32_t granted = granted_to(shm, c, account);
    apr_uint32_t held = threads_of(shm, c, account, granted);

    if (vl_queue_may_take(&shm->queue, account, held, left_growing(shm, c, vl_capacity_left(shm, c))))
        return 1;
    if (__atomic_load_n(&cell->parked, __ATOMIC_RELAXED) > granted
        && vl_queue_may_take(&shm->queue, account, held,
                             left_growing(shm, c, left_for_parked(shm, c))))
        return 1;
    return __atomic_load_n(&cell->thread_waiters, __ATOMIC_RELAXED) > granted
           && accepts_grants(&shm->children[c]);
}

/* --- thresholds of this child --------------------------------------------- */

static apr_uint32_t processes_free(const vl_shm_t *shm)
{
    apr_uint32_t c, all = 0, busy = 0;

    if (shm->head->acceptor)
        return shm->head->asking;
    for (c = 0; c < shm->head->columns; c++) {
        all += shm->children[c].pid != 0;
        busy += vl_capacity_busy(shm, c);
    }
    return difference(all, busy);
}

int vl_capacity_leaves_process(const vl_shm_t *shm, apr_uint32_t account)
{
    return vl_queue_may_take(&shm->queue, account, processes_of(shm, account),
                             with_growth(shm, processes_free(shm), 1));
}

/* The account's first unit never exceeds the threshold. A further one does if the account
 * could not take it again after releasing it. */
int vl_capacity_is_exceeded(const vl_shm_t *shm, apr_uint32_t account)
{
    const child_t *child = &shm->children[shm->self];
    apr_uint32_t held, left;

    if (child->threads == 1) {
        held = processes_of(shm, account);
        left = processes_free(shm) + 1;
    }
    else {
        held = threads_of(shm, shm->self, account, 0);
        left = difference(vl_capacity_most(shm, shm->self) + 1,
                          vl_capacity_busy(shm, shm->self) - child->ring_len);
    }
    return held > 1 && !vl_queue_may_take(&shm->queue, account, held - 1,
                                          with_growth(shm, left, child->threads));
}

/* Returns the free capacity of child c for an account that already holds all busy threads
 * there. The rest below the capacity threshold is reserved for other accounts. */
static apr_uint32_t left_for_any_account(const vl_shm_t *shm, apr_uint32_t c)
{
    apr_uint32_t left = vl_capacity_left(shm, c);

    return vl_admit_more(vl_capacity_busy(shm, c), left_growing(shm, c, left)) ? left : 0;
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
    ret_capacity->most = vl_capacity_most(shm, shm->self);
    ret_capacity->ended = shm->children[shm->self].ended;
    vl_segment_unlock(shm);
}
