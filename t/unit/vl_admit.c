/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tap.h"
#include "core/vl_admit.h"

static vl_verdict_e verdict(apr_uint32_t concurrency, apr_uint64_t running)
{
    vl_limits_t limits = { VL_MODE_ON, 100, concurrency, 0 };

    return vl_admit_decide(&limits, running).verdict;
}

static void decides_by_concurrency(void)
{
    vl_limits_t limits = { VL_MODE_ON, 100, 2, 0 };

    ok(verdict(0, 1000000) == VL_PASS, "no limit: any number runs");
    ok(verdict(2, 1) == VL_PASS, "one of two requests running: passes");
    ok(verdict(2, 2) == VL_REFUSE, "two of two running: refused");
    ok(verdict(2, 3) == VL_REFUSE, "a limit lowered under load refuses too");
    ok(vl_admit_decide(&limits, 2).reason == VL_REASON_CONCURRENCY,
       "the reason is the concurrency limit");
    ok(!strcmp(vl_admit_reason_name(VL_REASON_CONCURRENCY), "concurrency"),
       "the reason has a name");
}

static int dryrun_is(const vl_limits_t *limits, apr_uint64_t running,
                     vl_reason_e reason, int waits)
{
    int got;
    vl_decision_t decision = vl_admit_dryrun(limits, running, &got);

    return decision.reason == reason && got == waits
           && (decision.verdict == VL_REFUSE) == (reason != VL_REASON_NONE);
}

static void dryrun_counts_would_be_queued(void)
{
    vl_limits_t limits = { VL_MODE_DRYRUN, 100, 2, 3 };

    ok(dryrun_is(&limits, 1, VL_REASON_NONE, 0), "DryRun: below the limit a request would run");
    ok(dryrun_is(&limits, 2, VL_REASON_NONE, 1)
       && dryrun_is(&limits, 4, VL_REASON_NONE, 1),
       "DryRun: above the limit a request would be queued");
    ok(dryrun_is(&limits, 5, VL_REASON_QUEUE, 0),
       "DryRun: with a full queue a request would be refused");
    limits.queue = 0;
    ok(dryrun_is(&limits, 2, VL_REASON_CONCURRENCY, 0),
       "DryRun: without a queue a request would be refused");
    limits.concurrency = 0;
    ok(dryrun_is(&limits, 1000, VL_REASON_NONE, 0), "DryRun: without a limit a request would run");
}

static void one_account_leaves_some(void)
{
    apr_uint32_t held = 0, others = 0, i;

    while (vl_admit_more(held, 100 - held))
        held++;
    ok(held == 80, "a single account gets four fifths");
    for (i = 0; i < 10; i++) {
        apr_uint32_t mine = 0;

        while (vl_admit_more(mine, 100 - held - others - mine))
            mine++;
        others += mine;
        if (!mine)
            break;
    }
    ok(i == 2, "other accounts get one each, until all are used");
    ok(!vl_admit_more(0, 0), "nothing is free: no account gets more");
    ok(vl_admit_more(3, 1), "the last one of four may go to the account with the others");
}

static void weights_count(void)
{
    /* Two active accounts of weights 300 and 100. */
    ok(vl_admit_more_weighted(5, 1, 300, 2, 400) && !vl_admit_more_weighted(6, 1, 300, 2, 400),
       "an account of 1.5 times the mean weight holds 1.5 times as many");
    ok(vl_admit_more_weighted(1, 1, 100, 2, 400) && !vl_admit_more_weighted(2, 1, 100, 2, 400),
       "one of half the mean weight holds half as many");
    ok(vl_admit_more_weighted(0, 1, 1, 2, 10001) && !vl_admit_more_weighted(0, 0, 1, 2, 10001),
       "an account of a tiny weight gets a free one");
    ok(vl_admit_more_weighted(79, 20, 7, 1, 7) && !vl_admit_more_weighted(80, 20, 7, 1, 7),
       "alone, an account's weight does not matter");
}

static void computes_retry_after(void)
{
    apr_uint32_t i, least = 1000, most = 0;

    ok(vl_admit_retry_after(0, 5, 0) == 1, "Retry-After is at least a second");
    ok(vl_admit_retry_after(8000000, 4, 0) == 2,
       "8 s of service in 4 slots: a slot is free in 2 s");
    ok(vl_admit_retry_after(9000000, 4, 0) == 3, "Retry-After is rounded up");
    ok(vl_admit_retry_after(3600000000ull, 1, 0) == VL_RETRY_MAX,
       "Retry-After is at most %d s before jitter", VL_RETRY_MAX);
    ok(vl_admit_retry_after(2000000, 0, 0) == 2, "0 slots count as one");
    for (i = 0; i < 1000; i++) {
        apr_uint32_t s = vl_admit_retry_after(4000000, 1, i);

        least = s < least ? s : least;
        most = s > most ? s : most;
    }
    ok(least == 4 && most == 8, "jitter spreads 4 s over 4 to 8 s");
}

int main(void)
{
    decides_by_concurrency();
    dryrun_counts_would_be_queued();
    one_account_leaves_some();
    weights_count();
    computes_retry_after();
    return tap_done();
}
