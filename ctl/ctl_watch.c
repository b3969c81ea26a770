/* SPDX-License-Identifier: Apache-2.0 */
/* The command watch: asks the server once a second and prints a line of JSON for each event.
 * It runs until a signal ends it, its output is closed, or --count events are printed.
 *
 * An alert is a state of a site or of the server.  It begins when the state is seen, and is
 * over when the state was not seen for ten seconds.  Each begin and end is an event:
 *
 *   queue        requests of the site wait
 *   limit        VhostLimitConcurrency is reached
 *   limited      the site is limited (VL0011)
 *   overload     all slots are held and requests of two sites or more wait
 *
 * Other events have no end: refused, limits_changed, site_added, site_removed, child_lost,
 * configured, server_lost, server_back. */
#include "ctl_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl_command.h"

#define REFRESH_MS 1000
/* An alert is over when its state was not seen for so long. */
#define OVER_MS 10000
/* Refusals of a site are told at most so often. */
#define REFUSED_MS 10000

enum { ALERT_QUEUE, ALERT_LIMIT, ALERT_LIMITED, ALERTS };

static const char *const alert_names[ALERTS] = { "queue", "limit", "limited" };

/* An alert of a site or of the server. */
typedef struct alert_t {
    int is_on;
    long long since_ms, seen_ms;    /* when it began, and when it was last seen */
} alert_t;

/* What is remembered of a site from answer to answer. */
typedef struct memory_t {
    alert_t alerts[ALERTS];
    json_int_t told_refused;        /* refused requests that were told */
    long long told_ms;              /* when; 0: never */
} memory_t;

struct ctl_watch_t {
    const char *site;
    ctl_watch_fn put;
    void *baton;
    ctl_figures_t before;
    memory_t *memories;             /* of before.sites */
    int has_before, is_lost;
    alert_t overload;
};

/* --- events --------------------------------------------------------------- */

static json_t *make_event(const char *event)
{
    return ctl_json_check(json_pack("{s:s}", "event", event));
}

static void add_number(json_t *json, const char *key, json_int_t n)
{
    json_object_set_new(json, key, ctl_json_check(json_integer(n)));
}

/* An event of a site; now NULL: without its figures. */
static json_t *site_event(const char *event, const char *name, const ctl_site_t *now)
{
    char *text = ctl_name_to_text(name);
    json_t *json = ctl_json_check(json_pack("{s:s, s:s}", "event", event, "site", text));

    free(text);
    if (!now)
        return json;
    add_number(json, "running", now->running);
    add_number(json, "waiting", now->waiting);
    add_number(json, "deferred", now->deferred);
    add_number(json, "concurrency", now->concurrency);
    add_number(json, "queue", now->queue);
    add_number(json, "limited_s", now->limited_s);
    return json;
}

/* Updates the alert.  Returns 1: it begins; -1: it is over; 0: neither. */
static int update_alert(alert_t *alert, int is_seen, long long now_ms)
{
    int begins = is_seen && !alert->is_on;

    if (is_seen)
        alert->seen_ms = now_ms;
    if (begins) {
        alert->since_ms = now_ms;
        alert->is_on = 1;
        return 1;
    }
    if (!alert->is_on || now_ms - alert->seen_ms < OVER_MS)
        return 0;
    alert->is_on = 0;
    return -1;
}

/* Adds what update_alert() has returned. */
static void add_change(json_t *json, const alert_t *alert, int change)
{
    json_object_set_new(json, "state",
                        ctl_json_check(json_string(change > 0 ? "begin" : "over")));
    if (change < 0)
        add_number(json, "lasted_s", (alert->seen_ms - alert->since_ms) / 1000);
}

/* --- a site --------------------------------------------------------------- */

static void compare_alerts(ctl_watch_t *watch, const ctl_site_t *site, memory_t *memory,
                           long long now_ms)
{
    const int is_seen[ALERTS] = {
        [ALERT_QUEUE] = site->waiting + site->deferred > 0,
        [ALERT_LIMIT] = site->concurrency > 0 && site->running >= site->concurrency,
        [ALERT_LIMITED] = site->limited_s > 0
    };
    int i;

    for (i = 0; i < ALERTS; i++) {
        int change = update_alert(&memory->alerts[i], is_seen[i], now_ms);
        json_t *json;

        if (!change)
            continue;
        json = site_event(alert_names[i], site->name, site);
        add_change(json, &memory->alerts[i], change);
        watch->put(watch->baton, json);
    }
}

static void compare_refused(ctl_watch_t *watch, const ctl_site_t *site,
                            const ctl_site_t *before, memory_t *memory, long long now_ms)
{
    json_t *json;

    if (!before || site->refused < memory->told_refused) {
        memory->told_refused = before ? 0 : site->refused;
        return;
    }
    if (site->refused == memory->told_refused
        || (memory->told_ms && now_ms - memory->told_ms < REFUSED_MS))
        return;
    json = site_event("refused", site->name, site);
    add_number(json, "refused", site->refused - memory->told_refused);
    add_number(json, "refused_since_start", site->refused);
    watch->put(watch->baton, json);
    memory->told_refused = site->refused;
    memory->told_ms = now_ms;
}

static void compare_limits(ctl_watch_t *watch, const ctl_site_t *site,
                           const ctl_site_t *before)
{
    const struct {
        const char *key;
        json_int_t now, was;
    } limits[] = {
        { "weight", site->weight, before->weight },
        { "concurrency", site->concurrency, before->concurrency },
        { "queue", site->queue, before->queue },
        { "cpu", site->cpu, before->cpu },
        { "mode", site->mode, before->mode }
    };
    json_t *from = ctl_json_check(json_object()), *to = ctl_json_check(json_object()), *json;
    size_t i;

    for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        static const char *const modes[] = { "off", "on", "dryrun" };

        if (limits[i].now == limits[i].was)
            continue;
        if (!strcmp(limits[i].key, "mode") && limits[i].now <= 2 && limits[i].was <= 2) {
            json_object_set_new(from, "mode", json_string(modes[limits[i].was]));
            json_object_set_new(to, "mode", json_string(modes[limits[i].now]));
            continue;
        }
        add_number(from, limits[i].key, limits[i].was);
        add_number(to, limits[i].key, limits[i].now);
    }
    if (json_object_size(to)) {
        json = site_event("limits_changed", site->name, site);
        json_object_set(json, "from", from);
        json_object_set(json, "to", to);
        watch->put(watch->baton, json);
    }
    json_decref(from);
    json_decref(to);
}

/* --- the server ----------------------------------------------------------- */

/* Tells of sites that are in the answer before and not in this one. */
static void compare_removed(ctl_watch_t *watch, const ctl_figures_t *now)
{
    size_t i, from = 0;

    for (i = 0; i < watch->before.nsites; i++) {
        const char *name = watch->before.sites[i].name;

        if ((!watch->site || !strcasecmp(watch->site, name))
            && !ctl_figures_find(now, name, &from))
            watch->put(watch->baton, site_event("site_removed", name, NULL));
    }
}

static void compare_overload(ctl_watch_t *watch, const ctl_figures_t *now,
                             long long now_ms)
{
    json_int_t held = 0, running = 0, waiting = 0, sites = 0;
    json_t *json;
    size_t i;
    int change;

    for (i = 0; i < now->nsites; i++) {
        held += now->sites[i].runnable_permille;
        running += now->sites[i].running;
        waiting += now->sites[i].waiting + now->sites[i].deferred;
        sites += now->sites[i].waiting > 0;
    }
    change = update_alert(&watch->overload, held >= now->slots * 1000 && sites > 1, now_ms);
    if (!change)
        return;
    json = make_event("overload");
    add_change(json, &watch->overload, change);
    add_number(json, "running", running);
    add_number(json, "slots", now->slots);
    add_number(json, "waiting", waiting);
    add_number(json, "sites_waiting", sites);
    watch->put(watch->baton, json);
}

/* Events of the parent process, since the answer before. */
static void compare_parent(ctl_watch_t *watch, const ctl_figures_t *now)
{
    const ctl_figures_t *before = &watch->before;
    json_t *json;

    if (now->configured_us != before->configured_us) {
        json = make_event("configured");
        json_object_set_new(json, "restarted", ctl_json_check(
            json_boolean(now->started_us != before->started_us)));
        add_number(json, "sites", (json_int_t)now->nsites);
        watch->put(watch->baton, json);
    }
    if (now->children_lost > before->children_lost) {
        json = make_event("child_lost");
        add_number(json, "children", now->children_lost - before->children_lost);
        add_number(json, "requests", now->requests_lost - before->requests_lost);
        watch->put(watch->baton, json);
    }
}

/* --- watching ------------------------------------------------------------- */

ctl_watch_t *ctl_watch_begin(const char *site, ctl_watch_fn put, void *baton)
{
    ctl_watch_t *watch = ctl_alloc(sizeof(*watch));

    watch->site = site;
    watch->put = put;
    watch->baton = baton;
    return watch;
}

void ctl_watch_compare(ctl_watch_t *watch, const ctl_figures_t *now, long long now_ms)
{
    memory_t *memories = ctl_alloc(now->nsites * sizeof(*memories));
    size_t i, from = 0;

    if (watch->is_lost && !watch->site)
        watch->put(watch->baton, make_event("server_back"));
    watch->is_lost = 0;
    if (watch->has_before && !watch->site)
        compare_parent(watch, now);
    for (i = 0; i < now->nsites; i++) {
        const ctl_site_t *site = &now->sites[i];
        const ctl_site_t *before = ctl_figures_find(&watch->before, site->name, &from);

        if (before)
            memories[i] = watch->memories[before - watch->before.sites];
        if (watch->site && strcasecmp(watch->site, site->name) != 0)
            continue;
        if (before)
            compare_limits(watch, site, before);
        else if (watch->has_before)
            watch->put(watch->baton, site_event("site_added", site->name, site));
        compare_refused(watch, site, before, &memories[i], now_ms);
        compare_alerts(watch, site, &memories[i], now_ms);
    }
    if (watch->has_before)
        compare_removed(watch, now);
    if (!watch->site)
        compare_overload(watch, now, now_ms);
    /* Keeps a copy of the answer, with the memories of its sites. */
    ctl_figures_free(&watch->before);
    free(watch->memories);
    watch->before = *now;
    watch->before.sites = ctl_alloc(now->nsites * sizeof(*now->sites));
    if (now->nsites)
        memcpy(watch->before.sites, now->sites, now->nsites * sizeof(*now->sites));
    watch->memories = memories;
    watch->has_before = 1;
}

void ctl_watch_lost(ctl_watch_t *watch, const char *why)
{
    json_t *json;

    if (watch->is_lost)
        return;
    watch->is_lost = 1;
    if (watch->site)
        return;
    json = make_event("server_lost");
    json_object_set_new(json, "reason", ctl_json_check(json_string_nocheck(why)));
    watch->put(watch->baton, json);
}

void ctl_watch_end(ctl_watch_t *watch)
{
    ctl_figures_free(&watch->before);
    free(watch->memories);
    free(watch);
}

/* --- the command ---------------------------------------------------------- */

/* Lines that are printed. */
typedef struct output_t {
    long left;                      /* events until the end; < 0: no end */
    int is_closed;                  /* the reader has gone */
} output_t;

/* Prints the event with its time as one line, at once. */
static void print_event(void *baton, json_t *json)
{
    output_t *output = baton;
    json_t *line = ctl_json_check(json_object());
    struct timespec now;
    struct tm tm;
    char time[32], text[48];
    char *dump;

    clock_gettime(CLOCK_REALTIME, &now);
    strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &tm));
    snprintf(text, sizeof(text), "%s.%03ldZ", time, now.tv_nsec / 1000000);
    json_object_set_new(line, "time", ctl_json_check(json_string(text)));
    json_object_update(line, json);
    json_decref(json);
    dump = output->left && !output->is_closed
           ? json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (dump) {
        output->is_closed = printf("%s\n", dump) < 0 || fflush(stdout);
        if (output->left > 0)
            output->left--;
    }
    free(dump);
    json_decref(line);
}

static volatile sig_atomic_t is_ended;

static void on_end(int number)
{
    is_ended = 1;
}

/* Looks until the end.  Without a first answer there is nothing to watch. */
static void watch_server(const ctl_call_t *call, ctl_watch_t *watch, output_t *output,
                         ctl_error_t *error)
{
    struct pollfd reader = { .fd = STDOUT_FILENO };
    ctl_figures_t now;
    int is_first = 1;

    while (!is_ended && output->left && !output->is_closed) {
        error->status = CTL_DONE;
        if (ctl_figures_ask(call->socket, &now, error) == CTL_DONE) {
            ctl_watch_compare(watch, &now, ctl_now_ms());
            ctl_figures_free(&now);
            is_first = 0;
        }
        else if (is_first)
            return;
        else
            ctl_watch_lost(watch, error->text);
        if (output->left && !output->is_closed && !is_ended)
            output->is_closed = poll(&reader, 1, REFRESH_MS) > 0;   /* the reader of stdout has gone */
    }
    error->status = CTL_DONE;
}

/* Returns the name of the account; NULL: *error is set, because there is no such site, or it is
 * a host. */
static char *find_name(const ctl_call_t *call, ctl_error_t *error)
{
    const char *site;
    ctl_state_t one;
    char *name = NULL;

    if (ctl_state_ask(call, call->site, &one, error) != CTL_DONE)
        return NULL;
    site = ctl_text_of(one.status.vhosts[0].json, "host_of");
    if (*site)
        ctl_error_set(error, CTL_REFUSED, "'%s' is a host of site %s (VhostLimitAccounts), and "
                      "events are of sites. Next: " CTL_PROGRAM " top", call->site, site);
    else
        name = ctl_name_from_text(one.status.vhosts[0].name);
    ctl_state_free(&one);
    return name;
}

ctl_exit_e ctl_watch(const ctl_call_t *call, ctl_error_t *error)
{
    const struct sigaction end_action = { .sa_handler = on_end };
    output_t output = { .left = -1 };
    char *site = NULL, *end;
    ctl_watch_t *watch;

    if (call->count) {
        output.left = strtol(call->count, &end, 10);
        if (end == call->count || *end || output.left < 1 || end - call->count > 9)
            return ctl_error_set(error, CTL_USAGE, "--count: '%s' is not a whole number from 1 "
                                 "to 999999999", call->count);
    }
    if (call->site && !(site = find_name(call, error)))
        return error->status;
    sigaction(SIGINT, &end_action, NULL);
    sigaction(SIGTERM, &end_action, NULL);
    sigaction(SIGHUP, &end_action, NULL);
    /* A write to a pipe without a reader fails, and does not end the program by a signal. */
    (void)signal(SIGPIPE, SIG_IGN);
    watch = ctl_watch_begin(site, print_event, &output);
    watch_server(call, watch, &output, error);
    ctl_watch_end(watch);
    free(site);
    if (output.is_closed)
        clearerr(stdout);
    return error->status;
}
