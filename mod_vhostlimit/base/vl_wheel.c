/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vl_wheel.h"

APR_RING_HEAD(timers_t, vl_timer_t);

struct vl_wheel_t {
    apr_int64_t step;               /* next step to process; all earlier steps are done */
    struct timers_t buckets[VL_WHEEL_BUCKETS];
};

static struct timers_t *bucket_of(vl_wheel_t *w, apr_int64_t step)
{
    return &w->buckets[(apr_uint64_t)step % VL_WHEEL_BUCKETS];
}

vl_wheel_t *vl_wheel_create(apr_pool_t *p, apr_int64_t now_us)
{
    vl_wheel_t *w = apr_palloc(p, sizeof(*w));
    int i;

    w->step = now_us / VL_WHEEL_STEP_US;
    for (i = 0; i < VL_WHEEL_BUCKETS; i++)
        APR_RING_INIT(&w->buckets[i], vl_timer_t, link);
    return w;
}

void vl_wheel_set(vl_wheel_t *w, vl_timer_t *timer, apr_int64_t due_us)
{
    /* The first step that is not earlier than due_us. */
    apr_int64_t step = (due_us + VL_WHEEL_STEP_US - 1) / VL_WHEEL_STEP_US;

    vl_wheel_clear(timer);
    timer->due_us = due_us;
    APR_RING_INSERT_TAIL(bucket_of(w, step > w->step ? step : w->step), timer,
                         vl_timer_t, link);
}

void vl_wheel_clear(vl_timer_t *timer)
{
    if (timer->due_us)
        APR_RING_REMOVE(timer, link);
    timer->due_us = 0;
}

void vl_wheel_turn(vl_wheel_t *w, apr_int64_t now_us, vl_wheel_fn fn)
{
    apr_int64_t now = now_us / VL_WHEEL_STEP_US;
    vl_timer_t *timer, *next;
    struct timers_t due;

    APR_RING_INIT(&due, vl_timer_t, link);
    if (now - w->step >= VL_WHEEL_BUCKETS)
        w->step = now - VL_WHEEL_BUCKETS + 1;
    for (; w->step <= now; w->step++) {
        struct timers_t *bucket = bucket_of(w, w->step);

        for (timer = APR_RING_FIRST(bucket);
             timer != APR_RING_SENTINEL(bucket, vl_timer_t, link); timer = next) {
            next = APR_RING_NEXT(timer, link);
            if (timer->due_us > now_us)
                continue;
            APR_RING_REMOVE(timer, link);
            APR_RING_INSERT_TAIL(&due, timer, vl_timer_t, link);
        }
    }
    w->step = now;
    /* A callback may clear a timer that is still in the ring. */
    while (!APR_RING_EMPTY(&due, vl_timer_t, link)) {
        timer = APR_RING_FIRST(&due);
        vl_wheel_clear(timer);
        fn(timer);
    }
}
