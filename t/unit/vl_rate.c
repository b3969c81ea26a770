/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time over the last seconds and the last minute. */
#include <string.h>

#include "tap.h"
#include "base/vl_rate.h"

#define S ((apr_int64_t)1000000)
#define START (1800000000 * S)     /* on an interval's border */

static apr_uint64_t now_of(const vl_rate_t *rate, apr_int64_t at_us)
{
    return vl_rate_permille(rate, at_us, VL_RATE_NOW);
}

static apr_uint64_t minute_of(const vl_rate_t *rate, apr_int64_t at_us)
{
    return vl_rate_permille(rate, at_us, VL_RATE_MINUTE);
}

static int about(apr_uint64_t got, apr_uint64_t want)
{
    if (got + 20 >= want && got <= want + 20)
        return 1;
    printf("# %llu, not %llu\n", (unsigned long long)got,
           (unsigned long long)want);
    return 0;
}

static void steady(void)
{
    vl_rate_t rate = { 0 };
    int i;

    /* 100 ms in every 200 ms. */
    for (i = 1; i <= 600; i++)
        vl_rate_add(&rate, START + i * S / 5, S / 5, S / 10);
    ok(about(now_of(&rate, START + 120 * S), 500), "half a processor in the last seconds");
    ok(about(minute_of(&rate, START + 120 * S), 500), "half a processor over the minute");
    ok(about(minute_of(&rate, START + 150 * S), 250),
       "a quarter over the minute, half a minute later");
    ok(!now_of(&rate, START + 125 * S), "0 in the last seconds after four seconds");
    ok(!minute_of(&rate, START + 190 * S), "0 over the minute after a minute");
}

static void long_request(void)
{
    vl_rate_t rate = { 0 };

    vl_rate_add(&rate, START + 40 * S, 30 * S, 30 * S);
    ok(about(now_of(&rate, START + 40 * S), 1000),
       "a long request counts for the time in which it ran");
    ok(about(minute_of(&rate, START + 40 * S), 500), "a long request over the minute");
    memset(&rate, 0, sizeof(rate));
    vl_rate_add(&rate, START, (apr_uint64_t)3600 * S, (apr_uint64_t)3600 * S);
    ok(about(minute_of(&rate, START), 1000), "a request of an hour fills the minute");
}

static void clocks(void)
{
    vl_rate_t rate = { 0 };

    vl_rate_add(&rate, START + 60 * S, 1000, 100000);
    vl_rate_add(&rate, START + 60 * S - 1, 1000, 100000);
    ok(minute_of(&rate, START + 60 * S) == 200 * 1000 / 60 / 1000,
       "an event with a slightly old time is counted");
    vl_rate_add(&rate, START - 3600 * S, 1000, 60 * S / 10);
    ok(about(minute_of(&rate, START - 3600 * S), 100),
       "a clock that was set back is followed");
    vl_rate_add(&rate, START, 0, 100);
    ok(now_of(&rate, START) == 0 && now_of(&rate, START + 1) <= 1,
       "no time at all divides nothing by zero");
}

/* A server can start with the machine, whose clock begins at 0. */
static void first_seconds(void)
{
    struct { apr_uint64_t before; vl_rate_t rate; apr_uint64_t after; } has;

    memset(&has, 0, sizeof(has));
    has.before = has.after = UINT64_MAX;
    ok(!now_of(&has.rate, S) && !minute_of(&has.rate, S),
       "the rate is 0 at the start of the machine");
    vl_rate_add(&has.rate, S, S / 10, S / 10);
    ok(minute_of(&has.rate, S) == 1, "a request in the first second counts");
    vl_rate_add(&has.rate, 2 * S, 100 * S, 100 * S);
    ok(has.before == UINT64_MAX && has.after == UINT64_MAX,
       "a cost from before the start stays in its window");
}

int main(void)
{
    first_seconds();
    steady();
    long_request();
    clocks();
    return tap_done();
}
