/* SPDX-License-Identifier: Apache-2.0 */
/* The format ?json, also the answer of the control socket. */
#include "config.h"

#include "base/vl_clock.h"
#include "config/vl_conf.h"
#include "status/vl_status_int.h"

static void put_string(vl_out_t *out, const char *before, const char *text)
{
    vl_out_text(out, before);
    vl_out_json(out, text);
}

static void put_number(vl_out_t *out, const char *key, apr_uint64_t n)
{
    vl_out_text(out, ",\"");
    vl_out_text(out, key);
    vl_out_text(out, "\":");
    vl_out_number(out, n);
}

static void put_server(vl_out_t *out, const vl_page_t *page)
{
    vl_out_printf(out, "{\"schema\":%d,\"module\":\"%s\"", VL_STATUS_SCHEMA,
                  VL_VERSION);
    put_string(out, ",\"mpm\":", page->mpm);
    put_number(out, "now_us", (apr_uint64_t)page->now_us);
    put_number(out, "uptime_s", (apr_uint64_t)page->uptime_s);
    put_number(out, "children", page->children);
    put_number(out, "workers", page->workers);
    put_number(out, "slots", page->slots);
    put_number(out, "slots_auto", page->slots_auto);
    put_number(out, "processors", page->processors);
    put_number(out, "held_us", (apr_uint64_t)page->held_us);
    put_number(out, "unenforced", (apr_uint64_t)page->unenforced);
    if (page->by_host) {
        vl_out_printf(out, ",\"hosts\":{\"limit\":%u,\"named\":%u,\"shown\":%d",
                      page->hosts.limit, page->hosts.named, page->nrows - page->nsites);
        put_number(out, "beyond", page->hosts.beyond);
        vl_out_text(out, "}");
    }
    put_string(out, ",\"state\":{\"is\":", vl_engage_name(&page->engage));
    put_string(out, ",\"why\":", vl_engage_why(page->engage.why));
    put_number(out, "since_s", (apr_uint64_t)page->engage_s);
    put_number(out, "changes", page->engage.changes);
    put_string(out, "},\"sampler\":{\"state\":", page->sampler);
    put_number(out, "round_us", page->sampler_us);
    put_number(out, "processes", page->sampled);
    put_number(out, "unfound", page->unfound);
    put_string(out, ",\"unread\":", page->unread);
    vl_out_text(out, "}");
    put_string(out, ",\"fleet\":", page->fleet);
    put_number(out, "fleet_lapsed", page->leases.lapsed);
    put_string(out, ",\"cgroup\":{\"backend\":", page->backend);
    put_string(out, ",\"path\":", page->tree);
    put_string(out, ",\"reason\":", page->reason);
    put_string(out, ",\"outside\":", page->outside);
}

/* Writes the limits that vhostlimitctl has changed, with their configured values. */
static void put_override(vl_out_t *out, const vl_override_t *override)
{
    const char *before = "\"";
    vl_key_e key;

    vl_out_text(out, ",\"overridden\":{");
    for (key = 0; key < VL_KEY_COUNT; key++) {
        if (!(override->keys & VL_KEY_BIT(key)))
            continue;
        vl_out_text(out, before);
        vl_out_text(out, vl_override_key_name(key));
        vl_out_text(out, "\":");
        vl_out_number(out, (apr_uint64_t)override->configured.of[key]);
        before = ",\"";
    }
    vl_out_text(out, "}");
}

/* Writes after how many seconds timed changes end. */
static void put_expiry(vl_out_t *out, const vl_override_t *override)
{
    const char *before = "\"";
    vl_key_e key;

    vl_out_text(out, ",\"expires_s\":{");
    for (key = 0; key < VL_KEY_COUNT; key++) {
        apr_int64_t left_us = override->until_us[key] - vl_clock_us();

        if (!(override->timed & VL_KEY_BIT(key)))
            continue;
        vl_out_text(out, before);
        vl_out_text(out, vl_override_key_name(key));
        vl_out_text(out, "\":");
        vl_out_number(out, left_us > 0 ? (apr_uint64_t)(left_us / APR_USEC_PER_SEC) + 1 : 0);
        before = ",\"";
    }
    vl_out_text(out, "}");
}

/* Writes a virtual host of a site. */
static void put_vhost(vl_out_t *out, int i, const char *name,
                      const char *addresses, const char *place)
{
    put_string(out, i ? ",{\"name\":" : "{\"name\":", name);
    put_string(out, ",\"addresses\":", addresses);
    put_string(out, ",\"place\":", place);
    vl_out_text(out, "}");
}

static void put_backends(vl_out_t *out, const apr_array_header_t *all)
{
    int i;

    for (i = 0; i < all->nelts; i++) {
        const vl_spent_t *spent = &APR_ARRAY_IDX(all, i, vl_spent_t);

        put_string(out, i ? ",{\"address\":" : "{\"address\":", spent->address);
        put_number(out, "cpu_us", spent->us);
        vl_out_text(out, "}");
    }
}

static void put_class(vl_out_t *out, const vl_class_row_t *row, int is_first)
{
    put_string(out, is_first ? "{\"name\":" : ",{\"name\":", row->name);
    put_number(out, "weight", row->counts.weight);
    put_number(out, "waiting", row->counts.waiting);
    put_number(out, "requests", row->counts.requests);
    put_number(out, "cpu_us", row->counts.cpu_us);
    put_number(out, "cpu_permille", row->cpu_permille);
    vl_out_text(out, "}");
}

static void put_row(vl_out_t *out, const vl_row_t *row)
{
    const vl_column_t *column;
    vl_key_e key;
    int i;

    put_string(out, "{\"name\":", row->name);
    if (*row->host_of)
        put_string(out, ",\"host_of\":", row->host_of);
    put_string(out, ",\"mode\":", vl_conf_mode_name(row->limits.mode));
    put_string(out, ",\"state\":", row->state);
    put_string(out, ",\"method\":", row->method);
    put_string(out, ",\"cost\":", row->cost);
    put_number(out, "weight", row->limits.weight);
    put_number(out, "concurrency", row->limits.concurrency);
    put_number(out, "queue", row->limits.queue);
    put_number(out, "cpu", row->limits.cpu);
    for (key = VL_KEYS_ADMITTED; key < VL_KEY_COUNT; key++)
        put_number(out, vl_override_key_name(key),
                   (apr_uint64_t)row->override.now.of[key]);
    put_string(out, ",\"plan\":", row->plan);
    put_override(out, &row->override);
    put_expiry(out, &row->override);
    put_string(out, ",\"cgroup\":", row->cgroup);
    put_string(out, ",\"unenforced\":", row->unenforced);
    vl_out_text(out, ",\"virtual_hosts\":[");
    vl_status_vhosts(out, row, put_vhost);
    vl_out_text(out, "],\"backends\":[");
    put_backends(out, row->spent);
    vl_out_text(out, "],\"classes\":[");
    for (i = 0; i < row->nclasses; i++)
        put_class(out, &row->classes[i], !i);
    vl_out_text(out, "]");
    for (column = vl_status_columns; column->key; column++)
        put_number(out, column->key, vl_status_cell(row, column));
    vl_out_text(out, "}");
}

void vl_status_json(vl_out_t *out, const vl_page_t *page)
{
    int i;

    put_server(out, page);
    vl_out_text(out, "},\"vhosts\":[");
    for (i = 0; i < page->nrows; i++) {
        vl_out_text(out, i ? ",\n" : "\n");
        put_row(out, &page->rows[i]);
    }
    vl_out_text(out, "\n]}\n");
}
