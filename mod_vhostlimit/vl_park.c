/* SPDX-License-Identifier: Apache-2.0 */
/* For each account, those in its line here are as many as its cell of this
 * child says are waiting, plus those whose grant is in the child's ring; and its
 * deferred ones are as many as the cell says. */
#include "vl_park_int.h"

#include <poll.h>
#include <unistd.h>

#include <apr_time.h>

#include "vl_clock.h"
#include "vl_link.h"
#include "vl_seat.h"

/* How often one who waits alone gives credit, and others look for themselves
 * whether a grant has come: the acceptor, who tells them, leaves before them. */
#define LOOK_US 100000

park_t vl_park = { .lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };

void vl_park_child_init(apr_pool_t *pchild, vl_shm_t *shm,
                        apr_uint32_t accounts, apr_uint32_t threads,
                        apr_uint32_t workers)
{
    vl_park.shm = shm;
    vl_park.lines = vl_wait_create(pchild, accounts);
    vl_park.deferred = vl_wait_create(pchild, accounts);
    vl_park.threads = threads;
    vl_park.workers = workers;
    vl_park.streams_of = apr_pcalloc(pchild, sizeof(apr_uint32_t) * accounts);
    vl_park.sitting = apr_pcalloc(pchild, sizeof(apr_uint32_t) * accounts);
    vl_park.parked = apr_pcalloc(pchild, sizeof(apr_uint32_t) * accounts);
    vl_park_link_child_init();
}

void vl_park_lock(void)
{
    pthread_mutex_lock(&vl_park.lock);
}

void vl_park_unlock(void)
{
    pthread_mutex_unlock(&vl_park.lock);
}

/* Deferred waiters of the account enter its queue, as many as have places. */
static void refill_locked(apr_uint32_t account)
{
    vl_waiter_t *waiter;

    if (!vl_slot_deferred(vl_park.shm, account))
        return;
    while ((waiter = vl_wait_first(vl_park.deferred, account))
           && vl_slot_enqueue_deferred(vl_park.shm, account, waiter->since_us)
              == APR_SUCCESS) {
        vl_wait_remove(vl_park.deferred, waiter);
        waiter->deferred = 0;
        vl_wait_add(vl_park.lines, waiter);
    }
    if (!waiter)
        vl_slot_wake_deferred(vl_park.shm, account);
}

void vl_park_refill_locked(void)
{
    vl_wait_each_account(vl_park.deferred, refill_locked);
    vl_park_take_granted_locked();
}

static void leave_locked(vl_waiter_t *waiter)
{
    if (waiter->deferred) {
        vl_wait_remove(vl_park.deferred, waiter);
        waiter->deferred = 0;
        vl_slot_undefer(vl_park.shm, waiter->account);
        return;
    }
    vl_wait_remove(vl_park.lines, waiter);
    /* If its grant is on the way, vl_park_take_locked() will find the line
     * one shorter and give the slot back. */
    vl_slot_unwait(vl_park.shm, waiter->account);
}

void vl_park_remove_locked(vl_waiter_t *waiter)
{
    leave_locked(waiter);
    refill_locked(waiter->account);
}

static void refuse_locked(vl_waiter_t *waiter, vl_reason_e reason)
{
    apr_uint32_t account = waiter->account;

    leave_locked(waiter);
    waiter->done(waiter, NULL, reason);
    refill_locked(account);
}

/* It stands in line: the numbers follow, or it is refused.  1: it may wait.
 * What cannot be counted is not refused for that: its request decides. */
static int count_locked(vl_waiter_t *waiter, apr_status_t rv)
{
    if (rv == APR_SUCCESS)
        return 1;
    vl_wait_remove(vl_park.lines, waiter);
    waiter->done(waiter, NULL, APR_STATUS_IS_EAGAIN(rv) ? VL_REASON_QUEUE
                                                        : VL_REASON_NONE);
    return 0;
}

void vl_park_add_locked(vl_waiter_t *waiter)
{
    apr_status_t rv;

    waiter->deferred = waiter->was_deferred = 0;
    vl_wait_add(vl_park.lines, waiter);
    rv = (waiter->may_defer ? vl_slot_wait_or_defer : vl_slot_wait)
         (vl_park.shm, waiter->account, waiter->since_us);
    if (waiter->may_defer && APR_STATUS_IS_EAGAIN(rv)) {
        vl_wait_remove(vl_park.lines, waiter);
        waiter->deferred = waiter->was_deferred = 1;
        vl_wait_add(vl_park.deferred, waiter);
    }
    else if (count_locked(waiter, rv)) {
        vl_park_take_granted_locked();
    }
}

static void count_sitting_locked(apr_uint32_t account, int by)
{
    vl_park.sitting[account] += (apr_uint32_t)by;
    vl_seat_sitting(vl_park.shm, account, vl_park.sitting[account]);
}

void vl_park_count_parked_locked(apr_uint32_t account, int by)
{
    vl_park.parked[account] += (apr_uint32_t)by;
    vl_seat_parked(vl_park.shm, account, vl_park.parked[account]);
}

void vl_park_put_back_locked(vl_waiter_t *waiter)
{
    vl_wait_add_first(vl_park.lines, waiter);
    count_locked(waiter, vl_slot_wait_again(vl_park.shm, waiter->account,
                                            waiter->since_us));
}

apr_uint64_t vl_park_end(const vl_ticket_t *ticket, const vl_cost_t *cost)
{
    apr_uint64_t charged = vl_slot_end(vl_park.shm, ticket, cost);
    if (vl_slot_granted(vl_park.shm)) {
        vl_park_lock();
        vl_park_take_locked();
        vl_park_unlock();
    }
    return charged;
}

/* While the MPM takes nobody it is one whom it need not take. */
static vl_waiter_t *pop_locked(apr_uint32_t account)
{
    vl_waiter_t *waiter;

    if (!vl_seat_only_threads(vl_park.shm))
        return vl_wait_pop(vl_park.lines, account);
    waiter = vl_wait_first_in_mpm(vl_park.lines, account);
    if (waiter)
        vl_wait_remove(vl_park.lines, waiter);
    return waiter;
}

/* Nobody is there to use it; if somebody waits, he still does. */
static void return_locked(const vl_ticket_t *ticket, const vl_waiter_t *first)
{
    vl_slot_end(vl_park.shm, ticket, NULL);
    if (first)
        vl_slot_wait_again(vl_park.shm, ticket->account, first->since_us);
}

void vl_park_take_locked(void)
{
    vl_ticket_t ticket;

    while (vl_slot_take(vl_park.shm, &ticket) == APR_SUCCESS) {
        vl_waiter_t *waiter = pop_locked(ticket.account);
        vl_waiter_t *next = vl_wait_first(vl_park.lines, ticket.account);

        if (next)
            vl_slot_first(vl_park.shm, ticket.account, next->since_us);
        if (waiter)
            waiter->done(waiter, &ticket, VL_REASON_NONE);
        else
            return_locked(&ticket, next);
        refill_locked(ticket.account);
    }
}

void vl_park_take_granted_locked(void)
{
    if (vl_slot_granted(vl_park.shm))
        vl_park_take_locked();
}

/* --- waiting with a thread ------------------------------------------------ */

typedef struct sitter_t {
    vl_waiter_t waiter;             /* first: a waiter is its sitter */
    pthread_cond_t called;
    int stream;
    int done;
    vl_turn_t turn;
} sitter_t;

static void call_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    sitter_t *sitter = (sitter_t *)waiter;

    count_sitting_locked(waiter->account, -1);
    sitter->done = 1;
    sitter->turn.holds = ticket != NULL;
    if (ticket)
        sitter->turn.ticket = *ticket;
    if (ticket && sitter->stream)
        vl_link_stream(vl_park.shm, &sitter->turn.ticket);
    sitter->turn.refused = refused;
    pthread_cond_signal(&sitter->called);
}

/* Until the child is woken, or the time has come.  No other thread gives credit
 * to who is capped. */
static void doze(apr_uint32_t account, apr_int64_t until_us)
{
    struct pollfd pfd = { vl_shm_child_wake_fd(vl_park.shm), POLLIN, 0 };
    apr_int64_t left_us = until_us - vl_clock_us();
    apr_uint64_t count;

    pthread_mutex_unlock(&vl_park.lock);
    if (vl_slot_capped(vl_park.shm, account)) {
        vl_charge_reads_usage(vl_park.shm, vl_clock_us());
        if (left_us > LOOK_US)
            left_us = LOOK_US;
    }
    if (left_us > 0 && poll(&pfd, 1, (int)(left_us / 1000) + 1) > 0
        && read(pfd.fd, &count, sizeof(count)) < 0)
        apr_sleep(1000);            /* somebody else has read it */
    pthread_mutex_lock(&vl_park.lock);
    vl_park_take_locked();
}

void vl_park_nap_locked(pthread_cond_t *called, apr_int64_t until_us)
{
    apr_int64_t look_us = vl_clock_us() + LOOK_US;
    struct timespec until;

    if (look_us > until_us)
        look_us = until_us;
    until.tv_sec = (time_t)(look_us / APR_USEC_PER_SEC);
    until.tv_nsec = (long)(look_us % APR_USEC_PER_SEC) * 1000;
    if (pthread_cond_timedwait(called, &vl_park.lock, &until))
        vl_park_take_granted_locked();
}

static void sleep_locked(sitter_t *sitter)
{
    apr_int64_t until_us = sitter->waiter.deadline_us;

    while (!sitter->done && vl_clock_us() < until_us) {
        if (vl_park.threads > 1)
            vl_park_nap_locked(&sitter->called, until_us);
        else if (vl_seat_is_dropped(vl_park.shm))
            refuse_locked(&sitter->waiter, VL_REASON_THREADS);
        else
            doze(sitter->waiter.account, until_us);
    }
    if (!sitter->done)
        refuse_locked(&sitter->waiter, VL_REASON_TIMEOUT);
    /* A grant may have come too late: it goes back. */
    vl_park_take_granted_locked();
}

static void line_up_locked(vl_waiter_t *waiter, int first)
{
    if (!first) {
        vl_park_add_locked(waiter);
        return;
    }
    vl_park_put_back_locked(waiter);
    vl_park_take_granted_locked();
}

/* Some are left to who comes, even by an account that is alone. */
int vl_park_stream_sits_locked(apr_uint32_t account)
{
    apr_uint32_t most = vl_park.workers * 5 / 6;

    if ((vl_park.streams >= most
         && vl_park.streams_of[account] >= vl_park.streams / 2)
        || !vl_admit_seat(vl_park.streams_of[account], vl_park.streams, most,
                          vl_slot_weight(vl_park.shm, account)))
        return 0;
    vl_park.streams++;
    vl_park.streams_of[account]++;
    return 1;
}

void vl_park_stream_rises_locked(apr_uint32_t account)
{
    vl_park.streams--;
    vl_park.streams_of[account]--;
}

static int stream_sits(apr_uint32_t account)
{
    int may;

    vl_park_lock();
    may = vl_park_stream_sits_locked(account);
    vl_park_unlock();
    return may;
}

static apr_status_t sit_down(apr_uint32_t account, int stream)
{
    if (stream)
        return stream_sits(account) ? APR_SUCCESS : APR_EAGAIN;
    return vl_seat_take(vl_park.shm, account);
}

static void rise(apr_uint32_t account, int stream)
{
    if (!stream) {
        vl_seat_leave(vl_park.shm, account);
        return;
    }
    vl_park_lock();
    vl_park_stream_rises_locked(account);
    vl_park_unlock();
}

void vl_park_called_init(pthread_cond_t *called)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, VL_CLOCK);
    pthread_cond_init(called, &attr);
    pthread_condattr_destroy(&attr);
}

void vl_park_sit(apr_uint32_t account, int stream, apr_int64_t timeout_us,
                 vl_turn_t *ret_turn)
{
    sitter_t sitter = { .done = 0 };
    apr_int64_t since_us = vl_clock_us() - ret_turn->waited_us;
    apr_status_t rv = ret_turn->seated ? APR_SUCCESS
                                       : sit_down(account, stream);

    if (rv != APR_SUCCESS) {
        sitter.turn.refused = APR_STATUS_IS_EAGAIN(rv) ? VL_REASON_THREADS
                                                       : VL_REASON_NONE;
        *ret_turn = sitter.turn;
        return;
    }
    sitter.stream = stream;
    sitter.waiter.account = account;
    sitter.waiter.since_us = since_us;
    sitter.waiter.deadline_us = since_us + timeout_us;
    sitter.waiter.done = call_locked;
    sitter.waiter.in_mpm = 1;
    vl_park_called_init(&sitter.called);
    vl_park_lock();
    if (vl_park.threads == 1)
        vl_seat_is_dropped(vl_park.shm);    /* who was served after all */
    count_sitting_locked(account, 1);
    line_up_locked(&sitter.waiter, ret_turn->given_back);
    sleep_locked(&sitter);
    vl_park_unlock();
    rise(account, stream);
    pthread_cond_destroy(&sitter.called);
    sitter.turn.waited_us = vl_clock_us() - since_us;
    *ret_turn = sitter.turn;
}

/* --- for all of them ------------------------------------------------------ */

static int is_socket_locked(const vl_waiter_t *waiter)
{
    return !waiter->in_mpm
           && !vl_seat_overfills(vl_park.shm, waiter->account);
}

int vl_park_socket_waits(void)
{
    int waits;

    vl_park_lock();
    waits = vl_wait_newest_where(vl_park.lines, is_socket_locked) != NULL;
    vl_park_unlock();
    return waits;
}

static int is_in_the_way_locked(const vl_waiter_t *waiter)
{
    return waiter->done == call_locked && !((const sitter_t *)waiter)->stream
           && vl_seat_overfills(vl_park.shm, waiter->account);
}

void vl_park_drop_sitter(void)
{
    vl_waiter_t *waiter;

    vl_park_lock();
    waiter = vl_park_link_drop_locked()
             ? NULL
             : vl_wait_newest_where(vl_park.lines, is_in_the_way_locked);
    if (waiter)
        refuse_locked(waiter, VL_REASON_THREADS);
    vl_park_unlock();
}

apr_uint32_t vl_park_expire_locked(apr_int64_t now_us, apr_uint32_t most)
{
    vl_wait_t *const sets[] = { vl_park.lines, vl_park.deferred };
    vl_waiter_t *waiter;
    apr_uint32_t n = 0;
    int i;

    for (i = 0; i < 2; i++) {
        while ((waiter = vl_wait_expired(sets[i], now_us))) {
            if (waiter->may_defer && n >= most)
                break;
            n += waiter->may_defer != 0;
            refuse_locked(waiter, waiter->was_deferred ? VL_REASON_QUEUE
                                                       : VL_REASON_TIMEOUT);
        }
    }
    return n;
}

int vl_park_has_locked(vl_waiter_done_fn done)
{
    return vl_wait_any(vl_park.lines, done) != NULL
           || vl_wait_any(vl_park.deferred, done) != NULL;
}

vl_waiter_t *vl_park_evict_locked(vl_waiter_done_fn done, int queued)
{
    vl_waiter_t *waiter = vl_wait_any(vl_park.lines, done);

    if (!waiter && !queued)
        waiter = vl_wait_any(vl_park.deferred, done);
    if (waiter)
        leave_locked(waiter);
    return waiter;
}

vl_waiter_t *vl_park_newest_of_longest_locked(vl_waiter_done_fn done,
                                              apr_uint32_t *ret_count)
{
    apr_uint32_t account = vl_wait_longest(vl_wait_count(vl_park.deferred)
                                           ? vl_park.deferred : vl_park.lines);
    vl_waiter_t *waiter;

    *ret_count = 0;
    if (account == VL_NO_FLOW)
        return NULL;
    waiter = vl_wait_newest_with(vl_park.deferred, account, done);
    if (!waiter)
        waiter = vl_wait_newest_with(vl_park.lines, account, done);
    if (waiter)
        *ret_count = vl_wait_count_of(vl_park.deferred, account)
                     + vl_wait_count_of(vl_park.lines, account);
    return waiter;
}
