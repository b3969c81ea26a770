/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_meter.h"

#include <pthread.h>
#include <string.h>

#include <apr_time.h>

#include "base/vl_clock.h"
#include "core/vl_waiters.h"

/* A smaller amount is charged at the end of the request. Each charge costs a lock and a
 * system call. */
#define CHARGE_MIN_US 10000
/* A stream whose thread writes for this long waits for its client. */
#define WAIT_MIN_US 10000
/* A write that takes this long has blocked. */
#define BLOCKED_MIN_US 500
/* Value of waits_us while the request is paused. */
#define PAUSED (-1)

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

void vl_meter_begin(vl_meter_t *meter, vl_ticket_t *ticket,
                    apr_int64_t thread_from_us, vl_meter_waits_fn *waits)
{
    memset(meter, 0, sizeof(*meter));
    meter->ticket = ticket;
    meter->waits = waits;
    meter->thread_from = thread_from_us;
    pthread_getcpuclockid(pthread_self(), &meter->clock);
    pthread_mutex_lock(&meters.lock);
    APR_RING_INSERT_TAIL(&meters.running, meter, vl_meter_t, link);
    pthread_mutex_unlock(&meters.lock);
}

static void report_wait(const vl_meter_t *meter, int by)
{
    if (meter->waits)
        meter->waits(meter->ticket->account, by);
}

void vl_meter_elsewhere(vl_meter_t *meter, int grouped)
{
    apr_uint64_t from = vl_charge_elsewhere(meters.shm, vl_clock_us());

    pthread_mutex_lock(&meters.lock);
    meter->elsewhere_from = from;
    meter->elsewhere = 1;
    meter->grouped = grouped;
    pthread_mutex_unlock(&meters.lock);
    report_wait(meter, 1);
}

/* Takes the time of a write that blocked off the back end's cost. The back end has usually
 * ended its work then: its output is in the kernel's buffer. The write may be the one that
 * ends the request. Requires the lock. */
static void forgive_wait_locked(vl_meter_t *meter)
{
    apr_int64_t since_us = __atomic_load_n(&meter->waits_us, __ATOMIC_ACQUIRE);

    if (meter->elsewhere && since_us > 0 && vl_clock_us() - since_us >= BLOCKED_MIN_US)
        meter->elsewhere_from += vl_charge_elsewhere_clock(meters.shm)
                                 - meter->elsewhere_at_wait;
}

void vl_meter_end(vl_meter_t *meter, vl_cost_t *cost)
{
    pthread_mutex_lock(&meters.lock);
    APR_RING_REMOVE(meter, link);
    forgive_wait_locked(meter);
    pthread_mutex_unlock(&meters.lock);
    cost->elsewhere = meter->elsewhere;
    cost->elsewhere_from = meter->elsewhere_from;
    cost->charged_us = meter->charged_us;
    cost->grouped = meter->grouped;
    if (meter->elsewhere)
        report_wait(meter, -1);
}

/* Returns the back end's cost so far, 0 if it is in the account's cgroup and measured
 * there. */
static apr_uint64_t elsewhere_us(const vl_meter_t *meter)
{
    if (!meter->elsewhere || meter->grouped)
        return 0;
    return __atomic_load_n(&meter->waits_us, __ATOMIC_RELAXED) == PAUSED
           ? meter->elsewhere_us
           : vl_charge_so_far(meters.shm, meter->ticket->account,
                              meter->elsewhere_from);
}

/* Returns the cost since the last charge and counts it as charged. Returns 0 if it is
 * less than least_us. */
static apr_uint64_t take_charge_us(vl_meter_t *meter, apr_uint64_t least_us)
{
    apr_int64_t us = clock_us(meter->clock) - meter->thread_from
                     + (apr_int64_t)elsewhere_us(meter)
                     - (apr_int64_t)meter->charged_us;

    if (us <= 0 || (apr_uint64_t)us < least_us)
        return 0;
    meter->charged_us += (apr_uint64_t)us;
    return (apr_uint64_t)us;
}

/* --- waiting for the client ----------------------------------------------- */

static void pause_locked(vl_meter_t *meter, apr_int64_t now_us)
{
    apr_uint64_t us = take_charge_us(meter, 0);

    if (meter->elsewhere) {
        meter->elsewhere_us = elsewhere_us(meter);
        meter->elsewhere_done = vl_charge_elsewhere_pause(
                                    meters.shm, now_us, meter->elsewhere_from);
    }
    else {
        report_wait(meter, 1);
    }
    meter->paused_since_us = now_us;
    vl_waiters_pause(meter->ticket, us);
}

void vl_meter_pause(vl_meter_t *meter)
{
    pthread_mutex_lock(&meters.lock);
    if (__atomic_exchange_n(&meter->waits_us, PAUSED, __ATOMIC_RELAXED) != PAUSED)
        pause_locked(meter, vl_clock_us());
    pthread_mutex_unlock(&meters.lock);
}

void vl_meter_may_wait(vl_meter_t *meter)
{
    meter->elsewhere_at_wait = vl_charge_elsewhere_clock(meters.shm);
    __atomic_store_n(&meter->waits_us, vl_clock_us(), __ATOMIC_RELEASE);
}

static void go_on_locked(vl_meter_t *meter, apr_int64_t now_us)
{
    meter->paused_us += now_us - meter->paused_since_us;
    if (meter->elsewhere)
        meter->elsewhere_from = vl_charge_elsewhere_go_on(
                                    meters.shm, now_us, meter->elsewhere_done);
    else
        report_wait(meter, -1);
    vl_slot_go_on(meters.shm, meter->ticket);
}

void vl_meter_go_on(vl_meter_t *meter)
{
    apr_int64_t since_us = __atomic_load_n(&meter->waits_us, __ATOMIC_RELAXED);

    if (!since_us
        || (since_us != PAUSED && vl_clock_us() - since_us < BLOCKED_MIN_US
            && __atomic_compare_exchange_n(&meter->waits_us, &since_us, 0, 0,
                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED)))
        return;
    pthread_mutex_lock(&meters.lock);
    forgive_wait_locked(meter);
    if (__atomic_exchange_n(&meter->waits_us, 0, __ATOMIC_RELAXED) == PAUSED)
        go_on_locked(meter, vl_clock_us());
    pthread_mutex_unlock(&meters.lock);
}

static void tick_locked(vl_meter_t *meter, apr_int64_t now_us)
{
    apr_int64_t since_us = __atomic_load_n(&meter->waits_us, __ATOMIC_RELAXED);
    apr_uint64_t us;

    if (since_us > 0 && now_us - since_us >= WAIT_MIN_US) {
        forgive_wait_locked(meter);
        /* The wait may end at this moment, without the lock. */
        if (__atomic_compare_exchange_n(&meter->waits_us, &since_us, PAUSED, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            pause_locked(meter, now_us);
            return;
        }
    }
    us = take_charge_us(meter, CHARGE_MIN_US);
    if (us)
        vl_charge_part(meters.shm, meter->ticket->account, us);
}

void vl_meter_tick(apr_int64_t now_us)
{
    vl_meter_t *meter;

    pthread_mutex_lock(&meters.lock);
    for (meter = APR_RING_FIRST(&meters.running);
         meter != APR_RING_SENTINEL(&meters.running, vl_meter_t, link);
         meter = APR_RING_NEXT(meter, link))
        tick_locked(meter, now_us);
    pthread_mutex_unlock(&meters.lock);
}
