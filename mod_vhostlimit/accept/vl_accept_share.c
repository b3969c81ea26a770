/* SPDX-License-Identifier: Apache-2.0 */
/* Work that is shared with other children: connections that they hand on are
 * taken in here, and who waits here goes to those that have threads free, or to
 * whoever is left when this child stops. */
#include "accept/vl_accept_int.h"

#include <errno.h>
#include <unistd.h>

#include "accept/vl_arrival.h"
#include "base/vl_clock.h"
#include "accept/vl_transfer.h"
#include "lease/vl_lease.h"
#include "base/vl_private.h"
#include "core/vl_capacity.h"

/* As long as a child that stops waits for other children to begin, and for
 * clients to close. */
#define ALONE_US (1 * APR_USEC_PER_SEC)
#define LEAVE_US (3 * APR_USEC_PER_SEC)
/* Tries, 10 ms apart, to hand on what nobody reads, when it is that or nothing. */
#define LAST_TRIES 100
/* Handed on at once: another child takes all of them when it has room for all. */
#define HANDOVER_BATCH 16
/* How often a child says that it has no room. */
#define FULL_WARN_US (60 * APR_USEC_PER_SEC)

void vl_accept_warn_full(void)
{
    static apr_int64_t warned;
    apr_int64_t now = vl_clock_us();

    if (warned && now - warned < FULL_WARN_US)
        return;
    warned = now;
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, vl_acceptor->main_server,
                 VLOGNO(0033) "this child has no descriptors left for "
                 "connections from other children: they wait until it has "
                 "some, or another child");
}

static apr_status_t adopt_some(void)
{
    int fds[VL_TRANSFER_MAX];
    vl_passed_t passed[VL_TRANSFER_MAX];
    apr_size_t i, n;
    apr_status_t rv = vl_transfer_receive(vl_acceptor->handover, fds, passed,
                                          &n);

    for (i = 0; i < n; i++)
        vl_arrival_adopt(fds[i], &passed[i]);
    return rv;
}

/* When no descriptor is left, what another child has passed on comes before
 * newcomers. */
void vl_accept_adopt(void)
{
    apr_status_t rv;

    do {
        rv = adopt_some();
    } while (rv == APR_SUCCESS || (rv == APR_EMFILE && vl_arrival_spare() == VL_SPARED));
    vl_acceptor->no_room = rv == APR_EMFILE;
    if (vl_acceptor->no_room) {
        vl_accept_warn_full();
        vl_accept_stop_listening();
    }
}

/* Returns how many have gone: the others have not taken what they got before. */
static apr_size_t transfer(const int *fds, const vl_passed_t *passed,
                          apr_size_t n)
{
    apr_size_t gone = 0;

    while (gone < n) {
        apr_size_t some = n - gone < HANDOVER_BATCH ? n - gone : HANDOVER_BATCH;

        if (vl_transfer_send(vl_acceptor->handover, fds + gone, passed + gone,
                             some) != APR_SUCCESS)
            break;
        vl_transfer_close(fds + gone, some);
        gone += some;
    }
    vl_slot_wake_others(vl_acceptor->shm);
    return gone;
}

/* Who has not gone stays.  0: somebody did. */
static int hand_on_or_keep(const int *fds, const vl_passed_t *passed,
                           apr_size_t n)
{
    apr_size_t gone = transfer(fds, passed, n), i;

    for (i = gone; i < n; i++)
        vl_arrival_keep(fds[i], &passed[i]);
    return gone == n;
}

/* Everybody who waits goes to the other children. */
static void transfer_all(void)
{
    int fds[VL_TRANSFER_MAX];
    vl_passed_t passed[VL_TRANSFER_MAX];
    apr_size_t n;

    do {
        n = vl_arrival_evict(fds, passed, VL_TRANSFER_MAX);
    } while (n && hand_on_or_keep(fds, passed, n));
}

/* Who waits for a thread of this child that others have free. */
static void hand_on_some(apr_uint32_t most)
{
    int fds[VL_TRANSFER_MAX];
    vl_passed_t passed[VL_TRANSFER_MAX];
    apr_size_t n = vl_arrival_shed(fds, passed, most < VL_TRANSFER_MAX
                                                ? most : VL_TRANSFER_MAX);

    if (n)
        hand_on_or_keep(fds, passed, n);
}

/* A child whose MPM takes nobody leaves the work to those that can do it, if there
 * are some.  So does one whose threads are all taken: who waits goes to where some
 * are free, and so do newcomers, unless threads here come free all the time. */
void vl_accept_balance(int stuck)
{
    vl_capacity_t rooms;
    int full, stalled;

    vl_capacity_count(vl_acceptor->shm, &rooms);
    full = !rooms.here && rooms.elsewhere;
    stalled = full && rooms.ended == vl_acceptor->ended;
    vl_acceptor->ended = rooms.ended;
    if ((stuck && rooms.elsewhere) || stalled)
        vl_accept_stop_listening();
    else
        vl_accept_resume_listening();
    if (stuck && rooms.elsewhere)
        transfer_all();
    else if (full)
        hand_on_some(rooms.elsewhere);
    else if (!stuck)
        vl_accept_adopt();
}

/* The parent removes its pid file before it tells its children to stop for good,
 * which is all that tells this from a restart. */
static int server_stops(void)
{
    return access(vl_acceptor->pid_file, F_OK) && errno == ENOENT;
}

/* Somebody takes what is handed on. */
static int others_take(void)
{
    return vl_acceptor->relays ? vl_relay_has_acceptor(vl_acceptor->shm)
                               : vl_shm_child_others(vl_acceptor->shm) > 0;
}

/* What no child has taken, or will take, comes back. */
static void recall(void)
{
    vl_passed_t passed;
    int fd;

    while (vl_acceptor->relays
           && vl_relay_acceptor_recall(vl_acceptor->relay, &passed, &fd)
              == APR_SUCCESS)
        vl_arrival_adopt(fd, &passed);
}

/* Somebody would be lost if we ended now. */
static int is_needed(void)
{
    return vl_arrival_count() > 0
           || (vl_acceptor->relays && vl_relay_pending(vl_acceptor->relay));
}

/* The MPM has closed its listeners: so do we.  Who waits goes to the other
 * children; when there are none, because the server stops and not only this
 * child, and none has come for a second, nobody will serve them.  Connections
 * that are closing get the time that the MPM gives its own then. */
void vl_accept_leave(void)
{
    apr_int64_t start = vl_clock_us(), passed;
    int i;

    vl_accept_stop_listening();
    for (i = 0; i < vl_acceptor->listeners.n; i++)
        close(vl_acceptor->listeners.fds[i]);
    vl_shm_child_leave(vl_acceptor->shm);
    vl_lease_child_leave();
    if (vl_acceptor->relays)
        vl_relay_acceptor_resign(vl_acceptor->shm);
    do {
        passed = vl_clock_us() - start;
        if (others_take()) {
            transfer_all();
        }
        else if (passed > ALONE_US && server_stops()) {
            vl_accept_adopt();
            recall();
            vl_arrival_dismiss();
        }
        else if (passed > ALONE_US) {
            recall();
            transfer_all();          /* to whoever comes */
        }
        if (is_needed() || vl_lease_queued())
            vl_accept_wait_for_events();
        vl_lease_tick(vl_clock_us());
    } while (is_needed() && passed < LEAVE_US);
    /* Established connections are granted leases as long as the MPM serves them. */
    while (vl_lease_parks() && !vl_accept_is_ending()) {
        vl_accept_wait_for_events();
        vl_lease_tick(vl_clock_us());
    }
    vl_lease_child_end();
}

/* The acceptor hangs: nobody comes, and nobody is sorted, but who waits here has
 * his turn or goes where threads are free. */
void vl_accept_stand_in(apr_int64_t now_us)
{
    vl_capacity_t rooms;
    int stuck = vl_arrival_stand_in(now_us);

    vl_capacity_count(vl_acceptor->shm, &rooms);
    if (stuck && rooms.elsewhere)
        transfer_all();
}

/* A dying event MPM's workers leave as soon as it has as few connections as are
 * left of them, and sockets in their queue are not counted
 * (worker_thread_should_exit_early): those would be lost. */
void vl_accept_transfer_unbegun(void)
{
    int fds[VL_TRANSFER_MAX], tries = LAST_TRIES;
    vl_passed_t passed[VL_TRANSFER_MAX];
    apr_size_t n, gone;

    while ((n = vl_arrival_unbegun(fds, passed, VL_TRANSFER_MAX)) > 0) {
        gone = transfer(fds, passed, n);
        while (gone < n && tries--) {
            apr_sleep(10 * 1000);
            gone += transfer(fds + gone, passed + gone, n - gone);
        }
        vl_transfer_close(fds + gone, n - gone);
    }
}
