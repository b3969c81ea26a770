/* SPDX-License-Identifier: Apache-2.0 */
/* The format ?prometheus: text format of Prometheus, version 0.0.4.  It requires that all
 * samples of a metric are adjacent.  Sites without any request since the start of the
 * server are omitted. */
#include "config.h"

#include <apr_strings.h>

#include "status/vl_status_int.h"

/* Upper bounds ("le") of the histogram: 4^5 us (1 ms) to 4^13 us (67 s). */
#define WAIT_STEPS 9
#define WAIT_STEP_US(i) ((apr_uint64_t)1 << (10 + 2 * (i)))

static void put_head(vl_out_t *out, const char *name, const char *type, const char *help)
{
    vl_out_printf(out, "# HELP vhostlimit_%s %s\n# TYPE vhostlimit_%s %s\n", name, help, name, type);
}

static const char *type_of(vl_metric_kind_e kind)
{
    return kind == VL_COUNTER ? "counter" : "gauge";
}

/* Writes a sample: name{vhost="...", for a host also site="...", and then the label.  A word is the
 * end of the label.  row NULL: it is of the server. */
static void put_sample(vl_out_t *out, const char *name, const vl_row_t *row, const char *label,
                       const char *word, apr_uint64_t n, int decimals)
{
    vl_out_text(out, "vhostlimit_");
    vl_out_text(out, name);
    vl_out_text(out, row || *label ? "{" : "");
    if (row) {
        vl_out_text(out, "vhost=\"");
        vl_out_label(out, row->name);
        vl_out_text(out, "\"");
        if (*row->host_of) {
            vl_out_text(out, ",site=\"");
            vl_out_label(out, row->host_of);
            vl_out_text(out, "\"");
        }
        vl_out_text(out, *label ? "," : "");
    }
    vl_out_text(out, label);
    if (word) {
        vl_out_label(out, word);
        vl_out_text(out, "\"");
    }
    vl_out_text(out, row || *label ? "} " : " ");
    vl_out_fixed(out, n, decimals);
    vl_out_text(out, "\n");
}

/* Returns 1 if the site has had no request since the start of the server. */
static int is_idle(const vl_row_t *row)
{
    return !row->metrics.requests && !row->metrics.refused
           && !row->metrics.running && !row->metrics.waiting
           && !row->metrics.gone;
}

static void put_value(vl_out_t *out, const char *name, const char *label, const vl_column_t *column,
                      const vl_row_t *row, const void *of)
{
    apr_size_t len = column->key ? strlen(column->key) : 0;
    /* Microseconds are exported in seconds. */
    int is_us = len > 3 && !strcmp(column->key + len - 3, "_us");

    if (column->kind == VL_WORD)
        put_sample(out, name, row, label, vl_status_word(of, column), 1, 0);
    else
        put_sample(out, name, row, label, NULL, vl_status_number(of, column), is_us ? 6 : 0);
}

/* Writes a table: of the rows if it is theirs, else of the page. */
static void put_table(vl_out_t *out, const vl_page_t *page, const vl_column_t *column)
{
    int of_rows = column == vl_status_columns, i;
    const char *last = "";

    for (; column->offset; column++) {
        const char *label, *name = column->prometheus;

        if (!name || (!page->by_host && column->key && !strncmp(column->key, "hosts.", 6)))
            continue;
        label = strchr(name, '{');
        name = label ? apr_pstrndup(out->pool, name, (apr_size_t)(label - name)) : name;
        label = label ? label + 1 : "";
        if (strcmp(name, last))
            put_head(out, name, type_of(column->kind), column->help);
        last = name;
        for (i = 0; of_rows && i < page->nrows; i++) {
            if (!is_idle(&page->rows[i]))
                put_value(out, name, label, column, &page->rows[i], &page->rows[i]);
        }
        if (!of_rows)
            put_value(out, name, label, column, NULL, page);
    }
}

/* Metrics of the classes of a site. Their labels are the site and the class, never a
 * client: a site has eight classes at most. */
static const struct class_metric_t {
    const char *name, *help;
    vl_metric_kind_e kind;          /* gauges have 32 bits */
    int decimals;
    apr_size_t offset;
} class_metrics[] = {
    { "class_requests_waiting", "requests of the class, queued or deferred", VL_GAUGE, 0,
      APR_OFFSETOF(vl_inside_class_t, waiting) },
    { "class_weight", "weight of the class (VhostLimitClass)", VL_GAUGE, 0,
      APR_OFFSETOF(vl_inside_class_t, weight) },
    { "class_requests_total",
      "requests of the class that ended while requests of the site were queued", VL_COUNTER, 0,
      APR_OFFSETOF(vl_inside_class_t, requests) },
    { "class_cpu_seconds_total", "CPU time charged to the class meanwhile", VL_COUNTER, 6,
      APR_OFFSETOF(vl_inside_class_t, cpu_us) },
    { NULL }
};

static void put_classes(vl_out_t *out, const vl_page_t *page)
{
    const struct class_metric_t *metric;
    int i, c;

    for (metric = class_metrics; metric->name && page->with_classes; metric++) {
        put_head(out, metric->name, type_of(metric->kind), metric->help);
        for (i = 0; i < page->nrows; i++) {
            const vl_row_t *row = &page->rows[i];

            for (c = 0; c < (is_idle(row) ? 0 : row->nclasses); c++) {
                const char *at = (const char *)&row->classes[c].counts + metric->offset;

                put_sample(out, metric->name, row, "class=\"", row->classes[c].name,
                           metric->kind == VL_COUNTER ? *(const apr_uint64_t *)at
                                                      : *(const apr_uint32_t *)at, metric->decimals);
            }
        }
    }
}

static void put_histogram(vl_out_t *out, const vl_row_t *row)
{
    const vl_waited_t *waited = row->waits ? (const vl_waited_t *)row->waits->elts : NULL;
    apr_uint64_t sum = 0;
    char le[40];
    int i, b = 0;

    for (i = 0; i < WAIT_STEPS; i++) {
        for (; waited && b < row->waits->nelts
               && vl_metrics_wait_us(waited[b].bucket) < WAIT_STEP_US(i); b++)
            sum += waited[b].n;
        apr_snprintf(le, sizeof(le), "le=\"%u.%06u\"", (unsigned)(WAIT_STEP_US(i) / 1000000),
                     (unsigned)(WAIT_STEP_US(i) % 1000000));
        put_sample(out, "wait_seconds_bucket", row, le, NULL, sum, 0);
    }
    put_sample(out, "wait_seconds_bucket", row, "le=\"+Inf\"", NULL, row->metrics.requests, 0);
    put_sample(out, "wait_seconds_sum", row, "", NULL, row->metrics.wait_us, 6);
    put_sample(out, "wait_seconds_count", row, "", NULL, row->metrics.requests, 0);
}

void vl_status_prom(vl_out_t *out, const vl_page_t *page)
{
    int i;

    put_head(out, "info", "gauge", "version, MPM and cgroup backend");
    vl_out_printf(out, "vhostlimit_info{version=\"%s\",mpm=\"%s\",cgroup=\"%s\"} 1\n", VL_VERSION,
                  page->mpm, page->cgroup.backend);
    put_table(out, page, vl_status_page_columns);
    put_table(out, page, vl_status_columns);
    put_classes(out, page);
    put_head(out, "wait_seconds", "histogram", "time that admitted requests were queued");
    for (i = 0; i < page->nrows; i++) {
        if (!is_idle(&page->rows[i]))
            put_histogram(out, &page->rows[i]);
    }
}
