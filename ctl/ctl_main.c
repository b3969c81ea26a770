/* SPDX-License-Identifier: Apache-2.0 */
/* vhostlimitctl: the command line. */
#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_command.h"
#include "ctl_help.h"

/* set and reset count their arguments themselves. */
#define ARGUMENTS_MAX 100

/* Options that not all commands have, and their members of ctl_call_t. */
#define VALUES(X) X(plan, plan) X(for, duration) X(since, since) X(site, site) \
    X(count, count) X(file, file) X(php, php) X(user, user)
#define FLAGS(X) X(save, save) X(csv, csv) X(install, install) X(remove, remove) X(force, force)

enum {
    OPTION_JSON = 256,
    OPTION_VERSION,
#define X(name, member) OPTION_##name,
    VALUES(X) FLAGS(X)
#undef X
};

#define OPTION_BIT(name) (1U << (OPTION_##name - OPTION_VERSION))

static const struct {
    const char *name;
    int least, most;                /* number of arguments */
    ctl_command_fn run;
    unsigned options;               /* OPTION_BIT() of options that not all commands have */
} commands[] = {
    { "top", 0, 1, ctl_top },
    { "show", 1, 1, ctl_show },
    { "set", 0, ARGUMENTS_MAX, ctl_set, OPTION_BIT(plan) | OPTION_BIT(for) | OPTION_BIT(save)
      | OPTION_BIT(file) },
    { "reset", 0, ARGUMENTS_MAX, ctl_reset, OPTION_BIT(plan) | OPTION_BIT(save) },
    { "plans", 0, 0, ctl_plans },
    { "import", 2, 2, ctl_import },
    { "unit", 1, 1, ctl_unit, OPTION_BIT(php) | OPTION_BIT(user) | OPTION_BIT(install)
      | OPTION_BIT(remove) | OPTION_BIT(force) },
    { "enter", 2, 2, ctl_enter },
    { "clients", 1, 1, ctl_clients },
    { "explain", 1, 1, ctl_explain },
    { "mine", 0, 2, ctl_mine },
    { "watch", 0, 0, ctl_watch, OPTION_BIT(site) | OPTION_BIT(count) },
    { "history", 0, 1, ctl_history, OPTION_BIT(since) | OPTION_BIT(csv) | OPTION_BIT(file) },
    { "collect", 0, 0, ctl_collect, OPTION_BIT(file) },
    { "report", 0, 0, ctl_report },
    { "fleet", 0, 0, ctl_fleet },
    { "doctor", 0, 1, ctl_doctor }
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* --- options -------------------------------------------------------------- */

static const struct option long_options[] = {
    { "json", no_argument, NULL, OPTION_JSON },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, OPTION_VERSION },
#define X(name, member) { #name, required_argument, NULL, OPTION_##name },
    VALUES(X)
#undef X
#define X(name, member) { #name, no_argument, NULL, OPTION_##name },
    FLAGS(X)
#undef X
    { NULL, 0, NULL, 0 }
};

/* Reads the options.  Returns 1 if all is done after help or version, or *error is set.
 * *ret_given: OPTION_BIT() of the options that not all commands have. */
static int read_options(int argc, char *argv[], ctl_call_t *call, unsigned *ret_given,
                        ctl_error_t *error)
{
    int option;

    opterr = 0;
    *ret_given = 0;
    while ((option = getopt_long(argc, argv, ":s:h", long_options, NULL)) != -1) {
        if (option > OPTION_VERSION)
            *ret_given |= 1U << (option - OPTION_VERSION);
        switch (option) {
        case 's':
            call->socket = optarg;
            break;
        case OPTION_JSON:
            call->json = 1;
            break;
        case 'h':
            printf("%s", help);
            return 1;
        case OPTION_VERSION:
            puts(CTL_PROGRAM " (" PACKAGE_NAME ") " PACKAGE_VERSION);
            return 1;
#define X(name, member)             \
        case OPTION_##name:         \
            call->member = optarg;  \
            break;
        VALUES(X)
#undef X
#define X(name, member)             \
        case OPTION_##name:         \
            call->member = 1;       \
            break;
        FLAGS(X)
#undef X
        case ':':
            if (optopt < OPTION_JSON)
                ctl_error_set(error, CTL_USAGE, "option -%c needs a value", optopt);
            else
                ctl_error_set(error, CTL_USAGE, "option %s needs a value", argv[optind - 1]);
            return 1;
        default:
            /* getopt_long() tells of a short option the letter, and of a long one where it was.
             * A letter that it cannot tell was part of a long option. */
            if (optopt && optopt < OPTION_JSON)
                ctl_error_set(error, CTL_USAGE, "unknown option -%c", optopt);
            else if (optopt)
                ctl_error_set(error, CTL_USAGE, "option %s takes no value", argv[optind - 1]);
            else
                ctl_error_set(error, CTL_USAGE, "unknown option %s", argv[optind - 1]);
            return 1;
        }
    }
    return 0;
}

/* --- commands ------------------------------------------------------------- */

/* Sets the error of a command line without a command: the names of all commands. */
static ctl_exit_e missing_command(ctl_error_t *error)
{
    char names[200];
    size_t i, used = 0;

    for (i = 0; i < COMMANDS && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                 !i ? "" : i + 1 < COMMANDS ? ", " : " or ", commands[i].name);
    return ctl_error_set(error, CTL_USAGE, "missing command: %s", names);
}

/* Runs the command that the arguments name.  given: as read_options() has set it. */
static ctl_exit_e run_command(ctl_call_t *call, unsigned given, ctl_error_t *error)
{
    const char *name = call->args[0];
    size_t i;

    if (!name)
        return missing_command(error);
    for (i = 0; i < COMMANDS && strcmp(commands[i].name, name) != 0; i++)
        ;
    if (i == COMMANDS)
        return ctl_error_set(error, CTL_USAGE, "unknown command '%s'", name);
    call->args++;
    call->nargs--;
    if (call->nargs < commands[i].least)
        return ctl_error_set(error, CTL_USAGE, "%s: too few arguments", name);
    if (call->nargs > commands[i].most)
        return ctl_error_set(error, CTL_USAGE, "%s: too many arguments", name);
    if (given & ~commands[i].options)
        return ctl_error_set(error, CTL_USAGE, "%s: an option is of another command", name);
    return commands[i].run(call, error);
}

int main(int argc, char *argv[])
{
    ctl_error_t error = { .status = CTL_DONE };
    ctl_call_t call = { .socket = NULL };
    ctl_exit_e status = CTL_DONE;
    unsigned given;

    if (!read_options(argc, argv, &call, &given, &error)) {
        call.args = (const char *const *)argv + optind;
        call.nargs = argc - optind;
        status = run_command(&call, given, &error);
    }
    /* Output may fail late, when it is flushed: on a full disk for example. */
    if (error.status == CTL_DONE && (fflush(stdout) || ferror(stdout)))
        ctl_error_set(&error, CTL_REFUSED, "the output cannot be written: %s", strerror(errno));
    return (int)(error.status == CTL_DONE ? status : ctl_error_print(&error));
}
