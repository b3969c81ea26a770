/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_STATUS_INT_H
#define VL_STATUS_INT_H

/* Private to the files status/vl_status*.c and to the control socket.  A vl_page_t is a copy of
 * all numbers, allocated in the pool of one request, so the formats need no lock.  Two tables
 * name each key once, for ?json, ?prometheus and the command "figures". */

#include "base/vl_out.h"
#include "core/vl_duty.h"
#include "core/vl_fair.h"
#include "core/vl_metrics.h"

/* Incremented when a key is renamed or changes its meaning. */
#define VL_STATUS_SCHEMA 1

/* Numbers of a site that are not in the metrics. */
#define VL_DERIVED(X)                                                                          \
    X(weight, VL_GAUGE, "weight", "VhostLimitWeight")                                          \
    X(concurrency, VL_GAUGE, "concurrency_limit", "VhostLimitConcurrency, 0: no limit")        \
    X(queue, VL_GAUGE, "queue_limit", "VhostLimitQueue")                                       \
    X(cpu, VL_GAUGE, NULL, NULL)                                                               \
    X(memory, VL_GAUGE, NULL, NULL)                                                            \
    X(processes, VL_GAUGE, NULL, NULL)                                                         \
    X(io, VL_GAUGE, NULL, NULL)                                                                \
    X(clients_waiting, VL_GAUGE, "clients_waiting",                                            \
      "clients that have queued or deferred requests, added up over the child processes")      \
    X(duty_permille, VL_GAUGE, "duty_permille",                                                \
      "part of its time in which a running request wants a processor; 0: not known")           \
    X(runnable_permille, VL_GAUGE, "slots_permille",                                           \
      "slots that the running requests hold, in thousandths")                                  \
    X(asleep, VL_GAUGE, "requests_asleep",                                                     \
      "running requests that have wanted no processor for long: they hold no slot")            \
    X(database_waits, VL_GAUGE, "requests_at_database",                                        \
      "running requests that wait for MariaDB or PostgreSQL")                                  \
    X(database_now_permille, VL_GAUGE, NULL, NULL)                                             \
    X(late, VL_COUNTER, "requests_late_total",                                                 \
      "requests put behind others because they had waited for longer than clients of "         \
      "the site do")                                                                           \
    X(limited_s, VL_GAUGE, "limited_seconds",                                                  \
      "how long the site has been limited; 0: it is not")                                      \
    X(cpu_now_permille, VL_GAUGE, NULL, NULL)                                                  \
    X(cpu_minute_permille, VL_GAUGE, NULL, NULL)                                               \
    X(service_us, VL_GAUGE, NULL, NULL)                                                        \
    X(wait_p50_us, VL_GAUGE, NULL, NULL)                                                       \
    X(wait_p99_us, VL_GAUGE, NULL, NULL)                                                       \
    X(fleet_weight_milli, VL_GAUGE, "fleet_weight_thousandths",                                \
      "part of the weight from vhostlimit-fleet, in thousandths; 0: none")                     \
    X(fleet_cpu_permille, VL_GAUGE, "fleet_cpu_permille",                                      \
      "part of a CPU limit over all servers, 1000 is one processor; 0: none")                  \
    X(fleet_concurrency, VL_GAUGE, "fleet_concurrency",                                        \
      "part of a limit of running requests over all servers; 0: none")

/* Maximum number of hosts (VhostLimitAccounts Host) that a page shows. */
#define VL_STATUS_HOSTS_MAX 200

/* A class of a site (VhostLimitClass). */
typedef struct vl_class_row_t {
    const char *name;
    vl_inside_class_t counts;
    apr_uint64_t cpu_permille;      /* part of the CPU time of all classes */
} vl_class_row_t;

/* Requests that waited for a time of this bucket of core/vl_metrics.h. */
typedef struct vl_waited_t {
    unsigned bucket;
    apr_uint64_t n;
} vl_waited_t;

/* Requests of a site of this page that requests of another one, or of the same, wait for. */
typedef struct vl_call_row_t {
    const char *site;               /* that is called */
    vl_calls_t calls;
} vl_call_row_t;

/* One account. */
typedef struct vl_row_t {
    const char *name;
    const char *host_of;            /* the site, if this is a host of it; else "" */
    const char *mode, *state, *method, *cost;   /* keywords, see docs/reference/status.md */
    const char *plan;               /* "" if the site has none */
    const char *cgroup;             /* path from the root of the hierarchy */
    const char *unenforced;         /* why the kernel does not enforce a limit; "" if it
                                     * enforces all */
    const apr_array_header_t *vhosts;   /* server_rec *: virtual hosts of the site */
    vl_mode_e limits_mode;          /* the mode as a number, for "figures" */
    vl_override_t override;
    vl_metrics_t metrics;
#define X(member, kind, prometheus, help) apr_uint64_t member;
    VL_DERIVED(X)
#undef X
    const apr_array_header_t *spent;    /* vl_spent_t: its back ends */
    apr_array_header_t *calls;      /* vl_call_row_t; NULL: none */
    const vl_class_row_t *classes;
    int nclasses;                   /* 0: it has no VhostLimitClass */
    const apr_array_header_t *waits;    /* vl_waited_t, by the bucket; NULL: none */
} vl_row_t;

/* All data of a page. */
typedef struct vl_page_t {
    vl_row_t *rows;                 /* the sites, then the busiest hosts */
    int nrows;
    const char *module, *mpm, *fleet;
    apr_uint64_t schema, now_us, started_us, uptime_s, children, workers, threads, slots,
                 slots_auto, processors, sites, unenforced, fleet_held, fleet_lapsed;
    apr_int64_t held_us;            /* time that the segment lock was held for the rows */
    apr_uint64_t configured_us, children_lost, requests_lost;   /* valid in the parent */
    struct { const char *backend, *path, *reason, *outside; } cgroup;
    struct { const char *is, *why; apr_uint64_t since_s, changes, engaged; } state;
    struct { const char *state, *unread; apr_uint64_t round_us, processes, unfound; } sampler;
    struct { apr_uint64_t limit, named, shown, beyond; } hosts;
    int by_host;                    /* 1: a site has VhostLimitAccounts Host */
    int with_classes;               /* number of rows with classes */
} vl_page_t;

/* Describes a number or a word of a page or of a row. */
typedef struct vl_column_t {
    const char *key;                /* "a.b": key b of the object a; NULL: not in ?json */
    vl_metric_kind_e kind;
    const char *prometheus;         /* metric name, and `{label="` and all of a label but the value
                                     * of a word; NULL: no metric */
    const char *help;
    apr_size_t offset;
} vl_column_t;

/* The tables of a vl_page_t and of a vl_row_t end with offset 0. */
extern const vl_column_t vl_status_page_columns[], vl_status_columns[];

/* Return the number or the word of the page or the row that the column describes. */
static inline apr_uint64_t vl_status_number(const void *of, const vl_column_t *column)
{
    return *(const apr_uint64_t *)((const char *)of + column->offset);
}

static inline const char *vl_status_word(const void *of, const vl_column_t *column)
{
    return *(const char *const *)((const char *)of + column->offset);
}

/* Copies the data of all accounts into p; of many hosts those with most requests in flight
 * and most CPU time.  only: the account of that server, or NULL.  host: the account of
 * that host at the server, if it has one.  Takes the segment lock once for each batch of accounts. */
vl_page_t *vl_status_gather(apr_pool_t *p, const server_rec *only, const char *host);

/* Each writes the page in one format. */
typedef void (*vl_status_format_fn)(vl_out_t *out, const vl_page_t *page);
void vl_status_json(vl_out_t *out, const vl_page_t *page);
void vl_status_prom(vl_out_t *out, const vl_page_t *page);
/* The numbers alone, in few bytes: {...,"wait_limits_us":[N,...],"columns":["name","mode",...,
 * "waits"],"sites":[["NAME",N,...,[BUCKET,N,BUCKET,N,...]],...]}.  Bucket b counts the requests that
 * waited for at most wait_limits_us[b], and longer than wait_limits_us[b - 1]. */
void vl_status_figures(vl_out_t *out, const vl_page_t *page);

#endif
