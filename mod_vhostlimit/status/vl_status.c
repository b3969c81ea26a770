/* SPDX-License-Identifier: Apache-2.0 */
/* The data of the page. It is copied from shared memory in small batches, then converted to
 * the numbers that the formats show. */
#include "config.h"

#include "status/vl_status.h"

#include <ap_mpm.h>
#include <apr_strings.h>

#include "accept/vl_child.h"
#include "accept/vl_listener.h"
#include "base/vl_clock.h"
#include "config/vl_sharing.h"
#include "core/vl_engage.h"
#include "core/vl_fleet.h"
#include "core/vl_hosts.h"
#include "core/vl_shm_child.h"
#include "core/vl_slot.h"
#include "status/vl_modules.h"
#include "status/vl_status_int.h"

/* A sampler completes a round in every second, unless no request runs. One that has completed none
 * for this long has ended or hangs. */
#define SAMPLER_LATE_US (5 * APR_USEC_PER_SEC)

/* Calls are in the status for so long after they were seen. */
#define CALLS_LATE_US (1 * APR_USEC_PER_SEC)

/* Accounts that are copied while the segment lock is held once. */
#define BATCH 64

static const apr_array_header_t *servers;   /* one server for each account */
static vl_shm_t *segment;
static const vl_cgroup_t *cgroup;

static apr_uint64_t configured_us;
static apr_uint32_t children_lost, requests_lost;   /* atomic */

#define PAGE(member) APR_OFFSETOF(vl_page_t, member)

const vl_column_t vl_status_page_columns[] = {
    { "schema", VL_GAUGE, NULL, NULL, PAGE(schema) },
    { "module", VL_WORD, NULL, NULL, PAGE(module) },
    { "mpm", VL_WORD, NULL, NULL, PAGE(mpm) },
    { "now_us", VL_GAUGE, NULL, NULL, PAGE(now_us) },
    { "started_us", VL_GAUGE, "start_time_seconds", "start time of the server", PAGE(started_us) },
    { "uptime_s", VL_GAUGE, NULL, NULL, PAGE(uptime_s) },
    { "children", VL_GAUGE, "children", "child processes", PAGE(children) },
    { "workers", VL_GAUGE, NULL, NULL, PAGE(workers) },
    { "threads", VL_GAUGE, NULL, NULL, PAGE(threads) },
    { "slots", VL_GAUGE, "slots",
      "number of slots: most running requests that want a processor", PAGE(slots) },
    { "slots_auto", VL_GAUGE, NULL, NULL, PAGE(slots_auto) },
    { "processors", VL_GAUGE, "processors", "processors that the server may use",
      PAGE(processors) },
    { NULL, VL_GAUGE, "vhosts", "sites that take part", PAGE(sites) },
    { "unenforced", VL_GAUGE, "vhosts_unenforced",
      "sites with a limit that the kernel does not enforce", PAGE(unenforced) },
    { "held_us", VL_GAUGE, NULL, NULL, PAGE(held_us) },
    { "hosts.named", VL_GAUGE, "hosts", "host names that have an account (VhostLimitAccounts)",
      PAGE(hosts.named) },
    { "hosts.limit", VL_GAUGE, "hosts_limit", "most host names that have an account at once",
      PAGE(hosts.limit) },
    { "hosts.shown", VL_GAUGE, NULL, NULL, PAGE(hosts.shown) },
    { "hosts.beyond", VL_COUNTER, "hosts_beyond_total",
      "times that a host name got no account and used that of its site", PAGE(hosts.beyond) },
    { NULL, VL_GAUGE, "engaged", "1: the server is engaged, 0: it is dormant",
      PAGE(state.engaged) },
    { "state.is", VL_WORD, NULL, NULL, PAGE(state.is) },
    { "state.why", VL_WORD, NULL, NULL, PAGE(state.why) },
    { "state.since_s", VL_GAUGE, NULL, NULL, PAGE(state.since_s) },
    { "state.changes", VL_COUNTER, "state_changes_total",
      "times that the server became dormant or engaged", PAGE(state.changes) },
    { "sampler.state", VL_WORD, "sampler{state=\"",
      "1, with the state of the sampler: runs, blind or none", PAGE(sampler.state) },
    { "sampler.round_us", VL_GAUGE, "sampler_round_seconds",
      "CPU time of a round of the sampler, moving average", PAGE(sampler.round_us) },
    { "sampler.processes", VL_GAUGE, "sampler_processes",
      "processes of back ends that the sampler watches", PAGE(sampler.processes) },
    { "sampler.unfound", VL_GAUGE, "sampler_unfound",
      "back ends on this machine that no process was found for", PAGE(sampler.unfound) },
    { "sampler.unread", VL_WORD, NULL, NULL, PAGE(sampler.unread) },
    { NULL, VL_GAUGE, "fleet_held", "1: vhostlimit-fleet renews its parts", PAGE(fleet_held) },
    { "fleet", VL_WORD, NULL, NULL, PAGE(fleet) },
    { "fleet_lapsed", VL_COUNTER, "fleet_lapsed_total",
      "how often the parts from vhostlimit-fleet have ended for want of a renewal",
      PAGE(fleet_lapsed) },
    { "cgroup.backend", VL_WORD, NULL, NULL, PAGE(cgroup.backend) },
    { "cgroup.path", VL_WORD, NULL, NULL, PAGE(cgroup.path) },
    { "cgroup.reason", VL_WORD, NULL, NULL, PAGE(cgroup.reason) },
    { "cgroup.outside", VL_WORD, NULL, NULL, PAGE(cgroup.outside) },
    { NULL }
};

#define ROW(member) APR_OFFSETOF(vl_row_t, member)

const vl_column_t vl_status_columns[] = {
    { "mode", VL_WORD, NULL, NULL, ROW(mode) },
    { "state", VL_WORD, NULL, NULL, ROW(state) },
    { "method", VL_WORD, NULL, NULL, ROW(method) },
    { "cost", VL_WORD, "cost_method{method=\"",
      "source of the CPU time of back ends: thread, processes, unknown or remote", ROW(cost) },
    { "plan", VL_WORD, NULL, NULL, ROW(plan) },
    { "cgroup", VL_WORD, NULL, NULL, ROW(cgroup) },
    { "unenforced", VL_WORD, NULL, NULL, ROW(unenforced) },
#define X(member, kind, prometheus, help) { #member, kind, prometheus, help, ROW(metrics.member) },
    VL_METRICS(X)
#undef X
#define X(member, kind, prometheus, help) { #member, kind, prometheus, help, ROW(member) },
    VL_DERIVED(X)
#undef X
    { NULL }
};

/* Returns the keyword for the state of the vhost. */
static const char *state_of(const vl_limits_t *limits, const vl_row_t *row)
{
    const vl_metrics_t *metrics = &row->metrics;

    if (limits->concurrency && metrics->running >= limits->concurrency)
        return "capped";
    if (metrics->waiting)
        return "waiting";
    return metrics->running ? "running" : "idle";
}

static void fill_waits(apr_pool_t *p, const vl_account_snapshot_t *from, vl_row_t *row)
{
    apr_array_header_t *waits = apr_array_make(p, 4, sizeof(vl_waited_t));
    unsigned b;

    row->wait_p50_us = vl_metrics_wait_percentile(from->waits, 500);
    row->wait_p99_us = vl_metrics_wait_percentile(from->waits, 990);
    row->waits = waits;
    for (b = 0; b < VL_WAIT_BUCKETS; b++) {
        if (from->waits[b])
            APR_ARRAY_PUSH(waits, vl_waited_t) = (vl_waited_t){ b, from->waits[b] };
    }
}

/* An account that gets a row. */
typedef struct shown_t {
    const server_rec *s;            /* of its site */
    apr_uint32_t account;
    apr_uint64_t in_flight, charged_us;     /* of a host */
} shown_t;

/* Fills in what is known of the queue inside the site. */
static void fill_inside(apr_pool_t *p, const vl_conf_t *conf, apr_uint32_t account,
                        vl_row_t *row)
{
    const vl_metrics_t *metrics = &row->metrics;
    vl_class_row_t *classes;
    apr_uint64_t cpu_us = 0;
    vl_inside_t inside;
    int i;

    row->nclasses = vl_sharing_classes(&conf->sharing);
    if (!row->nclasses
        && !(metrics->waiting || metrics->deferred || metrics->queued || metrics->gone))
        return;
    vl_fair_read_clients(segment, account, &inside);
    row->clients_waiting = inside.clients;
    row->late = inside.late;
    row->classes = classes = row->nclasses ? apr_palloc(p, sizeof(*classes) * VL_CLASSES_MAX) : NULL;
    for (i = 0; i < row->nclasses; i++) {
        classes[i].name = vl_sharing_class_name(&conf->sharing, (unsigned)i);
        classes[i].counts = inside.classes[i];
        cpu_us += inside.classes[i].cpu_us;
    }
    for (i = 0; i < row->nclasses; i++)
        classes[i].cpu_permille = cpu_us ? classes[i].counts.cpu_us * 1000 / cpu_us : 0;
}

static const apr_array_header_t *find_spent(apr_pool_t *p, apr_uint32_t account)
{
    apr_array_header_t *all = apr_array_make(p, 0, sizeof(vl_spent_t));
    apr_uint32_t i = 0;
    vl_spent_t spent;

    while (vl_duty_spent(segment, account, &i, &spent))
        APR_ARRAY_PUSH(all, vl_spent_t) = spent;
    return all;
}

static void fill_row(apr_pool_t *p, const shown_t *shown,
                     const vl_account_snapshot_t *from, apr_int64_t now, int is_host,
                     vl_row_t *row)
{
    static const char *const modes[] = { "off", "on", "dryrun" };   /* vl_mode_e */
    static const char *const costs[] = { "thread", "processes", "unknown", "remote" };  /* vl_cost_by_e */
    const vl_conf_t *conf = vl_conf_get(shown->s);
    vl_cgroup_limits_t group = vl_conf_cgroup_limits_with(conf, &from->override.now);
    const char *unenforced = vl_cgroup_missing(cgroup, p, &group);

    if (!unenforced)
        unenforced = conf->site->unenforced;
    memset(row, 0, sizeof(*row));
    row->name = apr_pstrdup(p, from->name);
    row->vhosts = conf->site->vhosts;
    row->unenforced = unenforced ? unenforced : "";
    row->host_of = is_host ? conf->site->name : "";
    row->cgroup = vl_cgroup_account_path(cgroup, p, conf->site->name);
    row->plan = conf->plan ? conf->plan->name : "";
    row->override = from->override;
    row->metrics = from->metrics;
    row->limits_mode = from->limits.mode;
    row->mode = modes[from->limits.mode];
    row->state = state_of(&from->limits, row);
    row->method = from->limits.mode != VL_MODE_ON || !from->limits.queue ? "none"
                  : (vl_child.shm ? vl_child.has_sockets : vl_listener_will_queue())
                  ? "socket" : "thread";
    row->cost = costs[from->cost_by];
    row->weight = from->limits.weight;
    row->concurrency = from->limits.concurrency;
    row->queue = from->limits.queue;
    row->cpu = from->limits.cpu;
    row->memory = (apr_uint64_t)from->override.now.of[VL_KEY_memory];
    row->processes = (apr_uint64_t)from->override.now.of[VL_KEY_processes];
    row->io = (apr_uint64_t)from->override.now.of[VL_KEY_io];
    row->duty_permille = from->duty;
    row->runnable_permille = from->load;
    row->asleep = from->asleep;
    row->database_waits = from->database_waits;
    row->database_now_permille = from->database_permille;
    row->fleet_weight_milli = from->part.weight_milli;
    row->fleet_cpu_permille = from->part.cpu_permille;
    row->fleet_concurrency = from->part.concurrency;
    row->spent = find_spent(p, shown->account);
    fill_inside(p, conf, shown->account, row);
    if (!row->metrics.requests && !row->metrics.refused)
        return;
    /* At least 1 while the vhost is limited. */
    if (from->limited_since_us)
        row->limited_s = 1 + (apr_uint64_t)
            apr_time_sec(now > from->limited_since_us
                         ? now - from->limited_since_us : 0);
    row->cpu_now_permille = vl_rate_permille(&from->rate, now, VL_RATE_NOW);
    row->cpu_minute_permille = vl_rate_permille(&from->rate, now,
                                                VL_RATE_MINUTE);
    row->service_us = from->service_us;
    fill_waits(p, from, row);
}

static void fill_sampler(vl_page_t *page)
{
    static const char *const names[] = { "none", "runs", "blind" };
    const vl_sampler_state_t *sampler = vl_duty_sampler(segment);
    apr_int64_t since_us = sampler->round_at > sampler->woken_at ? sampler->round_at
                                                                 : sampler->woken_at;
    int is_late = __atomic_load_n(&sampler->sleeps, __ATOMIC_RELAXED) != VL_UNTIL_BEGIN
                  && vl_clock_us() - since_us > SAMPLER_LATE_US;

    page->sampler.state = names[is_late ? VL_SAMPLER_NONE : sampler->state];
    page->sampler.round_us = sampler->round_us;
    page->sampler.processes = sampler->processes;
    page->sampler.unfound = sampler->unfound;
    page->sampler.unread = sampler->unread;
}

/* Returns an array of server_rec *: one server of each site that the page shows. */
static const apr_array_header_t *select_sites(apr_pool_t *p,
                                              const server_rec *only)
{
    apr_array_header_t *selected;

    if (!only)
        return servers;
    selected = apr_array_make(p, 1, sizeof(server_rec *));
    if (vl_conf_get(only)->mode != VL_MODE_OFF)
        APR_ARRAY_PUSH(selected, const server_rec *) = only;
    return selected;
}

/* The accounts of a page: those of sites, then of the busiest hosts, the busiest first. */
typedef struct selection_t {
    const apr_array_header_t *sites;    /* server_rec * */
    apr_array_header_t *shown;          /* shown_t */
    int nsites;
    const server_rec *s;                /* of the last host's site, or NULL ... */
    apr_uint32_t site;                  /* ... which is this account */
} selection_t;

/* Returns the server with the site's account if its hosts have accounts, or NULL. */
static const server_rec *find_site(const apr_array_header_t *sites, apr_uint32_t account)
{
    int i;

    for (i = 0; i < sites->nelts; i++) {
        const server_rec *s = APR_ARRAY_IDX(sites, i, const server_rec *);

        if (vl_conf_get(s)->account == account
            && vl_conf_get(s)->accounts.by == VL_ACCOUNTS_HOST)
            return s;
    }
    return NULL;
}

static int is_busier(const shown_t *a, const shown_t *b)
{
    return a->in_flight != b->in_flight ? a->in_flight > b->in_flight
                                        : a->charged_us > b->charged_us;
}

/* Selects the host if it is among the busiest so far. */
static void select_host(void *data, apr_uint32_t account, apr_uint32_t site,
                        const vl_metrics_t *metrics)
{
    selection_t *to = data;
    shown_t *hosts = (shown_t *)to->shown->elts + to->nsites, host;
    int n = to->shown->nelts - to->nsites;

    host.account = account;
    host.in_flight = metrics->running + metrics->waiting + metrics->deferred;
    host.charged_us = metrics->charged_us;
    /* Nearly all hosts are of one site. */
    if (!to->s || to->site != site)
        to->s = find_site(to->sites, site);
    to->site = site;
    host.s = to->s;
    if (!host.s)
        return;
    if (n == VL_STATUS_HOSTS_MAX && !is_busier(&host, &hosts[n - 1]))
        return;
    if (n < VL_STATUS_HOSTS_MAX)
        to->shown->nelts = to->nsites + ++n;
    for (n--; n && is_busier(&host, &hosts[n - 1]); n--)
        hosts[n] = hosts[n - 1];
    hosts[n] = host;
}

/* Selects the accounts of the sites and, unless the page has one account, of their hosts. */
static void select_accounts(apr_pool_t *p, vl_page_t *page, selection_t *to, int is_single)
{
    int i;

    to->shown = apr_array_make(p, to->sites->nelts + VL_STATUS_HOSTS_MAX, sizeof(shown_t));
    for (i = 0; i < to->sites->nelts; i++) {
        shown_t *shown = apr_array_push(to->shown);

        shown->s = APR_ARRAY_IDX(to->sites, i, const server_rec *);
        shown->account = vl_conf_get(shown->s)->account;
        page->by_host |= vl_conf_get(shown->s)->accounts.by == VL_ACCOUNTS_HOST;
    }
    to->nsites = to->shown->nelts;
    if (page->by_host && !is_single)
        vl_hosts_each(segment, select_host, to);
}

/* Selects the account of the host alone.  Returns 0 if it has none. */
static int select_one_host(apr_pool_t *p, vl_page_t *page, selection_t *to, const char *host)
{
    const server_rec *s = to->sites->nelts ? APR_ARRAY_IDX(to->sites, 0, const server_rec *)
                                           : NULL;
    apr_uint32_t account;
    shown_t *shown;

    if (!host || !s || vl_conf_get(s)->accounts.by != VL_ACCOUNTS_HOST
        || !vl_hosts_lookup(segment, vl_conf_get(s)->account, host, &account))
        return 0;
    to->shown = apr_array_make(p, 1, sizeof(shown_t));
    shown = apr_array_push(to->shown);
    shown->s = s;
    shown->account = account;
    to->nsites = 0;
    page->by_host = 1;
    return 1;
}

static void gather_rows(apr_pool_t *p, vl_page_t *page, const selection_t *selected)
{
    vl_account_snapshot_t *batch = apr_palloc(p, sizeof(*batch) * BATCH);
    const shown_t *shown = (const shown_t *)selected->shown->elts;
    apr_uint32_t numbers[BATCH];
    apr_int64_t now = vl_clock_us();
    int i, from, all = selected->shown->nelts;

    page->rows = apr_palloc(p, sizeof(vl_row_t) * ((apr_size_t)all + 1));
    for (from = 0; from < all; from += BATCH) {
        int n = all - from < BATCH ? all - from : BATCH;

        for (i = 0; i < n; i++)
            numbers[i] = shown[from + i].account;
        if (vl_shm_snapshots(segment, numbers, n, batch,
                             &page->held_us) != APR_SUCCESS)
            return;
        for (i = 0; i < n; i++) {
            fill_row(p, &shown[from + i], &batch[i], now, from + i >= selected->nsites,
                     &page->rows[page->nrows]);
            page->with_classes += page->rows[page->nrows].nclasses > 0;
            page->unenforced += *page->rows[page->nrows++].unenforced != '\0';
        }
    }
}

/* A site that the page does not show is not named either. */
static void gather_calls(apr_pool_t *p, const vl_page_t *page, const shown_t *shown)
{
    const vl_sampler_state_t *sampler = vl_duty_sampler(segment);
    apr_uint32_t i, n = __atomic_load_n(&sampler->n_calling, __ATOMIC_ACQUIRE);
    int k;

    /* Calls that the last round has seen before the sampler rested have ended. */
    if (!page->rows || vl_clock_us() - sampler->round_at > CALLS_LATE_US)
        return;
    for (i = 0; i < n; i++) {
        vl_call_row_t call = { .calls = sampler->calling[i] };
        vl_row_t *caller = NULL;

        for (k = 0; k < page->nrows; k++) {
            if (shown[k].account == call.calls.caller)
                caller = &page->rows[k];
            if (shown[k].account == call.calls.called)
                call.site = page->rows[k].name;
        }
        if (!caller || !call.site)
            continue;
        if (!caller->calls)
            caller->calls = apr_array_make(p, 1, sizeof(call));
        APR_ARRAY_PUSH(caller->calls, vl_call_row_t) = call;
    }
}

vl_page_t *vl_status_gather(apr_pool_t *p, const server_rec *only, const char *host)
{
    static const char *const whys[] = { "slots", "threads", "limit", "always" };    /* vl_engaged_e */
    vl_page_t *page = apr_pcalloc(p, sizeof(*page));
    selection_t selected = { select_sites(p, only) };
    vl_hosts_count_t hosts = vl_hosts_count(segment);
    vl_fleet_state_t leases = vl_fleet_state(segment);
    vl_engage_t engage = vl_engage_state(segment);
    int daemons = 1, threads = 1;

    page->schema = VL_STATUS_SCHEMA;
    page->module = VL_VERSION;
    page->mpm = ap_show_mpm();
    page->started_us = (apr_uint64_t)vl_shm_facts(segment).created_us;
    page->now_us = (apr_uint64_t)apr_time_now();
    page->configured_us = configured_us;
    page->children_lost = __atomic_load_n(&children_lost, __ATOMIC_RELAXED);
    page->requests_lost = __atomic_load_n(&requests_lost, __ATOMIC_RELAXED);
    page->uptime_s = (page->now_us - page->started_us) / APR_USEC_PER_SEC;
    page->children = vl_shm_child_count(segment);
    ap_mpm_query(AP_MPMQ_MAX_DAEMONS, &daemons);
    ap_mpm_query(AP_MPMQ_MAX_THREADS, &threads);
    page->threads = threads > 0 ? (apr_uint64_t)threads : 1;
    page->workers = (apr_uint64_t)daemons * page->threads;
    page->slots = vl_shm_facts(segment).slots;
    page->slots_auto = (apr_uint64_t)vl_shm_facts(segment).is_auto;
    page->processors = vl_shm_facts(segment).processors;
    page->cgroup.backend = vl_cgroup_backend(cgroup);
    page->cgroup.path = vl_cgroup_path(cgroup);
    page->cgroup.reason = vl_cgroup_reason(cgroup);
    page->cgroup.outside = vl_modules_outside(cgroup);
    page->state.is = engage.engaged ? "engaged" : "dormant";
    page->state.why = whys[engage.why];
    page->state.since_s = (apr_uint64_t)apr_time_sec(vl_clock_us() - engage.since_us);
    page->state.changes = engage.changes;
    page->state.engaged = (apr_uint64_t)engage.engaged;
    fill_sampler(page);
    page->fleet = leases.until_us ? "held" : leases.renewed ? "lapsed" : "none";
    page->fleet_held = leases.until_us != 0;
    page->fleet_lapsed = leases.lapsed;
    if (!select_one_host(p, page, &selected, host))
        select_accounts(p, page, &selected, only != NULL);
    gather_rows(p, page, &selected);
    gather_calls(p, page, (const shown_t *)selected.shown->elts);
    page->sites = (apr_uint64_t)selected.nsites;
    page->hosts.named = hosts.named;
    page->hosts.limit = hosts.limit;
    page->hosts.beyond = hosts.beyond;
    page->hosts.shown = (apr_uint64_t)(page->nrows - selected.nsites);
    return page;
}

void vl_status_post_config(const apr_array_header_t *list, vl_shm_t *shm,
                           const vl_cgroup_t *cg)
{
    servers = list;
    segment = shm;
    cgroup = cg;
    configured_us = (apr_uint64_t)apr_time_now();
}

void vl_status_child_lost(apr_uint32_t running)
{
    __atomic_fetch_add(&requests_lost, running, __ATOMIC_RELAXED);
    __atomic_fetch_add(&children_lost, 1, __ATOMIC_RELAXED);
}
