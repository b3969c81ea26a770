/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of HTTP/2 whose account has as many of the MPM's threads, with other
 * connections, as are to be one's.  The thread of theirs is meanwhile one that
 * waits, like that of a request that waits for its slot: it has a seat. */
#include "vl_park_int.h"

#include <apr_ring.h>

#include "vl_clock.h"
#include "vl_link.h"
#include "vl_seat.h"

typedef struct applicant_t {
    APR_RING_ENTRY(applicant_t) ring;
    vl_connection_t *of;
    apr_uint32_t account;
    int dropped;
    pthread_cond_t called;
} applicant_t;

static APR_RING_HEAD(applicants_t, applicant_t) applicants;

void vl_park_link_child_init(void)
{
    APR_RING_INIT(&applicants, applicant_t, ring);
}

static apr_status_t join_locked(vl_connection_t *of, apr_uint32_t account)
{
    apr_status_t rv = APR_SUCCESS;

    if (!of->linked) {
        rv = vl_link_begin(vl_park.shm, account);
        of->linked = rv == APR_SUCCESS;
        of->account = account;
    }
    of->streams += rv == APR_SUCCESS;
    return rv;
}

/* 0: it may not wait. */
static int apply_locked(applicant_t *one)
{
    vl_connection_t *of = one->of;

    if (!vl_park_stream_sits_locked(one->account))
        return 0;
    if (!of->waiting
        && vl_seat_keep(vl_park.shm, one->account) != APR_SUCCESS) {
        vl_park_stream_rises_locked(one->account);
        return 0;
    }
    if (!of->waiting++)
        of->seat_of = one->account;
    APR_RING_INSERT_TAIL(&applicants, one, applicant_t, ring);
    return 1;
}

static void leave_locked(applicant_t *one)
{
    vl_connection_t *of = one->of;

    APR_RING_REMOVE(one, ring);
    vl_park_stream_rises_locked(one->account);
    if (!--of->waiting)
        vl_seat_leave(vl_park.shm, of->seat_of);
    vl_park_take_granted_locked();
}

static apr_status_t wait_locked(applicant_t *one, apr_int64_t until_us)
{
    apr_status_t rv = APR_EAGAIN;

    while (APR_STATUS_IS_EAGAIN(rv) && !one->dropped
           && vl_clock_us() < until_us) {
        vl_park_nap_locked(&one->called, until_us);
        rv = join_locked(one->of, one->account);
    }
    return rv;
}

static apr_status_t apply_and_wait_locked(applicant_t *one,
                                          apr_int64_t until_us)
{
    apr_status_t rv;

    if (!apply_locked(one)) {
        one->dropped = 1;
        return APR_EAGAIN;
    }
    vl_park_called_init(&one->called);
    rv = wait_locked(one, until_us);
    leave_locked(one);
    pthread_cond_destroy(&one->called);
    return rv;
}

int vl_park_join(vl_connection_t *of, apr_uint32_t account,
                 apr_int64_t timeout_us, vl_turn_t *ret_turn)
{
    applicant_t one = { .of = of, .account = account };
    apr_int64_t since_us = vl_clock_us();
    apr_status_t rv;

    vl_park_lock();
    rv = join_locked(of, account);
    if (APR_STATUS_IS_EAGAIN(rv)) {
        rv = apply_and_wait_locked(&one, since_us + timeout_us);
        ret_turn->waited_us = vl_clock_us() - since_us;
    }
    if (APR_STATUS_IS_EAGAIN(rv))
        ret_turn->refused = one.dropped ? VL_REASON_THREADS
                                        : VL_REASON_TIMEOUT;
    vl_park_unlock();
    return rv == APR_SUCCESS;
}

static void call_first_locked(void)
{
    if (!APR_RING_EMPTY(&applicants, applicant_t, ring))
        pthread_cond_signal(&APR_RING_FIRST(&applicants)->called);
}

static void unlink_locked(vl_connection_t *of)
{
    vl_link_end(vl_park.shm, of->account);
    of->linked = 0;
    vl_park_take_granted_locked();
    call_first_locked();
}

void vl_park_part(vl_connection_t *of, int keeps)
{
    vl_park_lock();
    if (!--of->streams && !keeps)
        unlink_locked(of);
    vl_park_unlock();
}

void vl_park_unlink(vl_connection_t *of)
{
    if (!of->linked)
        return;
    vl_park_lock();
    unlink_locked(of);
    vl_park_unlock();
}

int vl_park_link_drop_locked(void)
{
    applicant_t *one;

    for (one = APR_RING_LAST(&applicants);
         one != APR_RING_SENTINEL(&applicants, applicant_t, ring);
         one = APR_RING_PREV(one, ring)) {
        if (!one->dropped && vl_seat_overfills(vl_park.shm, one->account)) {
            one->dropped = 1;
            pthread_cond_signal(&one->called);
            return 1;
        }
    }
    return 0;
}
