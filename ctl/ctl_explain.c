/* SPDX-License-Identifier: Apache-2.0 */
/* The command explain: why requests of a site are queued or refused now.  It gives causes
 * for programs and sentences for people. */
#include "ctl_explain.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_command.h"

#define N "%" JSON_INTEGER_FORMAT

/* A cause for each value, in the order in which they are told. */
typedef enum {
    CAUSE_DRYRUN,
    CAUSE_CONCURRENCY,
    CAUSE_QUEUE,
    CAUSE_CPU,
    CAUSE_SLOTS,
    CAUSE_MOST,
    CAUSE_BACKLOG,              /* this and the next one do not depend on limits */
    CAUSE_CALLS,
    CAUSE_NEIGHBOR,             /* only if no other cause limits the site */
    CAUSE_CLIENT,               /* this and the next one explain the queue inside the site */
    CAUSE_CLASS,
    CAUSES
} cause_e;

/* Most other sites whose slots are named. */
#define HOLDERS_MOST 3

/* What the sentences are made from. */
typedef struct explain_t {
    const ctl_status_t *status;
    const ctl_vhost_t *vhost;
    json_int_t free;            /* thousandths of slots; < 0: more are held than there are */
    char *client, *clas;        /* sentences about the queue inside the site, or NULL */
    int has_cause[CAUSES];
    int ncauses;                /* that limit the site */
    json_t *sentences;
} explain_t;

static const char *const cause_names[CAUSES] = {
    "dryrun", "concurrency", "queue", "cpu", "slots", "most", "backlog", "calls", "neighbor", "client", "class"
};

/* --- causes --------------------------------------------------------------- */

/* The module keeps some slots free for other sites (vl_admit_slot()): a fifth of
 * automatic ones for sites that hold none; of others, a site of average weight may hold four
 * times as many as are free. */
static int has_most_slots(const explain_t *explain)
{
    const ctl_status_t *status = explain->status;
    json_int_t held = explain->vhost->runnable_permille;

    return explain->free > 0 && held > 0
           && (held >= 4 * explain->free
               || (status->slots_auto
                   && explain->free <= status->slots * 1000 / 5));
}

/* Returns the other site that uses most CPU time now, or NULL. */
static const ctl_vhost_t *loudest(const explain_t *explain)
{
    const ctl_vhost_t *found = NULL;
    size_t i;

    for (i = 0; i < explain->status->nvhosts; i++) {
        const ctl_vhost_t *other = &explain->status->vhosts[i];

        if (other == explain->vhost || (!other->running && !other->cpu_now_permille))
            continue;
        if (!found || other->cpu_now_permille > found->cpu_now_permille
            || (other->cpu_now_permille == found->cpu_now_permille
                && other->running > found->running))
            found = other;
    }
    return found;
}

/* Another site uses more than half of the CPUs, and they are busy.  Then requests of this site
 * take longer, although they start at once. */
static int has_neighbor(const explain_t *explain)
{
    const ctl_status_t *status = explain->status;
    const ctl_vhost_t *other = loudest(explain);

    return explain->vhost->running > 0 && !explain->vhost->waiting && other
           && CTL_SUM(status, cpu_now_permille) >= status->processors * 800
           && other->cpu_now_permille > status->processors * 500;
}

/* Returns the sum of a number over a list of the site, such as "backends". */
static json_int_t sum_of(const ctl_vhost_t *vhost, const char *list, const char *key)
{
    const json_t *row;
    json_int_t sum = 0;
    size_t i;

    json_array_foreach(json_object_get(vhost->json, list), i, row)
        sum += ctl_number_of(row, key) < INT32_MAX ? ctl_number_of(row, key) : INT32_MAX;
    return sum;
}

static void find_causes(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;
    int *has = explain->has_cause;
    int i;

    if (ctl_vhost_is_dry(vhost)) {
        has[CAUSE_DRYRUN] = 1;
    }
    else {
        has[CAUSE_CONCURRENCY] = vhost->limits[CTL_CONCURRENCY] > 0
                                 && vhost->running >= vhost->limits[CTL_CONCURRENCY];
        has[CAUSE_QUEUE] = vhost->waiting > 0
                           && vhost->waiting >= vhost->limits[CTL_QUEUE];
        /* It uses at least nine tenths of its CPU limit, which is in per cent. */
        has[CAUSE_CPU] = vhost->running + vhost->waiting > 0 && vhost->limits[CTL_CPU] > 0
                         && vhost->cpu_now_permille >= vhost->limits[CTL_CPU] * 9;
        /* Without free slots the next request waits, also if none waits now. */
        has[CAUSE_SLOTS] = explain->free <= 0 && !has[CAUSE_CPU];
        has[CAUSE_MOST] = vhost->waiting > 0 && has_most_slots(explain);
    }
    has[CAUSE_BACKLOG] = sum_of(vhost, "backends", "waiting") > 0;
    has[CAUSE_CALLS] = sum_of(vhost, "calls", "queued") > 0;
    for (i = 0; i < CAUSE_NEIGHBOR; i++)
        explain->ncauses += has[i];
    if (!explain->ncauses && has_neighbor(explain))
        has[CAUSE_NEIGHBOR] = explain->ncauses = 1;
    has[CAUSE_CLIENT] = explain->client != NULL;
    has[CAUSE_CLASS] = explain->clas != NULL;
}

/* --- sentences ------------------------------------------------------------ */

/* Adds a sentence, which is freed. */
static void say(explain_t *explain, char *sentence)
{
    json_array_append_new(explain->sentences, ctl_json_check(json_string(sentence)));
    free(sentence);
}

static void say_now(explain_t *explain)
{
    json_int_t running = explain->vhost->running, waiting = explain->vhost->waiting;

    if (!running && !waiting)
        say(explain, ctl_printf("No request is running or queued now."));
    else if (!running)
        say(explain, ctl_printf("No request is running and " N " %s queued now.", waiting,
                                waiting == 1 ? "is" : "are"));
    else if (!waiting)
        say(explain, ctl_printf(N " request%s %s running and none is queued now.", running,
                                ctl_plural(running), running == 1 ? "is" : "are"));
    else
        say(explain, ctl_printf(N " request%s %s running and " N " %s queued now.", running,
                                ctl_plural(running), running == 1 ? "is" : "are",
                                waiting, waiting == 1 ? "is" : "are"));
}

/* Returns what a site holds: "0.6 of 8 slots (6 running, duty 10 %)". Requests that hold a whole
 * slot each, because they compute or VhostLimitSlots is a number, need no explanation. */
static char *held_text(const ctl_status_t *status, const ctl_vhost_t *vhost)
{
    char *asleep = vhost->asleep ? ctl_printf(", " N " of them asleep", vhost->asleep)
                                 : ctl_printf("%s", "");
    char *duty = vhost->duty_permille && vhost->runnable_permille != vhost->running * 1000
                 ? ctl_printf(", duty %s %%", ctl_tenths(vhost->duty_permille).text)
                 : ctl_printf("%s", "");
    char *text = ctl_printf("%s of " N " slots (" N " running%s%s)",
                            ctl_slots(vhost->runnable_permille).text, status->slots,
                            vhost->running, asleep, duty);

    free(asleep);
    free(duty);
    return text;
}

static void say_held(explain_t *explain)
{
    char *held;

    if (!explain->vhost->running)
        return;
    held = held_text(explain->status, explain->vhost);
    say(explain, ctl_printf("The site holds %s.", held));
    free(held);
}

static int compare_held(const void *pa, const void *pb)
{
    const ctl_vhost_t *a = *(const ctl_vhost_t *const *)pa, *b = *(const ctl_vhost_t *const *)pb;

    return a->runnable_permille < b->runnable_permille ? 1
           : a->runnable_permille > b->runnable_permille ? -1 : strcmp(a->name, b->name);
}

/* Names the other sites that hold most slots. */
static void say_holders(explain_t *explain)
{
    const ctl_status_t *status = explain->status;
    const ctl_vhost_t **others = ctl_alloc(status->nvhosts * sizeof(void *));
    size_t i, n = 0;

    for (i = 0; i < status->nvhosts; i++) {
        if (&status->vhosts[i] != explain->vhost && status->vhosts[i].runnable_permille)
            others[n++] = &status->vhosts[i];
    }
    qsort(others, n, sizeof(void *), compare_held);
    for (i = 0; i < n && i < HOLDERS_MOST; i++) {
        char *held = held_text(status, others[i]);

        say(explain, ctl_printf("%s holds %s.", others[i]->name, held));
        free(held);
    }
    if (n > HOLDERS_MOST)
        say(explain, ctl_printf("%zu more site%s hold%s the rest.", n - HOLDERS_MOST,
                                ctl_plural((json_int_t)(n - HOLDERS_MOST)),
                                n == HOLDERS_MOST + 1 ? "s" : ""));
    free(others);
}

static void say_dryrun(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    say(explain, ctl_printf("VhostLimit DryRun is set: no request is delayed or refused. "
                            "Since the start, " N " request%s would have been queued and "
                            N " would have been refused. Next: " CTL_PROGRAM " report.",
                            vhost->would_queue, ctl_plural(vhost->would_queue),
                            vhost->would_refuse));
}

static void say_concurrency(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;
    char *time = vhost->service_us > 0
                 ? ctl_printf(" (they take %s ms)", ctl_ms((double)vhost->service_us).text)
                 : ctl_printf("%s", "");

    say(explain, ctl_printf("The concurrency limit is reached: " N " of " N " requests are "
                            "running (VhostLimitConcurrency). %s Raise the limit, or make "
                            "the requests faster%s. Next: " CTL_PROGRAM " set %s "
                            "concurrency=" N ".", vhost->running,
                            vhost->limits[CTL_CONCURRENCY], vhost->limits[CTL_QUEUE]
                            ? "The next request is queued until one of them ends."
                            : "The next request is refused, because VhostLimitQueue is 0.",
                            time, vhost->name, 2 * vhost->limits[CTL_CONCURRENCY]));
    free(time);
}

static void say_queue(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    say(explain, ctl_printf("The queue is full: " N " request%s %s queued, "
                            "VhostLimitQueue is " N ". " N " more connection%s %s for a "
                            "place in the queue and %s refused if none becomes free in "
                            "time. Next: " CTL_PROGRAM " clients %s.", vhost->waiting,
                            ctl_plural(vhost->waiting), vhost->waiting == 1 ? "is" : "are",
                            vhost->limits[CTL_QUEUE], vhost->deferred,
                            ctl_plural(vhost->deferred),
                            vhost->deferred == 1 ? "waits" : "wait",
                            vhost->deferred == 1 ? "is" : "are", vhost->name));
}

static void say_cpu(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    say(explain, ctl_printf("The CPU limit is reached: the site uses %s %% of one CPU, "
                            "VhostLimitCPU is " N "%%. Running requests are slowed down, "
                            "and queued requests start as time passes. Raise cpu to give "
                            "the site more. Next: " CTL_PROGRAM " set %s cpu=" N "%%.",
                            ctl_tenths(vhost->cpu_now_permille).text,
                            vhost->limits[CTL_CPU], vhost->name,
                            2 * vhost->limits[CTL_CPU]));
}

/* Returns the sentences about the other sites that have requests. */
static char *share_text(const explain_t *explain)
{
    const ctl_status_t *status = explain->status;
    json_int_t others = 0, weight = explain->vhost->limits[CTL_WEIGHT], weights = weight;
    size_t i;

    for (i = 0; i < status->nvhosts; i++) {
        const ctl_vhost_t *other = &status->vhosts[i];

        if (other == explain->vhost || other->running + other->waiting == 0)
            continue;
        others++;
        weights += other->limits[CTL_WEIGHT];
    }
    if (!others)
        return ctl_printf("No other site has requests.");
    return ctl_printf("With weight " N " beside " N " other active site%s, the share of "
                      "this site is %s %% of the CPU time. It uses %s %% of one CPU now, "
                      "and all sites together use %s %%. To give it more, raise its weight, "
                      "or find the site that uses the rest with vhostlimitctl top.",
                      weight, others, ctl_plural(others),
                      ctl_number(round(100 * (double)weight / (double)weights)).text,
                      ctl_tenths(explain->vhost->cpu_now_permille).text,
                      ctl_tenths(CTL_SUM(status, cpu_now_permille)).text);
}

/* Says which other site is the loudest, and what queueing costs this one. */
static void say_neighbor(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost, *other = loudest(explain);
    char *cost;

    if (!other) {
        say(explain, ctl_printf("See docs/guides/sizing.md."));
        return;
    }
    cost = vhost->requests > 0
           ? ctl_printf(" Since the start, queueing has added %s ms to each request of this "
                        "site on average.",
                        ctl_ms((double)vhost->wait_us / (double)vhost->requests).text)
           : ctl_printf("%s", "");
    say(explain, ctl_printf("The loudest other site is %s: it uses %s %% of one CPU now.%s "
                            "Next: " CTL_PROGRAM " explain %s.", other->name,
                            ctl_tenths(other->cpu_now_permille).text, cost, other->name));
    free(cost);
}

/* Returns a sentence about slots that are all held. */
static const char *slots_text(const ctl_status_t *status)
{
    if (CTL_SUM(status, cpu_now_permille) >= status->processors * 500)
        return "The CPUs are busy: faster pages help, more slots do not.";
    if (!status->slots_auto)
        return "The sites use less than half of the CPUs. VhostLimitSlots is a number, which "
               "counts requests that sleep too: raise it, or set it to auto.";
    if (strcmp(status->sampler.state, "runs") != 0)
        return "The sampler does not work, so each running request holds a slot: see "
               CTL_PROGRAM " doctor.";
    return "The sites use less than half of the CPUs: other programs of this machine use them, "
           "or processes of back ends were not found (" CTL_PROGRAM " doctor).";
}

static void say_slots(explain_t *explain)
{
    char *share;

    say(explain, ctl_printf("All " N " slots of the server are held.", explain->status->slots));
    if (explain->status->is_partial)
        return;
    share = share_text(explain);
    say_holders(explain);
    say(explain, ctl_printf("%s %s", share, slots_text(explain->status)));
    free(share);
    say_neighbor(explain);
}

/* Returns how long a request takes, and its CPU time; "" if none has ended. */
static char *time_text(const ctl_vhost_t *vhost)
{
    if (vhost->service_us <= 0 || vhost->requests <= 0)
        return ctl_printf("%s", "");
    return ctl_printf("its requests take %s ms, with %s ms of CPU time",
                      ctl_ms((double)vhost->service_us).text,
                      ctl_ms(fmin((double)vhost->charged_us / (double)vhost->requests,
                                  (double)vhost->service_us)).text);
}

static void say_busy(explain_t *explain)
{
    const ctl_status_t *status = explain->status;
    char *time = time_text(explain->vhost);

    say(explain, ctl_printf("Requests of the site start at once, but the CPUs are busy: all "
                            "sites together use %s %% of " N " %%, and this one uses %s "
                            "%%%s%s.", ctl_tenths(CTL_SUM(status, cpu_now_permille)).text,
                            status->processors * 100,
                            ctl_tenths(explain->vhost->cpu_now_permille).text,
                            *time ? "; " : "", time));
    free(time);
    say_neighbor(explain);
}

static void say_most(explain_t *explain)
{
    say_holders(explain);
    say(explain, ctl_printf("The last %s slots are kept for sites that hold few. Next: "
                            CTL_PROGRAM " show %s.", ctl_slots(explain->free).text,
                            explain->vhost->name));
}

/* Returns the row of a list whose key has this text, or NULL. */
static const json_t *row_of(const ctl_vhost_t *vhost, const char *list, const char *key, const char *text)
{
    const char *value;
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(vhost->json, list), i, row) {
        value = json_string_value(json_object_get(row, key));
        if (value && !strcmp(value, text))
            return row;
    }
    return NULL;
}

/* Returns the site whose requests most processes of the back end serve, or NULL. */
static const ctl_vhost_t *holder_of(const ctl_status_t *status, const char *address, json_int_t *ret_serving)
{
    const ctl_vhost_t *holder = NULL;
    const json_t *row;
    size_t i;

    *ret_serving = 0;
    for (i = 0; i < status->nvhosts; i++) {
        row = row_of(&status->vhosts[i], "backends", "address", address);
        if (!row || ctl_number_of(row, "serving") <= *ret_serving)
            continue;
        holder = &status->vhosts[i];
        *ret_serving = ctl_number_of(row, "serving");
    }
    return holder;
}

/* Says which site has the processes of a back end in whose backlog requests of the explained one wait. */
static void say_backlog_of(explain_t *explain, const char *address, json_int_t waiting)
{
    const ctl_vhost_t *vhost = explain->vhost;
    json_int_t serving;
    const ctl_vhost_t *holder = holder_of(explain->status, address, &serving);
    int is_other = holder && holder != vhost;
    char *has = holder ? ctl_printf(": %s has " N " of them", is_other ? holder->name : "the site itself", serving)
                       : ctl_printf("%s", "");

    say(explain, ctl_printf(N " request%s wait%s for %s, whose processes are all busy%s.%s More processes "
                            "(pm.max_children of PHP-FPM), or a pool for each site, help. Next: " CTL_PROGRAM " %s %s.",
                            waiting, ctl_plural(waiting), waiting == 1 ? "s" : "", address, has,
                            holder && row_of(holder, "calls", "site", vhost->name)
                            ? " Its requests there call this site in turn, so both may wait until a timeout." : "",
                            is_other ? "explain" : "show", is_other ? holder->name : vhost->name));
    free(has);
}

static void say_backlog(explain_t *explain)
{
    const json_t *row;
    const char *address;
    size_t i;

    json_array_foreach(json_object_get(explain->vhost->json, "backends"), i, row) {
        address = json_string_value(json_object_get(row, "address"));
        if (address && ctl_number_of(row, "waiting") > 0)
            say_backlog_of(explain, address, ctl_number_of(row, "waiting"));
    }
}

/* Says which sites of this server the pages call. */
static void say_calls(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(vhost->json, "calls"), i, row) {
        const char *site = json_string_value(json_object_get(row, "site"));
        json_int_t running = ctl_number_of(row, "running"), queued = ctl_number_of(row, "queued");
        int is_own = site && !strcmp(site, vhost->name);

        if (site)
            say(explain, ctl_printf("Its requests wait for requests of %s: " N " %s running and " N " %s queued. Next: "
                                    CTL_PROGRAM " %s %s.", is_own ? "the site itself" : site,
                                    running, running == 1 ? "is" : "are", queued, queued == 1 ? "is" : "are",
                                    is_own ? "show" : "explain", site));
    }
}

static void say_client(explain_t *explain)
{
    say(explain, explain->client);
}

static void say_class(explain_t *explain)
{
    say(explain, explain->clas);
}

/* Says that nothing limits the site.  A slow site is then slow by itself. */
static void say_no_cause(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;
    char *time;

    if (vhost->waiting > 0) {
        say(explain, ctl_printf("Nothing limits the site: a queued request starts at once, "
                                "or as soon as a child process has a free thread for the "
                                "site. One site gets four fifths of the threads of a child "
                                "process."));
        return;
    }
    say(explain, ctl_printf("Nothing limits the site: a new request starts at once."));
    if (!vhost->running)
        return;
    time = time_text(vhost);
    say(explain, ctl_printf("If the site is slow, queueing is not the reason: %s. Look at its "
                            "program, its database and its clients. Next: " CTL_PROGRAM
                            " show %s.", *time ? time
                            : "none of its requests has ended yet", vhost->name));
    free(time);
}

static void say_limited(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    if (vhost->limited_s > 0)
        say(explain, ctl_printf("The site has been limited for " N " s.%s",
                                vhost->limited_s, vhost->waiting ? ""
                                : " It is no longer limited when for ten seconds no request "
                                  "was refused or queued for long."));
}

static void say_waits(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    if (vhost->queued > 0)
        say(explain, ctl_printf("Since the start, " N " of " N " admitted request%s had to "
                                "wait; 99 %% of the waits took at most %s ms.",
                                vhost->queued, vhost->requests,
                                ctl_plural(vhost->requests),
                                ctl_ms((double)vhost->wait_p99_us).text));
}

/* Says where the CPU time of the site was used. */
static void say_places(explain_t *explain)
{
    const json_t *each, *backends = json_object_get(explain->vhost->json, "backends");
    char *text = ctl_printf("CPU time since the start: Apache %s ms",
                            ctl_ms(json_number_value(
                                json_object_get(explain->vhost->json, "cpu_us"))).text);
    size_t i;

    json_array_foreach(backends, i, each) {
        const char *address = json_string_value(json_object_get(each, "address"));
        char *before = text;

        text = ctl_printf("%s, %s %s ms", before, address ? address : "?",
                          ctl_ms(json_number_value(json_object_get(each, "cpu_us"))).text);
        free(before);
    }
    if (json_array_size(backends))
        say(explain, ctl_printf("%s.", text));
    free(text);
}

static void say_database(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    if (vhost->database_waits > 0)
        say(explain, ctl_printf("It waits for its database: " N " quer%s running, with %s %% of one "
                                "CPU.", vhost->database_waits,
                                vhost->database_waits == 1 ? "y is" : "ies are",
                                ctl_tenths(vhost->database_now_permille).text));
}

static void say_late(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    if (vhost->late > 0)
        say(explain, ctl_printf("Since the start, " N " request%s had waited for so long that "
                                "other clients had gone by then; newer requests went first.",
                                vhost->late, ctl_plural(vhost->late)));
}

/* Says how many requests were refused, and for which reasons. */
static void say_refusals(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;
    const struct {
        json_int_t n;
        const char *reason;
    } reasons[] = {
        { vhost->refused_concurrency, "because of the concurrency limit" },
        { vhost->refused_queue, "because the queue was full" },
        { vhost->refused_timeout, "because of the queue's timeout" }
    };
    char *text;
    const char *separator = ": ";
    size_t i;

    if (!vhost->refused)
        return;
    text = ctl_printf("Since the start, " N " request%s %s refused", vhost->refused,
                      ctl_plural(vhost->refused), vhost->refused == 1 ? "was" : "were");
    for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        char *before = text;

        if (!reasons[i].n)
            continue;
        text = ctl_printf("%s%s" N " %s", before, separator, reasons[i].n,
                          reasons[i].reason);
        separator = ", ";
        free(before);
    }
    say(explain, ctl_printf("%s.", text));
    free(text);
}

static void say_changed(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;
    int i;

    for (i = 0; i < CTL_LIMITS; i++) {
        if (vhost->configured[i] >= 0)
            say(explain, ctl_printf("The limit %s is " N " and not " N " as configured: "
                                    "vhostlimitctl has changed it.", ctl_limit_names[i],
                                    vhost->limits[i], vhost->configured[i]));
    }
}

/* Fills in explain->sentences. */
static void say_all(explain_t *explain)
{
    static void (*const says[CAUSES])(explain_t *explain) = {
        say_dryrun, say_concurrency, say_queue, say_cpu, say_slots, say_most, say_backlog,
        say_calls, say_busy, say_client, say_class
    };
    int i;

    say_now(explain);
    say_held(explain);
    for (i = 0; i < CAUSE_CLIENT; i++) {
        if (explain->has_cause[i])
            says[i](explain);
    }
    if (!explain->ncauses)
        say_no_cause(explain);
    for (i = CAUSE_CLIENT; i < CAUSES; i++) {
        if (explain->has_cause[i])
            says[i](explain);
    }
    say_limited(explain);
    say_waits(explain);
    say_database(explain);
    if (!explain->has_cause[CAUSE_CALLS])
        say_calls(explain);
    say_places(explain);
    say_late(explain);
    say_refusals(explain);
    say_changed(explain);
}

/* --- output --------------------------------------------------------------- */

json_t *ctl_explain_make(const ctl_status_t *status, const ctl_vhost_t *vhost,
                         const json_t *clients)
{
    explain_t explain = { .status = status, .vhost = vhost };
    json_t *causes = ctl_json_check(json_array());
    int i;

    explain.free = status->slots * 1000 - (status->is_partial ? status->held_permille
                                           : CTL_SUM(status, runnable_permille));
    explain.sentences = ctl_json_check(json_array());
    explain.client = ctl_explain_client(clients);
    explain.clas = ctl_explain_class(clients);
    find_causes(&explain);
    say_all(&explain);
    for (i = 0; i < CAUSES; i++) {
        if (explain.has_cause[i])
            json_array_append_new(causes, ctl_json_check(json_string(cause_names[i])));
    }
    return ctl_json_check(json_pack("{s:s, s:s, s:o, s:o}", "vhost", vhost->name,
                                    "state", vhost->state, "causes", causes,
                                    "sentences", explain.sentences));
}

static void print_text(const json_t *made)
{
    const json_t *sentence;
    size_t i;

    ctl_put_plain(stdout, json_string_value(json_object_get(made, "vhost")));
    puts(":");
    json_array_foreach(json_object_get(made, "sentences"), i, sentence) {
        ctl_put_plain(stdout, json_string_value(sentence));
        puts("");
    }
}

/* Adds a sentence, which is freed; NULL: none. */
static void add_no_worker(const json_t *made, char *sentence)
{
    char *text;

    if (!sentence)
        return;
    text = ctl_printf("%s.", sentence);
    json_array_append_new(json_object_get(made, "sentences"), ctl_json_check(json_string(text)));
    free(text);
    free(sentence);
}

static void print_explanation(const ctl_call_t *call, const ctl_status_t *status,
                              const ctl_vhost_t *vhost)
{
    static const char *const words[] = { "modules", NULL };
    ctl_answer_t clients = { 0 }, modules = { 0 };
    ctl_error_t error = { 0 };
    int is_known = ctl_clients_ask(call, vhost->name, &clients, &error) == CTL_DONE;
    json_t *made = ctl_explain_make(status, vhost, is_known ? clients.json : NULL);

    if (ctl_client_ask(call->socket, words, NULL, &modules, &error) == CTL_DONE)
        add_no_worker(made, ctl_explain_no_worker(modules.json, vhost->name));
    if (call->json)
        ctl_json_print(made);
    else
        print_text(made);
    json_decref(made);
    ctl_client_free(&clients);
    ctl_client_free(&modules);
}

/* --- the command ---------------------------------------------------------- */

/* Asks for the site alone first: the server resolves a ServerName, and its answer has the
 * name of the account.  Returns NULL and fills in *error if there is no such site. */
static char *find_name(const ctl_call_t *call, ctl_error_t *error)
{
    ctl_state_t one;
    char *name = NULL;

    if (ctl_state_ask(call, call->args[0], &one, error) != CTL_DONE)
        return NULL;
    if (one.status.nvhosts == 1)
        name = ctl_printf("%s", one.status.vhosts[0].name);
    else
        ctl_error_set(error, CTL_UNAVAILABLE, "the answer describes %zu sites in place of "
                      "one", one.status.nvhosts);
    ctl_state_free(&one);
    return name;
}

ctl_exit_e ctl_explain(const ctl_call_t *call, ctl_error_t *error)
{
    char *name = find_name(call, error);
    ctl_state_t all;
    size_t i;

    if (!name)
        return error->status;
    if (ctl_state_ask(call, NULL, &all, error) == CTL_DONE) {
        for (i = 0; i < all.status.nvhosts; i++) {
            if (!strcmp(all.status.vhosts[i].name, name))
                break;
        }
        if (i < all.status.nvhosts)
            print_explanation(call, &all.status, &all.status.vhosts[i]);
        else
            ctl_error_set(error, CTL_REFUSED, "'%s' has left the configuration just now",
                          name);
        ctl_state_free(&all);
    }
    free(name);
    return error->status;
}
