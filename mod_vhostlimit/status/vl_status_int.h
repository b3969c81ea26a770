/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_STATUS_INT_H
#define VL_STATUS_INT_H

/* Private to the files status/vl_status*.c and to the control socket.  A vl_page_t is a
 * copy of all numbers of a status page, allocated in the pool of one request; each
 * format writes the same copy.  So the formats need no lock. */

#include "core/vl_duty.h"
#include "core/vl_engage.h"
#include "core/vl_fleet.h"
#include "core/vl_hosts.h"
#include "core/vl_metrics.h"
#include "base/vl_out.h"
#include "core/vl_inside.h"
#include "status/vl_history.h"

/* Incremented when a key of ?json or ?auto is renamed or changes its meaning. */
#define VL_STATUS_SCHEMA 1

/* Upper bounds ("le") of the histogram in ?prometheus: 4^5 us (1 ms) to 4^13 us (67 s). */
#define VL_WAIT_STEPS 9
#define VL_WAIT_STEP_US(i) ((apr_uint64_t)1 << (10 + 2 * (i)))

/* Numbers of a vhost that are not in the metrics. */
#define VL_DERIVED(X)                                                         \
    X(clients_waiting, VL_GAUGE, "clients_waiting",                           \
      "clients that have queued or deferred requests, added up over the "     \
      "child processes")                                                      \
    X(duty_permille, VL_GAUGE, "duty_permille",                               \
      "part of its time in which a running request wants a processor; "       \
      "0: not known")                                                         \
    X(runnable_permille, VL_GAUGE, "slots_permille",                          \
      "slots that the running requests hold, in thousandths")                 \
    X(asleep, VL_GAUGE, "requests_asleep",                                    \
      "running requests that have wanted no processor for long: they hold "   \
      "no slot")                                                              \
    X(database_waits, VL_GAUGE, "requests_at_database",                       \
      "running requests that wait for MariaDB or PostgreSQL")                 \
    X(database_now_permille, VL_GAUGE, NULL,                                  \
      "CPU time of its databases in the last second, 1000 is one processor")  \
    X(late, VL_COUNTER, "requests_late_total",                                \
      "requests put behind others because they had waited for longer than "   \
      "clients of the site do")                                               \
    X(limited_s, VL_GAUGE, "limited_seconds",                                 \
      "how long the site has been limited; 0: it is not")                     \
    X(cpu_now_permille, VL_GAUGE, NULL,                                       \
      "CPU time charged in the last 2 to 4 s, 1000 is one processor")         \
    X(cpu_minute_permille, VL_GAUGE, NULL,                                    \
      "CPU time charged in the last minute, 1000 is one processor")           \
    X(service_us, VL_GAUGE, NULL,                                             \
      "time from admission to the end, moving average")                       \
    X(wait_p50_us, VL_GAUGE, NULL, "median of the time in the queue")         \
    X(wait_p99_us, VL_GAUGE, NULL, "99th percentile of the time in the queue") \
    X(fleet_weight_milli, VL_GAUGE, "fleet_weight_thousandths",               \
      "weight leased by vhostlimit-fleet, in thousandths; 0: none")           \
    X(fleet_cpu_permille, VL_GAUGE, "fleet_cpu_permille",                     \
      "leased part of a CPU limit over all servers, 1000 is one processor; 0: none") \
    X(fleet_concurrency, VL_GAUGE, "fleet_concurrency",                       \
      "leased part of a limit of running requests over all servers; 0: none")

/* Maximum number of hosts (VhostLimitAccounts Host) that a page shows. */
#define VL_STATUS_HOSTS_MAX 200

/* A class of a site (VhostLimitClass). */
typedef struct vl_class_row_t {
    const char *name;
    vl_inside_class_t counts;
    apr_uint64_t cpu_permille;      /* part of the CPU time of all classes */
} vl_class_row_t;

/* One account. */
typedef struct vl_row_t {
    const char *name;
    const char *host_of;            /* the site, if this is a host of it; else "" */
    const char *cgroup;             /* path from the root of the hierarchy */
    const char *plan;               /* "" if the site has none */
    const char *unenforced;         /* why the kernel does not enforce a limit; "" if it
                                     * enforces all */
    const apr_array_header_t *vhosts;   /* server_rec *: virtual hosts of the site */
    const char *state, *method, *cost;  /* keywords, see docs/reference/status.md */
    vl_limits_t limits;
    vl_override_t override;
    vl_metrics_t metrics;
#define X(member, kind, prometheus, help) apr_uint64_t member;
    VL_DERIVED(X)
#undef X
    const apr_array_header_t *spent;    /* vl_spent_t: its back ends */
    const vl_class_row_t *classes;
    int nclasses;                   /* 0: it has no VhostLimitClass */
    apr_uint64_t waits[VL_WAIT_STEPS];  /* requests that waited for at most
                                         * VL_WAIT_STEP_US(i), cumulative */
} vl_row_t;

/* Describes one number of a row. */
typedef struct vl_column_t {
    const char *key;
    vl_metric_kind_e kind;
    const char *prometheus;         /* metric name; NULL: no metric of its own */
    const char *help;
    apr_size_t offset;              /* in vl_row_t */
} vl_column_t;

/* Describes all numbers of a row; ends with key NULL. */
extern const vl_column_t vl_status_columns[];

/* Returns the number of the row that the column describes. */
static inline apr_uint64_t vl_status_cell(const vl_row_t *row,
                                          const vl_column_t *column)
{
    return *(const apr_uint64_t *)((const char *)row + column->offset);
}

/* All data of a status page. */
typedef struct vl_page_t {
    const char *mpm;
    apr_int64_t started_us, now_us, uptime_s;
    apr_uint32_t children, workers, slots, slots_auto, processors;
    const char *backend, *tree, *reason;    /* see vl_cgroup.h */
    const char *outside;            /* see vl_modules_outside() */
    vl_engage_t engage;             /* dormant or engaged, see vl_engage.h */
    apr_int64_t engage_s;           /* for how long */
    const char *sampler;            /* keyword: its state */
    const char *unread;             /* of vl_sampler_state_t */
    apr_uint32_t sampler_us, sampled, unfound;  /* of vl_sampler_state_t: round_us, processes,
                                     * unfound */
    const char *fleet;              /* keyword: leases of vhostlimit-fleet */
    vl_fleet_state_t leases;
    apr_int64_t held_us;            /* time that the segment lock was held in order to
                                     * copy the rows */
    int is_single;                  /* 1: the page has one site only (?me, ?site=) */
    int is_chosen;                  /* 1: by ?site= */
    const char *query;              /* what links of this page begin with: "", "me&" or
                                     * "site=NAME&" */
    const vl_history_t *history;    /* of the site, or of the server; NULL: there is none */
    unsigned hours;                 /* that the charts show; 0: the default */
    vl_row_t *rows;                 /* the sites, then the busiest hosts */
    int nrows;
    int nsites;                     /* rows that are sites */
    int by_host;                    /* 1: a site has VhostLimitAccounts Host */
    vl_hosts_count_t hosts;
    vl_row_t sum;                   /* sums of the rows, and of hosts that are not shown;
                                     * valid for metrics, and for CPU times of the rows */
    int limited;                    /* number of vhosts that are limited now */
    int with_classes;               /* number of rows with classes */
    int unenforced;                 /* number of rows with a limit that the kernel does
                                     * not enforce */
} vl_page_t;

/* Copies the data of all accounts into p; of many hosts those with most requests in flight
 * and most CPU time.  only: the account of that server, or NULL.  host: the account of
 * that host at the server, if it has one.  Takes the segment lock once for each batch of accounts. */
vl_page_t *vl_status_gather(apr_pool_t *p, const server_rec *only, const char *host);

/* Returns a server of the site with that name, or NULL. */
const server_rec *vl_status_find(const char *name);
/* Returns an array of server_rec *: one server of each site. */
const apr_array_header_t *vl_status_sites(void);

/* Calls `put` for each virtual host of the row: its ServerName, its addresses separated by
 * blanks, and file:line of its <VirtualHost>. */
typedef void (*vl_status_vhost_fn)(vl_out_t *out, int i, const char *name,
                                   const char *addresses, const char *place);
void vl_status_vhosts(vl_out_t *out, const vl_row_t *row, vl_status_vhost_fn put);

/* Writes the page in one format. */
typedef void (*vl_status_format_fn)(vl_out_t *out, const vl_page_t *page);

/* Writes the charts of the history, if there is one. */
void vl_status_charts(vl_out_t *out, const vl_page_t *page);

void vl_status_html(vl_out_t *out, const vl_page_t *page);
void vl_status_auto(vl_out_t *out, const vl_page_t *page);
void vl_status_json(vl_out_t *out, const vl_page_t *page);
void vl_status_prom(vl_out_t *out, const vl_page_t *page);

#endif
