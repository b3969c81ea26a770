/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_meter.h"

#include <pthread.h>

#include <apr_time.h>

#include "vl_clock.h"

/* Less is left to the end of the request: a lock and a system call each. */
#define PAY_MIN_US 10000

APR_RING_HEAD(meters_t, vl_meter_t);

static struct {
    pthread_mutex_t lock;
    vl_shm_t *shm;
    struct meters_t running;
} meters = { .lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };

void vl_meter_child_init(vl_shm_t *shm)
{
    meters.shm = shm;
    APR_RING_INIT(&meters.running, vl_meter_t, link);
}

static apr_int64_t clock_us(clockid_t clock)
{
    struct timespec ts = { 0, 0 };

    clock_gettime(clock, &ts);
    return (apr_int64_t)ts.tv_sec * APR_USEC_PER_SEC + ts.tv_nsec / 1000;
}

apr_int64_t vl_meter_thread_us(void)
{
    return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

void vl_meter_begin(vl_meter_t *meter, apr_uint32_t account,
                    apr_int64_t thread_from_us)
{
    meter->account = account;
    meter->thread_from = thread_from_us;
    meter->elsewhere = meter->grouped = 0;
    meter->paid_us = 0;
    pthread_getcpuclockid(pthread_self(), &meter->clock);
    pthread_mutex_lock(&meters.lock);
    APR_RING_INSERT_TAIL(&meters.running, meter, vl_meter_t, link);
    pthread_mutex_unlock(&meters.lock);
}

void vl_meter_elsewhere(vl_meter_t *meter, int grouped)
{
    apr_uint64_t from = vl_charge_elsewhere(meters.shm, vl_clock_us());

    pthread_mutex_lock(&meters.lock);
    meter->elsewhere_from = from;
    meter->elsewhere = 1;
    meter->grouped = grouped;
    pthread_mutex_unlock(&meters.lock);
}

void vl_meter_end(vl_meter_t *meter, vl_cost_t *cost)
{
    pthread_mutex_lock(&meters.lock);
    APR_RING_REMOVE(meter, link);
    pthread_mutex_unlock(&meters.lock);
    cost->elsewhere = meter->elsewhere;
    cost->elsewhere_from = meter->elsewhere_from;
    cost->paid_us = meter->paid_us;
    cost->grouped = meter->grouped;
}

static apr_uint64_t so_far_us(const vl_meter_t *meter)
{
    apr_int64_t us = clock_us(meter->clock) - meter->thread_from;

    if (meter->elsewhere && !meter->grouped)
        us += (apr_int64_t)vl_charge_so_far(meters.shm, meter->account,
                                            meter->elsewhere_from);
    return us > 0 ? (apr_uint64_t)us : 0;
}

void vl_meter_tick(void)
{
    vl_meter_t *meter;

    pthread_mutex_lock(&meters.lock);
    for (meter = APR_RING_FIRST(&meters.running);
         meter != APR_RING_SENTINEL(&meters.running, vl_meter_t, link);
         meter = APR_RING_NEXT(meter, link)) {
        apr_uint64_t us = so_far_us(meter);

        if (us < meter->paid_us + PAY_MIN_US)
            continue;
        vl_charge_pay(meters.shm, meter->account, us - meter->paid_us);
        meter->paid_us = us;
    }
    pthread_mutex_unlock(&meters.lock);
}
