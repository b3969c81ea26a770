/* SPDX-License-Identifier: Apache-2.0 */
/* The two states: listed requests are counted, get a slot when the server becomes engaged, and are
 * counted once in any order of engaging and ending. */
#include <pthread.h>

#include "segment.h"
#include "core/vl_charge.h"
#include "core/vl_engage.h"

#define ENTRIES 4

static vl_shm_t *shm;
static apr_uint32_t a, b;

static void start(apr_uint32_t slots)
{
    apr_uint32_t i;

    shm = make(4, 2);
    a = account_with(shm, "a", limits_of(VL_MODE_ON, 0, 100));
    b = account_with(shm, "b", limits_of(VL_MODE_ON, 2, 100));
    vl_slot_set(shm, slots);
    vl_engage_post_config(shm, 1);
    vl_shm_child_attach(shm, getpid(), 10);
    for (i = 0; i < 10; i++)
        vl_duty_take(shm, i);
}

static task_t *entry(apr_uint32_t i)
{
    return vl_duty_task(shm, 0, i);
}

static apr_uint64_t running(apr_uint32_t account)
{
    return metrics(shm, account).running;
}

static int is_engaged_by(vl_engaged_e why)
{
    return !vl_engage_is_dormant(shm) && vl_engage_state(shm).why == why;
}

static void requests_up_to_the_slots_are_listed(void)
{
    vl_ticket_t ticket;

    start(2);
    ok(vl_engage_list(shm, entry(0), a, 5, 0) && vl_engage_list(shm, entry(1), a, 6, 0), "two are listed");
    ok(vl_engage_is_dormant(shm) && running(a) == 2, "they run, and the server is dormant");
    ok(vl_fair_free(&shm->queue) == 2000, "they hold no slot");
    ok(!vl_engage_list(shm, entry(2), a, 7, 0), "the third has to ask for a slot");
    ok(is_engaged_by(VL_ENGAGED_SLOTS), "it engages the server");
    ok(running(a) == 2 && !vl_fair_free(&shm->queue), "the two hold slots now");
    ok(vl_engage_unlist(shm, entry(0), &ticket) && ticket.account == a, "one ends with its slot");
    vl_slot_end(shm, &ticket, NULL);
    ok(running(a) == 1 && vl_fair_free(&shm->queue) == 1000, "the slot is free");
    ok(vl_engage_unlist(shm, entry(1), &ticket), "the other one too");
    vl_slot_end(shm, &ticket, NULL);
    ok(!running(a) && valid(shm), "nothing is left");
}

static void sleeping_requests_count_their_duty(void)
{
    vl_ticket_t ticket;
    apr_uint32_t i;

    start(2);
    vl_fair_set_duty(&shm->queue, a, 100, 0, 0);
    shm->head->queue.by_duty = 1;
    for (i = 0; i < 8; i++)
        ok(vl_engage_list(shm, entry(i), a, -1, 0), "a request that sleeps is listed");
    ok(!vl_engage_list(shm, entry(8), a, -1, 0), "the ninth of ten threads is not");
    ok(is_engaged_by(VL_ENGAGED_THREADS), "because threads are short");
    for (i = 0; i < 8; i++) {
        ok(vl_engage_unlist(shm, entry(i), &ticket), "it holds a slot");
        vl_slot_end(shm, &ticket, NULL);
    }
    ok(valid(shm), "nothing is left");
}

static void a_site_has_its_own_limit(void)
{
    vl_ticket_t ticket;

    start(8);
    ok(vl_engage_list(shm, entry(0), b, -1, 0) && vl_engage_list(shm, entry(1), b, -1, 1), "two are allowed");
    ok(!vl_engage_list(shm, entry(2), b, -1, 0), "a third one is not");
    ok(is_engaged_by(VL_ENGAGED_LIMIT) && running(b) == 2, "the limit engages");
    ok(vl_engage_unlist(shm, entry(1), &ticket) && ticket.stream, "a stream holds a stream's slot");
    vl_slot_end(shm, &ticket, NULL);
    vl_engage_unlist(shm, entry(0), &ticket);
    vl_slot_end(shm, &ticket, NULL);
    ok(valid(shm), "nothing is left");
}

static void a_request_that_waits_for_its_client_holds_no_slot(void)
{
    vl_ticket_t ticket;
    apr_uint32_t serial;

    start(1);
    ok(vl_engage_list(shm, entry(0), a, -1, 0) && !vl_engage_list(shm, entry(1), a, -1, 0), "engaged");
    serial = vl_duty_task(shm, 0, 0)->serial;
    vl_engage_disown(shm, 0, 0, serial + 1);
    ok(running(a) == 1, "another request in its entry is not meant");
    vl_engage_disown(shm, 0, 0, serial);
    ok(!running(a) && valid(shm), "it holds no slot any more");
    ok(shm->children[0].occupied == 1, "its thread is occupied");
    ok(!vl_engage_unlist(shm, entry(0), &ticket), "so it releases none");
    ok(!shm->children[0].occupied && valid(shm), "and its thread is free");
}

static void a_site_leaves_the_last_fifth(void)
{
    apr_uint32_t i;

    start(5);
    for (i = 0; i < 4; i++)
        ok(vl_engage_list(shm, entry(i), a, -1, 0), "a request is listed");
    ok(vl_engage_has_room(shm, 0) && vl_engage_has_room(shm, b + 1), "there is room for others");
    ok(!vl_engage_list(shm, entry(4), a, -1, 0), "the fifth of five slots is for other sites");
    ok(is_engaged_by(VL_ENGAGED_SLOTS), "so the request engages the server");
}

static void even_sites_may_have_twice_the_slots(void)
{
    apr_uint32_t c, i;

    start(3);
    c = account_with(shm, "c", limits_of(VL_MODE_ON, 0, 100));
    shm->head->queue.by_duty = 1;
    shm->queue.accounts[a].estimate_us = shm->queue.accounts[c].estimate_us = 100;
    for (i = 0; i < 6; i++)
        ok(vl_engage_list(shm, entry(i), i % 2 ? a : c, -1, 0), "two even sites with short requests");
    ok(!vl_engage_list(shm, entry(6), a, -1, 0) && is_engaged_by(VL_ENGAGED_SLOTS), "not more than twice the slots");
    start(4);
    c = account_with(shm, "c", limits_of(VL_MODE_ON, 0, 100));
    shm->head->queue.by_duty = 1;
    shm->queue.accounts[a].estimate_us = shm->queue.accounts[c].estimate_us = 100;
    for (i = 0; i < 4; i++)
        ok(vl_engage_list(shm, entry(i), i ? a : c, -1, 0), "a site with more than the other");
    ok(!vl_engage_list(shm, entry(4), a, -1, 0) && is_engaged_by(VL_ENGAGED_SLOTS), "may not exceed the slots");
}

static void the_server_becomes_dormant_when_it_is_calm(void)
{
    apr_int64_t now_us = vl_clock_us();
    vl_ticket_t ticket;

    start(1);
    ok(vl_engage_list(shm, entry(0), a, -1, 0) && !vl_engage_list(shm, entry(1), a, -1, 0), "engaged");
    vl_charge_credit(shm, now_us);
    vl_engage_tick(shm, now_us + VL_CALM_US * 2, 0);
    ok(!vl_engage_is_dormant(shm), "not while a slot is in use");
    vl_engage_unlist(shm, entry(0), &ticket);
    vl_slot_end(shm, &ticket, NULL);
    vl_engage_tick(shm, now_us + VL_CALM_US * 5 / 2, 0);
    ok(!vl_engage_is_dormant(shm), "nor at once");
    vl_engage_tick(shm, now_us + VL_CALM_US * 7 / 2, 0);
    ok(vl_engage_is_dormant(shm) && vl_engage_state(shm).changes == 2, "but after a second");
}

static void a_dead_child_leaves_nothing(void)
{
    start(8);
    vl_engage_list(shm, entry(0), a, -1, 0);
    vl_engage_accepted(shm, 1);
    ok(vl_shm_parent_reclaim(shm, getpid()) == 1, "one request is lost");
    ok(!running(a) && !vl_engage_state(shm).load && !vl_engage_state(shm).sites && valid(shm), "nothing is left");
}

static void charges_leave_no_debt_to_a_site_alone(void)
{
    apr_uint64_t behind;

    start(8);
    vl_engage_charge(shm, a, 10, 1000, 500000);
    vl_engage_charge(shm, a, 10, 1000, 500000);
    behind = shm->queue.accounts[a].fair.tag - shm->queue.head->vtime;
    ok(behind <= 500000 / 100 * (apr_uint64_t)VL_FAIR_UNIT, "only the last charge is a debt");
    vl_engage_charge(shm, b, 1, 1000, 10);
    ok(shm->queue.accounts[b].fair.tag >= shm->queue.head->vtime, "another site begins at the present time");
}

/* --- in any order ------------------------------------------------------------ */

static int stop;

static void *list_and_unlist(void *data)
{
    apr_uint32_t i = *(apr_uint32_t *)data;
    vl_ticket_t ticket;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        if (vl_engage_list(shm, entry(i), a, -1, 0) && vl_engage_unlist(shm, entry(i), &ticket))
            vl_slot_end(shm, &ticket, NULL);
    }
    return NULL;
}

static void toggles_lose_no_count(void)
{
    static const apr_uint32_t entries[ENTRIES] = { 0, 1, 2, 3 };
    pthread_t threads[ENTRIES];
    int i;

    setenv("VHOSTLIMIT_TEST_STATE", "toggled", 1);
    start(100);
    vl_charge_credit(shm, vl_clock_us());
    for (i = 0; i < ENTRIES; i++)
        pthread_create(&threads[i], NULL, list_and_unlist, (void *)&entries[i]);
    for (i = 0; i < 20000; i++)
        vl_engage_tick(shm, vl_clock_us(), 0);
    stop = 1;
    for (i = 0; i < ENTRIES; i++)
        pthread_join(threads[i], NULL);
    ok(vl_engage_state(shm).changes >= 10000, "the state has changed often");
    ok(!running(a) && !vl_engage_state(shm).load && !vl_engage_state(shm).sites, "no request is left");
    ok(valid(shm), "the segment is valid");
}

int main(void)
{
    segment_init();
    requests_up_to_the_slots_are_listed();
    sleeping_requests_count_their_duty();
    a_site_has_its_own_limit();
    a_request_that_waits_for_its_client_holds_no_slot();
    a_site_leaves_the_last_fifth();
    even_sites_may_have_twice_the_slots();
    the_server_becomes_dormant_when_it_is_calm();
    a_dead_child_leaves_nothing();
    charges_leave_no_debt_to_a_site_alone();
    toggles_lose_no_count();
    return tap_done();
}
