/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_accept.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include <apr_thread_proc.h>
#include <mpm_common.h>

#include "accept/vl_acceptor.h"
#include "accept/vl_child.h"
#include "accept/vl_listener.h"
#include "accept/vl_prefork.h"
#include "base/vl_private.h"
#include "config/vl_conf.h"
#include "core/vl_shm_child.h"

static struct {
    int is_set_up;                  /* vl_accept_child_init() has decided */
    int replaces_listeners;         /* connections are queued as sockets */
    vl_listeners_t listeners;       /* of the thread */
    apr_thread_t *thread;           /* NULL: there is no such thread */
    pthread_mutex_t may_begin;      /* the thread starts to accept when it gets this */
} accepting;

static void *APR_THREAD_FUNC run(apr_thread_t *thread, void *data)
{
    struct sched_param param = { 0 };
    int tries;

    pthread_mutex_lock(&accepting.may_begin);
    pthread_mutex_unlock(&accepting.may_begin);
    /* New connections then do not preempt the work on accepted ones, so several are
     * classified per wake-up. */
    sched_setscheduler(0, SCHED_BATCH, &param);
    for (tries = 0; !vl_listener_child_take_over(&accepting.listeners)
                    && !vl_acceptor_is_stopping(); tries++) {
        if (tries == VL_LISTENER_TRIES)
            vl_listener_report_wait();
        apr_sleep(1000);
    }
    vl_acceptor_run(&accepting.listeners, NULL);
    return NULL;
}

/* Runs before the pool is destroyed that holds the acceptor's data. */
static apr_status_t stop(void *unused)
{
    apr_status_t rv;

    if (vl_acceptor_stop()) {
        apr_thread_join(&rv, accepting.thread);
        vl_acceptor_stop_watchdog();
        vl_acceptor_transfer_unbegun();
    }
    return APR_SUCCESS;
}

/* Starts the thread, and then replaces the listeners: without the thread no connection
 * would be accepted. The thread waits for vl_accept_child_begin(). pass_fd: see
 * vl_acceptor_open(). */
static apr_status_t start(int pass_fd)
{
    int *placeholders = NULL;       /* NULL: the MPM keeps its listeners */
    apr_status_t rv;

    if (!vl_listener_obstacle()) {
        placeholders = vl_listener_child_placeholders(pass_fd);
        if (!placeholders)
            return errno;
    }
    pthread_mutex_init(&accepting.may_begin, NULL);
    pthread_mutex_lock(&accepting.may_begin);
    rv = apr_thread_create(&accepting.thread, NULL, run, NULL, vl_child.pool);
    if (rv != APR_SUCCESS) {
        accepting.thread = NULL;
        vl_listener_child_discard(placeholders);
        return rv;
    }
    if (placeholders)
        vl_listener_child_replace(placeholders, &accepting.listeners);
    accepting.replaces_listeners = accepting.listeners.n > 0;
    apr_pool_pre_cleanup_register(vl_child.pool, NULL, stop);
    return APR_SUCCESS;
}

void vl_accept_child_init(void)
{
    apr_status_t rv;
    int pass_fd;

    if (vl_shm_child_wake_fd(vl_child.shm) < 0 || !vl_conf_knows_mpm())
        return;
    accepting.is_set_up = 1;
    if (vl_listener_is_threaded()) {
        pass_fd = vl_acceptor_open(0);
        rv = pass_fd < 0 ? errno : start(pass_fd);
        if (rv != APR_SUCCESS)
            vl_acceptor_fail(pass_fd, rv, "its requests wait with their threads");
    }
    else if (!vl_listener_obstacle())
        accepting.replaces_listeners = vl_prefork_child_init();
}

void vl_accept_child_begin(void)
{
    if (!accepting.thread)
        return;
    vl_acceptor_watch_leases();
    pthread_mutex_unlock(&accepting.may_begin);
    vl_acceptor_start_watchdog();
}

#if AP_MODULE_MAGIC_AT_LEAST(20120211, 110)
/* child_stopping hook. Prefork calls it for a child that ends alone, too. */
static void stop_at_once(apr_pool_t *pchild, int graceful)
{
    if (accepting.thread)
        vl_acceptor_expect_end(!graceful);
}
#endif

void vl_accept_register(void)
{
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 110)
    ap_hook_child_stopping(stop_at_once, NULL, NULL, APR_HOOK_MIDDLE);
#endif
}

/* Without the child_stopping hook a sleeping acceptor would not notice that the child stops. */
int vl_accept_may_rest(void)
{
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 110)
    return vl_accept_works() && !vl_is_one_process();
#else
    return 0;
#endif
}

int vl_accept_follows(void)
{
    return accepting.thread != NULL || accepting.replaces_listeners;
}

int vl_accept_keeps_time(void)
{
    return accepting.thread != NULL;
}

int vl_accept_works(void)
{
    return accepting.is_set_up ? accepting.replaces_listeners
                               : vl_conf_knows_mpm() && !vl_listener_obstacle();
}
