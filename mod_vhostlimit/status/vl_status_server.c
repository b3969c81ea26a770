/* SPDX-License-Identifier: Apache-2.0 */
/* A summary in the page of mod_status, if that module is loaded. */
#include "config.h"

#include <mod_status.h>

#include "status/vl_status_int.h"

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
                  "\nVhostLimitRefused: %" APR_UINT64_T_FMT "\n", page->nrows,
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
                  "running on %u slots, %" APR_UINT64_T_FMT " waiting</dt>\n"
                  "<dt>%" APR_UINT64_T_FMT " requests let in, %"
                  APR_UINT64_T_FMT " of them had to wait, %" APR_UINT64_T_FMT
                  " refused</dt>\n", page->nrows, page->limited, sum->running,
                  page->slots, sum->waiting, sum->requests, sum->queued,
                  sum->refused);
    put_limited(out, page);
    vl_out_text(out, "</dl>\n");
}

static int status_hook(request_rec *r, int flags)
{
    const vl_page_t *page = vl_status_gather(r->pool, NULL);
    vl_out_t *out = vl_out_to_request(r);

    if (flags & AP_STATUS_SHORT)
        put_auto(out, page);
    else
        put_html(out, page);
    vl_out_flush(out);
    return OK;
}

void vl_status_server_register(apr_pool_t *p)
{
    APR_OPTIONAL_HOOK(ap, status_hook, status_hook, NULL, NULL,
                      APR_HOOK_MIDDLE);
}
