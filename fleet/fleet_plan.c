/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

/* A pass of the allocation that moves less than this part of a server's capacity is the
 * last one. */
#define PRECISION 1e-4
/* A part of a CPU limit is at least this, us per second: 0 would mean no limit. */
#define CPU_PART_LEAST 1000

#define NONE ((size_t)-1)

typedef struct site_t {
    const char *name;
    uint64_t used;
    size_t last_server;             /* the last one that reports it */
    size_t last_row;                /* its row there */
    size_t servers;
    const fleet_limit_t *limit;     /* NULL: none */
} site_t;

/* What is built from the reports. */
typedef struct join_t {
    fleet_problem_t problem;
    site_t *sites;                  /* beside problem.sites */
    size_t *before;                 /* for each row: the row of its site on an earlier server,
                                     * or NONE */
    const fleet_entry_t **entries;  /* for each row */
    size_t *servers;                /* for each row */
    size_t *table;                  /* names -> sites: 1 + number, or 0 */
    size_t mask;                    /* size of the table - 1 */
    size_t nrows;
} join_t;

/* --- joining by name -------------------------------------------------------- */

static size_t *cell_of(const join_t *join, const char *name)
{
    uint64_t hash = 14695981039346656037U;      /* FNV-1a */
    const char *c;
    size_t at;

    for (c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211U;
    at = (size_t)(hash ^ hash >> 32) & join->mask;
    while (join->table[at] && strcmp(join->sites[join->table[at] - 1].name, name))
        at = (at + 1) & join->mask;
    return &join->table[at];
}

/* Returns the number of the site, which is new if no report has named it. */
static size_t site_of(join_t *join, const char *name)
{
    size_t *cell = cell_of(join, name), number = join->problem.nsites;

    if (*cell)
        return *cell - 1;
    *cell = ++join->problem.nsites;
    join->sites[number] = (site_t) { name, 0, NONE, NONE, 0, NULL };
    return number;
}

/* Adds a row. A site's second row in one report is ignored. */
static void add_row(join_t *join, size_t server, const fleet_entry_t *entry, double capacity)
{
    size_t number = site_of(join, entry->name), row = join->nrows;
    site_t *site = &join->sites[number];
    fleet_site_t *shared = &join->problem.sites[number];

    if (site->last_server == server)
        return;
    join->problem.rows[row] = (fleet_row_t) { number, fmin((double)entry->wanted, capacity),
                                              0 };
    join->before[row] = site->last_row;
    join->entries[row] = entry;
    join->servers[row] = server;
    site->last_server = server;
    site->last_row = row;
    site->servers++;
    site->used += entry->used;
    if (shared->weight < entry->weight)
        shared->weight = entry->weight;
    join->nrows++;
}

static void allocate(join_t *join, size_t nreports, size_t rows)
{
    size_t size = 16;

    while (size < 2 * rows)
        size *= 2;
    memset(join, 0, sizeof(*join));
    join->mask = size - 1;
    join->table = ctl_alloc(size * sizeof(*join->table));
    join->sites = ctl_alloc(rows * sizeof(*join->sites));
    join->before = ctl_alloc(rows * sizeof(*join->before));
    join->entries = ctl_alloc(rows * sizeof(*join->entries));
    join->servers = ctl_alloc(rows * sizeof(*join->servers));
    join->problem.servers = ctl_alloc(nreports * sizeof(*join->problem.servers));
    join->problem.sites = ctl_alloc(rows * sizeof(*join->problem.sites));
    join->problem.rows = ctl_alloc(rows * sizeof(*join->problem.rows));
    join->problem.nservers = nreports;
}

static void release(join_t *join)
{
    free(join->table);
    free(join->sites);
    free(join->before);
    free(join->entries);
    free(join->servers);
    free(join->problem.servers);
    free(join->problem.sites);
    free(join->problem.rows);
}

/* The weight of a site that this server reports is the one that it reports. For other sites
 * it is the largest that a server reports. */
static void join_reports(join_t *join, const fleet_report_t *const reports[], size_t nreports,
                         size_t self)
{
    size_t r, i, rows = 0;

    for (r = 0; r < nreports; r++)
        rows += reports[r]->nentries;
    allocate(join, nreports, rows);
    for (r = 0; r < nreports; r++) {
        fleet_server_t *server = &join->problem.servers[r];

        server->capacity = (double)reports[r]->capacity;
        server->first = join->nrows;
        for (i = 0; i < reports[r]->nentries; i++)
            add_row(join, r, &reports[r]->entries[i], server->capacity);
        server->end = join->nrows;
    }
    for (i = 0; i < reports[self]->nentries; i++) {
        const fleet_entry_t *entry = &reports[self]->entries[i];

        join->problem.sites[site_of(join, entry->name)].weight = entry->weight;
    }
}

/* --- limits over all servers ------------------------------------------------ */

/* Divides the CPU limit of a site by what it would get without it. With is_bound set the
 * parts become the most that its rows want. Returns the part of the server `self`. */
static double divide_cpu(join_t *join, const site_t *site, size_t self, int is_bound)
{
    double *wanted = ctl_alloc(site->servers * sizeof(*wanted));
    double *parts = ctl_alloc(site->servers * sizeof(*parts)), part = 0;
    size_t row, n = site->servers;

    for (row = site->last_row; row != NONE; row = join->before[row])
        wanted[--n] = join->problem.rows[row].given;
    fleet_share_divide((double)site->limit->cpu, wanted, site->servers, parts);
    n = site->servers;
    for (row = site->last_row; row != NONE; row = join->before[row]) {
        n--;
        if (join->servers[row] == self)
            part = parts[n];
        if (is_bound && join->problem.rows[row].wanted > parts[n])
            join->problem.rows[row].wanted = parts[n];
    }
    free(wanted);
    free(parts);
    return part;
}

/* The same for a limit of running requests, by the requests that run and wait. */
static uint32_t divide_concurrency(const join_t *join, const site_t *site, size_t self)
{
    unsigned *wanted = ctl_alloc(site->servers * sizeof(*wanted));
    unsigned *parts = ctl_alloc(site->servers * sizeof(*parts)), part = 0;
    size_t row, n = site->servers;

    for (row = site->last_row; row != NONE; row = join->before[row])
        wanted[--n] = join->entries[row]->requests;
    fleet_share_divide_whole(site->limit->concurrency, wanted, site->servers, parts);
    n = site->servers;
    for (row = site->last_row; row != NONE; row = join->before[row]) {
        n--;
        if (join->servers[row] == self)
            part = parts[n];
    }
    free(wanted);
    free(parts);
    return part;
}

/* Finds the sites of the limits, and computes the allocation: a second time if a limit binds,
 * because the other sites get what it leaves. */
static unsigned solve(join_t *join, const fleet_limits_t *limits)
{
    unsigned passes = fleet_share_solve(&join->problem, PRECISION);
    int binds = 0;
    size_t i;

    for (i = 0; i < limits->nlimits; i++) {
        size_t *cell = cell_of(join, limits->limits[i].site);
        site_t *site = *cell ? &join->sites[*cell - 1] : NULL;

        if (!site)
            continue;
        site->limit = &limits->limits[i];
        if (!site->limit->cpu
            || join->problem.sites[*cell - 1].total <= (double)site->limit->cpu)
            continue;
        divide_cpu(join, site, NONE, 1);
        binds = 1;
    }
    return binds ? passes + fleet_share_solve(&join->problem, PRECISION) : passes;
}

/* --- the plan --------------------------------------------------------------- */

void fleet_plan_make(const fleet_report_t *const reports[], size_t nreports, size_t self,
                     const fleet_limits_t *limits, fleet_plan_t *ret_plan)
{
    const fleet_server_t *here;
    join_t join;
    size_t i;

    memset(ret_plan, 0, sizeof(*ret_plan));
    join_reports(&join, reports, nreports, self);
    ret_plan->passes = solve(&join, limits);
    here = &join.problem.servers[self];
    ret_plan->nshares = here->end - here->first;
    ret_plan->shares = ctl_alloc(ret_plan->nshares * sizeof(*ret_plan->shares));
    for (i = 0; i < ret_plan->nshares; i++) {
        const fleet_row_t *row = &join.problem.rows[here->first + i];
        const fleet_site_t *shared = &join.problem.sites[row->site];
        const site_t *site = &join.sites[row->site];
        fleet_share_t *share = &ret_plan->shares[i];

        share->weight = fleet_share_weight(shared->weight, shared->total - row->given,
                                           here->level, limits->floor);
        share->given = row->given;
        share->total = shared->total;
        share->used = (double)site->used;
        share->servers = site->servers;
        if (site->limit && site->limit->cpu)
            share->cpu = (uint64_t)fmax(CPU_PART_LEAST, divide_cpu(&join, site, self, 0));
        if (site->limit && site->limit->concurrency)
            share->concurrency = divide_concurrency(&join, site, self);
    }
    ret_plan->sites = join.problem.nsites;
    ret_plan->rows = join.nrows;
    ret_plan->level = here->level;
    for (i = 0; i < nreports; i++)
        ret_plan->contended += !isinf(join.problem.servers[i].level);
    release(&join);
}

void fleet_plan_free(fleet_plan_t *plan)
{
    free(plan->shares);
    memset(plan, 0, sizeof(*plan));
}
