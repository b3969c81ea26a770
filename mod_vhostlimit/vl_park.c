/* SPDX-License-Identifier: Apache-2.0 */
/* For each account, those in its line here are as many as its cell of this
 * child says are waiting, plus those whose grant is in the child's ring. */
#include "vl_park.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <apr_time.h>

#include "vl_clock.h"
#include "vl_link.h"
#include "vl_seat.h"

/* How often one who waits alone gives credit, and others look for themselves
 * whether a grant has come: the acceptor, who tells them, leaves before them. */
#define LOOK_US 100000

static struct {
    pthread_mutex_t lock;           /* of a kind that a signal handler does not
                                     * hang in, see vl_shm.c */
    vl_shm_t *shm;
    vl_wait_t *lines;
    apr_uint32_t most;
    apr_uint32_t threads;
    apr_uint32_t workers;           /* HTTP/2's */
    apr_uint32_t streams;           /* HTTP/2's that wait, in all and ... */
    apr_uint32_t *streams_of;       /* ... of each account */
    apr_uint32_t *sitting;          /* in line with a thread, of each account */
} park = { .lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };

void vl_park_child_init(apr_pool_t *pchild, vl_shm_t *shm,
                        apr_uint32_t accounts, apr_uint32_t most,
                        apr_uint32_t threads, apr_uint32_t workers)
{
    park.shm = shm;
    park.lines = vl_wait_create(pchild, accounts);
    park.most = most;
    park.threads = threads;
    park.workers = workers;
    park.streams_of = apr_pcalloc(pchild, sizeof(apr_uint32_t) * accounts);
    park.sitting = apr_pcalloc(pchild, sizeof(apr_uint32_t) * accounts);
}

void vl_park_lock(void)
{
    pthread_mutex_lock(&park.lock);
}

void vl_park_unlock(void)
{
    pthread_mutex_unlock(&park.lock);
}

void vl_park_remove_locked(vl_waiter_t *waiter)
{
    vl_wait_remove(park.lines, waiter);
    /* If its grant is on the way, vl_park_take_locked() will find the line
     * one shorter and give the slot back. */
    vl_slot_unwait(park.shm, waiter->account);
}

static void refuse_locked(vl_waiter_t *waiter, vl_reason_e reason)
{
    vl_park_remove_locked(waiter);
    waiter->done(waiter, NULL, reason);
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
    vl_wait_add(park.lines, waiter);
    if (count_locked(waiter, vl_slot_wait(park.shm, waiter->account,
                                          waiter->since_us))
        && vl_slot_granted(park.shm))
        vl_park_take_locked();
    if (vl_wait_count(park.lines) > park.most)
        refuse_locked(vl_wait_newest_of_longest(park.lines), VL_REASON_QUEUE);
}

void vl_park_put_back_locked(vl_waiter_t *waiter)
{
    vl_wait_add_first(park.lines, waiter);
    count_locked(waiter, vl_slot_wait_again(park.shm, waiter->account,
                                            waiter->since_us));
}

void vl_park_end(const vl_ticket_t *ticket, const vl_cost_t *cost)
{
    vl_slot_end(park.shm, ticket, cost);
    if (vl_slot_granted(park.shm)) {
        vl_park_lock();
        vl_park_take_locked();
        vl_park_unlock();
    }
}

static void call_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused);

/* While the MPM takes nobody it is one whom it need not take. */
static vl_waiter_t *pop_locked(apr_uint32_t account)
{
    vl_waiter_t *waiter;

    if (!vl_seat_only_threads(park.shm))
        return vl_wait_pop(park.lines, account);
    waiter = vl_wait_first_with(park.lines, account, call_locked);
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

void vl_park_take_locked(void)
{
    vl_ticket_t ticket;

    while (vl_slot_take(park.shm, &ticket) == APR_SUCCESS) {
        vl_waiter_t *waiter = pop_locked(ticket.account);
        vl_waiter_t *next = vl_wait_first(park.lines, ticket.account);

        if (next)
            vl_slot_first(park.shm, ticket.account, next->since_us);
        if (waiter)
            waiter->done(waiter, &ticket, VL_REASON_NONE);
        else
            return_locked(&ticket, next);
    }
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

    vl_seat_sitting(park.shm, waiter->account,
                    --park.sitting[waiter->account]);
    sitter->done = 1;
    sitter->turn.holds = ticket != NULL;
    if (ticket)
        sitter->turn.ticket = *ticket;
    if (ticket && sitter->stream)
        vl_link_stream(park.shm, &sitter->turn.ticket);
    sitter->turn.refused = refused;
    pthread_cond_signal(&sitter->called);
}

/* Until the child is woken, or the time has come.  No other thread gives credit
 * to who is capped. */
static void doze(apr_uint32_t account, apr_int64_t until_us)
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
        apr_sleep(1000);            /* somebody else has read it */
    pthread_mutex_lock(&park.lock);
    vl_park_take_locked();
}

/* Until it is called, or it is time to look. */
static void nap(sitter_t *sitter, apr_int64_t until_us)
{
    apr_int64_t look_us = vl_clock_us() + LOOK_US;
    struct timespec until;

    if (look_us > until_us)
        look_us = until_us;
    until.tv_sec = (time_t)(look_us / APR_USEC_PER_SEC);
    until.tv_nsec = (long)(look_us % APR_USEC_PER_SEC) * 1000;
    if (pthread_cond_timedwait(&sitter->called, &park.lock, &until)
        && vl_slot_granted(park.shm))
        vl_park_take_locked();
}

static void sleep_locked(sitter_t *sitter)
{
    apr_int64_t until_us = sitter->waiter.deadline_us;

    while (!sitter->done && vl_clock_us() < until_us) {
        if (park.threads == 1)
            doze(sitter->waiter.account, until_us);
        else
            nap(sitter, until_us);
    }
    if (!sitter->done)
        refuse_locked(&sitter->waiter, VL_REASON_TIMEOUT);
    /* A grant may have come too late: it goes back. */
    if (vl_slot_granted(park.shm))
        vl_park_take_locked();
}

static void line_up_locked(vl_waiter_t *waiter, int first)
{
    if (!first) {
        vl_park_add_locked(waiter);
        return;
    }
    vl_park_put_back_locked(waiter);
    if (vl_slot_granted(park.shm))
        vl_park_take_locked();
}

/* Some are left to who comes, even by an account that is alone. */
static int sit_stream(apr_uint32_t account)
{
    apr_uint32_t most = park.workers * 5 / 6;
    int may;

    vl_park_lock();
    may = (park.streams < most || park.streams_of[account] < park.streams / 2)
          && vl_admit_seat(park.streams_of[account], park.streams, most,
                           vl_slot_weight(park.shm, account));
    if (may) {
        park.streams++;
        park.streams_of[account]++;
    }
    vl_park_unlock();
    return may;
}

static apr_status_t sit_down(apr_uint32_t account, int stream)
{
    if (stream)
        return sit_stream(account) ? APR_SUCCESS : APR_EAGAIN;
    return vl_seat_take(park.shm, account);
}

static void rise(apr_uint32_t account, int stream)
{
    if (!stream) {
        vl_seat_leave(park.shm, account);
        return;
    }
    vl_park_lock();
    park.streams--;
    park.streams_of[account]--;
    vl_park_unlock();
}

/* Its times are those of vl_clock_us(). */
static void init_called(pthread_cond_t *called)
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
    init_called(&sitter.called);
    vl_park_lock();
    vl_seat_sitting(park.shm, account, ++park.sitting[account]);
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
    return waiter->done != call_locked
           && !vl_seat_overfills(park.shm, waiter->account);
}

int vl_park_socket_waits(void)
{
    int waits;

    vl_park_lock();
    waits = vl_wait_newest_where(park.lines, is_socket_locked) != NULL;
    vl_park_unlock();
    return waits;
}

static int is_in_the_way_locked(const vl_waiter_t *waiter)
{
    return waiter->done == call_locked && !((const sitter_t *)waiter)->stream
           && vl_seat_overfills(park.shm, waiter->account);
}

void vl_park_drop_sitter(void)
{
    vl_waiter_t *waiter;

    vl_park_lock();
    waiter = vl_wait_newest_where(park.lines, is_in_the_way_locked);
    if (waiter)
        refuse_locked(waiter, VL_REASON_THREADS);
    vl_park_unlock();
}

apr_uint32_t vl_park_expire_locked(apr_int64_t now_us)
{
    vl_waiter_t *waiter;
    apr_uint32_t n = 0;

    for (; (waiter = vl_wait_expired(park.lines, now_us)); n++)
        refuse_locked(waiter, VL_REASON_TIMEOUT);
    return n;
}

vl_waiter_t *vl_park_evict_locked(vl_waiter_done_fn done)
{
    vl_waiter_t *waiter = vl_wait_any(park.lines, done);

    if (waiter)
        vl_park_remove_locked(waiter);
    return waiter;
}
