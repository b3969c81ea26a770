/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_PLAN_H
#define FLEET_PLAN_H

/* The plan: what the reports of all servers mean for the sites of this one. Joins the
 * reports by the names of sites, computes the allocation (fleet_share.h), and derives the
 * local weight of each site of this server and its parts of fleet-wide limits.
 *
 * Bounds that no report of another server can break: the weight of a site is between
 * floor * configured weight and the configured weight, where this server's report says what
 * is configured; a part of a limit is at most the limit; no row wants more than its server's
 * capacity. Pure: no state, no lock. */

#include "fleet_report.h"
#include "fleet_share.h"

/* A limit over all servers. */
typedef struct fleet_limit_t {
    char *site;
    uint64_t cpu;                   /* us of CPU time per second; 0: no limit */
    uint32_t concurrency;           /* 0: no limit */
} fleet_limit_t;

typedef struct fleet_limits_t {
    fleet_limit_t *limits;
    size_t nlimits;
    double floor;                   /* least weight, as part of the configured one */
} fleet_limits_t;

/* A site of this server, in the order of its report. */
typedef struct fleet_share_t {
    double weight;
    uint64_t cpu;                   /* part of the limit; 0: no limit */
    uint32_t concurrency;           /* part of the limit; 0: no limit */
    double given;                   /* CPU time here, us per second */
    double total;                   /* CPU time in the fleet */
    double used;                    /* in the fleet, as reported */
    size_t servers;                 /* that report the site */
} fleet_share_t;

typedef struct fleet_plan_t {
    fleet_share_t *shares;
    size_t nshares;
    size_t sites;                   /* in the fleet */
    size_t rows;
    size_t contended;               /* servers on which a site wants more than it gets */
    double level;                   /* of this server; INFINITY: it is not contended */
    unsigned passes;
} fleet_plan_t;

/* Makes the plan for reports[self]. The reports are in the order of their servers' names.
 * fleet_plan_free() frees what *ret_plan holds. */
void fleet_plan_make(const fleet_report_t *const reports[], size_t nreports, size_t self,
                     const fleet_limits_t *limits, fleet_plan_t *ret_plan);

void fleet_plan_free(fleet_plan_t *plan);

#endif
