/* SPDX-License-Identifier: Apache-2.0 */
/* The HTML page.  It is complete without its script: one table has all vhosts.  The script
 * sorts, filters and refreshes the page, and reads its data from that table.  All text
 * that does not come from the module, such as a ServerName, is escaped by vl_out_html(). */
#include "config.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <httpd.h>

#include "config/vl_conf.h"
#include "status/vl_status_int.h"
#include "vl_status_page.h"

/* Columns that only some pages have. */
typedef enum { ALWAYS, WITH_DRYRUN, WITH_CLASSES } when_e;

static const struct heading_t {
    const char *key, *text, *title;
    int is_text;
    when_e when;
} headings[] = {
    { "vhost", "Site", "ServerName, or @ and the VhostLimitGroup", 1, ALWAYS },
    { "state", "State", "idle; running; waiting: requests are queued; capped: "
      "VhostLimitConcurrency is reached; limited, and since when", 1, ALWAYS },
    { "running", "Running", "requests that are being worked on", 0, ALWAYS },
    { "waiting", "Waiting", "requests queued for a slot", 0, ALWAYS },
    { "deferred", "Deferred", "connections that wait, unread, because the "
      "queue is full", 0, ALWAYS },
    { "clients", "Clients", "clients with queued or deferred requests", 0, ALWAYS },
    { "refused", "Refused", "requests refused since the start", 0, ALWAYS },
    { "cpu_now", "CPU now %", "CPU time charged in the last 2 to 4 s, 100 is "
      "one processor", 0, ALWAYS },
    { "cpu_minute", "CPU 1 min %", "CPU time charged in the last minute, 100 "
      "is one processor", 0, ALWAYS },
    { "database", "Database %", "CPU time of its sessions in MariaDB and PostgreSQL in the last "
      "second, 100 is one processor", 0, ALWAYS },
    { "p50", "Wait p50 ms", "median time in the queue since the start", 0, ALWAYS },
    { "p99", "Wait p99 ms", "99th percentile of the time in the queue since the "
      "start", 0, ALWAYS },
    { "requests", "Requests", "requests admitted since the start", 0, ALWAYS },
    { "queued", "Queued", "of them, those that were queued first", 0, ALWAYS },
    { "late", "Late", "requests put behind others because they had waited for longer "
      "than clients of the site do", 0, ALWAYS },
    { "would_queue", "Would queue", "requests that On would have queued", 0,
      WITH_DRYRUN },
    { "would_refuse", "Would refuse", "requests that On would have refused", 0,
      WITH_DRYRUN },
    { "weight", "Weight", "VhostLimitWeight", 0, ALWAYS },
    { "concurrency", "Concurrency", "VhostLimitConcurrency; empty: no limit", 0,
      ALWAYS },
    { "queue", "Queue", "VhostLimitQueue", 0, ALWAYS },
    { "cpu_cap", "CPU cap %", "VhostLimitCPU; empty: no cap", 0, ALWAYS },
    { "mode", "Mode", "VhostLimit", 1, ALWAYS },
    { "method", "Queued as", "socket: without a thread; thread: with a thread; "
      "none: requests are admitted or refused at once", 1, ALWAYS },
    { "cost", "Cost from", "source of the CPU time of back ends. processes: measured; "
      "unknown: not found; remote: on another machine; thread: no back end was used yet", 1, ALWAYS },
    { "killed", "Killed", "processes that the kernel killed for lack of memory", 0, ALWAYS },
    { "classes", "Classes", "VhostLimitClass: weight, queued and deferred requests, part of the "
      "CPU time that was charged while requests of the site were queued", 1, WITH_CLASSES },
    { "cgroup", "Cgroup", "name of the site's group below the tree's root", 1, ALWAYS },
    { NULL }
};

/* Returns 1 if a vhost has the mode DryRun. */
static int has_dryrun(const vl_page_t *page)
{
    int i;

    for (i = 0; i < page->nrows; i++) {
        if (page->rows[i].limits.mode == VL_MODE_DRYRUN)
            return 1;
    }
    return 0;
}

/* Sets the Content-Security-Policy: the browser runs only the style and the script of this
 * page, which carry a random nonce.  Returns the nonce. */
static const char *set_policy(request_rec *r)
{
    unsigned char random[16];
    char *nonce = apr_palloc(r->pool, sizeof(random) * 2 + 1);

    if (apr_generate_random_bytes(random, sizeof(random)) != APR_SUCCESS)
        ap_random_insecure_bytes(random, sizeof(random));
    ap_bin2hex(random, sizeof(random), nonce);
    apr_table_setn(r->headers_out, "Content-Security-Policy",
                   apr_psprintf(r->pool, "default-src 'none'; script-src "
                                "'nonce-%s'; style-src 'nonce-%s'; "
                                "connect-src 'self'; img-src data:; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'self'",
                                nonce, nonce));
    apr_table_setn(r->headers_out, "Referrer-Policy", "no-referrer");
    return nonce;
}

static void put_head(vl_out_t *out, const char *nonce)
{
    vl_out_text(out, "<!DOCTYPE html>\n<html lang=\"en\"><head>"
                "<meta charset=\"utf-8\"><title>vhostlimit</title>\n"
                "<meta name=\"viewport\" content=\"width=device-width\">\n"
                "<link rel=\"icon\" href=\"data:,\">\n"
                "<noscript><meta http-equiv=\"refresh\" content=\"10\">"
                "</noscript>\n<style nonce=\"");
    vl_out_text(out, nonce);
    vl_out_text(out, "\">\n");
    vl_out_text(out, page_style);
    vl_out_text(out, "</style></head>\n<body>\n");
}

static void put_facts(vl_out_t *out, const vl_page_t *page)
{
    apr_int64_t up = page->uptime_s;

    vl_out_printf(out, "<header><h1>vhostlimit</h1>\n<p>%s, MPM %s, %u "
                  "children, up %" APR_INT64_T_FMT " d %d:%02d:%02d, cgroup "
                  "backend %s ", VL_VERSION, page->mpm, page->children,
                  up / 86400, (int)(up / 3600 % 24), (int)(up / 60 % 60),
                  (int)(up % 60), page->backend);
    vl_out_html(out, page->tree);
    vl_out_html(out, page->reason);
    vl_out_printf(out, ", %s for %" APR_INT64_T_FMT " s%s%s", vl_engage_name(&page->engage),
                  page->engage_s, page->engage.engaged ? " because of " : "",
                  page->engage.engaged ? vl_engage_why(page->engage.why) : "");
    if (*page->outside)
        vl_out_printf(out, "; %s's programs are in no site's group: no limit of "
                      "a site holds for them", page->outside);
    if (strcmp(page->sampler, "runs") != 0)
        vl_out_printf(out, "; <b>the state of the sampler is \"%s\"</b>: see vhostlimitctl "
                      "doctor", page->sampler);
    if (page->unenforced) {
        vl_out_printf(out, "; <b>%d sites have a limit that the kernel does not "
                      "enforce</b>: see \"unenforced\" in <a href=\"?",
                      page->unenforced);
        vl_out_html(out, page->query);
        vl_out_text(out, "json\">JSON</a>");
    }
    if (page->by_host)
        vl_out_printf(out, "; %u host names of at most %u have an account, the busiest %d "
                      "are shown", page->hosts.named, page->hosts.limit,
                      page->nrows - page->nsites);
    vl_out_text(out, "</p></header>\n");
}

static void put_tile(vl_out_t *out, const char *name, const char *value,
                     const char *more)
{
    vl_out_printf(out, "<div><dt>%s</dt><dd>%s<small>%s</small></dd></div>\n",
                  name, value, more);
}

static const char *number(vl_out_t *out, apr_uint64_t n)
{
    return apr_psprintf(out->pool, "%" APR_UINT64_T_FMT, n);
}

static void put_tiles(vl_out_t *out, const vl_page_t *page)
{
    apr_pool_t *p = out->pool;
    const vl_metrics_t *sum = &page->sum.metrics;

    vl_out_text(out, "<dl id=\"tiles\">\n");
    put_tile(out, "Running", number(out, sum->running),
             apr_psprintf(p, "%.1f of %u slots held",
                          (double)page->sum.runnable_permille / 1000, page->slots));
    put_tile(out, "Waiting", number(out, sum->waiting),
             apr_psprintf(p, "%" APR_UINT64_T_FMT " were queued",
                          sum->queued));
    put_tile(out, "Refused", number(out, sum->refused),
             apr_psprintf(p, "%" APR_UINT64_T_FMT " admitted", sum->requests));
    put_tile(out, "CPU charged now",
             apr_psprintf(p, "%" APR_UINT64_T_FMT " %%",
                          page->sum.cpu_now_permille / 10),
             apr_psprintf(p, "of %u00 %%; %" APR_UINT64_T_FMT
                          " %% over a minute", page->processors,
                          page->sum.cpu_minute_permille / 10));
    put_tile(out, "Limited sites",
             apr_psprintf(p, "%d", page->limited),
             apr_psprintf(p, "of %d", page->nrows));
    vl_out_text(out, "</dl>\n");
}

/* Writes the controls of the script.  They are hidden until the script shows them. */
static void put_tools(vl_out_t *out)
{
    vl_out_text(out, "<div id=\"share\" hidden></div>\n"
                "<div id=\"tools\" hidden><input id=\"find\" type=\"search\" "
                "placeholder=\"Search name or state\" aria-label=\"Search\">"
                "<button id=\"refresh\" type=\"button\">Refresh</button>"
                "<label>every <select id=\"every\"><option value=\"2\">2 s"
                "<option value=\"5\" selected>5 s<option value=\"10\">10 s"
                "<option value=\"60\">1 min<option value=\"0\">never</select>"
                "</label><span id=\"trouble\" role=\"status\"></span>"
                "<span id=\"count\"></span></div>\n");
}

static int is_shown(const struct heading_t *h, const vl_page_t *page, int dryrun)
{
    return h->when == ALWAYS || (h->when == WITH_DRYRUN && dryrun)
           || (h->when == WITH_CLASSES && page->with_classes);
}

static void put_headings(vl_out_t *out, const vl_page_t *page, int dryrun)
{
    const struct heading_t *h;

    vl_out_printf(out, "<div class=\"scroll\"><table id=\"vhosts\" "
                  "data-processors=\"%u\"><thead><tr>", page->processors);
    for (h = headings; h->key; h++) {
        if (is_shown(h, page, dryrun))
            vl_out_printf(out, "<th scope=\"col\" data-key=\"%s\" title=\"%s\""
                          "%s>%s</th>", h->key, h->title,
                          h->is_text ? " class=\"t\"" : "", h->text);
    }
    vl_out_text(out, "</tr></thead>\n<tbody>\n");
}

/* Writes one cell.  The end tags of cells and rows are omitted (HTML, "optional tags"), and
 * so are zeros: with ten thousand vhosts these would be most of the page. */
static void put_number(vl_out_t *out, apr_uint64_t n, int decimals)
{
    vl_out_text(out, "<td>");
    if (n)
        vl_out_fixed(out, n, decimals);
}

static void put_word(vl_out_t *out, const char *word)
{
    vl_out_text(out, "<td class=t>");
    vl_out_html(out, word);
}

static void put_state(vl_out_t *out, const vl_row_t *row)
{
    const char *state = row->limited_s ? "limited" : row->state;

    vl_out_text(out, "<td class=t><span class=\"state ");
    vl_out_text(out, state);
    vl_out_text(out, "\">");
    vl_out_text(out, state);
    if (row->limited_s) {
        vl_out_text(out, " ");
        vl_out_number(out, row->limited_s);
        vl_out_text(out, " s");
    }
    vl_out_text(out, "</span>");
}

static void put_counts(vl_out_t *out, const vl_row_t *row, int dryrun)
{
    const vl_metrics_t *metrics = &row->metrics;

    put_number(out, metrics->running, 0);
    put_number(out, metrics->waiting, 0);
    put_number(out, metrics->deferred, 0);
    put_number(out, row->clients_waiting, 0);
    put_number(out, metrics->refused, 0);
    put_number(out, row->cpu_now_permille, 1);
    put_number(out, row->cpu_minute_permille, 1);
    put_number(out, row->database_now_permille, 1);
    put_number(out, (row->wait_p50_us + 50) / 100, 1);
    put_number(out, (row->wait_p99_us + 50) / 100, 1);
    put_number(out, metrics->requests, 0);
    put_number(out, metrics->queued, 0);
    put_number(out, row->late, 0);
    if (dryrun) {
        put_number(out, metrics->would_queue, 0);
        put_number(out, metrics->would_refuse, 0);
    }
}

static void put_limit(vl_out_t *out, const vl_row_t *row, vl_key_e key)
{
    apr_uint64_t limit = (apr_uint64_t)row->override.now.of[key];

    vl_out_text(out, row->override.keys & VL_KEY_BIT(key)
                     ? "<td class=set title=\"set by vhostlimitctl\">"
                     : "<td>");
    if (limit)
        vl_out_number(out, limit);
}

/* Writes the name of the site, with a link to its charts. */
static void put_name(vl_out_t *out, const vl_page_t *page, const vl_row_t *row)
{
    int has_link = page->history && !page->is_single && !*row->host_of;

    if (has_link) {
        vl_out_text(out, "<a href=\"?site=");
        vl_out_html(out, ap_escape_urlencoded(out->pool, row->name));
        vl_out_text(out, "\">");
    }
    vl_out_html(out, row->name);
    if (has_link)
        vl_out_text(out, "</a>");
}

/* Writes a line for each class. */
static void put_classes(vl_out_t *out, const vl_row_t *row)
{
    int i;

    vl_out_text(out, "<td class=t>");
    for (i = 0; i < row->nclasses; i++) {
        const vl_class_row_t *c = &row->classes[i];

        vl_out_text(out, i ? "<br>" : "");
        vl_out_html(out, c->name);
        vl_out_printf(out, ": weight %u, %u waiting, ", c->counts.weight, c->counts.waiting);
        vl_out_fixed(out, c->cpu_permille, 1);
        vl_out_text(out, " % CPU");
    }
}

static void put_row(vl_out_t *out, const vl_page_t *page, const vl_row_t *row, int dryrun)
{
    const char *group = ap_strrchr_c(row->cgroup, '/');
    vl_key_e key;

    vl_out_text(out, "<tr><td>");
    put_name(out, page, row);
    if (*row->host_of) {
        vl_out_text(out, " <small>of ");
        vl_out_html(out, row->host_of);
        vl_out_text(out, "</small>");
    }
    put_state(out, row);
    put_counts(out, row, dryrun);
    for (key = 0; key < VL_KEYS_ADMITTED; key++)
        put_limit(out, row, key);
    put_word(out, vl_conf_mode_name(row->limits.mode));
    put_word(out, row->method);
    put_word(out, row->cost);
    put_number(out, row->metrics.memory_kills, 0);
    if (page->with_classes)
        put_classes(out, row);
    put_word(out, group ? group + 1 : row->cgroup);
    vl_out_text(out, "\n");
}

static void put_end(vl_out_t *out, const vl_page_t *page, const char *nonce)
{
    const char *query = ap_escape_html(out->pool, page->query);

    vl_out_text(out, "</tbody></table></div>\n"
                "<button id=\"more\" type=\"button\" hidden></button>\n"
                "<footer>Counts are since the start of the server. ");
    vl_out_printf(out, "The same as <a href=\"?%sjson\">JSON</a>, "
                  "<a href=\"?%sauto\">text</a>, for "
                  "<a href=\"?%sprometheus\">Prometheus</a>.</footer>\n"
                  "<script nonce=\"", query, query, query);
    vl_out_text(out, nonce);
    vl_out_text(out, "\">\n");
    vl_out_text(out, page_script);
    vl_out_text(out, "</script></body></html>\n");
}

void vl_status_html(vl_out_t *out, const vl_page_t *page)
{
    const char *nonce = set_policy(out->r);
    int dryrun = has_dryrun(page);
    int i;

    put_head(out, nonce);
    vl_out_text(out, "<div id=\"facts\">\n");
    put_facts(out, page);
    put_tiles(out, page);
    vl_status_charts(out, page);
    vl_out_text(out, "</div>\n");
    put_tools(out);
    put_headings(out, page, dryrun);
    for (i = 0; i < page->nrows; i++)
        put_row(out, page, &page->rows[i], dryrun);
    put_end(out, page, nonce);
}
