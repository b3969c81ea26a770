/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CLOCK_H
#define VL_CLOCK_H

/* The clock for all waits, deadlines and rates.  It is monotonic, so setting the time of
 * day does not change it, and it is the same in all processes.  The time of day is used
 * only for times that are displayed.  Any thread may call it. */

#include <time.h>

#include <apr.h>

/* Also the argument of pthread_condattr_setclock(). */
#define VL_CLOCK CLOCK_MONOTONIC

/* Returns the time in microseconds. */
static inline apr_int64_t vl_clock_us(void)
{
    struct timespec ts;

    clock_gettime(VL_CLOCK, &ts);
    return (apr_int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* The same without the last four milliseconds or so, for an average of many requests. It is
 * cheaper, because it does not read the processor's counter. */
static inline apr_int64_t vl_clock_coarse_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (apr_int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

#endif
