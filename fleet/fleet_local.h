/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_LOCAL_H
#define FLEET_LOCAL_H

/* The sites of this server: what Apache says of them over its control socket, what they
 * want, and what is leased to them. One thread. */

#include "ctl_client.h"
#include "fleet_plan.h"

/* Time of a lease.  The configured limits have to hold three seconds after the store has died
 * at the latest; an exchange, the end of the leases in Apache and a page that shows it take
 * the rest. */
#define FLEET_LEASE_MS 2800

typedef struct fleet_known_t {
    char *name;                     /* NULL: no site has this account */
    uint32_t weight, cpu, concurrency;  /* its limits on this server */
    uint64_t charged_us, backlog_us;    /* counters, at the last reading */
    uint32_t requests;
    double used, wanted;            /* us per second */
    int is_active;                  /* 1: in the last answer */
    int is_limited;                 /* 1: has a fleet-wide limit, always reported */
    uint32_t leased[3];             /* weight in thousandths, CPU in permille, concurrency */
} fleet_known_t;

typedef struct fleet_local_t {
    const char *socket;             /* NULL: it is searched */
    double configured_capacity;     /* us per second; 0: the processors */
    int64_t generation;             /* of Apache's configuration; -1: unknown */
    uint64_t clock_us;              /* of the last reading */
    double capacity;
    int was_full;                   /* 1: a site wanted more at the last reading */
    fleet_known_t *known;           /* by account */
    size_t nknown;
    size_t *rows;                   /* of the report: accounts */
} fleet_local_t;

/* Asks Apache and updates the sites. *ret_is_new is 1 if there is no earlier reading to
 * compare with. Returns CTL_DONE or fills in *error. */
ctl_exit_e fleet_local_read(fleet_local_t *local, const fleet_limits_t *limits,
                            int *ret_is_new, ctl_error_t *error);

/* Fills in the capacity and the entries of the report. Their names belong to *local. The
 * caller frees the entries. */
void fleet_local_report(fleet_local_t *local, fleet_report_t *report);

/* Leases what the plan of that report says, and renews all leases. The first one after
 * `fleet_local_forget()` makes all leases anew. */
ctl_exit_e fleet_local_lease(fleet_local_t *local, const fleet_plan_t *plan,
                             ctl_error_t *error);
void fleet_local_forget(fleet_local_t *local);

/* Releases everything. */
void fleet_local_clear(fleet_local_t *local);

#endif
