/* SPDX-License-Identifier: Apache-2.0 */
/* The command mine: what the owner of a site may see of it, without root. */
#include "ctl_command.h"

#include <stdlib.h>
#include <string.h>

#include "ctl_explain.h"

#define N "%" JSON_INTEGER_FORMAT

/* Prints a number and its limit; 0: there is none. */
static void print_limit(const char *what, const char *now, json_int_t limit, const char *unit)
{
    printf("  %-12s %s%s, ", what, now, unit);
    if (limit)
        printf("limit " N "%s\n", limit, unit);
    else
        printf("no limit\n");
}

static void print_site(const json_t *row, const ctl_vhost_t *vhost, const json_t *made)
{
    const char *sandbox = json_string_value(json_object_get(row, "sandbox"));
    const json_t *json;
    size_t i;

    ctl_put_plain(stdout, vhost->name);
    puts(":");
    print_limit("CPU", ctl_tenths(vhost->cpu_now_permille).text, vhost->limits[CTL_CPU],
                " % of one CPU");
    print_limit("running", ctl_number((double)vhost->running).text,
                vhost->limits[CTL_CONCURRENCY], "");
    print_limit("waiting", ctl_number((double)vhost->waiting).text, vhost->limits[CTL_QUEUE],
                "");
    printf("  %-12s " N ", refused " N "\n  %-12s %s%s%s\n", "requests", vhost->requests,
           vhost->refused, "sandbox", sandbox ? sandbox : "?",
           json_is_true(json_object_get(row, "switched")) ? ", switched off by the owner" : "",
           json_is_true(json_object_get(row, "may_switch"))
           ? " (switch it with " CTL_PROGRAM " mine SITE sandbox=on|off)" : "");
    json_array_foreach(json_object_get(made, "sentences"), i, json) {
        char *sentence = ctl_plain(ctl_printf("%s", json_string_value(json)));
        char *next = strstr(sentence, " Next: ");

        /* Only root may run the command that follows. */
        if (next)
            *next = '\0';
        puts(sentence);
        free(sentence);
    }
}

/* Shows one site, and adds what explain says of it to the row. */
static ctl_exit_e show_site(const ctl_call_t *call, json_t *row, ctl_error_t *error)
{
    ctl_status_t status;
    json_t *made;

    if (ctl_status_read(json_object_get(row, "status"), &status, error) != CTL_DONE)
        return error->status;
    if (status.nvhosts == 1) {
        status.is_partial = 1;
        status.held_permille = json_integer_value(json_object_get(row, "held_permille"));
        made = ctl_explain_make(&status, &status.vhosts[0], NULL);
        if (!call->json)
            print_site(row, &status.vhosts[0], made);
        json_object_update(row, made);
        json_decref(made);
    }
    ctl_status_free(&status);
    return CTL_DONE;
}

ctl_exit_e ctl_mine(const ctl_call_t *call, ctl_error_t *error)
{
    const char *words[4] = { "mine", call->args[0] };
    ctl_answer_t answer;
    json_t *row, *rows;
    size_t i;

    if (call->nargs == 2 && !strncmp(call->args[1], "sandbox=", 8))
        words[2] = call->args[1] + 8;
    if (call->nargs && (!words[2] || (strcmp(words[2], "on") != 0 && strcmp(words[2], "off") != 0)))
        return ctl_error_set(error, CTL_USAGE, "mine: only sandbox=on or sandbox=off may follow "
                             "the site");
    if (ctl_client_ask(call->socket, words, NULL, &answer, error) != CTL_DONE)
        return error->status;
    rows = json_object_get(answer.json, "mine");
    if (!json_array_size(rows))
        ctl_error_set(error, CTL_REFUSED, "no site with VhostLimitOwner has a DocumentRoot that "
                      "belongs to you");
    json_array_foreach(rows, i, row) {
        if (show_site(call, row, error) != CTL_DONE)
            break;
    }
    if (call->json && error->status == CTL_DONE)
        ctl_json_print(answer.json);
    ctl_client_free(&answer);
    return error->status;
}
