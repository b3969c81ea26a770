/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_auto.h"

/* Permille of idle time. More than IDLE_GROW while requests are queued: too few slots. Less
 * than IDLE_SHRINK: possibly too many. Clock ticks of 10 ms cannot resolve what lies in
 * between. */
#define IDLE_GROW 80
#define IDLE_SHRINK 20
/* Number of steps during which a number of slots that proved too small is not tried
 * again. */
#define HOLD_STEPS 50

static apr_uint32_t clamp(apr_uint32_t n, apr_uint32_t min, apr_uint32_t max)
{
    if (n > max)
        n = max;
    return n < min ? min : n;
}

apr_uint32_t vl_auto_step(vl_auto_t *state, const vl_auto_sample_t *s)
{
    apr_uint32_t idle = s->busy_permille < 1000 ? 1000 - s->busy_permille : 0;
    apr_uint32_t slots = s->slots, least = s->min;

    if (state->hold)
        state->hold--;
    /* A single account leaves a fifth of the slots free (vl_admit_more()), so the slots
     * count as used when four fifths are. */
    if (s->waiting && s->running + s->running / 4 + 1 >= slots
        && idle > IDLE_GROW) {
        /* Increase by half: from 8 to 100 slots in 1.4 s. */
        state->floor = slots + slots / 8 + 1;
        state->hold = HOLD_STEPS;
        slots += slots / 2 + 1;
    }
    else if (idle < IDLE_SHRINK) {
        if (state->hold && state->floor > least)
            least = state->floor;
        slots -= slots / 8;
        if (slots < least)
            slots = least < s->slots ? least : s->slots;
    }
    return clamp(slots, s->min, s->max);
}
