/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_newconn_queue.h"

#include <netinet/in.h>
#include <string.h>

#include "accept/vl_newconn_answer.h"
#include "base/vl_clock.h"
#include "base/vl_private.h"
#include "core/vl_duty.h"
#include "core/vl_shm_child.h"
#include "core/vl_slot.h"
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
    vl_newconn_t *newconn = (vl_newconn_t *)waiter;

    newconn->grant.holds = ticket != NULL;
    newconn->grant.ticket.account = waiter->account;
    if (ticket)
        newconn->grant.ticket = *ticket;
    newconn->grant.refused = refused;
    newconn->grant.reset = refused == VL_REASON_QUEUE && newconn->client.tls;
    vl_newconn_pass_locked(newconn);
}

/* Returns the client's port if the client is on this machine: a connection to one of its own
 * addresses comes from the same address. Returns 0 otherwise. */
static int own_port(const vl_newconn_t *newconn)
{
    const struct sockaddr_in *local = (const struct sockaddr_in *)&newconn->local;
    const struct sockaddr_in *remote = (const struct sockaddr_in *)&newconn->remote;
    const struct sockaddr_in6 *local6 = (const struct sockaddr_in6 *)&newconn->local;
    const struct sockaddr_in6 *remote6 = (const struct sockaddr_in6 *)&newconn->remote;

    if (newconn->local.ss_family == AF_INET)
        return local->sin_addr.s_addr == remote->sin_addr.s_addr ? ntohs(remote->sin_port) : 0;
    return newconn->local.ss_family == AF_INET6
           && IN6_ARE_ADDR_EQUAL(&local6->sin6_addr, &remote6->sin6_addr)
           ? ntohs(remote6->sin6_port) : 0;
}

void vl_newconn_let_calls(void)
{
    vl_newconn_t *newconn, *next;
    vl_ticket_t ticket;
    int port;

    vl_waiters_lock();
    for (newconn = APR_RING_FIRST(&vl_newconns->ring[QUEUED]);
         newconn != APR_RING_SENTINEL(&vl_newconns->ring[QUEUED], vl_newconn_t, link);
         newconn = next) {
        next = APR_RING_NEXT(newconn, link);
        port = own_port(newconn);
        if (!port || !vl_duty_call(vl_child.shm, port)
            || vl_slot_ask(vl_child.shm, newconn->waiter.account, VL_ASK_CALL, 0, &ticket) != APR_SUCCESS)
            continue;
        vl_waiters_remove_locked(&newconn->waiter);
        ticket.client = newconn->waiter.client;
        done_locked(&newconn->waiter, &ticket, VL_REASON_NONE);
    }
    vl_waiters_unlock();
}

void vl_newconn_request_slot(vl_newconn_t *newconn, const vl_conf_t *conf,
                             const vl_classified_t *found)
{
    vl_waiter_t *waiter = &newconn->waiter;

    waiter->account = found->account;
    waiter->client = found->client;
    waiter->since_us = newconn->queued_since_us ? newconn->queued_since_us
                                                : vl_clock_us();
    waiter->deadline_us = waiter->since_us + conf->queue_timeout;
    waiter->done = done_locked;
    newconn->grant.timeout_us = conf->queue_timeout;
    waiter->may_defer = 1;
    newconn->was_queued = 1;
    vl_waiters_lock();
    vl_newconn_move_until_locked(newconn, QUEUED, vl_clock_us() + WATCH_CLOSE_US);
    if ((found->acme
         && vl_slot_ask(vl_child.shm, found->account, VL_ASK_CALL, 0, &newconn->grant.ticket) == APR_SUCCESS)
        || vl_waiters_ask_locked(waiter, &newconn->grant.ticket)) {
        newconn->grant.holds = 1;
        newconn->grant.ticket.client = found->client;
        newconn->was_queued = newconn->queued_since_us != 0;
        vl_newconn_pass_locked(newconn);
    }
    else if (own_port(newconn)) {
        vl_duty_want_calls(vl_child.shm);
    }
    vl_waiters_unlock();
}

apr_uint32_t vl_newconn_queued(void)
{
    return __atomic_load_n(&vl_newconns->count[QUEUED], __ATOMIC_RELAXED);
}

vl_newconn_t *vl_newconn_unqueue_locked(int queued)
{
    return (vl_newconn_t *)vl_waiters_evict_locked(done_locked, queued);
}

void vl_newconn_set_mpm_stalled_locked(int stalled)
{
    vl_newconns->mpm_stalled = stalled;
    vl_shm_child_pause(vl_child.shm, stalled);
    vl_waiters_take_locked();
}

void vl_newconn_return_grant_locked(vl_grant_t *grant)
{
    if (grant->holds)
        vl_slot_end(vl_child.shm, &grant->ticket, NULL);
    if (grant->occupies)
        vl_slot_unoccupy(vl_child.shm, grant->ticket.account);
    grant->holds = grant->occupies = 0;
}

void vl_newconn_clear_grant(vl_newconn_t *newconn)
{
    newconn->ready = 0;
    newconn->was_queued = 0;
    memset(&newconn->grant, 0, sizeof(newconn->grant));
}

/* --- clients that have gone: see vl_client.h ------------------------------ */

void vl_newconn_drop_gone_locked(vl_newconn_t *newconn)
{
    vl_slot_gone(vl_child.shm, newconn->waiter.account,
                 vl_clock_us() - newconn->waiter.since_us);
    if (newconn->state == QUEUED)
        vl_waiters_remove_locked(&newconn->waiter);
    else
        vl_newconn_return_grant_locked(&newconn->grant);
    vl_newconn_close_locked(newconn);
    vl_waiters_take_locked();
}

/* Connections that were queued for a short time are not checked, because the check is a
 * system call. */
vl_newconn_t *vl_newconn_first_for_mpm_locked(void)
{
    vl_newconn_t *newconn;

    while ((newconn = vl_newconn_first_locked(FOR_MPM)) && newconn->was_queued
           && vl_clock_us() - newconn->waiter.since_us > PROBE_US
           && vl_client_is_gone(&newconn->client, newconn->fd,
                                vl_client_events(newconn->fd)))
        vl_newconn_drop_gone_locked(newconn);
    return newconn;
}

/* --- shortage of descriptors ---------------------------------------------- */

/* Closes one connection because descriptors are short. Returns whether one is closed
 * now, will be closed soon, or none can be. It chooses in this order:
 * 1. the oldest lingering connection;
 * 2. the newest connection of the site with most queued connections here, if their
 *    number is at least that of connections with incomplete heads, and at least that
 *    of connections with leases; so a flood closes its own connections;
 * 3. a connection that the MPM has (vl_lease_close_one_locked());
 * 4. the oldest connection with an incomplete head. */
static vl_freed_e close_one_locked(void)
{
    vl_newconn_t *newconn = vl_newconn_first_locked(LINGERING);
    apr_uint32_t waiting;
    vl_waiter_t *newest;

    if (!newconn) {
        newest = vl_waiters_newest_of_longest_locked(done_locked, &waiting);
        if (newest && waiting >= vl_newconns->count[INCOMPLETE_HEAD]
            && waiting >= vl_lease_descriptors()) {
            vl_waiters_remove_locked(newest);
            vl_newconn_reset_locked((vl_newconn_t *)newest);
            return VL_FREED;
        }
        if (vl_lease_close_one_locked())
            return VL_FREED_SOON;
        newconn = vl_newconn_first_locked(INCOMPLETE_HEAD);
    }
    if (!newconn)
        return VL_FREED_NONE;
    vl_newconn_close_locked(newconn);
    return VL_FREED;
}

vl_freed_e vl_newconn_free_descriptor(void)
{
    vl_freed_e freed;

    vl_waiters_lock();
    freed = close_one_locked();
    vl_waiters_unlock();
    return freed;
}

static apr_uint32_t descriptors_locked(void)
{
    apr_uint32_t all = vl_lease_descriptors();
    int i;

    for (i = 0; i < STATES; i++)
        all += i == IN_MPM || i == RELEASED ? 0 : vl_newconns->count[i];
    return all;
}

void vl_newconn_limit_descriptors_locked(void)
{
    if (descriptors_locked() / 2 > vl_child.max_lingering)
        close_one_locked();
}

int vl_newconn_has_descriptors(void)
{
    int has;

    vl_waiters_lock();
    has = descriptors_locked() < vl_child.max_lingering;
    vl_waiters_unlock();
    return has;
}
