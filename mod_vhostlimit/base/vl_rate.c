/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vl_rate.h"

#include <string.h>

/* Returns the place of an interval. Its number is negative if it was before the machine's
 * start, where the clock begins. */
static unsigned place_of(apr_int64_t interval)
{
    return (unsigned)((interval % VL_RATE_INTERVALS + VL_RATE_INTERVALS) % VL_RATE_INTERVALS);
}

/* Adds to one interval; the sum saturates at APR_UINT32_MAX. */
static void add_to(vl_rate_t *rate, apr_int64_t interval, apr_uint64_t us)
{
    apr_uint32_t *sum = &rate->us[place_of(interval)];

    *sum = us < APR_UINT32_MAX - *sum ? *sum + (apr_uint32_t)us
                                        : APR_UINT32_MAX;
}

static apr_int64_t later(apr_int64_t a, apr_int64_t b)
{
    return a > b ? a : b;
}

void vl_rate_add(vl_rate_t *rate, apr_int64_t now_us, apr_uint64_t busy_us,
                 apr_uint64_t cost_us)
{
    apr_int64_t from = now_us - (apr_int64_t)busy_us, end = now_us, interval;
    apr_int64_t newest = now_us / VL_RATE_INTERVAL_US;

    /* A thread that has read the clock before another thread got the lock is late by one
     * interval at most.  A larger step back means that the clock was set back; then the
     * window starts again. */
    if (newest < rate->newest - 1 || newest - rate->newest >= VL_RATE_INTERVALS) {
        memset(rate->us, 0, sizeof(rate->us));
        rate->newest = newest;
    }
    while (rate->newest < newest)
        rate->us[place_of(++rate->newest)] = 0;
    for (interval = newest; interval > rate->newest - VL_RATE_INTERVALS; interval--) {
        apr_int64_t begin = later(from, interval * VL_RATE_INTERVAL_US);

        if (begin == from && interval == newest) {
            add_to(rate, interval, cost_us);
            return;
        }
        if (end <= from)
            return;
        add_to(rate, interval, cost_us * (apr_uint64_t)(end - begin) / busy_us);
        end = begin;
    }
}

apr_uint64_t vl_rate_permille(const vl_rate_t *rate, apr_int64_t now_us,
                              unsigned intervals)
{
    apr_int64_t first = now_us / VL_RATE_INTERVAL_US - intervals, interval;
    apr_int64_t past_us = now_us - first * VL_RATE_INTERVAL_US;
    apr_uint64_t us = 0;

    for (interval = later(first, rate->newest - VL_RATE_INTERVALS + 1);
         interval <= rate->newest; interval++)
        us += rate->us[place_of(interval)];
    return past_us > 0 ? us * 1000 / (apr_uint64_t)past_us : 0;
}
