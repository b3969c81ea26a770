/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that are changed at run time, and how a new configuration affects them. */
#include <string.h>

#include "segment.h"
#include "core/vl_override.h"

static vl_limits_t limits_with(apr_uint32_t weight, apr_uint32_t queue)
{
    vl_limits_t limits = { VL_MODE_ON, weight, 5, queue, 0 };

    return limits;
}

static vl_change_t sets(vl_key_e key, apr_uint32_t value)
{
    vl_change_t change = { VL_KEY_BIT(key), 0 };

    vl_override_put(&change.limits, key, value);
    return change;
}

static vl_change_t resets(unsigned keys)
{
    vl_change_t change = { 0, keys };

    return change;
}

static void keys_have_names(void)
{
    ok(vl_override_key("weight") == VL_KEY_weight
       && vl_override_key("cpu") == VL_KEY_cpu, "keys by name");
    ok(vl_override_key("mode") == VL_KEY_COUNT
       && vl_override_key("") == VL_KEY_COUNT, "other names are no keys");
    ok(!strcmp(vl_override_key_name(VL_KEY_queue), "queue"), "keys have names");
}

static void changes_and_resets(void)
{
    vl_limits_t configured = limits_with(100, 10), now = { 0 };
    vl_override_t state = { 0 };
    vl_change_t change;

    vl_override_configure(&state, &configured, &now);
    ok(!memcmp(&now, &configured, sizeof(now)) && !state.keys, "as configured");
    change = sets(VL_KEY_weight, 300);
    vl_override_change(&state, &change, &now);
    ok(now.weight == 300 && now.queue == 10
       && state.keys == VL_KEY_BIT(VL_KEY_weight), "one value is set");
    change = sets(VL_KEY_queue, 0);
    vl_override_change(&state, &change, &now);
    change = resets(VL_KEY_BIT(VL_KEY_weight));
    vl_override_change(&state, &change, &now);
    ok(now.weight == 100 && now.queue == 0
       && state.keys == VL_KEY_BIT(VL_KEY_queue), "one value is reset");
    change = resets(VL_KEY_ALL);
    vl_override_change(&state, &change, &now);
    ok(!memcmp(&now, &configured, sizeof(now)) && !state.keys, "all values are reset");
}

static void configurations_change(void)
{
    vl_limits_t configured = limits_with(100, 10), now = { 0 };
    vl_override_t state = { 0 };
    vl_change_t change = sets(VL_KEY_weight, 300);

    vl_override_configure(&state, &configured, &now);
    vl_override_change(&state, &change, &now);
    configured.queue = 20;
    vl_override_configure(&state, &configured, &now);
    ok(now.weight == 300 && now.queue == 20 && state.keys,
       "a change is kept while the directive is the same");
    configured.weight = 200;
    vl_override_configure(&state, &configured, &now);
    ok(now.weight == 200 && !state.keys, "a change ends when the directive changes");
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
    ok(look_at(shm, a).override.configured.concurrency == 5,
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
    ok(vl_shm_validate(shm) == NULL, "the segment is valid");
}

static void raised_limit_dispatches(void)
{
    vl_shm_t *shm = make(4, 2);
    apr_uint32_t a = account(shm, "a", 1);
    vl_change_t change = sets(VL_KEY_concurrency, 2);
    vl_ticket_t one, two;

    vl_shm_child_attach(shm, getpid(), 10);
    change.set |= VL_KEY_BIT(VL_KEY_queue);
    change.limits.queue = 10;
    vl_shm_parent_change(shm, a, &change);
    change = resets(VL_KEY_BIT(VL_KEY_concurrency));
    vl_shm_parent_change(shm, a, &change);
    enter(shm, a, &one);
    ok(vl_slot_wait(shm, a, 1) == APR_SUCCESS
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
    lives_in_the_segment();
    raised_limit_dispatches();
    return tap_done();
}
