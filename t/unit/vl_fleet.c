/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of vhostlimit-fleet: what a leased weight, cap and concurrency do in the queue, and
 * what ends them. */
#include "segment.h"
#include "core/vl_fleet.h"
#include "core/vl_hosts.h"

#include <apr_strings.h>

static vl_part_t part_of(apr_uint32_t weight_milli, apr_uint32_t cpu, apr_uint32_t concurrency)
{
    vl_part_t part = { weight_milli, cpu, concurrency };

    return part;
}

static apr_status_t lease(vl_shm_t *shm, apr_uint32_t a, vl_part_t part)
{
    vl_fleet_lease_t one = { a, part };

    return vl_fleet_lease(shm, vl_fleet_generation(shm), vl_clock_us() + 3000000, &one, 1);
}

static int any_flow(void *data, apr_uint32_t fair)
{
    return 1;
}

/* Two sites that always want more, on one slot: returns how many of 1000 grants the first one
 * gets. */
static unsigned grants_of_first(vl_shm_t *shm)
{
    vl_queue_t *q = &shm->queue;
    unsigned n, first = 0;

    q->head->slots = 1;
    for (n = 0; n < 2; n++)
        vl_fair_arrive(q, n);
    for (n = 0; n < 1000; n++) {
        apr_uint32_t fair = vl_fair_next_where(q, any_flow, NULL), charged = vl_fair_begin(q, fair);

        first += fair == 0;
        vl_fair_arrive(q, fair);
        vl_fair_end(q, fair, charged, 1000);
    }
    for (n = 0; n < 2; n++)
        vl_fair_abandon(q, n, 1);
    return first;
}

static void weights(void)
{
    vl_shm_t *shm = make(4, 2);
    apr_uint32_t a = account(shm, "a", 0);
    vl_change_t change = { .set = VL_KEY_BIT(VL_KEY_weight) };
    unsigned n;

    change.values.of[VL_KEY_weight] = 300;
    account(shm, "b", 0);
    ok(lease(shm, a, part_of(25000, 0, 0)) == APR_SUCCESS, "a lease is made");
    n = grants_of_first(shm);
    ok(n >= 195 && n <= 205, "a lease of a quarter of the weight gives a fifth of the grants: %u", n);
    lease(shm, a, part_of(1000, 0, 0));
    n = grants_of_first(shm);
    ok(n >= 8 && n <= 14, "thousandths of a weight count: %u", n);
    lease(shm, a, part_of(900000, 0, 0));
    ok(shm->queue.accounts[a].part.weight_milli == 100000, "a leased weight is at most the configured one");
    lease(shm, a, part_of(50000, 0, 0));
    vl_shm_parent_change(shm, a, &change);
    n = grants_of_first(shm);
    ok(n >= 740 && n <= 760, "a weight that is set replaces a leased one: %u", n);
    lease(shm, a, part_of(50000, 0, 0));
    ok(!shm->queue.accounts[a].part.weight_milli, "a weight that is set replaces later leases");
    change = (vl_change_t) { .reset = VL_KEY_ALL };
    vl_shm_parent_change(shm, a, &change);
    lease(shm, a, part_of(50000, 0, 0));
    ok(shm->queue.accounts[a].part.weight_milli == 50000, "after a reset a weight can be leased again");
}

static void limits(void)
{
    vl_shm_t *shm = make(4, 2);
    apr_uint32_t a = account_with(shm, "a", limits_of(VL_MODE_ON, 5, 0));
    vl_queue_t *q = &shm->queue;
    int i;

    q->head->slots = 100;
    lease(shm, a, part_of(0, 0, 2));
    ok(vl_fair_limits(q, a).concurrency == 2, "a leased part of a concurrency applies");
    vl_fair_begin_now(q, a);
    ok(vl_fair_is_within_bounds(q, a), "one of two requests may run");
    vl_fair_begin_now(q, a);
    ok(!vl_fair_is_within_bounds(q, a), "two requests reach the limit");
    lease(shm, a, part_of(0, 0, 9));
    ok(vl_fair_limits(q, a).concurrency == 5, "the smaller limit applies");
    vl_fair_forget(q, a, 2);
    lease(shm, a, part_of(0, 500, 0));
    ok(vl_fair_is_capped(q, a), "a leased part of a CPU limit applies");
    vl_fair_charge(q, a, 1000000);
    ok(!vl_fair_is_within_bounds(q, a), "a site that used up its part may not run");
    for (i = 0; i < 10; i++)
        lease(shm, a, part_of(0, 400 + (apr_uint32_t)i, 0));
    ok(!vl_fair_is_within_bounds(q, a), "a renewal adds no credit");
    vl_fair_credit(q, a, 2500000);
    ok(vl_fair_is_within_bounds(q, a), "time adds credit");
}

static void ends(void)
{
    vl_shm_t *shm = make(4, 2);
    apr_uint32_t a = account(shm, "a", 0);
    apr_int64_t now = vl_clock_us();

    ok(!vl_fleet_expire(shm, now) && !vl_fleet_state(shm).renewed, "there is no lease at first");
    lease(shm, a, part_of(50000, 500, 7));
    ok(!vl_fleet_expire(shm, now + 2900000) && vl_fleet_state(shm).renewed == 1, "a lease lasts until its end");
    ok(vl_fleet_expire(shm, now + 4000000), "a lease ends");
    ok(!shm->queue.accounts[a].part.weight_milli && !vl_fair_is_capped(&shm->queue, a)
       && !vl_fair_limits(&shm->queue, a).concurrency, "nothing is left of a lease");
    ok(!vl_fleet_expire(shm, now + 9000000) && vl_fleet_state(shm).lapsed == 1, "a lease ends once");
}

static void generations(void)
{
    vl_shm_t *shm = make(4, 2);
    apr_uint32_t a = account(shm, "a", 0), generation = vl_fleet_generation(shm);
    vl_fleet_lease_t one = { a, { 1, 0, 0 } }, none = { 3, { 1, 0, 0 } };

    ok(vl_fleet_lease(shm, generation, 1, &none, 1) == APR_EINVAL, "a lease of an unknown account is refused");
    vl_shm_post_config_begin(shm);
    ok(vl_fleet_lease(shm, generation, 1, &one, 1) == APR_EMISMATCH,
       "a lease for an earlier configuration is refused");
    ok(vl_fleet_lease(shm, generation + 1, 1, &one, 1) == APR_EINVAL,
       "a lease of a removed site is refused");
}

static void reads(void)
{
    vl_shm_t *shm = make(200, 2);
    vl_fleet_reading_t readings[VL_FLEET_READINGS];
    apr_uint32_t at = 0, i;
    apr_size_t n = 0;
    char name[16];

    for (i = 0; i < 150; i++) {
        apr_snprintf(name, sizeof(name), "site%u", i);
        account(shm, name, 0);
    }
    account_with(shm, "off", limits_of(VL_MODE_DRYRUN, 0, 10));
    do
        n += vl_fleet_read(shm, 1, &at, readings);
    while (at);
    ok(n == 150, "all sites with On are read: %u", (unsigned)n);
    ok(!vl_fleet_read(shm, 0, &at, readings) && !at, "no site is active at first");
    vl_fair_arrive(&shm->queue, 77);
    usleep(2000);
    ok(vl_fleet_read(shm, 0, &at, readings) == 1 && readings[0].account == 77
       && readings[0].requests == 1 && readings[0].backlog_us >= 2000
       && !strcmp(readings[0].name, "site77"), "a site whose request waits is active");
    vl_fair_abandon(&shm->queue, 77, 1);
    ok(shm->queue.accounts[77].backlog_us >= 2000 && !vl_fleet_read(shm, 0, &at, readings),
       "the waiting time counts after the request has gone");
    while (at)
        vl_fleet_read(shm, 0, &at, readings);
}

static void hosts(void)
{
    vl_shm_t *shm = make_with_hosts(4, 8, 2);
    vl_fleet_reading_t readings[VL_FLEET_READINGS];
    apr_uint32_t site = account(shm, "hosting.test", 0), at = 0, a, b;

    if (vl_shm_child_attach(shm, getpid(), 100) != APR_SUCCESS)
        abort();
    vl_shm_post_config_hosts(shm, site, 1);
    a = vl_hosts_find(shm, site, "a.example");
    lease(shm, site, part_of(50000, 500, 3));
    b = vl_hosts_find(shm, site, "b.example");
    ok(shm->queue.accounts[a].part.weight_milli == 50000
       && vl_fair_limits(&shm->queue, a).concurrency == 3
       && vl_fair_is_capped(&shm->queue, a), "the hosts of a site have its leases");
    ok(shm->queue.accounts[b].part.weight_milli == 50000, "a host that begins later has them too");
    ok(!vl_fleet_read(shm, 0, &at, readings), "a site without requests of its hosts is not active");
    vl_fair_arrive(&shm->queue, a);
    usleep(2000);
    ok(vl_fleet_read(shm, 0, &at, readings) == 1 && readings[0].account == site
       && readings[0].requests == 1 && readings[0].backlog_us >= 2000,
       "a waiting request of a host counts for its site");
    vl_fair_abandon(&shm->queue, a, 1);
    ok(vl_fleet_expire(shm, vl_clock_us() + 4000000) && !shm->queue.accounts[a].part.weight_milli
       && !vl_fair_is_capped(&shm->queue, b), "the leases of hosts end with those of the site");
    ok(!validate(shm), "the segment is valid");
}

int main(void)
{
    segment_init();
    weights();
    limits();
    ends();
    generations();
    reads();
    hosts();
    return tap_done();
}
