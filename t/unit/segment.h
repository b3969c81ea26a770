/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SEGMENT_H
#define SEGMENT_H

/* Helpers for tests of the shared segment: it is created, filled and checked. */

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apr_general.h>

#include "tap.h"
#include "validate.h"
#include "base/vl_clock.h"
#include "core/vl_shm_child.h"
#include "core/vl_slot.h"
#include "core/vl_segment.h"

#define NONE ((apr_uint32_t)-1)

static apr_pool_t *pool;

static inline void segment_init(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
}

static inline vl_shm_t *make_with_hosts(apr_uint32_t sites, apr_uint32_t hosts,
                                        apr_uint32_t children)
{
    vl_shm_t *shm = NULL;

    if (vl_shm_post_config_create(pool, sites, hosts, children, &shm) != APR_SUCCESS)
        abort();
    vl_shm_post_config_begin(shm);
    return shm;
}

static inline vl_shm_t *make(apr_uint32_t accounts, apr_uint32_t children)
{
    return make_with_hosts(accounts, 0, children);
}

/* One process is all children: each is a view of the segment with a column of its own, whose pid is
 * that of a process that sleeps. */
#define SLEEPERS 64
static pid_t sleepers[SLEEPERS];

static inline vl_shm_t view(const vl_shm_t *shm, int i, apr_uint32_t threads)
{
    vl_shm_t child = *shm;

    if (!sleepers[i] && !(sleepers[i] = fork())) {
        poll(NULL, 0, -1);
        _exit(0);
    }
    vl_shm_child_attach(&child, sleepers[i], threads);
    return child;
}

static inline void kill_sleeper(int i)
{
    kill(sleepers[i], SIGKILL);
    waitpid(sleepers[i], NULL, 0);
    sleepers[i] = 0;
}

static inline void end_sleepers(void)
{
    int i;

    for (i = 0; i < SLEEPERS; i++) {
        if (sleepers[i])
            kill_sleeper(i);
    }
}

static inline vl_limits_t limits_of(vl_mode_e mode, apr_uint32_t concurrency,
                                    apr_uint32_t queue)
{
    vl_limits_t limits = { mode, 100, concurrency, queue, 0 };

    return limits;
}

static inline apr_uint32_t account_with(vl_shm_t *shm, const char *name,
                                        vl_limits_t limits)
{
    const vl_values_t values = { { limits.weight, limits.concurrency, limits.queue,
                                   limits.cpu } };
    apr_uint32_t number = NONE;

    if (vl_shm_post_config_account(shm, name, limits.mode, &values, &number)
        != APR_SUCCESS)
        return NONE;
    return number;
}

static inline apr_uint32_t account(vl_shm_t *shm, const char *name,
                                   apr_uint32_t concurrency)
{
    return account_with(shm, name,
                        limits_of(VL_MODE_ON, concurrency, 100000));
}

static inline vl_account_snapshot_t snapshot(vl_shm_t *shm, apr_uint32_t a)
{
    vl_account_snapshot_t snap;

    if (vl_shm_snapshot(shm, a, &snap) != APR_SUCCESS)
        abort();
    return snap;
}

static inline vl_metrics_t metrics(vl_shm_t *shm, apr_uint32_t a)
{
    return snapshot(shm, a).metrics;
}

static inline int enter(vl_shm_t *shm, apr_uint32_t a, vl_ticket_t *ret_ticket)
{
    vl_admission_t adm;

    if (vl_slot_enter(shm, a, &adm) != APR_SUCCESS || !adm.entered)
        return 0;
    *ret_ticket = adm.ticket;
    return 1;
}

/* Ends a request that used so many us of CPU. */
static inline apr_status_t queue_one(vl_shm_t *shm, apr_uint32_t a, apr_int64_t since_us)
{
    return vl_slot_take_or_wait(shm, a, since_us, VL_WAIT, NULL);
}

static inline void end(vl_shm_t *shm, const vl_ticket_t *ticket,
                       apr_uint64_t us)
{
    vl_cost_t cost = { us, us, 0, NULL };

    vl_slot_end(shm, ticket, &cost);
}

static inline int valid(vl_shm_t *shm)
{
    const char *why = validate(shm);

    if (why)
        printf("# broken: %s\n", why);
    return !why;
}

/* Returns whether nothing is running, queued or granted. */
static inline int is_empty(vl_shm_t *shm)
{
    const vl_queue_head_t *q = shm->queue.head;
    apr_uint32_t c, left = q->running + q->waiting + q->heap.length
                           + shm->head->calls;

    for (c = 0; c < shm->head->children; c++)
        left += shm->children[c].ring_len;
    if (left)
        printf("# left: %u running, %u waiting, %u calls\n", q->running, q->waiting,
               shm->head->calls);
    return !left && valid(shm);
}

#endif
