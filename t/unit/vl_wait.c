/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of waiters: order, expiry, leaving early. */
#include <stdlib.h>
#include <string.h>

#include <apr_general.h>

#include "tap.h"
#include "core/vl_wait.h"

#define LINES 5
#define WAITERS 64

static apr_pool_t *pool;
static vl_waiter_t waiters[WAITERS];

static vl_clients_t clients;
static vl_inner_t inner[LINES];

static vl_inner_t *inner_of(apr_uint32_t account)
{
    return &inner[account];
}

static vl_wait_t *make(void)
{
    return vl_wait_create(pool, LINES, &clients, inner_of);
}

static vl_waiter_t *pop(vl_wait_t *w, apr_uint32_t account)
{
    vl_waiter_t *first = vl_wait_first(w, account, NULL, NULL);

    if (first)
        vl_wait_remove(w, first);
    return first;
}

static void is_done(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                    vl_reason_e refused)
{
    abort();                    /* a line tells nobody anything by itself */
}

static void is_done_too(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    is_done(waiter, ticket, refused);
}

static vl_waiter_t *join(vl_wait_t *w, int i, apr_uint32_t account,
                         apr_int64_t deadline)
{
    memset(&waiters[i], 0, sizeof(waiters[i]));
    waiters[i].account = account;
    waiters[i].deadline_us = deadline;
    waiters[i].done = is_done;
    vl_wait_add(w, &waiters[i]);
    return &waiters[i];
}

static void first_come_first_served(void)
{
    vl_wait_t *w = make();
    vl_waiter_t *a = join(w, 0, 1, 10), *b = join(w, 1, 1, 10);
    vl_waiter_t *other = join(w, 2, 4, 10), *c = join(w, 3, 1, 10);

    ok(vl_wait_count(w) == 4, "counted");
    ok(!pop(w, 0), "an empty queue gives no waiter");
    ok(pop(w, 1) == a && pop(w, 1) == b, "in order");
    vl_wait_add(w, a);
    ok(pop(w, 1) == c && pop(w, 1) == a,
       "a waiter that comes again is last");
    ok(!pop(w, 1) && vl_wait_count(w) == 1, "until none is left");
    ok(pop(w, 4) == other && !vl_wait_count(w),
       "another line is not concerned");
}

static void an_older_one_stands_before_younger_ones(void)
{
    vl_wait_t *w = make();
    vl_waiter_t *a = join(w, 0, 1, 10), *b = join(w, 1, 1, 11), *old, *same;

    old = &waiters[2];
    same = &waiters[3];
    memset(old, 0, sizeof(*old) * 2);
    a->since_us = 5;
    b->since_us = 7;
    old->account = same->account = 1;
    old->since_us = 3;
    same->since_us = 5;
    vl_wait_add(w, old);
    vl_wait_add(w, same);
    ok(pop(w, 1) == old && pop(w, 1) == a
       && pop(w, 1) == same && pop(w, 1) == b,
       "one that another child has had in line stands where it came");
}

static void accounts_take_turns_in_being_late(void)
{
    vl_wait_t *w = make();
    vl_waiter_t *first, *second;
    int i;

    for (i = 0; i < 4; i++)
        join(w, i, i < 3 ? 1 : 2, 10);
    first = vl_wait_expired(w, 10);
    second = vl_wait_expired(w, 10);
    ok(first->account != second->account, "a long line hides no other");
    ok(vl_wait_longest(w) == 1 && vl_wait_count_of(w, 1) == 3
       && vl_wait_newest_with(w, 1, is_done) == &waiters[2]
       && !vl_wait_newest_with(w, 0, is_done), "the newest of the longest");
}

static void anybody_may_leave(void)
{
    vl_wait_t *w = make();
    vl_waiter_t *a = join(w, 0, 2, 10), *b = join(w, 1, 2, 11);
    vl_waiter_t *c = join(w, 2, 2, 12), *d = join(w, 3, 2, 13);

    vl_wait_remove(w, b);
    vl_wait_remove(w, d);
    ok(vl_wait_count(w) == 2, "from the middle and from the end");
    ok(vl_wait_expired(w, 10) == a, "the first is still the first");
    vl_wait_remove(w, a);
    ok(!vl_wait_expired(w, 11) && vl_wait_expired(w, 12) == c,
       "from the front: the next is the first");
    vl_wait_remove(w, c);
    ok(!vl_wait_count(w) && !pop(w, 2) && !vl_wait_expired(w, 100)
       && !vl_wait_any(w, is_done), "the last: nothing is left");
    vl_wait_add(w, b);
    ok(pop(w, 2) == b, "an emptied line works again");
}

static void the_late_are_found_in_order(void)
{
    vl_wait_t *w = make();
    vl_waiter_t *late, *before = NULL;
    apr_int64_t now;
    int i, n = 0, early = 0, disorder = 0;

    ok(!vl_wait_expired(w, 1000000), "no waiter, no deadline");
    /* Line k lets wait 100 * (k + 1) from its arrival, i. */
    for (i = 0; i < 50; i++)
        join(w, i, (apr_uint32_t)i % LINES, i + 100 * (i % LINES + 1));
    ok(!vl_wait_expired(w, 99), "before the first deadline none");
    ok(vl_wait_expired(w, 100) == &waiters[0], "at the deadline it has passed");
    ok(vl_wait_expired(w, 100) == &waiters[0], "a late waiter stays queued");
    for (now = 100; now < 600; now++) {
        while ((late = vl_wait_expired(w, now))) {
            early += late->deadline_us > now;
            disorder += before && before->account == late->account
                        && before > late;
            disorder += late->deadline_us != now;
            before = late;
            vl_wait_remove(w, late);
            n++;
        }
    }
    ok(n == 50 && !vl_wait_count(w), "everybody is late in the end");
    ok(!early && !disorder, "none before its time, each at its time");
}

static void some_are_found_by_what_they_are(void)
{
    vl_wait_t *w = make();
    int i, n = 0;

    for (i = 0; i < 40; i++) {
        join(w, i, (apr_uint32_t)i % LINES, 10);
        if (i % 10 == 7)
            waiters[i].done = is_done_too;
    }
    ok(vl_wait_any(w, is_done_too) && vl_wait_count(w) == 40,
       "found, and stays in line");
    for (; n < 40 && vl_wait_any(w, is_done_too); n++) {
        vl_waiter_t *waiter = vl_wait_any(w, is_done_too);

        if (waiter->done != is_done_too)
            break;
        vl_wait_remove(w, waiter);
    }
    ok(n == 4 && vl_wait_count(w) == 36, "all of them, wherever they stand");
    ok(vl_wait_any(w, is_done) && !vl_wait_any(w, NULL), "and no other");
}

/* A plain list of who waits, in order of arrival. */
static vl_waiter_t *model[WAITERS];
static int model_len;

static vl_waiter_t *model_first(apr_uint32_t account)
{
    int i;

    for (i = 0; i < model_len; i++) {
        if (model[i]->account == account)
            return model[i];
    }
    return NULL;
}

static int model_has(const vl_waiter_t *waiter)
{
    int i;

    for (i = 0; i < model_len && model[i] != waiter; i++)
        continue;
    return i < model_len;
}

static void model_remove(const vl_waiter_t *waiter)
{
    int i;

    for (i = 0; i < model_len && model[i] != waiter; i++)
        continue;
    memmove(&model[i], &model[i + 1],
            sizeof(model[0]) * (size_t)(--model_len - i));
}

/* Returns whether the lines and the list agree after one step. */
static int random_step(vl_wait_t *w, apr_int64_t now)
{
    vl_waiter_t *waiter = &waiters[rand() % WAITERS], *got;
    apr_uint32_t account = (apr_uint32_t)rand() % LINES;
    int i, late = 0;

    if (!model_has(waiter)) {
        model[model_len++] = join(w, (int)(waiter - waiters), account,
                                  now + 50);
    }
    else if (rand() % 2) {
        vl_wait_remove(w, waiter);
        model_remove(waiter);
    }
    else {
        got = pop(w, account);
        if (got != model_first(account))
            return 0;
        if (got)
            model_remove(got);
    }
    for (i = 0; i < model_len; i++)
        late += model[i]->deadline_us <= now;
    got = vl_wait_expired(w, now);
    return (got != NULL) == (late > 0) && (!got || got->deadline_us <= now)
           && vl_wait_count(w) == (apr_uint32_t)model_len;
}

static void random_against_model(void)
{
    vl_wait_t *w = make();
    apr_int64_t now;
    int wrong = 0;

    for (now = 0; now < 200000 && !wrong; now++)
        wrong += !random_step(w, now);
    ok(!wrong, "200000 random steps: lines and a plain list agree");
}

int main(void)
{
    srand(20261121);
    apr_initialize();
    apr_pool_create(&pool, NULL);
    first_come_first_served();
    an_older_one_stands_before_younger_ones();
    accounts_take_turns_in_being_late();
    anybody_may_leave();
    the_late_are_found_in_order();
    some_are_found_by_what_they_are();
    random_against_model();
    return tap_done();
}
