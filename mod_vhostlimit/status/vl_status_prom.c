/* SPDX-License-Identifier: Apache-2.0 */
/* The format ?prometheus: text format of Prometheus, version 0.0.4.  It requires that all
 * samples of a metric are adjacent.  Vhosts without any request since the start of the
 * server are omitted. */
#include "config.h"

#include <apr_strings.h>

#include "status/vl_status_int.h"

static void put_head(vl_out_t *out, const char *name, const char *type,
                     const char *help)
{
    vl_out_printf(out, "# HELP vhostlimit_%s %s\n# TYPE vhostlimit_%s %s\n",
                  name, help, name, type);
}

/* Writes a metric of the server, which has no label. */
static void put_gauge(vl_out_t *out, const char *name, const char *help,
                      apr_uint64_t n)
{
    put_head(out, name, "gauge", help);
    vl_out_printf(out, "vhostlimit_%s %" APR_UINT64_T_FMT "\n", name, n);
}

/* Writes the beginning of a sample: name{vhost="...", for a host also site="...", and then
 * `more`. */
static void put_series(vl_out_t *out, const char *name, const vl_row_t *row,
                       const char *more)
{
    vl_out_text(out, "vhostlimit_");
    vl_out_text(out, name);
    vl_out_text(out, "{vhost=\"");
    vl_out_label(out, row->name);
    vl_out_text(out, "\"");
    if (*row->host_of) {
        vl_out_text(out, ",site=\"");
        vl_out_label(out, row->host_of);
        vl_out_text(out, "\"");
    }
    vl_out_text(out, more);
}

static void put_sample(vl_out_t *out, const char *name, const vl_row_t *row,
                       const char *more, apr_uint64_t n, int decimals)
{
    put_series(out, name, row, more);
    vl_out_text(out, "} ");
    vl_out_fixed(out, n, decimals);
    vl_out_text(out, "\n");
}

/* Returns 1 if the vhost has had no request since the start of the server. */
static int is_idle(const vl_row_t *row)
{
    return !row->metrics.requests && !row->metrics.refused
           && !row->metrics.running && !row->metrics.waiting
           && !row->metrics.gone;
}

/* Returns 1 if the unit of the number is microseconds; it is exported in seconds. */
static int is_us(const char *key)
{
    apr_size_t len = strlen(key);

    return len > 3 && !strcmp(key + len - 3, "_us");
}

static void put_column(vl_out_t *out, const vl_page_t *page,
                       const vl_column_t *column)
{
    int i;

    put_head(out, column->prometheus,
             column->kind == VL_COUNTER ? "counter" : "gauge", column->help);
    for (i = 0; i < page->nrows; i++) {
        if (!is_idle(&page->rows[i]))
            put_sample(out, column->prometheus, &page->rows[i], "",
                       vl_status_cell(&page->rows[i], column),
                       is_us(column->key) ? 6 : 0);
    }
}

static void put_cost(vl_out_t *out, const vl_page_t *page)
{
    int i;

    put_head(out, "cost_method", "gauge",
             "source of the CPU time of back ends: thread, processes, unknown or remote");
    for (i = 0; i < page->nrows; i++) {
        const vl_row_t *row = &page->rows[i];

        if (!is_idle(row))
            put_sample(out, "cost_method", row,
                       apr_pstrcat(out->r->pool, ",method=\"", row->cost,
                                   "\"", NULL), 1, 0);
    }
}

static void put_refused(vl_out_t *out, const vl_page_t *page)
{
    static const char name[] = "requests_refused_total";
    int i;

    put_head(out, name, "counter", "requests refused, by reason");
    for (i = 0; i < page->nrows; i++) {
        const vl_row_t *row = &page->rows[i];

        if (is_idle(row))
            continue;
        put_sample(out, name, row, ",reason=\"concurrency\"",
                   row->metrics.refused_concurrency, 0);
        put_sample(out, name, row, ",reason=\"queue\"",
                   row->metrics.refused_queue, 0);
        put_sample(out, name, row, ",reason=\"timeout\"",
                   row->metrics.refused_timeout, 0);
    }
}

/* Metrics of the classes of a site. Their labels are the site and the class, never a
 * client: a site has eight classes at most. */
static const struct class_metric_t {
    const char *name, *type, *help;
    int is_seconds;
    apr_size_t offset;
} class_metrics[] = {
    { "class_requests_waiting", "gauge", "requests of the class, queued or deferred", 0,
      APR_OFFSETOF(vl_inside_class_t, waiting) },
    { "class_weight", "gauge", "weight of the class (VhostLimitClass)", 0,
      APR_OFFSETOF(vl_inside_class_t, weight) },
    { "class_requests_total", "counter",
      "requests of the class that ended while requests of the site were queued", 0,
      APR_OFFSETOF(vl_inside_class_t, requests) },
    { "class_cpu_seconds_total", "counter", "CPU time charged to the class meanwhile", 1,
      APR_OFFSETOF(vl_inside_class_t, cpu_us) },
    { NULL }
};

static void put_class_metric(vl_out_t *out, const vl_page_t *page,
                             const struct class_metric_t *metric)
{
    int is_counter = !strcmp(metric->type, "counter");
    int i, c;

    put_head(out, metric->name, metric->type, metric->help);
    for (i = 0; i < page->nrows; i++) {
        const vl_row_t *row = &page->rows[i];

        for (c = 0; c < (is_idle(row) ? 0 : row->nclasses); c++) {
            const char *at = (const char *)&row->classes[c].counts + metric->offset;

            put_sample(out, metric->name, row,
                       apr_pstrcat(out->pool, ",class=\"", row->classes[c].name, "\"", NULL),
                       is_counter ? *(const apr_uint64_t *)at : *(const apr_uint32_t *)at,
                       metric->is_seconds ? 6 : 0);
        }
    }
}

static void put_classes(vl_out_t *out, const vl_page_t *page)
{
    const struct class_metric_t *metric;

    for (metric = class_metrics; metric->name && page->with_classes; metric++)
        put_class_metric(out, page, metric);
}

static void put_histogram(vl_out_t *out, const vl_row_t *row)
{
    char le[40];
    int i;

    for (i = 0; i < VL_WAIT_STEPS; i++) {
        apr_uint64_t us = VL_WAIT_STEP_US(i);

        apr_snprintf(le, sizeof(le), ",le=\"%u.%06u\"",
                     (unsigned)(us / 1000000), (unsigned)(us % 1000000));
        put_sample(out, "wait_seconds_bucket", row, le, row->waits[i], 0);
    }
    put_sample(out, "wait_seconds_bucket", row, ",le=\"+Inf\"",
               row->metrics.requests, 0);
    put_sample(out, "wait_seconds_sum", row, "", row->metrics.wait_us, 6);
    put_sample(out, "wait_seconds_count", row, "", row->metrics.requests, 0);
}

static void put_waits(vl_out_t *out, const vl_page_t *page)
{
    int i;

    put_head(out, "wait_seconds", "histogram",
             "time that admitted requests were queued");
    for (i = 0; i < page->nrows; i++) {
        if (!is_idle(&page->rows[i]))
            put_histogram(out, &page->rows[i]);
    }
}

static void put_limits(vl_out_t *out, const vl_page_t *page)
{
    static const struct {
        const char *name, *help;
        apr_size_t offset;
    } limits[] = {
        { "weight", "VhostLimitWeight", APR_OFFSETOF(vl_limits_t, weight) },
        { "concurrency_limit", "VhostLimitConcurrency, 0: no limit",
          APR_OFFSETOF(vl_limits_t, concurrency) },
        { "queue_limit", "VhostLimitQueue", APR_OFFSETOF(vl_limits_t, queue) }
    };
    apr_size_t l;
    int i;

    for (l = 0; l < sizeof(limits) / sizeof(limits[0]); l++) {
        put_head(out, limits[l].name, "gauge", limits[l].help);
        for (i = 0; i < page->nrows; i++) {
            const vl_row_t *row = &page->rows[i];

            if (!is_idle(row))
                put_sample(out, limits[l].name, row, "",
                           *(const apr_uint32_t *)
                           ((const char *)&row->limits + limits[l].offset), 0);
        }
    }
}

static void put_hosts(vl_out_t *out, const vl_page_t *page)
{
    put_gauge(out, "hosts", "host names that have an account (VhostLimitAccounts)",
              page->hosts.named);
    put_gauge(out, "hosts_limit", "most host names that have an account at once",
              page->hosts.limit);
    put_head(out, "hosts_beyond_total", "counter",
             "times that a host name got no account and used that of its site");
    vl_out_printf(out, "vhostlimit_hosts_beyond_total %" APR_UINT64_T_FMT "\n",
                  page->hosts.beyond);
}

static void put_sampler(vl_out_t *out, const vl_page_t *page)
{
    put_head(out, "sampler", "gauge", "1, with the state of the sampler: runs, blind or none");
    vl_out_printf(out, "vhostlimit_sampler{state=\"%s\"} 1\n", page->sampler);
    put_head(out, "sampler_round_seconds", "gauge",
             "CPU time of a round of the sampler, moving average");
    vl_out_text(out, "vhostlimit_sampler_round_seconds ");
    vl_out_fixed(out, page->sampler_us, 6);
    vl_out_text(out, "\n");
    put_gauge(out, "sampler_processes", "processes of back ends that the sampler watches",
              page->sampled);
    put_gauge(out, "sampler_unfound",
              "back ends on this machine that no process was found for",
              page->unfound);
}

static void put_state(vl_out_t *out, const vl_page_t *page)
{
    put_gauge(out, "engaged", "1: the server is engaged, 0: it is dormant",
              (apr_uint64_t)page->engage.engaged);
    put_head(out, "state_changes_total", "counter",
             "times that the server became dormant or engaged");
    vl_out_printf(out, "vhostlimit_state_changes_total %u\n", page->engage.changes);
}

static void put_server(vl_out_t *out, const vl_page_t *page)
{
    put_head(out, "info", "gauge", "version, MPM and cgroup backend");
    vl_out_printf(out, "vhostlimit_info{version=\"%s\",mpm=\"%s\","
                  "cgroup=\"%s\"} 1\n", VL_VERSION, page->mpm, page->backend);
    put_gauge(out, "start_time_seconds", "start time of the server",
              (apr_uint64_t)apr_time_sec(page->started_us));
    put_gauge(out, "children", "child processes", page->children);
    put_gauge(out, "slots", "number of slots: most running requests that want a processor",
              page->slots);
    put_gauge(out, "processors", "processors that the server may use",
              page->processors);
    put_gauge(out, "vhosts", "sites that take part",
              (apr_uint64_t)page->nsites);
    put_gauge(out, "vhosts_unenforced",
              "sites with a limit that the kernel does not enforce",
              (apr_uint64_t)page->unenforced);
    if (page->by_host)
        put_hosts(out, page);
    put_state(out, page);
    put_sampler(out, page);
    put_gauge(out, "fleet_held", "1: vhostlimit-fleet renews its leases",
              page->leases.until_us != 0);
    put_head(out, "fleet_lapsed_total", "counter",
             "how often the leases of vhostlimit-fleet have ended for want of a renewal");
    vl_out_printf(out, "vhostlimit_fleet_lapsed_total %" APR_UINT64_T_FMT "\n",
                  page->leases.lapsed);
}

void vl_status_prom(vl_out_t *out, const vl_page_t *page)
{
    const vl_column_t *column;

    put_server(out, page);
    for (column = vl_status_columns; column->key; column++) {
        if (column->prometheus)
            put_column(out, page, column);
    }
    put_cost(out, page);
    put_refused(out, page);
    put_classes(out, page);
    put_waits(out, page);
    put_limits(out, page);
}
