/* SPDX-License-Identifier: Apache-2.0 */
/* Thread waiters, threads without a slot, and charges while requests run. */
#include "segment.h"
#include "core/vl_charge.h"
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

    vl_slot_occupy(shm, a, VL_OCCUPY);
    vl_slot_count_in_mpm(shm, a, 1, 1);
    ok(queue_one(shm, a, 1) == APR_SUCCESS
       && vl_slot_take(shm, &ticket) == APR_SUCCESS, "it gets a slot");
    vl_slot_count_in_mpm(shm, a, 1, -1);
    vl_slot_unoccupy(shm, a);
    end(shm, &ticket, 5);
    ok(is_empty(shm), "the segment is empty");
}

static void a_single_account_leaves_a_slot(vl_shm_t *shm, apr_uint32_t a,
                                    apr_uint32_t b)
{
    vl_ticket_t ticket;

    ok(queue_one(shm, a, 1) == APR_SUCCESS
       && vl_slot_take(shm, &ticket) == APR_EAGAIN, "the account's next request is queued");
    ok(queue_one(shm, b, 2) == APR_SUCCESS
       && vl_slot_take(shm, &ticket) == APR_SUCCESS && ticket.account == b,
       "another account gets a slot at once");
}

static apr_uint32_t takes(vl_shm_t *shm, apr_uint32_t account)
{
    vl_ticket_t ticket;
    apr_uint32_t n = 0;

    while (vl_slot_ask(shm, account, VL_ASK_NEW, 0, &ticket) == APR_SUCCESS)
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
    vl_cost_t cost = { 900, 900, 0, NULL };
    vl_ticket_t ticket;

    enter(shm, a, &ticket);
    vl_slot_end(shm, &ticket, &cost);
    enter(shm, b, &ticket);
    vl_slot_charge(shm, b, 300);
    vl_slot_charge(shm, b, 500);
    cost.charged_us = 800;
    vl_slot_end(shm, &ticket, &cost);
    ok(shm->queue.accounts[a].fair.tag == shm->queue.accounts[b].fair.tag, "both cost the same");
    ok(metrics(shm, b).cpu_us == 900, "and count the same");
}

/* n requests of 10 ms end, and their back ends have used the given us. */
static void tick(vl_shm_t *shm, apr_uint32_t a, apr_uint32_t n, apr_uint64_t us)
{
    vl_cost_t cost = { 10000, 0, 0, NULL };
    vl_ticket_t ticket;

    while (n--) {
        enter(shm, a, &ticket);
        vl_slot_end(shm, &ticket, &cost);
    }
    vl_charge_backend(shm, a, us, us / 2, VL_COST_PROCESSES);
}

/* Returns the virtual time from start on, ms of CPU time at the default weight. */
static apr_uint64_t charged_ms(const vl_shm_t *shm, apr_uint32_t a, apr_uint64_t start)
{
    return (shm->queue.accounts[a].fair.tag - start) / (1000000 / 100 * VL_FAIR_UNIT / 1000);
}

static void measured_back_ends(void)
{
    vl_shm_t *shm = with_threads(100, 10);
    apr_uint32_t a = account(shm, "a", 0), i;
    apr_uint64_t start = shm->queue.accounts[a].fair.tag;
    vl_cost_t cost = { 10 * APR_USEC_PER_SEC, 0, 0, NULL };
    vl_ticket_t ticket;

    for (i = 0; i < 50; i++)
        tick(shm, a, 10, 20000);
    ok(metrics(shm, a).backend_us == 1000000 && metrics(shm, a).charged_us == 1000000,
       "the status page has the sum");
    ok(charged_ms(shm, a, start) >= 995 && charged_ms(shm, a, start) <= 1020,
       "exactly a second is charged");
    ok(shm->accounts[a].backend_permille > 190 && shm->accounts[a].backend_permille <= 200,
       "a fifth of the time in service (%u)", shm->accounts[a].backend_permille);
    start = shm->queue.accounts[a].fair.tag;
    enter(shm, a, &ticket);
    vl_slot_end(shm, &ticket, &cost);
    ok(charged_ms(shm, a, start) <= 30,
       "a long request is charged an advance for the time since the last reading only");
    tick(shm, a, 0, 500000);
    ok(charged_ms(shm, a, start) >= 490 && charged_ms(shm, a, start) <= 510,
       "the reading takes the place of the advance");
    vl_charge_backend_idle(shm, a);
    ok(!shm->accounts[a].backend_permille, "back ends without work cost nothing in advance");
    ok(is_empty(shm), "the segment is empty");
}

/* A request of 10 s of CPU time beside a neighbor that advances meanwhile. */
static void a_long_request_is_charged_once(void)
{
    vl_shm_t *shm = with_threads(100, 10);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), i;
    vl_cost_t cost = { 10 * APR_USEC_PER_SEC, 10 * APR_USEC_PER_SEC, 0, NULL };
    apr_uint64_t start;
    vl_ticket_t ticket, other;

    enter(shm, a, &ticket);
    start = shm->queue.accounts[a].fair.tag;
    for (i = 0; i < 100; i++) {
        vl_slot_charge(shm, a, 100000);
        cost.charged_us += 100000;
        enter(shm, b, &other);
        end(shm, &other, 100000);
    }
    vl_slot_end(shm, &ticket, &cost);
    ok(charged_ms(shm, a, start) <= 10000 && charged_ms(shm, a, start) >= 9990,
       "a request that was charged in parts is charged once (%u ms)",
       (unsigned)charged_ms(shm, a, start));
    ok(metrics(shm, a).charged_us == 10 * APR_USEC_PER_SEC, "and counts once");
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
    ok(seen.cost_by == VL_COST_THREAD, "a site without back ends costs its threads' CPU time");
    tick(shm, a, 1, 1000);
    vl_shm_snapshot(shm, a, &seen);
    ok(seen.cost_by == VL_COST_PROCESSES, "then that of its processes too");
}

/* --- threads that are occupied without a slot ------------------------------- */

static apr_uint32_t occupies(vl_shm_t *shm, apr_uint32_t a)
{
    apr_uint32_t n = 0;

    while (n < 1000 && vl_slot_occupy(shm, a, VL_OCCUPY_ASK))
        n++;
    return n;
}

static void one_alone_leaves_threads(void)
{
    vl_shm_t *shm = with_threads(16, 100);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), n;
    vl_ticket_t ticket;

    n = occupies(shm, a);
    ok(n == 12, "of fifteen threads a single account gets twelve (%u)", n);
    ok(vl_slot_ask(shm, a, VL_ASK_NEW, 0, &ticket) == APR_EAGAIN,
       "the account gets no slot that needs a thread");
    ok(vl_slot_ask(shm, b, VL_ASK_NEW, 0, &ticket) == APR_SUCCESS, "another account gets a slot");
    ok(occupies(shm, b) > 0, "another account gets a thread for its connection");
    ok(valid(shm), "the sums hold");
    vl_slot_unoccupy(shm, a);
    ok(occupies(shm, a) == 0, "the account gets no thread while others use them");
    end(shm, &ticket, 1);
    vl_slot_unoccupy(shm, b);
    ok(occupies(shm, a) == 1, "the account gets a thread when one is free");
}

static void the_mpm_is_made_to_start_children(void)
{
    static const apr_uint32_t processes[] = { 4, 1 }, room[] = { 23, 20 };
    apr_uint32_t a, i, n;
    vl_ticket_t ticket;

    for (i = 0; i < 2; i++) {
        vl_shm_t *shm = with_threads(25, 100);

        a = account(shm, "a", 0);
        vl_slot_set_mpm(shm, processes[i], 25);
        for (n = 0; vl_slot_ask(shm, a, VL_ASK_NEW, 0, &ticket) == APR_SUCCESS; n++)
            continue;
        ok(n == room[i], "of 24 threads of the first of %u children one account gets %u (%u)",
           processes[i], room[i], n);
        ok(vl_slot_ask(shm, account(shm, "b", 0), VL_ASK_NEW, 0, &ticket) == APR_SUCCESS,
           "another account gets one");
    }
}

/* The account already has one of the MPM's threads. */
static void the_first_always_may(void)
{
    vl_shm_t *shm = with_threads(4, 100);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);

    ok(occupies(shm, a) == 3, "a few threads may all be one account's");
    ok(occupies(shm, b) == 1, "another account gets the first thread");
    ok(valid(shm), "the sums hold");
}

static void accounts_without_queue_are_not_refused(void)
{
    vl_shm_t *shm = with_threads(16, 100);
    apr_uint32_t dry = account_with(shm, "dry",
                                    limits_of(VL_MODE_DRYRUN, 0, 100));
    apr_uint32_t none = account_with(shm, "none",
                                     limits_of(VL_MODE_ON, 0, 0));

    ok(occupies(shm, dry) == 1000, "under DryRun no thread is refused");
    vl_shm_parent_reclaim(shm, getpid());
    shm = with_threads(16, 100);
    ok(occupies(shm, none) == 1000, "without a queue no thread is refused");
}

static void streams_take_no_thread(void)
{
    vl_shm_t *shm = with_threads(16, 100);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), n;
    vl_ticket_t of[14];
    vl_capacity_t capacity;

    vl_slot_occupy(shm, a, VL_OCCUPY);
    for (n = 0; n < 14; n++) {
        enter(shm, a, &of[n]);
        vl_slot_is_stream(shm, &of[n]);
    }
    vl_slot_capacity(shm, &capacity);
    ok(capacity.here == 14, "fourteen streams of a connection have its thread (%u)",
       capacity.here);
    ok(valid(shm), "the sums hold");
    for (n = 0; n < 14; n++)
        end(shm, &of[n], 1);
    vl_slot_unoccupy(shm, a);
    ok(is_empty(shm) && occupies(shm, b) == 12, "the threads are free afterwards");
}

static void dead_children_leave_no_threads(void)
{
    vl_shm_t *shm = with_threads(16, 100);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket;

    vl_slot_occupy(shm, a, VL_OCCUPY);
    enter(shm, a, &ticket);
    vl_slot_is_stream(shm, &ticket);
    vl_shm_parent_reclaim(shm, getpid());
    ok(is_empty(shm) && !shm->cells[0][a].occupied
       && !shm->cells[0][a].streams, "a dead child has none");
}

int main(void)
{
    segment_init();
    a_waiting_thread_is_granted();
    one_alone_leaves_some();
    what_was_paid_is_not_charged_again();
    measured_back_ends();
    a_long_request_is_charged_once();
    kills_are_counted_and_reported();
    cost_is_known_by();
    one_alone_leaves_threads();
    the_mpm_is_made_to_start_children();
    the_first_always_may();
    accounts_without_queue_are_not_refused();
    streams_take_no_thread();
    dead_children_leave_no_threads();
    return tap_done();
}
