/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_charge.h"

#include "base/vl_clock.h"
#include "core/vl_segment.h"
#include "core/vl_slot.h"

/* If the child that gives credit has not done so for this long, another one does. */
#define READER_TIMEOUT_US 500000
/* Hosts that are given credit while the segment lock is held once. */
#define CREDIT_BATCH 256

void vl_charge_backend(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us,
                       apr_uint64_t database_us, vl_cost_by_e by)
{
    account_t *a = &shm->accounts[account];
    apr_int64_t now_us = vl_clock_us();
    apr_uint64_t permille;

    /* Most of many sites have nothing to be charged most of the time. */
    if (!us && by == a->cost_by && !a->database_permille
        && !__atomic_load_n(&a->backend_advance_us, __ATOMIC_RELAXED)
        && !__atomic_load_n(&a->backend_busy_us, __ATOMIC_RELAXED)) {
        a->backend_at = now_us;
        return;
    }
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    vl_fair_charge(&shm->queue, account, (apr_int64_t)us - (apr_int64_t)a->backend_advance_us);
    a->metrics.backend_us += us;
    a->metrics.database_us += database_us;
    if (now_us > a->backend_at)
        a->database_permille = vl_average(a->database_permille,
                                          database_us * 1000 / (apr_uint64_t)(now_us - a->backend_at));
    a->backend_at = now_us;
    a->metrics.charged_us += us;
    if (us)
        vl_rate_add(&a->rate, vl_clock_us(), 0, us);
    if (a->backend_busy_us) {
        permille = us * 1000 / a->backend_busy_us;
        a->backend_permille = vl_average(a->backend_permille, permille < 1000 ? permille : 1000);
    }
    a->backend_busy_us = a->backend_advance_us = 0;
    a->cost_by = by;
    vl_slot_dispatch_and_unlock(shm);
}

void vl_charge_backend_idle(vl_shm_t *shm, apr_uint32_t account)
{
    vl_charge_backend(shm, account, 0, 0, shm->accounts[account].cost_by);
    shm->accounts[account].database_permille = 0;
    shm->accounts[account].backend_permille = 0;
}

/* Gives credit to the accounts from the i-th on, to the n-th. Requires the segment lock. */
static void give_credit_locked(vl_shm_t *shm, apr_uint32_t i, apr_uint32_t n,
                               apr_int64_t passed_us)
{
    apr_uint32_t a;

    for (; i < n && passed_us > 0; i++) {
        a = vl_segment_account(shm, i);
        if (vl_fair_is_capped(&shm->queue, a))
            vl_fair_credit(&shm->queue, a, (apr_uint64_t)passed_us);
    }
}

int vl_charge_credit(vl_shm_t *shm, apr_int64_t now_us)
{
    head_t *head = shm->head;
    apr_uint32_t i, n;
    apr_int64_t passed_us;
    int gives;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    passed_us = now_us - head->read_at;
    gives = head->reader == shm->self || passed_us > READER_TIMEOUT_US || passed_us < 0;
    if (gives) {
        give_credit_locked(shm, 0, head->used, passed_us);
        head->reader = shm->self;
        head->read_at = now_us;
    }
    vl_slot_dispatch_and_unlock(shm);
    /* The hosts get theirs in batches, because there may be many. */
    for (i = head->used; gives && shm->hosts->capped && i < vl_segment_count(shm)
                         && vl_segment_lock_child(shm) == APR_SUCCESS; i = n) {
        n = i + CREDIT_BATCH < vl_segment_count(shm) ? i + CREDIT_BATCH
                                                     : vl_segment_count(shm);
        give_credit_locked(shm, i, n, passed_us);
        vl_slot_dispatch_and_unlock(shm);
    }
    return gives;
}

void vl_charge_set_arrival(vl_shm_t *shm, apr_int64_t us)
{
    __atomic_store_n(&shm->children[shm->self].arrival_us, us, __ATOMIC_RELAXED);
}

apr_int64_t vl_charge_arrival(const vl_shm_t *shm)
{
    apr_uint32_t acceptor = __atomic_load_n(&shm->head->acceptor, __ATOMIC_RELAXED);
    apr_uint32_t child = acceptor ? acceptor - 1 : shm->self;

    return child == NO_CHILD ? 0 : __atomic_load_n(&shm->children[child].arrival_us, __ATOMIC_RELAXED);
}

void vl_charge_kills(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t kills)
{
    account_t *a = &shm->accounts[account];

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    /* A smaller number means that the group was created again. */
    a->metrics.memory_kills += kills >= a->kills ? kills - a->kills : kills;
    a->kills = kills;
    vl_segment_unlock(shm);
}
