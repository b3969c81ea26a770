/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_SHARE_H
#define FLEET_SHARE_H

/* The allocation of a fleet's CPU time: weighted max-min fairness of the totals of sites.
 *
 * A site wants CPU time on some servers; requests cannot move between servers. Among all
 * allocations that give no row more than it wants and no server more than its capacity, the
 * weighted max-min one maximizes the least total divided by weight, then the second least,
 * and so on (progressive filling). The possible totals form a polymatroid, so the max-min
 * totals are those with the least sum over sites of total^2 / weight. fleet_share_solve()
 * minimizes that sum one server at a time until the totals do not change
 * (docs/design/016-fleet.md).
 *
 * The result depends on the arguments only, and on their order. All servers pass the same
 * rows in the same order, so all of them compute the same result. Pure: no state, no lock,
 * no clock. */

#include <stddef.h>

/* A site on a server. */
typedef struct fleet_row_t {
    size_t site;
    double wanted;              /* CPU time that it wants, us per second */
    double given;               /* result: what it gets */
} fleet_row_t;

typedef struct fleet_server_t {
    size_t first, end;          /* its rows */
    double capacity;            /* us of CPU time per second */
    double level;               /* result: CPU time per weight of the sites that want more
                                 * than they get; INFINITY: no site does */
} fleet_server_t;

typedef struct fleet_site_t {
    double weight;              /* above 0 */
    double total;               /* result: CPU time on all servers */
} fleet_site_t;

typedef struct fleet_problem_t {
    fleet_server_t *servers;
    size_t nservers;
    fleet_site_t *sites;
    size_t nsites;
    fleet_row_t *rows;          /* at most one for a site on a server */
} fleet_problem_t;

/* Most passes over the servers. */
#define FLEET_SHARE_PASSES 500

/* Computes given, level and total. Stops when no row has changed by more than `precision` of
 * its server's capacity in a pass. Returns the number of passes. */
unsigned fleet_share_solve(fleet_problem_t *problem, double precision);

/* Returns the weight that gives the site its part of a server, on the scale of configured
 * weights: weight - elsewhere / level, between floor * weight and weight. elsewhere: CPU
 * time that the site gets on the other servers. It is also right for a site that does not
 * want its whole part yet. */
double fleet_share_weight(double weight, double elsewhere, double level, double floor);

/* Divides `amount` between n parties: each gets what it wants if that is possible, and
 * otherwise at most an equal level. The rest is divided equally. */
void fleet_share_divide(double amount, const double wanted[], size_t n, double ret_parts[]);

/* The same in whole numbers. Each party gets at least 1, even if amount is less than n. */
void fleet_share_divide_whole(unsigned amount, const unsigned wanted[], size_t n,
                              unsigned ret_parts[]);

#endif
