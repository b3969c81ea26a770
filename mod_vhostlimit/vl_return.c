/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_return.h"

#include <strings.h>

#include "vl_private.h"

/* Filters that know nothing of a connection from one request to the next.  Who
 * has put another one there keeps something, so the connection must last. */
static int only_known(const ap_filter_t *f)
{
    static const char *const known[] = {
        "vhostlimit_end", "vhostlimit_net", "core", "core_in", "reqtimeout",
        "log_input_output", "dumpio_in", "dumpio_out", NULL
    };
    int i;

    for (; f; f = f->next) {
        for (i = 0; known[i] && strcasecmp(f->frec->name, known[i]); i++)
            ;
        if (!known[i])
            return 0;
    }
    return 1;
}

/* What is asked of the client is here already: it is in a filter, or was sent
 * before the answer. */
static int asks_more(conn_rec *c, apr_bucket_brigade *bb)
{
    apr_status_t rv;
    int more;

    apr_brigade_cleanup(bb);
    rv = ap_get_brigade(c->input_filters, bb, AP_MODE_SPECULATIVE,
                        APR_NONBLOCK_READ, 1);
    more = rv == APR_SUCCESS ? !APR_BRIGADE_EMPTY(bb)
                             : !APR_STATUS_IS_EAGAIN(rv);
    apr_brigade_cleanup(bb);
    return more;
}

/* As the MPM does between requests: without blocking. */
static void flush_without_blocking(conn_rec *c)
{
    ap_filter_t *f = c->output_filters;

    while (f->next)
        f = f->next;
    f->frec->filter_func.out_func(f, NULL);
}

static int go_linger(conn_rec *c, vl_visit_t *visit)
{
    apr_int64_t linger_us = apr_time_from_sec(
        apr_table_get(c->notes, "short-lingering-close") ? 2 : 30);

    return vl_arrival_linger(visit, linger_us);
}

int vl_return(conn_rec *c, vl_visit_t *visit, apr_int64_t idle_us,
              apr_bucket_brigade *bb)
{
    if (!only_known(c->input_filters) || !only_known(c->output_filters))
        return 0;
    if (c->keepalive == AP_CONN_KEEPALIVE && asks_more(c, bb))
        return 0;
    if (vl_has_pending_output(c))
        flush_without_blocking(c);
    if (c->aborted || vl_has_pending_output(c))
        return 0;
    if (c->keepalive == AP_CONN_KEEPALIVE)
        return vl_arrival_return(visit, c->keepalives, idle_us);
    return c->keepalive == AP_CONN_CLOSE && go_linger(c, visit);
}
