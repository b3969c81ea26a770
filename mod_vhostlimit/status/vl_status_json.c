/* SPDX-License-Identifier: Apache-2.0 */
/* The format ?json, also the answer of the control socket, and its command "figures". */
#include "config.h"

#include <apr_strings.h>

#include "base/vl_clock.h"
#include "config/vl_conf.h"
#include "status/vl_status_int.h"

static void put_number(vl_out_t *out, const char *key, apr_uint64_t n)
{
    vl_out_text(out, ",\"");
    vl_out_text(out, key);
    vl_out_number(out, "\":", n);
}

/* Writes the keys of the page.  Those of an object are adjacent in the table. */
static void put_page(vl_out_t *out, const vl_page_t *page)
{
    const char *separator = "{", *object = NULL;
    const vl_column_t *column;
    apr_size_t len = 0;

    for (column = vl_status_page_columns; column->offset; column++) {
        const char *key = column->key, *dot = key ? strchr(key, '.') : NULL;

        if (!key || (!page->by_host && !strncmp(key, "hosts.", 6)))
            continue;
        if (object && strncmp(key, object, len)) {
            vl_out_text(out, "}");
            object = NULL;
        }
        if (dot && !object) {
            object = key;
            len = (apr_size_t)(dot - key) + 1;
            vl_out_printf(out, "%s\"%.*s\":", separator, (int)len - 1, key);
            separator = "{";
        }
        vl_out_text(out, separator);
        separator = ",";
        vl_out_text(out, "\"");
        vl_out_text(out, dot ? dot + 1 : key);
        if (column->kind == VL_WORD)
            vl_out_json(out, "\":", vl_status_word(page, column));
        else
            vl_out_number(out, "\":", vl_status_number(page, column));
    }
    vl_out_text(out, object ? "}" : "");
}

/* Writes the limits of the set: configured values of those that vhostlimitctl has changed, or
 * after how many seconds timed changes end. */
static void put_limits(vl_out_t *out, const char *key, const vl_override_t *override,
                       unsigned set, int is_expiry)
{
    const char *before = "\"";
    vl_key_e limit;

    vl_out_text(out, key);
    for (limit = 0; limit < VL_KEY_COUNT; limit++) {
        apr_int64_t left_us = override->until_us[limit] - vl_clock_us();

        if (!(set & VL_KEY_BIT(limit)))
            continue;
        vl_out_text(out, before);
        vl_out_text(out, vl_override_key_name(limit));
        vl_out_number(out, "\":", !is_expiry ? (apr_uint64_t)override->configured.of[limit]
                      : left_us > 0 ? (apr_uint64_t)(left_us / APR_USEC_PER_SEC) + 1 : 0);
        before = ",\"";
    }
    vl_out_text(out, "}");
}

/* Writes the addresses of the virtual host, separated by blanks.  "*" stands for two addresses,
 * of IPv4 and IPv6. */
static void put_addresses(vl_out_t *out, const server_rec *s)
{
    const char *text = "", *before = "";
    const server_addr_rec *address;

    for (address = s->is_virtual ? s->addrs : NULL; address; address = address->next) {
        const char *one = vl_sites_address(out->pool, address);

        if (strcmp(one, before))
            text = apr_pstrcat(out->pool, text, *text ? " " : "", one, NULL);
        before = one;
    }
    vl_out_json(out, ",\"addresses\":", text);
}

static void put_vhosts(vl_out_t *out, const apr_array_header_t *vhosts)
{
    int i;

    vl_out_text(out, ",\"virtual_hosts\":[");
    for (i = 0; i < vhosts->nelts; i++) {
        const server_rec *s = APR_ARRAY_IDX(vhosts, i, server_rec *);

        vl_out_json(out, i ? ",{\"name\":" : "{\"name\":",
                   s->server_hostname ? s->server_hostname : "");
        put_addresses(out, s);
        vl_out_json(out, ",\"place\":", !s->is_virtual ? "" : apr_psprintf(out->pool, "%s:%u",
                   s->defn_name ? s->defn_name : "?", s->defn_line_number));
        vl_out_text(out, "}");
    }
}

/* Writes what the account was charged for its back ends, its calls, and its classes. */
static void put_lists(vl_out_t *out, const vl_row_t *row)
{
    int i;

    vl_out_text(out, "],\"backends\":[");
    for (i = 0; i < row->spent->nelts; i++) {
        const vl_spent_t *spent = &APR_ARRAY_IDX(row->spent, i, vl_spent_t);

        vl_out_json(out, i ? ",{\"address\":" : "{\"address\":", spent->address);
        put_number(out, "cpu_us", spent->us);
        put_number(out, "serving", spent->serving);
        put_number(out, "waiting", spent->waiting);
        vl_out_text(out, "}");
    }
    vl_out_text(out, "],\"calls\":[");
    for (i = 0; row->calls && i < row->calls->nelts; i++) {
        const vl_call_row_t *call = &APR_ARRAY_IDX(row->calls, i, vl_call_row_t);

        vl_out_json(out, i ? ",{\"site\":" : "{\"site\":", call->site);
        put_number(out, "running", call->calls.running);
        put_number(out, "queued", call->calls.queued);
        vl_out_text(out, "}");
    }
    vl_out_text(out, "],\"classes\":[");
    for (i = 0; i < row->nclasses; i++) {
        const vl_class_row_t *class = &row->classes[i];

        vl_out_json(out, i ? ",{\"name\":" : "{\"name\":", class->name);
        put_number(out, "weight", class->counts.weight);
        put_number(out, "waiting", class->counts.waiting);
        put_number(out, "requests", class->counts.requests);
        put_number(out, "cpu_us", class->counts.cpu_us);
        put_number(out, "cpu_permille", class->cpu_permille);
        vl_out_text(out, "}");
    }
    vl_out_text(out, "]");
}

/* A row is a line.  Its name comes first and its objects last: programs without a parser find the
 * first `"KEY":` of a line. */
static void put_row(vl_out_t *out, const vl_row_t *row)
{
    const vl_column_t *column;

    vl_out_json(out, "{\"name\":", row->name);
    if (*row->host_of)
        vl_out_json(out, ",\"host_of\":", row->host_of);
    for (column = vl_status_columns; column->offset; column++) {
        if (column->kind != VL_WORD) {
            put_number(out, column->key, vl_status_number(row, column));
            continue;
        }
        vl_out_text(out, ",\"");
        vl_out_text(out, column->key);
        vl_out_json(out, "\":", vl_status_word(row, column));
    }
    put_limits(out, ",\"overridden\":{", &row->override, row->override.keys, 0);
    put_limits(out, ",\"expires_s\":{", &row->override, row->override.timed, 1);
    put_vhosts(out, row->vhosts);
    put_lists(out, row);
    vl_out_text(out, "}");
}

void vl_status_json(vl_out_t *out, const vl_page_t *page)
{
    int i;

    put_page(out, page);
    vl_out_text(out, ",\"vhosts\":[");
    for (i = 0; i < page->nrows; i++) {
        vl_out_text(out, i ? ",\n" : "\n");
        put_row(out, &page->rows[i]);
    }
    vl_out_text(out, "\n]}\n");
}

static void put_figures(vl_out_t *out, const vl_row_t *row)
{
    const vl_column_t *column;
    int i;

    vl_out_json(out, "", row->name);
    vl_out_number(out, ",", row->limits_mode);
    for (column = vl_status_columns; column->offset; column++) {
        if (column->kind == VL_WORD)
            continue;
        vl_out_number(out, ",", vl_status_number(row, column));
    }
    vl_out_text(out, ",[");
    for (i = 0; row->waits && i < row->waits->nelts; i++) {
        const vl_waited_t *waited = &APR_ARRAY_IDX(row->waits, i, vl_waited_t);

        vl_out_number(out, i ? "," : "", waited->bucket);
        vl_out_number(out, ",", waited->n);
    }
    vl_out_text(out, "]]");
}

void vl_status_figures(vl_out_t *out, const vl_page_t *page)
{
    const vl_column_t *column;
    unsigned b;
    int i;

    put_page(out, page);
    put_number(out, "configured_us", page->configured_us);
    put_number(out, "children_lost", page->children_lost);
    put_number(out, "requests_lost", page->requests_lost);
    vl_out_text(out, ",\"wait_limits_us\":[0");
    for (b = 1; b < VL_WAIT_BUCKETS; b++)
        vl_out_number(out, ",", vl_metrics_wait_us(b + 1) - 1);
    vl_out_text(out, "],\"columns\":[\"name\",\"mode\"");
    for (column = vl_status_columns; column->offset; column++) {
        if (column->kind != VL_WORD)
            vl_out_json(out, ",", column->key);
    }
    vl_out_text(out, ",\"waits\"],\"sites\":[");
    for (i = 0; i < page->nrows; i++) {
        if (*page->rows[i].host_of)
            continue;
        vl_out_text(out, i ? ",\n[" : "\n[");
        put_figures(out, &page->rows[i]);
    }
    vl_out_text(out, "\n]}\n");
}
