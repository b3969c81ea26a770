/* SPDX-License-Identifier: Apache-2.0 */
/* Three writers over the same facts: those of the server, then one row per
 * vhost, each row a copy taken under the lock. */
#include "config.h"

#include "vl_status.h"

#include <ap_mpm.h>
#include <apr_strings.h>
#include <http_protocol.h>
#include <httpd.h>

#include "vl_conf.h"
#include "vl_private.h"
#include "vl_slot.h"

/* Raised when a key of ?json or ?auto is renamed or changes its meaning. */
#define SCHEMA 1

static const apr_array_header_t *servers;   /* as vl_conf_servers() */
static vl_shm_t *accounts;
static const vl_cgroup_t *cgroup;

typedef struct column_t {
    const char *key, *heading, *help;
    apr_size_t offset;          /* in vl_metrics_t */
} column_t;

static const column_t columns[] = {
#define X(member, heading, kind, help) \
    { #member, heading, help, APR_OFFSETOF(vl_metrics_t, member) },
    VL_METRICS(X)
#undef X
};

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* What is said of the server as a whole. */
typedef struct server_facts_t {
    const char *mpm;
    apr_int64_t uptime_s;
    apr_uint32_t children;
    apr_uint32_t slots;
} server_facts_t;

/* A format: how the page begins, what a vhost is, how it ends. */
typedef struct writer_t {
    const char *content_type;
    void (*begin)(request_rec *r, const server_facts_t *facts);
    void (*vhost)(request_rec *r, const vl_account_snapshot_t *vhost,
                  const char *cgroup_path, int first);
    void (*end)(request_rec *r);
} writer_t;

static apr_uint64_t cell(const vl_account_snapshot_t *vhost, apr_size_t i)
{
    return *(const apr_uint64_t *)((const char *)&vhost->metrics
                                   + columns[i].offset);
}

/* A JSON string (RFC 8259), quotes included.  Bytes above 127 are written as
 * the code point of the same number: names need not be UTF-8. */
static const char *json_string(apr_pool_t *p, const char *text)
{
    char *out = apr_palloc(p, strlen(text) * 6 + 3);
    char *to = out;

    *to++ = '"';
    for (; *text; text++) {
        unsigned char c = *text;

        if (c < 0x20 || c > 0x7e || c == '<' || c == '>' || c == '&')
            to += apr_snprintf(to, 7, "\\u%04x", c);
        else {
            if (c == '"' || c == '\\')
                *to++ = '\\';
            *to++ = c;
        }
    }
    *to++ = '"';
    *to = '\0';
    return out;
}

static void json_begin(request_rec *r, const server_facts_t *facts)
{
    ap_rprintf(r, "{\"schema\":%d,\"module\":\"%s\",\"mpm\":%s,"
               "\"uptime_s\":%" APR_INT64_T_FMT ",\"children\":%u,\"slots\":%u,"
               "\"cgroup\":{\"backend\":%s,\"path\":%s,\"reason\":%s},"
               "\"vhosts\":[",
               SCHEMA, VL_VERSION, json_string(r->pool, facts->mpm),
               facts->uptime_s, facts->children, facts->slots,
               json_string(r->pool, vl_cgroup_backend(cgroup)),
               json_string(r->pool, vl_cgroup_path(cgroup)),
               json_string(r->pool, vl_cgroup_reason(cgroup)));
}

static void json_vhost(request_rec *r, const vl_account_snapshot_t *vhost,
                       const char *cgroup_path, int first)
{
    apr_size_t i;

    ap_rprintf(r, "%s\n{\"name\":%s,\"mode\":\"%s\",\"weight\":%u,"
               "\"concurrency\":%u,\"queue\":%u,\"cgroup\":%s",
               first ? "" : ",", json_string(r->pool, vhost->name),
               vl_conf_mode_name(vhost->limits.mode), vhost->limits.weight,
               vhost->limits.concurrency, vhost->limits.queue,
               json_string(r->pool, cgroup_path));
    for (i = 0; i < COLUMNS; i++)
        ap_rprintf(r, ",\"%s\":%" APR_UINT64_T_FMT, columns[i].key,
                   cell(vhost, i));
    ap_rprintf(r, ",\"wait_p50_us\":%" APR_UINT64_T_FMT ",\"wait_p99_us\":%"
               APR_UINT64_T_FMT "}",
               vl_metrics_wait_percentile(vhost->waits, 500),
               vl_metrics_wait_percentile(vhost->waits, 990));
}

static void json_end(request_rec *r)
{
    ap_rputs("\n]}\n", r);
}

static void auto_begin(request_rec *r, const server_facts_t *facts)
{
    ap_rprintf(r, "schema: %d\nmodule: %s\nmpm: %s\nuptime_s: %"
               APR_INT64_T_FMT "\nchildren: %u\nslots: %u\ncgroup.backend: %s\n"
               "cgroup.path: %s\ncgroup.reason: %s\n",
               SCHEMA, VL_VERSION, facts->mpm, facts->uptime_s,
               facts->children, facts->slots, vl_cgroup_backend(cgroup),
               vl_cgroup_path(cgroup), vl_cgroup_reason(cgroup));
}

static void auto_vhost(request_rec *r, const vl_account_snapshot_t *vhost,
                       const char *cgroup_path, int first)
{
    const char *name = ap_escape_logitem(r->pool, vhost->name);
    apr_size_t i;

    ap_rprintf(r, "vhost.%s.mode: %s\nvhost.%s.weight: %u\n"
               "vhost.%s.concurrency: %u\nvhost.%s.queue: %u\n"
               "vhost.%s.cgroup: %s\n", name,
               vl_conf_mode_name(vhost->limits.mode), name,
               vhost->limits.weight, name, vhost->limits.concurrency, name,
               vhost->limits.queue, name, cgroup_path);
    for (i = 0; i < COLUMNS; i++)
        ap_rprintf(r, "vhost.%s.%s: %" APR_UINT64_T_FMT "\n", name,
                   columns[i].key, cell(vhost, i));
    ap_rprintf(r, "vhost.%s.wait_p50_us: %" APR_UINT64_T_FMT
               "\nvhost.%s.wait_p99_us: %" APR_UINT64_T_FMT "\n", name,
               vl_metrics_wait_percentile(vhost->waits, 500), name,
               vl_metrics_wait_percentile(vhost->waits, 990));
}

static void auto_end(request_rec *r)
{
}

static void html_begin(request_rec *r, const server_facts_t *facts)
{
    const char *reason = vl_cgroup_reason(cgroup);
    apr_size_t i;

    ap_rprintf(r, "<!DOCTYPE html>\n<html lang=\"en\"><head>"
               "<meta charset=\"utf-8\"><title>vhostlimit status</title>"
               "</head><body>\n<h1>vhostlimit status</h1>\n<p>%s, MPM %s, up %"
               APR_INT64_T_FMT " s, %u children, %u slots, cgroup backend %s %s%s</p>\n"
               "<table border=\"1\"><thead><tr><th>Vhost</th><th>Mode</th>"
               "<th>Weight</th><th>Concurrency</th><th>Queue</th>", VL_VERSION, facts->mpm,
               facts->uptime_s, facts->children, facts->slots,
               vl_cgroup_backend(cgroup),
               ap_escape_html(r->pool, vl_cgroup_path(cgroup)),
               ap_escape_html(r->pool, reason));
    for (i = 0; i < COLUMNS; i++)
        ap_rprintf(r, "<th title=\"%s\">%s</th>", columns[i].help,
                   columns[i].heading);
    ap_rputs("<th>Wait p50 us</th><th>Wait p99 us</th></tr></thead>\n<tbody>\n",
             r);
}

static void html_vhost(request_rec *r, const vl_account_snapshot_t *vhost,
                       const char *cgroup_path, int first)
{
    apr_size_t i;

    ap_rprintf(r, "<tr><td title=\"%s\">%s</td><td>%s</td><td>%u</td>"
               "<td>%u</td><td>%u</td>",
               ap_escape_html(r->pool, cgroup_path),
               ap_escape_html(r->pool, vhost->name),
               vl_conf_mode_name(vhost->limits.mode), vhost->limits.weight,
               vhost->limits.concurrency, vhost->limits.queue);
    for (i = 0; i < COLUMNS; i++)
        ap_rprintf(r, "<td>%" APR_UINT64_T_FMT "</td>", cell(vhost, i));
    ap_rprintf(r, "<td>%" APR_UINT64_T_FMT "</td><td>%" APR_UINT64_T_FMT
               "</td></tr>\n",
               vl_metrics_wait_percentile(vhost->waits, 500),
               vl_metrics_wait_percentile(vhost->waits, 990));
}

static void html_end(request_rec *r)
{
    ap_rputs("</tbody></table></body></html>\n", r);
}

static const writer_t json_writer = {
    "application/json", json_begin, json_vhost, json_end
};
static const writer_t auto_writer = {
    "text/plain; charset=ISO-8859-1", auto_begin, auto_vhost, auto_end
};
static const writer_t html_writer = {
    "text/html; charset=utf-8", html_begin, html_vhost, html_end
};

static const writer_t *writer_for(const char *args)
{
    if (args && !strcmp(args, "json"))
        return &json_writer;
    if (args && !strcmp(args, "auto"))
        return &auto_writer;
    return &html_writer;
}

static void write_vhosts(request_rec *r, const writer_t *writer)
{
    vl_account_snapshot_t snapshot;
    apr_pool_t *row;
    int i, first = 1;

    apr_pool_create(&row, r->pool);
    for (i = 0; i < servers->nelts; i++) {
        const vl_conf_t *conf =
            vl_conf_get(APR_ARRAY_IDX(servers, i, server_rec *));

        if (conf->mode == VL_MODE_OFF
            || vl_shm_snapshot(accounts, conf->account, &snapshot)
               != APR_SUCCESS)
            continue;
        writer->vhost(r, &snapshot, vl_cgroup_account_path(cgroup, row,
                                                           snapshot.name),
                      first);
        first = 0;
        apr_pool_clear(row);
    }
}

static int status_handler(request_rec *r)
{
    const writer_t *writer;
    server_facts_t facts;

    if (!r->handler || strcmp(r->handler, "vhostlimit-status"))
        return DECLINED;
    r->allowed = AP_METHOD_BIT << M_GET;
    if (r->method_number != M_GET)
        return DECLINED;
    writer = writer_for(r->args);
    ap_set_content_type(r, writer->content_type);
    apr_table_setn(r->headers_out, "Cache-Control", "no-store");
    if (r->header_only)
        return OK;
    facts.mpm = ap_show_mpm();
    facts.uptime_s = apr_time_sec(apr_time_now() - vl_shm_created_us(accounts));
    facts.children = vl_shm_children(accounts);
    facts.slots = vl_slot_count(accounts);
    writer->begin(r, &facts);
    write_vhosts(r, writer);
    writer->end(r);
    return OK;
}

void vl_status_post_config(const apr_array_header_t *list, vl_shm_t *shm,
                           const vl_cgroup_t *cg)
{
    servers = list;
    accounts = shm;
    cgroup = cg;
}

void vl_status_register(apr_pool_t *p)
{
    ap_hook_handler(status_handler, NULL, NULL, APR_HOOK_MIDDLE);
}
