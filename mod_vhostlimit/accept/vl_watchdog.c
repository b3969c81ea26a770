/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_watchdog.h"

#include <pthread.h>

#include <apr_thread_proc.h>
#include <apr_time.h>

#include "base/vl_clock.h"

/* Longer than an acceptor that only waits for a processor takes. */
#define HANGS_US (1 * APR_USEC_PER_SEC)
/* Between two looks at one that lives, and while it hangs. */
#define LOOK_US (500 * 1000)
#define TICK_US (100 * 1000)

static struct {
    apr_thread_t *thread;
    void (*stand_in)(apr_int64_t now_us);
    apr_int64_t alive_us;           /* atomic: the last sign; 0: not missed */
    pthread_mutex_t lock;
    pthread_cond_t stop;
    int stopping;                   /* under the lock */
} deputy = { .lock = PTHREAD_MUTEX_INITIALIZER };

void vl_watchdog_alive(void)
{
    __atomic_store_n(&deputy.alive_us, vl_clock_us(), __ATOMIC_RELAXED);
}

void vl_watchdog_rest(void)
{
    __atomic_store_n(&deputy.alive_us, 0, __ATOMIC_RELAXED);
}

static int hangs(apr_int64_t now_us)
{
    apr_int64_t alive_us = __atomic_load_n(&deputy.alive_us, __ATOMIC_RELAXED);

    return alive_us && now_us - alive_us > HANGS_US;
}

static void wait_for_grant_locked(apr_int64_t until_us)
{
    struct timespec until = {
        (time_t)(until_us / APR_USEC_PER_SEC),
        (long)(until_us % APR_USEC_PER_SEC) * 1000
    };

    while (!deputy.stopping && vl_clock_us() < until_us)
        pthread_cond_timedwait(&deputy.stop, &deputy.lock, &until);
}

static void *APR_THREAD_FUNC run(apr_thread_t *thread, void *unused)
{
    pthread_mutex_lock(&deputy.lock);
    while (!deputy.stopping) {
        apr_int64_t now_us = vl_clock_us();
        int hanging = hangs(now_us);

        if (hanging) {
            pthread_mutex_unlock(&deputy.lock);
            deputy.stand_in(now_us);
            pthread_mutex_lock(&deputy.lock);
        }
        wait_for_grant_locked(now_us + (hanging ? TICK_US : LOOK_US));
    }
    pthread_mutex_unlock(&deputy.lock);
    return NULL;
}

void vl_watchdog_start(apr_pool_t *pchild, void (*stand_in)(apr_int64_t now_us))
{
    pthread_condattr_t attr;

    deputy.stand_in = stand_in;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, VL_CLOCK);
    pthread_cond_init(&deputy.stop, &attr);
    pthread_condattr_destroy(&attr);
    if (apr_thread_create(&deputy.thread, NULL, run, NULL, pchild)
        != APR_SUCCESS)
        deputy.thread = NULL;
}

void vl_watchdog_stop(void)
{
    apr_status_t rv;

    if (!deputy.thread)
        return;
    pthread_mutex_lock(&deputy.lock);
    deputy.stopping = 1;
    pthread_cond_signal(&deputy.stop);
    pthread_mutex_unlock(&deputy.lock);
    apr_thread_join(&rv, deputy.thread);
    deputy.thread = NULL;
}
