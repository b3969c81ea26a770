/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_fleet.h"

#include <apr_strings.h>

#include "base/vl_clock.h"
#include "core/vl_dispatch.h"
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

static void read_locked(const vl_shm_t *shm, apr_uint32_t a, apr_int64_t now_us,
                        vl_fleet_reading_t *ret)
{
    const account_t *account = &shm->accounts[a];
    const vl_fair_account_t *fair = &shm->queue.accounts[a];

    ret->name = account->name;
    ret->account = a;
    ret->limits = fair->limits;
    ret->charged_us = account->metrics.charged_us;
    ret->backlog_us = vl_fair_backlog(&shm->queue, a, now_us);
    ret->requests = fair->running + fair->waiting + account->deferred + account->listed;
    ret->has_hosts = account->has_hosts;
    ret->is_active = is_active(shm, a, now_us);
}

/* Adds the numbers of the site's hosts. Takes no lock, because there may be many. */
static void add_hosts(const vl_shm_t *shm, apr_int64_t now_us, vl_fleet_reading_t *reading)
{
    vl_hosts_sum_t sum;

    vl_hosts_sum(shm, reading->account, now_us, &sum);
    reading->charged_us += sum.charged_us;
    reading->backlog_us += sum.backlog_us;
    reading->requests += sum.requests;
    reading->is_active = reading->is_active || sum.requests || is_recent(sum.newest, now_us);
}

apr_size_t vl_fleet_read(vl_shm_t *shm, int all, apr_uint32_t *account,
                         vl_fleet_reading_t ret_readings[VL_FLEET_READINGS])
{
    apr_uint32_t a = *account, left = BATCH;
    apr_int64_t now_us = vl_clock_us();
    apr_size_t i, n = 0, kept = 0;

    *account = 0;
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return 0;
    for (; a < shm->head->used && left && n < VL_FLEET_READINGS; a++, left--) {
        if (takes_part(shm, a)
            && (all || shm->accounts[a].has_hosts || is_active(shm, a, now_us)))
            read_locked(shm, a, now_us, &ret_readings[n++]);
    }
    if (a < shm->head->used)
        *account = a;
    vl_segment_unlock(shm);
    for (i = 0; i < n; i++) {
        if (ret_readings[i].has_hosts)
            add_hosts(shm, now_us, &ret_readings[i]);
        if (all || ret_readings[i].is_active)
            ret_readings[kept++] = ret_readings[i];
    }
    return kept;
}

/* --- leases ----------------------------------------------------------------- */

static void lease_locked(vl_shm_t *shm, const vl_fleet_lease_t *lease)
{
    const vl_limits_t *limits = &shm->queue.accounts[lease->account].limits;
    vl_part_t part = lease->part;

    if (part.weight_milli > limits->weight * 1000)
        part.weight_milli = limits->weight * 1000;
    if (shm->accounts[lease->account].override.keys & VL_KEY_BIT(VL_KEY_weight))
        part.weight_milli = 0;
    vl_fair_set_part(&shm->queue, lease->account, &part);
}

static apr_status_t lease_batch(vl_shm_t *shm, const vl_fleet_lease_t leases[], apr_size_t n)
{
    apr_status_t rv = vl_segment_lock(shm);
    apr_size_t i;

    if (rv != APR_SUCCESS)
        return rv;
    for (i = 0; i < n; i++)
        lease_locked(shm, &leases[i]);
    vl_segment_unlock(shm);
    return APR_SUCCESS;
}

apr_status_t vl_fleet_lease(vl_shm_t *shm, apr_uint32_t generation, apr_int64_t until_us,
                            const vl_fleet_lease_t leases[], apr_size_t n)
{
    apr_status_t rv = APR_SUCCESS;
    apr_size_t i;

    if (generation != shm->head->generation)
        return APR_EMISMATCH;
    for (i = 0; i < n; i++) {
        if (leases[i].account >= shm->head->used || !takes_part(shm, leases[i].account))
            return APR_EINVAL;
    }
    for (i = 0; i < n && rv == APR_SUCCESS; i += BATCH)
        rv = lease_batch(shm, leases + i, n - i < BATCH ? n - i : BATCH);
    if (rv != APR_SUCCESS)
        return rv;
    for (i = 0; i < n; i++) {
        if (shm->accounts[leases[i].account].has_hosts)
            vl_hosts_refresh(shm, leases[i].account);
    }
    shm->head->fleet.until_us = until_us;
    shm->head->fleet.renewed++;
    /* A part may be larger than before. */
    vl_dispatch(shm);
    return APR_SUCCESS;
}

static void end_batch(vl_shm_t *shm, apr_uint32_t first)
{
    static const vl_part_t none;
    apr_uint32_t a;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    for (a = first; a < shm->head->used && a < first + BATCH; a++)
        vl_fair_set_part(&shm->queue, a, &none);
    vl_segment_unlock(shm);
}

int vl_fleet_expire(vl_shm_t *shm, apr_int64_t now_us)
{
    vl_fleet_state_t *state = &shm->head->fleet;
    apr_uint32_t a;

    if (!state->until_us || now_us < state->until_us)
        return 0;
    for (a = 0; a < shm->head->used; a += BATCH)
        end_batch(shm, a);
    for (a = 0; a < shm->head->used; a++) {
        if (shm->accounts[a].has_hosts)
            vl_hosts_refresh(shm, a);
    }
    state->until_us = 0;
    state->lapsed++;
    vl_dispatch(shm);
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
