/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and connections that wait for a slot: grants, refusals and timeouts. */
#include "segment.h"
#include "core/vl_duty.h"
#include "core/vl_fair.h"
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

    if (!vl_waiters_wait(a, &no_client, 0, stream, WAIT_US, &grant))
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
    waited = vl_waiters_wait(a, &no_client, 0, 0, WAIT_US, &grant);
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
 * holds the only slot, which is in *ret_ticket. */
static void enqueue_crowd(vl_ticket_t *ret_ticket)
{
    int i;

    begin(4);
    a = account_with(shm, "b", limits_of(VL_MODE_ON, 0, 2));
    if (!enter(shm, a, ret_ticket))
        abort();
    memset(&results, 0, sizeof(results));
    memset(crowd, 0, sizeof(crowd));
    vl_waiters_lock();
    for (i = 0; i < CROWD; i++) {
        crowd[i].account = a;
        crowd[i].since_us = 1000 + i;
        crowd[i].deadline_us = 2000 + i;
        crowd[i].done = record;
        crowd[i].may_defer = 1;
        vl_waiters_take_or_queue_locked(&crowd[i], NULL);
    }
    vl_waiters_unlock();
}

#define KEY 0x40000001

/* A request waits that a running one of the same account, with a concurrency of 1, waits for. */
static void calls_go_ahead(void)
{
    vl_ticket_t ticket;

    begin(4);
    a = account_with(shm, "b", limits_of(VL_MODE_ON, 1, 10));
    if (!enter(shm, a, &ticket))
        abort();
    memset(&results, 0, sizeof(results));
    memset(crowd, 0, sizeof(crowd));
    crowd[0].account = crowd[1].account = a;
    crowd[0].done = crowd[1].done = record;
    crowd[1].key = KEY;
    vl_waiters_lock();
    vl_waiters_take_or_queue_locked(&crowd[0], NULL);
    vl_waiters_take_or_queue_locked(&crowd[1], NULL);
    vl_waiters_let_calls_locked();
    ok(!results.n && vl_duty_was_told(shm, VL_UNTIL_CALLS) && vl_duty_was_told(shm, VL_UNTIL_HELD_CALLS),
       "the sampler is told of a client on this machine, and that its site has a limit");
    vl_duty_note_call(shm, KEY, a);
    ok(vl_duty_queued(shm, KEY) == a, "the sampler sees that it is queued");
    vl_waiters_let_calls_locked();
    ok(vl_duty_queued(shm, KEY) == VL_NO_ACCOUNT && results.n == 1 && results.waiters[0] == &crowd[1] && !results.reasons[0],
       "a call goes ahead as soon as it is known to be one");
    vl_waiters_put_back_locked(&crowd[1]);
    ok(results.n == 1, "a new connection that could not use its slot waits again");
    vl_waiters_remove_locked(&crowd[1]);
    vl_waiters_take_or_queue_locked(&crowd[1], NULL);
    ok(results.n == 2 && results.waiters[1] == &crowd[1], "a known call does not wait");
    vl_waiters_remove_locked(&crowd[0]);
    vl_waiters_unlock();
    vl_slot_end(shm, &ticket, NULL);
    ok(is_empty(shm), "the segment is empty");
}

static void beyond_the_queue(void)
{
    vl_ticket_t ticket;
    int i, in_order = 1;

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

/* --- what the other processes see ------------------------------------------ */

#define OTHER 1                 /* the column of another child */

static vl_waiter_t waiters[8];

static void ignore(vl_waiter_t *waiter, const vl_ticket_t *ticket, vl_reason_e refused)
{
    (void)waiter;
    (void)ticket;
    (void)refused;
}

/* Queues a request of the client 10.0.0.n. */
static void queue_up(unsigned i, unsigned n, unsigned class_no)
{
    unsigned char address[4] = { 10, 0, 0, (unsigned char)n };
    vl_waiter_t *waiter = &waiters[i];

    memset(waiter, 0, sizeof(*waiter));
    waiter->account = a;
    waiter->since_us = vl_clock_us();
    waiter->deadline_us = waiter->since_us + 60000000;
    waiter->done = ignore;
    vl_clients_prefix(address, sizeof(address), 32, 64, &waiter->client);
    waiter->client.class_no = (unsigned char)class_no;
    vl_clients_key(shm, a, &waiter->client);
    vl_waiters_lock();
    vl_waiters_take_or_queue_locked(waiter, NULL);
    vl_waiters_unlock();
}

static void leave(unsigned i)
{
    vl_waiters_lock();
    vl_waiters_remove_locked(&waiters[i]);
    vl_waiters_unlock();
}

static int sees(apr_uint32_t waiting, apr_uint32_t other, apr_uint32_t bots,
                apr_uint32_t clients)
{
    vl_inside_t inside;

    vl_fair_read_clients(shm, a, &inside);
    printf("# %u waiting, %u and %u by class, %u clients\n", inside.waiting,
           inside.classes[0].waiting, inside.classes[1].waiting, inside.clients);
    return inside.waiting == waiting && inside.classes[0].waiting == other
           && inside.classes[1].waiting == bots && inside.clients == clients;
}

/* The client with most waiters is that of waiters[i]. */
static int most_is(apr_uint32_t n, unsigned i)
{
    apr_uint64_t key;

    return vl_fair_most_waiters(shm, a, &key) == n && key == waiters[i].client.key;
}

static void this_child(void)
{
    vl_ticket_t held;
    apr_uint64_t key;

    ok(sees(0, 0, 0, 0) && !vl_fair_most_waiters(shm, a, &key) && !key, "nothing waits");
    enter(shm, a, &held);
    queue_up(0, 1, 0);
    queue_up(1, 1, 0);
    queue_up(2, 2, 0);
    queue_up(3, 3, 1);
    ok(sees(4, 3, 1, 3), "waiters by class, and clients");
    ok(most_is(2, 0), "the client with two waiters has most");
    queue_up(4, 3, 1);
    queue_up(5, 3, 1);
    ok(sees(6, 3, 3, 3) && most_is(3, 3), "another client has most");
    leave(5);
    leave(4);
    leave(0);
    ok(sees(3, 2, 1, 3) && most_is(1, 3), "three have left");
    leave(3);
    ok(sees(2, 2, 0, 2), "a client without waiters is not counted");
    queue_up(3, 3, 1);
}

/* Another child tells what it has. */
static void another_child(void)
{
    vl_waiting_t *waiting = &shm->waiting[OTHER][a];
    cell_t *cell = &shm->cells[OTHER][a];

    shm->children[OTHER].pid = waiting->pid = 1;
    shm->head->columns = OTHER + 1;
    waiting->classes[1] = 7;
    waiting->clients = 2;
    waiting->most = 6;
    waiting->most_key = waiters[3].client.key;
    ok(sees(3, 2, 1, 3), "a child that has no waiter is not asked");
    cell->deferred = 7;
    ok(sees(10, 2, 8, 5) && most_is(7, 3), "two children are added up");
    waiting->pid = 2;
    ok(sees(3, 2, 1, 3) && most_is(1, 3), "what a dead child has told is not counted");
    shm->children[OTHER].pid = 0;
    waiting->pid = 0;
    ok(sees(3, 2, 1, 3), "nor is a column without a child");
    cell->deferred = 0;
}

static void a_new_child(void)
{
    vl_waiting_t *mine = &shm->waiting[0][a];

    leave(1);
    mine->pid = 2;
    mine->clients = 9;
    queue_up(0, 1, 0);
    ok(mine->pid == getpid() && mine->clients == 1,
       "a child does not go on with what the previous one has told");
}

static void others_see_the_waiters(void)
{
    begin(4);
    this_child();
    another_child();
    a_new_child();
}

int main(void)
{
    segment_init();
    beyond_the_queue();
    few_refusals_at_a_time();
    thread_waiters_are_granted();
    one_account_leaves_threads();
    uncounted_requests_are_not_refused();
    calls_go_ahead();
    others_see_the_waiters();
    return tap_done();
}
