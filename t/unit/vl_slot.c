/* SPDX-License-Identifier: Apache-2.0 */
/* Slots as one process uses them; other children exist only as columns in the segment.
 * Several processes: vl_slot_children.c. */
#include "segment.h"
#include "core/vl_duty.h"
#include "core/vl_slot.h"

/* A segment with one child, this process. */
static vl_shm_t *alone(apr_uint32_t slots, apr_uint32_t threads)
{
    vl_shm_t *shm = make(32, 4);

    vl_slot_set(shm, slots);
    vl_shm_child_attach(shm, getpid(), threads);
    return shm;
}

/* Accounts 0 to n-1, named a, b, ... */
static void accounts(vl_shm_t *shm, apr_uint32_t n)
{
    apr_uint32_t i;

    for (i = 0; i < n; i++) {
        char name[2] = { (char)('a' + i), '\0' };

        account(shm, name, 0);
    }
}

static int waits(vl_shm_t *shm, apr_uint32_t a, int n)
{
    while (n && queue_one(shm, a, vl_clock_us()) == APR_SUCCESS)
        n--;
    return !n;
}

/* Takes all available grants; returns their number. */
static apr_uint32_t take_all(vl_shm_t *shm, vl_ticket_t *ticket)
{
    apr_uint32_t n = 0;

    while (vl_slot_take(shm, &ticket[n]) == APR_SUCCESS)
        n++;
    return n;
}

static void a_slot_is_granted_and_released(void)
{
    vl_shm_t *shm = alone(1, 10);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket, other;

    ok(vl_shm_facts(shm).slots == 1, "the number of slots is as set");
    ok(!vl_slot_granted(shm) && vl_slot_take(shm, &ticket) == APR_EAGAIN,
       "without queued requests nothing is granted");
    ok(waits(shm, a, 2) && vl_slot_granted(shm),
       "a queued request is granted a free slot at once");
    ok(metrics(shm, a).running == 1 && metrics(shm, a).waiting == 1,
       "a grant counts as running before it is taken");
    ok(vl_slot_take(shm, &ticket) == APR_SUCCESS && ticket.account == a
       && !vl_slot_granted(shm), "taken");
    ok(vl_slot_take(shm, &other) == APR_EAGAIN, "the second request stays queued");
    end(shm, &ticket, 100);
    ok(vl_slot_granted(shm) && vl_slot_take(shm, &ticket) == APR_SUCCESS,
       "it is granted the slot when the first one ends");
    end(shm, &ticket, 100);
    ok(is_empty(shm), "the segment is empty");
}

static void without_a_column(void)
{
    vl_shm_t *shm = make(2, 1);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket = { a, 1 };

    ok(queue_one(shm, a, vl_clock_us()) == APR_EINIT && vl_slot_unwait(shm, a) == APR_EINIT
       && vl_slot_take(shm, &ticket) == APR_EINIT
       && vl_slot_ask(shm, a, VL_ASK_NEW, 0, &ticket) == APR_EINIT
       && !vl_slot_granted(shm),
       "a child without a column gets no slot");
    vl_slot_end(shm, &ticket, NULL);
    ok(is_empty(shm), "a child without a column changes nothing");
}

static void queued_requests_may_leave(void)
{
    vl_shm_t *shm = alone(1, 10);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);
    vl_ticket_t ticket;

    waits(shm, a, 3);
    ok(vl_slot_unwait(shm, a) == APR_SUCCESS
       && vl_slot_unwait(shm, a) == APR_SUCCESS, "two queued requests leave");
    ok(vl_slot_unwait(shm, a) == APR_EAGAIN,
       "a request with a grant cannot leave the queue");
    ok(vl_slot_unwait(shm, b) == APR_EAGAIN, "no request leaves an empty queue");
    vl_slot_take(shm, &ticket);
    vl_slot_end(shm, &ticket, NULL);
    ok(is_empty(shm), "the segment is empty");
}

static void a_full_queue_refuses(void)
{
    vl_shm_t *shm = alone(1, 10);
    apr_uint32_t a = account_with(shm, "a", limits_of(VL_MODE_ON, 0, 3));
    apr_uint32_t b = account_with(shm, "b", limits_of(VL_MODE_ON, 0, 0));
    vl_admission_t adm = { .refused = VL_REASON_QUEUE };
    vl_ticket_t ticket;

    ok(queue_one(shm, b, vl_clock_us()) == APR_EAGAIN,
       "with a queue of 0 no request is queued");
    ok(waits(shm, a, 4), "three requests are queued beside a granted one");
    ok(queue_one(shm, a, vl_clock_us()) == APR_EAGAIN, "a full queue refuses the next request");
    ok(metrics(shm, a).waiting == 3 && metrics(shm, a).refused == 0,
       "the refused request is not queued and not counted yet");
    vl_slot_refused(shm, a, &adm);
    ok(metrics(shm, a).refused == 1 && !adm.entered
       && adm.refused == VL_REASON_QUEUE, "the caller that reports a refusal counts it");
    vl_slot_take(shm, &ticket);
    end(shm, &ticket, 10);
    ok(queue_one(shm, a, vl_clock_us()) == APR_SUCCESS
       && queue_one(shm, a, vl_clock_us()) == APR_EAGAIN,
       "after a grant one more is queued");
    ok(vl_slot_take_or_wait(shm, a, vl_clock_us(), VL_WAIT_AGAIN, NULL) == APR_SUCCESS
       && metrics(shm, a).waiting == 4,
       "a request that returns its grant is queued again, although the queue is full");
    ok(valid(shm), "the segment is valid");
}

/* Returns by how much a ticket has advanced its account's virtual time. */
static apr_uint64_t vt_of(const vl_shm_t *shm, const vl_ticket_t *ticket)
{
    return (apr_uint64_t)ticket->charged * VL_FAIR_UNIT
           / shm->queue.accounts[ticket->account].limits.weight;
}

static void the_least_served_is_next(void)
{
    vl_shm_t *shm = alone(1, 10);
    const vl_fair_account_t *fair = shm->queue.accounts;
    apr_uint32_t i, f, wrong = 0, served[4] = { 0 };
    vl_ticket_t ticket;

    accounts(shm, 4);
    for (i = 0; i < 4; i++)
        waits(shm, i, 50);
    for (i = 0; i < 1000; i++) {
        vl_slot_take(shm, &ticket);
        queue_one(shm, ticket.account, vl_clock_us());
        served[ticket.account] += 1 + ticket.account;
        end(shm, &ticket, 100 * (1 + ticket.account));
        vl_slot_take(shm, &ticket);
        for (f = 0; f < 4; f++)
            wrong += f != ticket.account
                     && fair[f].fair.tag < fair[ticket.account].fair.tag
                                     - vt_of(shm, &ticket);
        queue_one(shm, ticket.account, vl_clock_us());
        served[ticket.account] += 1 + ticket.account;
        end(shm, &ticket, 100 * (1 + ticket.account));
    }
    ok(!wrong, "each slot goes to the account with the least virtual time");
    for (f = 1; f < 4; f++)
        wrong += served[f] + 8 < served[0] || served[f] > served[0] + 8;
    ok(!wrong && served[0] > 100,
       "each account gets the same service, whatever its requests cost");
    ok(valid(shm), "the segment is valid");
}

/* Three accounts always have queued requests. A request runs as long as every other one. */
static void weights_share_few_slots(apr_uint32_t slots)
{
    static const apr_uint32_t weights[] = { 300, 200, 100 };
    vl_shm_t *shm = alone(slots, 1000);
    vl_ticket_t running[64], granted;
    apr_uint32_t i, oldest = 0, n = 0, served[3] = { 0 };

    for (i = 0; i < 3; i++) {
        vl_limits_t limits = limits_of(VL_MODE_ON, 0, 1000);

        limits.weight = weights[i];
        account_with(shm, i == 0 ? "a" : i == 1 ? "b" : "c", limits);
        waits(shm, i, 100);
    }
    for (i = 0; i < 6000; i++) {
        while (vl_slot_take(shm, &granted) == APR_SUCCESS)
            running[(oldest + n++) % 64] = granted;
        served[running[oldest].account]++;
        queue_one(shm, running[oldest].account, vl_clock_us());
        end(shm, &running[oldest], 100);
        oldest = (oldest + 1) % 64;
        n--;
    }
    ok(abs((int)served[0] - 3000) < 150 && abs((int)served[1] - 2000) < 150,
       "with %u slots, weights of 3:2:1 share them 3:2:1 (%u, %u, %u)", (unsigned)slots,
       (unsigned)served[0], (unsigned)served[1], (unsigned)served[2]);
    ok(valid(shm), "the segment is valid");
}

static void slots_do_not_stay_free(void)
{
    vl_shm_t *shm = alone(5, 100);
    apr_uint32_t i, n = 0, idle = 0;
    vl_ticket_t held[200];

    for (i = 0; i < 9; i++) {
        char name[2] = { (char)('a' + i), '\0' };

        account(shm, name, i % 3);
    }
    for (i = 0; i < 20000; i++) {
        const vl_queue_head_t *q = shm->queue.head;

        switch (rand() % 4) {
        case 0:
        case 1:
            queue_one(shm, (apr_uint32_t)rand() % 9, vl_clock_us());
            break;
        case 2:
            n += take_all(shm, &held[n]);
            break;
        case 3:
            if (n)
                end(shm, &held[--n], (apr_uint64_t)(rand() % 1000));
            break;
        }
        idle += q->running < q->slots && q->heap.length > 0;
        if (q->running > q->slots || n > q->running)
            break;
    }
    ok(!idle, "no slot is free while an eligible request is queued");
    ok(i == 20000, "no more requests run than there are slots");
    ok(valid(shm), "the segment is valid");
}

static void a_thread_is_kept_free(void)
{
    static const apr_uint32_t threads[] = { 0, 1, 2, 3, 4, 25, 64, 100 };
    static const apr_uint32_t room[] = { 0, 1, 1, 2, 3, 24, 63, 99 };
    vl_ticket_t held[200];
    apr_uint32_t i;

    for (i = 0; i < 8; i++) {
        vl_shm_t *shm = alone(1000, threads[i]);
        apr_uint32_t a, n;

        accounts(shm, 5);           /* a single account leaves some */
        for (a = 0; a < 5; a++)
            waits(shm, a, 150);
        n = take_all(shm, held);
        ok(n == room[i] && valid(shm), "of %u threads %u are given slots (%u)",
           threads[i], room[i], n);
    }
}

static void trying_does_not_bypass_the_queue(void)
{
    vl_shm_t *shm = alone(2, 10);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 1);
    vl_ticket_t one, two, three;

    ok(vl_slot_ask(shm, b, VL_ASK_NEW, 0, &one) == APR_SUCCESS && one.account == b,
       "a request takes a free slot");
    ok(vl_slot_ask(shm, b, VL_ASK_NEW, 0, &two) == APR_EAGAIN,
       "a request above the concurrency limit gets none");
    ok(vl_slot_ask(shm, a, VL_ASK_NEW, 0, &two) == APR_SUCCESS
       && vl_slot_ask(shm, a, VL_ASK_NEW, 0, &three) == APR_EAGAIN,
       "a request above the slots gets none");
    queue_one(shm, a, vl_clock_us());
    vl_slot_end(shm, &two, NULL);
    ok(vl_slot_ask(shm, a, VL_ASK_NEW, 0, &two) == APR_EAGAIN && vl_slot_granted(shm),
       "a released slot goes to a queued request");
    queue_one(shm, b, vl_clock_us());
    vl_slot_take(shm, &two);
    vl_slot_end(shm, &two, NULL);
    ok(vl_slot_ask(shm, a, VL_ASK_NEW, 0, &two) == APR_SUCCESS,
       "an account at its concurrency limit does not delay others");
    vl_slot_end(shm, &one, NULL);
    ok(vl_slot_granted(shm) && valid(shm), "its request is granted a slot below the limit");
}

static void entering_does_not_wait(void)
{
    vl_shm_t *shm = alone(1, 10);
    apr_uint32_t a = account(shm, "a", 3);
    vl_admission_t adm;
    vl_ticket_t held[3] = { { 0 } };

    ok(enter(shm, a, &held[0]) && enter(shm, a, &held[1]),
       "a request enters above the slots");
    queue_one(shm, a, vl_clock_us());
    ok(vl_slot_enter(shm, a, &adm) == APR_SUCCESS && adm.entered,
       "a request enters before queued ones");
    ok(vl_slot_enter(shm, a, &adm) == APR_SUCCESS && !adm.entered
       && adm.refused == VL_REASON_CONCURRENCY && adm.concurrency == 3,
       "no request enters above the concurrency limit");
    ok(!vl_slot_granted(shm), "no slot is granted above the slots");
    end(shm, &held[0], 1);
    end(shm, &held[1], 1);
    ok(!vl_slot_granted(shm), "no slot is granted while all are in use");
    held[2].account = a;
    held[2].charged = 1;
    end(shm, &held[2], 1);
    ok(vl_slot_granted(shm) && valid(shm), "a slot is granted when one is free");
}

static void dry_run_counts(void)
{
    vl_shm_t *shm = alone(1, 10);
    apr_uint32_t a = account_with(shm, "a", limits_of(VL_MODE_DRYRUN, 2, 1));
    apr_uint32_t b = account(shm, "b", 0);
    vl_ticket_t held[4], more;

    enter(shm, a, &held[0]);
    ok(!metrics(shm, a).would_queue, "DryRun: a free slot is not counted");
    enter(shm, a, &held[1]);
    ok(metrics(shm, a).would_queue == 1 && !metrics(shm, a).would_refuse,
       "DryRun: no free slot: would queue");
    enter(shm, a, &held[2]);
    ok(metrics(shm, a).would_queue == 2 && !metrics(shm, a).would_refuse,
       "DryRun: above the concurrency limit: would queue");
    enter(shm, a, &more);
    ok(metrics(shm, a).would_queue == 2 && metrics(shm, a).would_refuse == 1
       && !metrics(shm, a).refused && metrics(shm, a).requests == 4,
       "DryRun: above the queue: would refuse, and admits");
    enter(shm, b, &held[3]);
    ok(!metrics(shm, b).would_queue && metrics(shm, b).requests == 1,
       "On does not count would-queue");
    end(shm, &held[0], 1);
    end(shm, &held[1], 1);
    end(shm, &held[2], 1);
    end(shm, &held[3], 1);
    end(shm, &more, 1);
    ok(is_empty(shm), "the segment is empty");
}

static void a_ticket_is_used(void)
{
    vl_shm_t *shm = alone(3, 10);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);
    vl_admission_t adm = { .entered = 1 };

    waits(shm, a, 1);
    vl_slot_take(shm, &adm.ticket);
    vl_slot_begin(shm, 5000, &adm);
    ok(metrics(shm, a).requests == 1 && metrics(shm, a).queued == 1
       && metrics(shm, a).wait_us == 5000
       && snapshot(shm, a).waits[vl_metrics_wait_bucket(5000)] == 1,
       "a queued request is counted");
    end(shm, &adm.ticket, 100);
    ok(shm->queue.accounts[a].fair.tag > shm->queue.accounts[b].fair.tag, "a queued request is charged");
    waits(shm, b, 5);
    vl_slot_take(shm, &adm.ticket);
    vl_slot_begin(shm, 0, &adm);
    ok(adm.ticket.account == b && metrics(shm, b).requests == 1
       && !metrics(shm, b).queued,
       "a request that was not queued is counted and charged");
    ok(valid(shm), "the segment is valid");
}

static void an_unused_ticket_costs_nothing(void)
{
    vl_shm_t *shm = alone(1, 10);
    apr_uint32_t a = account(shm, "a", 0), estimate;
    apr_uint64_t vt;
    vl_ticket_t ticket;

    enter(shm, a, &ticket);
    end(shm, &ticket, 8000);
    vt = shm->queue.accounts[a].fair.tag;
    estimate = shm->queue.accounts[a].estimate_us;
    waits(shm, a, 1);
    vl_slot_take(shm, &ticket);
    ok(ticket.charged == estimate && estimate > 900
       && shm->queue.accounts[a].fair.tag > vt, "a grant is charged an estimate");
    vl_slot_end(shm, &ticket, NULL);
    ok(shm->queue.accounts[a].fair.tag == vt
       && shm->queue.accounts[a].estimate_us == estimate,
       "the estimate of an unused grant is refunded");
    ok(metrics(shm, a).busy_us == 8000 && is_empty(shm),
       "an unused grant is not counted");
}

static void the_ring_does_not_overflow(void)
{
    vl_shm_t *shm = alone(1000, 1000);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);
    vl_ticket_t held[2 * RING_SIZE];
    apr_uint32_t i, n;

    waits(shm, a, RING_SIZE - 1);
    waits(shm, b, RING_SIZE - 1);
    ok(shm->children[0].ring_len == RING_SIZE && valid(shm),
       "no more grants than the ring can hold");
    n = take_all(shm, held);
    ok(n == 2 * RING_SIZE - 2 && held[0].account == a
       && held[RING_SIZE - 1].account == b,
       "free entries of the ring are used at once, and all requests are granted (%u)", n);
    for (i = 0; i < n; i++)
        vl_slot_end(shm, &held[i], NULL);
    ok(is_empty(shm), "the segment is empty");
}

/* Returns what an account was charged for its requests, in us. */
static apr_uint64_t cost_of(const vl_shm_t *shm, apr_uint32_t a)
{
    return (apr_uint64_t)shm->queue.accounts[a].served_us;
}

static void a_request_that_waits_for_its_client_has_no_slot(void)
{
    vl_shm_t *shm = alone(100, 2);
    vl_cost_t cost = { .busy_us = 900, .cpu_us = 700, .charged_us = 300 };
    vl_ticket_t first, second;
    apr_uint64_t before, charged;

    accounts(shm, 2);
    vl_slot_set(shm, 1);
    enter(shm, 0, &first);
    first.stream = 0;
    before = cost_of(shm, 0) - first.charged;
    ok(vl_slot_ask(shm, 1, VL_ASK_NEW, 0, &second) != APR_SUCCESS, "no slot is free");
    vl_slot_pause(shm, &first, 300);
    ok(shm->accounts[0].metrics.charged_us == 300, "a waiting request is charged for its work");
    ok(vl_slot_ask(shm, 1, VL_ASK_NEW, 0, &second) == APR_SUCCESS, "its slot is granted to another request");
    vl_slot_go_on(shm, &first);
    ok(shm->head->queue.running == 2 && shm->queue.accounts[0].running == 1,
       "it continues above the number of slots");
    charged = vl_slot_end(shm, &first, &cost);
    ok(charged == 700 && cost_of(shm, 0) - before == 700,
       "the rest is charged at its end");
    vl_slot_end(shm, &second, NULL);
    ok(is_empty(shm), "the segment is empty");
}

static void a_call_is_charged_to_its_caller(void)
{
    vl_shm_t *shm = alone(100, 2);
    vl_cost_t cost = { .busy_us = 900, .cpu_us = 700, .charged_us = 300 };
    vl_ticket_t call;
    apr_uint64_t before, caller_before;

    accounts(shm, 2);
    before = cost_of(shm, 0);
    caller_before = cost_of(shm, 1);
    enter(shm, 0, &call);
    call.caller = 1 + 1;
    vl_slot_charge(shm, vl_ticket_payer(&call), 300);
    vl_slot_end(shm, &call, &cost);
    ok(cost_of(shm, 0) == before && shm->accounts[0].metrics.charged_us == 0,
       "the site that answers the call is charged nothing");
    ok(cost_of(shm, 1) - caller_before == 700 && shm->accounts[1].metrics.charged_us == 700,
       "the caller is charged once");
    ok(is_empty(shm), "the segment is empty");
}

static void automatic_slots(void)
{
    vl_shm_t *shm = alone(0, 1000);

    ok(vl_shm_facts(shm).slots == vl_shm_facts(shm).processors * VL_AUTO_PER_CPU,
       "automatic slots go by the processors");
    vl_slot_set(shm, 17);
    ok(vl_shm_facts(shm).slots == 17, "a configured number holds");
    vl_slot_set(shm, 0);
    ok(vl_shm_facts(shm).slots == vl_shm_facts(shm).processors * VL_AUTO_PER_CPU, "and goes");
}

/* Sets the duty of an account, as the sampler does. */
static void set_duty(vl_shm_t *shm, apr_uint32_t a, apr_uint32_t duty, apr_uint32_t asleep,
                     apr_uint32_t idle)
{
    const vl_duty_t what = { .account = a, .duty = duty, .asleep = asleep, .idle = idle };

    shm->head->queue.by_duty = 1;
    vl_duty_publish(shm, &what, 1, 0);
}

static void requests_that_sleep_hold_a_part_of_a_slot(void)
{
    vl_shm_t *shm = alone(5, 1000);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);
    vl_ticket_t held[200];

    set_duty(shm, a, 100, 0, 0);
    waits(shm, a, 100);
    ok(take_all(shm, held) == 40 && shm->queue.head->load == 4000,
       "of requests that want a processor in a tenth of their time, forty run in four slots, and a fifth is for others");
    set_duty(shm, a, 100, 20, 0);
    ok(take_all(shm, held + 40) == 20, "those that are asleep hold no slot");
    set_duty(shm, a, 1000, 0, 0);
    waits(shm, b, 1);
    shm->queue.accounts[a].ended_us -= 2 * VL_KEPT_US;
    vl_slot_dispatch(shm);
    ok(take_all(shm, held + 60) == 1 && held[60].account == b,
       "when they begin to compute, nothing is granted but to an account that runs less");
    ok(valid(shm), "the segment is valid");
}

static void cpu_time_is_kept_by_back_end(void)
{
    vl_shm_t *shm = alone(5, 10);
    apr_uint32_t entry = 0, other = 0, i = 0, n = 0;
    vl_spent_t spent;
    char address[32];

    vl_duty_spend(shm, &entry, 0, "/a", 5);
    vl_duty_spend(shm, &other, 1, "/a", 7);
    vl_duty_spend(shm, &other, 0, "/b", 1);
    vl_duty_spend(shm, &other, 0, "/a", 3);
    ok(vl_duty_spent(shm, 0, &i, &spent) && spent.us == 8 && !strcmp(spent.address, "/a")
       && vl_duty_spent(shm, 0, &i, &spent) && spent.us == 1 && !vl_duty_spent(shm, 0, &i, &spent),
       "CPU time is kept by account and address");
    vl_duty_backlog(shm, 1, "/a", 3, 2);
    i = 0;
    ok(vl_duty_spent(shm, 1, &i, &spent) && spent.us == 7 && spent.serving == 3 && spent.waiting == 2,
       "so are requests in its backlog");
    for (i = 0; i < VL_SPENT_MAX + 10; i++) {
        snprintf(address, sizeof(address), "/%u", i);
        vl_duty_spend(shm, &entry, 2, address, 1);
    }
    for (i = 0; vl_duty_spent(shm, 2, &i, &spent);)
        n++;
    ok(n == VL_SPENT_MAX && i == VL_SPENT_MAX, "the oldest addresses are forgotten");
}

static void accounts_without_a_duty_have_that_of_the_server(void)
{
    vl_shm_t *shm = alone(5, 1000);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t held[100];

    shm->head->queue.by_duty = 1;
    vl_duty_publish(shm, NULL, 0, 500);
    waits(shm, a, 50);
    ok(take_all(shm, held) == 8 && valid(shm), "half a slot for each");
}

/* Two accounts of the same weight. The first one got all slots while it was alone, and none of its
 * requests has ended for long. One of them has been charged more than the other. */
static vl_shm_t *heavy_and_light(apr_uint32_t charged, apr_uint32_t awake, vl_ticket_t *held)
{
    vl_shm_t *shm = alone(10, 1000);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);

    waits(shm, a, 50);
    ok(take_all(shm, held) == 8, "one account has most slots");
    waits(shm, b, 50);
    ok(take_all(shm, held + 8) == 2, "another one gets the rest, and waits for the end of a request");
    vl_fair_charge(&shm->queue, charged, 1000);
    shm->head->queue.by_duty = 1;
    shm->queue.accounts[a].awake = awake;
    shm->queue.accounts[a].ended_us -= 2 * VL_KEPT_US;
    vl_slot_dispatch(shm);
    return shm;
}

static void a_light_account_exceeds_the_slots(void)
{
    vl_ticket_t held[64];
    vl_shm_t *shm = heavy_and_light(0, 0, held);
    apr_uint32_t b = 1;

    ok(take_all(shm, held + 10) == 4 && shm->queue.accounts[b].running == 6,
       "if none ends for long, it gets as many as three quarters of these");
    end(shm, &held[0], 10);
    ok(take_all(shm, held + 20) == 0, "but the sum falls again: a slot above the number is not "
       "granted twice");
    ok(valid(shm), "the segment is valid");
}

/* The heaviest account has had less CPU time than a light one, and its requests were awake for this part of
 * their time, permille. Returns what the light one begins. */
static apr_uint32_t light_beside(apr_uint32_t awake)
{
    vl_ticket_t held[64];
    vl_shm_t *shm = heavy_and_light(1, awake, held);

    ok(valid(shm), "the segment is valid");
    return take_all(shm, held + 10);
}

static void the_heaviest_account_does_not_hold_up_a_light_one(void)
{
    ok(light_beside(100) == 4, "the requests of the heaviest account sleep in a back end: a light one is served");
    ok(light_beside(1000) == 0, "they are awake, and get no processor: it is not served");
}

static void idle_requests_do_not_count_as_concurrency(void)
{
    vl_shm_t *shm = alone(100, 1000);
    apr_uint32_t a = account(shm, "a", 4);
    vl_ticket_t held[16];

    waits(shm, a, 10);
    ok(take_all(shm, held) == 4, "four run");
    set_duty(shm, a, 1000, 4, 0);
    ok(take_all(shm, held + 4) == 0, "those that sleep in a back end count");
    set_duty(shm, a, 1000, 4, 3);
    ok(take_all(shm, held + 4) == 3 && valid(shm), "those that wait for their clients do not");
}

static void calls_go_ahead_of_their_callers(void)
{
    vl_shm_t *shm = alone(2, 1000);
    apr_uint32_t a = account(shm, "a", 2);
    vl_ticket_t held[8], call[9];
    int i, n;

    ok(vl_slot_ask_call(shm, a, VL_CALL_OF_UNKNOWN, 0, &call[0]) != APR_SUCCESS, "no request runs that could have called");
    waits(shm, a, 10);
    ok(take_all(shm, held) == 2, "two run, all that may");
    for (n = 0; n < 9 && vl_slot_ask_call(shm, a, VL_CALL_OF_UNKNOWN, 0, &call[n]) == APR_SUCCESS; n++)
        continue;
    ok(n == 8, "four calls of each run above slots and concurrency, one for the other");
    end(shm, &call[0], 10);
    ok(vl_slot_ask_call(shm, a, VL_CALL_OF_UNKNOWN, 0, &call[0]) == APR_SUCCESS, "until one has ended");
    for (i = 0; i < n; i++)
        vl_slot_end(shm, &call[i], NULL);
    ok(!shm->head->calls && valid(shm), "calls that were not used end too");
}

static void calls_leave_the_called_site_its_part(void)
{
    vl_shm_t *shm = alone(8, 100);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);
    vl_fair_account_t *f = &shm->queue.accounts[b];
    vl_ticket_t held[8], call[8], own[8];
    int i;

    shm->head->processors = 1;
    shm->head->queue.by_duty = 1;
    f->estimate_us = 5000;
    waits(shm, a, 2);
    (void)take_all(shm, held);
    for (i = 0; i < 8; i++)
        (void)vl_slot_ask_call(shm, b, 1 + a, 0, &call[i]);
    ok(f->running == 8 && f->called == 8 && valid(shm), "two requests of another account call eight times");
    ok(!call[7].charged && vl_ticket_payer(&call[7]) == a, "which pays, and nothing is charged here in advance");
    waits(shm, b, 6);
    ok(take_all(shm, own) == 4, "own requests get its half of the slots beside them");
    for (i = 0; i < 8; i++)
        end(shm, &call[i], 10);
    ok(!f->called && valid(shm), "calls end");
}

/* The account with the least CPU time gets the slots, but for a fifth. */
static void automatic_slots_go_by_cpu_time(void)
{
    vl_shm_t *shm = alone(8, 100);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), c = account(shm, "c", 0);
    apr_uint32_t i, n, of_a = 0;
    vl_ticket_t held[8];

    waits(shm, a, 50);
    waits(shm, b, 50);
    n = take_all(shm, held);
    shm->head->processors = 1;
    shm->head->queue.by_duty = 1;
    vl_fair_charge(&shm->queue, b, 100000);
    for (i = 0; i < n; i++)
        end(shm, &held[i], 10);
    n = take_all(shm, held);
    for (i = 0; i < n; i++)
        of_a += held[i].account == a;
    ok(n == 7 && of_a == 7, "automatic slots: CPU time decides about seven of eight (%u, %u)",
       (unsigned)n, (unsigned)of_a);
    ok(take_all(shm, held) == 0, "the eighth is not for an account that has used more");
    waits(shm, c, 1);
    ok(take_all(shm, held) == 1 && held[0].account == c && valid(shm),
       "it is for one that is due and holds none");
}

static void leases_exceed_the_slots_of_auto_by_as_many_again(void)
{
    vl_shm_t *shm = alone(2, 100);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), i, n = 0;
    vl_ticket_t ticket, running[8];

    while (vl_slot_ask(shm, a, VL_ASK_LEASE, n % 2, &running[n]) == APR_SUCCESS)
        n++;
    ok(n == 2, "a number of slots that is set is for leases too (%u)", (unsigned)n);
    shm->queue.head->by_duty = 1;
    for (; n < 6; n++)
        vl_slot_ask(shm, a, VL_ASK_LEASE, 1, &running[n]);
    ok(shm->queue.head->running == 6, "with `auto`, while nothing waits, a lease continues above the slots");
    for (i = 0; i < 6; i++)
        end(shm, &running[i], 100);
    n = 0;
    waits(shm, b, 8);
    while (vl_slot_ask(shm, a, VL_ASK_LEASE, n % 2, &ticket) == APR_SUCCESS)
        n++;
    ok(n == 2, "while requests wait, those of leases exceed the slots by as many again (%u)",
       (unsigned)n);
    ok(vl_slot_ask(shm, a, VL_ASK_FORCED, 0, &ticket) == APR_SUCCESS,
       "a request that cannot wait exceeds them");
    ok(valid(shm), "the segment is valid");
}

static void more_slots_are_used_at_once(void)
{
    vl_shm_t *shm = alone(1, 100);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t held[10];

    waits(shm, a, 9);
    ok(take_all(shm, held) == 1, "one slot");
    vl_slot_set(shm, 4);
    ok(take_all(shm, held) == 3 && valid(shm), "with four slots three more are granted at once");
}

int main(void)
{
    srand(20261121);
    segment_init();
    a_slot_is_granted_and_released();
    without_a_column();
    queued_requests_may_leave();
    a_full_queue_refuses();
    the_least_served_is_next();
    weights_share_few_slots(6);
    weights_share_few_slots(14);
    weights_share_few_slots(60);
    slots_do_not_stay_free();
    a_thread_is_kept_free();
    trying_does_not_bypass_the_queue();
    entering_does_not_wait();
    dry_run_counts();
    a_ticket_is_used();
    an_unused_ticket_costs_nothing();
    the_ring_does_not_overflow();
    a_request_that_waits_for_its_client_has_no_slot();
    a_call_is_charged_to_its_caller();
    automatic_slots();
    requests_that_sleep_hold_a_part_of_a_slot();
    cpu_time_is_kept_by_back_end();
    accounts_without_a_duty_have_that_of_the_server();
    a_light_account_exceeds_the_slots();
    the_heaviest_account_does_not_hold_up_a_light_one();
    idle_requests_do_not_count_as_concurrency();
    calls_go_ahead_of_their_callers();
    calls_leave_the_called_site_its_part();
    automatic_slots_go_by_cpu_time();
    leases_exceed_the_slots_of_auto_by_as_many_again();
    more_slots_are_used_at_once();
    return tap_done();
}
