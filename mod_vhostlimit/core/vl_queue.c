/* SPDX-License-Identifier: Apache-2.0 */
/* Flows that are asked at most whether they can be served while no slot is free. While slots are
 * free and threads are not, all are asked: the last one may be the only one whose requests have
 * their threads already, and these would be free only after them. */
#define SET_ASIDE_MOST 8

/* A flow is in the heap if and only if it has a waiting request, runs less than its
 * concurrency and has credit under its cap. The heap is ordered by virtual time, then by
 * number. head.running and head.waiting are the sums over the flows. A flow with a waiting or
 * running request is active; head.active and head.active_milli are their number and weights.
 *
 * Example: two slots, weights a=2 b=1, every request costs 6, all waiting.
 *   start tags   a: 0 3 6 9 12 …   b: 0 6 12 …
 *   begin        a b a a b a a b …      (ties go to the lower number)
 *
 * Idle time earns no service: a flow that had no waiting request joins at the current
 * virtual time if its own is earlier. */
#include "core/vl_queue.h"

#include "base/vl_clock.h"

static apr_uint32_t number_of(const vl_queue_t *q, const vl_fair_t *member)
{
    return (apr_uint32_t)((const vl_flow_t *)member - q->flows);
}

/* Returns the smaller of two limits; 0 is no limit. */
static apr_uint32_t smaller(apr_uint32_t a, apr_uint32_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* Returns the cap in permille of one processor; 0: no cap. */
static apr_uint32_t cap_of(const vl_flow_t *f)
{
    return smaller(f->limits.cpu * 10, f->part.cpu_permille);
}

int vl_queue_is_within_bounds(const vl_queue_t *q, apr_uint32_t flow)
{
    const vl_flow_t *f = &q->flows[flow];
    apr_uint32_t concurrency = smaller(f->limits.concurrency, f->part.concurrency);

    return (!concurrency || f->running < concurrency + f->idle)
           && (!cap_of(f) || f->credit_us > 0);
}

static int is_ready(const vl_queue_t *q, apr_uint32_t flow)
{
    return q->flows[flow].waiting && vl_queue_is_within_bounds(q, flow);
}

static apr_uint32_t weight_of(const vl_flow_t *f)
{
    return f->part.weight_milli ? f->part.weight_milli : f->limits.weight * 1000;
}

static void count_active(vl_queue_t *q, vl_flow_t *f)
{
    apr_uint32_t now = f->running || f->waiting ? weight_of(f) : 0;

    q->head->active += (now != 0) - (f->active_milli != 0);
    q->head->active_milli += (apr_uint64_t)now - f->active_milli;
    f->active_milli = now;
}

apr_uint32_t vl_queue_duty(const vl_queue_t *q, apr_uint32_t flow)
{
    const vl_flow_t *f = &q->flows[flow];
    apr_uint32_t duty = f->duty ? f->duty : q->head->duty;

    return duty && q->head->by_duty ? duty : 1000;
}

static void count_load(vl_queue_t *q, apr_uint32_t flow)
{
    vl_queue_head_t *head = q->head;
    vl_flow_t *f = &q->flows[flow];
    const vl_flow_t *heaviest = head->heaviest ? &q->flows[head->heaviest - 1] : f;
    apr_uint32_t asleep = head->by_duty ? f->asleep : 0;
    apr_uint32_t awake = f->running > asleep ? f->running - asleep : 0;
    apr_uint32_t load = awake * vl_queue_duty(q, flow);

    head->load += (apr_uint64_t)load - f->load;
    f->load = load;
    if (load && (!head->heaviest
                 || (apr_uint64_t)heaviest->load * weight_of(f)
                    < (apr_uint64_t)load * weight_of(heaviest)))
        head->heaviest = flow + 1;
}

/* Returns the running flow whose tag is latest, as far as known, or NULL. */
static const vl_flow_t *ahead_of(const vl_queue_t *q)
{
    const vl_flow_t *ahead = q->head->ahead ? &q->flows[q->head->ahead - 1] : NULL;

    return ahead && ahead->running ? ahead : NULL;
}

/* Restores the sums and the heap after any change of a flow. */
static void update(vl_queue_t *q, apr_uint32_t flow)
{
    vl_flow_t *f = &q->flows[flow];
    const vl_flow_t *ahead = ahead_of(q);
    int ready = is_ready(q, flow);

    count_active(q, f);
    if (f->running && (!ahead || VL_FAIR_AFTER(f->fair.tag, ahead->fair.tag) > 0))
        q->head->ahead = flow + 1;
    count_load(q, flow);
    /* Its load may have fallen below that of a flow whose requests are long. */
    if (q->head->heaviest == flow + 1 && ahead && ahead != f)
        count_load(q, (apr_uint32_t)(ahead - q->flows));
    f->fair.order = flow;
    if (ready)
        vl_fair_add(&q->head->heap, &f->fair);
    else
        vl_fair_remove(&q->head->heap, &f->fair);
}

/* Returns by how much us of CPU time advance the flow's tag. */
static apr_int64_t advance(const vl_flow_t *f, apr_uint64_t us)
{
    return VL_FAIR_ADVANCE((apr_int64_t)us * 1000, weight_of(f));
}

static void charge(vl_flow_t *f, apr_uint64_t us)
{
    f->fair.tag += (apr_uint64_t)advance(f, us);
    f->served_us += (apr_int64_t)us;
    if (cap_of(f))
        f->credit_us -= (apr_int64_t)us;
}

static apr_int64_t most_credit(const vl_flow_t *f)
{
    return (apr_int64_t)VL_CREDIT_US * cap_of(f) / 1000;
}

static void refund(const vl_queue_t *q, vl_flow_t *f, apr_uint64_t us)
{
    f->served_us -= (apr_int64_t)us;
    vl_fair_move(&f->fair.tag, -advance(f, us),
                 q->head->vtime - (apr_uint64_t)advance(f, VL_REFUND_US));
    if (!cap_of(f))
        return;
    f->credit_us += (apr_int64_t)us;
    if (f->credit_us > most_credit(f))
        f->credit_us = most_credit(f);
}

/* A flow without waiting requests does not fall behind the current virtual time. */
static void catch_up(const vl_queue_t *q, vl_flow_t *f)
{
    if (!f->waiting)
        vl_fair_raise(&f->fair.tag, q->head->vtime);
}

void vl_queue_limit(vl_queue_t *q, apr_uint32_t flow, const vl_limits_t *limits)
{
    vl_flow_t *f = &q->flows[flow];
    apr_uint32_t cap = cap_of(f);

    f->limits = *limits;
    if (cap_of(f) != cap)
        f->credit_us = most_credit(f);
    if (!f->estimate_us)
        f->estimate_us = 1;
    update(q, flow);
}

void vl_queue_lease(vl_queue_t *q, apr_uint32_t flow, const vl_part_t *part)
{
    vl_flow_t *f = &q->flows[flow];
    int had_cap = cap_of(f) != 0;

    f->part = *part;
    if (!had_cap || f->credit_us > most_credit(f))
        f->credit_us = most_credit(f);
    update(q, flow);
}

vl_limits_t vl_queue_limits(const vl_queue_t *q, apr_uint32_t flow)
{
    const vl_flow_t *f = &q->flows[flow];
    vl_limits_t limits = f->limits;

    limits.concurrency = smaller(limits.concurrency, f->part.concurrency);
    return limits;
}

int vl_queue_is_capped(const vl_queue_t *q, apr_uint32_t flow)
{
    return cap_of(&q->flows[flow]) != 0;
}

apr_uint64_t vl_queue_backlog(const vl_queue_t *q, apr_uint32_t flow, apr_int64_t now_us)
{
    const vl_flow_t *f = &q->flows[flow];

    return f->waiting && now_us > f->waiting_since_us
           ? f->backlog_us + (apr_uint64_t)(now_us - f->waiting_since_us) : f->backlog_us;
}

void vl_queue_credit(vl_queue_t *q, apr_uint32_t flow, apr_uint64_t passed_us)
{
    vl_flow_t *f = &q->flows[flow];

    f->credit_us += (apr_int64_t)(passed_us * cap_of(f) / 1000);
    if (f->credit_us > most_credit(f))
        f->credit_us = most_credit(f);
    update(q, flow);
}

void vl_queue_charge(vl_queue_t *q, apr_uint32_t flow, apr_int64_t us)
{
    vl_flow_t *f = &q->flows[flow];

    if (us >= 0)
        charge(f, (apr_uint64_t)us);
    else
        refund(q, f, (apr_uint64_t)-us);
    /* What a long request has used while none waited is no credit of later ones. */
    if (!q->head->heap.length)
        vl_fair_raise(&q->head->vtime, f->fair.tag);
    update(q, flow);
}

/* Counts waiting requests, and the time in which there are any. The counts are atomic, because
 * they may be read without the lock. */
static void count_waiting(vl_queue_t *q, vl_flow_t *f, int more)
{
    vl_queue_head_t *head = q->head;

    if (!f->waiting)
        f->waiting_since_us = vl_clock_us();
    __atomic_store_n(&f->waiting, f->waiting + (apr_uint32_t)more, __ATOMIC_RELAXED);
    __atomic_store_n(&head->waiting, head->waiting + (apr_uint32_t)more, __ATOMIC_RELAXED);
    if (!f->waiting)
        f->backlog_us += (apr_uint64_t)(vl_clock_us() - f->waiting_since_us);
}

void vl_queue_arrive(vl_queue_t *q, apr_uint32_t flow)
{
    catch_up(q, &q->flows[flow]);
    count_waiting(q, &q->flows[flow], 1);
    update(q, flow);
}

void vl_queue_abandon(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t n)
{
    count_waiting(q, &q->flows[flow], -(int)n);
    update(q, flow);
}

void vl_queue_set_duty(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t duty,
                       apr_uint32_t asleep, apr_uint32_t idle)
{
    vl_flow_t *f = &q->flows[flow];

    f->duty = duty;
    f->asleep = asleep;
    f->idle = idle;
    update(q, flow);
}

apr_uint32_t vl_queue_free(const vl_queue_t *q)
{
    apr_uint64_t all = (apr_uint64_t)q->head->slots * 1000;

    if (all <= q->head->load)
        return 0;
    all -= q->head->load;
    return all > APR_UINT32_MAX ? APR_UINT32_MAX : (apr_uint32_t)all;
}

vl_standing_t vl_queue_standing(const vl_queue_t *q, apr_uint32_t flow)
{
    const vl_queue_head_t *head = q->head;
    vl_standing_t s = { .duty = vl_queue_duty(q, flow), .weight = weight_of(&q->flows[flow]),
                        .left = vl_queue_free(q) };
    const vl_flow_t *ahead = ahead_of(q);

    s.behind = ahead ? VL_FAIR_AFTER(ahead->fair.tag, q->flows[flow].fair.tag) : 0;
    if (head->heaviest) {
        s.heaviest = &q->flows[head->heaviest - 1];
        s.heaviest_duty = vl_queue_duty(q, head->heaviest - 1);
        s.heaviest_weight = weight_of(s.heaviest);
    }
    return s;
}

static apr_uint32_t first_of(const vl_queue_t *q)
{
    return q->head->heap.length ? number_of(q, q->head->heap.at[0]) : VL_NO_FLOW;
}

apr_uint32_t vl_queue_next_where(vl_queue_t *q, vl_queue_filter_fn can_serve,
                                 void *data)
{
    vl_fair_heap_t *heap = &q->head->heap;
    apr_uint32_t flow, set_aside = 0;

    /* A flow that cannot be served is removed from the heap and stored in the cell that its
     * removal frees behind the heap. All of them are added again afterwards. Nearly always
     * there is none. */
    for (flow = first_of(q); flow != VL_NO_FLOW && !can_serve(data, flow); flow = first_of(q)) {
        if (set_aside == SET_ASIDE_MOST && !vl_queue_free(q)) {
            flow = VL_NO_FLOW;
            break;
        }
        vl_fair_remove(heap, &q->flows[flow].fair);
        heap->at[heap->length] = &q->flows[flow].fair;
        set_aside++;
    }
    for (; set_aside; set_aside--)
        vl_fair_add(heap, heap->at[heap->length]);
    return flow;
}

static apr_uint32_t begin(vl_queue_t *q, apr_uint32_t flow)
{
    vl_flow_t *f = &q->flows[flow];
    apr_uint32_t charged = f->estimate_us;

    vl_fair_raise(&q->head->vtime, f->fair.tag);
    charge(f, charged);
    if (!f->running++)
        f->ended_us = vl_clock_us();
    q->head->running++;
    update(q, flow);
    return charged;
}

apr_uint32_t vl_queue_begin(vl_queue_t *q, apr_uint32_t flow)
{
    count_waiting(q, &q->flows[flow], -1);
    return begin(q, flow);
}

apr_uint32_t vl_queue_begin_now(vl_queue_t *q, apr_uint32_t flow)
{
    catch_up(q, &q->flows[flow]);
    return begin(q, flow);
}

void vl_queue_cancel(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t charged)
{
    refund(q, &q->flows[flow], charged);
    vl_queue_forget(q, flow, 1);
}

void vl_queue_end(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t charged,
                  apr_uint64_t cost)
{
    vl_flow_t *f = &q->flows[flow];
    apr_uint32_t average;

    if (cost >= charged)
        charge(f, cost - charged);
    else
        refund(q, f, charged - cost);
    average = vl_average(f->estimate_us, cost);
    __atomic_store_n(&f->estimate_us, average ? average : 1, __ATOMIC_RELAXED);
    vl_queue_forget(q, flow, 1);
}

void vl_queue_forget(vl_queue_t *q, apr_uint32_t flow, apr_uint32_t n)
{
    q->flows[flow].ended_us = vl_clock_us();
    q->flows[flow].running -= n;
    q->head->running -= n;
    update(q, flow);
}
