/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that leave while their connection waits: see vl_client.h. */
#include "vl_arrival_int.h"

/* Gone requests go to the MPM for the access log, while no more than so many
 * connections wait to be taken by it. */
#define LOGGED_MOST 16

int vl_arrival_is_gone_locked(vl_arrival_t *arrival, apr_uint32_t events)
{
    return vl_client_is_gone(&arrival->client, arrival->fd, events);
}

void vl_arrival_drop_gone_locked(vl_arrival_t *arrival)
{
    int waits = arrival->place == LINE;

    vl_slot_gone(vl_arrivals->shm, arrival->waiter.account);
    if (waits)
        vl_park_remove_locked(&arrival->waiter);
    else
        vl_arrival_give_back_locked(&arrival->turn);
    if (arrival->ready && vl_arrivals->count[PASSING] <= LOGGED_MOST) {
        arrival->turn.ticket.account = arrival->waiter.account;
        arrival->turn.refused = VL_REASON_GONE;
        if (waits)
            vl_arrival_pass_locked(arrival);
    }
    else {
        vl_arrival_close_locked(arrival);
    }
    vl_park_take_locked();
}

vl_arrival_t *vl_arrival_first_passing_locked(void)
{
    vl_arrival_t *arrival;

    while ((arrival = vl_arrival_first_locked(PASSING)) && arrival->waited
           && arrival->turn.refused != VL_REASON_GONE
           && vl_arrival_is_gone_locked(arrival, vl_client_events(arrival->fd)))
        vl_arrival_drop_gone_locked(arrival);
    return arrival;
}
