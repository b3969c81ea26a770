/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_limited.h"

/* At the recent rate, the queued requests would need longer than this. */
#define SLOW_US 100000

static int is_slow(const vl_limited_look_t *last, const vl_limited_look_t *look)
{
    apr_uint64_t passed = (apr_uint64_t)(look->at_us - last->at_us);

    return look->waiting
           && look->waiting * passed
              >= (look->requests - last->requests) * SLOW_US;
}

static int is_limited(vl_limited_t *state, const vl_limited_look_t *look)
{
    int was_slow = state->slow;

    state->slow = is_slow(&state->last, look);
    return look->refused > state->last.refused || (state->slow && was_slow);
}

vl_limited_e vl_limited_step(vl_limited_t *state, const vl_limited_look_t *look)
{
    vl_limited_look_t last = state->last;
    /* If the clock was set back, no time has passed. */
    int limited = last.at_us && look->at_us > last.at_us
                  && is_limited(state, look);

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
