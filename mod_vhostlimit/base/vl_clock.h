/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CLOCK_H
#define VL_CLOCK_H

/* The clock of all waiting, deadlines and rates: it goes on evenly when
 * somebody sets the time of day, and is the same in all processes.  The time of
 * day is only for what people read. */

#include <time.h>

#include <apr.h>

/* Of pthread_condattr_setclock() too. */
#define VL_CLOCK CLOCK_MONOTONIC

static inline apr_int64_t vl_clock_us(void)
{
    struct timespec ts;

    clock_gettime(VL_CLOCK, &ts);
    return (apr_int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

#endif
