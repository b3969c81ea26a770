/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char *const ctl_limit_names[CTL_LIMITS] = { "weight", "concurrency", "queue", "cpu" };

/* Bounds of numbers, so that sums and products of a few of them do not overflow. A server
 * has smaller numbers: a thousand threads count 2^55 microseconds in a year, and the
 * directives take limits up to a million. */
#define SERVER_MAX ((json_int_t)1 << 53)
#define LIMIT_MAX INT32_MAX
#define COUNTER_MAX ((json_int_t)1 << 58)

/* --- keys ----------------------------------------------------------------- */

/* Sets *missing to the key if the object has no such string; later errors do not change
 * *missing. */
static const char *read_string(const json_t *json, const char *key, const char **missing)
{
    const char *text = json_string_value(json_object_get(json, key));

    if (!text && !*missing)
        *missing = key;
    return text ? text : "";
}

/* The same for a number from 0 to max. */
static json_int_t read_number(const json_t *json, const char *key, json_int_t max,
                              const char **missing)
{
    const json_t *number = json_object_get(json, key);
    json_int_t value = json_integer_value(number);

    if (json_is_integer(number) && value >= 0 && value <= max)
        return value;
    if (!*missing)
        *missing = key;
    return 0;
}

/* --- vhosts --------------------------------------------------------------- */

/* Returns NULL, or the name of a key that is missing or not valid. */
static const char *read_vhost(json_t *json, ctl_vhost_t *vhost)
{
    const json_t *changed = json_object_get(json, "overridden");
    const char *missing = NULL;
    int i;

    vhost->json = json;
    vhost->name = read_string(json, "name", &missing);
    vhost->mode = read_string(json, "mode", &missing);
    vhost->state = read_string(json, "state", &missing);
    vhost->method = read_string(json, "method", &missing);
    for (i = 0; i < CTL_LIMITS; i++) {
        const char *key = ctl_limit_names[i];

        vhost->limits[i] = read_number(json, key, LIMIT_MAX, &missing);
        vhost->configured[i] = !json_object_get(changed, key) ? -1
                               : read_number(changed, key, LIMIT_MAX, &missing);
    }
#define X(member) vhost->member = read_number(json, #member, COUNTER_MAX, &missing);
    CTL_VHOST_NUMBERS(X)
#undef X
    return missing;
}

static const char *read_vhosts(const json_t *json, ctl_status_t *status)
{
    const json_t *vhosts = json_object_get(json, "vhosts");
    const char *missing = json_is_array(vhosts) ? NULL : "vhosts";
    size_t i;

    status->nvhosts = json_array_size(vhosts);
    status->vhosts = ctl_alloc(status->nvhosts * sizeof(*status->vhosts));
    for (i = 0; i < status->nvhosts && !missing; i++)
        missing = read_vhost(json_array_get(vhosts, i), &status->vhosts[i]);
    return missing;
}

/* --- server --------------------------------------------------------------- */

static const char *read_server(const json_t *json, ctl_status_t *status)
{
    const json_t *cgroup = json_object_get(json, "cgroup");
    const json_t *sampler = json_object_get(json, "sampler");
    const json_t *state = json_object_get(json, "state");
    const char *missing = NULL;

    status->module = read_string(json, "module", &missing);
    status->mpm = read_string(json, "mpm", &missing);
    status->fleet = json_string_value(json_object_get(json, "fleet"));
#define X(member) status->member = read_number(json, #member, SERVER_MAX, &missing);
    CTL_SERVER_NUMBERS(X)
#undef X
    status->cgroup.backend = read_string(cgroup, "backend", &missing);
    status->cgroup.path = read_string(cgroup, "path", &missing);
    status->cgroup.reason = read_string(cgroup, "reason", &missing);
    status->cgroup.outside = read_string(cgroup, "outside", &missing);
    status->state.is = read_string(state, "is", &missing);
    status->state.why = read_string(state, "why", &missing);
    status->state.since_s = read_number(state, "since_s", SERVER_MAX, &missing);
    status->state.changes = read_number(state, "changes", SERVER_MAX, &missing);
    status->sampler.state = read_string(sampler, "state", &missing);
    status->sampler.unread = read_string(sampler, "unread", &missing);
    status->sampler.round_us = read_number(sampler, "round_us", SERVER_MAX, &missing);
    status->sampler.processes = read_number(sampler, "processes", SERVER_MAX, &missing);
    status->sampler.unfound = read_number(sampler, "unfound", SERVER_MAX, &missing);
    return missing;
}

ctl_exit_e ctl_status_read(json_t *json, ctl_status_t *ret_status, ctl_error_t *error)
{
    const char *missing;

    memset(ret_status, 0, sizeof(*ret_status));
    missing = read_server(json, ret_status);
    if (!missing)
        missing = read_vhosts(json, ret_status);
    if (!missing)
        return CTL_DONE;
    ctl_status_free(ret_status);
    return ctl_error_set_missing(error, "key", missing);
}

void ctl_status_free(ctl_status_t *status)
{
    free(status->vhosts);
    status->vhosts = NULL;
    status->nvhosts = 0;
}

/* --- questions ------------------------------------------------------------ */

int ctl_vhost_is_dry(const ctl_vhost_t *vhost)
{
    return !strcmp(vhost->mode, "dryrun");
}

json_int_t ctl_status_sum(const ctl_status_t *status, size_t offset)
{
    json_int_t sum = 0;
    size_t i;

    for (i = 0; i < status->nvhosts; i++) {
        json_int_t n = *(const json_int_t *)((const char *)&status->vhosts[i] + offset);

        if (__builtin_add_overflow(sum, n, &sum))
            return INT64_MAX;
    }
    return sum;
}
