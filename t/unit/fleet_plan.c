/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as text, what is rejected of them, and the plan that a server makes of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fleet_plan.h"
#include "tap.h"

#define HEAD "vhostlimit-fleet 1 web1 17 5 1000000 "

static fleet_report_t report;

static const char *parse(const char *text)
{
    return fleet_report_parse(text, strlen(text), &report);
}

static void rejects(const char *text, const char *why)
{
    const char *wrong = parse(text);

    ok(wrong && !report.entries && !report.text, "%s: %s", why, wrong ? wrong : "accepted");
    fleet_report_free(&report);
}

static void reads_reports(void)
{
    char *text;
    size_t len;

    ok(!parse(HEAD "2\na.example\t100\t300\t1000000\t7\nthe group\t1\t0\t0\t0\n"),
       "a report is read");
    ok(!strcmp(report.server, "web1") && report.start == 17 && report.sequence == 5
       && report.capacity == 1000000 && report.nentries == 2, "its first line");
    ok(!strcmp(report.entries[0].name, "a.example") && report.entries[0].weight == 100
       && report.entries[0].used == 300 && report.entries[0].wanted == 1000000
       && report.entries[0].requests == 7, "a row");
    ok(!strcmp(report.entries[1].name, "the group"), "a name with a space");
    text = fleet_report_write(&report, &len);
    ok(len == strlen(text) && strstr(text, HEAD "2\na.example\t100\t300\t1000000\t7\nthe group"),
       "it is written as it was read");
    fleet_report_free(&report);
    free(text);
    ok(!parse(HEAD "0\n") && !report.nentries, "a report without rows");
    fleet_report_free(&report);
}

static void rejects_reports(void)
{
    char *name = malloc(400);

    rejects("", "nothing");
    rejects("vhostlimit-fleet 2 web1 17 5 1000000 0\n", "another version");
    rejects("vhostlimit-fleet 1 web/1 17 5 1000000 0\n", "a name with a slash");
    rejects("vhostlimit-fleet 1 web1 17 5 99999999999999 0\n", "too much capacity");
    rejects("vhostlimit-fleet 1 web1 17 5 184467440737095516170 0\n", "an overflow");
    rejects("vhostlimit-fleet 1 web1 17 5 -1 0\n", "a negative number");
    rejects(HEAD "99999\na\t1\t0\t0\t0\n", "fewer rows than announced");
    rejects(HEAD "0\na\t1\t0\t0\t0\n", "more rows than announced");
    rejects(HEAD "1\na\t0\t0\t0\t0\n", "a weight of 0");
    rejects(HEAD "1\na\t10001\t0\t0\t0\n", "a weight that is too large");
    rejects(HEAD "1\na\t1\tnan\t0\t0\n", "no number");
    rejects(HEAD "1\na\t1\t1e9\t0\t0\n", "another notation");
    rejects(HEAD "1\na\t1\t0\t0\t0", "an unfinished row");
    rejects(HEAD "1\n\t1\t0\t0\t0\n\n", "an empty name");
    rejects(HEAD "1\na\x1b[m\t1\t0\t0\t0\n", "a control character");
    memset(name, 'a', 399);
    name[399] = '\0';
    rejects(name, "no report at all");
    ok(fleet_report_parse("a\0b", 3, &report) != NULL, "a zero byte");
    free(name);
}

/* --- plans ------------------------------------------------------------------ */

#define SERVERS 3

static fleet_report_t reports[SERVERS];
static const fleet_report_t *const list[SERVERS] = { &reports[0], &reports[1], &reports[2] };

/* A on all three servers, B on the last one; one processor each. */
static void make_fleet(void)
{
    static fleet_entry_t rows[SERVERS][2];
    size_t s;

    for (s = 0; s < SERVERS; s++) {
        rows[s][0] = (fleet_entry_t) { "a", 100, 4, 500000, 1000000 };
        rows[s][1] = (fleet_entry_t) { "b", 100, 2, 500000, 1000000 };
        reports[s] = (fleet_report_t) { .capacity = 1000000, .entries = rows[s],
                                        .nentries = s == 2 ? 2 : 1 };
    }
}

static void weights(void)
{
    const fleet_limits_t limits = { NULL, 0, 0.01 };
    fleet_plan_t plan;

    make_fleet();
    fleet_plan_make(list, SERVERS, 0, &limits, &plan);
    ok(plan.nshares == 1 && plan.shares[0].weight == 100 && isinf(plan.level),
       "a server that has one site leaves its weight");
    ok(plan.sites == 2 && plan.rows == 4 && plan.contended == 1, "what is in the fleet");
    ok(plan.shares[0].used == 1500000 && plan.shares[0].servers == 3, "what the site has");
    fleet_plan_free(&plan);
    fleet_plan_make(list, SERVERS, 2, &limits, &plan);
    ok(fabs(plan.shares[0].weight - 1) < 1e-6 && fabs(plan.shares[1].weight - 100) < 1e-6,
       "a site with enough elsewhere has the least weight: %f", plan.shares[0].weight);
    fleet_plan_free(&plan);
    fleet_plan_make(list, 1, 0, &limits, &plan);
    ok(plan.shares[0].weight == 100 && plan.shares[0].total == 1000000, "a server alone");
    fleet_plan_free(&plan);
}

/* The report of the first server is as hostile as the parser allows. */
static void bounds(void)
{
    const fleet_limits_t limits = { NULL, 0, 0.25 };
    fleet_entry_t *row;
    fleet_plan_t plan;

    make_fleet();
    row = &reports[0].entries[0];
    *row = (fleet_entry_t) { "a", FLEET_WEIGHT_MAX, FLEET_REQUESTS_MAX, FLEET_CPU_MAX,
                             FLEET_CPU_MAX };
    fleet_plan_make(list, SERVERS, 2, &limits, &plan);
    ok(plan.shares[0].weight == 25 && plan.shares[1].weight <= 100,
       "no report lowers a weight below the floor: %f", plan.shares[0].weight);
    fleet_plan_free(&plan);
    row->wanted = row->used = 0;
    reports[0].capacity = FLEET_CPU_MAX;
    fleet_plan_make(list, SERVERS, 2, &limits, &plan);
    ok(plan.shares[0].weight <= 100, "or raises one");
    fleet_plan_free(&plan);
}

static void parts(void)
{
    fleet_limit_t limit[] = { { (char *)"a", 1000000, 10 }, { (char *)"unknown", 1, 1 } };
    const fleet_limits_t limits = { limit, 2, 0.01 };
    uint64_t cpu = 0;
    uint32_t concurrency = 0;
    fleet_plan_t plan;
    size_t s;

    make_fleet();
    reports[2].nentries = 1;
    for (s = 0; s < SERVERS; s++) {
        fleet_plan_make(list, SERVERS, s, &limits, &plan);
        cpu += plan.shares[0].cpu;
        concurrency += plan.shares[0].concurrency;
        ok(plan.shares[0].cpu > 333000 && plan.shares[0].cpu < 334000, "a third of the limit");
        fleet_plan_free(&plan);
    }
    ok(cpu > 999000 && cpu <= 1000000 && concurrency == 10, "the parts are the whole");
    for (s = 0; s < 2; s++)
        reports[s].entries[0].wanted = reports[s].entries[0].requests = 0;
    fleet_plan_make(list, SERVERS, 0, &limits, &plan);
    ok(plan.shares[0].cpu == 1000 && plan.shares[0].concurrency == 3,
       "a server without demand has the least part, and a part of the rest");
    fleet_plan_free(&plan);
    reports[2].nentries = 2;
    fleet_plan_make(list, SERVERS, 2, &limits, &plan);
    ok(fabs(plan.shares[1].given - 500000) < 1000 && fabs(plan.shares[0].total - 500000) < 1000
       && plan.shares[0].cpu > 600000, "a limit that does not bind has a reserve");
    limit[0].cpu = 300000;
    fleet_plan_free(&plan);
    fleet_plan_make(list, SERVERS, 2, &limits, &plan);
    ok(fabs(plan.shares[1].given - 700000) < 1000, "other sites get what a limit leaves: %f",
       plan.shares[1].given);
    fleet_plan_free(&plan);
}

int main(void)
{
    reads_reports();
    rejects_reports();
    weights();
    bounds();
    parts();
    return tap_done();
}
