/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of several children. Where the order of events matters, one process is all children
 * (segment.h). Elsewhere they are forked. */
#include "segment.h"
#include "core/vl_fair.h"
#include "core/vl_duty.h"
#include "core/vl_slot.h"

#define CHILDREN 48

/* Makes a segment for the tests with two children of ten threads. */
static vl_shm_t *make_two(apr_uint32_t slots, vl_shm_t *one, vl_shm_t *two)
{
    vl_shm_t *shm = make(4, CHILDREN);

    vl_slot_set(shm, slots);
    *one = view(shm, 0, 10);
    *two = view(shm, 1, 10);
    return shm;
}

/* Returns how often the child was woken since the last call. */
static apr_uint64_t woken(const vl_shm_t *child)
{
    apr_uint64_t count;

    return read(vl_shm_child_wake_fd(child), &count, sizeof(count))
           == sizeof(count) ? count : 0;
}

/* Takes and ends all grants; returns their number. */
static apr_uint32_t drain(vl_shm_t *child)
{
    vl_ticket_t ticket;
    apr_uint32_t n = 0;

    while (vl_slot_take(child, &ticket) == APR_SUCCESS) {
        vl_slot_end(child, &ticket, NULL);
        n++;
    }
    return n;
}

static void a_grant_wakes_another_child(void)
{
    vl_shm_t one, two, *shm = make_two(1, &one, &two);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t held, ticket;

    enter(&one, a, &held);
    queue_one(&two, a, vl_clock_us());
    queue_one(&two, a, vl_clock_us());
    ok(!woken(&one) && !woken(&two) && !vl_slot_granted(&two),
       "no slot is granted above the slots");
    vl_slot_end(&one, &held, NULL);
    ok(vl_slot_granted(&two) && !vl_slot_granted(&one) && woken(&two) == 1,
       "a released slot is granted to another child, which is woken");
    ok(vl_slot_take(&one, &ticket) == APR_EAGAIN
       && vl_slot_take(&two, &ticket) == APR_SUCCESS, "the woken child takes the grant");
    vl_slot_end(&two, &ticket, NULL);
    ok(vl_slot_granted(&two) && !woken(&two), "a child does not wake itself");
    ok(drain(&two) == 1 && is_empty(shm), "the segment is empty");
}

static void one_wake_is_enough(void)
{
    vl_shm_t one, two, *shm = make_two(4, &one, &two);
    apr_uint32_t a = account(shm, "a", 0), i;
    vl_ticket_t held[4];

    for (i = 0; i < 4; i++)
        enter(&one, a, &held[i]);
    for (i = 0; i < 4; i++)
        queue_one(&two, a, vl_clock_us());
    for (i = 0; i < 3; i++)
        vl_slot_end(&one, &held[i], NULL);
    ok(woken(&two) == 1, "several grants wake a child once");
    ok(drain(&two) == 4, "all grants are available");
    queue_one(&two, a, vl_clock_us());
    drain(&two);
    for (i = 0; i < 3; i++)
        enter(&one, a, &held[i]);
    queue_one(&two, a, vl_clock_us());
    ok(!vl_slot_granted(&two) && !woken(&two), "all slots are in use again");
    vl_slot_end(&one, &held[0], NULL);
    ok(woken(&two) == 1 && drain(&two) == 1,
       "a child that has found no more grants is woken again");
    for (i = 1; i < 4; i++)
        vl_slot_end(&one, &held[i], NULL);
    ok(is_empty(shm), "the segment is empty");
}

static void no_queue_stalls(void)
{
    vl_shm_t one, two, *shm = make_two(1, &one, &two);
    apr_uint32_t a = account(shm, "a", 0), i;
    vl_ticket_t held;

    enter(&one, a, &held);
    for (i = 0; i < 4; i++) {
        queue_one(&one, a, vl_clock_us());
        queue_one(&two, a, vl_clock_us());
    }
    vl_slot_end(&one, &held, NULL);
    ok(vl_slot_granted(&one) && !vl_slot_granted(&two),
       "the running child is preferred");
    shm->cells[1][a].first.since_us -= 1000000;
    vl_slot_take(&one, &held);
    vl_slot_end(&one, &held, NULL);
    ok(vl_slot_granted(&two) && !vl_slot_granted(&one),
       "a child with requests that have waited for long is preferred to it");
    drain(&two);
    drain(&one);
    drain(&two);
    ok(is_empty(shm), "all requests were granted a slot");
}

/* Tells the others that a waiter of the client arrived now. */
static void tell_first(vl_shm_t *child, apr_uint32_t account, const vl_client_id_t *client)
{
    child->cells[child->self][account].first
        = (vl_first_t){ .key = client->key, .since_us = vl_clock_us() };
}

/* Two children of a site with two clients. Child one holds the only slot. */
static vl_shm_t *two_clients(vl_shm_t *one, vl_shm_t *two, vl_client_id_t *flood,
                             vl_client_id_t *visitor, vl_ticket_t *held)
{
    vl_shm_t *shm = make_two(1, one, two);
    apr_uint32_t a = account(shm, "a", 0);

    *flood = (vl_client_id_t){ .prefix = { 1 } };
    *visitor = (vl_client_id_t){ .prefix = { 2 } };
    vl_clients_key(shm, a, flood);
    vl_clients_key(shm, a, visitor);
    enter(one, a, held);
    return shm;
}

/* Each child tells of a client, which is charged later. The slot is granted in child two. */
static void charged_later(const char *title, int flood_is_in_one, apr_uint64_t visitor_us, apr_uint32_t in_two)
{
    vl_client_id_t flood, visitor;
    vl_ticket_t held;
    vl_shm_t one, two, *shm = two_clients(&one, &two, &flood, &visitor, &held);
    apr_uint32_t a = held.account;

    queue_one(&one, a, vl_clock_us());
    tell_first(&one, a, flood_is_in_one ? &flood : &visitor);
    queue_one(&two, a, vl_clock_us());
    tell_first(&two, a, flood_is_in_one ? &visitor : &flood);
    shm->inner[a].backlog_us = vl_clock_us();
    if (visitor_us)
        vl_fair_charge_client(shm, a, &visitor, visitor_us, 1);
    vl_fair_charge_client(shm, a, &flood, 100000, 1);
    shm->waiting[two.self][a].clients = in_two;
    vl_slot_end(&one, &held, NULL);
    ok(vl_slot_granted(&two) && !vl_slot_granted(&one), "%s", title);
    drain(&two);
    drain(&one);
    ok(is_empty(shm), "the segment is empty");
}

static void a_charged_client_is_behind_in_every_child(void)
{
    charged_later("what a client was charged after its child told of it counts", 1, 0, 0);
    charged_later("another client that waits in the child that told of the flood may be first then", 0, 20000, 2);
}

static void a_client_is_charged_while_others_wait(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one;
    apr_uint32_t a = account(shm, "a", 0);
    vl_client_id_t client = { .prefix = { 1 } };
    vl_client_entry_t entry;
    vl_ticket_t held;

    vl_clients_key(shm, a, &client);
    vl_slot_set(shm, 1);
    one = view(shm, 0, 10);
    enter(&one, a, &held);
    shm->inner[a].backlog_us = vl_clock_us() - 2000000;
    vl_fair_charge_client(shm, a, &client, 1000, 1);
    ok(!vl_fair_find_client(vl_shm_clients(shm), client.key, &entry),
       "a client is not charged two seconds after a request had to wait");
    queue_one(&one, a, vl_clock_us() - 2000000);
    vl_fair_charge_client(shm, a, &client, 1000, 1);
    ok(vl_fair_find_client(vl_shm_clients(shm), client.key, &entry) && entry.cpu_us == 1000,
       "unless a request has waited since");
    vl_fair_charge_client(shm, a, &client, 500, 0);
    ok(vl_fair_find_client(vl_shm_clients(shm), client.key, &entry) && entry.cpu_us == 1500
       && entry.requests == 1, "CPU time of its connection is no request");
    vl_slot_end(&one, &held, NULL);
    drain(&one);
    ok(is_empty(shm), "the segment is empty");
}

static apr_uint64_t charged(vl_shm_t *shm, const vl_client_id_t *client)
{
    vl_client_entry_t entry = { 0 };

    return vl_fair_find_client(vl_shm_clients(shm), client->key, &entry) ? entry.cpu_us : 0;
}

static void the_client_that_waited_is_charged(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one;
    apr_uint32_t a = account(shm, "a", 0);
    vl_client_id_t waited = { .prefix = { 1 } }, is = { .prefix = { 2 } };
    vl_cost_t cost = { .cpu_us = 5000, .client = &is };
    vl_ticket_t held;

    vl_clients_key(shm, a, &waited);
    vl_clients_key(shm, a, &is);
    vl_slot_set(shm, 1);
    one = view(shm, 0, 10);
    enter(&one, a, &held);
    shm->inner[a].backlog_us = vl_clock_us();
    held.client = waited;
    vl_slot_end(&one, &held, &cost);
    ok(charged(shm, &is) && !charged(shm, &waited),
       "a request that did not wait is charged to its own client");
    enter(&one, a, &held);
    held.client = waited;
    held.client_us = 1;
    vl_slot_end(&one, &held, &cost);
    ok(charged(shm, &waited) == charged(shm, &is) / 2,
       "a request that waited as another client is charged to that one too");
    ok(is_empty(shm), "the segment is empty");
}

static void a_child_without_threads_gets_nothing(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one, two;
    apr_uint32_t a = account(shm, "a", 0), i;
    vl_ticket_t held[8];

    vl_slot_set(shm, 100);
    one = view(shm, 0, 4);
    two = view(shm, 1, 4);
    for (i = 0; i < 3; i++)
        enter(&one, a, &held[i]);
    queue_one(&one, a, vl_clock_us());
    ok(!vl_slot_granted(&one), "a request in a child without a free thread is granted nothing");
    queue_one(&two, a, vl_clock_us());
    ok(vl_slot_granted(&two) && drain(&two) == 1,
       "requests in other children are granted slots");
    vl_slot_end(&one, &held[0], NULL);
    ok(drain(&one) == 1, "a request is granted a slot when a thread is free");
    for (i = 1; i < 3; i++)
        vl_slot_end(&one, &held[i], NULL);
    ok(is_empty(shm), "the segment is empty");
}

static void a_paused_child_gets_nothing(void)
{
    vl_shm_t one, two, *shm = make_two(100, &one, &two);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), first;

    vl_shm_child_pause(&one, 1);
    queue_one(&one, a, vl_clock_us());
    queue_one(&one, b, vl_clock_us());
    ok(!vl_slot_granted(&one), "a paused child is granted nothing");
    queue_one(&two, a, vl_clock_us());
    queue_one(&two, b, vl_clock_us());
    ok(drain(&two) == 2, "another child is granted slots for the same accounts");
    vl_shm_child_pause(&one, 0);
    first = drain(&one);
    ok(first == 2, "when it resumes it is granted the free slots");
    vl_slot_set(shm, 100);
    ok(first + drain(&one) == 2 && is_empty(shm), "at the next dispatch at "
       "the latest");
}

static void a_stalled_child_gets_nothing(void)
{
    vl_shm_t one, two, *shm = make_two(100, &one, &two);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 1);
    apr_int64_t now = vl_clock_us();

    queue_one(&one, a, now);
    queue_one(&one, b, now);
    queue_one(&two, b, now);
    ok(vl_slot_granted(&one) && !vl_slot_granted(&two),
       "the only slot of b is granted to the child with the first request");
    vl_slot_revoke_stalled(&two, now + 500000);
    ok(!vl_slot_granted(&two), "the grant stays with the child for a while");
    vl_slot_revoke_stalled(&one, now + 5000000);
    ok(shm->children[0].ring_len == 2, "a child does not revoke its own grants");
    vl_slot_revoke_stalled(&two, now + 5000000);
    ok(!shm->children[0].ring_len && valid(shm) && drain(&two) == 1,
       "a grant that is not picked up goes to the other child");
    ok(metrics(shm, a).waiting == 1 && metrics(shm, b).waiting == 1
       && !metrics(shm, b).running, "requests of the stalled child stay queued");
    queue_one(&two, a, now);
    ok(drain(&two) == 1 && !shm->children[0].ring_len,
       "a stalled child is granted nothing");
    ok(vl_slot_granted(&one) && drain(&one) == 2 && is_empty(shm),
       "it is granted slots when it takes grants again");
}

/* Thread waiters need no thread of the MPM. */
static void thread_waiters_are_granted_in_a_paused_child(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one;
    apr_uint32_t a = account(shm, "a", 0), i;
    vl_ticket_t held;

    vl_slot_set(shm, 100);
    one = view(shm, 0, 4);
    vl_shm_child_pause(&one, 1);
    queue_one(&one, a, vl_clock_us());
    vl_slot_count_in_mpm(&one, a, 1, 1);
    queue_one(&one, a, vl_clock_us());
    ok(vl_slot_take(&one, &held) == APR_SUCCESS && !vl_slot_granted(&one)
       && vl_slot_only_in_mpm(&one),
       "a paused child is granted as many slots as it has thread waiters");
    vl_slot_count_in_mpm(&one, a, 1, -1);
    vl_slot_end(&one, &held, NULL);
    ok(!vl_slot_granted(&one), "a paused child is granted no more");
    vl_shm_child_pause(&one, 0);
    ok(drain(&one) == 1 && !vl_slot_only_in_mpm(&one), "it is granted slots when it resumes");
    for (i = 0; i < 3; i++)
        vl_slot_occupy(&one, a, VL_OCCUPY);
    queue_one(&one, a, vl_clock_us());
    ok(!vl_slot_granted(&one), "a child without a free thread has no capacity");
    vl_slot_unoccupy(&one, a);
    ok(drain(&one) == 1 && is_empty(shm), "it has capacity when a connection has ended");
}

/* The accounts with the least virtual time are queued in a child that cannot serve. */
static void queues_of_a_paused_child_delay_no_other(void)
{
    vl_shm_t *shm = make(32, CHILDREN), one, two;
    apr_uint32_t a, n;

    for (a = 0; a < 32; a++) {
        char name[2] = { (char)('A' + a), '\0' };

        account(shm, name, 0);
    }
    for (n = 15; n <= 30; n += 15) {
        apr_uint32_t served;

        vl_slot_set(shm, 100);
        one = view(shm, 0, 50);
        two = view(shm, 1, 50);
        vl_shm_child_pause(&one, 1);
        for (a = 0; a < n; a++)
            queue_one(&one, a, vl_clock_us());
        queue_one(&two, 31, vl_clock_us());
        served = drain(&two);
        if (n <= 15)
            ok(served == 1, "%u accounts that are queued in a paused child do not "
               "delay one in another", n);
        else
            ok(served == 1, "%u accounts in a paused child do not delay one in another", n);
        vl_shm_parent_reclaim(shm, sleepers[0]);
        vl_shm_parent_reclaim(shm, sleepers[1]);
        ok(is_empty(shm), "the segment is empty");
    }
}

static void many_are_woken_at_once(void)
{
    vl_shm_t *shm = make(4, CHILDREN), children[CHILDREN];
    apr_uint32_t a = account(shm, "a", 1), i, granted = 0, awake = 0;
    vl_ticket_t held;

    vl_slot_set(shm, 2 * CHILDREN);     /* a single account leaves some */
    for (i = 0; i < CHILDREN; i++)
        children[i] = view(shm, (int)i, 4);
    enter(&children[0], a, &held);
    for (i = 0; i < CHILDREN; i++)
        queue_one(&children[i], a, vl_clock_us());
    ok(metrics(shm, a).waiting == CHILDREN, "one request is queued in each child");
    account(shm, "a", 0);
    vl_slot_end(&children[0], &held, NULL);
    for (i = 0; i < CHILDREN; i++) {
        int is = vl_slot_granted(&children[i]);

        granted += (apr_uint32_t)is;
        awake += (is && i) == (woken(&children[i]) == 1);
    }
    ok(awake == CHILDREN, "only children with a grant were woken");
    ok(granted == CHILDREN, "all children were granted a slot (%u of %u)", granted, CHILDREN);
    for (i = 0; i < CHILDREN; i++)
        drain(&children[i]);
    for (i = 0; i < CHILDREN; i++)
        drain(&children[i]);
    ok(is_empty(shm), "the segment is empty");
}

static void dead_children_leave_nothing(void)
{
    vl_shm_t one, two, *shm = make_two(5, &one, &two);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);
    vl_ticket_t held[2], call;

    enter(&one, a, &held[0]);
    vl_slot_ask_call(&one, a, VL_CALL_OF_UNKNOWN, 0, &call);
    queue_one(&one, a, vl_clock_us());
    queue_one(&one, a, vl_clock_us());
    queue_one(&one, b, vl_clock_us());
    queue_one(&one, b, vl_clock_us());
    queue_one(&one, b, vl_clock_us());
    enter(&two, b, &held[1]);
    queue_one(&two, b, vl_clock_us());
    ok(shm->children[0].ring_len == 3 && metrics(shm, b).waiting == 3
       && shm->head->calls == 1,
       "requests and a call run, are granted a slot and are queued");
    ok(vl_shm_parent_reclaim(shm, sleepers[0]) == 7, "seven requests are reclaimed");
    ok(metrics(shm, a).running == 0 && metrics(shm, a).waiting == 0
       && !shm->head->calls && !shm->children[0].ring_len
       && valid(shm), "all requests of the dead child are reclaimed");
    ok(metrics(shm, b).running + metrics(shm, b).waiting == 2,
       "requests of the other child stay");
    ok(vl_slot_granted(&two) && woken(&two),
         "requests in other children are granted the slots at once");
    vl_slot_set(shm, 4);
    ok(vl_slot_granted(&two), "slots are granted at the next dispatch at the latest");
    one = view(shm, 0, 10);
    ok(!vl_slot_granted(&one) && drain(&one) == 0,
       "a new child in its column has no requests");
    vl_shm_parent_reclaim(shm, sleepers[1]);
    ok(is_empty(shm), "the segment is empty");
}

/* A child with a queued request that sleeps until it is woken. */
static int sleep_and_take(vl_shm_t *shm, apr_uint32_t a, int ready)
{
    struct pollfd pfd = { -1, POLLIN, 0 };
    vl_ticket_t ticket;

    vl_shm_child_attach(shm, getpid(), 10);
    pfd.fd = vl_shm_child_wake_fd(shm);
    if (queue_one(shm, a, vl_clock_us()) != APR_SUCCESS
        || vl_slot_take(shm, &ticket) != APR_EAGAIN
        || write(ready, "", 1) != 1 || poll(&pfd, 1, 5000) != 1
        || vl_slot_take(shm, &ticket) != APR_SUCCESS)
        return 1;
    end(shm, &ticket, 100);
    return 0;
}

static void a_sleeping_process_is_woken(void)
{
    vl_shm_t *shm = make(4, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t held;
    int ready[2], status = -1;
    pid_t pid;
    char c;

    vl_slot_set(shm, 1);
    vl_shm_child_attach(shm, getpid(), 10);
    enter(shm, a, &held);
    if (pipe(ready))
        abort();
    pid = fork();
    if (!pid)
        _exit(sleep_and_take(shm, a, ready[1]));
    ok(read(ready[0], &c, 1) == 1 && metrics(shm, a).waiting == 1,
       "another process has a queued request");
    end(shm, &held, 100);
    waitpid(pid, &status, 0);
    ok(status == 0, "it is woken, takes its grant and ends it");
    vl_shm_parent_reclaim(shm, pid);
    ok(is_empty(shm), "the segment is empty");
}

#define STRESS_ACCOUNTS 6
#define STRESS_CHILDREN 5

/* What a child does, without end. */
static void stress(vl_shm_t *shm)
{
    vl_ticket_t held[64];
    vl_cost_t cost = { 5, 5, 0, NULL };
    apr_uint32_t n = 0;

    srand((unsigned)getpid());
    vl_shm_child_attach(shm, getpid(), 8);
    for (;;) {
        apr_uint32_t a = (apr_uint32_t)rand() % STRESS_ACCOUNTS;

        switch (rand() % 9) {
        case 0:
        case 1:
        case 2:
            queue_one(shm, a, vl_clock_us());
            break;
        case 3:
        case 4:
            n += n < 60 && vl_slot_take(shm, &held[n]) == APR_SUCCESS;
            break;
        case 5:
        case 6:
            if (n)
                vl_slot_end(shm, &held[--n], rand() % 4 ? &cost : NULL);
            break;
        case 7:
            vl_slot_unwait(shm, a);
            break;
        case 8:
            n += n < 8 && (rand() % 2 ? vl_slot_ask(shm, a, VL_ASK_NEW, 0, &held[n])
                                        == APR_SUCCESS
                                      : enter(shm, a, &held[n]));
            n += n < 60 && vl_slot_ask_call(shm, a, VL_CALL_OF_UNKNOWN, 0, &held[n]) == APR_SUCCESS;
            vl_shm_child_pause(shm, rand() % 8 == 0);
            break;
        }
    }
}

static pid_t fork_stress(vl_shm_t *shm)
{
    pid_t pid = fork();

    if (!pid)
        stress(shm);
    return pid;
}

static void kills_at_random_leave_nothing(void)
{
    vl_shm_t *shm = make(STRESS_ACCOUNTS, STRESS_CHILDREN + 1);
    pid_t pid[STRESS_CHILDREN];
    apr_uint32_t a, i, round, broken = 0;
    apr_uint64_t requests = 0;

    for (a = 0; a < STRESS_ACCOUNTS; a++) {
        char name[2] = { (char)('a' + a), '\0' };

        account_with(shm, name, limits_of(VL_MODE_ON, a % 3 * 2, 10));
    }
    vl_slot_set(shm, 9);
    for (i = 0; i < STRESS_CHILDREN; i++)
        pid[i] = fork_stress(shm);
    for (round = 0; round < 500; round++) {
        i = (apr_uint32_t)rand() % STRESS_CHILDREN;
        usleep((useconds_t)(rand() % 4000));
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
        if (rand() % 4)
            vl_shm_parent_reclaim(shm, pid[i]);
        broken += !valid(shm);
        pid[i] = fork_stress(shm);
    }
    for (i = 0; i < STRESS_CHILDREN; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    /* Takes back what is in every column. */
    for (i = 0; i <= STRESS_CHILDREN; i++)
        vl_shm_parent_reclaim(shm, shm->children[i].pid);
    for (a = 0; a < STRESS_ACCOUNTS; a++)
        requests += metrics(shm, a).requests;
    ok(!broken, "500 kills of children at work: the segment was valid "
       "after each");
    ok(is_empty(shm), "all counts are 0 after the last");
    ok(requests > 1000, "the children have served requests");
}

static apr_uint32_t defers(vl_shm_t *child, apr_uint32_t a, apr_uint32_t n)
{
    apr_uint32_t deferred = 0;

    while (n--)
        deferred += vl_slot_take_or_wait(child, a, vl_clock_us(), VL_WAIT_OR_DEFER, NULL)
                    == APR_EAGAIN;
    return deferred;
}

/* Queue room becomes free when the child's only ticket is used. */
static void serve_one(vl_shm_t *child)
{
    vl_ticket_t ticket;

    if (vl_slot_take(child, &ticket) == APR_SUCCESS)
        vl_slot_end(child, &ticket, NULL);
}

static void children_share_the_queue_by_what_they_hold(void)
{
    vl_shm_t one, two, *shm = make_two(1, &one, &two);
    apr_uint32_t a = account_with(shm, "a", limits_of(VL_MODE_ON, 0, 10));
    apr_uint32_t n;
    vl_ticket_t held;

    enter(&one, a, &held);
    ok(defers(&one, a, 30) == 20, "ten requests are queued, the others deferred");
    ok(metrics(shm, a).waiting == 10 && metrics(shm, a).deferred == 20
       && metrics(shm, a).refused == 0, "deferred requests are counted and not refused");
    ok(defers(&two, a, 10) == 10, "a full queue has no room for another child");
    vl_slot_end(&one, &held, NULL);
    serve_one(&one);
    vl_slot_refill(&one, a);
    ok(metrics(shm, a).deferred == 30, "a child with more than its part of the queue gets no more room");
    ok(woken(&two) == 1, "a child with less than its part is woken when there is room");
    vl_slot_refill(&two, a);
    ok(metrics(shm, a).deferred == 28, "the woken child uses the room");
    for (n = 0; n < 8; n++)
        vl_slot_unwait(&two, a);
    ok(metrics(shm, a).deferred == 20 && valid(shm), "deferred requests may leave");
    vl_slot_unwait(&two, a);
    vl_slot_unwait(&two, a);
    ok(vl_slot_take_or_wait(&one, a, 1, VL_WAIT_OR_DEFER, NULL) == APR_EAGAIN
       && vl_slot_take_or_wait(&two, a, 1, VL_WAIT_OR_DEFER, NULL) == APR_SUCCESS,
       "a new request is behind the deferred ones of its child only");
    vl_shm_parent_reclaim(shm, shm->children[0].pid);
    ok(metrics(shm, a).deferred == 0 && valid(shm), "a dead child has no deferred requests");
    while (vl_slot_unwait(&two, a) == APR_SUCCESS)
        continue;
    drain(&two);
    ok(is_empty(shm), "the segment is empty");
}

int main(void)
{
    srand(20261121);
    setvbuf(stdout, NULL, _IOLBF, 0);
    segment_init();
    a_grant_wakes_another_child();
    one_wake_is_enough();
    no_queue_stalls();
    a_charged_client_is_behind_in_every_child();
    a_client_is_charged_while_others_wait();
    the_client_that_waited_is_charged();
    a_child_without_threads_gets_nothing();
    a_paused_child_gets_nothing();
    a_stalled_child_gets_nothing();
    thread_waiters_are_granted_in_a_paused_child();
    queues_of_a_paused_child_delay_no_other();
    many_are_woken_at_once();
    dead_children_leave_nothing();
    children_share_the_queue_by_what_they_hold();
    end_sleepers();
    a_sleeping_process_is_woken();
    kills_at_random_leave_nothing();
    return tap_done();
}
