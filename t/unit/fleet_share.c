/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation of a fleet against progressive filling, which looks at every set of sites:
 * slow, exact, and without a line in common with fleet_share.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fleet_share.h"
#include "tap.h"

#define SERVERS 6
#define SITES 8
#define CASES 3000

typedef struct fleet_t {
    size_t nservers, nsites;
    double capacity[SERVERS], weight[SITES], wanted[SERVERS][SITES];
} fleet_t;

/* --- the reference ---------------------------------------------------------- */

/* Returns the most CPU time that the sites of a set (a bit each) can get together. */
static double most_of(const fleet_t *fleet, unsigned set)
{
    double most = 0;
    size_t s, i;

    for (s = 0; s < fleet->nservers; s++) {
        double wanted = 0;

        for (i = 0; i < fleet->nsites; i++)
            wanted += set >> i & 1 ? fleet->wanted[s][i] : 0;
        most += fmin(wanted, fleet->capacity[s]);
    }
    return most;
}

/* Returns the level up to which the open sites of a set can rise; the totals of the others
 * are final. INFINITY: the set has no open site. */
static double level_of(const fleet_t *fleet, unsigned set, unsigned open, const double total[])
{
    double left = most_of(fleet, set), weight = 0;
    size_t i;

    for (i = 0; i < fleet->nsites; i++) {
        if (!(set >> i & 1))
            continue;
        if (open >> i & 1)
            weight += fleet->weight[i];
        else
            left -= total[i];
    }
    return weight > 0 ? left / weight : INFINITY;
}

/* Progressive filling: all open sites rise together until a set of them is full. */
static void fill(const fleet_t *fleet, double ret_total[])
{
    unsigned sets = 1u << fleet->nsites, open = sets - 1, set, tightest = 0;
    size_t i;

    while (open) {
        double level = INFINITY;

        for (set = 1; set < sets; set++) {
            double here = level_of(fleet, set, open, ret_total);

            if (here < level) {
                level = here;
                tightest = set;
            }
        }
        for (i = 0; i < fleet->nsites; i++) {
            if (tightest & open & 1u << i)
                ret_total[i] = fmax(0, level * fleet->weight[i]);
        }
        open &= ~tightest;
    }
}

/* --- what is tested --------------------------------------------------------- */

typedef struct solution_t {
    fleet_problem_t problem;
    fleet_server_t servers[SERVERS];
    fleet_site_t sites[SITES];
    fleet_row_t rows[SERVERS * SITES];
    unsigned passes;
} solution_t;

static void solve(const fleet_t *fleet, solution_t *solution)
{
    size_t s, i, n = 0;

    for (s = 0; s < fleet->nservers; s++) {
        solution->servers[s].first = n;
        solution->servers[s].capacity = fleet->capacity[s];
        for (i = 0; i < fleet->nsites; i++) {
            if (fleet->wanted[s][i] > 0)
                solution->rows[n++] = (fleet_row_t) { i, fleet->wanted[s][i], 0 };
        }
        solution->servers[s].end = n;
    }
    for (i = 0; i < fleet->nsites; i++)
        solution->sites[i].weight = fleet->weight[i];
    solution->problem = (fleet_problem_t) { solution->servers, fleet->nservers,
                                            solution->sites, fleet->nsites, solution->rows };
    solution->passes = fleet_share_solve(&solution->problem, 1e-9);
}

/* Returns the largest difference from the reference, relative to the fleet's capacity. */
static double difference(const fleet_t *fleet, const solution_t *solution)
{
    double total[SITES] = { 0 }, largest = 0, capacity = 0;
    size_t i;

    fill(fleet, total);
    for (i = 0; i < fleet->nservers; i++)
        capacity += fleet->capacity[i];
    for (i = 0; i < fleet->nsites; i++)
        largest = fmax(largest, fabs(total[i] - solution->sites[i].total));
    return largest / capacity;
}

/* Returns 1 if no row gets more than it wants and no server gives more than it has. */
static int is_possible(const solution_t *solution)
{
    size_t s, i;

    for (s = 0; s < solution->problem.nservers; s++) {
        const fleet_server_t *server = &solution->servers[s];
        double sum = 0;

        for (i = server->first; i < server->end; i++) {
            const fleet_row_t *row = &solution->rows[i];

            if (row->given < 0 || row->given > row->wanted)
                return 0;
            sum += row->given;
        }
        if (sum > server->capacity * 1.000001)
            return 0;
    }
    return 1;
}

/* Returns the largest difference between what a row is given and what a server gives it that
 * only knows the local weights, relative to the server's capacity. */
static double difference_by_weights(const solution_t *solution)
{
    double largest = 0;
    size_t s, i;

    for (s = 0; s < solution->problem.nservers; s++) {
        const fleet_server_t *server = &solution->servers[s];
        fleet_server_t alone = *server;
        fleet_site_t sites[SITES];
        fleet_row_t rows[SITES];
        fleet_problem_t local = { &alone, 1, sites, server->end - server->first, rows };

        for (i = server->first; i < server->end; i++) {
            const fleet_row_t *row = &solution->rows[i];
            const fleet_site_t *site = &solution->sites[row->site];
            size_t n = i - server->first;

            sites[n].weight = fleet_share_weight(site->weight, site->total - row->given,
                                                 server->level, 1e-9);
            rows[n] = (fleet_row_t) { n, row->wanted, 0 };
        }
        alone.first = 0;
        alone.end = local.nsites;
        fleet_share_solve(&local, 1e-9);
        for (i = server->first; i < server->end; i++)
            largest = fmax(largest, fabs(rows[i - server->first].given
                                         - solution->rows[i].given) / server->capacity);
    }
    return largest;
}

static double number(double least, double most)
{
    return least + (most - least) * (double)rand() / RAND_MAX;
}

static void random_fleet(fleet_t *fleet)
{
    double density = number(0.2, 1);
    size_t s, i;

    memset(fleet, 0, sizeof(*fleet));
    fleet->nservers = 1 + (size_t)rand() % SERVERS;
    fleet->nsites = 1 + (size_t)rand() % SITES;
    for (i = 0; i < fleet->nsites; i++)
        fleet->weight[i] = rand() % 2 ? 100 : number(1, 1000);
    for (s = 0; s < fleet->nservers; s++) {
        fleet->capacity[s] = number(1e5, 4e6);
        for (i = 0; i < fleet->nsites; i++) {
            if (number(0, 1) < density)
                fleet->wanted[s][i] = rand() % 2 ? fleet->capacity[s]
                                                 : number(1, fleet->capacity[s]);
        }
    }
}

static void random_cases(void)
{
    double worst = 0, worst_by_weights = 0;
    unsigned most_passes = 0;
    int possible = 1, n;
    solution_t solution;
    fleet_t fleet;

    srand(1);
    for (n = 0; n < CASES; n++) {
        random_fleet(&fleet);
        solve(&fleet, &solution);
        worst = fmax(worst, difference(&fleet, &solution));
        worst_by_weights = fmax(worst_by_weights, difference_by_weights(&solution));
        most_passes = solution.passes > most_passes ? solution.passes : most_passes;
        possible &= is_possible(&solution);
    }
    ok(worst < 1e-5, "%d random fleets have the totals of progressive filling: largest "
       "difference %.1e of the capacity", CASES, worst);
    ok(possible, "no row gets more than it wants, no server gives more than it has");
    ok(worst_by_weights < 1e-5, "a server that knows the local weights only gives each site "
       "its part: largest difference %.1e", worst_by_weights);
    ok(most_passes < FLEET_SHARE_PASSES, "at most %u passes", most_passes);
}

static void examples(void)
{
    /* A on three servers, B on the third one. */
    fleet_t three = { 3, 2, { 1e6, 1e6, 1e6 }, { 100, 100 },
                      { { 1e6, 0 }, { 1e6, 0 }, { 1e6, 1e6 } } };
    solution_t solution;

    solve(&three, &solution);
    ok(fabs(solution.sites[0].total - 2e6) < 1 && fabs(solution.sites[1].total - 1e6) < 1,
       "a site that has two servers elsewhere leaves the third one");
    ok(isinf(solution.servers[0].level) && solution.servers[2].level > 0,
       "only the third server is contended");
    three.weight[0] = 300;
    solve(&three, &solution);
    ok(fabs(solution.sites[0].total - 2.25e6) < 1, "with three times the weight it gets a "
       "quarter of the third one");
    three.wanted[0][0] = three.wanted[1][0] = 1e5;
    three.weight[0] = 100;
    solve(&three, &solution);
    ok(fabs(solution.rows[2].given - 4e5) < 1, "a site that wants little elsewhere gets "
       "nearly half");
    three.capacity[2] = 0;
    solve(&three, &solution);
    ok(solution.sites[1].total < 1, "a server without capacity gives nothing");
}

/* Site i on servers i and i+1, the last one on the last server only. */
static void chain(void)
{
    fleet_t fleet = { SERVERS, SERVERS, { 0 }, { 0 }, { { 0 } } };
    solution_t solution;
    size_t s;

    for (s = 0; s < SERVERS; s++) {
        fleet.capacity[s] = s ? 1e6 : 2e6;
        fleet.weight[s] = 100;
        fleet.wanted[s][s] = 1e7;
        if (s + 1 < SERVERS)
            fleet.wanted[s + 1][s] = 1e7;
    }
    solve(&fleet, &solution);
    ok(difference(&fleet, &solution) < 1e-5, "a chain of servers: %u passes",
       solution.passes);
}

static void weights(void)
{
    ok(fleet_share_weight(100, 50, INFINITY, 0.01) == 100, "the weight of a server without "
       "contention is the configured one");
    ok(fleet_share_weight(100, 0, 7, 0.01) == 100, "that of a site without use elsewhere too");
    ok(fleet_share_weight(100, 50, 1, 0.01) == 50, "use elsewhere is deducted");
    ok(fleet_share_weight(100, 500, 1, 0.01) == 1, "down to the floor");
    ok(fleet_share_weight(100, 500, 0, 0.01) == 1, "and without a level");
}

static void parts(void)
{
    const double wanted[] = { 10, 100, 100 }, little[] = { 10, 20, 0 };
    const unsigned requests[] = { 1, 9, 9 }, none[] = { 0, 0 };
    double part[3];
    unsigned whole[3];

    fleet_share_divide(100, wanted, 3, part);
    ok(part[0] == 10 && part[1] == 45 && part[2] == 45, "a limit is divided by what is wanted");
    fleet_share_divide(90, little, 3, part);
    ok(part[0] == 30 && part[1] == 40 && part[2] == 20, "the rest is divided equally");
    fleet_share_divide_whole(10, requests, 3, whole);
    ok(whole[0] == 1 && whole[1] == 5 && whole[2] == 4, "whole numbers");
    fleet_share_divide_whole(7, none, 2, whole);
    ok(whole[0] == 4 && whole[1] == 3, "parts for which there is no demand");
    fleet_share_divide_whole(1, requests, 3, whole);
    ok(whole[0] == 1 && whole[1] == 1 && whole[2] == 1, "at least 1 each");
}

int main(void)
{
    random_cases();
    examples();
    chain();
    weights();
    parts();
    return tap_done();
}
