/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that change limits of sites and plans: set and reset. */
#include "ctl_limits.h"

#include <stdlib.h>
#include <string.h>

/* Words of a command: the verb, the name, one for each limit, and for=. */
#define WORDS_MAX (3 + CTL_KEYS)

/* --- output --------------------------------------------------------------- */

/* Prints a number of seconds with its two largest units. */
static void print_seconds(json_int_t seconds)
{
    if (seconds >= 2 * 24 * 3600)
        printf("%d d %d h", (int)(seconds / 86400), (int)(seconds / 3600 % 24));
    else if (seconds >= 3600)
        printf("%d h %d min", (int)(seconds / 3600), (int)(seconds / 60 % 60));
    else if (seconds >= 60)
        printf("%d min %d s", (int)(seconds / 60), (int)(seconds % 60));
    else
        printf("%d s", (int)seconds);
}

static void print_value(ctl_key_e key, json_int_t value)
{
    char *text = ctl_limit_value(key, value);

    printf("%s", text);
    free(text);
}

/* Prints all limits in the object, with what is configured.  Memory, processes and I/O are
 * printed where they are limited or changed. */
static void print_limits(const char *name, const json_t *limits, const json_t *site)
{
    const json_t *overridden = json_object_get(site, "overridden");
    const json_t *expires = json_object_get(site, "expires_s");
    const char *before = ": ";
    int key;

    ctl_put_plain(stdout, name);
    for (key = 0; key < CTL_KEYS; key++) {
        const json_t *value = json_object_get(limits, ctl_key_names[key]);
        const json_t *configured = json_object_get(overridden, ctl_key_names[key]);
        const json_t *end = json_object_get(expires, ctl_key_names[key]);

        if (!json_is_integer(value)
            || (key >= CTL_LIMITS && !json_integer_value(value) && !configured))
            continue;
        printf("%s%s ", before, ctl_key_names[key]);
        print_value(key, json_integer_value(value));
        before = ", ";
        if (!configured)
            continue;
        printf(" (configured: ");
        if (json_is_integer(configured))
            print_value(key, json_integer_value(configured));
        else
            printf("not set");
        if (end) {
            printf("; ends in ");
            print_seconds(json_integer_value(end));
        }
        putchar(')');
    }
    putchar('\n');
}

static void print_sites(const json_t *answer)
{
    const json_t *site;
    size_t i;

    json_array_foreach(json_object_get(answer, "vhosts"), i, site) {
        const char *why = ctl_text_of(site, "unenforced");

        print_limits(ctl_text_of(site, "name"), site, site);
        if (!*why)
            continue;
        printf("The kernel does not enforce all of them: ");
        ctl_put_plain(stdout, why);
        putchar('\n');
    }
}

static void print_plans(const json_t *answer)
{
    const json_t *plan;
    size_t i;

    json_array_foreach(json_object_get(answer, "plans"), i, plan) {
        size_t n = json_array_size(json_object_get(plan, "sites"));
        char *name = ctl_printf("plan %s (%zu site%s)", ctl_text_of(plan, "name"), n,
                                ctl_plural((json_int_t)n));

        print_limits(name, json_object_get(plan, "limits"), plan);
        free(name);
    }
}

/* --- commands ------------------------------------------------------------- */

/* Sends the command and prints the answer. */
static ctl_exit_e send(const ctl_call_t *call, const char *verb, const char *duration,
                       ctl_error_t *error)
{
    const char *words[WORDS_MAX + 1] = { verb };
    ctl_status_t sites = { 0 };
    ctl_answer_t answer;
    ctl_exit_e status;
    int i, n = 1;

    if (call->plan)
        words[n++] = call->plan;
    for (i = 0; i < call->nargs && n < WORDS_MAX; i++)
        words[n++] = call->args[i];
    if (duration)
        words[n++] = duration;
    status = ctl_client_ask(call->socket, words, NULL, &answer, error);
    if (status != CTL_DONE)
        return status;
    /* The answer must have every member that is printed. */
    if (!call->plan)
        status = ctl_status_read(answer.json, &sites, error);
    else if (!json_is_array(json_object_get(answer.json, "plans")))
        status = ctl_error_set(error, CTL_UNAVAILABLE, "the answer is not a list of plans; "
                               "is the module older than this program?");
    ctl_status_free(&sites);
    if (status == CTL_DONE && call->json)
        printf("%s", answer.text);
    else if (status == CTL_DONE && call->plan)
        print_plans(answer.json);
    else if (status == CTL_DONE)
        print_sites(answer.json);
    ctl_client_free(&answer);
    return status;
}

/* Returns CTL_DONE if the number of arguments is right.  least: without a plan, whose name
 * takes the place of a site. */
static ctl_exit_e check_arguments(const ctl_call_t *call, const char *verb, int least,
                                  ctl_error_t *error)
{
    int plan = call->plan != NULL;

    if (call->nargs < least - plan)
        return ctl_error_set(error, CTL_USAGE, "%s: too few arguments", verb);
    if (call->nargs > 1 - plan + CTL_KEYS)
        return ctl_error_set(error, CTL_USAGE, "%s: too many arguments", verb);
    return CTL_DONE;
}

/* Makes a change that lasts: tests the new file, changes the running server, and puts the
 * file in its place. */
static ctl_exit_e send_and_save(const ctl_call_t *call, const char *verb, ctl_error_t *error)
{
    int is_set = !strcmp(verb, "set");
    ctl_save_t save;
    ctl_exit_e status;

    if (call->plan)
        return ctl_error_set(error, CTL_USAGE, "--save saves limits of sites: write those of "
                             "a plan into its section (vhostlimitctl plans --json names its "
                             "file and line)");
    status = ctl_save_prepare(call, is_set, &save, error);
    if (status != CTL_DONE)
        return status;
    status = send(call, verb, NULL, error);
    /* A site that is no longer configured has saved limits only. */
    if (status == CTL_REFUSED && !is_set)
        status = error->status = CTL_DONE;
    if (status == CTL_DONE)
        status = ctl_save_commit(&save, error);
    if (status == CTL_DONE && !call->json)
        printf(is_set ? "Saved in %s.\n" : "No longer saved in %s. A limit that was in force "
               "when the server was started stays until the next restart.\n", save.path);
    ctl_save_end(&save);
    return status;
}

ctl_exit_e ctl_set(const ctl_call_t *call, ctl_error_t *error)
{
    char *duration = NULL;
    ctl_exit_e status;

    if (call->duration) {
        duration = ctl_limit_duration(call->duration, error);
        if (!duration)
            return error->status;
    }
    if (call->save && (call->file || call->duration))
        status = ctl_error_set(error, CTL_USAGE, "set --save takes one site, and no --file or "
                               "--for");
    else if (call->file && (call->plan || call->nargs))
        status = ctl_error_set(error, CTL_USAGE, "set --file takes sites and values from the "
                               "file only");
    else if (call->file)
        status = ctl_bulk(call, duration, error);
    else if ((status = check_arguments(call, "set", 2, error)) == CTL_DONE)
        status = call->save ? send_and_save(call, "set", error)
                            : send(call, call->plan ? "setplan" : "set", duration, error);
    free(duration);
    return status;
}

ctl_exit_e ctl_reset(const ctl_call_t *call, ctl_error_t *error)
{
    ctl_exit_e status = check_arguments(call, "reset", 1, error);

    if (status != CTL_DONE)
        return status;
    return call->save ? send_and_save(call, "reset", error)
                      : send(call, call->plan ? "resetplan" : "reset", NULL, error);
}
