/* SPDX-License-Identifier: Apache-2.0 */
/* What time does to arrivals, while the acceptor lives and when it hangs. */
#include "accept/vl_arrival_int.h"

#include <stddef.h>
#include <sys/socket.h>

#include "base/vl_clock.h"

/* Connections that are refused in a tenth of a second, in all children and at
 * least in each: the rest of them wait until the next.  So a flood beyond the
 * queue costs a bounded part of the processors, however large it is. */
#define REFUSALS_ALL 50
#define REFUSALS_EACH 4

/* The MPM was told that somebody may pass and has not come for so long. */
#define STUCK_US (100 * 1000)

static void due_locked(vl_timer_t *timer)
{
    vl_arrival_t *arrival = (vl_arrival_t *)(void *)
        ((char *)timer - offsetof(vl_arrival_t, timer));

    if (arrival->place == PENDING)
        vl_arrival_time_out_locked(arrival);
    else if (arrival->place == LINE)
        vl_arrival_watch_end_locked(arrival);
    else
        vl_arrival_close_locked(arrival);
}

/* The MPM has stopped accepting, because its connections or its threads are at
 * their limit, and slots that nobody uses are held here: they go back, and no
 * more are granted to this child until the MPM asks again.  Who has had a slot
 * taken away waits again, before the others. */
static void give_up_slots_locked(apr_int64_t now_us)
{
    apr_int64_t limit = now_us - STUCK_US;
    struct arrivals_t *passing = &vl_arrivals->in[PASSING];
    vl_arrival_t *arrival, *before;

    if (vl_arrivals->stuck || !vl_arrival_first_locked(PASSING)
        || vl_arrivals->asked_us > limit || vl_arrivals->signalled_us > limit)
        return;
    vl_arrivals->stuck = 1;
    vl_shm_child_pause(vl_arrivals->shm, 1);
    vl_park_take_locked();
    for (arrival = APR_RING_LAST(passing);
         arrival != APR_RING_SENTINEL(passing, vl_arrival_t, link);
         arrival = before) {
        before = APR_RING_PREV(arrival, link);
        if (arrival->grant.holds) {
            vl_arrival_give_back_locked(&arrival->grant);
            arrival->waited = 1;
            vl_arrival_move_locked(arrival, LINE);
            vl_park_put_back_locked(&arrival->waiter);
        }
    }
}

int vl_arrival_tick(apr_int64_t now_us)
{
    apr_uint32_t children = vl_shm_child_others(vl_arrivals->shm);
    apr_uint32_t most = children ? REFUSALS_ALL / children : REFUSALS_ALL;
    int stuck;

    vl_park_lock();
    vl_park_expire_locked(now_us, most > REFUSALS_EACH ? most : REFUSALS_EACH);
    vl_park_refill_locked();
    vl_park_take_locked();
    vl_wheel_turn(vl_arrivals->wheel, now_us, due_locked);
    give_up_slots_locked(now_us);
    stuck = vl_arrivals->stuck;
    vl_park_unlock();
    return stuck;
}

static int has_sent(const vl_arrival_t *arrival)
{
    char byte;

    return recv(arrival->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void pass_senders_locked(place_e place)
{
    struct arrivals_t *in = &vl_arrivals->in[place];
    vl_arrival_t *arrival, *next;

    for (arrival = APR_RING_FIRST(in);
         arrival != APR_RING_SENTINEL(in, vl_arrival_t, link); arrival = next) {
        next = APR_RING_NEXT(arrival, link);
        if (has_sent(arrival)) {
            vl_arrival_forget_grant(arrival);
            vl_arrival_pass_locked(arrival);
        }
    }
}

int vl_arrival_stand_in(apr_int64_t now_us)
{
    vl_park_lock();
    pass_senders_locked(PENDING);
    pass_senders_locked(KEPT);
    vl_park_unlock();
    return vl_arrival_tick(now_us);
}
