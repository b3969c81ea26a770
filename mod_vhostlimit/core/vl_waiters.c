/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_waiters.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <apr_time.h>

#include "base/vl_clock.h"
#include "base/vl_pages.h"
#include "core/vl_charge.h"
#include "core/vl_duty.h"
#include "core/vl_shm_child.h"

/* Interval at which a thread waiter acts without a wakeup. In a child with one thread it
 * gives credit to its capped account. In other children it checks for grants, because the
 * acceptor thread, which normally wakes it, ends before it when the child stops. */
#define CHECK_US 100000
/* Maximum number of grants that are taken when a slot is released. */
#define GRANTS_MAX 4

/* Limit and number of thread waiters on one kind of threads. */
typedef struct pool_t {
    apr_uint32_t limit, total;
    apr_uint32_t *by_account;
} pool_t;

APR_RING_HEAD(own_ring_t, vl_waiter_t);

static struct {
    pthread_mutex_t lock;           /* error-checking, so that a signal handler does not
                                     * hang in it, see vl_shm.c */
    vl_shm_t *shm;
    vl_queues_t *queues;            /* queued and deferred waiters */
    struct own_ring_t *own;         /* those of clients on this machine */
    apr_uint32_t threads;
    pool_t requests, streams;       /* threads of the MPM, of mod_http2 */
} here = { .lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };

void vl_waiters_child_init(apr_pool_t *pchild, vl_shm_t *shm,
                           apr_uint32_t accounts, apr_uint32_t threads,
                           apr_uint32_t workers)
{
    here.shm = shm;
    here.queues = vl_fair_create(pchild, shm, accounts);
    here.own = apr_palloc(pchild, sizeof(*here.own));
    APR_RING_INIT(here.own, vl_waiter_t, own_link);
    here.threads = threads;
    here.requests.limit = threads > 1 ? threads / 2 : 1;
    here.streams.limit = workers * 5 / 6;
    /* Only children in which threads wait write to these. */
    here.requests.by_account = vl_pages_make(pchild, accounts, sizeof(apr_uint32_t));
    here.streams.by_account = vl_pages_make(pchild, accounts, sizeof(apr_uint32_t));
}

void vl_waiters_lock(void)
{
    pthread_mutex_lock(&here.lock);
}

void vl_waiters_unlock(void)
{
    pthread_mutex_unlock(&here.lock);
}

/* --- waiters are added and removed ------------------------------------------ */

/* Calls vl_waiters_take_locked() if this child may have grants. */
static void take_any_granted_locked(void)
{
    if (vl_slot_granted(here.shm))
        vl_waiters_take_locked();
}

void vl_waiters_refill_locked(void)
{
    vl_fair_each_account(here.queues, vl_slot_refill);
    take_any_granted_locked();
}

/* The waiter has entered its queue. */
static void note_own_locked(vl_waiter_t *waiter)
{
    if (!waiter->key)
        return;
    APR_RING_INSERT_TAIL(here.own, waiter, vl_waiter_t, own_link);
    vl_duty_note_queued(here.shm, waiter->key, waiter->account);
    vl_duty_tell_call(here.shm, waiter->account);
}

/* The waiter has left its queue. */
static void forget_own_locked(vl_waiter_t *waiter)
{
    if (!waiter->key)
        return;
    APR_RING_REMOVE(waiter, own_link);
    vl_duty_note_queued(here.shm, waiter->key, VL_NO_ACCOUNT);
}

/* Handles the result of counting a waiter that was just added to its queue. If it is not
 * counted, removes it and calls done(). A waiter that cannot be counted because of an error is not
 * refused here: the request decides (VhostLimitOnError). */
static void keep_if_counted_locked(vl_waiter_t *waiter, apr_status_t rv)
{
    if (rv == APR_SUCCESS)
        return;
    vl_fair_remove_waiter(here.queues, waiter);
    forget_own_locked(waiter);
    waiter->done(waiter, NULL, APR_STATUS_IS_EAGAIN(rv) ? VL_REASON_QUEUE
                                                        : VL_REASON_NONE);
}

static void dequeue_locked(vl_waiter_t *waiter)
{
    vl_fair_remove_waiter(here.queues, waiter);
    forget_own_locked(waiter);
    /* If its grant is already in the ring, vl_waiters_take_locked() will find one waiter less and
     * release the slot. */
    vl_slot_unwait(here.shm, waiter->account);
}

void vl_waiters_remove_locked(vl_waiter_t *waiter)
{
    dequeue_locked(waiter);
    vl_slot_refill(here.shm, waiter->account);
}

/* Gives a slot to the waiter if a running request waits for it. A waiter without a client queue has left
 * its queue. */
static void let_call_locked(vl_waiter_t *waiter)
{
    apr_uint32_t call = waiter->key && waiter->client_queue ? vl_duty_call(here.shm, waiter->key) : 0;
    vl_ticket_t ticket;

    if (!call || vl_slot_ask_call(here.shm, waiter->account, call, 0, &ticket) != APR_SUCCESS)
        return;
    vl_waiters_remove_locked(waiter);
    ticket.client = waiter->client;
    waiter->done(waiter, &ticket, VL_REASON_NONE);
}

void vl_waiters_let_calls_locked(void)
{
    vl_waiter_t *waiter, *next;

    if (!vl_duty_knows_calls(here.shm))
        return;
    for (waiter = APR_RING_FIRST(here.own); waiter != APR_RING_SENTINEL(here.own, vl_waiter_t, own_link);
         waiter = next) {
        next = APR_RING_NEXT(waiter, own_link);
        let_call_locked(waiter);
    }
}

int vl_waiters_take_or_queue_locked(vl_waiter_t *waiter, vl_ticket_t *ret_ticket)
{
    vl_wait_e how = ret_ticket ? VL_WAIT_ASK : waiter->may_defer ? VL_WAIT_OR_DEFER : VL_WAIT;
    apr_status_t rv;

    if (!ret_ticket)
        vl_fair_add_waiter(here.queues, waiter, 0);
    rv = vl_slot_take_or_wait(here.shm, waiter->account, waiter->since_us, how, ret_ticket);
    waiter->was_deferred = waiter->may_defer && APR_STATUS_IS_EAGAIN(rv);
    if (ret_ticket) {
        if (rv == APR_SUCCESS)
            return 1;
        vl_fair_add_waiter(here.queues, waiter, 0);
    }
    note_own_locked(waiter);
    if (rv == APR_SUCCESS || APR_STATUS_IS_EINPROGRESS(rv))
        take_any_granted_locked();
    else if (!waiter->was_deferred)
        keep_if_counted_locked(waiter, rv);
    let_call_locked(waiter);
    return 0;
}

void vl_waiters_put_back_locked(vl_waiter_t *waiter)
{
    vl_fair_add_waiter(here.queues, waiter, 1);
    note_own_locked(waiter);
    keep_if_counted_locked(waiter, vl_slot_take_or_wait(here.shm, waiter->account, waiter->since_us,
                                                        VL_WAIT_AGAIN, NULL));
}

static void refuse_locked(vl_waiter_t *waiter, vl_reason_e reason)
{
    apr_uint32_t account = waiter->account;

    dequeue_locked(waiter);
    waiter->done(waiter, NULL, reason);
    vl_slot_refill(here.shm, account);
}

apr_uint32_t vl_waiters_expire_locked(apr_int64_t now_us, apr_uint32_t max)
{
    vl_waiter_t *waiter;
    apr_uint32_t n = 0;

    while ((waiter = vl_fair_expired_waiter(here.queues, now_us))) {
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
    return vl_fair_any_waiter(here.queues, done, NULL) != NULL;
}

static int has_queued_locked(apr_uint32_t account)
{
    return vl_fair_count_waiters(here.queues, account) > vl_slot_deferred_here(here.shm, account);
}

vl_waiter_t *vl_waiters_evict_locked(vl_waiter_done_fn done, int queued)
{
    vl_waiter_t *waiter = vl_fair_any_waiter(here.queues, done, queued ? has_queued_locked : NULL);

    if (waiter)
        dequeue_locked(waiter);
    return waiter;
}

vl_waiter_t *vl_waiters_newest_of_longest_locked(vl_waiter_done_fn done,
                                                 apr_uint32_t *ret_count)
{
    return vl_fair_newest_waiter(here.queues, done, ret_count);
}

/* --- grants ------------------------------------------------------------------ */

/* Hands a grant that was taken from the ring to the account's first waiter. If none can use it,
 * releases it. If the account still has a waiter, that one is counted as waiting again. */
static void deliver_grant_locked(const vl_ticket_t *granted)
{
    vl_ticket_t ticket = *granted;
    vl_waiter_t *waiter = vl_fair_pop_waiter(here.queues, &ticket, vl_slot_only_in_mpm(here.shm));

    if (waiter) {
        forget_own_locked(waiter);
        waiter->done(waiter, &ticket, VL_REASON_NONE);
    }
    else {
        waiter = vl_fair_first_waiter(here.queues, ticket.account);
        vl_slot_put_back(here.shm, &ticket, waiter ? waiter->since_us : 0);
    }
    vl_slot_refill(here.shm, ticket.account);
}

void vl_waiters_take_locked(void)
{
    vl_ticket_t ticket;

    while (vl_slot_take(here.shm, &ticket) == APR_SUCCESS)
        deliver_grant_locked(&ticket);
}

static void take_granted(void)
{
    if (!vl_slot_granted(here.shm))
        return;
    vl_waiters_lock();
    vl_waiters_take_locked();
    vl_waiters_unlock();
}

apr_uint64_t vl_waiters_end(const vl_ticket_t *ticket, const vl_cost_t *cost)
{
    vl_ticket_t granted[GRANTS_MAX];
    apr_uint64_t charged;
    apr_uint32_t i, n = vl_slot_end_and_take(here.shm, ticket, cost, &charged,
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
    vl_slot_pause(here.shm, ticket, us);
    take_granted();
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

    vl_slot_count_in_mpm(here.shm, waiter->account, 1, -1);
    tw->done = 1;
    tw->grant.holds = ticket != NULL;
    if (ticket)
        tw->grant.ticket = *ticket;
    if (ticket && tw->stream)
        vl_slot_is_stream(here.shm, &tw->grant.ticket);
    tw->grant.refused = refused;
    pthread_cond_signal(&tw->wakeup);
}

/* Waits without the waiters lock until the child is woken or until_us. Gives credit to a
 * capped account, because a child with one thread has no other thread that does. */
static void wait_for_wakeup(apr_uint32_t account, apr_int64_t until_us)
{
    struct pollfd pfd = { vl_shm_child_wake_fd(here.shm), POLLIN, 0 };
    apr_int64_t left_us = until_us - vl_clock_us();
    apr_uint64_t count;

    pthread_mutex_unlock(&here.lock);
    if (vl_slot_capped(here.shm, account)) {
        vl_charge_credit(here.shm, vl_clock_us());
        if (left_us > CHECK_US)
            left_us = CHECK_US;
    }
    if (left_us > 0 && poll(&pfd, 1, (int)(left_us / 1000) + 1) > 0
        && read(pfd.fd, &count, sizeof(count)) < 0)
        apr_sleep(1000);            /* another thread or process has read it */
    pthread_mutex_lock(&here.lock);
    vl_waiters_let_calls_locked();
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
    if (pthread_cond_timedwait(wakeup, &here.lock, &until))
        take_any_granted_locked();
}

int vl_waiters_wait(apr_uint32_t account, const vl_client_id_t *client, apr_uint32_t key, int stream,
                    apr_int64_t timeout_us, vl_grant_t *grant)
{
    pool_t *pool = stream ? &here.streams : &here.requests;
    apr_int64_t since_us = vl_clock_us() - grant->waited_us;
    thread_waiter_t tw = {
        .stream = stream,
        .waiter = { .account = account, .client = *client, .key = key, .since_us = since_us,
                    .deadline_us = since_us + timeout_us, .done = finish_wait_locked,
                    .in_mpm = 1 }
    };
    pthread_condattr_t attr;

    vl_waiters_lock();
    /* Some threads are kept for other accounts. */
    if (!grant->given_back
        && !vl_slot_more(pool->by_account[account],
                          pool->limit > pool->total ? pool->limit - pool->total : 0)) {
        vl_waiters_unlock();
        return 0;
    }
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, VL_CLOCK);
    pthread_cond_init(&tw.wakeup, &attr);
    pthread_condattr_destroy(&attr);
    pool->total++;
    pool->by_account[account]++;
    vl_slot_count_in_mpm(here.shm, account, 1, 1);
    if (grant->given_back) {
        vl_waiters_put_back_locked(&tw.waiter);
        take_any_granted_locked();
    }
    else {
        vl_waiters_take_or_queue_locked(&tw.waiter, NULL);
    }
    while (!tw.done && vl_clock_us() < tw.waiter.deadline_us) {
        if (here.threads > 1)
            wait_for_signal_locked(&tw.wakeup, tw.waiter.deadline_us);
        else
            wait_for_wakeup(account, tw.waiter.deadline_us);
    }
    if (!tw.done)
        refuse_locked(&tw.waiter, VL_REASON_TIMEOUT);
    /* A grant may have arrived too late. This releases it. */
    take_any_granted_locked();
    pool->total--;
    pool->by_account[account]--;
    vl_waiters_unlock();
    pthread_cond_destroy(&tw.wakeup);
    *grant = tw.grant;
    grant->waited_us = vl_clock_us() - since_us;
    return 1;
}
