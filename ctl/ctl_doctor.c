/* SPDX-License-Identifier: Apache-2.0 */
/* The command doctor: says of the server and the machine what is in order, and what to do
 * about the rest. */
#include "ctl_doctor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_explain.h"

#define N "%" JSON_INTEGER_FORMAT

/* The source file of the module, which is its name in the list of modules. */
#define OURS "mod_vhostlimit.c"
/* The beginning of "unenforced" of the status page, if it is about the sandbox of the site. */
#define SANDBOX "VhostLimitSandbox "
/* Most pools of PHP-FPM, and most sites, that are named. */
#define NAMES_SHOWN 5

typedef enum { GOOD, NOTE, PROBLEM } level_e;

static const struct {
    const char *name, *label;
} levels[] = { { "good", "ok      " }, { "note", "note    " }, { "problem", "PROBLEM " } };

/* What is found so far. */
typedef struct doctor_t {
    const ctl_facts_t *facts;
    const ctl_status_t *status;
    json_t *findings;
} doctor_t;

/* Modules that delay or refuse requests after mod_vhostlimit has admitted them. */
static const char *const later_modules[] = {
    "mod_qos", "mod_evasive20", "mod_limitipconn", "mod_vhost_limit", "mod_hostinglimits",
    NULL
};

/* Modules that slow down responses; the thread sleeps meanwhile. */
static const char *const slow_modules[] = { "mod_ratelimit", "mod_bw", NULL };

/* --- findings ------------------------------------------------------------- */

/* Adds a finding.  todo: what to do; "" if the level is GOOD. */
__attribute__((format(printf, 5, 6)))
static void add(doctor_t *doctor, level_e level, const char *check, const char *todo,
                const char *format, ...)
{
    va_list args;
    char *finding;

    va_start(args, format);
    finding = ctl_vprintf(format, args);
    va_end(args);
    json_array_append_new(doctor->findings, ctl_json_check(json_pack(
        "{s:s, s:s, s:s, s:s}", "level", levels[level].name, "check", check,
        "finding", finding, "todo", todo)));
    free(finding);
}

/* --- the machine ---------------------------------------------------------- */

static void check_kernel(doctor_t *doctor)
{
    const char *release = doctor->facts->release;
    char *end;
    long major = strtol(release, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;

    if (major * 1000 + minor >= 4005)
        add(doctor, GOOD, "kernel", "", "Linux %s", release);
    else
        add(doctor, PROBLEM, "kernel", "use Linux 4.5 or newer",
            "Linux %s lacks EPOLLEXCLUSIVE, which the module needs", release);
}

static void check_delegation(doctor_t *doctor)
{
    const ctl_facts_t *facts = doctor->facts;

    if (!facts->unit || facts->is_delegated < 0)
        return;
    if (facts->is_delegated)
        add(doctor, GOOD, "delegation", "", "systemd does not change the cgroups of %s",
            facts->unit);
    else
        add(doctor, PROBLEM, "delegation", "add a drop-in with [Service] Delegate=yes, then "
            "systemctl daemon-reload and restart Apache",
            "systemd may change the cgroups of %s", facts->unit);
}

static void check_controllers(doctor_t *doctor)
{
    char *missing = ctl_printf("%s", "");
    int i;

    for (i = 0; i < CTL_CONTROLLERS; i++) {
        if (!doctor->facts->has_controller[i])
            ctl_append(&missing, "%s%s", *missing ? ", " : "", ctl_controller_names[i]);
    }
    if (!*missing)
        add(doctor, GOOD, "controllers", "", "cpu, memory, pids and io are available");
    else
        add(doctor, NOTE, "controllers", "mount the controllers, or have them delegated, if "
            "VhostLimitCPU, VhostLimitMemory, VhostLimitProcesses or VhostLimitIO is to work",
            "not available: %s", missing);
    free(missing);
}

static void check_fleet(doctor_t *doctor)
{
    const char *fleet = doctor->status->fleet;

    if (fleet && !strcmp(fleet, "held"))
        add(doctor, GOOD, "fleet", "", "vhostlimit-fleet renews its parts");
    else if (fleet && !strcmp(fleet, "lapsed"))
        add(doctor, PROBLEM, "fleet", "systemctl status vhostlimit-fleet; vhostlimitctl fleet",
            "vhostlimit-fleet does not renew its parts: the configured weights and limits "
            "hold on this server alone");
}

static void check_cgroup(doctor_t *doctor)
{
    const char *backend = doctor->status->cgroup.backend;
    const char *path = doctor->status->cgroup.path, *reason = doctor->status->cgroup.reason;

    if (!strcmp(reason, "VhostLimitCgroup off"))
        add(doctor, NOTE, "cgroup", "VhostLimitCgroup auto", "VhostLimitCgroup is off: no "
            "limit of memory, processes or I/O holds for back ends");
    else if (!strcmp(backend, "off"))
        add(doctor, PROBLEM, "cgroup", "start Apache as root in a cgroup that is delegated "
            "to it (Delegate=yes in its systemd unit), see docs/production.md. With SELinux: "
            "semodule -i vhostlimit.cil, see docs/compatibility.md",
            "there are no cgroups for sites: %s", reason);
    else if (*reason)
        add(doctor, PROBLEM, "cgroup", "see docs/production.md", "%s at %s: %s", backend,
            path, reason);
    else
        add(doctor, GOOD, "cgroup", "", "%s at %s", backend, path);
}

static void check_descriptors(doctor_t *doctor)
{
    const ctl_status_t *status = doctor->status;
    json_int_t files = doctor->facts->files, needed, queue = 0;
    size_t i;

    for (i = 0; i < status->nvhosts; i++) {
        if (status->vhosts[i].limits[CTL_QUEUE] > queue)
            queue = status->vhosts[i].limits[CTL_QUEUE];
    }
    /* Three descriptors for each group of a vhost, of which there may be four, two for each
     * request in the longest queue, five for each thread of a child process, and the logs. */
    needed = (json_int_t)ceil((double)status->nvhosts * 12 + (double)queue * 2
                              + (double)status->threads * 5
                              + (double)doctor->facts->logs + 200);
    if (files == CTL_FILES_UNKNOWN)
        return;
    if (files == CTL_FILES_UNLIMITED)
        add(doctor, GOOD, "descriptors", "", "the number of open files is not limited");
    else if (files >= needed)
        add(doctor, GOOD, "descriptors", "", N " open files are allowed, " N " are needed",
            files, needed);
    else {
        /* Debian's apachectl sets its own limit, below that of the unit. */
        char *todo = ctl_printf("LimitNOFILE=" N " in Apache's systemd unit, or ulimit -n " N
                                " before it starts; on Debian and Ubuntu also "
                                "APACHE_ULIMIT_MAX_FILES='ulimit -n " N "' in "
                                "/etc/apache2/envvars; then stop and start Apache", needed,
                                needed, needed);

        add(doctor, PROBLEM, "descriptors", todo, N " open files are allowed, " N " are "
            "needed for logs, the cgroups of the sites and the longest queue", files, needed);
        free(todo);
    }
}

/* --- the server ----------------------------------------------------------- */

static void check_mpm(doctor_t *doctor)
{
    const ctl_status_t *status = doctor->status;
    size_t i, threads = 0;

    for (i = 0; i < status->nvhosts; i++)
        threads += !strcmp(status->vhosts[i].method, "thread");
    if (threads)
        add(doctor, NOTE, "mpm", "the error log has the reason and the remedy (VL0079, VL0024)",
            "%s: queued requests hold their threads or processes", status->mpm);
    else if (!strcmp(status->mpm, "prefork"))
        add(doctor, GOOD, "mpm", "", "prefork: queued requests wait in one process, which "
            "serves no request");
    else
        add(doctor, GOOD, "mpm", "", "%s: queued requests wait without a thread",
            status->mpm);
}

static void check_workers(doctor_t *doctor)
{
    json_int_t workers = doctor->status->workers, slots = doctor->status->slots;
    char *todo;

    if (workers >= 2 * slots) {
        add(doctor, GOOD, "workers", "", N " workers for " N " slots", workers, slots);
        return;
    }
    todo = ctl_printf("MaxRequestWorkers " N " or more, see docs/guides/sizing.md", 2 * slots);
    add(doctor, NOTE, "workers", todo, N " workers for " N " slots: few are left for "
        "responses that are being sent", workers, slots);
    free(todo);
}

static void check_no_worker(doctor_t *doctor)
{
    char *found = ctl_explain_no_worker(doctor->facts->modules, NULL);
    char *todo;

    if (!found)
        return;
    todo = ctl_printf("vhostlimitctl explain %s; docs/guides/symptoms",
                      ctl_text_of(json_object_get(doctor->facts->modules, "no_worker"), "site"));
    add(doctor, NOTE, "no worker", todo, "%s", found);
    free(found);
    free(todo);
}

static void check_vhosts(doctor_t *doctor)
{
    const ctl_status_t *status = doctor->status;
    json_int_t dry = 0, limited = 0, changed = 0, unenforced = 0, sandboxes = 0;
    const char *why = NULL, *sandbox_why = NULL;
    size_t i;
    int k;

    for (i = 0; i < status->nvhosts; i++) {
        const ctl_vhost_t *vhost = &status->vhosts[i];
        const char *lacks = ctl_text_of(vhost->json, "unenforced");

        dry += ctl_vhost_is_dry(vhost);
        limited += vhost->limited_s > 0;
        for (k = 0; k < CTL_LIMITS && vhost->configured[k] < 0; k++)
            ;
        changed += k < CTL_LIMITS;
        if (!strncmp(lacks, SANDBOX, strlen(SANDBOX))) {
            sandboxes++;
            sandbox_why = lacks;
        }
        else if (*lacks) {
            unenforced++;
            why = lacks;
        }
    }
    if (status->nvhosts)
        add(doctor, GOOD, "vhosts", "", "%zu site%s with VhostLimit On or DryRun",
            status->nvhosts, ctl_plural((json_int_t)status->nvhosts));
    else
        add(doctor, PROBLEM, "vhosts", "VhostLimit On, for the server or for sites",
            "VhostLimit is off for all sites");
    if (unenforced)
        add(doctor, PROBLEM, "unenforced", "make the controller available "
            "(docs/production.md), or remove the limit", "limits of " N " site%s that the "
            "kernel does not enforce: %s", unenforced, ctl_plural(unenforced), why);
    if (sandboxes)
        add(doctor, PROBLEM, "sandbox", "do what the finding asks for (see VL0070 in "
            "docs/reference/messages.md), or write VhostLimitSandbox Off", N " site%s without a "
            "complete sandbox: %s", sandboxes, ctl_plural(sandboxes), sandbox_why);
    if (dry)
        add(doctor, NOTE, "dryrun", "look at vhostlimitctl report, then set VhostLimit On",
            N " site%s with VhostLimit DryRun: no request is delayed or refused", dry,
            ctl_plural(dry));
    if (limited)
        add(doctor, NOTE, "limited", "vhostlimitctl top and vhostlimitctl explain SITE",
            N " site%s limited now", limited, limited == 1 ? " is" : "s are");
    if (changed)
        add(doctor, NOTE, "overridden", "write the limits into the configuration, or "
            "vhostlimitctl reset SITE", "the limits of " N " site%s are not as configured",
            changed, ctl_plural(changed));
}

/* Returns the sites with back ends that were not found, with commas between them; the caller
 * frees the text. */
static char *unfound_text(const ctl_status_t *status)
{
    char *list = ctl_printf("%s", "");
    json_int_t n = 0;
    size_t i;

    for (i = 0; i < status->nvhosts; i++) {
        if (!strcmp(ctl_text_of(status->vhosts[i].json, "cost"), "unknown") && ++n <= NAMES_SHOWN)
            ctl_append(&list, "%s%s", *list ? ", " : "; sites: ", status->vhosts[i].name);
    }
    if (n > NAMES_SHOWN)
        ctl_append(&list, " and " N " more", n - NAMES_SHOWN);
    return list;
}

static void check_state(doctor_t *doctor)
{
    static const struct { const char *why, *text; } reasons[] = {
        { "slots", "more requests wanted a processor than there are slots" },
        { "threads", "four fifths of the threads of a child process were busy" },
        { "limit", "a site reached its VhostLimitConcurrency, or has a VhostLimitCPU" },
        { "always", "this MPM or this httpd is never dormant (event of httpd 2.4.49 or newer is)" },
    };
    const ctl_status_t *status = doctor->status;
    int is_engaged = !strcmp(status->state.is, "engaged");
    size_t i = 0;

    while (i < 3 && strcmp(status->state.why, reasons[i].why) != 0)
        i++;
    add(doctor, GOOD, "state", "", "%s for " N " s, after " N " change%s%s%s", status->state.is,
        status->state.since_s, status->state.changes, ctl_plural(status->state.changes),
        is_engaged ? ": " : "", is_engaged ? reasons[i].text : "");
}

/* The reasons are those of vl_database_fault(). */
static const char *unread_advice(const char *unread)
{
    if (strstr(unread, "which thread"))
        return "set thread_handling=one-thread-per-connection (MySQL: performance_schema=ON)";
    if (strstr(unread, "no Unix socket"))
        return "let it listen at a Unix socket (socket= in the database's configuration)";
    return "let root@localhost log in by unix_socket (ALTER USER root@localhost IDENTIFIED VIA "
           "unix_socket OR ...; MySQL: IDENTIFIED WITH auth_socket)";
}

static void check_sampler(doctor_t *doctor)
{
    const ctl_status_t *status = doctor->status;
    char *sites;

    if (!strcmp(status->sampler.state, "none"))
        add(doctor, PROBLEM, "sampler", "look for VL0076 and VL0077 in the error log, then "
            "restart Apache", "no sampler works: back ends are not charged, and requests that "
            "sleep hold slots");
    else if (!strcmp(status->sampler.state, "blind"))
        add(doctor, PROBLEM, "sampler", "start Apache as root, with CAP_SYS_PTRACE and "
            "CAP_DAC_READ_SEARCH (CapabilityBoundingSet= in its unit; docker run --cap-add "
            "SYS_PTRACE --cap-add DAC_READ_SEARCH), and restart it. With SELinux: semodule -i "
            "vhostlimit.cil, see docs/compatibility.md", "the sampler is blind: it "
            "may not see what processes wait for (CAP_SYS_PTRACE is missing). Back ends are "
            "not charged, and requests that sleep hold slots");
    else
        add(doctor, GOOD, "sampler", "", "it watches " N " process%s of back ends; a round "
            "takes %s ms of CPU time", status->sampler.processes,
            status->sampler.processes == 1 ? "" : "es",
            ctl_ms((double)status->sampler.round_us).text);
    if (*status->sampler.unread)
        add(doctor, NOTE, "database", unread_advice(status->sampler.unread), "the sessions of a database cannot be "
            "seen: its CPU time is divided equally between the requests that wait for it. %s",
            status->sampler.unread);
    if (!status->sampler.unfound)
        return;
    sites = unfound_text(status);
    add(doctor, NOTE, "back ends", "let Apache connect to the addresses at which they listen, "
        "and see their process IDs", "processes of " N " back end%s on this machine were not found: their "
        "CPU time is not charged, and their requests hold slots while they sleep%s",
        status->sampler.unfound, ctl_plural(status->sampler.unfound), sites);
    free(sites);
}

/* --- modules -------------------------------------------------------------- */

static int is_loaded(const doctor_t *doctor, const char *name)
{
    const json_t *modules = json_object_get(doctor->facts->modules, "modules");
    size_t i, len = strlen(name);
    const json_t *module;

    json_array_foreach(modules, i, module) {
        const char *source = json_string_value(module);

        if (source && !strncmp(source, name, len) && !strcmp(source + len, ".c"))
            return 1;
    }
    return 0;
}

/* Returns those modules of the list that are loaded; the caller frees the text. */
static char *loaded_of(const doctor_t *doctor, const char *const modules[])
{
    char *list = ctl_printf("%s", "");
    int i;

    for (i = 0; modules[i]; i++) {
        if (is_loaded(doctor, modules[i]))
            ctl_append(&list, "%s%s", *list ? ", " : "", modules[i]);
    }
    return list;
}

static void check_modules(doctor_t *doctor)
{
    const char *outside = doctor->status->cgroup.outside;
    char *later = loaded_of(doctor, later_modules);
    char *slow = loaded_of(doctor, slow_modules);

    if (!*later && !*slow)
        add(doctor, GOOD, "modules", "", "no other module limits sites or slows down "
            "responses");
    if (*later)
        add(doctor, NOTE, "modules", "let one module limit sites, requests and connections "
            "(docs/guides/migrating.md)", "%s: delays or refuses requests that mod_vhostlimit "
            "has admitted. A request that it delays counts as running, and one that it "
            "refuses was queued in vain", later);
    if (*slow)
        add(doctor, NOTE, "modules", "raise MaxRequestWorkers, if threads are short",
            "%s: a response that it slows down holds its thread until its end", slow);
    free(later);
    free(slow);
    if (!strcmp(outside, "mod_cgid"))
        add(doctor, PROBLEM, "mod_cgid", "load mod_cgi in its place, which works under event "
            "and worker too; on Debian and Ubuntu, where a2enmod cgi would enable cgid again: "
            "a2dismod cgid; ln -s ../mods-available/cgi.load /etc/apache2/mods-enabled/; then "
            "restart Apache", "its daemon starts CGI programs outside the cgroups of their "
            "sites: no limit of a site holds for them");
    if (!strcmp(outside, "mod_fcgid"))
        add(doctor, NOTE, "mod_fcgid", "use PHP-FPM with a pool for each site "
            "(docs/guides/shared-hosting.md)", "its programs run outside the cgroups of "
            "their sites: no limit of a site holds for them");
    if (!is_loaded(doctor, "mod_reqtimeout"))
        add(doctor, NOTE, "mod_reqtimeout", "a2enmod reqtimeout",
            "it is not loaded: slow clients may hold threads for a long time");
}

/* --- order of hooks ------------------------------------------------------- */

/* Returns the modules whose function of the hook runs before the first of ours, or after the
 * last one, each once; none if we have none. The caller frees the text. */
static char *neighbors(const doctor_t *doctor, const char *hook, int is_after)
{
    const json_t *hooks = json_object_get(doctor->facts->modules, "hooks");
    const json_t *functions = json_object_get(hooks, hook), *function;
    char *list = ctl_printf("%s", "");
    json_t *names = ctl_json_check(json_object());
    int is_ours_seen = 0;
    size_t i;

    json_array_foreach(functions, i, function) {
        const char *name = json_string_value(function);

        if (!name)
            continue;
        if (!strcmp(name, OURS)) {
            is_ours_seen = 1;
            if (!is_after)
                break;
            *list = '\0';
            json_object_clear(names);
        }
        else if (is_ours_seen == is_after && !json_object_get(names, name)) {
            json_object_set_new(names, name, json_true());
            ctl_append(&list, "%s%s", *list ? ", " : "", name);
        }
    }
    json_decref(names);
    if (!is_ours_seen)
        *list = '\0';
    return list;
}

static void check_order(doctor_t *doctor)
{
    char *before = neighbors(doctor, "quick_handler", 0);
    char *behind = neighbors(doctor, "post_read_request", 1);
    char *logs = neighbors(doctor, "log_transaction", 0);

    if (!*before && !*behind && !*logs)
        add(doctor, GOOD, "order", "", "no hook of another module runs at the wrong time");
    if (*before)
        add(doctor, PROBLEM, "order", "load mod_vhostlimit before it, or do without it",
            "%s may answer requests that mod_vhostlimit refuses (quick_handler)", before);
    if (*behind)
        add(doctor, NOTE, "order", "load it before mod_vhostlimit", "%s handles requests "
            "after mod_vhostlimit has admitted them (post_read_request): what it refuses has "
            "used a slot, and VhostLimitExempt does not see what it changes", behind);
    if (*logs)
        add(doctor, NOTE, "order", "load mod_vhostlimit before it",
            "%s logs before VHOSTLIMIT_* are set (log_transaction)", logs);
    free(before);
    free(behind);
    free(logs);
}

/* --- PHP-FPM -------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns the first pools in the order of their names, with semicolons between them. */
static char *pools_text(json_t *pools)
{
    size_t i, n = 0, count = json_object_size(pools);
    const char **texts = ctl_alloc(count * sizeof(void *));
    char *list = ctl_printf("%s", "");
    const char *text;
    json_t *value;

    json_object_foreach(pools, text, value) {
        texts[n++] = text;
    }
    qsort(texts, n, sizeof(*texts), compare_texts);
    for (i = 0; i < n && i < NAMES_SHOWN; i++)
        ctl_append(&list, "%s%s", i ? "; " : "", texts[i]);
    if (n > NAMES_SHOWN)
        ctl_append(&list, "; and %zu more", n - NAMES_SHOWN);
    free(texts);
    return list;
}

static void check_pools(doctor_t *doctor)
{
    char *pools;

    if (json_object_size(doctor->facts->outside)) {
        pools = pools_text(doctor->facts->outside);
        add(doctor, NOTE, "php-fpm", "if VhostLimitMemory, VhostLimitProcesses or "
            "VhostLimitIO is to work, run the pools of each site under a master process in the "
            "cgroup of the site (docs/production.md)", "pools outside the cgroups of sites, "
            "where no limit of a site holds: %s", pools);
        free(pools);
    }
    else if (doctor->facts->inside)
        add(doctor, GOOD, "php-fpm", "", N " process%s of pools in the cgroups of sites",
            doctor->facts->inside, doctor->facts->inside == 1 ? "" : "es");
}

/* --- the status page ------------------------------------------------------ */

static void check_page(doctor_t *doctor)
{
    const char *said = doctor->facts->page, *dash = said ? strstr(said, " - ") : NULL;

    if (!dash)
        return;
    if (!doctor->facts->page_status)
        add(doctor, GOOD, "status page", "", "%s", dash + 3);
    else
        add(doctor, NOTE, "status page", "see The status page in docs/guides/monitoring.md; if "
            "it has another address: vhostlimitctl doctor URL", "%s", dash + 3);
}

/* --- output --------------------------------------------------------------- */

json_t *ctl_doctor_judge(const ctl_facts_t *facts)
{
    doctor_t doctor = { facts, facts->status, ctl_json_check(json_array()) };

    add(&doctor, GOOD, "server", "", "%s in process %d", facts->status->module,
        (int)facts->pid);
    check_kernel(&doctor);
    check_mpm(&doctor);
    check_workers(&doctor);
    check_no_worker(&doctor);
    check_vhosts(&doctor);
    check_state(&doctor);
    check_sampler(&doctor);
    check_cgroup(&doctor);
    check_fleet(&doctor);
    check_delegation(&doctor);
    check_controllers(&doctor);
    check_descriptors(&doctor);
    check_modules(&doctor);
    check_order(&doctor);
    check_pools(&doctor);
    check_page(&doctor);
    return doctor.findings;
}

/* Prints the findings.  Returns CTL_REFUSED if there is a problem among them. */
static ctl_exit_e print_findings(const ctl_call_t *call, json_t *findings)
{
    ctl_exit_e status = CTL_DONE;
    json_t *finding, *all;
    size_t i;

    json_array_foreach(findings, i, finding) {
        size_t level = 0;

        while (strcmp(levels[level].name, ctl_text_of(finding, "level")) != 0)
            level++;
        if (level == PROBLEM)
            status = CTL_REFUSED;
        if (call->json)
            continue;
        printf("%s%s: ", levels[level].label, ctl_text_of(finding, "check"));
        ctl_put_plain(stdout, ctl_text_of(finding, "finding"));
        if (*ctl_text_of(finding, "todo")) {
            printf("\n        to do: ");
            ctl_put_plain(stdout, ctl_text_of(finding, "todo"));
        }
        putchar('\n');
    }
    if (call->json) {
        all = ctl_json_check(json_pack("{s:O}", "findings", findings));
        ctl_json_print(all);
        json_decref(all);
    }
    return status;
}

/* --- the command ---------------------------------------------------------- */

ctl_exit_e ctl_doctor(const ctl_call_t *call, ctl_error_t *error)
{
    static const char *const words[] = { "modules", NULL };
    ctl_facts_t facts = { .page_url = call->args[0] };
    ctl_answer_t modules;
    ctl_state_t state;
    json_t *findings;
    ctl_exit_e status = ctl_client_ask(call->socket, words, NULL, &modules, error);

    if (status != CTL_DONE)
        return status;
    status = ctl_state_ask(call, NULL, &state, error);
    if (status == CTL_DONE) {
        facts.status = &state.status;
        facts.modules = modules.json;
        facts.pid = state.answer.pid;
        ctl_facts_gather(&facts);
        findings = ctl_doctor_judge(&facts);
        status = print_findings(call, findings);
        json_decref(findings);
        ctl_facts_free(&facts);
        ctl_state_free(&state);
    }
    ctl_client_free(&modules);
    return status;
}
