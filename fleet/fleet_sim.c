/* SPDX-License-Identifier: Apache-2.0 */
/* fleet-sim: simulates a fleet with the daemon's own allocation and reports. Prints how the
 * totals of the sites converge, what a daemon computes and receives, and what the store
 * carries. It needs neither servers nor a store. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"
#include "fleet_plan.h"

static const char help[] =
    "Summary: simulates a fleet of servers that share sites (vhostlimit-fleet)\n"
    "Usage:   fleet-sim [OPTION]...\n"
    "  -s SERVERS    servers (1000)\n"
    "  -n SITES      sites (100000)\n"
    "  -a PERCENT    sites that are active (10)\n"
    "  -k NUMBER     servers that serve a site, on average: 1 to 2 * NUMBER - 1 (8)\n"
    "  -i INTERVALS  intervals of one second (6)\n"
    "  -h, --help    print this help\n"
    "Exit:    0 converged within 3 intervals; 1 did not; 2 usage\n";

/* Two processors. */
#define CAPACITY 2e6
/* One site of this many floods the servers that serve it. */
#define FLOOD_EVERY 20
/* The part of the capacity that the other sites want together. */
#define LOAD 0.9
/* Commands that a daemon sends to the store in an interval, see fleet_store.c. */
#define COMMANDS 5
#define INTERVALS_ALLOWED 3

typedef struct sim_t {
    long servers, sites, percent, spread, intervals;
    size_t active;
    fleet_problem_t real;           /* what the sites really want */
    fleet_row_t *rows;              /* what is reported, and what weights give */
    double *used, *capacity, *weight;   /* of rows, of servers, of rows */
} sim_t;

/* --- the load --------------------------------------------------------------- */

static double random_unit(void)
{
    return ((double)random() + 1) / ((double)RAND_MAX + 2);
}

/* Chooses different servers for a site: its shuffle shard. */
static void choose_servers(const sim_t *sim, long spread, long chosen[])
{
    long n, i;

    for (n = 0; n < spread; n++) {
        do {
            chosen[n] = random() % sim->servers;
            for (i = 0; i < n && chosen[i] != chosen[n]; i++)
                ;
        } while (i < n);
    }
}

/* Makes the rows in the order of the servers. Most sites want a random amount, exponentially
 * distributed; some want all that their servers have. */
static void make_load(sim_t *sim)
{
    size_t most = sim->active * 2 * (size_t)sim->spread, nrows = 0, i;
    long *chosen = ctl_alloc(most * sizeof(*chosen));
    size_t *site_of = ctl_alloc(most * sizeof(*site_of));
    size_t *next = ctl_alloc((size_t)(sim->servers + 1) * sizeof(*next));
    double mean;
    fleet_problem_t *real = &sim->real;

    real->nservers = (size_t)sim->servers;
    real->nsites = sim->active;
    real->servers = ctl_alloc(real->nservers * sizeof(*real->servers));
    real->sites = ctl_alloc(real->nsites * sizeof(*real->sites));
    for (i = 0; i < sim->active; i++) {
        long spread = 1 + random() % (2 * sim->spread - 1);

        spread = spread < sim->servers ? spread : sim->servers;
        real->sites[i].weight = 100;
        choose_servers(sim, spread, chosen + nrows);
        for (; spread; spread--)
            site_of[nrows++] = i;
    }
    mean = LOAD * CAPACITY * (double)sim->servers / (double)nrows;
    real->rows = ctl_alloc(nrows * sizeof(*real->rows));
    for (i = 0; i < nrows; i++)
        next[chosen[i] + 1]++;
    for (i = 0; i < real->nservers; i++) {
        next[i + 1] += next[i];
        real->servers[i] = (fleet_server_t) { next[i], next[i + 1], CAPACITY, 0 };
    }
    for (i = 0; i < nrows; i++) {
        size_t site = site_of[i];
        double wanted = site % FLOOD_EVERY ? -log(random_unit()) * mean : CAPACITY;

        real->rows[next[chosen[i]]++] = (fleet_row_t) { site, fmin(wanted, CAPACITY), 0 };
    }
    sim->rows = ctl_alloc(nrows * sizeof(*sim->rows));
    sim->used = ctl_alloc(nrows * sizeof(*sim->used));
    sim->weight = ctl_alloc(nrows * sizeof(*sim->weight));
    sim->capacity = ctl_alloc(real->nservers * sizeof(*sim->capacity));
    for (i = 0; i < nrows; i++)
        sim->weight[i] = 100;
    free(chosen);
    free(site_of);
    free(next);
}

/* --- an interval ------------------------------------------------------------ */

/* A server divides its capacity by its local weights. */
static void run_server(sim_t *sim, size_t s)
{
    const fleet_server_t *server = &sim->real.servers[s];
    size_t n = server->end - server->first, i;
    fleet_site_t *sites = ctl_alloc(n * sizeof(*sites));
    fleet_row_t *rows = ctl_alloc(n * sizeof(*rows));
    fleet_server_t alone = { 0, n, server->capacity, 0 };
    fleet_problem_t local = { &alone, 1, sites, n, rows };

    for (i = 0; i < n; i++) {
        rows[i] = (fleet_row_t) { i, sim->real.rows[server->first + i].wanted, 0 };
        sites[i].weight = sim->weight[server->first + i];
    }
    fleet_share_solve(&local, 1e-6);
    for (i = 0; i < n; i++)
        sim->used[server->first + i] = rows[i].given;
    free(sites);
    free(rows);
}

/* Returns the sum of the differences from the fair totals, as a part of what is used. */
static double distance(const sim_t *sim)
{
    double *totals = ctl_alloc(sim->real.nsites * sizeof(*totals)), off = 0, sum = 0;
    size_t nrows = sim->real.servers[sim->real.nservers - 1].end, i;

    for (i = 0; i < nrows; i++)
        totals[sim->real.rows[i].site] += sim->used[i];
    for (i = 0; i < sim->real.nsites; i++) {
        off += fabs(totals[i] - sim->real.sites[i].total) / 2;
        sum += sim->real.sites[i].total;
    }
    free(totals);
    return off / sum;
}

/* What the daemons do between two intervals: a row that got less than it wants reports that
 * it wants the server. */
static unsigned plan_all(sim_t *sim)
{
    fleet_problem_t seen = sim->real;
    size_t nrows = seen.servers[seen.nservers - 1].end, s, i;
    unsigned passes;

    seen.rows = sim->rows;
    seen.servers = ctl_alloc(seen.nservers * sizeof(*seen.servers));
    seen.sites = ctl_alloc(seen.nsites * sizeof(*seen.sites));
    memcpy(seen.servers, sim->real.servers, seen.nservers * sizeof(*seen.servers));
    memcpy(seen.sites, sim->real.sites, seen.nsites * sizeof(*seen.sites));
    for (i = 0; i < nrows; i++) {
        double wanted = sim->real.rows[i].wanted;

        sim->rows[i] = (fleet_row_t) { sim->real.rows[i].site, sim->used[i] < wanted * 0.999
                                       ? CAPACITY : sim->used[i], 0 };
    }
    passes = fleet_share_solve(&seen, 1e-4);
    for (s = 0; s < seen.nservers; s++) {
        for (i = seen.servers[s].first; i < seen.servers[s].end; i++) {
            const fleet_site_t *site = &seen.sites[sim->rows[i].site];

            sim->weight[i] = fleet_share_weight(site->weight,
                                                site->total - sim->rows[i].given,
                                                seen.servers[s].level, 0.01);
        }
    }
    free(seen.servers);
    free(seen.sites);
    return passes;
}

/* Returns the interval after which the totals stayed within 3 % of the fair ones, or 0. */
static long converge(sim_t *sim)
{
    long interval, converged = 0;
    size_t s;

    printf("interval  off from the fair totals  passes\n");
    for (interval = 0; interval <= sim->intervals; interval++) {
        double off;
        unsigned passes;

        for (s = 0; s < sim->real.nservers; s++)
            run_server(sim, s);
        off = distance(sim);
        passes = plan_all(sim);
        printf("%8ld  %23.3f%%  %6u\n", interval, 100 * off, passes);
        if (off > 0.03)
            converged = 0;
        else if (!converged)
            converged = interval ? interval : 1;
    }
    return converged;
}

/* --- cost ------------------------------------------------------------------- */

/* The report of a server, as its daemon writes it. */
static char *report_of(const sim_t *sim, size_t s, size_t *ret_len)
{
    const fleet_server_t *server = &sim->real.servers[s];
    fleet_report_t report = { .start = 1700000000, .sequence = 100000,
                              .capacity = (uint64_t)CAPACITY };
    char *text;
    size_t i;

    snprintf(report.server, sizeof(report.server), "web%zu", s);
    report.nentries = server->end - server->first;
    report.entries = ctl_alloc(report.nentries * sizeof(*report.entries));
    for (i = 0; i < report.nentries; i++) {
        const fleet_row_t *row = &sim->rows[server->first + i];

        report.entries[i] = (fleet_entry_t) {
            ctl_printf("customer%zu.example", row->site), 100, 5,
            (uint64_t)sim->used[server->first + i], (uint64_t)row->wanted
        };
    }
    text = fleet_report_write(&report, ret_len);
    for (i = 0; i < report.nentries; i++)
        free((char *)report.entries[i].name);
    free(report.entries);
    return text;
}

static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Does what the daemon of the first server does with the reports of an interval. */
static void measure_cost(const sim_t *sim)
{
    size_t n = sim->real.nservers, bytes = 0, s;
    char **texts = ctl_alloc(n * sizeof(*texts));
    size_t *lens = ctl_alloc(n * sizeof(*lens));
    fleet_report_t *reports = ctl_alloc(n * sizeof(*reports));
    const fleet_report_t **list = ctl_alloc(n * sizeof(*list));
    const fleet_limits_t limits = { NULL, 0, 0.01 };
    double begin, parsed, planned;
    fleet_plan_t plan;

    for (s = 0; s < n; s++) {
        texts[s] = report_of(sim, s, &lens[s]);
        bytes += lens[s];
    }
    begin = cpu_seconds();
    for (s = 0; s < n; s++) {
        if (fleet_report_parse(texts[s], lens[s], &reports[s]))
            abort();
        list[s] = &reports[s];
    }
    parsed = cpu_seconds();
    fleet_plan_make(list, n, 0, &limits, &plan);
    planned = cpu_seconds();
    printf("a daemon: writes %zu bytes and reads %zu in an interval, %.1f ms to parse, %.1f ms to "
           "plan (%u passes)\n", lens[0], bytes, 1000 * (parsed - begin),
           1000 * (planned - parsed), plan.passes);
    printf("the store: %zu commands/s, %.1f Mbit/s in, %.1f Mbit/s out, %.1f MB of memory\n",
           n * COMMANDS, 8e-6 * (double)bytes, 8e-6 * (double)bytes * (double)n,
           1e-6 * (double)bytes);
    fleet_plan_free(&plan);
    for (s = 0; s < n; s++) {
        fleet_report_free(&reports[s]);
        free(texts[s]);
    }
    free(texts);
    free(lens);
    free(reports);
    free(list);
}

/* --- the command line ------------------------------------------------------- */

static long number_of(const char *text, long least, long most)
{
    char *end;
    long number = strtol(text, &end, 10);

    if (*end || end == text || number < least || number > most) {
        fprintf(stderr, "fleet-sim: '%s' is not a number from %ld to %ld\n", text, least,
                most);
        exit(2);
    }
    return number;
}

static int read_options(int argc, char *argv[], sim_t *sim)
{
    static const struct option names[] = { { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    int option;

    while ((option = getopt_long(argc, argv, "s:n:a:k:i:h", names, NULL)) != -1) {
        switch (option) {
        case 's':
            sim->servers = number_of(optarg, 1, 10000);
            break;
        case 'n':
            sim->sites = number_of(optarg, 1, 1000000);
            break;
        case 'a':
            sim->percent = number_of(optarg, 1, 100);
            break;
        case 'k':
            sim->spread = number_of(optarg, 1, 1000);
            break;
        case 'i':
            sim->intervals = number_of(optarg, 1, 1000);
            break;
        case 'h':
            printf("%s", help);
            exit(0);
        default:
            return -1;
        }
    }
    return optind < argc ? -1 : 0;
}

int main(int argc, char *argv[])
{
    sim_t sim = { .servers = 1000, .sites = 100000, .percent = 10, .spread = 8,
                  .intervals = 6 };
    long converged;
    unsigned passes;

    if (read_options(argc, argv, &sim)) {
        fprintf(stderr, "%s", help);
        return 2;
    }
    srandom(1);
    if (sim.spread > sim.servers)
        sim.spread = sim.servers;
    sim.active = (size_t)((sim.sites * sim.percent + 99) / 100);
    make_load(&sim);
    passes = fleet_share_solve(&sim.real, 1e-7);
    printf("%ld servers, %ld sites, %zu active on %ld servers on average: %zu rows; fair totals after "
           "%u passes\n", sim.servers, sim.sites, sim.active, sim.spread,
           sim.real.servers[sim.real.nservers - 1].end, passes);
    converged = converge(&sim);
    measure_cost(&sim);
    if (converged)
        printf("converged: within 3 %% of the fair totals after %ld interval%s\n", converged,
               ctl_plural(converged));
    else
        printf("not converged: more than 3 %% off\n");
    return converged && converged <= INTERVALS_ALLOWED ? 0 : 1;
}
