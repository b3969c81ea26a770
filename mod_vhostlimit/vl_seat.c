/* SPDX-License-Identifier: Apache-2.0 */
/* The cells say what each child has of an account; here they and their sums are
 * counted up and down together. */
#include "vl_seat.h"

#include "vl_shm_int.h"

static int overfills_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    return vl_room_overfills_locked(shm, account, 1);
}

/* Under prefork the acceptor is pressed, for all. */
static int crowds_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    apr_uint32_t c = shm->head->acceptor ? shm->head->acceptor - 1 : shm->self;

    return __atomic_load_n(&shm->children[c].pressed, __ATOMIC_RELAXED)
           && overfills_locked(shm, account);
}

static int may_stay_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    return !crowds_locked(shm, account);
}

static int may_sit_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    const child_t *child = &shm->children[shm->self];
    const account_t *a = &shm->accounts[account];
    const head_t *head = shm->head;

    return (child->threads == 1 || child->seated < (child->threads - 1) / 2)
           && may_stay_locked(shm, account)
           && vl_admit_seat(a->seated, head->seated, head->seats,
                            a->limits.weight);
}

static void seat_locked(vl_shm_t *shm, apr_uint32_t account, int by)
{
    vl_shm_cell(shm, shm->self, account)->seated += by;
    shm->children[shm->self].seated += by;
    shm->accounts[account].seated += by;
    shm->head->seated += by;
}

static apr_status_t take_if(vl_shm_t *shm, apr_uint32_t account,
                            int (*may_locked)(const vl_shm_t *shm,
                                              apr_uint32_t account))
{
    apr_status_t rv = vl_slot_lock(shm);

    if (rv != APR_SUCCESS)
        return rv;
    if (may_locked(shm, account))
        seat_locked(shm, account, 1);
    else
        rv = APR_EAGAIN;
    vl_shm_unlock(shm);
    return rv;
}

apr_status_t vl_seat_take(vl_shm_t *shm, apr_uint32_t account)
{
    return take_if(shm, account, may_sit_locked);
}

apr_status_t vl_seat_keep(vl_shm_t *shm, apr_uint32_t account)
{
    return take_if(shm, account, may_stay_locked);
}

void vl_seat_leave(vl_shm_t *shm, apr_uint32_t account)
{
    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    seat_locked(shm, account, -1);
    vl_slot_dispatch_and_unlock(shm);
}

static void stall(vl_shm_t *shm, apr_uint32_t account, int by)
{
    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    vl_shm_cell(shm, shm->self, account)->stalled += by;
    shm->accounts[account].stalled += by;
    shm->head->stalled += by;
    vl_slot_dispatch_and_unlock(shm);
}

void vl_seat_stall(vl_shm_t *shm, apr_uint32_t account)
{
    stall(shm, account, 1);
}

void vl_seat_unstall(vl_shm_t *shm, apr_uint32_t account)
{
    stall(shm, account, -1);
}

void vl_seat_sitting(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t n)
{
    if (shm->self != NO_CHILD)
        __atomic_store_n(&vl_shm_cell(shm, shm->self, account)->sitting, n,
                         __ATOMIC_RELAXED);
}

void vl_seat_parked(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t n)
{
    if (shm->self != NO_CHILD)
        __atomic_store_n(&vl_shm_cell(shm, shm->self, account)->parked, n,
                         __ATOMIC_RELAXED);
}

int vl_seat_only_threads(vl_shm_t *shm)
{
    const child_t *child;
    int yes;

    if (vl_slot_lock(shm) != APR_SUCCESS)
        return 0;
    child = &shm->children[shm->self];
    yes = child->paused
          || vl_room_busy(child) > vl_room_most_of(shm, shm->self);
    vl_shm_unlock(shm);
    return yes;
}

void vl_seat_press(vl_shm_t *shm, int pressed)
{
    if (shm->self != NO_CHILD)
        __atomic_store_n(&shm->children[shm->self].pressed, pressed,
                         __ATOMIC_RELAXED);
}

static int ask(vl_shm_t *shm, apr_uint32_t account,
               int (*is_locked)(const vl_shm_t *shm, apr_uint32_t account))
{
    int yes;

    if (vl_slot_lock(shm) != APR_SUCCESS)
        return 0;
    yes = is_locked(shm, account);
    vl_shm_unlock(shm);
    return yes;
}

int vl_seat_overfills(vl_shm_t *shm, apr_uint32_t account)
{
    return ask(shm, account, overfills_locked);
}

int vl_seat_crowds(vl_shm_t *shm, apr_uint32_t account)
{
    return ask(shm, account, crowds_locked);
}

/* Somebody who sits for it.  NO_CHILD: nobody does. */
static apr_uint32_t child_of_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    apr_uint32_t c;

    for (c = shm->head->columns; c-- > 0;) {
        if (vl_shm_cell(shm, c, account)->seated
            && !__atomic_load_n(&shm->children[c].dropped, __ATOMIC_RELAXED))
            return c;
    }
    return NO_CHILD;
}

static apr_uint32_t child_to_drop_locked(const vl_shm_t *shm)
{
    apr_uint32_t a, c;

    for (a = 0; shm->head->acceptor && a < shm->head->used; a++) {
        if (shm->accounts[a].seated && overfills_locked(shm, a)
            && (c = child_of_locked(shm, a)) != NO_CHILD)
            return c;
    }
    return NO_CHILD;
}

void vl_seat_drop_one(vl_shm_t *shm)
{
    apr_uint32_t c;

    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    c = child_to_drop_locked(shm);
    if (c != NO_CHILD)
        __atomic_store_n(&shm->children[c].dropped, 1, __ATOMIC_RELAXED);
    vl_shm_unlock(shm);
    if (c != NO_CHILD)
        vl_slot_wake(shm, c);
}

int vl_seat_is_dropped(vl_shm_t *shm)
{
    return shm->self != NO_CHILD
           && __atomic_exchange_n(&shm->children[shm->self].dropped, 0,
                                  __ATOMIC_RELAXED);
}
