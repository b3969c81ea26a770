/* SPDX-License-Identifier: Apache-2.0 */
/* Charts of the history on the HTML page: six pictures in SVG, which need no script.  A chart
 * is as wide as its place; the texts beside it are HTML, so they are not stretched. */
#include "config.h"

#include <apr_time.h>
#include <httpd.h>

#include "status/vl_status_int.h"

/* Size of a chart in its own units: a step is STEP_WIDTH wide. */
#define STEP_WIDTH 10
#define HEIGHT 500
/* The highest value is this high. */
#define TOP 470
/* Most steps of a chart. */
#define STEPS_MAX 168

/* Spans of time, each with the minutes of a step. */
static const struct span_t {
    unsigned hours, step;
    const char *name;
    const char *format;         /* of the times below the chart */
} spans[] = {
    { 1, 1, "1 h", "%H:%M" },
    { 6, 3, "6 h", "%H:%M" },
    { 24, 10, "24 h", "%H:%M" },
    { 168, 60, "7 d", "%a %H:%M" }
};

#define SPANS (sizeof(spans) / sizeof(spans[0]))
#define DEFAULT_SPAN 2
/* Times below a chart. */
#define TIMES 2

/* Figures of a step: sums of its minutes, or the highest of them. */
typedef struct step_t {
    double seconds;             /* 0: no figures */
    double sum[VL_HISTORY_FIGURE_COUNT], most[VL_HISTORY_FIGURE_COUNT];
} step_t;

/* A chart shows a rate, or the highest value. */
static const struct chart_t {
    const char *title, *unit, *help;
    int figure;
    int is_rate;                /* 1: the sum in a second, times the factor */
    double factor;
} charts[] = {
    { "Requests", "/s", "requests admitted, a second", VL_HISTORY_requests, 1, 1 },
    { "CPU", "%", "CPU time charged, 100 is one processor", VL_HISTORY_cpu_us, 1, 1e-4 },
    { "Waiting", "", "requests queued and deferred, the most at once", VL_HISTORY_waiting, 0,
      1 },
    { "Wait p99", "ms", "99th percentile of the time in the queue, the highest of the minutes",
      VL_HISTORY_wait_p99_us, 0, 1e-3 },
    { "Refused", "/min", "requests refused, a minute", VL_HISTORY_refused, 1, 60 },
    { "Gone", "/min", "connections that clients closed while they were queued, a minute",
      VL_HISTORY_gone, 1, 60 }
};

/* The charts of a page. */
typedef struct picture_t {
    const struct span_t *span;
    unsigned n;                 /* steps */
    uint32_t first;             /* minute of the first step */
    step_t steps[STEPS_MAX];
    char times[TIMES + 1][32];  /* below each chart */
} picture_t;

/* --- figures -------------------------------------------------------------- */

/* Adds the minutes of a step. */
static void read_step(const vl_history_t *history, uint32_t minute, unsigned n, step_t *step)
{
    uint64_t figures[VL_HISTORY_FIGURE_COUNT];
    unsigned m;
    int i;

    for (m = 0; m < n; m++) {
        uint32_t seconds = vl_history_read(history, minute + m, figures);

        step->seconds += seconds;
        for (i = 0; seconds && i < VL_HISTORY_FIGURE_COUNT; i++) {
            step->sum[i] += (double)figures[i];
            if (step->most[i] < (double)figures[i])
                step->most[i] = (double)figures[i];
        }
    }
}

/* Fills in local times at equal distances. */
static void find_times(picture_t *picture)
{
    unsigned i;

    for (i = 0; i <= TIMES; i++) {
        apr_time_t time = apr_time_from_sec(60 * ((apr_time_t)picture->first
                                                  + i * picture->span->hours * 60 / TIMES));
        apr_time_exp_t local;
        apr_size_t len;

        if (apr_time_exp_lt(&local, time) != APR_SUCCESS
            || apr_strftime(picture->times[i], &len, sizeof(picture->times[i]),
                            picture->span->format, &local) != APR_SUCCESS)
            picture->times[i][0] = '\0';
    }
}

static const picture_t *read_picture(apr_pool_t *p, const vl_page_t *page)
{
    picture_t *picture = apr_pcalloc(p, sizeof(*picture));
    uint32_t now = (uint32_t)(page->now_us / (60 * APR_USEC_PER_SEC));
    unsigned i, step;

    for (i = 0; i < SPANS && spans[i].hours != page->hours; i++)
        ;
    picture->span = &spans[i < SPANS ? i : DEFAULT_SPAN];
    step = picture->span->step;
    picture->n = picture->span->hours * 60 / step;
    picture->first = (now / step - (picture->n - 1)) * step;
    for (i = 0; i < picture->n; i++)
        read_step(page->history, picture->first + i * step, step, &picture->steps[i]);
    find_times(picture);
    return picture;
}

static double value_of(const struct chart_t *chart, const step_t *step)
{
    if (!chart->is_rate)
        return step->most[chart->figure] * chart->factor;
    return step->sum[chart->figure] / step->seconds * chart->factor;
}

/* --- pictures ------------------------------------------------------------- */

static void put_value(vl_out_t *out, double value)
{
    vl_out_printf(out, value > 0 && value < 9.95 ? "%.1f" : "%.0f", value);
}

/* Draws the steps; a part without figures stays empty. */
static void put_path(vl_out_t *out, const picture_t *picture, const struct chart_t *chart,
                     double highest)
{
    int is_open = 0;
    unsigned i;

    vl_out_text(out, "<path d=\"");
    for (i = 0; i < picture->n; i++) {
        const step_t *step = &picture->steps[i];

        if (!(step->seconds > 0)) {
            if (is_open)
                vl_out_printf(out, "V%dZ", HEIGHT);
            is_open = 0;
            continue;
        }
        if (!is_open)
            vl_out_printf(out, "M%u %d", i * STEP_WIDTH, HEIGHT);
        is_open = 1;
        vl_out_printf(out, "V%dh%d", HEIGHT - (int)(value_of(chart, step) / highest * TOP),
                      STEP_WIDTH);
    }
    vl_out_printf(out, is_open ? "V%dZ\"/>" : "\"/>", HEIGHT);
}

/* Writes local times, at equal distances. */
static void put_times(vl_out_t *out, const picture_t *picture)
{
    unsigned i;

    vl_out_text(out, "<p class=\"times\">");
    for (i = 0; i <= TIMES; i++)
        vl_out_printf(out, "<span>%s</span>", picture->times[i]);
    vl_out_text(out, "</p>");
}

static void put_chart(vl_out_t *out, const picture_t *picture, const struct chart_t *chart)
{
    double highest = 0, last = -1;
    unsigned i;

    for (i = 0; i < picture->n; i++) {
        if (!(picture->steps[i].seconds > 0))
            continue;
        last = value_of(chart, &picture->steps[i]);
        highest = highest < last ? last : highest;
    }
    vl_out_printf(out, "<figure title=\"%s\"><figcaption><b>%s</b> ", chart->help,
                  chart->title);
    if (last < 0) {
        vl_out_text(out, "no figures");
    }
    else {
        put_value(out, last);
        vl_out_printf(out, " %s <span>highest ", chart->unit);
        put_value(out, highest);
        vl_out_text(out, "</span>");
    }
    vl_out_printf(out, "</figcaption><svg viewBox=\"0 0 %u %d\" preserveAspectRatio=\"none\" "
                  "role=\"img\" aria-label=\"%s\">", picture->n * STEP_WIDTH, HEIGHT,
                  chart->help);
    put_path(out, picture, chart, highest > 0 ? highest : 1);
    vl_out_text(out, "</svg>");
    put_times(out, picture);
    vl_out_text(out, "</figure>\n");
}

/* Writes the links to the other spans. */
static void put_spans(vl_out_t *out, const vl_page_t *page, const picture_t *picture)
{
    unsigned i;

    vl_out_text(out, "<p class=\"spans\">");
    for (i = 0; i < SPANS; i++) {
        if (&spans[i] == picture->span) {
            vl_out_printf(out, "<b>%s</b> ", spans[i].name);
            continue;
        }
        vl_out_text(out, "<a href=\"?");
        vl_out_html(out, page->query);
        vl_out_printf(out, "hours=%u\">%s</a> ", spans[i].hours, spans[i].name);
    }
    if (page->is_chosen)
        vl_out_text(out, "<a href=\"?\">All sites</a>");
    vl_out_text(out, "</p>\n");
}

void vl_status_charts(vl_out_t *out, const vl_page_t *page)
{
    const picture_t *picture;
    unsigned i;

    if (!page->history)
        return;
    picture = read_picture(out->pool, page);
    vl_out_text(out, "<section id=\"charts\"><h2>");
    if (page->is_single && page->nrows)
        vl_out_html(out, page->rows[0].name);
    else
        vl_out_text(out, "All sites");
    vl_out_text(out, "</h2>\n");
    put_spans(out, page, picture);
    vl_out_text(out, "<div>\n");
    for (i = 0; i < sizeof(charts) / sizeof(charts[0]); i++)
        put_chart(out, picture, &charts[i]);
    vl_out_text(out, "</div></section>\n");
}
