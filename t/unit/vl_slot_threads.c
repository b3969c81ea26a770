/* SPDX-License-Identifier: Apache-2.0 */
/* Thread waiters, and charges while requests run. */
#include "segment.h"
#include "core/vl_thread.h"
#include "core/vl_limited.h"

static vl_shm_t *with_threads(apr_uint32_t threads, apr_uint32_t slots)
{
    vl_shm_t *shm = make(10, 2);

    if (vl_shm_child_attach(shm, getpid(), threads) != APR_SUCCESS)
        abort();
    vl_slot_set(shm, slots);
    return shm;
}

/* The only thread of a child waits, and is granted a slot. */
static void a_waiting_thread_is_granted(void)
{
    vl_shm_t *shm = with_threads(1, 1);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket;

    vl_thread_occupy(shm, a);
    vl_thread_waiting(shm, a, 1);
    ok(vl_slot_wait(shm, a, 1) == APR_SUCCESS
       && vl_slot_take(shm, &ticket) == APR_SUCCESS, "it gets a slot");
    vl_thread_waiting(shm, a, 0);
    vl_thread_free(shm, a);
    end(shm, &ticket, 5);
    ok(is_empty(shm), "the segment is empty");
}

static void a_single_account_leaves_a_slot(vl_shm_t *shm, apr_uint32_t a,
                                    apr_uint32_t b)
{
    vl_ticket_t ticket;

    ok(vl_slot_wait(shm, a, 1) == APR_SUCCESS
       && vl_slot_take(shm, &ticket) == APR_EAGAIN, "the account's next request is queued");
    ok(vl_slot_wait(shm, b, 2) == APR_SUCCESS
       && vl_slot_take(shm, &ticket) == APR_SUCCESS && ticket.account == b,
       "another account gets a slot at once");
}

static apr_uint32_t takes(vl_shm_t *shm, apr_uint32_t account)
{
    vl_ticket_t ticket;
    apr_uint32_t n = 0;

    while (vl_slot_try(shm, account, &ticket) == APR_SUCCESS)
        n++;
    return n;
}

static void one_alone_leaves_some(void)
{
    vl_shm_t *shm = with_threads(100, 10);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);

    ok(takes(shm, a) == 8, "of ten slots a single account gets eight");
    a_single_account_leaves_a_slot(shm, a, b);
    ok(valid(shm), "the sums hold");
    shm = with_threads(11, 100);
    a = account(shm, "a", 0);
    b = account(shm, "b", 0);
    ok(takes(shm, a) == 8 && takes(shm, b) > 0,
       "of a child's ten threads a single account gets eight");
    shm = with_threads(100, 4);
    a = account(shm, "a", 0);
    ok(takes(shm, a) == 4, "a single account gets all of a few slots");
}

static void what_was_paid_is_not_charged_again(void)
{
    vl_shm_t *shm = with_threads(100, 10);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);
    vl_cost_t cost = { 900, 900, 0, 0, 0 };
    vl_ticket_t ticket;

    enter(shm, a, &ticket);
    vl_slot_end(shm, &ticket, &cost);
    enter(shm, b, &ticket);
    vl_charge_part(shm, b, 300);
    vl_charge_part(shm, b, 500);
    cost.charged_us = 800;
    vl_slot_end(shm, &ticket, &cost);
    ok(shm->queue.flows[a].vt == shm->queue.flows[b].vt, "both cost the same");
    ok(metrics(shm, b).cpu_us == 900, "and count the same");
}

static apr_uint64_t reading;

/* n requests end, and the back ends have used the given us. */
static void tick(vl_shm_t *shm, apr_uint32_t a, apr_uint32_t n, apr_uint64_t us)
{
    vl_cost_t cost = { 0, 0, 1, 0, 0 };
    vl_ticket_t ticket;

    while (n--) {
        enter(shm, a, &ticket);
        cost.elsewhere_from = vl_charge_elsewhere(shm, vl_clock_us());
        vl_slot_end(shm, &ticket, &cost);
    }
    vl_charge_usage(shm, a, reading += us, 1);
}

static void measured_back_ends(void)
{
    vl_shm_t *shm = with_threads(100, 10);
    apr_uint32_t a = account(shm, "a", 0), i;
    apr_uint64_t start;

    vl_charge_usage(shm, a, reading = 123456, 1);
    ok(!metrics(shm, a).backend_us, "the first reading is the base");
    start = shm->queue.flows[a].vt;
    for (i = 0; i < 50; i++)
        tick(shm, a, 10, 20000);
    ok(metrics(shm, a).backend_us == 1000000, "the second reading gives a second");
    ok(shm->accounts[a].backend_us > 1900 && shm->accounts[a].backend_us < 2001,
       "2 ms a request (%u)", shm->accounts[a].backend_us);
    ok((shm->queue.flows[a].vt - start) / (1000000 / 100 * VL_VT_UNIT / 1000)
       >= 995 && (shm->queue.flows[a].vt - start)
       / (1000000 / 100 * VL_VT_UNIT / 1000) <= 1020,
       "exactly a second is charged");
    start = shm->queue.flows[a].vt;
    tick(shm, a, 0, 500000);
    ok((shm->queue.flows[a].vt - start) / (1000000 / 100 * VL_VT_UNIT / 1000)
       == 500, "a long request is charged before its end");
    vl_charge_usage(shm, a, 1000, 0);
    ok(metrics(shm, a).backend_us == 1500000, "a group that was created again is not charged");
    ok(!shm->accounts[a].measured, "without a group the clock is used again");
    ok(is_empty(shm), "the segment is empty");
}

static void a_group_that_is_left(void)
{
    vl_shm_t *shm = with_threads(100, 10);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), i;
    vl_cost_t cost = { 0, 0, 1, 0, 0 };
    vl_ticket_t ticket;

    vl_charge_usage(shm, a, reading = 1000, 1);
    for (i = 0; i < 20; i++)
        tick(shm, a, 10, 20000);
    /* The group has no back end any more: no reading, and requests end. */
    for (i = 0; i < 5000; i++) {
        enter(shm, a, &ticket);
        cost.elsewhere_from = vl_charge_elsewhere(shm, vl_clock_us());
        vl_slot_end(shm, &ticket, &cost);
    }
    ok(shm->accounts[a].measured, "requests are charged as before for a while");
    shm->accounts[a].backend_since_us -= 10 * APR_USEC_PER_SEC;
    enter(shm, a, &ticket);
    cost.elsewhere_from = vl_charge_elsewhere(shm, vl_clock_us());
    vl_slot_end(shm, &ticket, &cost);
    ok(!shm->accounts[a].measured, "later requests are charged by the clock");
    shm->accounts[a].measured = 1;
    shm->accounts[a].usage_us = reading;
    shm->accounts[a].backend_ended = 5000;
    enter(shm, b, &ticket);
    vl_charge_part(shm, b, 100 * APR_USEC_PER_SEC);
    vl_slot_end(shm, &ticket, NULL);
    enter(shm, b, &ticket);
    vl_slot_end(shm, &ticket, NULL);
    shm->queue.flows[a].vt = shm->queue.head->vt;
    vl_charge_usage(shm, a, reading + 1, 1);
    ok(shm->queue.head->vt - shm->queue.flows[a].vt
       == (apr_uint64_t)VL_REFUND_US * VL_VT_UNIT / 100,
       "the refund is limited to one second of ten");
    ok(is_empty(shm), "the segment is empty");
}

/* Returns how many kills the next check of all accounts reports for the first one. */
static apr_uint64_t newly_reported_kills(vl_shm_t *shm, apr_int64_t now_us)
{
    vl_limited_event_t events[VL_LIMITED_EVENTS];
    apr_uint32_t from = 0;

    return vl_limited_check(shm, now_us, &from, events) ? events[0].killed : 0;
}

static void kills_are_counted_and_reported(void)
{
    vl_shm_t *shm = with_threads(100, 10);
    apr_uint32_t a = account(shm, "a", 0);
    apr_int64_t now = 100 * APR_USEC_PER_SEC;

    vl_shm_post_config_kills(shm, a, 5);
    vl_charge_kills(shm, a, 5);
    ok(!metrics(shm, a).memory_kills && !newly_reported_kills(shm, now),
       "kills before the start are not reported");
    vl_charge_kills(shm, a, 7);
    ok(metrics(shm, a).memory_kills == 2 && newly_reported_kills(shm, now) == 2,
       "two more kills are reported");
    vl_charge_kills(shm, a, 8);
    ok(metrics(shm, a).memory_kills == 3
       && !newly_reported_kills(shm, now + 9 * APR_USEC_PER_SEC),
       "the next kill is reported later");
    vl_shm_post_config_kills(shm, a, 9);
    vl_charge_kills(shm, a, 9);
    ok(newly_reported_kills(shm, now + 10 * APR_USEC_PER_SEC) == 2,
       "together with those found by a restart");
    vl_charge_kills(shm, a, 1);
    ok(metrics(shm, a).memory_kills == 5, "a group that was created again counts from 0");
}

static void cost_is_known_by(void)
{
    vl_shm_t *shm = with_threads(100, 10);
    apr_uint32_t a = account(shm, "a", 0);
    vl_account_snapshot_t seen;

    vl_shm_snapshot(shm, a, &seen);
    ok(seen.cost_by == VL_COST_THREAD, "cost is measured by the thread at first");
    tick(shm, a, 1, 1000);
    vl_shm_snapshot(shm, a, &seen);
    ok(seen.cost_by == VL_COST_CLOCK, "cost is measured by the clock without a group");
    tick(shm, a, 1, 1000);
    vl_shm_snapshot(shm, a, &seen);
    ok(seen.cost_by == VL_COST_CGROUP, "cost is measured by the group once it is read");
}

/* A request that works elsewhere for 50 ms, in the account's group. */
static apr_uint64_t charged_for_a_program(vl_shm_t *shm, apr_uint32_t a)
{
    vl_cost_t cost = { 50000, 0, 1, 0, 0, 1 };
    apr_uint64_t before = metrics(shm, a).charged_us;
    vl_ticket_t ticket;

    enter(shm, a, &ticket);
    cost.elsewhere_from = vl_charge_elsewhere(shm, vl_clock_us());
    apr_sleep(50000);
    vl_slot_end(shm, &ticket, &cost);
    return metrics(shm, a).charged_us - before;
}

static void groups_without_a_reader(void)
{
    vl_shm_t *shm = with_threads(100, 10);
    apr_uint32_t a = account(shm, "a", 0);

    ok(charged_for_a_program(shm, a) >= 49000, "the program is charged by the clock");
    ok(vl_charge_reads_usage(shm, vl_clock_us()), "one child reads the group");
    ok(charged_for_a_program(shm, a) == 0, "the reader charges what it reads");
}

int main(void)
{
    segment_init();
    a_waiting_thread_is_granted();
    one_alone_leaves_some();
    what_was_paid_is_not_charged_again();
    measured_back_ends();
    a_group_that_is_left();
    kills_are_counted_and_reported();
    cost_is_known_by();
    groups_without_a_reader();
    return tap_done();
}
