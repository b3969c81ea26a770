/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_slot.h"

#include <string.h>
#include <unistd.h>

#include "vl_shm_int.h"

/* The moving average of a vhost's service time forgets by 1/8 a request, as
 * TCP's smoothed round-trip time does (RFC 6298, alpha). */
#define SERVICE_SHIFT 3

/* Children to wake once the lock is released: a write() is a system call. */
typedef struct wakes_t {
    apr_uint32_t n;
    apr_uint32_t child[32];
} wakes_t;

#define WAKES_MAX (sizeof(((wakes_t *)0)->child) / sizeof(apr_uint32_t))

/* The event MPM's listener keeps the last idle thread to itself and then stops
 * accepting (connections_above_limit), so it works on one request less. */
static apr_uint32_t most_of(const child_t *child)
{
    return child->threads > 1 ? child->threads - 1 : child->threads;
}

static apr_uint32_t room_of(const child_t *child)
{
    apr_uint32_t most = most_of(child);

    return child->pid && !child->paused && child->running < most
           && child->ring_len < RING_SIZE ? most - child->running : 0;
}

/* How much earlier somebody in another child must have come to be preferred to
 * the first in the child that has the processor right now: waking another costs
 * two switches. */
#define FAR_US 20000

/* The child in which the first of the account waits, by and large.  NO_CHILD:
 * nobody waits where a thread is free. */
static apr_uint32_t pick_child(const vl_shm_t *shm, apr_uint32_t account)
{
    apr_uint32_t c, best = NO_CHILD;
    apr_int64_t earliest = INT64_MAX;

    for (c = 0; c < shm->head->columns; c++) {
        const cell_t *cell = vl_shm_cell(shm, c, account);
        apr_int64_t came = cell->first_us - (c == shm->self ? FAR_US : 0);

        if (cell->waiting && came < earliest
            && room_of(&shm->children[c])) {
            earliest = came;
            best = c;
        }
    }
    return best;
}

static int can_serve(void *data, apr_uint32_t account)
{
    return pick_child(data, account) != NO_CHILD;
}

/* One store makes the grant; see vl_shm_int.h for a death before or after. */
static void grant(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account,
                  wakes_t *wakes)
{
    child_t *child = &shm->children[c];
    cell_t *cell = vl_shm_cell(shm, c, account);
    vl_ticket_t *ticket;

    ticket = &child->ring[(child->ring_head + child->ring_len) % RING_SIZE];
    ticket->account = account;
    ticket->charged = vl_queue_begin(&shm->queue, account);
    __atomic_store_n(&child->ring_len, child->ring_len + 1, __ATOMIC_RELEASE);
    cell->waiting--;
    child->running++;
    cell->first_us = apr_time_now();    /* until the child says who is next */
    if (c != shm->self && !child->woken) {
        child->woken = 1;
        wakes->child[wakes->n++] = c;
    }
}

/* Every free slot goes to whose turn it is, as long as `wakes` has room. */
static void grant_free(vl_shm_t *shm, wakes_t *wakes)
{
    apr_uint32_t account;

    wakes->n = 0;
    while (wakes->n < WAKES_MAX
           && (account = vl_queue_next(&shm->queue)) != VL_NO_FLOW) {
        apr_uint32_t c = pick_child(shm, account);

        if (c == NO_CHILD) {
            account = vl_queue_next_where(&shm->queue, can_serve, shm);
            if (account == VL_NO_FLOW)
                break;
            c = pick_child(shm, account);
        }
        grant(shm, c, account, wakes);
    }
}

static void wake(const vl_shm_t *shm, apr_uint32_t child)
{
    apr_uint64_t one = 1;

    /* Fails only when it is readable already. */
    if (write(shm->wake_fds[child], &one, sizeof(one)) < 0)
        return;
}

/* What each holder of the lock does last. */
static void dispatch_and_unlock(vl_shm_t *shm)
{
    wakes_t wakes;
    apr_uint32_t i;

    do {
        grant_free(shm, &wakes);
        vl_shm_unlock(shm);
        for (i = 0; i < wakes.n; i++)
            wake(shm, wakes.child[i]);
    } while (wakes.n == WAKES_MAX && vl_shm_lock(shm) == APR_SUCCESS);
}

void vl_slot_wake_others(vl_shm_t *shm)
{
    apr_uint32_t c;

    for (c = 0; c < shm->head->columns; c++) {
        if (c != shm->self && room_of(&shm->children[c]))
            wake(shm, c);
    }
}

void vl_slot_dispatch(vl_shm_t *shm)
{
    apr_uint32_t c;

    if (vl_shm_lock(shm) != APR_SUCCESS)
        return;
    dispatch_and_unlock(shm);
    /* Whoever died may have been about to wake somebody. */
    for (c = 0; c < shm->head->columns; c++) {
        if (__atomic_load_n(&shm->children[c].ring_len, __ATOMIC_RELAXED))
            wake(shm, c);
    }
}

static void hold(vl_shm_t *shm, apr_uint32_t account, vl_ticket_t *ticket)
{
    ticket->account = account;
    ticket->charged = vl_queue_begin_now(&shm->queue, account);
    vl_shm_cell(shm, shm->self, account)->running++;
    shm->children[shm->self].running++;
}

static void let_go(vl_shm_t *shm, const vl_ticket_t *ticket)
{
    vl_shm_cell(shm, shm->self, ticket->account)->running--;
    shm->children[shm->self].running--;
    shm->children[shm->self].ended++;
}

static void release(vl_shm_t *shm, const vl_ticket_t *ticket,
                    apr_uint64_t cost_us)
{
    let_go(shm, ticket);
    vl_queue_end(&shm->queue, ticket->account, ticket->charged, cost_us);
}

/* The slot was not used. */
static void cancel(vl_shm_t *shm, const vl_ticket_t *ticket)
{
    let_go(shm, ticket);
    vl_queue_cancel(&shm->queue, ticket->account, ticket->charged);
}

static apr_status_t lock_self(vl_shm_t *shm)
{
    return shm->self == NO_CHILD ? APR_EINIT : vl_shm_lock(shm);
}

apr_status_t vl_slot_wait(vl_shm_t *shm, apr_uint32_t account,
                          apr_int64_t since_us)
{
    apr_status_t rv = lock_self(shm);
    cell_t *cell;

    if (rv != APR_SUCCESS)
        return rv;
    if (shm->queue.flows[account].waiting
        >= shm->accounts[account].limits.queue) {
        rv = APR_EAGAIN;
    }
    else {
        cell = vl_shm_cell(shm, shm->self, account);
        if (!cell->waiting++)
            cell->first_us = since_us;
        vl_queue_arrive(&shm->queue, account);
    }
    dispatch_and_unlock(shm);
    return rv;
}

apr_status_t vl_slot_unwait(vl_shm_t *shm, apr_uint32_t account)
{
    apr_status_t rv = lock_self(shm);
    cell_t *cell;

    if (rv != APR_SUCCESS)
        return rv;
    cell = vl_shm_cell(shm, shm->self, account);
    if (cell->waiting) {
        cell->waiting--;
        vl_queue_abandon(&shm->queue, account, 1);
    }
    else {
        rv = APR_EAGAIN;
    }
    vl_shm_unlock(shm);
    return rv;
}

apr_status_t vl_slot_take(vl_shm_t *shm, vl_ticket_t *ret_ticket)
{
    apr_status_t rv = lock_self(shm);
    child_t *child;

    if (rv != APR_SUCCESS)
        return rv;
    child = &shm->children[shm->self];
    if (!child->ring_len) {
        child->woken = 0;
        vl_shm_unlock(shm);
        return APR_EAGAIN;
    }
    *ret_ticket = child->ring[child->ring_head];
    vl_shm_cell(shm, shm->self, ret_ticket->account)->running++;
    child->ring_head = (child->ring_head + 1) % RING_SIZE;
    child->ring_len--;
    if (child->ring_len == RING_SIZE - 1)
        dispatch_and_unlock(shm);   /* it was full */
    else
        vl_shm_unlock(shm);
    return APR_SUCCESS;
}

void vl_slot_rooms(vl_shm_t *shm, vl_rooms_t *ret_rooms)
{
    apr_uint32_t c;

    memset(ret_rooms, 0, sizeof(*ret_rooms));
    if (lock_self(shm) != APR_SUCCESS)
        return;
    for (c = 0; c < shm->head->columns; c++)
        *(c == shm->self ? &ret_rooms->here : &ret_rooms->elsewhere)
            += room_of(&shm->children[c]);
    ret_rooms->ended = shm->children[shm->self].ended;
    vl_shm_unlock(shm);
}

void vl_slot_first(vl_shm_t *shm, apr_uint32_t account, apr_int64_t since_us)
{
    if (lock_self(shm) != APR_SUCCESS)
        return;
    vl_shm_cell(shm, shm->self, account)->first_us = since_us;
    vl_shm_unlock(shm);
}

int vl_slot_contended(const vl_shm_t *shm)
{
    return __atomic_load_n(&shm->head->queue.waiting, __ATOMIC_RELAXED) > 0;
}

int vl_slot_granted(const vl_shm_t *shm)
{
    return shm->self != NO_CHILD
           && __atomic_load_n(&shm->children[shm->self].ring_len,
                              __ATOMIC_RELAXED) > 0;
}

apr_status_t vl_slot_try(vl_shm_t *shm, apr_uint32_t account,
                         vl_ticket_t *ret_ticket)
{
    apr_status_t rv = lock_self(shm);
    const vl_queue_head_t *q;
    const vl_flow_t *flow;

    if (rv != APR_SUCCESS)
        return rv;
    q = shm->queue.head;
    flow = &shm->queue.flows[account];
    if (room_of(&shm->children[shm->self])
        && q->running < q->slots && !q->heap_len && !flow->waiting
        && (!flow->concurrency || flow->running < flow->concurrency))
        hold(shm, account, ret_ticket);
    else
        rv = APR_EAGAIN;
    vl_shm_unlock(shm);
    return rv;
}

static void count_refused(vl_metrics_t *metrics, vl_reason_e reason)
{
    metrics->refused++;
    metrics->refused_concurrency += reason == VL_REASON_CONCURRENCY;
    metrics->refused_queue += reason == VL_REASON_QUEUE;
    metrics->refused_timeout += reason == VL_REASON_TIMEOUT;
}

apr_status_t vl_slot_enter(vl_shm_t *shm, apr_uint32_t account,
                           vl_admission_t *ret_admission)
{
    account_t *a = &shm->accounts[account];
    const vl_queue_head_t *q = shm->queue.head;
    apr_status_t rv = lock_self(shm);
    vl_admission_t adm;
    int dry;

    if (rv != APR_SUCCESS)
        return rv;
    dry = a->limits.mode == VL_MODE_DRYRUN;
    adm.decision = vl_admit_decide(&a->limits,
                                   shm->queue.flows[account].running);
    adm.entered = adm.decision.verdict == VL_PASS || dry;
    adm.backlogged = shm->queue.flows[account].waiting > 0;
    adm.concurrency = a->limits.concurrency;
    adm.service_us = a->service_us;
    if (adm.decision.verdict == VL_REFUSE) {
        if (dry)
            a->metrics.would_refuse++;
        else
            count_refused(&a->metrics, adm.decision.reason);
    }
    else if (dry && (q->running >= q->slots || q->heap_len)) {
        a->metrics.would_queue++;
    }
    if (adm.entered) {
        a->metrics.requests++;
        a->waits[0]++;
        hold(shm, account, &adm.ticket);
    }
    vl_shm_unlock(shm);
    *ret_admission = adm;
    return APR_SUCCESS;
}

void vl_slot_refused(vl_shm_t *shm, apr_uint32_t account,
                     vl_admission_t *ret_admission)
{
    account_t *a = &shm->accounts[account];

    if (lock_self(shm) != APR_SUCCESS)
        return;
    count_refused(&a->metrics, ret_admission->decision.reason);
    ret_admission->entered = 0;
    ret_admission->backlogged = 1;
    ret_admission->concurrency = a->limits.concurrency;
    ret_admission->service_us = a->service_us;
    vl_shm_unlock(shm);
}

void vl_slot_begin(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t wait_us,
                   vl_admission_t *adm)
{
    account_t *a = &shm->accounts[account];

    if (lock_self(shm) != APR_SUCCESS)
        return;
    if (account != adm->ticket.account) {
        cancel(shm, &adm->ticket);
        hold(shm, account, &adm->ticket);
    }
    adm->backlogged = shm->queue.flows[account].waiting > 0;
    a->metrics.requests++;
    a->metrics.queued += wait_us > 0;
    a->metrics.wait_us += wait_us;
    a->waits[vl_metrics_wait_bucket(wait_us)]++;
    vl_shm_unlock(shm);
}

/* The clock of the work done elsewhere runs as fast as one such request would
 * get on if all of them burned CPU and shared the processors equally: that is
 * what each is charged, since nobody tells what it really burns. */
static void advance_elsewhere(head_t *head, apr_int64_t now_us)
{
    apr_uint32_t n = head->elsewhere;
    apr_int64_t passed = now_us - head->elsewhere_at;

    /* Whoever read the time before another got the lock comes late; a clock
     * that was set back by more than that is followed. */
    if (passed < 0 && passed > -APR_USEC_PER_SEC)
        return;
    if (n && passed > 0)
        head->elsewhere_ns += (apr_uint64_t)passed * 1000
                              * (n < head->processors ? n : head->processors)
                              / n;
    head->elsewhere_at = now_us;
}

apr_uint64_t vl_slot_elsewhere(vl_shm_t *shm, apr_int64_t now_us)
{
    apr_uint64_t clock;

    if (lock_self(shm) != APR_SUCCESS)
        return 0;
    advance_elsewhere(shm->head, now_us);
    clock = shm->head->elsewhere_ns;
    shm->head->elsewhere++;
    shm->children[shm->self].elsewhere++;
    vl_shm_unlock(shm);
    return clock;
}

static apr_uint64_t elsewhere_us_locked(vl_shm_t *shm, const vl_cost_t *cost,
                                        apr_int64_t now_us)
{
    if (!cost->elsewhere)
        return 0;
    advance_elsewhere(shm->head, now_us);
    shm->head->elsewhere--;
    shm->children[shm->self].elsewhere--;
    return (shm->head->elsewhere_ns - cost->elsewhere_from) / 1000;
}

static void count_cost(account_t *a, const vl_cost_t *cost,
                       apr_uint64_t charged_us, apr_int64_t now_us)
{
    a->metrics.busy_us += cost->busy_us;
    a->metrics.cpu_us += cost->cpu_us;
    a->metrics.charged_us += charged_us;
    vl_rate_add(&a->rate, now_us, cost->busy_us, charged_us);
    a->service_us += (cost->busy_us >> SERVICE_SHIFT)
                     - (a->service_us >> SERVICE_SHIFT);
}

void vl_slot_end(vl_shm_t *shm, const vl_ticket_t *ticket,
                 const vl_cost_t *cost)
{
    account_t *a = &shm->accounts[ticket->account];
    apr_int64_t now_us = apr_time_now();
    apr_uint64_t charged_us;

    if (lock_self(shm) != APR_SUCCESS)
        return;
    if (!cost) {
        cancel(shm, ticket);
    }
    else {
        charged_us = cost->cpu_us + elsewhere_us_locked(shm, cost, now_us);
        release(shm, ticket, charged_us);
        count_cost(a, cost, charged_us, now_us);
    }
    dispatch_and_unlock(shm);
}

static apr_uint32_t auto_min(void)
{
    return vl_cpu_count() * VL_AUTO_MIN_PER_CPU;
}

void vl_slot_set(vl_shm_t *shm, apr_uint32_t slots)
{
    if (vl_shm_lock(shm) != APR_SUCCESS)
        return;
    /* A restart does not forget what has been found. */
    if (slots || !shm->head->auto_on)
        shm->head->queue.slots = slots ? slots : auto_min();
    shm->head->auto_on = !slots;
    dispatch_and_unlock(shm);
}

apr_uint32_t vl_slot_count(const vl_shm_t *shm)
{
    return __atomic_load_n(&shm->head->queue.slots, __ATOMIC_RELAXED);
}

/* What the children that are there can work on. */
static apr_uint32_t rooms_locked(const vl_shm_t *shm)
{
    apr_uint32_t c, rooms = 0;

    for (c = 0; c < shm->head->columns; c++) {
        if (shm->children[c].pid)
            rooms += most_of(&shm->children[c]);
    }
    return rooms;
}

static void adjust_locked(vl_shm_t *shm, const vl_cpu_t *cpu)
{
    head_t *head = shm->head;
    vl_auto_sample_t sample;

    sample.slots = head->queue.slots;
    sample.min = auto_min();
    sample.max = rooms_locked(shm);
    sample.running = head->queue.running;
    sample.waiting = head->queue.waiting;
    sample.busy_permille = vl_cpu_busy_permille(&head->auto_cpu, cpu);
    head->queue.slots = vl_auto_step(&head->auto_state, &sample);
    head->auto_cpu = *cpu;
}

void vl_slot_adjust(vl_shm_t *shm, apr_int64_t now_us)
{
    vl_cpu_t cpu;
    int mine;

    if (!shm->head->auto_on || lock_self(shm) != APR_SUCCESS)
        return;
    mine = now_us - shm->head->auto_at >= VL_AUTO_STEP_US;
    if (mine)
        shm->head->auto_at = now_us;
    vl_shm_unlock(shm);
    if (!mine || vl_cpu_read(&cpu) != APR_SUCCESS
        || vl_shm_lock(shm) != APR_SUCCESS)
        return;
    adjust_locked(shm, &cpu);
    dispatch_and_unlock(shm);
}
