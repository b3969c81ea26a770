/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that are changed at run time, and how a new configuration affects them. */
#include <string.h>

#include "segment.h"
#include "core/vl_override.h"

static vl_values_t values_with(apr_int64_t weight, apr_int64_t queue)
{
    vl_values_t values = { { weight, 5, queue, 0, 0, 0, 0 } };

    return values;
}

static vl_limits_t limits_with(apr_uint32_t weight, apr_uint32_t queue)
{
    vl_limits_t limits = { VL_MODE_ON, weight, 5, queue, 0 };

    return limits;
}

static vl_change_t sets(vl_key_e key, apr_int64_t value)
{
    vl_change_t change = { VL_KEY_BIT(key), 0 };

    change.values.of[key] = value;
    return change;
}

static vl_change_t resets(unsigned keys)
{
    vl_change_t change = { 0, keys };

    return change;
}

static vl_override_t changed(const vl_values_t *configured, const vl_change_t *change)
{
    vl_override_t state = { 0 };

    vl_override_configure(&state, configured);
    vl_override_change(&state, change);
    return state;
}

static void keys_have_names(void)
{
    ok(vl_override_key("weight") == VL_KEY_weight
       && vl_override_key("cpu") == VL_KEY_cpu
       && vl_override_key("io") == VL_KEY_io, "keys by name");
    ok(vl_override_key("mode") == VL_KEY_COUNT
       && vl_override_key("") == VL_KEY_COUNT, "other names are no keys");
    ok(!strcmp(vl_override_key_name(VL_KEY_queue), "queue"), "keys have names");
}

static void changes_and_resets(void)
{
    vl_values_t configured = values_with(100, 10);
    vl_override_t state = { 0 };
    const vl_values_t *now = &state.now;
    vl_change_t change;

    vl_override_configure(&state, &configured);
    ok(!memcmp(now, &configured, sizeof(*now)) && !state.keys, "as configured");
    change = sets(VL_KEY_weight, 300);
    vl_override_change(&state, &change);
    ok(now->of[VL_KEY_weight] == 300 && now->of[VL_KEY_queue] == 10
       && state.keys == VL_KEY_BIT(VL_KEY_weight), "one value is set");
    change = sets(VL_KEY_memory, APR_INT64_C(1) << 40);
    vl_override_change(&state, &change);
    change = resets(VL_KEY_BIT(VL_KEY_weight));
    vl_override_change(&state, &change);
    ok(now->of[VL_KEY_weight] == 100 && now->of[VL_KEY_memory] == APR_INT64_C(1) << 40
       && state.keys == VL_KEY_BIT(VL_KEY_memory), "one value is reset");
    change = resets(VL_KEY_ALL);
    vl_override_change(&state, &change);
    ok(!memcmp(now, &configured, sizeof(*now)) && !state.keys, "all values are reset");
}

static void configurations_change(void)
{
    vl_values_t configured = values_with(100, 10);
    vl_change_t change = sets(VL_KEY_weight, 300);
    vl_override_t state = changed(&configured, &change);

    configured.of[VL_KEY_queue] = 20;
    vl_override_configure(&state, &configured);
    ok(state.now.of[VL_KEY_weight] == 300 && state.now.of[VL_KEY_queue] == 20 && state.keys,
       "a change is kept while the directive is the same");
    configured.of[VL_KEY_weight] = 200;
    vl_override_configure(&state, &configured);
    ok(state.now.of[VL_KEY_weight] == 200 && !state.keys,
       "a change ends when the directive changes");
}

static void plans_change_what_is_configured(void)
{
    vl_values_t configured = values_with(100, 10);
    vl_change_t change = sets(VL_KEY_weight, 300);
    vl_override_t state = changed(&configured, &change);

    memset(&change, 0, sizeof(change));
    change.configure = VL_KEY_BIT(VL_KEY_weight) | VL_KEY_BIT(VL_KEY_queue);
    change.values = values_with(200, 20);
    vl_override_change(&state, &change);
    ok(state.now.of[VL_KEY_weight] == 300 && state.now.of[VL_KEY_queue] == 20,
       "a plan changes a limit that is not overridden, and no other");
    change = resets(VL_KEY_ALL);
    vl_override_change(&state, &change);
    ok(state.now.of[VL_KEY_weight] == 200, "a reset returns to the plan's new value");
}

static void expires(vl_override_t *state, apr_int64_t now_us)
{
    vl_change_t change = { .expire_us = now_us };

    vl_override_change(state, &change);
}

static void timed_changes_end(void)
{
    vl_values_t configured = values_with(100, 10);
    vl_override_t state = { 0 };
    vl_change_t change = sets(VL_KEY_weight, 300);

    vl_override_configure(&state, &configured);
    ok(!vl_override_next_us(&state), "no change has an end time at first");
    change.until_us = 1000;
    vl_override_change(&state, &change);
    ok(vl_override_next_us(&state) == 1000, "a timed change has an end time");
    expires(&state, 999);
    ok(state.now.of[VL_KEY_weight] == 300, "a timed change holds until its end time");
    expires(&state, 1000);
    ok(state.now.of[VL_KEY_weight] == 100 && !state.keys && !vl_override_next_us(&state),
       "a timed change ends at its end time");

    change.until_us = 0;
    vl_override_change(&state, &change);
    change = sets(VL_KEY_weight, 500);
    change.until_us = 2000;
    vl_override_change(&state, &change);
    change.until_us = 3000;
    change.values.of[VL_KEY_weight] = 600;
    vl_override_change(&state, &change);
    expires(&state, 2500);
    ok(state.now.of[VL_KEY_weight] == 600, "a second timed change has its own end time");
    expires(&state, 3000);
    ok(state.now.of[VL_KEY_weight] == 300 && state.keys && !vl_override_next_us(&state),
       "an earlier change without an end time is restored");

    change.until_us = 4000;
    vl_override_change(&state, &change);
    change.until_us = 0;
    vl_override_change(&state, &change);
    expires(&state, 5000);
    ok(state.now.of[VL_KEY_weight] == 600, "a change without a time removes the end time");
    change.until_us = 6000;
    vl_override_change(&state, &change);
    change = resets(VL_KEY_ALL);
    vl_override_change(&state, &change);
    expires(&state, 6000);
    ok(state.now.of[VL_KEY_weight] == 100 && !state.keys, "a reset ends a timed change");
}

static vl_account_snapshot_t look_at(vl_shm_t *shm, apr_uint32_t a)
{
    vl_account_snapshot_t snapshot;

    vl_shm_snapshot(shm, a, &snapshot);
    return snapshot;
}

static void lives_in_the_segment(void)
{
    vl_shm_t *shm = make(4, 2);
    vl_limits_t limits = limits_with(100, 10);
    apr_uint32_t a = account_with(shm, "a", limits);
    vl_change_t change = sets(VL_KEY_concurrency, 1);
    vl_ticket_t one, two;

    vl_shm_child_attach(shm, getpid(), 10);
    ok(vl_shm_parent_change(shm, a, &change) == APR_SUCCESS, "changed");
    ok(enter(shm, a, &one) && !enter(shm, a, &two), "a change applies at once");
    ok(look_at(shm, a).override.configured.of[VL_KEY_concurrency] == 5,
       "the configured value is known");
    vl_shm_post_config_begin(shm);
    account_with(shm, "a", limits);
    account_with(shm, "a", limits);
    ok(look_at(shm, a).limits.concurrency == 1,
       "a restart keeps it, also with a group's second vhost");
    vl_shm_post_config_begin(shm);
    vl_shm_post_config_begin(shm);
    account_with(shm, "a", limits);
    ok(look_at(shm, a).limits.concurrency == 5 && !look_at(shm, a).override.keys,
       "a vhost that was removed and added again has its configured values");
    ok(validate(shm) == NULL, "the segment is valid");
}

static void raised_limit_dispatches(void)
{
    vl_shm_t *shm = make(4, 2);
    apr_uint32_t a = account(shm, "a", 1);
    vl_change_t change = sets(VL_KEY_concurrency, 2);
    vl_ticket_t one, two;

    vl_shm_child_attach(shm, getpid(), 10);
    change.set |= VL_KEY_BIT(VL_KEY_queue);
    change.values.of[VL_KEY_queue] = 10;
    vl_shm_parent_change(shm, a, &change);
    change = resets(VL_KEY_BIT(VL_KEY_concurrency));
    vl_shm_parent_change(shm, a, &change);
    enter(shm, a, &one);
    ok(queue_one(shm, a, 1) == APR_SUCCESS
       && vl_slot_take(shm, &two) == APR_EAGAIN, "the second request waits");
    change = sets(VL_KEY_concurrency, 2);
    vl_shm_parent_change(shm, a, &change);
    ok(vl_slot_take(shm, &two) == APR_SUCCESS, "a raised limit dispatches it");
}

int main(void)
{
    segment_init();
    keys_have_names();
    changes_and_resets();
    configurations_change();
    plans_change_what_is_configured();
    timed_changes_end();
    lives_in_the_segment();
    raised_limit_dispatches();
    return tap_done();
}
