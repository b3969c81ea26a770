/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that show what the server says. */
#include "ctl_command.h"

#include <stdlib.h>
#include <string.h>

/* --- the status ----------------------------------------------------------- */

ctl_exit_e ctl_state_ask(const ctl_call_t *call, const char *vhost,
                         ctl_state_t *ret_state, ctl_error_t *error)
{
    const char *words[] = { "status", vhost, NULL };
    ctl_exit_e status;

    memset(ret_state, 0, sizeof(*ret_state));
    status = ctl_client_ask(call->socket, words, NULL, &ret_state->answer, error);
    if (status == CTL_DONE)
        status = ctl_status_read(ret_state->answer.json, &ret_state->status, error);
    if (status == CTL_DONE && vhost && ret_state->status.nvhosts != 1)
        status = ctl_error_set(error, CTL_UNAVAILABLE, "the answer describes %zu sites "
                               "in place of one", ret_state->status.nvhosts);
    if (status != CTL_DONE)
        ctl_state_free(ret_state);
    return status;
}

void ctl_state_free(ctl_state_t *state)
{
    ctl_status_free(&state->status);
    ctl_client_free(&state->answer);
}

/* --- show ----------------------------------------------------------------- */

/* Prints a line for each key, and for a changed limit what is configured. */
static void print_details(const ctl_vhost_t *vhost)
{
    const char *key;
    json_t *value;
    int i;

    json_object_foreach(vhost->json, key, value) {
        char *text;

        if (!strcmp(key, "overridden") || !strcmp(key, "expires_s"))
            continue;
        text = json_is_string(value) ? NULL
               : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
        ctl_put_plain(stdout, key);
        printf(": ");
        ctl_put_plain(stdout, text ? text : json_string_value(value));
        free(text);
        for (i = 0; i < CTL_LIMITS; i++) {
            if (!strcmp(key, ctl_limit_names[i]) && vhost->configured[i] >= 0)
                printf(" (configured: %" JSON_INTEGER_FORMAT ")", vhost->configured[i]);
        }
        putchar('\n');
    }
}

ctl_exit_e ctl_show(const ctl_call_t *call, ctl_error_t *error)
{
    ctl_state_t state;
    ctl_exit_e status = ctl_state_ask(call, call->args[0], &state, error);

    if (status != CTL_DONE)
        return status;
    if (call->json)
        printf("%s", state.answer.text);
    else
        print_details(&state.status.vhosts[0]);
    ctl_state_free(&state);
    return CTL_DONE;
}
