/* SPDX-License-Identifier: Apache-2.0 */
/* vhostlimitctl: the command line. */
#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_command.h"

static const char help[] =
    "Summary: shows and changes how Apache's virtual hosts share the server (mod_vhostlimit)\n"
    "Usage:   " CTL_PROGRAM " [OPTION]... COMMAND [ARGUMENT]...\n"
    "  top [KEY]              all sites, once a second, sorted by KEY: cpu, running,\n"
    "                         waiting, refused, rate or name. The keys c, r, w, f, s and n\n"
    "                         select another order while it runs, q ends it\n"
    "  list                   all sites, in the order of the configuration\n"
    "  show SITE             everything that is known about one site\n"
    "  set SITE KEY=VALUE... change weight, concurrency, queue, cpu, memory, processes\n"
    "                         or io at once\n"
    "  set --plan PLAN KEY=VALUE...  the same for all sites of a plan\n"
    "  set --file FILE        the same for the sites in a file of comma-separated values\n"
    "                         (-: standard input); all changes are made or none\n"
    "  reset SITE [KEY...]   return to the configured limits; also with --plan PLAN\n"
    "  plans                  all plans, their limits and how many sites have them\n"
    "  import lve FILE        print the limits of CloudLinux's ve.cfg as configuration\n"
    "  import mod_qos FILE    the same for a configuration of mod_qos\n"
    "  clients SITE           clients and classes of a site that used most CPU time while\n"
    "                         its requests were queued\n"
    "  explain SITE          why requests of the site are queued or refused now\n"
    "  report                 what On would have done to sites with DryRun\n"
    "  size [SECONDS]         slots and workers for the load of the next 10 SECONDS;\n"
    "                         0: for the load since the start\n"
    "  fleet                  servers and sites of the fleet, as vhostlimit-fleet knows them;\n"
    "                         -s SOCKET is the socket of that program\n"
    "  doctor                 check the server and the machine, and say what to do\n"
    "  SITE is a name as list shows it, or a ServerName.\n"
    "  -s SOCKET   control socket of the server (vhostlimit.sock in its\n"
    "              DefaultRuntimeDir), if it is not in a usual place\n"
    "  --for TIME  set: take the change back after TIME, such as 30min, 2h or 7d\n"
    "  --save      set: write the limits into the file of VhostLimitSaveFile too;\n"
    "              reset: remove them from it\n"
    "  --json      print one JSON document, for programs\n"
    "  -h, --help  print this help\n"
    "  --version   print the version\n"
    "Exit:    0 done; 1 refused, no such site, or doctor found a problem; 2 usage;\n"
    "         69 no server with the module answers; 77 not root\n";

/* set and reset count their arguments themselves. */
#define ARGUMENTS_MAX 100

static const struct {
    const char *name;
    int least, most;                /* number of arguments */
    ctl_command_fn run;
} commands[] = {
    { "top", 0, 1, ctl_top },
    { "list", 0, 0, ctl_list },
    { "show", 1, 1, ctl_show },
    { "set", 0, ARGUMENTS_MAX, ctl_set },
    { "reset", 0, ARGUMENTS_MAX, ctl_reset },
    { "plans", 0, 0, ctl_plans },
    { "import", 2, 2, ctl_import },
    { "clients", 1, 1, ctl_clients },
    { "explain", 1, 1, ctl_explain },
    { "report", 0, 0, ctl_report },
    { "size", 0, 1, ctl_size },
    { "fleet", 0, 0, ctl_fleet },
    { "doctor", 0, 0, ctl_doctor }
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* --- options -------------------------------------------------------------- */

enum { OPTION_JSON = 256, OPTION_VERSION, OPTION_PLAN, OPTION_FOR, OPTION_FILE,
       OPTION_SAVE };

static const struct option long_options[] = {
    { "json", no_argument, NULL, OPTION_JSON },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, OPTION_VERSION },
    { "plan", required_argument, NULL, OPTION_PLAN },
    { "for", required_argument, NULL, OPTION_FOR },
    { "save", no_argument, NULL, OPTION_SAVE },
    { "file", required_argument, NULL, OPTION_FILE },
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
        case ':':
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

/* Runs the command that the arguments name. */
static ctl_exit_e run_command(ctl_call_t *call, ctl_error_t *error)
{
    const char *name = call->args[0];
    size_t i;

    if (!name)
        return ctl_error_set(error, CTL_USAGE, "missing command: top, list, show, set, "
                             "reset, plans, import, clients, explain, report, size, fleet or "
                             "doctor");
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
    if ((call->plan || call->file) && commands[i].run != ctl_set
        && (call->file || commands[i].run != ctl_reset))
        return ctl_error_set(error, CTL_USAGE, "%s: --%s does not belong to this command",
                             name, call->file ? "file" : "plan");
    if (call->save && commands[i].run != ctl_set && commands[i].run != ctl_reset)
        return ctl_error_set(error, CTL_USAGE, "%s: --save does not belong to this command",
                             name);
    if (call->duration && commands[i].run != ctl_set)
        return ctl_error_set(error, CTL_USAGE, "%s: --for does not belong to this command",
                             name);
    return commands[i].run(call, error);
}

/* Output may fail late, when it is flushed: on a full disk for example. */
static ctl_exit_e flush_output(ctl_exit_e status, ctl_error_t *error)
{
    if (!fflush(stdout) && !ferror(stdout))
        return status;
    return ctl_error_set(error, CTL_REFUSED, "the output cannot be written: %s",
                         strerror(errno));
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
    if (error.status == CTL_DONE)
        status = flush_output(status, &error);
    return (int)(error.status == CTL_DONE ? status : ctl_error_print(&error));
}
