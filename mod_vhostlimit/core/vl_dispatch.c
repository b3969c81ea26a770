/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_dispatch.h"

#include <unistd.h>

#include "base/vl_clock.h"
#include "core/vl_admit.h"
#include "core/vl_segment.h"

/* Children to wake after the lock is released, because write() is a system call. */
typedef struct wakes_t {
    apr_uint32_t n;
    apr_uint32_t child[32];
} wakes_t;

#define WAKES_MAX (sizeof(((wakes_t *)0)->child) / sizeof(apr_uint32_t))

/* A waiter in another child is preferred to the first one in this child only if it arrived
 * more than this much earlier. This child has the processor now, and waking another one
 * costs two context switches. */
#define REMOTE_PENALTY_US 10000

/* Returns the i-th child to look at. Under prefork it begins with the acceptor, in which nearly
 * all connections wait, so that the cells of several hundred children are not read. */
static apr_uint32_t nth_child(const vl_shm_t *shm, apr_uint32_t i)
{
    apr_uint32_t first = shm->head->acceptor ? shm->head->acceptor - 1 : 0;

    return first + i < shm->head->columns ? first + i : first + i - shm->head->columns;
}

/* Returns the child in which the account's first waiter probably waits. Returns NO_CHILD if
 * no child with a waiter of the account has capacity. Requires the segment lock. */
static apr_uint32_t pick_child(const vl_shm_t *shm, apr_uint32_t account)
{
    vl_candidate_t next, best = { .child = NO_CHILD };
    apr_uint32_t i, left = shm->queue.accounts[account].waiting;

    for (i = 0; left && i < shm->head->columns; i++) {
        apr_uint32_t c = nth_child(shm, i), waiting = shm->cells[c][account].waiting;

        left -= waiting;
        if (!waiting || !vl_admit_thread(shm, c, account, 0))
            continue;
        vl_fair_candidate(shm, account, c, &next);
        next.since_us -= c == shm->self ? REMOTE_PENALTY_US : 0;
        if (best.child == NO_CHILD || vl_fair_is_before(&next, &best))
            best = next;
    }
    return best.child;
}

typedef struct choice_t {
    const vl_shm_t *shm;
    apr_uint32_t child;             /* child for the account that was checked last */
    int is_first;                   /* see vl_admit_slot() */
} choice_t;

static int can_serve(void *data, apr_uint32_t account)
{
    choice_t *choice = data;

    if (!vl_admit_slot(&choice->shm->queue, account, choice->is_first)) {
        if (choice->is_first)
            choice->is_first = choice->shm->queue.head->heaviest == account + 1 ? -1 : 0;
        return 0;
    }
    choice->child = pick_child(choice->shm, account);
    return choice->child != NO_CHILD;
}

/* Grants a slot to the account in child c. One store makes the grant valid; vl_segment.h
 * explains a crash before or after it. Requires the segment lock. */
static void grant(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account,
                  wakes_t *wakes)
{
    child_t *child = &shm->children[c];
    cell_t *cell = &shm->cells[c][account];
    apr_int64_t now_us = vl_clock_us();
    vl_ticket_t *ticket;

    ticket = &child->ring[(child->ring_head + child->ring_len) % RING_SIZE];
    ticket->account = account;
    ticket->charged = vl_fair_begin(&shm->queue, account);
    ticket->stream = ticket->call = 0;
    ticket->caller = ticket->client_us = 0;
    vl_fair_granted(shm, account, c, ticket->charged);
    if (!child->ring_len)
        __atomic_store_n(&child->moved_us, now_us, __ATOMIC_RELAXED);
    __atomic_store_n(&child->ring_len, child->ring_len + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&cell->waiting, cell->waiting - 1, __ATOMIC_RELAXED);
    child->running++;
    if (c != shm->self && !child->woken) {
        __atomic_store_n(&child->woken, 1, __ATOMIC_RELAXED);
        wakes->child[wakes->n++] = c;
    }
}

/* Grants free slots to eligible accounts until none is left or `wakes` is full. Requires
 * the segment lock. */
static void grant_free(vl_shm_t *shm, wakes_t *wakes)
{
    choice_t choice = { shm, NO_CHILD, 1 };
    apr_uint32_t account;

    wakes->n = 0;
    while (wakes->n < WAKES_MAX
           && (account = vl_fair_next_where(&shm->queue, can_serve, &choice))
              != VL_NO_ACCOUNT) {
        grant(shm, choice.child, account, wakes);
        choice.is_first = 1;
    }
}

static void wake(const vl_shm_t *shm, apr_uint32_t child)
{
    apr_uint64_t one = 1;

    /* write() fails only if the counter is at its maximum. The descriptor is readable
     * then. */
    if (write(shm->wake_fds[child], &one, sizeof(one)) < 0)
        return;
}

/* Takes the next grant of this child, whose ring must not be empty. Requires the segment
 * lock. */
void vl_dispatch_take_locked(vl_shm_t *shm, vl_ticket_t *ret_ticket)
{
    child_t *child = &shm->children[shm->self];

    *ret_ticket = child->ring[child->ring_head];
    shm->cells[shm->self][ret_ticket->account].running++;
    child->ring_head = (child->ring_head + 1) % RING_SIZE;
    __atomic_store_n(&child->moved_us, vl_clock_us(), __ATOMIC_RELAXED);
    __atomic_store_n(&child->ring_len, child->ring_len - 1, __ATOMIC_RELEASE);
}

/* Dispatches and releases the lock. Every function that may have freed a slot ends with it.
 * Takes up to max grants of this child; the others stay in its ring. Returns the number of
 * grants taken. */
apr_uint32_t vl_dispatch_take_and_unlock(vl_shm_t *shm, vl_ticket_t *ret_tickets,
                                         apr_uint32_t max)
{
    apr_uint32_t i, taken = 0;
    wakes_t wakes;

    do {
        grant_free(shm, &wakes);
        while (taken < max && shm->children[shm->self].ring_len)
            vl_dispatch_take_locked(shm, &ret_tickets[taken++]);
        vl_segment_unlock(shm);
        for (i = 0; i < wakes.n; i++)
            wake(shm, wakes.child[i]);
    } while (wakes.n == WAKES_MAX && vl_segment_lock(shm) == APR_SUCCESS);
    return taken;
}

void vl_dispatch_and_unlock(vl_shm_t *shm)
{
    vl_dispatch_take_and_unlock(shm, NULL, 0);
}

void vl_dispatch_wake_self(const vl_shm_t *shm)
{
    if (shm->self != NO_CHILD)
        wake(shm, shm->self);
}

void vl_dispatch_wake_all(const vl_shm_t *shm)
{
    apr_uint32_t c;

    for (c = 0; c < shm->head->columns; c++) {
        if (c != shm->self && shm->wake_fds[c] >= 0)
            wake(shm, c);
    }
}

void vl_dispatch(vl_shm_t *shm)
{
    apr_uint32_t c;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    vl_dispatch_and_unlock(shm);
    /* A child that crashed may have made a grant without waking its receiver. */
    for (c = 0; c < shm->head->columns; c++) {
        if (__atomic_load_n(&shm->children[c].ring_len, __ATOMIC_RELAXED))
            wake(shm, c);
    }
}

void vl_dispatch_wake_deferred(vl_shm_t *shm, apr_uint32_t account)
{
    apr_uint32_t c, found = NO_CHILD;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    if (shm->queue.accounts[account].waiting
        < shm->queue.accounts[account].limits.queue) {
        for (c = 0; c < shm->head->columns; c++) {
            const cell_t *cell = &shm->cells[c][account];

            if (c != shm->self && cell->deferred
                && (found == NO_CHILD || !cell->waiting))
                found = c;
        }
    }
    vl_segment_unlock(shm);
    if (found != NO_CHILD)
        wake(shm, found);
}

/* --- stalled children ------------------------------------------------------ */

/* Longer than a child needs that only waits for a processor. */
#define STALLED_US 1000000

static int is_stalled(const vl_shm_t *shm, apr_uint32_t c, apr_int64_t now_us)
{
    const child_t *child = &shm->children[c];

    return c != shm->self
           && __atomic_load_n(&child->ring_len, __ATOMIC_RELAXED)
           && now_us - __atomic_load_n(&child->moved_us, __ATOMIC_RELAXED)
              > STALLED_US;
}

/* Revokes the last grant in the ring of child c and counts its waiter as waiting again. The
 * waiter is counted before the grant is removed; vl_segment.h explains a crash in between.
 * Requires the segment lock. */
static void revoke_locked(vl_shm_t *shm, apr_uint32_t c)
{
    child_t *child = &shm->children[c];
    vl_ticket_t ticket = *vl_segment_ticket(child, child->ring_len - 1);
    cell_t *cell = &shm->cells[c][ticket.account];

    __atomic_store_n(&cell->waiting, cell->waiting + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&child->ring_len, child->ring_len - 1, __ATOMIC_RELEASE);
    child->running--;
    vl_fair_cancel(&shm->queue, ticket.account, ticket.charged);
    vl_fair_arrive(&shm->queue, ticket.account);
}

static void revoke_stalled(vl_shm_t *shm, apr_uint32_t c, apr_int64_t now_us)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    if (is_stalled(shm, c, now_us)) {
        /* Set before the ring is emptied: a child that finds its ring empty must see the
         * mark, too, and must not sleep. */
        __atomic_store_n(&shm->children[c].stalled, 1, __ATOMIC_RELAXED);
        while (shm->children[c].ring_len)
            revoke_locked(shm, c);
    }
    vl_dispatch_and_unlock(shm);
}

void vl_dispatch_revoke_stalled(vl_shm_t *shm, apr_int64_t now_us)
{
    apr_uint32_t c;

    for (c = 0; c < shm->head->columns; c++) {
        if (is_stalled(shm, c, now_us))
            revoke_stalled(shm, c, now_us);
    }
}

