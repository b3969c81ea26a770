/* SPDX-License-Identifier: Apache-2.0 */
/* The command that shows plans. */
#include "ctl_limits.h"

#include <stdlib.h>

/* The name, the number of sites, and the limits. */
#define COLUMNS (2 + CTL_KEYS)

static const char *const headings[COLUMNS] = {
    "PLAN", "SITES", "WEIGHT", "CONC", "QUEUE", "CPU", "MEMORY", "PROC", "IO"
};

/* A star marks a limit that is not as configured, a dash one that the plan does not set. */
static char *limit_cell(const json_t *plan, ctl_key_e key)
{
    const char *name = ctl_key_names[key];
    const json_t *value = json_object_get(json_object_get(plan, "limits"), name);
    int is_changed = json_object_get(json_object_get(plan, "overridden"), name) != NULL;
    char *text = json_is_integer(value) ? ctl_limit_value(key, json_integer_value(value))
                                        : ctl_printf("-");
    char *cell = ctl_printf("%s%s", text, is_changed ? "*" : "");

    free(text);
    return cell;
}

static void print_table(const json_t *plans)
{
    size_t n = json_array_size(plans), row;
    char *(*rows)[COLUMNS] = ctl_alloc((n + 1) * sizeof(*rows));
    const json_t *plan;
    int i;

    for (i = 0; i < COLUMNS; i++)
        rows[0][i] = ctl_printf("%s", headings[i]);
    json_array_foreach(plans, row, plan) {
        char **cells = rows[row + 1];

        cells[0] = ctl_plain(ctl_printf("%s", ctl_text_of(plan, "name")));
        cells[1] = ctl_printf("%zu", json_array_size(json_object_get(plan, "sites")));
        for (i = 0; i < CTL_KEYS; i++)
            cells[2 + i] = limit_cell(plan, (ctl_key_e)i);
    }
    ctl_put_table(stdout, rows[0], n + 1, COLUMNS, 1);
    free(rows);
}

ctl_exit_e ctl_plans(const ctl_call_t *call, ctl_error_t *error)
{
    const char *words[] = { "plans", NULL };
    ctl_answer_t answer;
    ctl_exit_e status = ctl_client_ask(call->socket, words, NULL, &answer, error);

    if (status != CTL_DONE)
        return status;
    if (call->json)
        printf("%s", answer.text);
    else
        print_table(json_object_get(answer.json, "plans"));
    ctl_client_free(&answer);
    return CTL_DONE;
}
