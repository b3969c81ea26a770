/* SPDX-License-Identifier: Apache-2.0 */
#include "request/vl_hello.h"

#include <pthread.h>

#include <http_connection.h>
#include <util_filter.h>

#include "cost/vl_meter.h"
#include "base/vl_private.h"
#include "core/vl_thread.h"

struct vl_hello_t {
    vl_turn_t *turn;
    apr_uint32_t account;
    pthread_t thread;
    apr_int64_t charged_us;         /* up to here, on that thread's clock */
    int over;
};

static ap_filter_rec_t *filter_handle;
static vl_shm_t *accounts;

/* What the thread has done since it was last charged. */
static apr_uint64_t work_us(vl_hello_t *hello)
{
    apr_int64_t now, us;

    if (!pthread_equal(hello->thread, pthread_self()))
        return 0;
    now = vl_meter_thread_us();
    us = now - hello->charged_us;
    hello->charged_us = now;
    return us > 0 ? (apr_uint64_t)us : 0;
}

static void release_slot(vl_hello_t *hello)
{
    vl_cost_t cost = { 0 };

    if (!hello->turn->holds)
        return;
    hello->turn->holds = 0;
    hello->turn->given_back = hello->turn->occupies = 1;
    vl_thread_occupy(accounts, hello->account);
    cost.cpu_us = work_us(hello);
    vl_park_end(&hello->turn->ticket, &cost);
}

static apr_status_t filter_hello(ap_filter_t *f, apr_bucket_brigade *bb,
                                 ap_input_mode_t mode, apr_read_type_e block,
                                 apr_off_t readbytes)
{
    vl_hello_t *hello = f->ctx;
    apr_status_t rv;

    if (hello->over) {
        ap_remove_input_filter(f);
        return ap_get_brigade(f->next, bb, mode, block, readbytes);
    }
    rv = ap_get_brigade(f->next, bb, mode, APR_NONBLOCK_READ, readbytes);
    if (!APR_STATUS_IS_EAGAIN(rv)
        && (rv != APR_SUCCESS || !APR_BRIGADE_EMPTY(bb)
            || mode == AP_MODE_INIT))
        return rv;
    release_slot(hello);
    return block == APR_NONBLOCK_READ
           ? rv : ap_get_brigade(f->next, bb, mode, block, readbytes);
}

vl_hello_t *vl_hello_begin(conn_rec *c, vl_turn_t *turn, apr_int64_t thread_us)
{
    vl_hello_t *hello = apr_pcalloc(c->pool, sizeof(*hello));

    hello->turn = turn;
    hello->account = turn->ticket.account;
    hello->thread = pthread_self();
    hello->charged_us = thread_us;
    ap_add_input_filter_handle(filter_handle, hello, NULL, c);
    return hello;
}

void vl_hello_end(vl_hello_t *hello)
{
    apr_uint64_t us;

    if (!hello || hello->over)
        return;
    hello->over = 1;
    us = work_us(hello);
    if (us)
        vl_charge_pay(accounts, hello->account, us);
}

void vl_hello_register(void)
{
    /* Right above the core's, which reads the socket. */
    filter_handle = ap_register_input_filter("VHOSTLIMIT_HELLO", filter_hello,
                                             NULL, AP_FTYPE_NETWORK - 1);
}

void vl_hello_child_init(vl_shm_t *shm)
{
    accounts = shm;
}
