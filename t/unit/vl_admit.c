/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tap.h"
#include "vl_admit.h"

static vl_verdict_e verdict(apr_uint32_t concurrency, apr_uint64_t running)
{
    vl_limits_t limits = { VL_MODE_ON, 100, concurrency, 0 };

    return vl_admit_decide(&limits, running).verdict;
}

static void decides_by_concurrency(void)
{
    vl_limits_t limits = { VL_MODE_ON, 100, 2, 0 };

    ok(verdict(0, 1000000) == VL_PASS, "no limit: any number runs");
    ok(verdict(2, 1) == VL_PASS, "one of two places taken: passes");
    ok(verdict(2, 2) == VL_REFUSE, "both taken: refused");
    ok(verdict(2, 3) == VL_REFUSE, "a limit lowered under load refuses too");
    ok(vl_admit_decide(&limits, 2).reason == VL_REASON_CONCURRENCY,
       "the reason is the concurrency");
    limits.mode = VL_MODE_DRYRUN;
    ok(vl_admit_decide(&limits, 2).verdict == VL_REFUSE,
       "DryRun gets the same answer");
    ok(!strcmp(vl_admit_reason_name(VL_REASON_CONCURRENCY), "concurrency"),
       "the reason has a name");
}

static void tells_when_to_come_back(void)
{
    apr_uint32_t i, least = 1000, most = 0;

    ok(vl_admit_retry_after(0, 5, 0) == 1, "never less than a second");
    ok(vl_admit_retry_after(8000000, 4, 0) == 2,
       "8 s of service in 4 places: a place in 2 s");
    ok(vl_admit_retry_after(9000000, 4, 0) == 3, "rounded up");
    ok(vl_admit_retry_after(3600000000ull, 1, 0) == VL_RETRY_MAX,
       "at most %d s before jitter", VL_RETRY_MAX);
    ok(vl_admit_retry_after(2000000, 0, 0) == 2, "no places given: one");
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
    tells_when_to_come_back();
    return tap_done();
}
