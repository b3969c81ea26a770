/* SPDX-License-Identifier: Apache-2.0 */
/* The command collect: asks the server once a minute and writes the history.  It runs until a
 * signal ends it.  Its state is in memory: after a crash the minute of the crash is missing,
 * and the file is whole. */
#include "ctl_collect.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl_command.h"

#define MINUTE_MS 60000
/* An interval that is shorter gives no figures. */
#define SHORTEST_MS 5000
/* A longer interval is no figure of a minute. */
#define SECONDS_MAX 86400

/* --- time ----------------------------------------------------------------- */

static ctl_moment_t moment_now(void)
{
    return (ctl_moment_t){ ctl_clock_ms(CLOCK_REALTIME), ctl_clock_ms(CLOCK_BOOTTIME) };
}

uint32_t ctl_collect_seconds(const ctl_figures_t *now, const ctl_figures_t *before,
                             const ctl_moment_t *at, const ctl_moment_t *before_at)
{
    long long seconds = (at->steady_ms - before_at->steady_ms + 500) / 1000;
    long long uptime = (now->now_us - now->started_us) / 1000000;

    if (now->started_us != before->started_us && uptime < seconds)
        seconds = uptime;
    return seconds < 1 ? 1 : seconds > SECONDS_MAX ? SECONDS_MAX : (uint32_t)seconds;
}

uint32_t ctl_collect_minute(const ctl_moment_t *at, uint32_t seconds)
{
    long long half_ms = (seconds < 60 ? seconds : 60) * 500LL;

    return at->real_ms > half_ms ? (uint32_t)((at->real_ms - half_ms) / MINUTE_MS) : 0;
}

long long ctl_collect_wait_ms(long long real_ms)
{
    long long left = MINUTE_MS - (real_ms % MINUTE_MS + MINUTE_MS) % MINUTE_MS;

    return left < SHORTEST_MS ? left + MINUTE_MS : left;
}

/* --- one minute ----------------------------------------------------------- */

/* Puts the sites and the server into the store's minute. */
static void put_figures(ctl_store_t *store, const ctl_figures_t *now,
                        const ctl_figures_t *before, uint32_t minute, uint32_t seconds)
{
    int is_same_run = now->started_us == before->started_us;
    ctl_count_t all, count;
    size_t i, from = 0;

    memset(&all, 0, sizeof(all));
    ctl_store_begin(store, minute, seconds);
    for (i = 0; i < now->nsites; i++) {
        const ctl_site_t *site = &now->sites[i], *was = is_same_run
            ? ctl_figures_find(before, site->name, &from) : NULL;

        memset(&count, 0, sizeof(count));
        ctl_count_add(&count, site, was);
        ctl_count_add(&all, site, was);
        ctl_count_end(&count, now, seconds);
        ctl_store_put(store, site->name, count.figures);
    }
    ctl_count_end(&all, now, seconds);
    ctl_store_put(store, "", all.figures);
}

/* --- the collector -------------------------------------------------------- */

typedef struct collector_t {
    const char *socket;
    ctl_store_t *store;
    ctl_figures_t before;           /* the last answer */
    ctl_moment_t before_at;
    int has_before;
    char trouble[1024];             /* what is wrong now, and was said; "": nothing */
} collector_t;

/* Says once what is wrong, and once that it is over. */
static void say(collector_t *collector, const char *trouble, const char *consequence)
{
    if (!strcmp(trouble, collector->trouble))
        return;
    if (*trouble) {
        fprintf(stderr, CTL_PROGRAM ": ");
        ctl_put_plain(stderr, trouble);
        fprintf(stderr, "; %s\n", consequence);
    }
    else
        fprintf(stderr, CTL_PROGRAM ": the history goes on\n");
    snprintf(collector->trouble, sizeof(collector->trouble), "%s", trouble);
}

/* Asks the server and writes what was counted since the last answer. */
static void collect_once(collector_t *collector)
{
    ctl_error_t error = { .status = CTL_DONE };
    ctl_figures_t now;
    ctl_moment_t at;

    if (ctl_figures_ask(collector->socket, &now, &error) != CTL_DONE) {
        say(collector, error.text, "the history has no figures until there is an answer");
        return;
    }
    at = moment_now();
    if (collector->has_before) {
        uint32_t seconds = ctl_collect_seconds(&now, &collector->before, &at,
                                               &collector->before_at);

        put_figures(collector->store, &now, &collector->before,
                        ctl_collect_minute(&at, seconds), seconds);
        ctl_store_end(collector->store, &error);
    }
    say(collector, error.status == CTL_DONE ? "" : error.text,
        "the figures of this minute are lost");
    ctl_figures_free(&collector->before);
    collector->before = now;
    collector->before_at = at;
    collector->has_before = 1;
}

/* Runs until a signal ends it. */
static void run(collector_t *collector)
{
    sigset_t signals;
    struct timespec limit;
    long long ms;
    int number;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    do {
        collect_once(collector);
        ms = ctl_collect_wait_ms(ctl_clock_ms(CLOCK_REALTIME));
        limit = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
        number = sigtimedwait(&signals, NULL, &limit);
    } while (number <= 0 || number == SIGUSR1);
    collect_once(collector);
}

ctl_exit_e ctl_collect(const ctl_call_t *call, ctl_error_t *error)
{
    collector_t collector = { .socket = call->socket };
    ctl_moment_t now = moment_now();

    collector.store = ctl_store_open(call->file ? call->file : CTL_HISTORY_PATH,
                                     ctl_collect_minute(&now, 0), error);
    if (!collector.store)
        return error->status;
    run(&collector);
    ctl_figures_free(&collector.before);
    ctl_store_close(collector.store);
    return CTL_DONE;
}
