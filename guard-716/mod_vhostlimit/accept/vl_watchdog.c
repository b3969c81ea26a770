/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_watchdog.h"

#include <pthread.h>

#include <apr_thread_proc.h>
#include <apr_time.h>

#include "base/vl_clock.h"

/* More than an acceptor needs that only waits for a processor. */
#define STALLED_US (1 * APR_USEC_PER_SEC)
/* Intervals of the thread: while the acceptor runs, and while it is stalled. */
#define CHECK_US (500 * 1000)
#define TICK_US (100 * 1000)

static struct {
    apr_thread_t *thread;
    void (*while_stalled)(apr_int64_t now_us);
    apr_int64_t alive_us;           /* atomic: last sign of life; 0: it is not expected */
    pthread_mutex_t lock;
    pthread_cond_t stop;
    int stopping;                   /* under the lock */
} watchdog = { .lock = PTHREAD_MUTEX_INITIALIZER };

void vl_watchdog_alive(void)
{
    if (__atomic_exchange_n(&watchdog.alive_us, vl_clock_us(), __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&watchdog.lock);
    pthread_cond_signal(&watchdog.stop);
    pthread_mutex_unlock(&watchdog.lock);
}

void vl_watchdog_rest(void)
{
    __atomic_store_n(&watchdog.alive_us, 0, __ATOMIC_RELAXED);
}

static int is_stalled(apr_int64_t now_us)
{
    apr_int64_t alive_us = __atomic_load_n(&watchdog.alive_us, __ATOMIC_RELAXED);

    return alive_us && now_us - alive_us > STALLED_US;
}

/* Waits without an end while no sign of life is expected. */
static void wait_until_locked(apr_int64_t until_us)
{
    struct timespec until = {
        (time_t)(until_us / APR_USEC_PER_SEC),
        (long)(until_us % APR_USEC_PER_SEC) * 1000
    };

    while (!watchdog.stopping && !__atomic_load_n(&watchdog.alive_us, __ATOMIC_RELAXED))
        pthread_cond_wait(&watchdog.stop, &watchdog.lock);
    while (!watchdog.stopping && vl_clock_us() < until_us)
        pthread_cond_timedwait(&watchdog.stop, &watchdog.lock, &until);
}

static void *APR_THREAD_FUNC run(apr_thread_t *thread, void *unused)
{
    pthread_mutex_lock(&watchdog.lock);
    while (!watchdog.stopping) {
        apr_int64_t now_us = vl_clock_us();
        int stalled = is_stalled(now_us);

        if (stalled) {
            pthread_mutex_unlock(&watchdog.lock);
            watchdog.while_stalled(now_us);
            pthread_mutex_lock(&watchdog.lock);
        }
        wait_until_locked(now_us + (stalled ? TICK_US : CHECK_US));
    }
    pthread_mutex_unlock(&watchdog.lock);
    return NULL;
}

void vl_watchdog_start(apr_pool_t *pchild, void (*while_stalled)(apr_int64_t now_us))
{
    pthread_condattr_t attr;

    watchdog.while_stalled = while_stalled;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, VL_CLOCK);
    pthread_cond_init(&watchdog.stop, &attr);
    pthread_condattr_destroy(&attr);
    if (apr_thread_create(&watchdog.thread, NULL, run, NULL, pchild)
        != APR_SUCCESS)
        watchdog.thread = NULL;
}

void vl_watchdog_stop(void)
{
    apr_status_t rv;

    if (!watchdog.thread)
        return;
    pthread_mutex_lock(&watchdog.lock);
    watchdog.stopping = 1;
    pthread_cond_signal(&watchdog.stop);
    pthread_mutex_unlock(&watchdog.lock);
    apr_thread_join(&rv, watchdog.thread);
    watchdog.thread = NULL;
}
