/* SPDX-License-Identifier: Apache-2.0 */
/* For each account, those in its line here are as many as its cell of this
 * child says are waiting, plus those whose grant is in the child's ring or was just
 * taken out of it; and its deferred ones are as many as the cell says. */
#include "core/vl_park.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <apr_time.h>

#include "base/vl_clock.h"
#include "core/vl_thread.h"

/* How often one who waits alone gives credit, and others look for themselves
 * whether a grant has come: the acceptor, who tells them, leaves before them. */
#define LOOK_US 100000
/* Grants that are taken when a slot comes back. */
#define GRANTS_MOST 4

/* Threads that may wait, and those that do. */
typedef struct pool_t {
    apr_uint32_t most, all;
    apr_uint32_t *of;               /* by account */
} pool_t;

static struct {
    pthread_mutex_t lock;           /* of a kind that a signal handler does not
                                     * hang in, see vl_shm.c */
    vl_shm_t *shm;
    vl_wait_t *lines;
    vl_wait_t *deferred;            /* beyond the queues */
    apr_uint32_t threads;
    pool_t requests, streams;       /* the MPM's threads, mod_http2's */
    apr_uint32_t *with_thread;      /* in line with a thread, by account */
    apr_uint32_t *parked;           /* by account: connections in the MPM */
} park = { .lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };

static apr_uint32_t *counts_make(apr_pool_t *p, apr_uint32_t accounts)
{
    return apr_pcalloc(p, sizeof(apr_uint32_t) * accounts);
}

void vl_park_child_init(apr_pool_t *pchild, vl_shm_t *shm,
                        apr_uint32_t accounts, apr_uint32_t threads,
                        apr_uint32_t workers)
{
    park.shm = shm;
    park.lines = vl_wait_create(pchild, accounts);
    park.deferred = vl_wait_create(pchild, accounts);
    park.threads = threads;
    park.requests.most = threads > 1 ? threads / 2 : 1;
    park.streams.most = workers * 5 / 6;
    park.requests.of = counts_make(pchild, accounts);
    park.streams.of = counts_make(pchild, accounts);
    park.with_thread = counts_make(pchild, accounts);
    park.parked = counts_make(pchild, accounts);
}

void vl_park_lock(void)
{
    pthread_mutex_lock(&park.lock);
}

void vl_park_unlock(void)
{
    pthread_mutex_unlock(&park.lock);
}

/* vl_park_take_locked(), if there is something to take. */
static void take_granted_locked(void)
{
    if (vl_slot_granted(park.shm))
        vl_park_take_locked();
}

/* Deferred waiters of the account enter its queue, as many as have places. */
static void refill_locked(apr_uint32_t account)
{
    vl_waiter_t *waiter;

    if (!vl_slot_deferred(park.shm, account))
        return;
    while ((waiter = vl_wait_first(park.deferred, account))
           && vl_slot_enqueue_deferred(park.shm, account, waiter->since_us)
              == APR_SUCCESS) {
        vl_wait_remove(park.deferred, waiter);
        waiter->deferred = 0;
        vl_wait_add(park.lines, waiter);
    }
    if (!waiter)
        vl_slot_wake_deferred(park.shm, account);
}

void vl_park_refill_locked(void)
{
    vl_wait_each_account(park.deferred, refill_locked);
    take_granted_locked();
}

static void leave_locked(vl_waiter_t *waiter)
{
    if (waiter->deferred) {
        vl_wait_remove(park.deferred, waiter);
        waiter->deferred = 0;
        vl_slot_undefer(park.shm, waiter->account);
        return;
    }
    vl_wait_remove(park.lines, waiter);
    /* If its grant is on the way, vl_park_take_locked() will find the line
     * one shorter and give the slot back. */
    vl_slot_unwait(park.shm, waiter->account);
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
    vl_wait_remove(park.lines, waiter);
    waiter->done(waiter, NULL, APR_STATUS_IS_EAGAIN(rv) ? VL_REASON_QUEUE
                                                        : VL_REASON_NONE);
    return 0;
}

void vl_park_add_locked(vl_waiter_t *waiter)
{
    apr_status_t rv;

    waiter->deferred = waiter->was_deferred = 0;
    vl_wait_add(park.lines, waiter);
    rv = (waiter->may_defer ? vl_slot_wait_or_defer : vl_slot_wait)
         (park.shm, waiter->account, waiter->since_us);
    if (waiter->may_defer && APR_STATUS_IS_EAGAIN(rv)) {
        vl_wait_remove(park.lines, waiter);
        waiter->deferred = waiter->was_deferred = 1;
        vl_wait_add(park.deferred, waiter);
    }
    else if (count_locked(waiter, rv)) {
        take_granted_locked();
    }
}

int vl_park_ask_locked(vl_waiter_t *waiter, vl_ticket_t *ret_ticket)
{
    apr_status_t rv;

    waiter->deferred = waiter->was_deferred = 0;
    rv = vl_slot_try_or_wait(park.shm, waiter->account, waiter->since_us,
                             ret_ticket);
    if (rv == APR_SUCCESS)
        return 1;
    if (APR_STATUS_IS_EAGAIN(rv)) {
        waiter->deferred = waiter->was_deferred = 1;
        vl_wait_add(park.deferred, waiter);
        return 0;
    }
    vl_wait_add(park.lines, waiter);
    if (count_locked(waiter, APR_STATUS_IS_EINPROGRESS(rv) ? APR_SUCCESS : rv))
        take_granted_locked();
    return 0;
}

void vl_park_count_parked_locked(apr_uint32_t account, int by)
{
    park.parked[account] += (apr_uint32_t)by;
    vl_thread_parked(park.shm, account, park.parked[account]);
}

void vl_park_count_with_thread_locked(apr_uint32_t account, int by)
{
    park.with_thread[account] += (apr_uint32_t)by;
    vl_thread_waiting(park.shm, account, park.with_thread[account]);
}

void vl_park_put_back_locked(vl_waiter_t *waiter)
{
    vl_wait_add_first(park.lines, waiter);
    count_locked(waiter, vl_slot_wait_again(park.shm, waiter->account,
                                            waiter->since_us));
}

static void hand_out_locked(const vl_ticket_t *ticket);

static void take_granted(void)
{
    if (!vl_slot_granted(park.shm))
        return;
    vl_park_lock();
    vl_park_take_locked();
    vl_park_unlock();
}

apr_uint64_t vl_park_end(const vl_ticket_t *ticket, const vl_cost_t *cost)
{
    vl_ticket_t granted[GRANTS_MOST];
    apr_uint64_t charged;
    apr_uint32_t i, n = vl_slot_end_and_take(park.shm, ticket, cost, &charged,
                                             granted, GRANTS_MOST);

    if (n) {
        vl_park_lock();
        for (i = 0; i < n; i++)
            hand_out_locked(&granted[i]);
        vl_park_unlock();
    }
    take_granted();
    return charged;
}

void vl_park_pause(const vl_ticket_t *ticket, apr_uint64_t us)
{
    vl_slot_pause(park.shm, ticket, us);
    take_granted();
}

/* While the MPM takes nobody it is one whom it need not take. */
static vl_waiter_t *pop_locked(apr_uint32_t account)
{
    vl_waiter_t *waiter;

    if (!vl_thread_only_in_mpm(park.shm))
        return vl_wait_pop(park.lines, account);
    waiter = vl_wait_first_in_mpm(park.lines, account);
    if (waiter)
        vl_wait_remove(park.lines, waiter);
    return waiter;
}

/* Nobody is there to use it; if somebody waits, he still does. */
static void return_locked(const vl_ticket_t *ticket, const vl_waiter_t *first)
{
    vl_slot_end(park.shm, ticket, NULL);
    if (first)
        vl_slot_wait_again(park.shm, ticket->account, first->since_us);
}

/* A grant that was taken from the ring. */
static void hand_out_locked(const vl_ticket_t *ticket)
{
    vl_waiter_t *waiter = pop_locked(ticket->account);
    vl_waiter_t *next = vl_wait_first(park.lines, ticket->account);

    if (next)
        vl_slot_first(park.shm, ticket->account, next->since_us);
    if (waiter)
        waiter->done(waiter, ticket, VL_REASON_NONE);
    else
        return_locked(ticket, next);
    refill_locked(ticket->account);
}

void vl_park_take_locked(void)
{
    vl_ticket_t ticket;

    while (vl_slot_take(park.shm, &ticket) == APR_SUCCESS)
        hand_out_locked(&ticket);
}

/* --- waiting with a thread ------------------------------------------------ */

typedef struct thread_waiter_t {
    vl_waiter_t waiter;             /* first: a waiter is its sitter */
    pthread_cond_t called;
    int stream;
    int done;
    vl_grant_t grant;
} thread_waiter_t;

static void call_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    thread_waiter_t *waiter_of_thread = (thread_waiter_t *)waiter;

    vl_park_count_with_thread_locked(waiter->account, -1);
    waiter_of_thread->done = 1;
    waiter_of_thread->grant.holds = ticket != NULL;
    if (ticket)
        waiter_of_thread->grant.ticket = *ticket;
    if (ticket && waiter_of_thread->stream)
        vl_thread_is_stream(park.shm, &waiter_of_thread->grant.ticket);
    waiter_of_thread->grant.refused = refused;
    pthread_cond_signal(&waiter_of_thread->called);
}

/* Until the child is woken, or the time has come.  No other thread gives credit
 * to an account that is capped. */
static void wait_for_wakeup(apr_uint32_t account, apr_int64_t until_us)
{
    struct pollfd pfd = { vl_shm_child_wake_fd(park.shm), POLLIN, 0 };
    apr_int64_t left_us = until_us - vl_clock_us();
    apr_uint64_t count;

    pthread_mutex_unlock(&park.lock);
    if (vl_slot_capped(park.shm, account)) {
        vl_charge_reads_usage(park.shm, vl_clock_us());
        if (left_us > LOOK_US)
            left_us = LOOK_US;
    }
    if (left_us > 0 && poll(&pfd, 1, (int)(left_us / 1000) + 1) > 0
        && read(pfd.fd, &count, sizeof(count)) < 0)
        apr_sleep(1000);            /* another process has read it */
    pthread_mutex_lock(&park.lock);
    vl_park_take_locked();
}

static void wait_for_signal_locked(pthread_cond_t *called, apr_int64_t until_us)
{
    apr_int64_t look_us = vl_clock_us() + LOOK_US;
    struct timespec until;

    if (look_us > until_us)
        look_us = until_us;
    until.tv_sec = (time_t)(look_us / APR_USEC_PER_SEC);
    until.tv_nsec = (long)(look_us % APR_USEC_PER_SEC) * 1000;
    if (pthread_cond_timedwait(called, &park.lock, &until))
        take_granted_locked();
}

static void wait_for_grant_locked(thread_waiter_t *waiter_of_thread)
{
    apr_int64_t until_us = waiter_of_thread->waiter.deadline_us;

    while (!waiter_of_thread->done && vl_clock_us() < until_us) {
        if (park.threads > 1)
            wait_for_signal_locked(&waiter_of_thread->called, until_us);
        else
            wait_for_wakeup(waiter_of_thread->waiter.account, until_us);
    }
    if (!waiter_of_thread->done)
        refuse_locked(&waiter_of_thread->waiter, VL_REASON_TIMEOUT);
    /* A grant may have come too late: it goes back. */
    take_granted_locked();
}

/* So many threads of the pool may wait that others find some. */
static int may_wait_locked(const pool_t *pool, apr_uint32_t account)
{
    return vl_admit_more(pool->of[account],
                         pool->most > pool->all ? pool->most - pool->all : 0);
}

static void begin_wait_locked(thread_waiter_t *waiter_of_thread, pool_t *pool, int first)
{
    apr_uint32_t account = waiter_of_thread->waiter.account;

    pool->all++;
    pool->of[account]++;
    vl_park_count_with_thread_locked(account, 1);
    if (first) {
        vl_park_put_back_locked(&waiter_of_thread->waiter);
        take_granted_locked();
    }
    else {
        vl_park_add_locked(&waiter_of_thread->waiter);
    }
}

static void end_wait_locked(const thread_waiter_t *waiter_of_thread, pool_t *pool)
{
    pool->all--;
    pool->of[waiter_of_thread->waiter.account]--;
}

int vl_park_wait(apr_uint32_t account, int stream, apr_int64_t timeout_us,
                vl_grant_t *grant)
{
    pool_t *pool = stream ? &park.streams : &park.requests;
    apr_int64_t since_us = vl_clock_us() - grant->waited_us;
    thread_waiter_t waiter_of_thread = {
        .stream = stream,
        .waiter = { .account = account, .since_us = since_us,
                    .deadline_us = since_us + timeout_us, .done = call_locked,
                    .in_mpm = 1 }
    };
    pthread_condattr_t attr;

    vl_park_lock();
    if (!may_wait_locked(pool, account)) {
        vl_park_unlock();
        return 0;
    }
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, VL_CLOCK);
    pthread_cond_init(&waiter_of_thread.called, &attr);
    pthread_condattr_destroy(&attr);
    begin_wait_locked(&waiter_of_thread, pool, grant->given_back);
    wait_for_grant_locked(&waiter_of_thread);
    end_wait_locked(&waiter_of_thread, pool);
    vl_park_unlock();
    pthread_cond_destroy(&waiter_of_thread.called);
    *grant = waiter_of_thread.grant;
    grant->waited_us = vl_clock_us() - since_us;
    return 1;
}

/* --- for all of them ------------------------------------------------------ */

apr_uint32_t vl_park_expire_locked(apr_int64_t now_us, apr_uint32_t most)
{
    vl_wait_t *const sets[] = { park.lines, park.deferred };
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
    return vl_wait_any(park.lines, done) != NULL
           || vl_wait_any(park.deferred, done) != NULL;
}

vl_waiter_t *vl_park_evict_locked(vl_waiter_done_fn done, int queued)
{
    vl_waiter_t *waiter = vl_wait_any(park.lines, done);

    if (!waiter && !queued)
        waiter = vl_wait_any(park.deferred, done);
    if (waiter)
        leave_locked(waiter);
    return waiter;
}

vl_waiter_t *vl_park_newest_of_longest_locked(vl_waiter_done_fn done,
                                              apr_uint32_t *ret_count)
{
    apr_uint32_t account = vl_wait_longest(vl_wait_count(park.deferred)
                                           ? park.deferred : park.lines);
    vl_waiter_t *waiter;

    *ret_count = 0;
    if (account == VL_NO_FLOW)
        return NULL;
    waiter = vl_wait_newest_with(park.deferred, account, done);
    if (!waiter)
        waiter = vl_wait_newest_with(park.lines, account, done);
    if (waiter)
        *ret_count = vl_wait_count_of(park.deferred, account)
                     + vl_wait_count_of(park.lines, account);
    return waiter;
}
