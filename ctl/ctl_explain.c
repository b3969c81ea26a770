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
    CAUSE_NEIGHBOR,             /* this and the next one: only if no other cause limits the site */
    CAUSE_THREADS,
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
    json_int_t concurrency, cpu_permille;   /* the limits that apply; 0: none */
    char *client, *clas;        /* sentences about the queue inside the site, or NULL */
    int has_cause[CAUSES];
    int ncauses;                /* that limit the site */
    json_t *sentences;
} explain_t;

static const char *const cause_names[CAUSES] = {
    "dryrun", "concurrency", "queue", "cpu", "slots", "most", "backlog", "calls", "neighbor", "threads",
    "client", "class"
};

/* --- causes --------------------------------------------------------------- */

/* The module keeps some slots free for other sites (may_take_slot() in core/vl_slot.c): a fifth
 * of automatic ones for sites that hold none; of others, a site of average weight may hold four
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

/* Returns the limit that applies: the smaller one of that of the configuration and of the site's
 * part of it from vhostlimit-fleet. 0: there is none. */
static json_int_t limit_of(json_int_t configured, json_int_t part)
{
    return !configured || (part && part < configured) ? part : configured;
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
        has[CAUSE_CONCURRENCY] = explain->concurrency > 0
                                 && vhost->running >= explain->concurrency;
        has[CAUSE_QUEUE] = vhost->waiting > 0
                           && vhost->waiting >= vhost->limits[CTL_QUEUE];
        /* It uses at least nine tenths of its CPU limit. */
        has[CAUSE_CPU] = vhost->running + vhost->waiting > 0 && explain->cpu_permille > 0
                         && vhost->cpu_now_permille * 10 >= explain->cpu_permille * 9;
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
    if (!explain->ncauses && vhost->waiting > 0)
        has[CAUSE_THREADS] = explain->ncauses = 1;
    has[CAUSE_CLIENT] = explain->client != NULL;
    has[CAUSE_CLASS] = explain->clas != NULL;
}

/* --- sentences ------------------------------------------------------------ */

/* Adds a sentence. */
__attribute__((format(printf, 2, 3)))
static void say(explain_t *explain, const char *format, ...)
{
    va_list args;
    char *sentence;

    va_start(args, format);
    sentence = ctl_vprintf(format, args);
    va_end(args);
    json_array_append_new(explain->sentences, ctl_json_check(json_string(sentence)));
    free(sentence);
}

static const char *is_or_are(json_int_t n)
{
    return n == 1 ? "is" : "are";
}

/* Returns what a site holds: "0.6 of 8 slots (6 running, duty 10 %)". Requests that hold a whole
 * slot each, because they compute or VhostLimitSlots is a number, need no explanation. */
static char *held_text(const ctl_status_t *status, const ctl_vhost_t *vhost)
{
    char *text = ctl_printf("%s of " N " slots (" N " running",
                            ctl_slots(vhost->runnable_permille).text, status->slots,
                            vhost->running);

    if (vhost->asleep)
        ctl_append(&text, ", " N " of them asleep", vhost->asleep);
    if (vhost->duty_permille && vhost->runnable_permille != vhost->running * 1000)
        ctl_append(&text, ", duty %s %%", ctl_tenths(vhost->duty_permille).text);
    ctl_append(&text, ")");
    return text;
}

static void say_now(explain_t *explain)
{
    json_int_t running = explain->vhost->running, waiting = explain->vhost->waiting;
    char *queued = !waiting ? ctl_printf(running ? "and none is" : "or")
                            : ctl_printf("and " N " %s", waiting, is_or_are(waiting));
    char *held = held_text(explain->status, explain->vhost);

    if (running) {
        say(explain, N " request%s %s running %s queued now.", running, ctl_plural(running),
            is_or_are(running), queued);
        say(explain, "The site holds %s.", held);
    }
    else
        say(explain, "No request is running %s queued now.", queued);
    free(queued);
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

        say(explain, "%s holds %s.", others[i]->name, held);
        free(held);
    }
    if (n > HOLDERS_MOST)
        say(explain, "%zu more site%s hold%s the rest.", n - HOLDERS_MOST,
            ctl_plural((json_int_t)(n - HOLDERS_MOST)), n == HOLDERS_MOST + 1 ? "s" : "");
    free(others);
}

static void say_dryrun(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    say(explain, "VhostLimit DryRun is set: no request is delayed or refused. Since the start, "
        N " request%s would have been queued and " N " would have been refused. Next: "
        CTL_PROGRAM " report.", vhost->would_queue, ctl_plural(vhost->would_queue),
        vhost->would_refuse);
}

static void say_concurrency(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;
    char *time = vhost->service_us > 0
                 ? ctl_printf(" (they take %s ms)", ctl_ms((double)vhost->service_us).text) : NULL;

    if (explain->concurrency != vhost->limits[CTL_CONCURRENCY])
        say(explain, "This server's part of the fleet's concurrency limit is reached: " N " of " N
            " requests are running. Make the requests faster%s. Next: " CTL_PROGRAM " fleet.",
            vhost->running, explain->concurrency, time ? time : "");
    else
        say(explain, "The concurrency limit is reached: " N " of " N " requests are running "
            "(VhostLimitConcurrency). %s Raise the limit, or make the requests faster%s. Next: "
            CTL_PROGRAM " set %s concurrency=" N ".", vhost->running,
            vhost->limits[CTL_CONCURRENCY], vhost->limits[CTL_QUEUE]
            ? "The next request is queued until one of them ends."
            : "The next request is refused, because VhostLimitQueue is 0.", time ? time : "",
            vhost->name, 2 * vhost->limits[CTL_CONCURRENCY]);
    free(time);
}

static void say_queue(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    say(explain, "The queue is full: " N " request%s %s queued, VhostLimitQueue is " N ". " N
        " more connection%s %s for a place in the queue and %s refused if none becomes free in "
        "time. Next: " CTL_PROGRAM " clients %s.", vhost->waiting, ctl_plural(vhost->waiting),
        is_or_are(vhost->waiting), vhost->limits[CTL_QUEUE], vhost->deferred,
        ctl_plural(vhost->deferred), vhost->deferred == 1 ? "waits" : "wait",
        is_or_are(vhost->deferred), vhost->name);
}

static void say_cpu(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    if (explain->cpu_permille != vhost->limits[CTL_CPU] * 10) {
        say(explain, "This server's part of the fleet's CPU limit is reached: the site uses %s %% of "
            "one CPU, its part is %s %%. Queued requests start as time passes. Next: " CTL_PROGRAM
            " fleet.", ctl_tenths(vhost->cpu_now_permille).text,
            ctl_tenths(explain->cpu_permille).text);
        return;
    }
    say(explain, "The CPU limit is reached: the site uses %s %% of one CPU, VhostLimitCPU is " N
        "%%. Running requests are slowed down, and queued requests start as time passes. Raise "
        "cpu to give the site more. Next: " CTL_PROGRAM " set %s cpu=" N "%%.",
        ctl_tenths(vhost->cpu_now_permille).text, vhost->limits[CTL_CPU], vhost->name,
        2 * vhost->limits[CTL_CPU]);
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
        say(explain, "See docs/guides/sizing.md.");
        return;
    }
    cost = vhost->requests > 0
           ? ctl_printf(" Since the start, queueing has added %s ms to each request of this "
                        "site on average.",
                        ctl_ms((double)vhost->wait_us / (double)vhost->requests).text) : NULL;
    say(explain, "The loudest other site is %s: it uses %s %% of one CPU now.%s Next: "
        CTL_PROGRAM " explain %s.", other->name, ctl_tenths(other->cpu_now_permille).text,
        cost ? cost : "", other->name);
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

    say(explain, "All " N " slots of the server are held.", explain->status->slots);
    if (explain->status->is_partial)
        return;
    share = share_text(explain);
    say_holders(explain);
    say(explain, "%s %s", share, slots_text(explain->status));
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

    say(explain, "Requests of the site start at once, but the CPUs are busy: all sites together "
        "use %s %% of " N " %%, and this one uses %s %%%s%s.",
        ctl_tenths(CTL_SUM(status, cpu_now_permille)).text, status->processors * 100,
        ctl_tenths(explain->vhost->cpu_now_permille).text, *time ? "; " : "", time);
    free(time);
    say_neighbor(explain);
}

static void say_most(explain_t *explain)
{
    say_holders(explain);
    say(explain, "The last %s slots are kept for sites that hold few. Next: " CTL_PROGRAM
        " show %s.", ctl_slots(explain->free).text, explain->vhost->name);
}

/* Returns the row of a list whose key has this text, or NULL. */
static const json_t *row_of(const ctl_vhost_t *vhost, const char *list, const char *key, const char *text)
{
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(vhost->json, list), i, row) {
        if (!strcmp(ctl_text_of(row, key), text))
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
static void say_backlog(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(vhost->json, "backends"), i, row) {
        const char *address = ctl_text_of(row, "address");
        json_int_t waiting = ctl_number_of(row, "waiting"), serving;
        const ctl_vhost_t *holder = holder_of(explain->status, address, &serving);
        int is_other = holder && holder != vhost;
        char *has = holder ? ctl_printf(": %s has " N " of them",
                                        is_other ? holder->name : "the site itself", serving) : NULL;

        if (*address && waiting > 0)
            say(explain, N " request%s wait%s for %s, whose processes are all busy%s.%s More "
                "processes (pm.max_children of PHP-FPM), or a pool for each site, help. Next: "
                CTL_PROGRAM " %s %s.", waiting, ctl_plural(waiting), waiting == 1 ? "s" : "",
                address, has ? has : "", holder && row_of(holder, "calls", "site", vhost->name)
                ? " Its requests there call this site in turn, so both may wait until a timeout." : "",
                is_other ? "explain" : "show", is_other ? holder->name : vhost->name);
        free(has);
    }
}

/* Says which sites of this server the pages call. */
static void say_calls(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(vhost->json, "calls"), i, row) {
        const char *site = ctl_text_of(row, "site");
        json_int_t running = ctl_number_of(row, "running"), queued = ctl_number_of(row, "queued");
        int is_own = !strcmp(site, vhost->name);

        if (*site)
            say(explain, "Its requests wait for requests of %s: " N " %s running and " N " %s queued. Next: "
                CTL_PROGRAM " %s %s.", is_own ? "the site itself" : site, running,
                is_or_are(running), queued, is_or_are(queued), is_own ? "show" : "explain", site);
    }
}

static void say_threads(explain_t *explain)
{
    say(explain, "No limit keeps a queued request from starting: it starts as soon as a child "
        "process has a free thread for the site. One site gets four fifths of the threads of a "
        "child process. If requests stay queued, raise MaxRequestWorkers. Next: " CTL_PROGRAM
        " doctor.");
}

/* Says that nothing limits the site.  A slow site is then slow by itself. */
static void say_no_cause(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;
    char *time;

    say(explain, "Nothing limits the site: a new request starts at once.");
    if (!vhost->running)
        return;
    time = time_text(vhost);
    say(explain, "If the site is slow, queueing is not the reason: %s. Look at its program, its "
        "database and its clients. Next: " CTL_PROGRAM " show %s.",
        *time ? time : "none of its requests has ended yet", vhost->name);
    free(time);
}

/* Says since when the site is limited, how long its requests have waited, and for its database. */
static void say_waits(explain_t *explain)
{
    const ctl_vhost_t *vhost = explain->vhost;

    if (vhost->limited_s > 0)
        say(explain, "The site has been limited for " N " s.%s", vhost->limited_s, vhost->waiting
            ? "" : " It is no longer limited when for ten seconds no request was refused or "
            "queued for long.");
    if (vhost->queued > 0)
        say(explain, "Since the start, " N " of " N " admitted request%s had to wait; 99 %% of "
            "the waits took at most %s ms.", vhost->queued, vhost->requests,
            ctl_plural(vhost->requests), ctl_ms((double)vhost->wait_p99_us).text);
    if (vhost->database_waits > 0)
        say(explain, "It waits for its database: " N " quer%s running, with %s %% of one CPU.",
            vhost->database_waits, vhost->database_waits == 1 ? "y is" : "ies are",
            ctl_tenths(vhost->database_now_permille).text);
}

/* Says where the CPU time of the site was used. */
static void say_places(explain_t *explain)
{
    const json_t *each, *backends = json_object_get(explain->vhost->json, "backends");
    char *text = ctl_printf("Apache %s ms", ctl_ms(json_number_value(json_object_get(
                            explain->vhost->json, "cpu_us"))).text);
    size_t i;

    json_array_foreach(backends, i, each) {
        const char *address = ctl_text_of(each, "address");

        ctl_append(&text, ", %s %s ms", *address ? address : "?",
                   ctl_ms(json_number_value(json_object_get(each, "cpu_us"))).text);
    }
    if (json_array_size(backends))
        say(explain, "CPU time since the start: %s.", text);
    free(text);
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
    char *text = ctl_printf("%s", "");
    size_t i;

    for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i].n)
            ctl_append(&text, "%s" N " %s", *text ? ", " : ": ", reasons[i].n, reasons[i].reason);
    }
    if (vhost->refused)
        say(explain, "Since the start, " N " request%s %s refused%s.", vhost->refused,
            ctl_plural(vhost->refused), vhost->refused == 1 ? "was" : "were", text);
    free(text);
}

/* Fills in explain->sentences. */
static void say_all(explain_t *explain)
{
    static void (*const says[CAUSE_CLIENT])(explain_t *explain) = {
        say_dryrun, say_concurrency, say_queue, say_cpu, say_slots, say_most, say_backlog,
        say_calls, say_busy, say_threads
    };
    const ctl_vhost_t *vhost = explain->vhost;
    int i;

    say_now(explain);
    for (i = 0; i < CAUSE_CLIENT; i++) {
        if (explain->has_cause[i])
            says[i](explain);
    }
    if (!explain->ncauses)
        say_no_cause(explain);
    if (explain->client)
        say(explain, "%s", explain->client);
    if (explain->clas)
        say(explain, "%s", explain->clas);
    say_waits(explain);
    if (!explain->has_cause[CAUSE_CALLS])
        say_calls(explain);
    say_places(explain);
    if (vhost->late > 0)
        say(explain, "Since the start, " N " request%s had waited for so long that other clients "
            "had gone by then; newer requests went first.", vhost->late, ctl_plural(vhost->late));
    say_refusals(explain);
    for (i = 0; i < CTL_LIMITS; i++) {
        if (vhost->configured[i] >= 0)
            say(explain, "The limit %s is " N " and not " N " as configured: vhostlimitctl has "
                "changed it.", ctl_limit_names[i], vhost->limits[i], vhost->configured[i]);
    }
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
    explain.concurrency = limit_of(vhost->limits[CTL_CONCURRENCY], vhost->fleet_concurrency);
    explain.cpu_permille = limit_of(vhost->limits[CTL_CPU] * 10, vhost->fleet_cpu_permille);
    explain.sentences = ctl_json_check(json_array());
    explain.client = ctl_explain_client(clients);
    explain.clas = ctl_explain_class(clients);
    find_causes(&explain);
    say_all(&explain);
    free(explain.client);
    free(explain.clas);
    for (i = 0; i < CAUSES; i++) {
        if (explain.has_cause[i])
            json_array_append_new(causes, ctl_json_check(json_string(cause_names[i])));
    }
    return ctl_json_check(json_pack("{s:s, s:s, s:o, s:o}", "vhost", vhost->name,
                                    "state", vhost->state, "causes", causes,
                                    "sentences", explain.sentences));
}

static void print_explanation(const ctl_call_t *call, const ctl_status_t *status,
                              const ctl_vhost_t *vhost)
{
    static const char *const words[] = { "modules", NULL };
    ctl_answer_t clients = { 0 }, modules = { 0 };
    ctl_error_t error = { 0 };
    int is_known = ctl_clients_ask(call, vhost->name, &clients, &error) == CTL_DONE;
    json_t *made = ctl_explain_make(status, vhost, is_known ? clients.json : NULL);
    json_t *sentences = json_object_get(made, "sentences"), *sentence;
    char *no_worker = NULL;
    size_t i;

    if (ctl_client_ask(call->socket, words, NULL, &modules, &error) == CTL_DONE)
        no_worker = ctl_explain_no_worker(modules.json, vhost->name);
    if (no_worker) {
        ctl_append(&no_worker, ".");
        json_array_append_new(sentences, ctl_json_check(json_string(no_worker)));
    }
    if (call->json)
        ctl_json_print(made);
    else {
        ctl_put_plain(stdout, vhost->name);
        puts(":");
        json_array_foreach(sentences, i, sentence) {
            ctl_put_plain(stdout, json_string_value(sentence));
            puts("");
        }
    }
    free(no_worker);
    json_decref(made);
    ctl_client_free(&clients);
    ctl_client_free(&modules);
}

/* --- the command ---------------------------------------------------------- */

/* Asks for the site alone first, for the name of the account. */
ctl_exit_e ctl_explain(const ctl_call_t *call, ctl_error_t *error)
{
    ctl_state_t one, all;
    const char *name;
    size_t i;

    if (ctl_state_ask(call, call->args[0], &one, error) != CTL_DONE)
        return error->status;
    name = one.status.vhosts[0].name;
    if (ctl_state_ask(call, NULL, &all, error) == CTL_DONE) {
        for (i = 0; i < all.status.nvhosts && strcmp(all.status.vhosts[i].name, name) != 0; i++)
            ;
        if (i < all.status.nvhosts)
            print_explanation(call, &all.status, &all.status.vhosts[i]);
        else
            ctl_error_set(error, CTL_REFUSED, "'%s' has left the configuration just now",
                          name);
        ctl_state_free(&all);
    }
    ctl_state_free(&one);
    return error->status;
}
