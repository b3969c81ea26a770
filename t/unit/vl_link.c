/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that HTTP/2 connections have, and those that are given away for who has
 * none. */
#include "segment.h"
#include "vl_link.h"
#include "vl_room.h"
#include "vl_seat.h"

static vl_shm_t *with_threads(apr_uint32_t threads)
{
    vl_shm_t *shm = make(10, 2);

    if (vl_shm_child_attach(shm, getpid(), threads) != APR_SUCCESS)
        abort();
    vl_slot_set(shm, 100);
    vl_slot_set_seats(shm, 100);
    return shm;
}

static apr_uint32_t links(vl_shm_t *shm, apr_uint32_t a)
{
    apr_uint32_t n = 0;

    while (n < 1000 && vl_link_begin(shm, a) == APR_SUCCESS)
        n++;
    return n;
}

static void one_alone_leaves_threads(void)
{
    vl_shm_t *shm = with_threads(16);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), n;
    vl_ticket_t ticket;

    n = links(shm, a);
    ok(n == 12, "of fifteen threads one that is alone gets twelve (%u)", n);
    ok(vl_slot_try(shm, a, &ticket) == APR_EAGAIN,
       "no more of it are given a slot that takes a thread");
    ok(vl_slot_try(shm, b, &ticket) == APR_SUCCESS, "another finds one");
    ok(links(shm, b) > 0, "and one for its connection");
    ok(valid(shm), "the sums hold");
    vl_link_end(shm, a);
    ok(links(shm, a) == 0, "which are then missing");
    end(shm, &ticket, 1);
    vl_link_end(shm, b);
    ok(links(shm, a) == 1, "until they are back");
}

/* It works already, with one of the MPM's threads. */
static void the_first_always_may(void)
{
    vl_shm_t *shm = with_threads(4);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);

    ok(links(shm, a) == 3, "few threads are for whoever comes");
    ok(links(shm, b) == 1, "and one of each goes on");
    ok(valid(shm), "the sums hold");
}

static void who_cannot_wait_is_not_refused(void)
{
    vl_shm_t *shm = with_threads(16);
    apr_uint32_t dry = account_with(shm, "dry",
                                    limits_of(VL_MODE_DRYRUN, 0, 100));
    apr_uint32_t none = account_with(shm, "none",
                                     limits_of(VL_MODE_ON, 0, 0));

    ok(links(shm, dry) == 1000, "under DryRun nobody is");
    vl_shm_parent_reclaim(shm, getpid());
    shm = with_threads(16);
    ok(links(shm, none) == 1000, "nor where there is no queue");
}

static void streams_take_no_thread(void)
{
    vl_shm_t *shm = with_threads(16);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), n;
    vl_ticket_t of[14];
    vl_rooms_t rooms;

    vl_link_begin(shm, a);
    for (n = 0; n < 14; n++) {
        enter(shm, a, &of[n]);
        vl_link_stream(shm, &of[n]);
    }
    vl_room_count(shm, &rooms);
    ok(rooms.here == 14, "fourteen streams of a connection have its thread (%u)",
       rooms.here);
    ok(valid(shm), "the sums hold");
    for (n = 0; n < 14; n++)
        end(shm, &of[n], 1);
    vl_link_end(shm, a);
    ok(is_empty(shm) && links(shm, b) == 12, "and all is as it was");
}

static void the_dead_leave_their_threads(void)
{
    vl_shm_t *shm = with_threads(16);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket;

    vl_link_begin(shm, a);
    enter(shm, a, &ticket);
    vl_link_stream(shm, &ticket);
    vl_shm_parent_reclaim(shm, getpid());
    ok(is_empty(shm) && !vl_shm_cell(shm, 0, a)->linked
       && !vl_shm_cell(shm, 0, a)->streams, "a dead child has none");
}

static void who_overfills_a_pressed_child_does_not_sit(void)
{
    vl_shm_t *shm = with_threads(16);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), n;
    vl_ticket_t ticket;

    for (n = 0; n < 12; n++)
        enter(shm, a, &ticket);
    ok(!vl_seat_overfills(shm, a), "with what it may have it does not overfill");
    ok(vl_seat_take(shm, a) == APR_SUCCESS && vl_seat_overfills(shm, a),
       "who waits counts");
    ok(!vl_seat_crowds(shm, a) && vl_seat_take(shm, a) == APR_SUCCESS,
       "and may as long as nobody is in need");
    vl_seat_press(shm, 1);
    ok(vl_seat_crowds(shm, a) && vl_seat_take(shm, a) == APR_EAGAIN,
       "not when somebody is");
    ok(!vl_seat_crowds(shm, b) && vl_seat_take(shm, b) == APR_SUCCESS,
       "others may");
    ok(!vl_seat_overfills(shm, b), "one is never too many");
    vl_seat_press(shm, 0);
    ok(!vl_seat_crowds(shm, a), "until that is over");
    ok(valid(shm), "the sums hold");
}

int main(void)
{
    segment_init();
    one_alone_leaves_threads();
    the_first_always_may();
    who_cannot_wait_is_not_refused();
    streams_take_no_thread();
    the_dead_leave_their_threads();
    who_overfills_a_pressed_child_does_not_sit();
    return tap_done();
}
