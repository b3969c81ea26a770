/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_limited.h"

#include <apr_strings.h>

#include "core/vl_segment.h"

/* At the recent rate, the queued requests would need longer than this. */
#define SLOW_US 100000

vl_limited_e vl_limited_step(vl_limited_t *state, const vl_limited_look_t *look)
{
    vl_limited_look_t last = state->last;
    apr_uint64_t passed = (apr_uint64_t)(look->at_us - last.at_us);
    int was_slow = state->slow, limited = 0;

    /* If the clock was set back, no time has passed. */
    if (last.at_us && look->at_us > last.at_us) {
        state->slow = look->waiting
                      && look->waiting * passed >= (look->requests - last.requests) * SLOW_US;
        limited = look->refused > last.refused || (state->slow && was_slow);
    }
    state->last = *look;
    if (limited) {
        state->seen_us = look->at_us;
        if (state->since_us
            || look->at_us - state->ended_us < VL_LIMITED_QUIET_US)
            return VL_LIMITED_AS_BEFORE;
        state->since_us = look->at_us;
        state->before = last;
        return VL_LIMITED_BEGINS;
    }
    if (!state->since_us || look->at_us - state->seen_us < VL_LIMITED_QUIET_US)
        return VL_LIMITED_AS_BEFORE;
    return VL_LIMITED_ENDS;
}

void vl_limited_clear(vl_limited_t *state)
{
    state->ended_us = state->last.at_us;
    state->since_us = 0;
}

/* --- all accounts ---------------------------------------------------------- */

/* Accounts that are checked while the segment lock is held once. */
#define BATCH 256

int vl_limited_is_due(vl_shm_t *shm, apr_int64_t now_us)
{
    apr_int64_t passed;
    int due;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return 0;
    passed = now_us - shm->head->limited_at;
    due = passed >= VL_LIMITED_LOOK_US || passed < -VL_LIMITED_LOOK_US;
    if (due)
        shm->head->limited_at = now_us;
    vl_segment_unlock(shm);
    return due;
}

/* Copies the account's state to the event. Requires the segment lock. */
static void fill_event_locked(const vl_shm_t *shm, apr_uint32_t account,
                              vl_limited_e what, vl_limited_event_t *event)
{
    const account_t *a = &shm->accounts[account];

    apr_cpystrn(event->name, a->name, VL_NAME_SIZE);
    event->what = what;
    event->limits = shm->queue.accounts[account].limits;
    event->metrics = a->metrics;
    event->metrics.running = shm->queue.accounts[account].running;
    event->metrics.waiting = shm->queue.accounts[account].waiting;
    event->metrics.deferred = a->deferred;
    event->before = a->limited.before;
    event->since_us = a->limited.since_us;
    event->seen_us = a->limited.seen_us;
}

/* Returns the number of kills that are to be reported now, and marks them as reported. An
 * account is reported once in VL_LIMITED_QUIET_US at most. Requires the segment
 * lock. */
static apr_uint64_t unreported_kills_locked(account_t *a, apr_int64_t now_us)
{
    apr_uint64_t n = a->metrics.memory_kills - a->kills_logged;

    if (!n || (a->kills_logged_at <= now_us
               && now_us - a->kills_logged_at < VL_LIMITED_QUIET_US))
        return 0;
    a->kills_logged += n;
    a->kills_logged_at = now_us;
    return n;
}

apr_size_t vl_limited_check(vl_shm_t *shm, apr_int64_t now_us,
                         apr_uint32_t *account,
                         vl_limited_event_t ret_events[VL_LIMITED_EVENTS])
{
    apr_uint32_t i = *account, left = BATCH;
    apr_size_t n = 0;

    *account = 0;
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return 0;
    for (; i < vl_segment_count(shm) && left && n < VL_LIMITED_EVENTS; i++, left--) {
        apr_uint32_t number = vl_segment_account(shm, i);
        account_t *a = &shm->accounts[number];
        const vl_limited_look_t look = {
            .at_us = now_us,
            .waiting = shm->queue.accounts[number].waiting + a->deferred,
            .requests = __atomic_load_n(&a->metrics.requests, __ATOMIC_RELAXED),
            .queued = __atomic_load_n(&a->metrics.queued, __ATOMIC_RELAXED),
            .refused = a->metrics.refused
        };
        vl_limited_e what = vl_limited_step(&a->limited, &look);
        apr_uint64_t killed = unreported_kills_locked(a, now_us);

        if (what == VL_LIMITED_AS_BEFORE && !killed)
            continue;
        ret_events[n].killed = killed;
        fill_event_locked(shm, number, what, &ret_events[n++]);
        if (what == VL_LIMITED_ENDS)
            vl_limited_clear(&a->limited);
    }
    if (i < vl_segment_count(shm))
        *account = i;
    vl_segment_unlock(shm);
    return n;
}
