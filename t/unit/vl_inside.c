/* SPDX-License-Identifier: Apache-2.0 */
/* What the other processes see of the queue inside a site. */
#include "segment.h"
#include "core/vl_inside.h"
#include "core/vl_waiters.h"

#define OTHER 1                 /* the column of another child */

static vl_shm_t *shm;
static apr_uint32_t a;
static vl_waiter_t waiters[8];

static void is_done(vl_waiter_t *waiter, const vl_ticket_t *ticket, vl_reason_e refused)
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
    waiter->done = is_done;
    vl_clients_prefix(address, sizeof(address), 32, 64, &waiter->client);
    waiter->client.class_no = (unsigned char)class_no;
    vl_clients_key(vl_shm_clients(shm), a, &waiter->client);
    vl_waiters_lock();
    vl_waiters_add_locked(waiter);
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

    vl_inside_read(shm, a, &inside);
    printf("# %u waiting, %u and %u by class, %u clients\n", inside.waiting,
           inside.classes[0].waiting, inside.classes[1].waiting, inside.clients);
    return inside.waiting == waiting && inside.classes[0].waiting == other
           && inside.classes[1].waiting == bots && inside.clients == clients;
}

/* The client with most waiters is that of waiters[i]. */
static int most_is(apr_uint32_t n, unsigned i)
{
    apr_uint64_t key;

    return vl_inside_most(shm, a, &key) == n && key == waiters[i].client.key;
}

static void this_child(void)
{
    vl_ticket_t held;
    apr_uint64_t key;

    ok(sees(0, 0, 0, 0) && !vl_inside_most(shm, a, &key) && !key, "nothing waits");
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
    vl_waiting_t *waiting = vl_segment_waiting(shm, OTHER, a);
    cell_t *cell = vl_segment_cell(shm, OTHER, a);

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
    vl_waiting_t *mine = vl_inside_mine(shm, a);

    mine->pid = 2;
    mine->clients = 9;
    ok(vl_inside_mine(shm, a) == mine && mine->pid == getpid() && !mine->clients,
       "a child does not go on with what the previous one has told");
}

int main(void)
{
    segment_init();
    shm = make(10, 2);
    a = account(shm, "a", 1);
    if (vl_shm_child_attach(shm, getpid(), 4) != APR_SUCCESS)
        abort();
    vl_slot_set(shm, 1);
    vl_waiters_child_init(pool, shm, 10, 4, 4);
    this_child();
    another_child();
    a_new_child();
    return tap_done();
}
