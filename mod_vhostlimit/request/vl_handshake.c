/* SPDX-License-Identifier: Apache-2.0 */
#include "request/vl_handshake.h"

#include <pthread.h>

#include <http_connection.h>
#include <util_filter.h>

#include "accept/vl_child.h"
#include "cost/vl_meter.h"
#include "base/vl_private.h"
#include "core/vl_slot.h"
#include "request/vl_request.h"

struct vl_handshake_t {
    vl_grant_t *grant;
    apr_uint32_t account;
    vl_client_id_t client;
    pthread_t thread;
    apr_int64_t charged_us;         /* reading of that thread's clock at the last charge */
    int measures;                   /* ... which is charged */
    int over;                       /* the slot is released no more */
};

static ap_filter_rec_t *filter_handle;

/* Returns the CPU time of the thread since the last charge, 0 on another thread, and after the
 * hooks of the connection have run there. */
static apr_uint64_t uncharged_us(vl_handshake_t *handshake)
{
    apr_int64_t now, us;

    if (!handshake->measures || !pthread_equal(handshake->thread, pthread_self()))
        return 0;
    now = vl_meter_thread_us();
    us = now - handshake->charged_us;
    handshake->charged_us = now;
    return us > 0 ? (apr_uint64_t)us : 0;
}

/* Returns the slot, if the connection still has it, and counts its thread as occupied. */
static void release_slot(vl_handshake_t *handshake)
{
    vl_cost_t cost = { 0 };

    if (!handshake->grant->holds)
        return;
    handshake->grant->holds = 0;
    handshake->grant->given_back = handshake->grant->occupies = 1;
    vl_slot_occupy(vl_child.shm, handshake->account, VL_OCCUPY);
    cost.cpu_us = uncharged_us(handshake);
    cost.client = &handshake->client;
    vl_waiters_end(&handshake->grant->ticket, &cost);
}

/* Connection input filter: releases the slot when the client has to be waited for. */
static apr_status_t filter_handshake(ap_filter_t *f, apr_bucket_brigade *bb,
                                     ap_input_mode_t mode, apr_read_type_e block,
                                     apr_off_t readbytes)
{
    vl_handshake_t *handshake = f->ctx;
    apr_status_t rv;

    if (handshake->over) {
        ap_remove_input_filter(f);
        return ap_get_brigade(f->next, bb, mode, block, readbytes);
    }
    rv = ap_get_brigade(f->next, bb, mode, APR_NONBLOCK_READ, readbytes);
    if (!APR_STATUS_IS_EAGAIN(rv)
        && (rv != APR_SUCCESS || !APR_BRIGADE_EMPTY(bb)
            || mode == AP_MODE_INIT))
        return rv;
    release_slot(handshake);
    return block == APR_NONBLOCK_READ
           ? rv : ap_get_brigade(f->next, bb, mode, block, readbytes);
}

vl_handshake_t *vl_handshake_begin(conn_rec *c, vl_grant_t *grant, apr_int64_t thread_us)
{
    vl_handshake_t *handshake = apr_pcalloc(c->pool, sizeof(*handshake));

    handshake->grant = grant;
    handshake->account = grant->ticket.account;
    handshake->client = grant->ticket.client;
    handshake->thread = pthread_self();
    handshake->measures = 1;
    handshake->charged_us = thread_us;
    ap_add_input_filter_handle(filter_handle, handshake, NULL, c);
    return handshake;
}

static void charge(const vl_handshake_t *handshake, apr_uint64_t us)
{
    if (!us)
        return;
    vl_slot_charge(vl_child.shm, handshake->account, us);
    vl_fair_charge_client(vl_child.shm, handshake->account, &handshake->client, us, 0);
}

void vl_handshake_leave(vl_handshake_t *handshake)
{
    if (!handshake || !handshake->measures)
        return;
    if (pthread_equal(handshake->thread, pthread_self())) {
        charge(handshake, uncharged_us(handshake));
        vl_request_charged_until(handshake->charged_us);
    }
    handshake->measures = 0;
}

void vl_handshake_end(vl_handshake_t *handshake)
{
    vl_handshake_leave(handshake);
    if (handshake)
        handshake->over = 1;
}

void vl_handshake_close(vl_handshake_t *handshake)
{
    vl_handshake_end(handshake);
    if (handshake)
        charge(handshake, vl_request_take_rest());
}

void vl_handshake_register(void)
{
    /* Directly above the core's filter, which reads the socket. */
    filter_handle = ap_register_input_filter("VHOSTLIMIT_HELLO", filter_handshake,
                                             NULL, AP_FTYPE_NETWORK - 1);
}
