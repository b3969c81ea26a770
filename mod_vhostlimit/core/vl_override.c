/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_override.h"

#include <string.h>

static const char *const names[VL_KEY_COUNT] = {
#define X(key) #key,
    VL_KEYS(X)
#undef X
};

const char *vl_override_key_name(vl_key_e key)
{
    return names[key];
}

vl_key_e vl_override_key(const char *name)
{
    vl_key_e key = 0;

    while (key < VL_KEY_COUNT && strcmp(names[key], name))
        key++;
    return key;
}

vl_limits_t vl_override_limits(vl_mode_e mode, const vl_values_t *values)
{
    vl_limits_t limits = { .mode = mode };

    limits.weight = (apr_uint32_t)values->of[VL_KEY_weight];
    limits.concurrency = (apr_uint32_t)values->of[VL_KEY_concurrency];
    limits.queue = (apr_uint32_t)values->of[VL_KEY_queue];
    limits.cpu = (apr_uint32_t)values->of[VL_KEY_cpu];
    return limits;
}

void vl_override_limit_part(const vl_override_t *state, vl_part_t *part)
{
    apr_uint32_t most = (apr_uint32_t)state->now.of[VL_KEY_weight] * 1000;

    if (state->keys & VL_KEY_BIT(VL_KEY_weight))
        part->weight_milli = 0;
    else if (part->weight_milli > most)
        part->weight_milli = most;
}

/* Ends the override of a limit. */
static void reset(vl_override_t *state, vl_key_e key)
{
    state->now.of[key] = state->configured.of[key];
    state->keys &= ~VL_KEY_BIT(key);
    state->timed &= ~VL_KEY_BIT(key);
}

/* Overrides a limit. A timed change of a limit that is timed already ends as the first one
 * would have. */
static void set(vl_override_t *state, vl_key_e key, apr_int64_t value,
                apr_int64_t until_us)
{
    unsigned bit = VL_KEY_BIT(key);

    if (until_us && !(state->timed & bit)) {
        state->earlier_keys = (state->earlier_keys & ~bit) | (state->keys & bit);
        state->earlier.of[key] = state->now.of[key];
    }
    state->timed = until_us ? state->timed | bit : state->timed & ~bit;
    state->until_us[key] = until_us;
    state->now.of[key] = value;
    state->keys |= bit;
}

void vl_override_change(vl_override_t *state, const vl_change_t *change)
{
    vl_key_e key;

    for (key = 0; key < VL_KEY_COUNT; key++) {
        unsigned bit = VL_KEY_BIT(key);
        int is_over = change->expire_us && state->timed & bit
                      && state->until_us[key] <= change->expire_us;

        /* A timed override goes back to the override before it, or to the configured value. */
        if (is_over && state->earlier_keys & bit)
            set(state, key, state->earlier.of[key], 0);
        else if (is_over)
            reset(state, key);
        if (change->configure & bit) {
            state->configured.of[key] = change->values.of[key];
            if (!(state->keys & bit))
                state->now.of[key] = change->values.of[key];
        }
        if (change->set & bit)
            set(state, key, change->values.of[key], change->until_us);
        if (change->reset & bit)
            reset(state, key);
    }
}

void vl_override_configure(vl_override_t *state, const vl_values_t *configured)
{
    vl_key_e key;

    for (key = 0; key < VL_KEY_COUNT; key++) {
        int is_same = configured->of[key] == state->configured.of[key];

        state->configured.of[key] = configured->of[key];
        if (!is_same || !(state->keys & VL_KEY_BIT(key)))
            reset(state, key);
    }
}

void vl_override_clear(vl_override_t *state)
{
    vl_key_e key;

    for (key = 0; key < VL_KEY_COUNT; key++)
        reset(state, key);
}

apr_int64_t vl_override_next_us(const vl_override_t *state)
{
    apr_int64_t next = 0;
    vl_key_e key;

    for (key = 0; state->timed && key < VL_KEY_COUNT; key++) {
        if (state->timed & VL_KEY_BIT(key)
            && (!next || state->until_us[key] < next))
            next = state->until_us[key];
    }
    return next;
}
