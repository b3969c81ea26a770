/* SPDX-License-Identifier: Apache-2.0 */
/* The fair queue in simulated time, and random operations compared with a slow model. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "validate.h"
#include "core/vl_fair.h"

#define FLOWS_MAX 10000
#define SLOTS_MAX 64

static vl_queue_head_t head;
static vl_fair_account_t accounts[FLOWS_MAX];
static vl_fair_t *heap[FLOWS_MAX];
static vl_queue_t q = { &head, accounts };
/* Where virtual time begins in reset(). */
static apr_uint64_t begin_at;

/* Running jobs, by the time at which they end. */
typedef struct job_t {
    apr_uint32_t account, charged;
    apr_uint64_t cost, end;
} job_t;

static job_t jobs[SLOTS_MAX];
static apr_uint32_t njobs;
static apr_uint64_t served[FLOWS_MAX];  /* cost of finished requests */
static apr_uint64_t now;

static void set_limits(apr_uint32_t account, apr_uint32_t weight, apr_uint32_t concurrency,
                       apr_uint32_t cpu)
{
    vl_limits_t limits = { VL_MODE_ON, weight, concurrency, 0, cpu };

    vl_fair_set_limits(&q, account, &limits);
}

static void reset(apr_uint32_t slots, apr_uint32_t n, const apr_uint32_t *weights)
{
    apr_uint32_t f;

    memset(&head, 0, sizeof(head));
    head.heap.at = heap;
    head.vtime = begin_at;
    memset(accounts, 0, sizeof(accounts));
    memset(served, 0, sizeof(served));
    njobs = 0;
    now = 0;
    head.slots = slots;
    for (f = 0; f < n; f++)
        set_limits(f, weights ? weights[f] : 100, 0, 0);
}

static int has_free_slot(void *data, apr_uint32_t account)
{
    return vl_fair_free(&q) > 0;
}

static apr_uint32_t next(void)
{
    return vl_fair_next_where(&q, has_free_slot, NULL);
}

static void arrive(apr_uint32_t account, apr_uint32_t n)
{
    while (n--)
        vl_fair_arrive(&q, account);
}

/* Fills the free slots; each request of an account takes cost[account] us. */
static apr_uint32_t start_all(const apr_uint64_t *cost)
{
    apr_uint32_t account, n = 0;

    while ((account = next()) != VL_NO_ACCOUNT) {
        job_t *job = &jobs[njobs++];

        job->account = account;
        job->cost = cost[account];
        job->end = now + cost[account];
        job->charged = vl_fair_begin(&q, account);
        n++;
    }
    return n;
}

/* The job that ends first ends, and its slot is free. Returns its account. */
static apr_uint32_t finish_one(void)
{
    apr_uint32_t i, first = 0;
    job_t job;

    for (i = 1; i < njobs; i++) {
        if (jobs[i].end < jobs[first].end)
            first = i;
    }
    job = jobs[first];
    jobs[first] = jobs[--njobs];
    now = job.end;
    served[job.account] += job.cost;
    vl_fair_end(&q, job.account, job.charged, job.cost);
    return job.account;
}

/* Closed loop: a served request is followed by another one of its account at once. */
static void run_closed_loop(const apr_uint64_t *cost, apr_uint64_t until)
{
    while (now < until) {
        start_all(cost);
        arrive(finish_one(), 1);
    }
}

static double share(apr_uint32_t account, apr_uint32_t n)
{
    apr_uint64_t sum = 0;
    apr_uint32_t f;

    for (f = 0; f < n; f++)
        sum += served[f];
    return sum ? (double)served[account] / (double)sum : 0;
}

static int near(double got, double want, double tolerance)
{
    if (got < want - tolerance || got > want + tolerance) {
        printf("# got %f, want %f\n", got, want);
        return 0;
    }
    return 1;
}

static int valid(apr_uint32_t n)
{
    const char *why = validate_queue(&q, n);

    if (why)
        printf("# broken: %s\n", why);
    return !why;
}

static void shares_are_equal(void)
{
    static const apr_uint32_t slots[] = { 1, 2, 8, 60 };
    apr_uint64_t cost[] = { 70, 70 };
    apr_uint32_t i;

    for (i = 0; i < 4; i++) {
        reset(slots[i], 2, NULL);
        arrive(0, 100);
        arrive(1, 1000);
        run_closed_loop(cost, 1000000);
        ok(near(share(0, 2), 0.5, 0.005) && valid(2),
           "100 users get half beside 1000, with %u slots", slots[i]);
    }
}

static void cost_is_shared_not_requests(void)
{
    apr_uint64_t cost[] = { 2000, 20000 };

    reset(4, 2, NULL);
    arrive(0, 50);
    arrive(1, 50);
    run_closed_loop(cost, 100000000);
    ok(near(share(0, 2), 0.5, 0.01),
       "a request that costs ten times as much comes a tenth as often");
}

static void weights_count(void)
{
    static const apr_uint32_t weights[] = { 300, 200, 100 };
    apr_uint64_t cost[] = { 100, 700, 40 };

    reset(5, 3, weights);
    arrive(0, 200);
    arrive(1, 200);
    arrive(2, 200);
    run_closed_loop(cost, 10000000);
    ok(near(share(0, 3), 3 / 6.0, 0.005) && near(share(1, 3), 2 / 6.0, 0.005)
       && near(share(2, 3), 1 / 6.0, 0.005), "weights 3:2:1 give 3:2:1");
}

static void heaviest_flow_still_pays(void)
{
    static const apr_uint32_t weights[] = { VL_WEIGHT_MAX, VL_WEIGHT_MAX };
    apr_uint64_t cost[] = { 1, 3 };

    reset(1, 2, weights);
    arrive(0, 10);
    arrive(1, 10);
    run_closed_loop(cost, 100000);
    ok(near(share(0, 2), 0.5, 0.02),
       "costs of 1 us count at the greatest weight");
}

static void idle_earns_no_credit(void)
{
    apr_uint64_t cost[] = { 100, 100 };

    reset(1, 2, NULL);
    arrive(0, 100);
    run_closed_loop(cost, 10000000);
    served[0] = 0;
    arrive(1, 100);
    run_closed_loop(cost, 11000000);
    ok(near(share(1, 2), 0.5, 0.01),
       "an account that was idle for long gets half, not all");
    reset(1, 2, NULL);
    arrive(0, 100);
    run_closed_loop(cost, 10000000);
    served[0] = 0;
    arrive(1, 100);
    run_closed_loop(cost, 10001000);
    ok(served[1] > 0, "it is served at once");
}

static void slots_are_never_idle(void)
{
    apr_uint64_t cost[FLOWS_MAX];
    apr_uint32_t i, f, idle = 0;

    reset(7, 50, NULL);
    for (f = 0; f < 50; f++)
        cost[f] = 1 + (apr_uint64_t)(rand() % 1000);
    for (i = 0; i < 20000; i++) {
        if (rand() % 3)
            arrive((apr_uint32_t)rand() % 50, 1);
        start_all(cost);
        idle += head.running < 7 && head.waiting > 0;
        if (njobs && rand() % 2)
            finish_one();
    }
    ok(!idle, "no slot is free while an account is queued");
    ok(valid(50), "the queue is valid");
}

static void fairness_bound_holds(void)
{
    static const apr_uint64_t cost[] = { 500, 90, 4000 };
    double worst = 0;
    apr_uint32_t i;

    /* SFQ(D): while both are queued, the service of two accounts differs by at most (D +
     * 1)(l_f/w_f + l_g/w_g). This queue charges an estimate first. */
    reset(4, 3, NULL);
    for (i = 0; i < 3; i++)
        arrive(i, 100);
    while (now < 20000000) {
        double a, b;

        start_all(cost);
        arrive(finish_one(), 1);
        if (now < 1000000)
            continue;
        a = (double)served[0] - (double)served[2];
        b = (double)served[1] - (double)served[2];
        a = a < 0 ? -a : a;
        b = b < 0 ? -b : b;
        worst = a > worst ? a : worst;
        worst = b > worst ? b : worst;
    }
    ok(worst <= 5.0 * (4000 + 500) * 2,
       "the service of queued accounts differs by no more than the bound (worst %.0f us)", worst);
}

static void concurrency_limits(void)
{
    apr_uint64_t cost[] = { 100, 100 };

    reset(10, 2, NULL);
    set_limits(0, 100, 3, 0);
    arrive(0, 50);
    arrive(1, 4);
    start_all(cost);
    ok(accounts[0].running == 3 && accounts[1].running == 4,
       "an account at its concurrency limit does not delay others");
    set_limits(0, 100, 5, 0);
    start_all(cost);
    ok(accounts[0].running == 5, "a raised limit applies at once");
    ok(valid(2), "the queue is valid");
}

static int odd_only(void *data, apr_uint32_t account)
{
    return account % 2 == 1;
}

/* Account 0 has a cap of a quarter of one processor and burns all it gets. */
static void cap_binds(void)
{
    apr_uint64_t t, used[2] = { 0, 0 };
    apr_uint32_t account, charged;

    reset(1, 2, NULL);
    set_limits(0, 100, 0, 25);
    arrive(0, 100000);
    for (t = 0; t < 10000; t++) {           /* ms, and each request takes one */
        vl_fair_credit(&q, 0, 1000);
        account = next();
        if (account == VL_NO_ACCOUNT)
            continue;
        charged = vl_fair_begin(&q, account);
        vl_fair_end(&q, account, charged, 1000);
        used[account] += 1000;
    }
    ok(used[0] > 2450000 && used[0] < 2600000,
       "a single capped account gets its cap: %lu us of 10 s",
       (unsigned long)used[0]);
    ok(!validate_queue(&q, 2), "the queue is valid");
}

static void cap_leaves_the_rest(void)
{
    const apr_uint64_t cost[] = { 1000, 1000 };
    apr_uint64_t used[2] = { 0, 0 };
    apr_uint32_t account, charged;
    int t;

    reset(1, 2, NULL);
    set_limits(0, 100, 0, 25);
    arrive(0, 100000);
    arrive(1, 100000);
    for (t = 0; t < 10000; t++) {
        vl_fair_credit(&q, 0, 1000);
        account = next();
        if (account == VL_NO_ACCOUNT)
            break;
        charged = vl_fair_begin(&q, account);
        vl_fair_end(&q, account, charged, cost[account]);
        used[account] += cost[account];
    }
    ok(used[0] > 2450000 && used[0] < 2600000 && used[1] > 7400000,
       "a capped account gets its cap, another account the rest: %lu %lu",
       (unsigned long)used[0], (unsigned long)used[1]);
}

static void debt_is_paid_off(void)
{
    apr_uint32_t charged;

    reset(4, 2, NULL);
    set_limits(0, 100, 0, 50);
    ok(vl_fair_is_within_bounds(&q, 0), "an account with a full bucket may begin");
    charged = vl_fair_begin_now(&q, 0);
    vl_fair_end(&q, 0, charged, 300000);
    ok(!vl_fair_is_within_bounds(&q, 0), "an account with debt may not begin");
    ok(vl_fair_is_within_bounds(&q, 1), "another account may begin");
    arrive(0, 1);
    ok(next() == VL_NO_ACCOUNT, "a queued account with debt is granted nothing");
    vl_fair_credit(&q, 0, 400000);
    ok(next() == VL_NO_ACCOUNT, "a queued account with credit 0 is granted nothing");
    vl_fair_credit(&q, 0, 2000);
    ok(next() == 0, "a queued account with credit is granted a slot");
    vl_fair_charge(&q, 0, 5000);
    ok(next() == VL_NO_ACCOUNT, "a separate charge reduces the credit");
    vl_fair_charge(&q, 0, -5000);
    ok(next() == 0, "a refund increases the credit");
    vl_fair_credit(&q, 0, 3600000000ULL);
    ok(accounts[0].credit_us == VL_CREDIT_US / 2, "credit is limited to the bucket");
    vl_fair_charge(&q, 0, 1000000);
    set_limits(0, 100, 0, 0);
    ok(next() == 0, "removing the cap cancels the debt");
    ok(!validate_queue(&q, 2), "the queue is valid");
}

static void a_filter_skips_flows(void)
{
    reset(10, 6, NULL);
    arrive(0, 1);
    arrive(2, 1);
    ok(vl_fair_next_where(&q, odd_only, NULL) == VL_NO_ACCOUNT,
       "no account can be served");
    arrive(5, 1);
    ok(vl_fair_next_where(&q, odd_only, NULL) == 5, "the first account that can be served");
    ok(next() == 0 && valid(6), "the skipped accounts keep their order");
}

static void abandoned_requests_are_gone(void)
{
    reset(1, 4, NULL);
    arrive(1, 5);
    arrive(2, 9);
    vl_fair_abandon(&q, 1, 5);
    ok(next() == 2, "an account whose requests were all abandoned is not next");
    vl_fair_abandon(&q, 2, 9);
    ok(next() == VL_NO_ACCOUNT && valid(4), "without requests no account is next");
}

static void no_flow_starves(void)
{
    static apr_uint64_t cost[FLOWS_MAX];
    apr_uint32_t f, n = 0;

    reset(8, FLOWS_MAX, NULL);
    for (f = 0; f < FLOWS_MAX; f++) {
        cost[f] = 100;
        arrive(f, f ? 1 : 500);
    }
    for (f = 0; f < 2 * FLOWS_MAX; f++) {
        start_all(cost);
        arrive(finish_one(), 1);
    }
    for (f = 0; f < FLOWS_MAX; f++)
        n += served[f] > 0;
    ok(n >= FLOWS_MAX - 8, "10000 accounts: all except the running ones are served in "
       "two rounds (%u)", n);
    ok(valid(FLOWS_MAX), "the queue is valid");
}

/* The same rules, written to be obvious: no heap, a scan each time.  Of sites with the same
 * virtual time either is right. */
static apr_uint32_t model_next(apr_uint32_t n)
{
    apr_uint32_t f, best = VL_NO_ACCOUNT;

    if (head.running >= head.slots)
        return VL_NO_ACCOUNT;
    for (f = 0; f < n; f++) {
        if (accounts[f].waiting && (!accounts[f].limits.concurrency
                                 || accounts[f].running < accounts[f].limits.concurrency)
            && (best == VL_NO_ACCOUNT || (apr_int64_t)(accounts[f].fair.tag - accounts[best].fair.tag) < 0))
            best = f;
    }
    return best;
}

static void random_against_model(void)
{
    apr_uint32_t n = 37, i, expected, wrong = 0, broken = 0;

    reset(9, n, NULL);
    for (i = 0; i < 200000; i++) {
        apr_uint32_t f = (apr_uint32_t)rand() % n;

        switch (rand() % 8) {
        case 0:
        case 1:
        case 2:
            vl_fair_arrive(&q, f);
            break;
        case 3:
        case 4:
            f = next();
            expected = model_next(n);
            wrong += f != expected && (f == VL_NO_ACCOUNT || expected == VL_NO_ACCOUNT
                                       || accounts[f].fair.tag != accounts[expected].fair.tag);
            if (f != VL_NO_ACCOUNT)
                vl_fair_begin(&q, f);
            break;
        case 5:
            if (accounts[f].running)
                vl_fair_end(&q, f, accounts[f].estimate_us,
                             (apr_uint64_t)(rand() % 5000));
            break;
        case 6:
            if (accounts[f].waiting)
                vl_fair_abandon(&q, f, 1);
            else if (accounts[f].running)
                vl_fair_forget(&q, f, 1);
            break;
        case 7:
            if (rand() % 20 == 0)
                set_limits(f, 1 + (apr_uint32_t)rand() % 1000,
                           (apr_uint32_t)rand() % 4, 0);
            else if (rand() % 4 == 0)
                vl_fair_begin_now(&q, f);
            break;
        }
        if (i % 64 == 0)
            broken += validate_queue(&q, n) != NULL;
    }
    ok(!wrong, "200000 random steps: the heap and a scan give the same results");
    ok(!broken, "the invariants hold");
}

/* Tags wrap around. */
static void shares_hold_when_tags_wrap(void)
{
    begin_at = UINT64_MAX - 100000000;
    shares_are_equal();
    ok(head.vtime < begin_at, "virtual time has wrapped around");
    idle_earns_no_credit();
    random_against_model();
    begin_at = 0;
}

static int count_and_refuse(void *data, apr_uint32_t account)
{
    ++*(int *)data;
    return 0;
}

/* The caller of vl_fair_next_where() holds a lock of all child processes. */
static void few_flows_are_asked_without_a_free_slot(void)
{
    apr_uint32_t f, got;
    int asked = 0;

    reset(1, 100, NULL);
    for (f = 0; f < 100; f++)
        arrive(f, 1);
    got = vl_fair_next_where(&q, count_and_refuse, &asked);
    ok(got == VL_NO_ACCOUNT && asked == 100,
       "a slot is free: each of 100 accounts is asked (%d)", asked);
    vl_fair_begin_now(&q, 0);
    asked = 0;
    got = vl_fair_next_where(&q, count_and_refuse, &asked);
    ok(got == VL_NO_ACCOUNT && asked && asked <= 10,
       "none is: a few (%d)", asked);
    ok(!validate_queue(&q, 100), "the heap is as before");
}

static void long_requests_are_no_credit_of_others(void)
{
    reset(8, 2, NULL);
    vl_fair_begin_now(&q, 0);
    vl_fair_charge(&q, 0, 3000000);
    arrive(1, 1);
    ok(VL_FAIR_AFTER(accounts[1].fair.tag, accounts[0].fair.tag) == 0,
       "a site joins at what another one has used while none waited");
    vl_fair_charge(&q, 0, 3000000);
    arrive(1, 1);
    ok(VL_FAIR_AFTER(accounts[0].fair.tag, accounts[1].fair.tag) == VL_FAIR_ADVANCE(3000000, 100),
       "what it uses while the other one waits counts");
}

int main(void)
{
    srand(20261121);
    few_flows_are_asked_without_a_free_slot();
    long_requests_are_no_credit_of_others();
    shares_are_equal();
    cost_is_shared_not_requests();
    weights_count();
    heaviest_flow_still_pays();
    idle_earns_no_credit();
    slots_are_never_idle();
    fairness_bound_holds();
    concurrency_limits();
    cap_binds();
    cap_leaves_the_rest();
    debt_is_paid_off();
    a_filter_skips_flows();
    abandoned_requests_are_gone();
    no_flow_starves();
    random_against_model();
    shares_hold_when_tags_wrap();
    return tap_done();
}
