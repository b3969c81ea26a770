/* SPDX-License-Identifier: Apache-2.0 */
/* What httpd calls: the handler of the page, and a summary in the page of mod_status if that
 * module is loaded. */
#include "config.h"

#include "status/vl_status.h"

#include <apr_strings.h>
#include <httpd.h>
#include <http_config.h>
#include <http_protocol.h>
#include <mod_status.h>

#include "config/vl_conf.h"
#include "status/vl_status_int.h"

/* --- handler -------------------------------------------------------------- */

static const struct format_t {
    const char *word, *content_type;
    vl_status_format_fn write;
} formats[] = {
    { "auto", "text/plain; charset=ISO-8859-1", vl_status_auto },
    { "json", "application/json", vl_status_json },
    { "prometheus", "text/plain; version=0.0.4; charset=utf-8",
      vl_status_prom },
    { NULL, "text/html; charset=utf-8", vl_status_html }
};

/* Returns 1 if the query string has the keyword.  Keywords are separated by '&'.  A '=' may
 * follow: Prometheus appends it to a parameter without a value. */
static int has_keyword(request_rec *r, const char *word)
{
    const char *at = r->args;
    apr_size_t len = strlen(word);

    for (; at; at = ap_strchr_c(at, '&')) {
        at += *at == '&';
        if (!strncmp(at, word, len)
            && (!at[len] || at[len] == '&' || at[len] == '='))
            return 1;
    }
    return 0;
}

/* Returns the format that the query string selects; the default is HTML. */
static const struct format_t *format_for(request_rec *r)
{
    const struct format_t *format = formats;

    while (format->word && !has_keyword(r, format->word))
        format++;
    return format;
}

/* Returns the decoded value of a parameter in the query string, or NULL. */
static const char *find_parameter(request_rec *r, const char *name)
{
    apr_size_t len = strlen(name);
    const char *at, *end;
    char *value;

    for (at = r->args; at; at = ap_strchr_c(at, '&')) {
        at += *at == '&';
        if (strncmp(at, name, len) != 0 || at[len] != '=')
            continue;
        end = ap_strchr_c(at, '&');
        value = end ? apr_pstrmemdup(r->pool, at + len + 1, (apr_size_t)(end - at) - len - 1)
                    : apr_pstrdup(r->pool, at + len + 1);
        return ap_unescape_urlencoded(value) == OK ? value : NULL;
    }
    return NULL;
}

/* Opens the history of what the page shows. */
static void add_history(request_rec *r, vl_page_t *page)
{
    const char *path = vl_conf_get(r->server)->history;
    const char *hours = find_parameter(r, "hours");

    if (!path || (page->is_single && !page->nrows))
        return;
    page->history = vl_history_open(r->pool, path,
                                    page->is_single ? page->rows[0].name : NULL);
    page->hours = hours ? (unsigned)apr_atoi64(hours) : 0;
}

/* Collects the data of the page.  "me" shows the site of the request and no other, whatever
 * else the query says.  Returns NULL if there is no site of the name. */
static vl_page_t *make_page(request_rec *r)
{
    int is_me = has_keyword(r, "me");
    const char *name = is_me ? NULL : find_parameter(r, "site");
    const server_rec *only = is_me ? r->server : name ? vl_status_find(name) : NULL;
    vl_page_t *page;

    if (name && !only)
        return NULL;
    page = vl_status_gather(r->pool, only, is_me ? r->hostname : NULL);
    if (is_me)
        page->query = "me&";
    if (name)
        page->query = apr_pstrcat(r->pool, "site=", ap_escape_urlencoded(r->pool, name), "&",
                                  NULL);
    page->is_chosen = name != NULL;
    return page;
}

static int status_handler(request_rec *r)
{
    const struct format_t *format;
    vl_page_t *page;
    vl_out_t *out;

    if (!r->handler || strcmp(r->handler, "vhostlimit-status"))
        return DECLINED;
    r->allowed = AP_METHOD_BIT << M_GET;
    if (r->method_number != M_GET)
        return DECLINED;
    format = format_for(r);
    page = make_page(r);
    if (!page)
        return HTTP_NOT_FOUND;
    ap_set_content_type(r, format->content_type);
    apr_table_setn(r->headers_out, "Cache-Control", "no-store");
    apr_table_setn(r->headers_out, "X-Content-Type-Options", "nosniff");
    if (r->header_only)
        return OK;
    if (format->write == vl_status_html)
        add_history(r, page);
    out = vl_out_to_request(r);
    format->write(out, page);
    vl_out_flush(out);
    return OK;
}

/* --- the page of mod_status ----------------------------------------------- */

/* Maximum number of vhosts that the summary names. */
#define MAX_NAMED 10

static void put_auto(vl_out_t *out, const vl_page_t *page)
{
    const vl_metrics_t *sum = &page->sum.metrics;

    vl_out_printf(out, "VhostLimitVhosts: %d\nVhostLimitLimited: %d\n"
                  "VhostLimitSlots: %u\nVhostLimitRunning: %" APR_UINT64_T_FMT
                  "\nVhostLimitWaiting: %" APR_UINT64_T_FMT
                  "\nVhostLimitRequests: %" APR_UINT64_T_FMT
                  "\nVhostLimitQueued: %" APR_UINT64_T_FMT
                  "\nVhostLimitRefused: %" APR_UINT64_T_FMT "\n", page->nsites,
                  page->limited, page->slots, sum->running, sum->waiting,
                  sum->requests, sum->queued, sum->refused);
}

static void put_limited(vl_out_t *out, const vl_page_t *page)
{
    int i, named = 0;

    for (i = 0; i < page->nrows && named < MAX_NAMED; i++) {
        if (!page->rows[i].limited_s)
            continue;
        vl_out_text(out, named++ ? ", " : "<dt>Limited now: ");
        vl_out_html(out, page->rows[i].name);
    }
    if (named < page->limited)
        vl_out_printf(out, " and %d more", page->limited - named);
    if (named)
        vl_out_text(out, "</dt>\n");
}

static void put_html(vl_out_t *out, const vl_page_t *page)
{
    const vl_metrics_t *sum = &page->sum.metrics;

    vl_out_printf(out, "<hr />\n<h2>vhostlimit</h2>\n<dl><dt>%d sites, %d "
                  "limited now</dt>\n<dt>%" APR_UINT64_T_FMT " requests "
                  "running, %.1f of %u slots held, %" APR_UINT64_T_FMT " waiting</dt>\n"
                  "<dt>%" APR_UINT64_T_FMT " requests admitted, %"
                  APR_UINT64_T_FMT " of them queued first, %" APR_UINT64_T_FMT
                  " refused</dt>\n", page->nsites, page->limited, sum->running,
                  (double)page->sum.runnable_permille / 1000, page->slots, sum->waiting,
                  sum->requests, sum->queued, sum->refused);
    put_limited(out, page);
    vl_out_text(out, "</dl>\n");
}

static int status_hook(request_rec *r, int flags)
{
    const vl_page_t *page = vl_status_gather(r->pool, NULL, NULL);
    vl_out_t *out = vl_out_to_request(r);

    if (flags & AP_STATUS_SHORT)
        put_auto(out, page);
    else
        put_html(out, page);
    vl_out_flush(out);
    return OK;
}

void vl_status_register(apr_pool_t *p)
{
    ap_hook_handler(status_handler, NULL, NULL, APR_HOOK_MIDDLE);
    APR_OPTIONAL_HOOK(ap, status_hook, status_hook, NULL, NULL,
                      APR_HOOK_MIDDLE);
}
