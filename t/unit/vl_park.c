/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread is told that waits for a slot. */
#include "segment.h"
#include "vl_park.h"

#define WAIT_US 1000

static vl_shm_t *shm;
static apr_uint32_t a;

static void begin(apr_uint32_t threads)
{
    shm = make(10, 2);
    a = account(shm, "a", 1);
    if (vl_shm_child_attach(shm, getpid(), threads) != APR_SUCCESS)
        abort();
    vl_slot_set(shm, 1);
    vl_slot_set_seats(shm, 10);
    vl_park_child_init(pool, shm, 10, 10, threads, 4);
}

static vl_turn_t sit(int stream)
{
    vl_turn_t turn = { 0 };

    vl_park_sit(a, stream, WAIT_US, &turn);
    return turn;
}

static void somebody_is_told(void)
{
    vl_ticket_t ticket;
    vl_turn_t turn;

    begin(4);
    turn = sit(0);
    ok(turn.holds && !turn.refused, "a slot that is free is his");
    vl_slot_end(shm, &turn.ticket, NULL);
    if (!enter(shm, a, &ticket))
        abort();
    turn = sit(0);
    ok(!turn.holds && turn.refused == VL_REASON_TIMEOUT,
       "or that he has waited too long");
    vl_slot_end(shm, &ticket, NULL);
    ok(is_empty(shm), "and he is not counted any more");
}

static void no_thread_may_wait(void)
{
    begin(2);
    ok(sit(0).refused == VL_REASON_THREADS, "one of two has to work");
    ok(sit(1).holds, "but a stream may");
}

/* As a child is that has no place in the segment. */
static void who_cannot_be_counted_is_not_refused(void)
{
    vl_turn_t turn;
    int stream;

    begin(4);
    shm->self = NO_CHILD;
    for (stream = 0; stream < 2; stream++) {
        turn = sit(stream);
        ok(!turn.holds && turn.refused == VL_REASON_NONE,
           "neither a slot nor a refusal, %s",
           stream ? "for a stream" : "for a thread");
    }
}

int main(void)
{
    segment_init();
    somebody_is_told();
    no_thread_may_wait();
    who_cannot_be_counted_is_not_refused();
    return tap_done();
}
