/* SPDX-License-Identifier: Apache-2.0 */
/* May a request run now? */
#include "base/vl_clock.h"
#include "segment.h"
#include "core/vl_slot.h"
#include "core/vl_duty.h"

static void one_account_leaves_some(void)
{
    apr_uint32_t held = 0, others = 0, i;

    while (vl_slot_more(held, 100 - held))
        held++;
    ok(held == 80, "a single account gets four fifths");
    for (i = 0; i < 10; i++) {
        apr_uint32_t mine = 0;

        while (vl_slot_more(mine, 100 - held - others - mine))
            mine++;
        others += mine;
        if (!mine)
            break;
    }
    ok(i == 2, "other accounts get one each, until all are used");
    ok(!vl_slot_more(0, 0), "nothing is free: no account gets more");
    ok(vl_slot_more(3, 1), "the last one of four may go to the account with the others");
}

static void weights_count(void)
{
    /* Two active accounts of weights 300 and 100. */
    ok(vl_slot_more_weighted(5, 1, 300, 2, 400) && !vl_slot_more_weighted(6, 1, 300, 2, 400),
       "an account of 1.5 times the mean weight holds 1.5 times as many");
    ok(vl_slot_more_weighted(1, 1, 100, 2, 400) && !vl_slot_more_weighted(2, 1, 100, 2, 400),
       "one of half the mean weight holds half as many");
    ok(vl_slot_more_weighted(0, 1, 1, 2, 10001) && !vl_slot_more_weighted(0, 0, 1, 2, 10001),
       "an account of a tiny weight gets a free one");
    ok(vl_slot_more_weighted(79, 20, 7, 1, 7) && !vl_slot_more_weighted(80, 20, 7, 1, 7),
       "alone, an account's weight does not matter");
}

static void computes_retry_after(void)
{
    apr_uint32_t i, least = 1000, most = 0;

    ok(vl_slot_retry_after(0, 5, 0) == 1, "Retry-After is at least a second");
    ok(vl_slot_retry_after(8000000, 4, 0) == 2,
       "8 s of service in 4 slots: a slot is free in 2 s");
    ok(vl_slot_retry_after(9000000, 4, 0) == 3, "Retry-After is rounded up");
    ok(vl_slot_retry_after(3600000000ull, 1, 0) == VL_RETRY_MAX,
       "Retry-After is at most %d s before jitter", VL_RETRY_MAX);
    ok(vl_slot_retry_after(2000000, 0, 0) == 2, "0 slots count as one");
    for (i = 0; i < 1000; i++) {
        apr_uint32_t s = vl_slot_retry_after(4000000, 1, i);

        least = s < least ? s : least;
        most = s > most ? s : most;
    }
    ok(least == 4 && most == 8, "jitter spreads 4 s over 4 to 8 s");
}

/* A segment with one child, this process, and n slots. */
static vl_shm_t *alone(apr_uint32_t slots, apr_uint32_t threads)
{
    vl_shm_t *shm = make(10, 2);

    if (vl_shm_child_attach(shm, getpid(), threads) != APR_SUCCESS)
        abort();
    vl_slot_set(shm, slots);
    return shm;
}

/* Why a request cannot enter while so many run; DryRun: why On would refuse it. */
static vl_reason_e refused(vl_mode_e mode, apr_uint32_t concurrency, apr_uint32_t queue,
                           apr_uint32_t running)
{
    vl_shm_t *shm = alone(100, 100);
    apr_uint32_t a = account_with(shm, "a", limits_of(mode, 0, queue)), i;
    vl_limits_t limits = limits_of(mode, concurrency, queue);
    vl_admission_t adm;

    for (i = 0; i < running; i++)
        vl_slot_enter(shm, a, &adm);
    vl_fair_set_limits(&shm->queue, a, &limits);
    if (vl_slot_enter(shm, a, &adm) != APR_SUCCESS
        || adm.entered != (mode == VL_MODE_DRYRUN || !adm.refused)
        || metrics(shm, a).would_refuse != (mode == VL_MODE_DRYRUN && adm.refused)
        || metrics(shm, a).refused != (mode == VL_MODE_ON && adm.refused))
        abort();
    return metrics(shm, a).would_queue ? VL_REASON_TIMEOUT : adm.refused;
}

static void decides_by_concurrency(void)
{
    ok(!refused(VL_MODE_ON, 0, 0, 90), "no limit: any number runs");
    ok(!refused(VL_MODE_ON, 2, 0, 1), "one of two requests running: passes");
    ok(refused(VL_MODE_ON, 2, 0, 2) == VL_REASON_CONCURRENCY, "two of two running: refused");
    ok(refused(VL_MODE_ON, 2, 0, 3) == VL_REASON_CONCURRENCY,
       "a limit lowered under load refuses too");
    ok(!strcmp(vl_slot_reason_name(VL_REASON_CONCURRENCY), "concurrency"),
       "the reason has a name");
}

static void dryrun_counts_would_be_queued(void)
{
    ok(!refused(VL_MODE_DRYRUN, 2, 3, 1), "DryRun: below the limit a request would run");
    ok(refused(VL_MODE_DRYRUN, 2, 3, 2) == VL_REASON_TIMEOUT
       && refused(VL_MODE_DRYRUN, 2, 3, 4) == VL_REASON_TIMEOUT,
       "DryRun: above the limit a request would be queued");
    ok(refused(VL_MODE_DRYRUN, 2, 3, 5) == VL_REASON_QUEUE,
       "DryRun: with a full queue a request would be refused");
    ok(refused(VL_MODE_DRYRUN, 2, 0, 2) == VL_REASON_CONCURRENCY,
       "DryRun: without a queue a request would be refused");
    ok(!refused(VL_MODE_DRYRUN, 0, 0, 90), "DryRun: without a limit a request would run");
}

static vl_admit_e asks(vl_shm_t *shm, apr_uint32_t a, vl_ask_e ask)
{
    vl_admit_e why = vl_slot_admit(shm, a, ask);
    vl_ticket_t ticket;

    if ((vl_slot_ask(shm, a, ask, 0, &ticket) == APR_SUCCESS) != (why == VL_ADMITTED))
        abort();
    if (why == VL_ADMITTED)
        vl_slot_end(shm, &ticket, NULL);
    return why;
}

static int lets(vl_shm_t *shm, apr_uint32_t a, vl_admit_e new, vl_admit_e lease,
                vl_admit_e forced, vl_admit_e error_page, vl_admit_e call)
{
    return asks(shm, a, VL_ASK_NEW) == new && asks(shm, a, VL_ASK_LEASE) == lease
           && asks(shm, a, VL_ASK_FORCED) == forced
           && asks(shm, a, VL_ASK_ERROR_PAGE) == error_page
           && asks(shm, a, VL_ASK_CALL) == call;
}

/* The table of vl_slot.h, line by line. */
static void each_reason(void)
{
    vl_shm_t *shm = alone(2, 100);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 1);
    vl_ticket_t of_a[4], of_b;

    ok(lets(shm, a, VL_ADMITTED, VL_ADMITTED, VL_ADMITTED, VL_ADMITTED, VL_NO_SLOT),
       "nothing runs: all but a call, which has no caller");
    enter(shm, b, &of_b);
    ok(lets(shm, b, VL_NOT_BY_LIMITS, VL_NOT_BY_LIMITS, VL_NOT_BY_LIMITS, VL_ADMITTED,
            VL_ADMITTED), "at its own limits: error pages and calls");
    enter(shm, a, &of_a[0]);
    ok(lets(shm, a, VL_NO_SLOT, VL_NO_SLOT, VL_ADMITTED, VL_NO_SLOT, VL_ADMITTED),
       "no slot is free: what cannot wait, and calls");
    shm->head->queue.by_duty = 1;
    ok(lets(shm, a, VL_NO_SLOT, VL_ADMITTED, VL_ADMITTED, VL_NO_SLOT, VL_ADMITTED),
       "with VhostLimitSlots auto leases too");
    enter(shm, a, &of_a[1]);
    enter(shm, a, &of_a[2]);
    queue_one(shm, a, 1);
    ok(lets(shm, a, VL_NOT_BEFORE_OTHERS, VL_NO_SLOT, VL_ADMITTED, VL_NOT_BEFORE_OTHERS,
            VL_ADMITTED), "another request waits, and leases hold as many slots again");
    shm = alone(100, 2);
    a = account(shm, "a", 0);
    enter(shm, a, &of_a[0]);
    ok(lets(shm, a, VL_NO_THREAD, VL_ADMITTED, VL_ADMITTED, VL_ADMITTED, VL_ADMITTED),
       "no thread is free: no new connection");
    ok(asks(shm, a, VL_ASK_KEPT) == VL_ADMITTED, "a kept one goes on ...");
    shm->queue.head->by_duty = 1;
    vl_fair_set_duty(&shm->queue, a, 100, 0, 0);
    ok(asks(shm, a, VL_ASK_KEPT) == VL_NO_THREAD && asks(shm, a, VL_ASK_LEASE) == VL_ADMITTED,
       "... unless its requests sleep and it has no thread of its own");
    ok(valid(shm), "the segment is valid");
}

static apr_uint32_t begins(vl_queue_t *q, apr_uint32_t a, int is_first)
{
    apr_uint32_t n = 0;

    for (; vl_slot_may_take(q, a, is_first); n++)
        vl_fair_begin(q, a);
    return n;
}

/* Two accounts with n queued requests each share 8 slots by duty, and one of them begins 20. */
static vl_queue_t *two_duties(apr_uint32_t duty_a, apr_uint32_t estimate_us, apr_uint32_t n, apr_uint32_t *ret_a,
                              apr_uint32_t *ret_b)
{
    vl_shm_t *shm = make(10, 2);
    apr_uint32_t i, a = *ret_a = account(shm, "a", 0), b = *ret_b = account(shm, "b", 0);
    vl_queue_t *q = &shm->queue;

    q->head->slots = 8;
    q->head->by_duty = 1;
    vl_fair_set_duty(q, a, duty_a, 0, 0);
    vl_fair_set_duty(q, b, 1000, 0, 0);
    q->accounts[a].estimate_us = estimate_us;
    for (i = 0; i < n; i++) {
        vl_fair_arrive(q, a);
        vl_fair_arrive(q, b);
    }
    for (i = 0; i < 20; i++)
        vl_fair_begin(q, a);
    return q;
}

/* Slots are held by averages. What accounts of sleeping requests hold may all be asleep. */
static void sleepers_leave_no_processor_idle(void)
{
    apr_uint32_t i, n, a, b;
    vl_queue_t *q = two_duties(400, 1, 100, &a, &b);

    ok(!vl_fair_free(q), "20 requests of duty 400 hold 8 slots");
    n = begins(q, b, 0);
    ok(n == 4, "an account that computes begins as many as its part of the slots (%u)", n);
    ok(!vl_slot_may_take(q, a, 1), "the sleeping one has no more than four fifths of the slots");
    for (i = 0; i < 10; i++)
        vl_fair_end(q, a, 1, 1);
    n = begins(q, a, 1);
    ok(n == 6, "if it is first it begins requests until it holds so many (%u)", n);
    vl_fair_set_duty(q, a, 1000, 0, 0);
    ok(!vl_slot_may_take(q, b, 1), "beside an account that computes, slots are not exceeded");
    q->head->by_duty = 0;
    vl_fair_set_duty(q, a, 400, 0, 0);
    ok(!vl_slot_may_take(q, b, 1), "a number that is set is not exceeded");
}

/* An account that is behind in CPU time may exceed the slots by what its estimate says it lacks. */
static void owed_time_exceeds_slots(void)
{
    apr_uint32_t i, n, a, b;
    vl_queue_t *q = two_duties(350, 10000, 400, &a, &b);

    for (i = 0; i < 12; i++)
        vl_fair_begin(q, b);
    vl_fair_charge(q, b, 250000);
    ok(!vl_slot_may_take(q, a, 1), "50 ms behind: what may not have been charged yet is not owed");
    vl_fair_charge(q, b, 200000);
    ok(!vl_slot_may_take(q, a, 0), "250 ms behind, but another one is due: nothing");
    n = begins(q, a, 1);
    ok(n == 10, "due, it begins as many as it lacks beyond that (%u)", n);
    vl_fair_charge(q, b, 60000000);
    vl_fair_begin(q, b);
    n = begins(q, a, 1);
    ok(n == 62, "and never holds more than four times the slots (%u)", n);
}

/* The one that is due may not be served, and what it waits for may not be known. */
static void a_stalled_account_takes_what_is_left(void)
{
    apr_uint32_t i, a, b;
    vl_queue_t *q = two_duties(1000, 1, 100, &a, &b);

    for (i = 0; i < 13; i++)
        vl_fair_end(q, a, 1, 1);
    q->accounts[b].waiting_since_us = vl_clock_us();
    ok(vl_fair_free(q) == 1000 && !vl_slot_may_take(q, b, -1), "one slot is left, for an account that is due");
    q->accounts[b].waiting_since_us -= 2000000;
    q->accounts[b].ended_us = 0;
    ok(vl_slot_may_take(q, b, -1) && vl_slot_may_take(q, b, 0), "after a second without a running request another takes it");
    vl_fair_begin(q, b);
    vl_fair_end(q, b, 1, 1);
    ok(!vl_slot_may_take(q, b, -1), "but one in a second");
}

static void crowding_is_no_wish(void)
{
    ok(vl_duty_settled(1000, 10) == 1000 && vl_duty_settled(1000, 1000) == 1000,
       "requests that are always awake count fully, however little they get");
    ok(vl_duty_settled(15, 15) == VL_DUTY_MIN && vl_duty_settled(50, 30) == 50,
       "on a free processor what they use counts");
    ok(vl_duty_settled(646, 8) == 153, "3 ms in 200 ms that take 570 ms on a crowded one: not 646");
    ok(vl_duty_settled(900, 125) == 900, "what computes on a processor with 8 others counts nearly fully");
    ok(vl_duty_settled(0, 0) == VL_DUTY_MIN, "what sleeps counts the least");
}

int main(void)
{
    segment_init();
    crowding_is_no_wish();
    owed_time_exceeds_slots();
    a_stalled_account_takes_what_is_left();
    each_reason();
    sleepers_leave_no_processor_idle();
    decides_by_concurrency();
    dryrun_counts_would_be_queued();
    one_account_leaves_some();
    weights_count();
    computes_retry_after();
    return tap_done();
}
