/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_fleet.h"

#include "base/vl_clock.h"
#include "core/vl_slot.h"
#include "core/vl_hosts.h"
#include "core/vl_segment.h"

/* Accounts that are handled while the segment lock is held once. */
#define BATCH 256
/* A site without a charge in this many intervals of vl_rate.h is not active. */
#define QUIET_INTERVALS 2

apr_uint32_t vl_fleet_generation(const vl_shm_t *shm)
{
    return shm->head->generation;
}

/* --- reading ---------------------------------------------------------------- */

static int takes_part(const vl_shm_t *shm, apr_uint32_t a)
{
    return shm->accounts[a].generation == shm->head->generation
           && shm->queue.accounts[a].limits.mode == VL_MODE_ON;
}

static int is_recent(apr_int64_t interval, apr_int64_t now_us)
{
    return interval && now_us / VL_RATE_INTERVAL_US - interval <= QUIET_INTERVALS;
}

static int is_active(const vl_shm_t *shm, apr_uint32_t a, apr_int64_t now_us)
{
    const vl_fair_account_t *fair = &shm->queue.accounts[a];

    return fair->running || fair->waiting || shm->accounts[a].deferred || shm->accounts[a].listed
           || is_recent(shm->accounts[a].rate.newest, now_us);
}

apr_size_t vl_fleet_read(vl_shm_t *shm, int all, apr_uint32_t *number,
                         vl_fleet_reading_t ret_readings[VL_FLEET_READINGS])
{
    apr_uint32_t a = *number, left = BATCH;
    apr_int64_t now_us = vl_clock_us();
    apr_size_t i, n = 0, kept = 0;
    vl_hosts_sum_t sum;

    *number = 0;
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return 0;
    for (; a < shm->head->used && left && n < VL_FLEET_READINGS; a++, left--) {
        const account_t *account = &shm->accounts[a];
        const vl_fair_account_t *fair = &shm->queue.accounts[a];

        if (!takes_part(shm, a) || !(all || account->has_hosts || is_active(shm, a, now_us)))
            continue;
        ret_readings[n++] = (vl_fleet_reading_t){
            .name = account->name,
            .account = a,
            .limits = fair->limits,
            .charged_us = account->metrics.charged_us,
            .backlog_us = vl_fair_backlog(&shm->queue, a, now_us),
            .requests = fair->running + fair->waiting + account->deferred + account->listed,
            .has_hosts = account->has_hosts,
            .is_active = is_active(shm, a, now_us)
        };
    }
    if (a < shm->head->used)
        *number = a;
    vl_segment_unlock(shm);
    for (i = 0; i < n; i++) {
        vl_fleet_reading_t *reading = &ret_readings[i];

        if (reading->has_hosts) {
            /* Takes no lock, because there may be many. */
            vl_hosts_sum(shm, reading->account, now_us, &sum);
            reading->charged_us += sum.charged_us;
            reading->backlog_us += sum.backlog_us;
            reading->requests += sum.requests;
            reading->is_active = reading->is_active || sum.requests
                                 || is_recent(sum.newest, now_us);
        }
        if (all || reading->is_active)
            ret_readings[kept++] = *reading;
    }
    return kept;
}

/* --- leases ----------------------------------------------------------------- */

apr_status_t vl_fleet_lease(vl_shm_t *shm, apr_uint32_t generation, apr_int64_t until_us,
                            const vl_fleet_lease_t leases[], apr_size_t n)
{
    apr_status_t rv;
    apr_size_t i, first;

    if (generation != shm->head->generation)
        return APR_EMISMATCH;
    for (i = 0; i < n; i++) {
        if (leases[i].account >= shm->head->used || !takes_part(shm, leases[i].account))
            return APR_EINVAL;
    }
    for (first = 0; first < n; first += BATCH) {
        rv = vl_segment_lock(shm);
        if (rv != APR_SUCCESS)
            return rv;
        for (i = first; i < n && i < first + BATCH; i++) {
            vl_part_t part = leases[i].part;

            vl_override_limit_part(&shm->accounts[leases[i].account].override, &part);
            vl_fair_set_part(&shm->queue, leases[i].account, &part);
        }
        vl_segment_unlock(shm);
    }
    for (i = 0; i < n; i++) {
        if (shm->accounts[leases[i].account].has_hosts)
            vl_hosts_refresh(shm, leases[i].account);
    }
    shm->head->fleet.until_us = until_us;
    shm->head->fleet.renewed++;
    /* A part may be larger than before. */
    vl_slot_dispatch(shm);
    return APR_SUCCESS;
}

int vl_fleet_expire(vl_shm_t *shm, apr_int64_t now_us)
{
    static const vl_part_t none;
    vl_fleet_state_t *state = &shm->head->fleet;
    apr_uint32_t a, first;

    if (!state->until_us || now_us < state->until_us)
        return 0;
    for (first = 0; first < shm->head->used; first += BATCH) {
        if (vl_segment_lock(shm) != APR_SUCCESS)
            continue;
        for (a = first; a < shm->head->used && a < first + BATCH; a++)
            vl_fair_set_part(&shm->queue, a, &none);
        vl_segment_unlock(shm);
    }
    for (a = 0; a < shm->head->used; a++) {
        if (shm->accounts[a].has_hosts)
            vl_hosts_refresh(shm, a);
    }
    state->until_us = 0;
    state->lapsed++;
    vl_slot_dispatch(shm);
    return 1;
}

vl_fleet_state_t vl_fleet_state(vl_shm_t *shm)
{
    static const vl_fleet_state_t none;
    vl_fleet_state_t state = none;

    if (vl_segment_lock(shm) == APR_SUCCESS) {
        state = shm->head->fleet;
        vl_segment_unlock(shm);
    }
    return state;
}
