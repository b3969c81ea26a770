/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_newconn_queue.h"

#include <string.h>

#include <http_log.h>

#include "accept/vl_newconn_answer.h"
#include "base/vl_clock.h"
#include "base/vl_private.h"
#include "core/vl_shm_child.h"
#include "core/vl_thread.h"
#include "lease/vl_lease.h"

/* A connection that is queued for longer is watched for the close of its client. A
 * shorter one is checked before it is passed to the MPM, which saves two system calls. */
#define WATCH_CLOSE_US 100000
/* A connection that was queued for longer is checked for a client that has gone. */
#define PROBE_US 10000

/* The done() callback of the waiters. */
static void done_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    vl_arrival_t *arrival = (vl_arrival_t *)waiter;

    arrival->grant.holds = ticket != NULL;
    arrival->grant.ticket.account = waiter->account;
    if (ticket)
        arrival->grant.ticket = *ticket;
    arrival->grant.refused = refused;
    if (refused == VL_REASON_QUEUE)
        vl_arrival_refuse_locked(arrival);
    else
        vl_arrival_pass_locked(arrival);
}

void vl_arrival_request_slot(vl_arrival_t *arrival, const vl_conf_t *conf,
                             apr_uint32_t account, const vl_client_id_t *client)
{
    vl_waiter_t *waiter = &arrival->waiter;

    waiter->account = account;
    waiter->client = *client;
    waiter->since_us = arrival->queued_since_us ? arrival->queued_since_us
                                                : vl_clock_us();
    waiter->deadline_us = waiter->since_us + conf->queue_timeout;
    waiter->done = done_locked;
    arrival->grant.timeout_us = conf->queue_timeout;
    waiter->may_defer = 1;
    arrival->conf = conf;
    arrival->was_queued = 1;
    vl_park_lock();
    vl_arrival_move_until_locked(arrival, QUEUED, vl_clock_us() + WATCH_CLOSE_US);
    if (vl_park_ask_locked(waiter, &arrival->grant.ticket)) {
        arrival->grant.holds = 1;
        arrival->grant.ticket.client = *client;
        arrival->was_queued = arrival->queued_since_us != 0;
        vl_arrival_pass_locked(arrival);
    }
    vl_park_unlock();
}

vl_arrival_t *vl_arrival_unqueue_locked(int queued)
{
    return (vl_arrival_t *)vl_park_evict_locked(done_locked, queued);
}

void vl_arrival_set_mpm_stalled_locked(int stalled)
{
    vl_arrivals->mpm_stalled = stalled;
    vl_shm_child_pause(vl_child.shm, stalled);
    vl_park_take_locked();
}

void vl_arrival_return_grant_locked(vl_grant_t *grant)
{
    if (grant->holds)
        vl_slot_end(vl_child.shm, &grant->ticket, NULL);
    if (grant->occupies)
        vl_thread_free(vl_child.shm, grant->ticket.account);
    grant->holds = grant->occupies = 0;
}

void vl_arrival_clear_grant(vl_arrival_t *arrival)
{
    arrival->ready = 0;
    arrival->was_queued = 0;
    memset(&arrival->grant, 0, sizeof(arrival->grant));
}

/* --- clients that have gone: see vl_client.h ------------------------------ */

void vl_arrival_drop_gone_locked(vl_arrival_t *arrival)
{
    vl_slot_gone(vl_child.shm, arrival->waiter.account,
                 vl_clock_us() - arrival->waiter.since_us);
    if (arrival->state == QUEUED)
        vl_park_remove_locked(&arrival->waiter);
    else
        vl_arrival_return_grant_locked(&arrival->grant);
    ap_log_error(APLOG_MARK, APLOG_DEBUG, 0, vl_child.main_server,
                 VLOGNO(0037) "site %s: a client has gone after %" APR_INT64_T_FMT
                 " ms in the queue; its request does not run",
                 arrival->conf->site->name,
                 (vl_clock_us() - arrival->waiter.since_us) / 1000);
    vl_arrival_close_locked(arrival);
    vl_park_take_locked();
}

/* Connections that were queued for a short time are not checked, because the check is a
 * system call. */
vl_arrival_t *vl_arrival_first_for_mpm_locked(void)
{
    vl_arrival_t *arrival;

    while ((arrival = vl_arrival_first_locked(FOR_MPM)) && arrival->was_queued
           && vl_clock_us() - arrival->waiter.since_us > PROBE_US
           && vl_client_is_gone(&arrival->client, arrival->fd,
                                vl_client_events(arrival->fd)))
        vl_arrival_drop_gone_locked(arrival);
    return arrival;
}

/* --- shortage of descriptors ---------------------------------------------- */

/* Closes one connection because descriptors are short. Returns whether one is closed
 * now, will be closed soon, or none can be. It chooses in this order:
 * 1. the oldest lingering connection;
 * 2. the newest connection of the site with most queued connections here, if their
 *    number is at least that of connections with incomplete heads, and at least that
 *    of connections with leases; so a flood closes its own connections;
 * 3. a connection that the MPM has (vl_lease_spare_locked());
 * 4. the oldest connection with an incomplete head. */
static vl_freed_e close_one_locked(void)
{
    vl_arrival_t *arrival = vl_arrival_first_locked(LINGERING);
    apr_uint32_t waiting;
    vl_waiter_t *newest;

    if (!arrival) {
        newest = vl_park_newest_of_longest_locked(done_locked, &waiting);
        if (newest && waiting >= vl_arrivals->count[INCOMPLETE_HEAD]
            && waiting >= vl_lease_descriptors()) {
            vl_park_remove_locked(newest);
            vl_arrival_reset_locked((vl_arrival_t *)newest);
            return VL_FREED;
        }
        if (vl_lease_spare_locked())
            return VL_FREED_SOON;
        arrival = vl_arrival_first_locked(INCOMPLETE_HEAD);
    }
    if (!arrival)
        return VL_FREED_NONE;
    vl_arrival_close_locked(arrival);
    return VL_FREED;
}

vl_freed_e vl_arrival_free_descriptor(void)
{
    vl_freed_e freed;

    vl_park_lock();
    freed = close_one_locked();
    vl_park_unlock();
    return freed;
}

void vl_arrival_limit_descriptors_locked(void)
{
    apr_uint32_t all = vl_lease_descriptors();
    int i;

    for (i = 0; i < STATES; i++)
        all += i == IN_MPM || i == RELEASED ? 0 : vl_arrivals->count[i];
    if (all / 2 > vl_child.max_lingering)
        close_one_locked();
}
