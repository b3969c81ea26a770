/* SPDX-License-Identifier: Apache-2.0 */
/* The format ?auto: one "key: value" for each line. */
#include "config.h"

#include <apr_strings.h>

#include "config/vl_conf.h"
#include "status/vl_status_int.h"

/* name: that of the row, with "vhost." or "host." before it. */
static void put_key(vl_out_t *out, const char *name, const char *key)
{
    vl_out_text(out, name);
    vl_out_text(out, ".");
    vl_out_text(out, key);
    vl_out_text(out, ": ");
}

static void put_word(vl_out_t *out, const char *name, const char *key,
                     const char *word)
{
    put_key(out, name, key);
    vl_out_text(out, word);
    vl_out_text(out, "\n");
}

static void put_number(vl_out_t *out, const char *name, const char *key,
                       apr_uint64_t n)
{
    put_key(out, name, key);
    vl_out_number(out, n);
    vl_out_text(out, "\n");
}

/* Writes the names of the limits in the set. */
static void put_keys(vl_out_t *out, const char *name, const char *word, unsigned set)
{
    const char *keys = "";
    vl_key_e key;

    for (key = 0; key < VL_KEY_COUNT; key++) {
        if (set & VL_KEY_BIT(key))
            keys = apr_pstrcat(out->pool, keys, *keys ? " " : "",
                               vl_override_key_name(key), NULL);
    }
    put_word(out, name, word, keys);
}

static void put_vhost(vl_out_t *out, int i, const char *name,
                      const char *addresses, const char *place)
{
    vl_out_text(out, i ? ", " : "");
    vl_out_text(out, ap_escape_logitem(out->pool, name));
    vl_out_text(out, *addresses ? " " : "");
    vl_out_text(out, addresses);
    vl_out_text(out, *place ? " " : "");
    vl_out_text(out, place);
}

static void put_class(vl_out_t *out, const vl_class_row_t *row, int is_first)
{
    vl_out_printf(out, "%s%s weight=%u waiting=%u requests=%" APR_UINT64_T_FMT " cpu_us=%"
                  APR_UINT64_T_FMT " cpu_permille=%" APR_UINT64_T_FMT, is_first ? "" : ", ",
                  row->name, row->counts.weight, row->counts.waiting, row->counts.requests,
                  row->counts.cpu_us, row->cpu_permille);
}

static void put_row(vl_out_t *out, const vl_row_t *row)
{
    const char *name = apr_pstrcat(out->pool, *row->host_of ? "host." : "vhost.",
                                   ap_escape_logitem(out->pool, row->name), NULL);
    const vl_column_t *column;
    vl_key_e key;
    int i;

    if (*row->host_of)
        put_word(out, name, "host_of", ap_escape_logitem(out->pool, row->host_of));
    put_word(out, name, "mode", vl_conf_mode_name(row->limits.mode));
    put_word(out, name, "state", row->state);
    put_word(out, name, "method", row->method);
    put_word(out, name, "cost", row->cost);
    put_number(out, name, "weight", row->limits.weight);
    put_number(out, name, "concurrency", row->limits.concurrency);
    put_number(out, name, "queue", row->limits.queue);
    put_number(out, name, "cpu", row->limits.cpu);
    for (key = VL_KEYS_ADMITTED; key < VL_KEY_COUNT; key++)
        put_number(out, name, vl_override_key_name(key),
                   (apr_uint64_t)row->override.now.of[key]);
    put_word(out, name, "plan", row->plan);
    put_keys(out, name, "overridden", row->override.keys);
    put_keys(out, name, "expires_s", row->override.timed);
    put_word(out, name, "cgroup", row->cgroup);
    put_word(out, name, "unenforced", row->unenforced);
    put_key(out, name, "virtual_hosts");
    vl_status_vhosts(out, row, put_vhost);
    vl_out_text(out, "\n");
    put_key(out, name, "backends");
    for (i = 0; i < row->spent->nelts; i++) {
        const vl_spent_t *spent = &APR_ARRAY_IDX(row->spent, i, vl_spent_t);

        vl_out_printf(out, "%s%s cpu_us=%" APR_UINT64_T_FMT, i ? ", " : "",
                      ap_escape_logitem(out->pool, spent->address), spent->us);
    }
    vl_out_text(out, "\n");
    put_key(out, name, "classes");
    for (i = 0; i < row->nclasses; i++)
        put_class(out, &row->classes[i], !i);
    vl_out_text(out, "\n");
    for (column = vl_status_columns; column->key; column++)
        put_number(out, name, column->key, vl_status_cell(row, column));
}

void vl_status_auto(vl_out_t *out, const vl_page_t *page)
{
    int i;

    vl_out_printf(out, "schema: %d\nmodule: %s\nmpm: %s\nnow_us: %"
                  APR_INT64_T_FMT "\nuptime_s: %" APR_INT64_T_FMT
                  "\nchildren: %u\nworkers: %u\nslots: %u\nslots_auto: %u\nprocessors: %u\n"
                  "held_us: %" APR_INT64_T_FMT "\nunenforced: %d\nfleet: %s\n"
                  "fleet_lapsed: %" APR_UINT64_T_FMT "\n",
                  VL_STATUS_SCHEMA,
                  VL_VERSION, page->mpm, page->now_us, page->uptime_s,
                  page->children, page->workers, page->slots,
                  page->slots_auto, page->processors, page->held_us, page->unenforced,
                  page->fleet, page->leases.lapsed);
    vl_out_printf(out, "cgroup.backend: %s\ncgroup.path: %s\n"
                  "cgroup.reason: %s\ncgroup.outside: %s\n", page->backend,
                  page->tree, page->reason, page->outside);
    vl_out_printf(out, "state.is: %s\nstate.why: %s\nstate.since_s: %" APR_INT64_T_FMT
                  "\nstate.changes: %u\n", vl_engage_name(&page->engage),
                  vl_engage_why(page->engage.why), page->engage_s, page->engage.changes);
    vl_out_printf(out, "sampler.state: %s\nsampler.round_us: %u\nsampler.processes: %u\n"
                  "sampler.unfound: %u\nsampler.unread: %s\n", page->sampler, page->sampler_us,
                  page->sampled, page->unfound, ap_escape_logitem(out->pool, page->unread));
    if (page->by_host)
        vl_out_printf(out, "hosts.limit: %u\nhosts.named: %u\nhosts.shown: %d\n"
                      "hosts.beyond: %" APR_UINT64_T_FMT "\n", page->hosts.limit,
                      page->hosts.named, page->nrows - page->nsites, page->hosts.beyond);
    for (i = 0; i < page->nrows; i++)
        put_row(out, &page->rows[i]);
}
