/* SPDX-License-Identifier: Apache-2.0 */
/* Exchange of connections with other children: connections that they transfer are
 * received here, and queued ones are transferred to children with free threads, or to
 * any other child when this one stops. */
#include "accept/vl_acceptor.h"

#include <errno.h>
#include <unistd.h>

#include "accept/vl_arrival.h"
#include "base/vl_clock.h"
#include "accept/vl_transfer.h"
#include "lease/vl_lease.h"
#include "base/vl_private.h"
#include "core/vl_capacity.h"

/* A stopping child waits as long for other children to start, and for clients to
 * close. */
#define WAIT_FOR_OTHERS_US (1 * APR_USEC_PER_SEC)
#define STOP_US (3 * APR_USEC_PER_SEC)
/* Attempts, 10 ms apart, before connections that no child receives are closed. */
#define TRANSFER_TRIES 100
/* Connections per message. Another child receives all of them, if it has descriptors
 * for all. */
#define TRANSFER_BATCH 16
/* Interval of the warning that no descriptors are left. */
#define FULL_WARN_US (60 * APR_USEC_PER_SEC)

void vl_accept_warn_full(void)
{
    static apr_int64_t warned;
    apr_int64_t now = vl_clock_us();

    if (warned && now - warned < FULL_WARN_US)
        return;
    warned = now;
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, vl_child.main_server,
                 VLOGNO(0033) "this child has no descriptors left for "
                 "connections from other children: they wait until it has "
                 "some, or another child");
}

static apr_status_t receive_batch(void)
{
    int fds[VL_TRANSFER_MAX];
    vl_passed_t passed[VL_TRANSFER_MAX];
    apr_size_t i, n;
    apr_status_t rv = vl_transfer_receive(vl_child.transfer_pair, fds, passed,
                                          &n);

    for (i = 0; i < n; i++)
        vl_arrival_adopt(fds[i], &passed[i]);
    return rv;
}

/* When no descriptor is left, connections from other children come before new ones. */
void vl_accept_adopt(void)
{
    apr_status_t rv;

    do {
        rv = receive_batch();
    } while (rv == APR_SUCCESS
             || (rv == APR_EMFILE && vl_arrival_spare() == VL_SPARED));
    vl_acceptor->no_descriptors = rv == APR_EMFILE;
    if (vl_acceptor->no_descriptors) {
        vl_accept_warn_full();
        vl_accept_stop_listening();
    }
}

/* Returns the number of connections that were sent. It is less than n if other
 * children have not received earlier ones yet. */
static apr_size_t send_batches(const int *fds, const vl_passed_t *passed,
                               apr_size_t n)
{
    apr_size_t sent = 0;

    while (sent < n) {
        apr_size_t some = n - sent < TRANSFER_BATCH ? n - sent : TRANSFER_BATCH;

        if (vl_transfer_send(vl_child.transfer_pair, fds + sent, passed + sent,
                             some) != APR_SUCCESS)
            break;
        vl_transfer_close(fds + sent, some);
        sent += some;
    }
    vl_slot_wake_others(vl_child.shm);
    return sent;
}

/* Keeps what could not be sent. Returns 1 if all connections were sent. */
static int transfer_or_keep(const int *fds, const vl_passed_t *passed,
                            apr_size_t n)
{
    apr_size_t sent = send_batches(fds, passed, n), i;

    for (i = sent; i < n; i++)
        vl_arrival_keep(fds[i], &passed[i]);
    return sent == n;
}

/* Transfers all connections that wait here to other children. */
static void transfer_all(void)
{
    int fds[VL_TRANSFER_MAX];
    vl_passed_t passed[VL_TRANSFER_MAX];
    apr_size_t n;

    do {
        n = vl_arrival_evict(fds, passed, VL_TRANSFER_MAX);
    } while (n && transfer_or_keep(fds, passed, n));
}

/* Transfers up to `max` queued connections to children with free threads. */
static void transfer_queued(apr_uint32_t max)
{
    int fds[VL_TRANSFER_MAX];
    vl_passed_t passed[VL_TRANSFER_MAX];
    apr_size_t n = vl_arrival_shed(fds, passed, max < VL_TRANSFER_MAX
                                                ? max : VL_TRANSFER_MAX);

    if (n)
        transfer_or_keep(fds, passed, n);
}

/* A child whose MPM is stalled transfers all connections if other children have free
 * threads, and stops accepting. A child without free threads transfers only queued
 * ones; it stops accepting too, unless its requests end all the time. */
void vl_accept_balance(int mpm_stalled)
{
    vl_capacity_t capacity;
    int no_thread, stalled;

    vl_capacity_count(vl_child.shm, &capacity);
    no_thread = !capacity.here && capacity.elsewhere;
    stalled = no_thread && capacity.ended == vl_acceptor->ended_requests;
    vl_acceptor->ended_requests = capacity.ended;
    if ((mpm_stalled && capacity.elsewhere) || stalled)
        vl_accept_stop_listening();
    else
        vl_accept_resume_listening();
    if (mpm_stalled && capacity.elsewhere)
        transfer_all();
    else if (no_thread)
        transfer_queued(capacity.elsewhere);
    else if (!mpm_stalled)
        vl_accept_adopt();
}

/* The parent removes its pid file before it tells its children to stop for good.
 * Nothing else distinguishes this from a restart. */
static int server_is_stopping(void)
{
    return access(vl_acceptor->pid_file, F_OK) && errno == ENOENT;
}

/* Returns 1 if another process receives what is transferred. */
static int can_transfer(void)
{
    return vl_acceptor->is_prefork ? vl_relay_has_acceptor(vl_child.shm)
                               : vl_shm_child_others(vl_child.shm) > 0;
}

/* Takes back connections that were sent and that no child has received. */
static void recall(void)
{
    vl_passed_t passed;
    int fd;

    while (vl_acceptor->is_prefork
           && vl_relay_acceptor_recall(vl_child.relay_pair, &passed, &fd)
              == APR_SUCCESS)
        vl_arrival_adopt(fd, &passed);
}

/* Returns 1 if connections would be lost if the acceptor ended now. */
static int has_connections(void)
{
    return vl_arrival_count() > 0
           || (vl_acceptor->is_prefork && vl_relay_pending(vl_child.relay_pair));
}

/* Connections are transferred to the other children. When the server stops there are
 * none: if none has started for a second, requests get 503. Closing connections get
 * the time that the MPM gives its own then. */
void vl_accept_leave(void)
{
    apr_int64_t start = vl_clock_us(), elapsed;
    int i;

    vl_accept_stop_listening();
    for (i = 0; i < vl_acceptor->listeners.n; i++)
        close(vl_acceptor->listeners.fds[i]);
    vl_shm_child_leave(vl_child.shm);
    vl_lease_child_leave();
    if (vl_acceptor->is_prefork)
        vl_relay_acceptor_resign(vl_child.shm);
    do {
        elapsed = vl_clock_us() - start;
        if (can_transfer()) {
            transfer_all();
        }
        else if (elapsed > WAIT_FOR_OTHERS_US && server_is_stopping()) {
            vl_accept_adopt();
            recall();
            vl_arrival_dismiss();
        }
        else if (elapsed > WAIT_FOR_OTHERS_US) {
            recall();
            transfer_all();          /* to a child that starts */
        }
        if (has_connections() || vl_lease_queued())
            vl_accept_wait_for_events();
        vl_lease_tick(vl_clock_us());
    } while (has_connections() && elapsed < STOP_US);
    /* Established connections are granted leases as long as the MPM serves them. */
    while (vl_lease_parks() && !vl_accept_is_ending()) {
        vl_accept_wait_for_events();
        vl_lease_tick(vl_clock_us());
    }
    vl_lease_child_end();
}

/* The acceptor is stalled: nothing is accepted or classified. Queued connections are
 * still granted slots, or transferred to children with free threads. */
void vl_accept_stand_in(apr_int64_t now_us)
{
    vl_capacity_t capacity;
    int mpm_stalled = vl_arrival_stand_in(now_us);

    vl_capacity_count(vl_child.shm, &capacity);
    if (mpm_stalled && capacity.elsewhere)
        transfer_all();
}

/* The workers of a stopping event MPM exit as soon as the connections are no more than
 * the workers that are left. Sockets in their queue are not counted
 * (worker_thread_should_exit_early), so they would be lost. */
void vl_accept_transfer_unbegun(void)
{
    int fds[VL_TRANSFER_MAX], tries = TRANSFER_TRIES;
    vl_passed_t passed[VL_TRANSFER_MAX];
    apr_size_t n, sent;

    while ((n = vl_arrival_unbegun(fds, passed, VL_TRANSFER_MAX)) > 0) {
        sent = send_batches(fds, passed, n);
        while (sent < n && tries--) {
            apr_sleep(10 * 1000);
            sent += send_batches(fds + sent, passed + sent, n - sent);
        }
        vl_transfer_close(fds + sent, n - sent);
    }
}
