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
    "  import ols FILE        print the paths of a namespace template of OpenLiteSpeed as\n"
    "                         VhostLimitSandboxPath\n"
    "  unit SITE              print a unit of systemd for the site's pool of PHP-FPM, in the\n"
    "                         site's cgroup and with its VhostLimitSandbox. --php VERSION:\n"
    "                         8.2, or the path of php-fpm; --user NAME: the pool's user;\n"
    "                         --install: write unit and pool file; --remove: remove the\n"
    "                         unit; --force: also one that another program made\n"
    "  enter SITE PID         move a process and its children into the site's cgroup; PID\n"
    "                         may be NAME.service\n"
    "  clients SITE           clients and classes of a site that used most CPU time while\n"
    "                         its requests were queued\n"
    "  explain SITE          why requests of the site are queued or refused now\n"
    "  watch                  events, one line of JSON each, until it is ended: a site begins\n"
    "                         to queue, its limit is reached, requests are refused, the\n"
    "                         server is overloaded, a child process is lost, and more.\n"
    "                         --site SITE: of one site; --count N: end after N events\n"
    "  history [SITE]         figures of the last day, of a site or of the server.\n"
    "                         --since 90min|6h|7d|DATE: of a longer or shorter time, a week\n"
    "                         at most; --csv or --json: of each minute\n"
    "  collect                write the history, once a minute, until it is ended\n"
    "                         (vhostlimit-history.service does it). collect and history\n"
    "                         take --file FILE in place of /var/lib/vhostlimit/history\n"
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
    { "list", 0, 0, ctl_list },
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
    { "watch", 0, 0, ctl_watch, OPTION_BIT(SITE) | OPTION_BIT(COUNT) },
    { "history", 0, 1, ctl_history, OPTION_BIT(SINCE) | OPTION_BIT(CSV) | OPTION_BIT(FILE) },
    { "collect", 0, 0, ctl_collect, OPTION_BIT(FILE) },
    { "report", 0, 0, ctl_report },
    { "size", 0, 1, ctl_size },
    { "fleet", 0, 0, ctl_fleet },
    { "doctor", 0, 0, ctl_doctor }
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

/* Runs the command that the arguments name. */
static ctl_exit_e run_command(ctl_call_t *call, ctl_error_t *error)
{
    const char *name = call->args[0];
    size_t i;

    if (!name)
        return ctl_error_set(error, CTL_USAGE, "missing command: top, list, show, set, "
                             "reset, plans, import, unit, enter, clients, explain, watch, history, "
                             "collect, report, size, fleet or doctor");
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
