/* SPDX-License-Identifier: Apache-2.0 */
/* The buckets of waiting times. */
#include <stdlib.h>

#include "tap.h"
#include "core/vl_metrics.h"

#define LAST (VL_WAIT_BUCKETS - 1)

/* The bucket of us holds us. */
static int fits(apr_uint64_t us)
{
    unsigned b = vl_metrics_wait_bucket(us);

    if (b <= LAST && us >= vl_metrics_wait_us(b)
        && (b == LAST || us < vl_metrics_wait_us(b + 1)))
        return 1;
    printf("# %llu us is in bucket %u\n", (unsigned long long)us, b);
    return 0;
}

static void small_values(void)
{
    apr_uint64_t us;
    unsigned before = 0, wrong = 0, jumps = 0;

    for (us = 0; us < 5000000; us++) {
        unsigned b = vl_metrics_wait_bucket(us);

        wrong += !fits(us);
        jumps += b < before || b > before + 1;
        before = b;
    }
    ok(!wrong, "each of the first 5 s is in the bucket that holds it");
    ok(!jumps, "no bucket is skipped, and the order increases");
    ok(vl_metrics_wait_bucket(0) == 0 && vl_metrics_wait_bucket(3) == 3
       && vl_metrics_wait_bucket(4) == 4, "the first hold one us each");
}

static void bounds(void)
{
    unsigned b, wrong = 0, wide = 0, order = 0;

    for (b = 0; b < LAST; b++) {
        apr_uint64_t from = vl_metrics_wait_us(b);
        apr_uint64_t to = vl_metrics_wait_us(b + 1);

        order += to <= from;
        wrong += vl_metrics_wait_bucket(from) != b
                 || vl_metrics_wait_bucket(to - 1) != b;
        wide += b >= 4 && (to - from) * 4 > from;
    }
    ok(!order, "bounds increase");
    ok(!wrong, "the first and the last us of a bucket are in it");
    ok(!wide, "no bucket is wider than a quarter of its lower bound");
}

static void large_values(void)
{
    apr_uint64_t last = vl_metrics_wait_us(LAST);
    unsigned i, wrong = 0;

    ok(last > 100 * 1000000ULL, "the last begins above 100 s");
    ok(vl_metrics_wait_bucket(last - 1) == LAST - 1
       && vl_metrics_wait_bucket(last) == LAST, "at its bound");
    ok(vl_metrics_wait_bucket(APR_UINT64_MAX) == LAST
       && vl_metrics_wait_bucket(1ULL << 63) == LAST
       && vl_metrics_wait_bucket(1ULL << 32) == LAST, "and holds the rest");
    for (i = 0; i < 1000000; i++) {
        apr_uint64_t us = (apr_uint64_t)rand() << 33
                          ^ (apr_uint64_t)rand() << 11 ^ (apr_uint64_t)rand();

        wrong += !fits(us >> rand() % 64);
    }
    ok(!wrong, "each of a million random times is in its bucket");
}

int main(void)
{
    srand(20261121);
    small_values();
    bounds();
    large_values();
    return tap_done();
}
