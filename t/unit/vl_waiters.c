/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and connections that wait for a slot: grants, refusals and timeouts. */
#include "segment.h"
#include "core/vl_waiters.h"

#include <pthread.h>

#define WAIT_US 100000

static const vl_client_id_t no_client;
static vl_shm_t *shm;
static apr_uint32_t a;

static void begin(apr_uint32_t threads)
{
    shm = make(10, 2);
    a = account(shm, "a", 1);
    if (vl_shm_child_attach(shm, getpid(), threads) != APR_SUCCESS)
        abort();
    vl_slot_set(shm, 1);
    vl_waiters_child_init(pool, shm, 10, threads, 4);
}

static vl_grant_t wait_with_thread(int stream)
{
    vl_grant_t grant = { 0 };

    if (!vl_waiters_wait(a, &no_client, stream, WAIT_US, &grant))
        abort();
    return grant;
}

static void thread_waiters_are_granted(void)
{
    vl_ticket_t ticket;
    vl_grant_t grant;

    begin(4);
    grant = wait_with_thread(0);
    ok(grant.holds && !grant.refused, "a thread waiter gets a free slot");
    vl_slot_end(shm, &grant.ticket, NULL);
    if (!enter(shm, a, &ticket))
        abort();
    grant = wait_with_thread(0);
    ok(!grant.holds && grant.refused == VL_REASON_TIMEOUT,
       "a thread waiter gets the queue timeout");
    vl_slot_end(shm, &ticket, NULL);
    ok(is_empty(shm), "it is no longer counted");
}

static void *wait_in_thread(void *unused)
{
    wait_with_thread(0);
    return NULL;
}

static void one_account_leaves_threads(void)
{
    vl_grant_t grant = { 0 };
    vl_ticket_t ticket;
    pthread_t thread;
    int waited;

    begin(2);
    if (!enter(shm, a, &ticket) || pthread_create(&thread, NULL, wait_in_thread,
                                                  NULL))
        abort();
    while (!metrics(shm, a).waiting)
        apr_sleep(100);
    waited = vl_waiters_wait(a, &no_client, 0, WAIT_US, &grant);
    pthread_join(thread, NULL);
    ok(!waited && !grant.refused, "of two threads one may wait");
    ok(wait_with_thread(1).refused == VL_REASON_TIMEOUT, "threads of mod_http2 are counted apart");
    vl_slot_end(shm, &ticket, NULL);
    ok(is_empty(shm), "the segment is empty");
}

/* A child without a column in the segment. */
static void uncounted_requests_are_not_refused(void)
{
    vl_grant_t grant;
    int stream;

    begin(4);
    shm->self = NO_CHILD;
    for (stream = 0; stream < 2; stream++) {
        grant = wait_with_thread(stream);
        ok(!grant.holds && grant.refused == VL_REASON_NONE,
           "neither a slot nor a refusal, %s",
           stream ? "for a stream" : "for a thread");
    }
}

#define CROWD 8
static vl_waiter_t crowd[CROWD];
static struct {
    int n;
    vl_waiter_t *waiters[2 * CROWD];
    vl_reason_e reasons[2 * CROWD];
} results;

static void record(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                 vl_reason_e refused)
{
    if (ticket)
        vl_slot_end(shm, ticket, NULL);
    results.waiters[results.n] = waiter;
    results.reasons[results.n++] = refused;
}

/* Queues CROWD connections of an account whose queue has room for two, while a request
 * holds the only slot. */
static void enqueue_crowd(const vl_ticket_t *ticket)
{
    int i;

    memset(&results, 0, sizeof(results));
    memset(crowd, 0, sizeof(crowd));
    (void)ticket;
    vl_waiters_lock();
    for (i = 0; i < CROWD; i++) {
        crowd[i].account = a;
        crowd[i].since_us = 1000 + i;
        crowd[i].deadline_us = 2000 + i;
        crowd[i].done = record;
        crowd[i].may_defer = 1;
        vl_waiters_add_locked(&crowd[i]);
    }
    vl_waiters_unlock();
}

static void beyond_the_queue(void)
{
    vl_ticket_t ticket;
    int i, in_order = 1;

    begin(4);
    a = account_with(shm, "b", limits_of(VL_MODE_ON, 0, 2));
    if (!enter(shm, a, &ticket))
        abort();
    enqueue_crowd(&ticket);
    ok(!results.n && metrics(shm, a).waiting == 2 && metrics(shm, a).deferred == 6,
       "two connections are queued, six deferred, none is refused");
    vl_waiters_end(&ticket, NULL);
    vl_waiters_lock();
    vl_waiters_take_locked();
    vl_waiters_unlock();
    for (i = 0; i < results.n; i++)
        in_order &= results.waiters[i] == &crowd[i] && !results.reasons[i];
    ok(results.n == CROWD && in_order, "all get a slot, in order of arrival");
    ok(is_empty(shm) && metrics(shm, a).deferred == 0, "the segment is empty");
}

static void few_refusals_at_a_time(void)
{
    vl_ticket_t ticket;
    apr_uint32_t n;

    begin(4);
    a = account_with(shm, "b", limits_of(VL_MODE_ON, 0, 2));
    if (!enter(shm, a, &ticket))
        abort();
    enqueue_crowd(&ticket);
    vl_waiters_lock();
    n = vl_waiters_expire_locked(1999, 3);
    ok(!n && !results.n, "no connection is refused before its deadline");
    n = vl_waiters_expire_locked(3000, 3);
    ok(n == 3 && results.n == 3, "one call refuses no more than its maximum");
    ok(results.waiters[0] == &crowd[0] && results.reasons[0] == VL_REASON_TIMEOUT,
       "the reason of a queued connection is the timeout");
    ok(results.waiters[2] == &crowd[2] && results.reasons[2] == VL_REASON_QUEUE,
       "the reason of a deferred connection is the full queue, although it was queued since");
    vl_waiters_remove_locked(&crowd[7]);
    n = vl_waiters_expire_locked(3000, 100);
    vl_waiters_unlock();
    ok(n == 4 && results.n == 7 && results.waiters[6] == &crowd[6],
       "the next call refuses the others, except for one that has left");
    vl_slot_end(shm, &ticket, NULL);
    ok(is_empty(shm) && metrics(shm, a).deferred == 0, "the segment is empty");
}

int main(void)
{
    segment_init();
    beyond_the_queue();
    few_refusals_at_a_time();
    thread_waiters_are_granted();
    one_account_leaves_threads();
    uncounted_requests_are_not_refused();
    return tap_done();
}
