/* SPDX-License-Identifier: Apache-2.0 */
/* Connections whose client has gone while they were queued: see vl_client.h. */
#include "accept/vl_arrival_table.h"

#include <http_log.h>

#include "base/vl_clock.h"
#include "base/vl_private.h"

/* A connection that was queued for longer is checked for a client that has gone. */
#define PROBE_US 10000

int vl_arrival_is_gone_locked(vl_arrival_t *arrival, apr_uint32_t events)
{
    return vl_client_is_gone(&arrival->client, arrival->fd, events);
}

void vl_arrival_drop_gone_locked(vl_arrival_t *arrival)
{
    vl_slot_gone(vl_arrivals->shm, arrival->waiter.account);
    if (arrival->state == QUEUED)
        vl_park_remove_locked(&arrival->waiter);
    else
        vl_arrival_give_back_locked(&arrival->grant);
    ap_log_error(APLOG_MARK, APLOG_DEBUG, 0, vl_arrivals->main_server,
                 VLOGNO(0037) "vhost %s: a client has gone after %" APR_INT64_T_FMT
                 " ms in the queue, and nothing runs for it",
                 arrival->conf->account_name,
                 (vl_clock_us() - arrival->waiter.since_us) / 1000);
    vl_arrival_close_locked(arrival);
    vl_park_take_locked();
}

/* Newer connections are not checked, because the check is a system call. */
static int was_queued_long(const vl_arrival_t *arrival)
{
    return arrival->was_queued && vl_clock_us() - arrival->waiter.since_us > PROBE_US;
}

vl_arrival_t *vl_arrival_first_passing_locked(void)
{
    vl_arrival_t *arrival;

    while ((arrival = vl_arrival_first_locked(FOR_MPM)) && was_queued_long(arrival)
           && vl_arrival_is_gone_locked(arrival, vl_client_events(arrival->fd)))
        vl_arrival_drop_gone_locked(arrival);
    return arrival;
}
