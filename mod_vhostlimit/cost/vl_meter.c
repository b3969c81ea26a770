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
/* Value of waits_us while the request is paused. */
#define PAUSED (-1)

APR_RING_HEAD(meters_t, vl_meter_t);

static struct {
    pthread_mutex_t lock;
    vl_shm_t *shm;
    struct meters_t running;
    apr_uint32_t used;              /* entries of the table of tasks that were ever used */
    apr_uint32_t n_free;
    apr_uint32_t free[VL_TASKS_MAX];    /* of these, the last one is used next */
} meters = { .lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };

apr_int64_t vl_meter_clock_us(clockid_t clock)
{
    struct timespec ts = { 0, 0 };

    clock_gettime(clock, &ts);
    return (apr_int64_t)ts.tv_sec * APR_USEC_PER_SEC + ts.tv_nsec / 1000;
}

apr_int64_t vl_meter_thread_us(void)
{
    return vl_meter_clock_us(CLOCK_THREAD_CPUTIME_ID);
}

/* Returns a free entry of the table of tasks, or VL_TASKS_MAX. */
static apr_uint32_t take_task_locked(void)
{
    if (meters.n_free)
        return meters.free[--meters.n_free];
    return meters.used < VL_TASKS_MAX ? meters.used++ : VL_TASKS_MAX;
}

/* Notes the account that is charged if a running request of another site waits for this one. The
 * sampler may find that out late. */
static void find_caller_locked(vl_meter_t *meter)
{
    if (meter->key && !meter->ticket->caller)
        vl_slot_found_caller(meters.shm, meter->ticket, vl_duty_call(meters.shm, meter->key));
}

task_t *vl_meter_take_task(void)
{
    task_t *task;

    pthread_mutex_lock(&meters.lock);
    task = vl_duty_take(meters.shm, take_task_locked());
    pthread_mutex_unlock(&meters.lock);
    return task;
}

void vl_meter_give_task(const task_t *task)
{
    if (!task)
        return;
    pthread_mutex_lock(&meters.lock);
    meters.free[meters.n_free++] = vl_duty_number(meters.shm, task);
    pthread_mutex_unlock(&meters.lock);
}

void vl_meter_child_init(vl_shm_t *shm)
{
    meters.shm = shm;
    meters.used = meters.n_free = 0;
    APR_RING_INIT(&meters.running, vl_meter_t, link);
}

/* --- requests with a slot --------------------------------------------------- */

void vl_meter_begin(vl_meter_t *meter, vl_ticket_t *ticket, apr_int64_t thread_from_us,
                    int client_fd, apr_uint32_t key, vl_meter_waits_fn *waits)
{
    memset(meter, 0, sizeof(*meter));
    meter->ticket = ticket;
    meter->waits = waits;
    meter->thread_from = thread_from_us;
    meter->key = key;
    pthread_getcpuclockid(pthread_self(), &meter->clock);
    pthread_mutex_lock(&meters.lock);
    APR_RING_INSERT_TAIL(&meters.running, meter, vl_meter_t, link);
    meter->task = take_task_locked();
    vl_duty_enter(meters.shm, meter->task, ticket->account, client_fd, key);
    find_caller_locked(meter);
    pthread_mutex_unlock(&meters.lock);
}

static void report_wait(const vl_meter_t *meter, int by)
{
    if (meter->waits)
        meter->waits(meter->ticket->account, by);
}

void vl_meter_may_last(vl_meter_t *meter)
{
    if (meter->may_last)
        return;
    meter->may_last = 1;
    report_wait(meter, 1);
}

void vl_meter_end(vl_meter_t *meter, vl_cost_t *cost)
{
    pthread_mutex_lock(&meters.lock);
    APR_RING_REMOVE(meter, link);
    find_caller_locked(meter);
    vl_duty_leave(meters.shm, meter->task);
    if (meter->task < VL_TASKS_MAX)
        meters.free[meters.n_free++] = meter->task;
    pthread_mutex_unlock(&meters.lock);
    cost->charged_us = meter->charged_us;
    if (meter->may_last)
        report_wait(meter, -1);
}

/* Returns the cost since the last charge and counts it as charged. Returns 0 if it is
 * less than least_us. */
static apr_uint64_t take_charge_us(vl_meter_t *meter, apr_uint64_t least_us)
{
    apr_int64_t us = vl_meter_clock_us(meter->clock) - meter->thread_from
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

    if (!meter->may_last)
        report_wait(meter, 1);
    vl_duty_pause(meters.shm, meter->task, 1);
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
    __atomic_store_n(&meter->waits_us, vl_clock_us(), __ATOMIC_RELEASE);
}

void vl_meter_go_on(vl_meter_t *meter)
{
    apr_int64_t since_us = __atomic_load_n(&meter->waits_us, __ATOMIC_RELAXED);

    if (!since_us
        || (since_us != PAUSED
            && __atomic_compare_exchange_n(&meter->waits_us, &since_us, 0, 0,
                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED)))
        return;
    pthread_mutex_lock(&meters.lock);
    if (__atomic_exchange_n(&meter->waits_us, 0, __ATOMIC_RELAXED) == PAUSED) {
        meter->paused_us += vl_clock_us() - meter->paused_since_us;
        if (!meter->may_last)
            report_wait(meter, -1);
        vl_duty_pause(meters.shm, meter->task, 0);
        vl_slot_go_on(meters.shm, meter->ticket);
    }
    pthread_mutex_unlock(&meters.lock);
}

void vl_meter_tick(apr_int64_t now_us)
{
    vl_meter_t *meter;
    apr_uint64_t us;

    pthread_mutex_lock(&meters.lock);
    for (meter = APR_RING_FIRST(&meters.running);
         meter != APR_RING_SENTINEL(&meters.running, vl_meter_t, link);
         meter = APR_RING_NEXT(meter, link)) {
        apr_int64_t since_us = __atomic_load_n(&meter->waits_us, __ATOMIC_RELAXED);

        /* The wait may end at this moment, without the lock. */
        if (since_us > 0 && now_us - since_us >= WAIT_MIN_US
            && __atomic_compare_exchange_n(&meter->waits_us, &since_us, PAUSED, 0,
                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            pause_locked(meter, now_us);
            continue;
        }
        find_caller_locked(meter);
        us = take_charge_us(meter, CHARGE_MIN_US);
        if (us)
            vl_slot_charge(meters.shm, vl_ticket_payer(meter->ticket), us);
    }
    pthread_mutex_unlock(&meters.lock);
}
