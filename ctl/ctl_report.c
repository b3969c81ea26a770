/* SPDX-License-Identifier: Apache-2.0 */
/* The command report: what VhostLimit On would have done to sites with DryRun. */
#include "ctl_command.h"

#include <math.h>

/* Per cent with one digit behind the point. */
static double percent(json_int_t part, json_int_t all)
{
    return all ? round(1000.0 * (double)part / (double)all) / 10 : 0;
}

static json_t *report_of(const ctl_vhost_t *vhost)
{
    return ctl_json_check(json_pack(
        "{s:s, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I}",
        "name", vhost->name,
        "requests", vhost->requests,
        "would_queue", vhost->would_queue,
        "would_refuse", vhost->would_refuse,
        "would_queue_percent",
        ctl_json_number(percent(vhost->would_queue, vhost->requests)),
        "would_refuse_percent",
        ctl_json_number(percent(vhost->would_refuse, vhost->requests)),
        "weight", vhost->limits[CTL_WEIGHT],
        "concurrency", vhost->limits[CTL_CONCURRENCY],
        "queue", vhost->limits[CTL_QUEUE]));
}

static void print_json(const ctl_status_t *status)
{
    json_t *vhosts = ctl_json_check(json_array());
    json_t *report;
    size_t i;

    for (i = 0; i < status->nvhosts; i++) {
        if (ctl_vhost_is_dry(&status->vhosts[i]))
            json_array_append_new(vhosts, report_of(&status->vhosts[i]));
    }
    report = ctl_json_check(json_pack("{s:I, s:o}", "since_s", status->uptime_s,
                                      "vhosts", vhosts));
    ctl_json_print(report);
    json_decref(report);
}

static void print_line(const ctl_vhost_t *vhost)
{
    ctl_put_plain(stdout, vhost->name);
    printf(": of %" JSON_INTEGER_FORMAT " request%s, %" JSON_INTEGER_FORMAT
           " (%s %%) would have been queued and %" JSON_INTEGER_FORMAT
           " (%s %%) would have been refused.\n", vhost->requests,
           ctl_plural(vhost->requests), vhost->would_queue,
           ctl_number(percent(vhost->would_queue, vhost->requests)).text,
           vhost->would_refuse,
           ctl_number(percent(vhost->would_refuse, vhost->requests)).text);
}

static void print_text(const ctl_status_t *status)
{
    size_t i;
    int found = 0;

    for (i = 0; i < status->nvhosts; i++) {
        if (!ctl_vhost_is_dry(&status->vhosts[i]))
            continue;
        print_line(&status->vhosts[i]);
        found = 1;
    }
    if (!found)
        puts("No site has VhostLimit DryRun.");
    else
        printf("Counted since the start of the server %" JSON_INTEGER_FORMAT
               " s ago. No request was delayed or refused.\n", status->uptime_s);
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
