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

enum { OPTION_JSON = 256, OPTION_VERSION, OPTION_SINCE, OPTION_CSV, OPTION_SITE,
       OPTION_COUNT, OPTION_FILE, OPTION_PLAN, OPTION_FOR, OPTION_SAVE,
       OPTION_PHP, OPTION_USER, OPTION_INSTALL, OPTION_REMOVE, OPTION_FORCE };

#define OPTION_BIT(option) (1U << (OPTION_##option - OPTION_JSON))

static const struct {
    const char *name;
    int least, most;                /* number of arguments */
    ctl_command_fn run;
    unsigned options;               /* OPTION_BIT() of options that not all commands have */
} commands[] = {
    { "top", 0, 1, ctl_top },
    { "show", 1, 1, ctl_show },
    { "set", 0, ARGUMENTS_MAX, ctl_set, OPTION_BIT(PLAN) | OPTION_BIT(FOR) | OPTION_BIT(SAVE)
      | OPTION_BIT(FILE) },
    { "reset", 0, ARGUMENTS_MAX, ctl_reset, OPTION_BIT(PLAN) | OPTION_BIT(SAVE) },
    { "plans", 0, 0, ctl_plans },
    { "import", 2, 2, ctl_import },
    { "unit", 1, 1, ctl_unit, OPTION_BIT(PHP) | OPTION_BIT(USER) | OPTION_BIT(INSTALL)
      | OPTION_BIT(REMOVE) | OPTION_BIT(FORCE) },
    { "enter", 2, 2, ctl_enter },
    { "clients", 1, 1, ctl_clients },
    { "explain", 1, 1, ctl_explain },
    { "mine", 0, 2, ctl_mine },
    { "watch", 0, 0, ctl_watch, OPTION_BIT(SITE) | OPTION_BIT(COUNT) },
    { "history", 0, 1, ctl_history, OPTION_BIT(SINCE) | OPTION_BIT(CSV) | OPTION_BIT(FILE) },
    { "collect", 0, 0, ctl_collect, OPTION_BIT(FILE) },
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
    { "plan", required_argument, NULL, OPTION_PLAN },
    { "for", required_argument, NULL, OPTION_FOR },
    { "save", no_argument, NULL, OPTION_SAVE },
    { "since", required_argument, NULL, OPTION_SINCE },
    { "csv", no_argument, NULL, OPTION_CSV },
    { "site", required_argument, NULL, OPTION_SITE },
    { "count", required_argument, NULL, OPTION_COUNT },
    { "file", required_argument, NULL, OPTION_FILE },
    { "php", required_argument, NULL, OPTION_PHP },
    { "user", required_argument, NULL, OPTION_USER },
    { "install", no_argument, NULL, OPTION_INSTALL },
    { "remove", no_argument, NULL, OPTION_REMOVE },
    { "force", no_argument, NULL, OPTION_FORCE },
    { NULL, 0, NULL, 0 }
};

/* getopt_long() tells of a short option the letter, and of a long one where it was.
 * A letter that it cannot tell was part of a long option. */
static ctl_exit_e bad_option(char *const argv[], ctl_error_t *error)
{
    if (optopt && optopt < OPTION_JSON)
        return ctl_error_set(error, CTL_USAGE, "unknown option -%c", optopt);
    if (optopt)
        return ctl_error_set(error, CTL_USAGE, "option %s takes no value", argv[optind - 1]);
    return ctl_error_set(error, CTL_USAGE, "unknown option %s", argv[optind - 1]);
}

/* Reads the options.  Returns 1 if all is done after help or version, or *error is set. */
static int read_options(int argc, char *argv[], ctl_call_t *call, ctl_error_t *error)
{
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv, ":s:h", long_options, NULL)) != -1) {
        switch (option) {
        case 's':
            call->socket = optarg;
            break;
        case OPTION_JSON:
            call->json = 1;
            break;
        case OPTION_PLAN:
            call->plan = optarg;
            break;
        case OPTION_SAVE:
            call->save = 1;
            break;
        case OPTION_FOR:
            call->duration = optarg;
            break;
        case OPTION_FILE:
            call->file = optarg;
            break;
        case 'h':
            printf("%s", help);
            return 1;
        case OPTION_VERSION:
            puts(CTL_PROGRAM " (" PACKAGE_NAME ") " PACKAGE_VERSION);
            return 1;
        case OPTION_SINCE:
            call->since = optarg;
            break;
        case OPTION_CSV:
            call->csv = 1;
            break;
        case OPTION_SITE:
            call->site = optarg;
            break;
        case OPTION_COUNT:
            call->count = optarg;
            break;
        case OPTION_PHP:
            call->php = optarg;
            break;
        case OPTION_USER:
            call->user = optarg;
            break;
        case OPTION_INSTALL:
            call->install = 1;
            break;
        case OPTION_REMOVE:
            call->remove = 1;
            break;
        case OPTION_FORCE:
            call->force = 1;
            break;
        case ':':
            if (optopt < OPTION_JSON)
                ctl_error_set(error, CTL_USAGE, "option -%c needs a value", optopt);
            else
                ctl_error_set(error, CTL_USAGE, "option %s needs a value", argv[optind - 1]);
            return 1;
        default:
            bad_option(argv, error);
            return 1;
        }
    }
    return 0;
}

/* --- commands ------------------------------------------------------------- */

/* Returns OPTION_BIT() of the options that not all commands have. */
static unsigned options_of(const ctl_call_t *call)
{
    return (call->since ? OPTION_BIT(SINCE) : 0) | (call->csv ? OPTION_BIT(CSV) : 0)
           | (call->site ? OPTION_BIT(SITE) : 0) | (call->count ? OPTION_BIT(COUNT) : 0)
           | (call->file ? OPTION_BIT(FILE) : 0) | (call->plan ? OPTION_BIT(PLAN) : 0)
           | (call->duration ? OPTION_BIT(FOR) : 0) | (call->save ? OPTION_BIT(SAVE) : 0)
           | (call->php ? OPTION_BIT(PHP) : 0) | (call->user ? OPTION_BIT(USER) : 0)
           | (call->install ? OPTION_BIT(INSTALL) : 0)
           | (call->remove ? OPTION_BIT(REMOVE) : 0) | (call->force ? OPTION_BIT(FORCE) : 0);
}

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

/* Runs the command that the arguments name. */
static ctl_exit_e run_command(ctl_call_t *call, ctl_error_t *error)
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
    if (options_of(call) & ~commands[i].options)
        return ctl_error_set(error, CTL_USAGE, "%s: an option is of another command", name);
    return commands[i].run(call, error);
}

int main(int argc, char *argv[])
{
    ctl_error_t error = { .status = CTL_DONE };
    ctl_call_t call = { .socket = NULL };
    ctl_exit_e status = CTL_DONE;

    if (!read_options(argc, argv, &call, &error)) {
        call.args = (const char *const *)argv + optind;
        call.nargs = argc - optind;
        status = run_command(&call, &error);
    }
    /* Output may fail late, when it is flushed: on a full disk for example. */
    if (error.status == CTL_DONE && (fflush(stdout) || ferror(stdout)))
        ctl_error_set(&error, CTL_REFUSED, "the output cannot be written: %s", strerror(errno));
    return (int)(error.status == CTL_DONE ? status : ctl_error_print(&error));
}
