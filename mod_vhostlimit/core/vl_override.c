/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_override.h"

#include <string.h>

#include <apr_general.h>

static const struct key_t {
    const char *name;
    apr_size_t offset;          /* in vl_limits_t */
} keys[VL_KEY_COUNT] = {
#define X(key) { #key, APR_OFFSETOF(vl_limits_t, key) },
    VL_KEYS(X)
#undef X
};

const char *vl_override_key_name(vl_key_e key)
{
    return keys[key].name;
}

vl_key_e vl_override_key(const char *name)
{
    vl_key_e key = 0;

    while (key < VL_KEY_COUNT && strcmp(keys[key].name, name))
        key++;
    return key;
}

apr_uint32_t vl_override_get(const vl_limits_t *limits, vl_key_e key)
{
    return *(const apr_uint32_t *)((const char *)limits + keys[key].offset);
}

void vl_override_put(vl_limits_t *limits, vl_key_e key, apr_uint32_t value)
{
    *(apr_uint32_t *)((char *)limits + keys[key].offset) = value;
}

void vl_override_change(vl_override_t *state, const vl_change_t *change,
                        vl_limits_t *limits)
{
    vl_key_e key;

    for (key = 0; key < VL_KEY_COUNT; key++) {
        if (change->set & VL_KEY_BIT(key))
            vl_override_put(limits, key,
                            vl_override_get(&change->limits, key));
        if (change->reset & VL_KEY_BIT(key))
            vl_override_put(limits, key,
                            vl_override_get(&state->configured, key));
    }
    state->keys = (state->keys | change->set) & ~change->reset;
}

void vl_override_configure(vl_override_t *state,
                           const vl_limits_t *configured, vl_limits_t *limits)
{
    vl_limits_t before = *limits;
    vl_key_e key;

    *limits = *configured;
    for (key = 0; key < VL_KEY_COUNT; key++) {
        if (!(state->keys & VL_KEY_BIT(key)))
            continue;
        if (vl_override_get(configured, key)
            == vl_override_get(&state->configured, key))
            vl_override_put(limits, key, vl_override_get(&before, key));
        else
            state->keys &= ~VL_KEY_BIT(key);
    }
    state->configured = *configured;
}
