/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_waiters.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <apr_time.h>

#include "base/vl_clock.h"
#include "base/vl_pages.h"
#include "core/vl_shm_child.h"
#include "core/vl_dispatch.h"
#include "core/vl_hosts.h"
#include "core/vl_inside.h"
#include "core/vl_slot.h"

/* Interval at which a thread waiter acts without a wakeup. In a child with one thread it
 * gives credit to its capped account. In other children it checks for grants, because the
 * acceptor thread, which normally wakes it, ends before it when the child stops. */
#define CHECK_US 100000
/* Maximum number of grants that are taken when a slot is released. */
#define GRANTS_MAX 4

/* Limit and number of thread waiters on one kind of threads. */
typedef struct pool_t {
    apr_uint32_t limit, total;
    apr_uint32_t *by_account;       /* thread waiters, by account */
} pool_t;

static struct {
    pthread_mutex_t lock;           /* error-checking, so that a signal handler does not
                                     * hang in it, see vl_shm.c */
    vl_shm_t *shm;
    vl_wait_t *waiters;             /* queued and deferred ones */
    apr_uint32_t threads;
    pool_t requests, streams;       /* threads of the MPM, of mod_http2 */
    apr_uint32_t *thread_waiters;   /* queued thread waiters, by account */
    apr_uint32_t *parked;           /* connections parked in the MPM, by account */
} park = { .lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };

/* Only children in which requests wait write to it. */
static apr_uint32_t *counts_make(apr_pool_t *p, apr_uint32_t accounts)
{
    return vl_pages_make(p, accounts, sizeof(apr_uint32_t));
}

static vl_inner_t *inner_of(apr_uint32_t account)
{
    return vl_shm_inner(park.shm, account);
}

static vl_waiting_t *waiting_of(apr_uint32_t account)
{
    return vl_inside_mine(park.shm, account);
}

void vl_waiters_child_init(apr_pool_t *pchild, vl_shm_t *shm,
                           apr_uint32_t accounts, apr_uint32_t threads,
                           apr_uint32_t workers)
{
    park.shm = shm;
    park.waiters = vl_wait_create(pchild, accounts, vl_shm_clients(shm), inner_of,
                                  waiting_of);
    park.threads = threads;
    park.requests.limit = threads > 1 ? threads / 2 : 1;
    park.streams.limit = workers * 5 / 6;
    park.requests.by_account = counts_make(pchild, accounts);
    park.streams.by_account = counts_make(pchild, accounts);
    park.thread_waiters = counts_make(pchild, accounts);
    park.parked = counts_make(pchild, accounts);
}

void vl_waiters_lock(void)
{
    pthread_mutex_lock(&park.lock);
}

void vl_waiters_unlock(void)
{
    pthread_mutex_unlock(&park.lock);
}

/* Calls vl_waiters_take_locked() if this child may have grants. */
static void take_granted_locked(void)
{
    if (vl_slot_granted(park.shm))
        vl_waiters_take_locked();
}

/* Tells the other children which waiter of the account is the first here. */
static void publish_first_locked(apr_uint32_t account)
{
    vl_first_t first;

    if (vl_wait_first(park.waiters, account, vl_clock_us(), &first))
        vl_slot_first(park.shm, account, &first);
}

static void add_locked(vl_waiter_t *waiter)
{
    vl_clients_backlog(inner_of(waiter->account), vl_clock_us());
    vl_wait_add(park.waiters, waiter);
    publish_first_locked(waiter->account);
}

/* Counts deferred waiters of the account as queued until this child's part of the queue is
 * full. If there is a place for another child that has deferred ones, wakes that child. */
static void refill_locked(apr_uint32_t account)
{
    if (!vl_slot_deferred(park.shm, account))
        return;
    while (vl_slot_deferred_here(park.shm, account)
           && vl_slot_enqueue_deferred(park.shm, account) == APR_SUCCESS)
        continue;
    if (vl_slot_deferred(park.shm, account) > vl_slot_deferred_here(park.shm, account))
        vl_dispatch_wake_deferred(park.shm, account);
}

void vl_waiters_refill_locked(void)
{
    vl_wait_each_account(park.waiters, refill_locked);
    take_granted_locked();
}

static void dequeue_locked(vl_waiter_t *waiter)
{
    vl_wait_remove(park.waiters, waiter);
    publish_first_locked(waiter->account);
    if (vl_slot_deferred_here(park.shm, waiter->account))
        vl_slot_undefer(park.shm, waiter->account);
    else
        /* If its grant is already in the ring, vl_waiters_take_locked() will find one waiter
         * less and release the slot. */
        vl_slot_unwait(park.shm, waiter->account);
}

void vl_waiters_remove_locked(vl_waiter_t *waiter)
{
    dequeue_locked(waiter);
    refill_locked(waiter->account);
}

static void refuse_locked(vl_waiter_t *waiter, vl_reason_e reason)
{
    apr_uint32_t account = waiter->account;

    dequeue_locked(waiter);
    waiter->done(waiter, NULL, reason);
    refill_locked(account);
}

/* Handles the result of counting a waiter that was just added to its queue. Returns 1 if
 * it is counted. Otherwise removes it, calls done() and returns 0. A waiter that cannot
 * be counted because of an error is not refused here: the request decides
 * (VhostLimitOnError). */
static int keep_if_counted_locked(vl_waiter_t *waiter, apr_status_t rv)
{
    if (rv == APR_SUCCESS)
        return 1;
    vl_wait_remove(park.waiters, waiter);
    waiter->done(waiter, NULL, APR_STATUS_IS_EAGAIN(rv) ? VL_REASON_QUEUE
                                                        : VL_REASON_NONE);
    return 0;
}

void vl_waiters_add_locked(vl_waiter_t *waiter)
{
    apr_status_t rv;

    waiter->was_deferred = 0;
    add_locked(waiter);
    rv = (waiter->may_defer ? vl_slot_wait_or_defer : vl_slot_wait)
         (park.shm, waiter->account, waiter->since_us);
    if (waiter->may_defer && APR_STATUS_IS_EAGAIN(rv))
        waiter->was_deferred = 1;
    else if (keep_if_counted_locked(waiter, rv))
        take_granted_locked();
}

int vl_waiters_ask_locked(vl_waiter_t *waiter, vl_ticket_t *ret_ticket)
{
    apr_status_t rv;

    waiter->was_deferred = 0;
    rv = vl_slot_try_or_wait(park.shm, waiter->account, waiter->since_us,
                             ret_ticket);
    if (rv == APR_SUCCESS)
        return 1;
    waiter->was_deferred = APR_STATUS_IS_EAGAIN(rv);
    add_locked(waiter);
    if (APR_STATUS_IS_EINPROGRESS(rv))
        take_granted_locked();
    else if (!waiter->was_deferred)
        keep_if_counted_locked(waiter, rv);
    return 0;
}

void vl_waiters_count_parked_locked(apr_uint32_t account, int by)
{
    park.parked[account] += (apr_uint32_t)by;
    vl_slot_parked(park.shm, account, park.parked[account]);
}

void vl_waiters_count_with_thread_locked(apr_uint32_t account, int by)
{
    park.thread_waiters[account] += (apr_uint32_t)by;
    vl_slot_thread_waiters(park.shm, account, park.thread_waiters[account]);
}

void vl_waiters_put_back_locked(vl_waiter_t *waiter)
{
    vl_wait_add_first(park.waiters, waiter);
    keep_if_counted_locked(waiter, vl_slot_wait_again(park.shm, waiter->account,
                                                      waiter->since_us));
}

static void deliver_grant_locked(const vl_ticket_t *ticket);

static void take_granted(void)
{
    if (!vl_slot_granted(park.shm))
        return;
    vl_waiters_lock();
    vl_waiters_take_locked();
    vl_waiters_unlock();
}

apr_uint64_t vl_waiters_end(const vl_ticket_t *ticket, const vl_cost_t *cost)
{
    vl_ticket_t granted[GRANTS_MAX];
    apr_uint64_t charged;
    apr_uint32_t i, n = vl_slot_end_and_take(park.shm, ticket, cost, &charged,
                                             granted, GRANTS_MAX);

    if (n) {
        vl_waiters_lock();
        for (i = 0; i < n; i++)
            deliver_grant_locked(&granted[i]);
        vl_waiters_unlock();
    }
    take_granted();
    return charged;
}

void vl_waiters_pause(const vl_ticket_t *ticket, apr_uint64_t us)
{
    vl_slot_pause(park.shm, ticket, us);
    take_granted();
}

/* Removes and returns the waiter of the account that the grant is for, and charges its client
 * in advance. While the MPM accepts no connections, that is the first waiter that the MPM
 * already has. Returns NULL if there is none. */
static vl_waiter_t *pop_locked(vl_ticket_t *ticket)
{
    apr_uint64_t joined;
    apr_uint32_t account = ticket->account, others;
    apr_int64_t now_us = vl_clock_us();
    vl_waiter_t *waiter;

    if (vl_slot_only_in_mpm(park.shm)) {
        waiter = vl_wait_first_in_mpm(park.waiters, account);
        if (waiter)
            vl_wait_remove(park.waiters, waiter);
    }
    else if ((waiter = vl_wait_pop(park.waiters, account, now_us, &joined, &others))) {
        ticket->client_us = ticket->charged;
        vl_clients_begin(vl_shm_clients(park.shm), inner_of(account),
                         vl_hosts_identity(park.shm, account),
                         &waiter->client, joined, ticket->charged, others, now_us);
    }
    if (waiter)
        ticket->client = waiter->client;
    return waiter;
}

/* Releases an unused grant, because no waiter can use it. If the account still has a waiter
 * (first), that one is counted as waiting again. */
static void release_unused_locked(const vl_ticket_t *ticket)
{
    const vl_waiter_t *first = vl_wait_first(park.waiters, ticket->account, vl_clock_us(),
                                             NULL);

    vl_slot_end(park.shm, ticket, NULL);
    if (first)
        vl_slot_wait_again(park.shm, ticket->account, first->since_us);
}

/* Hands a grant that was taken from the ring to the account's first waiter. */
static void deliver_grant_locked(const vl_ticket_t *granted)
{
    vl_ticket_t ticket = *granted;
    vl_waiter_t *waiter = pop_locked(&ticket);

    publish_first_locked(ticket.account);
    if (waiter)
        waiter->done(waiter, &ticket, VL_REASON_NONE);
    else
        release_unused_locked(&ticket);
    refill_locked(ticket.account);
}

void vl_waiters_take_locked(void)
{
    vl_ticket_t ticket;

    while (vl_slot_take(park.shm, &ticket) == APR_SUCCESS)
        deliver_grant_locked(&ticket);
}

/* --- thread waiters ------------------------------------------------------- */

typedef struct thread_waiter_t {
    vl_waiter_t waiter;             /* first member: done() casts a vl_waiter_t */
    pthread_cond_t wakeup;
    int stream;
    int done;
    vl_grant_t grant;
} thread_waiter_t;

static void finish_wait_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                               vl_reason_e refused)
{
    thread_waiter_t *tw = (thread_waiter_t *)waiter;

    vl_waiters_count_with_thread_locked(waiter->account, -1);
    tw->done = 1;
    tw->grant.holds = ticket != NULL;
    if (ticket)
        tw->grant.ticket = *ticket;
    if (ticket && tw->stream)
        vl_slot_is_stream(park.shm, &tw->grant.ticket);
    tw->grant.refused = refused;
    pthread_cond_signal(&tw->wakeup);
}

/* Waits without the waiters lock until the child is woken or until_us. Gives credit to a
 * capped account, because a child with one thread has no other thread that does. */
static void wait_for_wakeup(apr_uint32_t account, apr_int64_t until_us)
{
    struct pollfd pfd = { vl_shm_child_wake_fd(park.shm), POLLIN, 0 };
    apr_int64_t left_us = until_us - vl_clock_us();
    apr_uint64_t count;

    pthread_mutex_unlock(&park.lock);
    if (vl_slot_capped(park.shm, account)) {
        vl_charge_credit(park.shm, vl_clock_us());
        if (left_us > CHECK_US)
            left_us = CHECK_US;
    }
    if (left_us > 0 && poll(&pfd, 1, (int)(left_us / 1000) + 1) > 0
        && read(pfd.fd, &count, sizeof(count)) < 0)
        apr_sleep(1000);            /* another thread or process has read it */
    pthread_mutex_lock(&park.lock);
    vl_waiters_take_locked();
}

static void wait_for_signal_locked(pthread_cond_t *wakeup, apr_int64_t until_us)
{
    apr_int64_t check_us = vl_clock_us() + CHECK_US;
    struct timespec until;

    if (check_us > until_us)
        check_us = until_us;
    until.tv_sec = (time_t)(check_us / APR_USEC_PER_SEC);
    until.tv_nsec = (long)(check_us % APR_USEC_PER_SEC) * 1000;
    if (pthread_cond_timedwait(wakeup, &park.lock, &until))
        take_granted_locked();
}

static void wait_for_grant_locked(thread_waiter_t *tw)
{
    apr_int64_t until_us = tw->waiter.deadline_us;

    while (!tw->done && vl_clock_us() < until_us) {
        if (park.threads > 1)
            wait_for_signal_locked(&tw->wakeup, until_us);
        else
            wait_for_wakeup(tw->waiter.account, until_us);
    }
    if (!tw->done)
        refuse_locked(&tw->waiter, VL_REASON_TIMEOUT);
    /* A grant may have arrived too late. This releases it. */
    take_granted_locked();
}

/* Returns 1 if the account may block one more thread of the pool. The threshold keeps
 * threads for other accounts (vl_admit_more()). */
static int may_wait_locked(const pool_t *pool, apr_uint32_t account)
{
    return vl_admit_more(pool->by_account[account],
                         pool->limit > pool->total ? pool->limit - pool->total : 0);
}

static void begin_wait_locked(thread_waiter_t *tw, pool_t *pool, int first)
{
    apr_uint32_t account = tw->waiter.account;

    pool->total++;
    pool->by_account[account]++;
    vl_waiters_count_with_thread_locked(account, 1);
    if (first) {
        vl_waiters_put_back_locked(&tw->waiter);
        take_granted_locked();
    }
    else {
        vl_waiters_add_locked(&tw->waiter);
    }
}

static void end_wait_locked(const thread_waiter_t *tw, pool_t *pool)
{
    pool->total--;
    pool->by_account[tw->waiter.account]--;
}

int vl_waiters_wait(apr_uint32_t account, const vl_client_id_t *client, int stream,
                    apr_int64_t timeout_us, vl_grant_t *grant)
{
    pool_t *pool = stream ? &park.streams : &park.requests;
    apr_int64_t since_us = vl_clock_us() - grant->waited_us;
    thread_waiter_t tw = {
        .stream = stream,
        .waiter = { .account = account, .client = *client, .since_us = since_us,
                    .deadline_us = since_us + timeout_us, .done = finish_wait_locked,
                    .in_mpm = 1 }
    };
    pthread_condattr_t attr;

    vl_waiters_lock();
    if (!grant->given_back && !may_wait_locked(pool, account)) {
        vl_waiters_unlock();
        return 0;
    }
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, VL_CLOCK);
    pthread_cond_init(&tw.wakeup, &attr);
    pthread_condattr_destroy(&attr);
    begin_wait_locked(&tw, pool, grant->given_back);
    wait_for_grant_locked(&tw);
    end_wait_locked(&tw, pool);
    vl_waiters_unlock();
    pthread_cond_destroy(&tw.wakeup);
    *grant = tw.grant;
    grant->waited_us = vl_clock_us() - since_us;
    return 1;
}

/* --- all waiters ---------------------------------------------------------- */

apr_uint32_t vl_waiters_expire_locked(apr_int64_t now_us, apr_uint32_t max)
{
    vl_waiter_t *waiter;
    apr_uint32_t n = 0;

    while ((waiter = vl_wait_expired(park.waiters, now_us))) {
        if (waiter->may_defer && n >= max)
            break;
        n += waiter->may_defer != 0;
        refuse_locked(waiter, waiter->was_deferred ? VL_REASON_QUEUE
                                                   : VL_REASON_TIMEOUT);
    }
    return n;
}

int vl_waiters_has_locked(vl_waiter_done_fn done)
{
    return vl_wait_any(park.waiters, done, NULL) != NULL;
}

static int has_queued_locked(apr_uint32_t account)
{
    return vl_wait_count_of(park.waiters, account)
           > vl_slot_deferred_here(park.shm, account);
}

vl_waiter_t *vl_waiters_evict_locked(vl_waiter_done_fn done, int queued)
{
    vl_waiter_t *waiter = vl_wait_any(park.waiters, done, queued ? has_queued_locked : NULL);

    if (waiter)
        dequeue_locked(waiter);
    return waiter;
}

vl_waiter_t *vl_waiters_newest_of_longest_locked(vl_waiter_done_fn done,
                                                 apr_uint32_t *ret_count)
{
    apr_uint32_t account = vl_wait_longest(park.waiters);
    vl_waiter_t *waiter;

    *ret_count = 0;
    if (account == VL_NO_FLOW)
        return NULL;
    waiter = vl_wait_newest_with(park.waiters, account, done);
    if (waiter)
        *ret_count = vl_wait_count_of(park.waiters, account);
    return waiter;
}
