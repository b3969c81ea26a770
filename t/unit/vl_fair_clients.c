/* SPDX-License-Identifier: Apache-2.0 */
/* The fair queue inside a site: order of waiters, expiry, leaving early, shares. */
#include <time.h>

#include "segment.h"
#include "core/vl_fair.h"

#define LINES 5
#define WAITERS 64

static vl_waiter_t waiters[WAITERS];

static vl_shm_t *shm;           /* this process is its child 0 */
static apr_int64_t now_us = 1000000;

int __wrap_clock_gettime(clockid_t id, struct timespec *ret_time);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret_time)
{
    ret_time->tv_sec = now_us / 1000000;
    ret_time->tv_nsec = now_us % 1000000 * 1000;
    return 0;
}

static vl_queues_t *make_queues(void)
{
    return vl_fair_create(pool, shm, LINES);
}

static vl_waiter_t *pop(vl_queues_t *w, apr_uint32_t account)
{
    vl_ticket_t ticket = { .account = account };

    return vl_fair_pop_waiter(w, &ticket, 0);
}

static apr_uint32_t total(const vl_queues_t *w)
{
    apr_uint32_t a, n = 0;

    for (a = 0; a < LINES; a++)
        n += vl_fair_count_waiters(w, a);
    return n;
}

static void is_done(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                    vl_reason_e refused)
{
    abort();                    /* the queue itself calls no waiter */
}

static void is_done_too(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    is_done(waiter, ticket, refused);
}

static vl_waiter_t *join(vl_queues_t *w, int i, apr_uint32_t account,
                         apr_int64_t deadline)
{
    memset(&waiters[i], 0, sizeof(waiters[i]));
    waiters[i].account = account;
    waiters[i].deadline_us = deadline;
    waiters[i].done = is_done;
    vl_fair_add_waiter(w, &waiters[i], 0);
    return &waiters[i];
}

static void first_come_first_served(void)
{
    vl_queues_t *w = make_queues();
    vl_waiter_t *a = join(w, 0, 1, 10), *b = join(w, 1, 1, 10);
    vl_waiter_t *other = join(w, 2, 4, 10), *c = join(w, 3, 1, 10);

    ok(total(w) == 4, "counted");
    ok(!pop(w, 0), "an empty queue gives no waiter");
    ok(pop(w, 1) == a && pop(w, 1) == b, "waiters are taken in order");
    vl_fair_add_waiter(w, a, 0);
    ok(pop(w, 1) == c && pop(w, 1) == a,
       "a waiter that joins again is last");
    ok(!pop(w, 1) && total(w) == 1, "until the queue is empty");
    ok(pop(w, 4) == other && !total(w),
       "another queue is not affected");
}

static void an_older_one_stands_before_younger_ones(void)
{
    vl_queues_t *w = make_queues();
    vl_waiter_t *a = join(w, 0, 1, 10), *b = join(w, 1, 1, 11), *old, *same;

    old = &waiters[2];
    same = &waiters[3];
    memset(old, 0, sizeof(*old) * 2);
    a->since_us = 5;
    b->since_us = 7;
    old->account = same->account = 1;
    old->since_us = 3;
    same->since_us = 5;
    vl_fair_add_waiter(w, old, 0);
    vl_fair_add_waiter(w, same, 0);
    ok(pop(w, 1) == old && pop(w, 1) == a
       && pop(w, 1) == same && pop(w, 1) == b,
       "a waiter from another child keeps its place by arrival");
}

static void accounts_take_turns_in_being_late(void)
{
    vl_queues_t *w = make_queues();
    vl_waiter_t *first, *second;
    apr_uint32_t n;
    int i;

    for (i = 0; i < 4; i++)
        join(w, i, i < 3 ? 1 : 2, 10);
    first = vl_fair_expired_waiter(w, 10);
    second = vl_fair_expired_waiter(w, 10);
    ok(first->account != second->account, "a long line hides no other");
    ok(vl_fair_newest_waiter(w, is_done, &n) == &waiters[2] && n == 3
       && !vl_fair_newest_waiter(w, is_done_too, &n), "the newest of the longest");
}

static void any_waiter_may_leave(void)
{
    vl_queues_t *w = make_queues();
    vl_waiter_t *a = join(w, 0, 2, 10), *b = join(w, 1, 2, 11);
    vl_waiter_t *c = join(w, 2, 2, 12), *d = join(w, 3, 2, 13);

    vl_fair_remove_waiter(w, b);
    vl_fair_remove_waiter(w, d);
    ok(total(w) == 2, "from the middle and from the end");
    ok(vl_fair_expired_waiter(w, 10) == a, "the first is still the first");
    vl_fair_remove_waiter(w, a);
    ok(!vl_fair_expired_waiter(w, 11) && vl_fair_expired_waiter(w, 12) == c,
       "from the front: the next is the first");
    vl_fair_remove_waiter(w, c);
    ok(!total(w) && !pop(w, 2) && !vl_fair_expired_waiter(w, 100)
       && !vl_fair_any_waiter(w, is_done, NULL), "the last: nothing is left");
    vl_fair_add_waiter(w, b, 0);
    ok(pop(w, 2) == b, "an emptied line works again");
}

static void the_late_are_found_in_order(void)
{
    vl_queues_t *w = make_queues();
    vl_waiter_t *late, *before = NULL;
    apr_int64_t now;
    int i, n = 0, early = 0, disorder = 0;

    ok(!vl_fair_expired_waiter(w, 1000000), "no waiter, no deadline");
    /* Line k lets wait 100 * (k + 1) from its arrival, i. */
    for (i = 0; i < 50; i++)
        join(w, i, (apr_uint32_t)i % LINES, i + 100 * (i % LINES + 1));
    ok(!vl_fair_expired_waiter(w, 99), "before the first deadline none");
    ok(vl_fair_expired_waiter(w, 100) == &waiters[0], "at the deadline it has passed");
    ok(vl_fair_expired_waiter(w, 100) == &waiters[0], "a late waiter stays queued");
    for (now = 100; now < 600; now++) {
        while ((late = vl_fair_expired_waiter(w, now))) {
            early += late->deadline_us > now;
            disorder += before && before->account == late->account
                        && before > late;
            disorder += late->deadline_us != now;
            before = late;
            vl_fair_remove_waiter(w, late);
            n++;
        }
    }
    ok(n == 50 && !total(w), "all waiters are late in the end");
    ok(!early && !disorder, "none before its time, each at its time");
}

static void some_are_found_by_what_they_are(void)
{
    vl_queues_t *w = make_queues();
    int i, n = 0;

    for (i = 0; i < 40; i++) {
        join(w, i, (apr_uint32_t)i % LINES, 10);
        if (i % 10 == 7)
            waiters[i].done = is_done_too;
    }
    ok(vl_fair_any_waiter(w, is_done_too, NULL) && total(w) == 40,
       "the waiter is found and stays queued");
    for (; n < 40 && vl_fair_any_waiter(w, is_done_too, NULL); n++) {
        vl_waiter_t *waiter = vl_fair_any_waiter(w, is_done_too, NULL);

        if (waiter->done != is_done_too)
            break;
        vl_fair_remove_waiter(w, waiter);
    }
    ok(n == 4 && total(w) == 36, "all of them, wherever they stand");
    ok(vl_fair_any_waiter(w, is_done, NULL) && !vl_fair_any_waiter(w, NULL, NULL), "and no other");
}

/* A plain list of waiters, in order of arrival. */
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
static int random_step(vl_queues_t *w, apr_int64_t now)
{
    vl_waiter_t *waiter = &waiters[rand() % WAITERS], *got;
    apr_uint32_t account = (apr_uint32_t)rand() % LINES;
    int i, late = 0;

    if (!model_has(waiter)) {
        model[model_len++] = join(w, (int)(waiter - waiters), account,
                                  now + 50);
    }
    else if (rand() % 2) {
        vl_fair_remove_waiter(w, waiter);
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
    got = vl_fair_expired_waiter(w, now);
    return (got != NULL) == (late > 0) && (!got || got->deadline_us <= now)
           && total(w) == (apr_uint32_t)model_len;
}

static void random_against_model(void)
{
    vl_queues_t *w = make_queues();
    apr_int64_t now;
    int wrong = 0;

    for (now = 0; now < 200000 && !wrong; now++)
        wrong += !random_step(w, now);
    ok(!wrong, "200000 random steps: lines and a plain list agree");
}

/* --- shares inside an account ----------------------------------------------- */

#define MINE 3                  /* the account of these tests */
#define SERVED_MAX 8192

static vl_waiter_t crowd[SERVED_MAX];
static int crowd_size;

/* One more request of a client, whose address is 10.0.x.y. */
static void queue_of(vl_queues_t *w, unsigned client, unsigned class_no, vl_band_e band)
{
    unsigned char address[4] = { 10, 0, (unsigned char)(client >> 8),
                                 (unsigned char)client };
    vl_waiter_t *waiter = &crowd[crowd_size++];

    if (crowd_size == SERVED_MAX)
        abort();
    memset(waiter, 0, sizeof(*waiter));
    waiter->account = MINE;
    waiter->since_us = now_us++;
    waiter->done = is_done;
    vl_clients_prefix(address, sizeof(address), 32, 64, &waiter->client);
    waiter->client.class_no = (unsigned char)class_no;
    waiter->client.band = (unsigned char)band;
    vl_clients_key(shm, MINE, &waiter->client);
    vl_fair_add_waiter(w, waiter, 0);
}

/* Grants the next waiter a slot. Its request costs us, which is known at its end. */
static vl_waiter_t *serve(vl_queues_t *w, apr_uint32_t estimate_us, apr_uint32_t us)
{
    vl_ticket_t ticket = { .account = MINE, .charged = estimate_us };
    vl_waiter_t *next = vl_fair_pop_waiter(w, &ticket, 0);

    vl_fair_end_client(shm, &ticket, &next->client, us);
    return next;
}

static unsigned number_of(const vl_waiter_t *waiter)
{
    return waiter->client.prefix[14] * 256u + waiter->client.prefix[15];
}

/* Where virtual time begins. */
static apr_uint64_t begin_at;

static vl_queues_t *new_site(void)
{
    vl_inner_t *inner = &shm->inner[MINE];
    int c, b;

    memset(inner, 0, sizeof(*inner));
    inner->vtime = begin_at;
    inner->known_share = 50;
    for (c = 0; c < VL_CLASSES_MAX; c++) {
        inner->classes[c].weight = 100;
        inner->classes[c].tag = inner->classes[c].vtime = begin_at;
        for (b = 0; b < VL_BANDS; b++)
            inner->classes[c].band[b].tag = inner->classes[c].band[b].vtime = begin_at;
    }
    memset(&shm->waiting[0][MINE], 0, sizeof(vl_waiting_t));
    memset(shm->clients, 0, sizeof(*shm->clients));
    vl_clients_init(shm->clients);
    crowd_size = 0;
    return make_queues();
}

static void one_client_with_many_requests_delays_no_other(void)
{
    vl_queues_t *w = new_site();
    const vl_waiting_t *told = &shm->waiting[0][MINE];
    int i, visitor_waits = 0, longest = 0, visits = 0;

    for (i = 0; i < 1000; i++)
        queue_of(w, 1, 0, VL_BAND_STRANGERS);
    ok(told->classes[0] == 1000 && told->clients == 1 && told->most == 1000
       && told->most_key == crowd[0].client.key, "other processes are told of it");
    for (i = 0; i < 400; i++) {
        if (i % 10 == 0)
            queue_of(w, 2, 0, VL_BAND_STRANGERS);   /* a visitor comes */
        visitor_waits++;
        if (number_of(serve(w, 100, 100)) == 2) {
            if (visitor_waits > longest)
                longest = visitor_waits;
            visits++;
        }
        if (total(w) == (apr_uint32_t)(1000 + (i / 10 + 1) - i - 1))
            visitor_waits = 0;
    }
    ok(visits == 40 && longest <= 10, "each visit is served among the flood (%d, %d)",
       visits, longest);
}

static void clients_share_by_cost(void)
{
    vl_queues_t *w = new_site();
    apr_uint64_t used[3] = { 0 };
    int i;

    for (i = 0; i < 1000; i++) {
        queue_of(w, 1, 0, VL_BAND_STRANGERS);
        queue_of(w, 2, 0, VL_BAND_STRANGERS);
    }
    for (i = 0; i < 900; i++) {
        const vl_waiter_t *next = vl_fair_first_waiter(w, MINE);
        apr_uint32_t us = number_of(next) == 1 ? 900 : 100;

        used[number_of(serve(w, 500, us))] += us;
    }
    ok(used[1] < used[2] * 11 / 10 && used[2] < used[1] * 11 / 10,
       "the one with dear requests has as much CPU time as the one with cheap ones "
       "(%u, %u)", (unsigned)used[1], (unsigned)used[2]);
}

static void new_clients_do_not_starve_old_ones(void)
{
    vl_queues_t *w = new_site();
    int i, served = 0;

    for (i = 0; i < 20; i++)
        queue_of(w, 1, 0, VL_BAND_STRANGERS);
    for (i = 0; i < 10; i++)
        queue_of(w, (unsigned)(100 + i), 0, VL_BAND_STRANGERS);
    for (i = 0; i < 220; i++) {
        queue_of(w, (unsigned)(1000 + i), 0, VL_BAND_STRANGERS);
        served += number_of(serve(w, 100, 100)) == 1;
    }
    ok(served >= 7, "a client is served again and again beside an endless stream of new "
       "ones (%d in 220, eleven wait)", served);
}

/* Returns the tag of the client that is first in a child, as the other children see it. */
static apr_uint64_t client_tag_of_first(vl_queues_t *w, apr_uint32_t child)
{
    vl_candidate_t first;

    if (!vl_fair_count_waiters(w, MINE))
        abort();
    vl_fair_candidate(shm, MINE, child, &first);
    return first.client_tag;
}

/* The visitor sends its next request when one request of the flood has been served since its
 * last one, so half of all is the most it can have. */
static void a_client_of_another_process_has_its_share(void)
{
    vl_shm_t other = *shm;
    vl_queues_t *here = new_site(), *there = vl_fair_create(pool, &other, LINES);
    int i, visits = 0;

    other.self = 1;
    for (i = 0; i < 1000; i++)
        queue_of(here, 1, 0, VL_BAND_STRANGERS);
    for (i = 0; i < 400; i++) {
        if (!total(there))
            queue_of(there, 2, 0, VL_BAND_STRANGERS);
        now_us += 100;
        serve(here, 100, 100);
        if (VL_FAIR_AFTER(client_tag_of_first(there, 1), client_tag_of_first(here, 0)) <= 0) {
            serve(there, 100, 100);
            visits++;
        }
    }
    ok(visits >= 390, "a client that waits in another process has its share (%d of 400)", visits);
}

static void classes_share_by_weight(void)
{
    vl_queues_t *w = new_site();
    int i, served[3] = { 0 };

    shm->inner[MINE].classes[1].weight = 300;
    shm->inner[MINE].classes[2].weight = 100;
    for (i = 0; i < 1000; i++) {
        queue_of(w, (unsigned)i, 1, VL_BAND_STRANGERS);
        queue_of(w, 1, 2, VL_BAND_STRANGERS);
    }
    for (i = 0; i < 800; i++)
        served[serve(w, 100, 100)->client.class_no]++;
    ok(served[1] >= 595 && served[1] <= 605 && served[1] + served[2] == 800,
       "300 to 100 (%d, %d)", served[1], served[2]);
}

static void known_clients_have_their_share(void)
{
    vl_queues_t *w = new_site();
    int i, served[VL_BANDS] = { 0 };

    shm->inner[MINE].known_share = 80;
    for (i = 0; i < 1000; i++) {
        queue_of(w, (unsigned)i, 0, VL_BAND_STRANGERS);
        queue_of(w, (unsigned)(5000 + i), 0, VL_BAND_KNOWN);
    }
    for (i = 0; i < 500; i++)
        served[serve(w, 100, 100)->client.band]++;
    ok(served[VL_BAND_KNOWN] >= 395 && served[VL_BAND_KNOWN] <= 405,
       "80 %% for known clients (%d of 500)", served[VL_BAND_KNOWN]);
}

static void idle_time_is_not_saved(void)
{
    vl_queues_t *w = new_site();
    int i, served = 0;

    for (i = 0; i < 600; i++)
        queue_of(w, 1, 0, VL_BAND_STRANGERS);
    for (i = 0; i < 300; i++)
        serve(w, 100, 100);
    for (i = 0; i < 300; i++)
        queue_of(w, 2, 0, VL_BAND_STRANGERS);
    for (i = 0; i < 100; i++)
        served += number_of(serve(w, 100, 100)) == 2;
    ok(served >= 49 && served <= 52, "a client that comes later gets half from then on (%d of 100)",
       served);
}

/* The visitor has no request for a while, and then twenty at once. */
static void a_pause_of_a_moment_costs_nothing(void)
{
    vl_queues_t *w = new_site();
    int i, n, visits = 0, longest = 0;

    for (i = 0; i < 1000; i++)
        queue_of(w, 1, 0, VL_BAND_STRANGERS);
    for (n = 0; n < 10; n++) {
        for (i = 0; i < 60; i++) {
            now_us += 100;
            serve(w, 100, 100);
        }
        for (i = 0; i < 20; i++)
            queue_of(w, 2, 0, VL_BAND_STRANGERS);
        for (i = visits = 0; visits < 20 && i < 100; i++) {
            now_us += 100;
            visits += number_of(serve(w, 100, 100)) == 2;
        }
        if (n && i > longest)       /* the first time it is a new client */
            longest = i;
    }
    ok(longest >= 20 && longest <= 22, "a client that used less than its share a moment ago is first "
       "(20 requests among %d)", longest);
}

static void the_first_is_told_with_its_own_arrival(void)
{
    vl_queues_t *w = new_site();
    const vl_first_t *first = &shm->cells[0][MINE].first;
    vl_waiter_t *next;

    queue_of(w, 1, 0, VL_BAND_STRANGERS);
    queue_of(w, 1, 0, VL_BAND_STRANGERS);
    queue_of(w, 2, 0, VL_BAND_STRANGERS);
    serve(w, 100, 100);
    next = vl_fair_first_waiter(w, MINE);
    ok(number_of(next) == 2 && first->since_us == next->since_us && first->key == next->client.key
       && first->tag == client_tag_of_first(w, 0), "the others are told its arrival and its tag");
}

static void nothing_is_charged_without_a_backlog(void)
{
    vl_queues_t *w = new_site();
    vl_client_entry_t top[4];
    vl_waiter_t waiter;

    queue_of(w, 7, 0, VL_BAND_STRANGERS);
    waiter = *serve(w, 100, 100);
    ok(vl_fair_top_clients(shm->clients, MINE, top, 4) == 1 && top[0].requests == 1
       && top[0].cpu_us == 100, "a client that waited is charged");
    now_us += 2000000;
    vl_fair_charge_client(shm, MINE, &waiter.client, 100, 1);
    ok(vl_fair_top_clients(shm->clients, MINE, top, 4) == 1 && top[0].requests == 1,
       "two seconds after the last request had to wait it is not");
    shm->inner[MINE].backlog_us = now_us;
    vl_fair_charge_client(shm, MINE, &waiter.client, 100, 0);
    ok(vl_fair_top_clients(shm->clients, MINE, top, 4) == 1 && vl_fair_client_idle(&top[0], now_us) < 200000,
       "a charge without a request keeps its entry");
}

/* Returns the client of the account with this address. */
static vl_client_id_t identify(apr_uint32_t account, const void *address, apr_size_t length,
                               unsigned bits4, unsigned bits6)
{
    vl_client_id_t id;

    vl_clients_prefix(address, length, bits4, bits6, &id);
    vl_clients_key(shm, account, &id);
    return id;
}

static void prefixes_are_one_client(void)
{
    static const unsigned char v4[2][4] = { { 192, 0, 2, 1 }, { 192, 0, 2, 200 } };
    static const unsigned char v6[2][16] = { { 0x20, 1, 13, 0xb8, 0, 0, 0, 1, 1 },
                                             { 0x20, 1, 13, 0xb8, 0, 0, 0, 1, 2 } };
    vl_client_id_t a, b;

    a = identify(1, v4[0], 4, 32, 64);
    b = identify(1, v4[1], 4, 32, 64);
    ok(a.key != b.key, "two addresses are two clients with /32");
    a = identify(1, v4[0], 4, 24, 64);
    b = identify(1, v4[1], 4, 24, 64);
    ok(a.key == b.key && a.prefix[15] == 0, "and one with /24");
    a = identify(1, v6[0], 16, 32, 64);
    b = identify(1, v6[1], 16, 32, 64);
    ok(a.key == b.key, "addresses of one IPv6 /64 are one client");
    b = identify(2, v6[1], 16, 32, 64);
    ok(a.key != b.key, "of one site");
    b = identify(1, v6[1], 16, 32, 0);
    a = identify(1, "\0\0\0\0\0\0\0\0\0\0\377\377\300\0\2\1", 16, 32, 0);
    ok(a.key != b.key && a.prefix[12] == 192, "a mapped IPv4 address is an IPv4 address");
}

static void the_table_is_bounded(void)
{
    vl_queues_t *w = new_site();
    vl_client_entry_t top[1];
    unsigned i;

    for (i = 0; i < 60000; i++) {
        crowd_size = 0;
        queue_of(w, i, 0, VL_BAND_STRANGERS);
        serve(w, 100, 100);
    }
    ok(vl_fair_top_clients(shm->clients, MINE, top, 1) == 1, "60000 clients, one after the other");
    /* docs/design/011-inside-a-site.md has these sizes. */
    ok(sizeof(shm->clients->entries) <= 920000 && sizeof(vl_inner_t) <= 888 && sizeof(vl_waiting_t) <= 56,
       "the table takes %u bytes, a site %u, its waiters in a child %u",
       (unsigned)sizeof(shm->clients->entries), (unsigned)sizeof(vl_inner_t), (unsigned)sizeof(vl_waiting_t));
    queue_of(w, 1, 0, VL_BAND_STRANGERS);
    ok(serve(w, 100, 100) && !total(w), "and the table still works");
    vl_fair_forget_clients(shm->clients, MINE + 1);
    ok(vl_fair_top_clients(shm->clients, MINE, top, 1) == 1, "another site's clients stay");
    vl_fair_forget_clients(shm->clients, MINE);
    ok(!vl_fair_top_clients(shm->clients, MINE, top, 1), "a site that has gone leaves none");
}

/* Requests come twice as fast as they can be served, and each client gives up after three
 * seconds. Returns how many are answered in time, of 1000 that could be. */
static int answered_in_time(int notices)
{
    vl_queues_t *w = new_site();
    int i, head = 0, in_time = 0;
    unsigned client = 0;

    /* One step: 10 ms, in which one request is served; its service takes 10 ms. */
    for (i = 0; i < 2000; i++) {
        now_us += 10000;
        queue_of(w, client++, 0, VL_BAND_STRANGERS);
        queue_of(w, client++, 0, VL_BAND_STRANGERS);
        for (; head < crowd_size && now_us - crowd[head].since_us > 3000000; head++) {
            if (!crowd[head].client_queue)
                continue;
            vl_fair_remove_waiter(w, &crowd[head]);
            if (notices)
                vl_fair_gone(&shm->inner[MINE], 3000000);
        }
        if (total(w)
            && now_us + 10000 - serve(w, 10000, 10000)->since_us < 3000000)
            in_time += i >= 1000;
    }
    return in_time;
}

static void overload_answers_waiting_clients(void)
{
    int fifo = answered_in_time(0), late = answered_in_time(1);

    ok(late >= 900 && fifo < 300, "of 1000 requests that can be answered, %d are answered "
       "in time (%d in the order of arrival)", late, fifo);
}

static void patient_clients_are_served_too(void)
{
    vl_queues_t *w = new_site();
    int i, late = 0;

    for (i = 0; i < 10; i++)
        queue_of(w, (unsigned)i, 0, VL_BAND_STRANGERS);
    now_us += 5000000;
    for (i = 0; i < 50; i++)
        vl_fair_gone(&shm->inner[MINE], i < 40 ? 900000 : 2000000);
    ok(!vl_fair_patience(&shm->inner[MINE]),
       "clients that leave early, or together, do not make others late");
    now_us += 1000000;
    vl_fair_gone(&shm->inner[MINE], 2000000);
    ok(vl_fair_patience(&shm->inner[MINE]) == 1500000,
       "those that leave at any time do, from three quarters of what they waited");
    for (i = 0; i < 64; i++) {
        queue_of(w, (unsigned)(100 + i), 0, VL_BAND_STRANGERS);
        late += number_of(serve(w, 100, 100)) < 10;
    }
    ok(shm->inner[MINE].late == 10, "and each of the ten is counted as late once (%u)",
       (unsigned)shm->inner[MINE].late);
    ok(late >= 3 && late <= 5, "one grant in 16 goes to a client that has waited for longer "
       "than others do (%d of 64)", late);
    now_us += 6000000;
    ok(number_of(serve(w, 100, 100)) < 10, "the oldest is first again when no client gives up");
}

/* Tags wrap around. */
static void shares_hold_when_tags_wrap(void)
{
    begin_at = UINT64_MAX - 100 * VL_FAIR_UNIT;
    clients_share_by_cost();
    ok(shm->inner[MINE].vtime < begin_at, "virtual time has wrapped around");
    new_clients_do_not_starve_old_ones();
    a_client_of_another_process_has_its_share();
    classes_share_by_weight();
    known_clients_have_their_share();
    idle_time_is_not_saved();
    begin_at = 0;
}

int main(void)
{
    char name[] = "a";

    srand(20261121);
    segment_init();
    shm = make(LINES, 2);
    for (; name[0] < 'a' + LINES; name[0]++)
        account(shm, name, 0);
    if (vl_shm_child_attach(shm, getpid(), 4) != APR_SUCCESS)
        abort();
    first_come_first_served();
    an_older_one_stands_before_younger_ones();
    accounts_take_turns_in_being_late();
    any_waiter_may_leave();
    the_late_are_found_in_order();
    some_are_found_by_what_they_are();
    random_against_model();
    one_client_with_many_requests_delays_no_other();
    clients_share_by_cost();
    new_clients_do_not_starve_old_ones();
    a_client_of_another_process_has_its_share();
    classes_share_by_weight();
    known_clients_have_their_share();
    idle_time_is_not_saved();
    a_pause_of_a_moment_costs_nothing();
    the_first_is_told_with_its_own_arrival();
    nothing_is_charged_without_a_backlog();
    prefixes_are_one_client();
    the_table_is_bounded();
    overload_answers_waiting_clients();
    patient_clients_are_served_too();
    shares_hold_when_tags_wrap();
    return tap_done();
}
