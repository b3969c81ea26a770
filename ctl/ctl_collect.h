/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_COLLECT_H
#define CTL_COLLECT_H

/* What the command collect computes from two answers of the server and two readings of the
 * clocks. */

#include "ctl_figures.h"
#include "ctl_store.h"

/* The moment of an answer. */
typedef struct ctl_moment_t {
    long long real_ms;          /* Unix time */
    long long steady_ms;        /* a clock that is never set */
} ctl_moment_t;

/* Returns for how many seconds the counters of `now` have counted since `before`: since the
 * server's start if that was in between.  At least 1. */
uint32_t ctl_collect_seconds(const ctl_figures_t *now, const ctl_figures_t *before,
                             const ctl_moment_t *at, const ctl_moment_t *before_at);
/* Returns the minute to which an interval belongs that ends now: the one of its middle, or the
 * last whole one if it is longer than a minute. */
uint32_t ctl_collect_minute(const ctl_moment_t *at, uint32_t seconds);
/* Returns the milliseconds until the next minute begins; a minute more if that is too soon
 * for an interval of its own. */
long long ctl_collect_wait_ms(long long real_ms);

#endif
