/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_child.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <ap_mpm.h>

#include "base/vl_clock.h"
#include "base/vl_own.h"

vl_child_t vl_child;

/* Under prefork a signal that ends the child destroys its pools in the handler. A program that
 * Apache kills before it is executed, because its request has failed, would do that too: its
 * copy of the pools would release slots that the child still holds. */
static __thread sigset_t before_fork;

static void block_ends(void)
{
    sigset_t ends;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, &before_fork);
}

static void unblock_ends(void)
{
    pthread_sigmask(SIG_SETMASK, &before_fork, NULL);
}

static void end_by_signal(void)
{
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGHUP, SIG_DFL);
    unblock_ends();
}

void vl_child_guard_forks(void)
{
    pthread_atfork(block_ends, unblock_ends, end_by_signal);
}

void vl_child_init(const vl_child_t *child, int threads)
{
    struct rlimit limit;
    rlim_t reserved;

    vl_child = *child;
    vl_own_refresh(vl_clock_us());
    /* As many other connections are allowed as lingering ones. Both together use the descriptors
     * below RLIMIT_NOFILE that remain after these are reserved:
     *  - 5 for each thread (two for its client, a file, a back end, one spare), plus 100;
     *  - the open cgroup files;
     *  - one eventfd for each child process that can exist. */
    reserved = (rlim_t)threads * 5 + 100 + vl_child.place->open
               + vl_shm_facts(vl_child.shm).columns;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        vl_child.max_lingering = APR_UINT32_MAX;
    else
        vl_child.max_lingering = limit.rlim_cur > reserved + 1
                                 ? (apr_uint32_t)((limit.rlim_cur - reserved) / 2) : 1;
    if (ap_mpm_query(AP_MPMQ_IS_ASYNC, &vl_child.is_async) != APR_SUCCESS)
        vl_child.is_async = 0;
}
