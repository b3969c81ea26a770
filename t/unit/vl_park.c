/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread is told that waits for a slot. */
#include "segment.h"
#include "core/vl_park.h"

#include <pthread.h>

#define WAIT_US 100000

static const vl_client_id_t nobody;
static vl_shm_t *shm;
static apr_uint32_t a;

static void begin(apr_uint32_t threads)
{
    shm = make(10, 2);
    a = account(shm, "a", 1);
    if (vl_shm_child_attach(shm, getpid(), threads) != APR_SUCCESS)
        abort();
    vl_slot_set(shm, 1);
    vl_park_child_init(pool, shm, 10, threads, 4);
}

static vl_grant_t wait_with_thread(int stream)
{
    vl_grant_t grant = { 0 };

    if (!vl_park_wait(a, &nobody, stream, WAIT_US, &grant))
        abort();
    return grant;
}

static void somebody_is_told(void)
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
       "or the queue timeout");
    vl_slot_end(shm, &ticket, NULL);
    ok(is_empty(shm), "and it is not counted any more");
}

static void *sit_in_thread(void *unused)
{
    wait_with_thread(0);
    return NULL;
}

static void threads_are_left(void)
{
    vl_grant_t grant = { 0 };
    vl_ticket_t ticket;
    pthread_t thread;
    int waited;

    begin(2);
    if (!enter(shm, a, &ticket) || pthread_create(&thread, NULL, sit_in_thread,
                                                  NULL))
        abort();
    while (!metrics(shm, a).waiting)
        apr_sleep(100);
    waited = vl_park_wait(a, &nobody, 0, WAIT_US, &grant);
    pthread_join(thread, NULL);
    ok(!waited && !grant.refused, "of two threads one may wait");
    ok(wait_with_thread(1).refused == VL_REASON_TIMEOUT, "threads of mod_http2 are others");
    vl_slot_end(shm, &ticket, NULL);
    ok(is_empty(shm), "nothing is left");
}

/* As a child is that has no place in the segment. */
static void who_cannot_be_counted_is_not_refused(void)
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
    vl_waiter_t *who[2 * CROWD];
    vl_reason_e why[2 * CROWD];
} told;

static void tell(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                 vl_reason_e refused)
{
    if (ticket)
        vl_slot_end(shm, ticket, NULL);
    told.who[told.n] = waiter;
    told.why[told.n++] = refused;
}

/* CROWD connections of an account whose queue has two places, while a request
 * holds the only slot. */
static void come(const vl_ticket_t *ticket)
{
    int i;

    memset(&told, 0, sizeof(told));
    memset(crowd, 0, sizeof(crowd));
    (void)ticket;
    vl_park_lock();
    for (i = 0; i < CROWD; i++) {
        crowd[i].account = a;
        crowd[i].since_us = 1000 + i;
        crowd[i].deadline_us = 2000 + i;
        crowd[i].done = tell;
        crowd[i].may_defer = 1;
        vl_park_add_locked(&crowd[i]);
    }
    vl_park_unlock();
}

static void beyond_the_queue(void)
{
    vl_ticket_t ticket;
    int i, in_order = 1;

    begin(4);
    a = account_with(shm, "b", limits_of(VL_MODE_ON, 0, 2));
    if (!enter(shm, a, &ticket))
        abort();
    come(&ticket);
    ok(!told.n && metrics(shm, a).waiting == 2 && metrics(shm, a).deferred == 6,
       "two connections are queued, six deferred, none is refused");
    vl_park_end(&ticket, NULL);
    vl_park_lock();
    vl_park_take_locked();
    vl_park_unlock();
    for (i = 0; i < told.n; i++)
        in_order &= told.who[i] == &crowd[i] && !told.why[i];
    ok(told.n == CROWD && in_order, "all get a slot, in the order they came");
    ok(is_empty(shm) && metrics(shm, a).deferred == 0, "nothing is left");
}

static void few_refusals_at_a_time(void)
{
    vl_ticket_t ticket;
    apr_uint32_t n;

    begin(4);
    a = account_with(shm, "b", limits_of(VL_MODE_ON, 0, 2));
    if (!enter(shm, a, &ticket))
        abort();
    come(&ticket);
    vl_park_lock();
    n = vl_park_expire_locked(1999, 3);
    ok(!n && !told.n, "none before its deadline");
    n = vl_park_expire_locked(3000, 3);
    ok(n == 3 && told.n == 3, "not more are refused than one call may refuse");
    ok(told.who[0] == &crowd[0] && told.why[0] == VL_REASON_TIMEOUT,
       "one that was queued from the beginning has waited too long");
    ok(told.who[2] == &crowd[2] && told.why[2] == VL_REASON_QUEUE,
       "one that came to a full queue is told so, though it was queued since");
    vl_park_remove_locked(&crowd[7]);
    n = vl_park_expire_locked(3000, 100);
    vl_park_unlock();
    ok(n == 4 && told.n == 7 && told.who[6] == &crowd[6],
       "the others with the next call, but for one that has left");
    vl_slot_end(shm, &ticket, NULL);
    ok(is_empty(shm) && metrics(shm, a).deferred == 0, "nothing is left");
}

int main(void)
{
    segment_init();
    beyond_the_queue();
    few_refusals_at_a_time();
    somebody_is_told();
    threads_are_left();
    who_cannot_be_counted_is_not_refused();
    return tap_done();
}
