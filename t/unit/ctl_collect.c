/* SPDX-License-Identifier: Apache-2.0 */
/* What collect and watch make of two answers of the server. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "ctl_collect.h"
#include "ctl_watch.h"

static const char answer[] =
    "{\"schema\":1,\"now_us\":90000000,\"started_us\":30000000,\"configured_us\":30000000,"
    "\"children_lost\":0,\"requests_lost\":0,\"slots\":4,\"processors\":2,"
    "\"wait_limits_us\":[0,10,20,30],\"columns\":[\"name\",\"mode\",\"weight\","
    "\"concurrency\",\"queue\",\"cpu\",\"limited_s\",\"running\",\"runnable_permille\",\"waiting\",\"deferred\","
    "\"requests\",\"queued\",\"refused\",\"refused_concurrency\",\"refused_queue\","
    "\"refused_timeout\",\"gone\",\"wait_us\",\"busy_us\",\"charged_us\",\"database_us\",\"waits\"],"
    "\"sites\":[[\"b\\u00fc.test\",1,100,2,10,0,0,1,800,3,2,100,50,7,1,2,4,6,9,8,5000,3000,"
    "[0,90,3,10]]]}";

static void reading(void)
{
    json_t *json = json_loads(answer, 0, NULL);
    ctl_error_t error;
    ctl_figures_t figures;
    char *text;

    ok(ctl_figures_read(json, &figures, &error) == CTL_DONE && figures.nsites == 1
       && figures.sites[0].charged_us == 5000 && figures.sites[0].database_us == 3000
       && figures.sites[0].waits[3] == 10,
       "an answer is read");
    ok(!strcmp(figures.sites[0].name, "b\xfc.test"), "a name has the bytes of the server");
    text = ctl_name_to_text(figures.sites[0].name);
    ok(!strcmp(text, "b\xc3\xbc.test"), "and is text again");
    free(text);
    ctl_figures_free(&figures);
    json_object_del(json, "slots");
    ok(ctl_figures_read(json, &figures, &error) == CTL_UNAVAILABLE
       && strstr(error.text, "\"slots\""), "a member is missing");
    json_decref(json);
}

static void differences(void)
{
    ctl_figures_t figures = { .nlimits = 4, .wait_limits_us = { 0, 10, 20, 30 } };
    ctl_site_t before = { .requests = 100, .charged_us = 500, .refused = 5, .wait_us = 100,
                          .waits = { 90, 10 } };
    ctl_site_t now = { .requests = 300, .charged_us = 700, .refused = 5, .waiting = 2,
                       .deferred = 1, .wait_us = 600000100, .waits = { 288, 11, 1 } };
    ctl_count_t count;

    memset(&count, 0, sizeof(count));
    ctl_count_add(&count, &now, &before);
    ctl_count_end(&count, &figures, 60);
    ok(count.figures[CTL_HISTORY_requests] == 200 && count.figures[CTL_HISTORY_cpu_us] == 200
       && count.figures[CTL_HISTORY_refused] == 0, "counters are subtracted");
    ok(count.figures[CTL_HISTORY_wait_p99_us] == 0, "the percentile is that of the interval");
    ok(count.figures[CTL_HISTORY_waiting] == 10,
       "waiting requests: 600 s of waiting in 60 s are ten at a time");
    memset(&count, 0, sizeof(count));
    now.waits[2] = 4;
    ctl_count_add(&count, &now, &before);
    ctl_count_end(&count, &figures, 600);
    ok(count.figures[CTL_HISTORY_wait_p99_us] == 20, "one in fifty waited for longer");
    ok(count.figures[CTL_HISTORY_waiting] == 3, "no less than those that wait now");
    memset(&count, 0, sizeof(count));
    before.requests = 301;
    ctl_count_add(&count, &now, &before);
    ok(count.figures[CTL_HISTORY_requests] == 300, "counters that began again");
    memset(&count, 0, sizeof(count));
    ctl_count_add(&count, &now, NULL);
    ok(count.figures[CTL_HISTORY_requests] == 300, "a new site");
}

static void times(void)
{
    ctl_figures_t now = { .now_us = 500000000, .started_us = 1 }, before = now;
    ctl_moment_t at = { 120200, 90000 }, before_at = { 60200, 30000 };

    ok(ctl_collect_seconds(&now, &before, &at, &before_at) == 60, "a minute");
    ok(ctl_collect_minute(&at, 60) == 1, "the minute that is over");
    at.real_ms = 119990;
    ok(ctl_collect_minute(&at, 60) == 1, "also when its end is seen too early");
    at.real_ms = 130000;
    ok(ctl_collect_minute(&at, 10) == 2, "a part of a minute belongs to it");
    ok(ctl_collect_minute(&at, 600) == 1, "a long interval to the last whole minute");
    now.started_us = 480000000;
    ok(ctl_collect_seconds(&now, &before, &at, &before_at) == 20,
       "a server that was started in between has counted since its start");
    now.started_us = 600000000;
    ok(ctl_collect_seconds(&now, &before, &at, &before_at) == 1,
       "at least a second, whatever the clock was set to");
    ok(ctl_collect_wait_ms(120200) == 59800 && ctl_collect_wait_ms(119000) == 61000,
       "the next minute, or the one after it if it begins at once");
}

/* --- watch ---------------------------------------------------------------- */

static char events[1000];

static void put(void *baton, json_t *json)
{
    const char *site = json_string_value(json_object_get(json, "site"));
    const char *state = json_string_value(json_object_get(json, "state"));

    snprintf(events + strlen(events), sizeof(events) - strlen(events), "%s%s%s%s%s ",
             json_string_value(json_object_get(json, "event")), site ? ":" : "",
             site ? site : "", state ? ":" : "", state ? state : "");
    json_decref(json);
}

/* Compares an answer and returns 1 if these are the events. */
static int tells(ctl_watch_t *watch, const ctl_figures_t *now, int seconds,
                 const char *expected)
{
    events[0] = '\0';
    ctl_watch_compare(watch, now, seconds * 1000LL);
    if (strcmp(events, expected) != 0)
        printf("# %s\n", events);
    return !strcmp(events, expected);
}

static void watching(void)
{
    ctl_site_t sites[3] = { { .name = "a", .concurrency = 2, .refused = 5 }, { .name = "b" },
                            { .name = "c" } };
    ctl_figures_t now = { .sites = sites, .nsites = 2, .slots = 4 };
    ctl_watch_t *watch = ctl_watch_begin(NULL, put, NULL);

    ok(tells(watch, &now, 1, ""), "nothing has happened before the first answer");
    sites[0].waiting = 1;
    sites[0].running = 2;
    ok(tells(watch, &now, 2, "queue:a:begin limit:a:begin "), "a queue and a limit");
    ok(tells(watch, &now, 3, ""), "are told once");
    sites[0].refused = 8;
    ok(tells(watch, &now, 4, "refused:a "), "refusals");
    sites[0].refused = 9;
    ok(tells(watch, &now, 5, ""), "not each second");
    sites[0].waiting = 0;
    sites[0].running = 1;
    ok(tells(watch, &now, 12, ""), "an alert stays for ten seconds");
    sites[0].running = 2;
    ok(tells(watch, &now, 14, "refused:a "), "the later refusals");
    ok(tells(watch, &now, 15, "queue:a:over "), "and is over then");
    sites[0].running = 0;
    ok(tells(watch, &now, 25, "limit:a:over "), "the other one later");
    sites[1].weight = 7;
    now.configured_us = 9;
    now.children_lost = 1;
    ok(tells(watch, &now, 26, "configured child_lost limits_changed:b "),
       "configuration, child process and limits");
    sites[0].waiting = sites[1].waiting = 1;
    sites[0].running = 40;
    sites[0].runnable_permille = 3999;
    sites[0].concurrency = 0;
    ok(tells(watch, &now, 27, "limits_changed:a queue:a:begin queue:b:begin "),
       "requests that sleep are no overload");
    sites[0].runnable_permille = 4000;
    ok(tells(watch, &now, 28, "overload:begin "), "overload");
    sites[0] = sites[2];
    now.nsites = 1;
    ok(tells(watch, &now, 40, "site_added:c site_removed:a site_removed:b overload:over "),
       "sites that are added and removed");
    events[0] = '\0';
    ctl_watch_lost(watch, "no answer");
    ctl_watch_lost(watch, "no answer");
    ok(!strcmp(events, "server_lost "), "the server is lost once");
    ok(tells(watch, &now, 41, "server_back "), "and is back");
    ctl_watch_end(watch);

    watch = ctl_watch_begin("C", put, NULL);
    tells(watch, &now, 1, "");
    sites[0].waiting = 1;
    sites[1].waiting = 1;
    now.nsites = 2;
    now.children_lost++;
    ok(tells(watch, &now, 2, "queue:c:begin "), "of one site, no others and not the server");
    ctl_watch_end(watch);
}

int main(void)
{
    reading();
    differences();
    times();
    watching();
    return tap_done();
}
