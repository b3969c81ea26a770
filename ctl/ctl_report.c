/* SPDX-License-Identifier: Apache-2.0 */
/* The command report: what VhostLimit On would have done to sites with DryRun. */
#include "ctl_command.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Per cent with one digit behind the point. */
static double percent(json_int_t part, json_int_t all)
{
    return all ? round(1000.0 * (double)part / (double)all) / 10 : 0;
}

static void print_json(const ctl_status_t *status)
{
    json_t *vhosts = ctl_json_check(json_array());
    json_t *report;
    size_t i;

    for (i = 0; i < status->nvhosts; i++) {
        const ctl_vhost_t *vhost = &status->vhosts[i];

        if (!ctl_vhost_is_dry(vhost))
            continue;
        json_array_append_new(vhosts, ctl_json_check(json_pack(
            "{s:s, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I}", "name", vhost->name,
            "requests", vhost->requests, "would_queue", vhost->would_queue,
            "would_refuse", vhost->would_refuse, "would_queue_percent",
            ctl_json_number(percent(vhost->would_queue, vhost->requests)),
            "would_refuse_percent",
            ctl_json_number(percent(vhost->would_refuse, vhost->requests)),
            "weight", vhost->limits[CTL_WEIGHT],
            "concurrency", vhost->limits[CTL_CONCURRENCY],
            "queue", vhost->limits[CTL_QUEUE])));
    }
    report = ctl_json_check(json_pack("{s:I, s:o}", "since_s", status->uptime_s,
                                      "vhosts", vhosts));
    ctl_json_print(report);
    json_decref(report);
}

/* Orders sites: those with most refusals first, then those with most queued requests. */
static int compare_sites(const void *first, const void *second)
{
    const ctl_vhost_t *a = first, *b = second;

    if (a->would_refuse != b->would_refuse)
        return a->would_refuse < b->would_refuse ? 1 : -1;
    if (a->would_queue != b->would_queue)
        return a->would_queue < b->would_queue ? 1 : -1;
    return strcmp(a->name, b->name);
}

static void print_text(const ctl_status_t *status)
{
    ctl_vhost_t *touched = ctl_alloc(status->nvhosts * sizeof(*touched));
    json_int_t others = 0, requests = 0;
    size_t i, n = 0;

    for (i = 0; i < status->nvhosts; i++) {
        const ctl_vhost_t *vhost = &status->vhosts[i];

        if (!ctl_vhost_is_dry(vhost))
            continue;
        if (vhost->would_queue || vhost->would_refuse) {
            touched[n++] = *vhost;
            continue;
        }
        others++;
        requests += vhost->requests;
    }
    qsort(touched, n, sizeof(*touched), compare_sites);
    for (i = 0; i < n; i++) {
        const ctl_vhost_t *vhost = &touched[i];

        ctl_put_plain(stdout, vhost->name);
        printf(": of %" JSON_INTEGER_FORMAT " request%s, %" JSON_INTEGER_FORMAT
               " (%s %%) would have been queued and %" JSON_INTEGER_FORMAT
               " (%s %%) would have been refused.\n", vhost->requests,
               ctl_plural(vhost->requests), vhost->would_queue,
               ctl_number(percent(vhost->would_queue, vhost->requests)).text,
               vhost->would_refuse,
               ctl_number(percent(vhost->would_refuse, vhost->requests)).text);
    }
    if (others)                 /* sites that On would not have touched */
        printf("%" JSON_INTEGER_FORMAT " site%s with %" JSON_INTEGER_FORMAT " request%s: nothing "
               "would have been queued or refused.\n", others, ctl_plural(others), requests,
               ctl_plural(requests));
    if (!n && !others)
        puts("No site has VhostLimit DryRun.");
    else
        printf("Counted since the start of the server %" JSON_INTEGER_FORMAT
               " s ago. No request was delayed or refused.\n", status->uptime_s);
    free(touched);
}

ctl_exit_e ctl_report(const ctl_call_t *call, ctl_error_t *error)
{
    ctl_state_t state;
    ctl_exit_e status = ctl_state_ask(call, NULL, &state, error);

    if (status != CTL_DONE)
        return status;
    if (call->json)
        print_json(&state.status);
    else
        print_text(&state.status);
    ctl_state_free(&state);
    return CTL_DONE;
}
