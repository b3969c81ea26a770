/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_slot.h"

#include "base/vl_clock.h"
#include "core/vl_dispatch.h"
#include "core/vl_segment.h"

void vl_slot_hold_locked(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account, int stream, int by)
{
    cell_t *cell = &shm->cells[c][account];
    child_t *child = &shm->children[c];

    cell->running += (apr_uint32_t)by;
    child->running += (apr_uint32_t)by;
    cell->streams += (apr_uint32_t)(by * stream);
    child->streams += (apr_uint32_t)(by * stream);
}

void vl_slot_occupy_locked(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account, int by)
{
    shm->cells[c][account].occupied += (apr_uint32_t)by;
    shm->children[c].occupied += (apr_uint32_t)by;
    shm->accounts[account].occupied += (apr_uint32_t)by;
}

static void take_slot_locked(vl_shm_t *shm, apr_uint32_t account, int stream,
                             vl_ticket_t *ticket)
{
    ticket->account = account;
    ticket->charged = vl_fair_begin_now(&shm->queue, account);
    ticket->stream = stream;
    ticket->call = 0;
    ticket->caller = ticket->client_us = 0;
    vl_slot_hold_locked(shm, shm->self, account, stream, 1);
}

static void free_slot_locked(vl_shm_t *shm, const vl_ticket_t *ticket)
{
    vl_slot_hold_locked(shm, shm->self, ticket->account, ticket->stream, -1);
    shm->children[shm->self].calls -= ticket->call;
    shm->head->calls -= ticket->call;
    shm->children[shm->self].ended++;
}

void vl_slot_cancel_locked(vl_shm_t *shm, const vl_ticket_t *ticket)
{
    free_slot_locked(shm, ticket);
    vl_fair_cancel(&shm->queue, ticket->account, ticket->charged);
}

static void arrive_locked(vl_shm_t *shm, apr_uint32_t account,
                          apr_int64_t since_us)
{
    cell_t *cell = &shm->cells[shm->self][account];

    /* The child tells the rest when it has queued the waiter (vl_fair.h). */
    if (!cell->waiting)
        __atomic_store_n(&cell->first.since_us, since_us, __ATOMIC_RELAXED);
    __atomic_store_n(&cell->waiting, cell->waiting + 1, __ATOMIC_RELAXED);
    vl_fair_arrive(&shm->queue, account);
}

/* Returns the number of other children that have deferred connections of the account and no
 * queued one. Each gets the next place, so that clients in a child with few of them do not
 * wait for the queue of another child. */
static apr_uint32_t children_with_only_deferred_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    apr_uint32_t left = shm->accounts[account].deferred
                        - shm->cells[shm->self][account].deferred;
    apr_uint32_t c, n = 0;

    for (c = 0; left && c < shm->head->columns; c++) {
        const cell_t *cell = &shm->cells[c][account];

        if (c == shm->self)
            continue;
        left -= cell->deferred;
        n += cell->deferred && !cell->waiting;
    }
    return n;
}

/* Returns 1 if one more connection of the account fits into this child's part of the queue.
 * more: 1 if that connection is not yet counted as deferred. Requires the segment lock. */
static int fits_in_queue_locked(const vl_shm_t *shm, apr_uint32_t account, int more)
{
    const cell_t *cell = &shm->cells[shm->self][account];
    apr_uint64_t limit = shm->queue.accounts[account].limits.queue;
    apr_uint64_t waiting = shm->queue.accounts[account].waiting;
    apr_uint64_t all = waiting + shm->accounts[account].deferred
                       + (apr_uint64_t)more;
    apr_uint64_t here = (apr_uint64_t)cell->waiting + cell->deferred
                        + (apr_uint64_t)more;

    if (!cell->waiting || all <= limit)
        return waiting < limit;
    return waiting + children_with_only_deferred_locked(shm, account) < limit
           && cell->waiting < (limit * here + all - 1) / all;
}

apr_status_t vl_slot_take_or_wait(vl_shm_t *shm, apr_uint32_t account, apr_int64_t since_us,
                                  vl_wait_e how, vl_ticket_t *ret_ticket)
{
    apr_status_t rv = vl_segment_lock_child(shm);

    if (rv != APR_SUCCESS)
        return rv;
    if (how == VL_WAIT_ASK && vl_admit(shm, account, VL_ASK_NEW) == VL_ADMITTED) {
        take_slot_locked(shm, account, 0, ret_ticket);
        vl_segment_unlock(shm);
        return APR_SUCCESS;
    }
    if (how == VL_WAIT_AGAIN
        || (how == VL_WAIT ? shm->queue.accounts[account].waiting
                             < shm->queue.accounts[account].limits.queue
                           : !shm->cells[shm->self][account].deferred
                             && fits_in_queue_locked(shm, account, 1))) {
        arrive_locked(shm, account, since_us);
        rv = how == VL_WAIT_ASK ? APR_EINPROGRESS : APR_SUCCESS;
    }
    else {
        rv = APR_EAGAIN;
        if (how != VL_WAIT) {
            shm->cells[shm->self][account].deferred++;
            __atomic_store_n(&shm->accounts[account].deferred,
                             shm->accounts[account].deferred + 1, __ATOMIC_RELAXED);
        }
    }
    vl_dispatch_and_unlock(shm);
    return rv;
}

static void undefer_locked(vl_shm_t *shm, apr_uint32_t account)
{
    shm->cells[shm->self][account].deferred--;
    __atomic_store_n(&shm->accounts[account].deferred,
                     shm->accounts[account].deferred - 1, __ATOMIC_RELAXED);
}

void vl_slot_refill(vl_shm_t *shm, apr_uint32_t account)
{
    cell_t *cell;
    int n = 1;

    /* Dispatching may make the next places free. */
    while (n && vl_slot_deferred_here(shm, account) && vl_segment_lock_child(shm) == APR_SUCCESS) {
        cell = &shm->cells[shm->self][account];
        for (n = 0; cell->deferred && fits_in_queue_locked(shm, account, 0); n++) {
            undefer_locked(shm, account);
            arrive_locked(shm, account, cell->first.since_us);
        }
        vl_dispatch_and_unlock(shm);
    }
    if (vl_slot_deferred(shm, account) > vl_slot_deferred_here(shm, account))
        vl_dispatch_wake_deferred(shm, account);
}

void vl_slot_put_back(vl_shm_t *shm, const vl_ticket_t *ticket, apr_int64_t since_us)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    vl_slot_cancel_locked(shm, ticket);
    if (since_us)
        arrive_locked(shm, ticket->account, since_us);
    vl_dispatch_and_unlock(shm);
}

apr_uint32_t vl_slot_deferred(const vl_shm_t *shm, apr_uint32_t account)
{
    return __atomic_load_n(&shm->accounts[account].deferred, __ATOMIC_RELAXED);
}

apr_uint32_t vl_slot_deferred_here(const vl_shm_t *shm, apr_uint32_t account)
{
    return shm->self == NO_CHILD ? 0 : shm->cells[shm->self][account].deferred;
}

apr_status_t vl_slot_unwait(vl_shm_t *shm, apr_uint32_t account)
{
    apr_status_t rv = vl_segment_lock_child(shm);
    cell_t *cell;

    if (rv != APR_SUCCESS)
        return rv;
    cell = &shm->cells[shm->self][account];
    if (cell->deferred)
        undefer_locked(shm, account);
    else if (cell->waiting) {
        __atomic_store_n(&cell->waiting, cell->waiting - 1, __ATOMIC_RELAXED);
        vl_fair_abandon(&shm->queue, account, 1);
    }
    else
        rv = APR_EAGAIN;
    vl_segment_unlock(shm);
    return rv;
}

static int is_revoked(const vl_shm_t *shm)
{
    return shm->self != NO_CHILD
           && __atomic_load_n(&shm->children[shm->self].stalled,
                              __ATOMIC_RELAXED);
}

apr_status_t vl_slot_take(vl_shm_t *shm, vl_ticket_t *ret_ticket)
{
    apr_status_t rv;
    child_t *child;

    if (is_revoked(shm) && vl_segment_lock_child(shm) == APR_SUCCESS) {
        __atomic_store_n(&shm->children[shm->self].stalled, 0, __ATOMIC_RELAXED);
        vl_dispatch_and_unlock(shm);
    }
    if (shm->self == NO_CHILD)
        return APR_EINIT;
    child = &shm->children[shm->self];
    /* Any grant after this check finds woken at 0 and wakes this child. */
    if (!__atomic_load_n(&child->ring_len, __ATOMIC_ACQUIRE)
        && !__atomic_load_n(&child->woken, __ATOMIC_RELAXED))
        return APR_EAGAIN;
    rv = vl_segment_lock_child(shm);
    if (rv != APR_SUCCESS)
        return rv;
    if (!child->ring_len) {
        __atomic_store_n(&child->woken, 0, __ATOMIC_RELAXED);
        vl_segment_unlock(shm);
        return APR_EAGAIN;
    }
    vl_dispatch_take_locked(shm, ret_ticket);
    if (child->ring_len == RING_SIZE - 1)
        vl_dispatch_and_unlock(shm);   /* the ring was full */
    else
        vl_segment_unlock(shm);
    return APR_SUCCESS;
}

int vl_slot_contended(const vl_shm_t *shm)
{
    return __atomic_load_n(&shm->head->contended, __ATOMIC_RELAXED);
}

int vl_slot_granted(const vl_shm_t *shm)
{
    return is_revoked(shm)
           || (shm->self != NO_CHILD
               && __atomic_load_n(&shm->children[shm->self].ring_len,
                                  __ATOMIC_RELAXED) > 0);
}

apr_status_t vl_slot_ask(vl_shm_t *shm, apr_uint32_t account, vl_ask_e ask, int stream,
                         vl_ticket_t *ret_ticket)
{
    apr_status_t rv;

    /* The connection is queued then, under the lock. */
    if ((ask == VL_ASK_LEASE || ask == VL_ASK_KEPT) && vl_admit_is_overrun(shm))
        return APR_EAGAIN;
    if ((rv = vl_segment_lock_child(shm)) != APR_SUCCESS)
        return rv;
    if (vl_admit(shm, account, ask) != VL_ADMITTED) {
        vl_segment_unlock(shm);
        return APR_EAGAIN;
    }
    take_slot_locked(shm, account, stream, ret_ticket);
    if (ask == VL_ASK_CALL) {
        ret_ticket->call = 1;
        shm->children[shm->self].calls++;
        shm->head->calls++;
    }
    vl_segment_unlock(shm);
    return APR_SUCCESS;
}

apr_uint32_t vl_slot_thread_us(const vl_shm_t *shm, apr_uint32_t account)
{
    return __atomic_load_n(&shm->accounts[account].thread_us, __ATOMIC_RELAXED);
}

apr_uint32_t vl_slot_estimate(const vl_shm_t *shm, apr_uint32_t account)
{
    return __atomic_load_n(&shm->queue.accounts[account].estimate_us,
                           __ATOMIC_RELAXED);
}

apr_uint32_t vl_slot_queued(const vl_shm_t *shm, apr_uint32_t account)
{
    return __atomic_load_n(&shm->queue.accounts[account].waiting,
                           __ATOMIC_RELAXED);
}

static void count_refused(vl_metrics_t *metrics, vl_reason_e reason)
{
    metrics->refused++;
    metrics->refused_concurrency += reason == VL_REASON_CONCURRENCY;
    metrics->refused_queue += reason == VL_REASON_QUEUE;
    metrics->refused_timeout += reason == VL_REASON_TIMEOUT;
}

/* Returns why mode On would refuse the request, and counts what On would do. Requests that it would
 * queue run as well: they are those above the concurrency. */
static vl_reason_e decide_dryrun_locked(vl_shm_t *shm, apr_uint32_t account,
                                        const vl_limits_t *limits, vl_reason_e reason)
{
    vl_metrics_t *metrics = &shm->accounts[account].metrics;
    int waits = limits->queue && (reason || !vl_fair_free(&shm->queue) || shm->queue.head->heap.length);

    if (reason && limits->queue)
        reason = shm->queue.accounts[account].running - limits->concurrency < limits->queue
                 ? VL_REASON_NONE : VL_REASON_QUEUE;
    metrics->would_refuse += reason != VL_REASON_NONE;
    metrics->would_queue += !reason && waits;
    return reason;
}

/* Adds to a counter that need not be consistent with any other one. */
static void count(apr_uint64_t *counter, apr_uint64_t n)
{
    __atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

static void count_request(account_t *a, apr_uint64_t wait_us)
{
    count(&a->metrics.requests, 1);
    count(&a->waits[vl_metrics_wait_bucket(wait_us)], 1);
    if (!wait_us)
        return;
    count(&a->metrics.queued, 1);
    count(&a->metrics.wait_us, wait_us);
}

apr_status_t vl_slot_enter(vl_shm_t *shm, apr_uint32_t account,
                           vl_admission_t *ret_admission)
{
    account_t *a = &shm->accounts[account];
    apr_status_t rv = vl_segment_lock_child(shm);
    vl_admission_t adm = { .entered = 0 };
    vl_limits_t limits;

    if (rv != APR_SUCCESS)
        return rv;
    limits = vl_fair_limits(&shm->queue, account);
    if (vl_admit(shm, account, VL_ASK_ENTER) != VL_ADMITTED)
        adm.refused = VL_REASON_CONCURRENCY;
    if (limits.mode == VL_MODE_DRYRUN)
        adm.refused = decide_dryrun_locked(shm, account, &limits, adm.refused);
    adm.entered = !adm.refused || limits.mode == VL_MODE_DRYRUN;
    adm.concurrency = limits.concurrency;
    adm.service_us = a->service_us;
    adm.thread_us = a->thread_us;
    if (!adm.entered) {
        count_refused(&a->metrics, adm.refused);
    }
    else {
        count_request(a, 0);
        take_slot_locked(shm, account, 0, &adm.ticket);
    }
    vl_segment_unlock(shm);
    *ret_admission = adm;
    return APR_SUCCESS;
}

void vl_slot_refused(vl_shm_t *shm, apr_uint32_t account,
                     vl_admission_t *ret_admission)
{
    account_t *a = &shm->accounts[account];

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    count_refused(&a->metrics, ret_admission->refused);
    ret_admission->entered = 0;
    ret_admission->concurrency = vl_fair_limits(&shm->queue, account).concurrency;
    ret_admission->service_us = a->service_us;
    vl_segment_unlock(shm);
}

void vl_slot_reset(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t cost_us)
{
    account_t *a = &shm->accounts[account];

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    count_refused(&a->metrics, VL_REASON_QUEUE);
    a->metrics.reset++;
    vl_charge_part_locked(shm, account, cost_us);
    vl_segment_unlock(shm);
}

void vl_slot_gone(vl_shm_t *shm, apr_uint32_t account, apr_int64_t waited_us)
{
    vl_fair_gone(&shm->inner[account], waited_us);
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    shm->accounts[account].metrics.gone++;
    vl_segment_unlock(shm);
}

void vl_slot_begin(vl_shm_t *shm, apr_uint64_t wait_us, vl_admission_t *adm)
{
    account_t *a = &shm->accounts[adm->ticket.account];

    if (shm->self == NO_CHILD)
        return;
    adm->thread_us = __atomic_load_n(&a->thread_us, __ATOMIC_RELAXED);
    count_request(a, wait_us);
}

/* Releases a slot that was used and charges its cost. Returns the cost, us of CPU time. */
static apr_uint64_t release_locked(vl_shm_t *shm, const vl_ticket_t *ticket,
                                   const vl_cost_t *cost)
{
    apr_uint32_t payer = vl_ticket_payer(ticket);
    apr_uint64_t cost_us = vl_charge_end_locked(shm, payer, cost);

    free_slot_locked(shm, ticket);
    if (payer == ticket->account) {
        vl_fair_end(&shm->queue, payer, ticket->charged + (apr_uint32_t)cost->charged_us,
                    cost_us);
    }
    else {
        vl_fair_cancel(&shm->queue, ticket->account, ticket->charged);
        vl_fair_charge(&shm->queue, payer, (apr_int64_t)cost_us - (apr_int64_t)cost->charged_us);
    }
    return cost_us;
}

apr_uint64_t vl_slot_end(vl_shm_t *shm, const vl_ticket_t *ticket,
                         const vl_cost_t *cost)
{
    apr_uint64_t charged;

    vl_slot_end_and_take(shm, ticket, cost, &charged, NULL, 0);
    return charged;
}

apr_uint32_t vl_slot_end_and_take(vl_shm_t *shm, const vl_ticket_t *ticket,
                                  const vl_cost_t *cost,
                                  apr_uint64_t *ret_charged,
                                  vl_ticket_t *ret_tickets, apr_uint32_t max)
{
    *ret_charged = 0;
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    if (cost)
        *ret_charged = release_locked(shm, ticket, cost);
    else
        vl_slot_cancel_locked(shm, ticket);
    /* Before the next grant, whose order depends on it. */
    vl_fair_end_client(shm, ticket, cost && !ticket->caller ? cost->client : NULL, *ret_charged);
    return vl_dispatch_take_and_unlock(shm, ret_tickets, max);
}

void vl_slot_pause(vl_shm_t *shm, const vl_ticket_t *ticket, apr_uint64_t us)
{
    vl_fair_end_client(shm, ticket, NULL, 0);
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    vl_charge_part_locked(shm, vl_ticket_payer(ticket), us);
    vl_slot_cancel_locked(shm, ticket);
    vl_dispatch_and_unlock(shm);
}

void vl_slot_go_on(vl_shm_t *shm, vl_ticket_t *ticket)
{
    apr_uint32_t caller = ticket->caller;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    take_slot_locked(shm, ticket->account, ticket->stream, ticket);
    ticket->caller = caller;
    vl_segment_unlock(shm);
}

/* --- threads without a slot ------------------------------------------------ */

static apr_uint32_t load(const apr_uint32_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

/* Returns 1 if the MPM may start no further child process. */
static int all_are_alive(const vl_shm_t *shm)
{
    apr_uint32_t c, alive = 0;

    for (c = 0; c < load(&shm->head->columns); c++)
        alive += __atomic_load_n(&shm->children[c].pid, __ATOMIC_RELAXED) != 0;
    return alive >= load(&shm->head->processes);
}

int vl_slot_occupy(vl_shm_t *shm, apr_uint32_t account, vl_occupy_e how)
{
    const vl_limits_t *limits = &shm->queue.accounts[account].limits;
    int is_within = 1;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return how != VL_OCCUPY_ASK;
    if (how != VL_OCCUPIED)
        vl_slot_occupy_locked(shm, shm->self, account, 1);
    /* A queue limit of 0 says that nothing waits, so the account has no capacity threshold. */
    if (how != VL_OCCUPY && limits->mode == VL_MODE_ON && limits->queue)
        is_within = how == VL_OCCUPY_IDLE
                    ? !shm->head->acceptor || vl_admit_process(shm, account)
                    : !vl_admit_is_exceeded(shm, account);
    if (how == VL_OCCUPY_ASK && !is_within)
        vl_slot_occupy_locked(shm, shm->self, account, -1);
    vl_segment_unlock(shm);
    return is_within || (how == VL_OCCUPY_IDLE && !all_are_alive(shm));
}

void vl_slot_unoccupy(vl_shm_t *shm, apr_uint32_t account)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    vl_slot_occupy_locked(shm, shm->self, account, -1);
    vl_dispatch_and_unlock(shm);
}

void vl_slot_is_stream(vl_shm_t *shm, vl_ticket_t *ticket)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    ticket->stream = 1;
    shm->cells[shm->self][ticket->account].streams++;
    shm->children[shm->self].streams++;
    vl_segment_unlock(shm);
}

/* Only this child changes these two counts. */
void vl_slot_count_in_mpm(vl_shm_t *shm, apr_uint32_t account, int has_thread, int by)
{
    cell_t *cell;

    if (shm->self == NO_CHILD)
        return;
    cell = &shm->cells[shm->self][account];
    __atomic_add_fetch(has_thread ? &cell->thread_waiters : &cell->parked, by, __ATOMIC_RELAXED);
}

int vl_slot_threads_are_short(const vl_shm_t *shm)
{
    const child_t *child;

    if (shm->self == NO_CHILD)
        return 0;
    if (load(&shm->head->acceptor))
        return !load(&shm->head->asking)
               && (all_are_alive(shm) || vl_slot_contended(shm));
    if (!vl_slot_contended(shm))
        return 0;
    child = &shm->children[shm->self];
    return (load(&child->running) - load(&child->streams)
            + load(&child->occupied) + load(&child->accepted) + 1) * 5
           >= (load(&child->threads) - 1) * 4;
}

int vl_slot_only_in_mpm(vl_shm_t *shm)
{
    return shm->self != NO_CHILD
           && (__atomic_load_n(&shm->children[shm->self].state, __ATOMIC_RELAXED) != CHILD_ACCEPTING
               || vl_admit_busy(shm, shm->self) > vl_admit_most(shm, shm->self));
}

/* --- settings ------------------------------------------------------------- */

void vl_slot_set(vl_shm_t *shm, apr_uint32_t slots)
{
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    shm->head->queue.slots = slots ? slots : shm->head->processors * VL_AUTO_PER_CPU;
    shm->head->queue.by_duty = !slots;
    vl_dispatch_and_unlock(shm);
}

void vl_slot_set_mpm(vl_shm_t *shm, apr_uint32_t processes, apr_uint32_t spare)
{
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    shm->head->processes = processes;
    shm->head->spare = spare;
    vl_dispatch_and_unlock(shm);
}

int vl_slot_capped(const vl_shm_t *shm, apr_uint32_t account)
{
    const vl_fair_account_t *fair = &shm->queue.accounts[account];

    return __atomic_load_n(&fair->limits.cpu, __ATOMIC_RELAXED)
           || __atomic_load_n(&fair->part.cpu_permille, __ATOMIC_RELAXED);
}

apr_uint32_t vl_slot_queue(const vl_shm_t *shm, apr_uint32_t account)
{
    return __atomic_load_n(&shm->queue.accounts[account].limits.queue,
                           __ATOMIC_RELAXED);
}

