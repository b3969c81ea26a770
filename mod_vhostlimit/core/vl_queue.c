/* SPDX-License-Identifier: Apache-2.0 */
/* A flow whose load for its weight is below this part (3/4) of the heaviest flow's may exceed
 * the slots. With equal loads allowed, the sum would never fall again. */
#define LIGHT_PARTS 3
#define LIGHT_OF 4
/* Flows that are asked at most whether they can be served while no slot is free. While slots are
 * free and threads are not, all are asked: the last one may be the only one whose requests have
 * their threads already, and these would be free only after them. */
#define SET_ASIDE_MOST 8
/* ... until the sum of all others is this many times the slots, or as many times as there are
 * active flows. */
#define EXCESS_MOST 4
/* A flow that is owed CPU time may have this many times the slots. */
#define OWED_MOST 4

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

#include <stddef.h>

#include "base/vl_clock.h"
#include "core/vl_admit.h"

/* Returns how far virtual time a is after b. Virtual times wrap around. */
static apr_int64_t vt_after(apr_uint64_t a, apr_uint64_t b)
{
    return (apr_int64_t)(a - b);
}

static int before(const vl_queue_t *q, apr_uint32_t a, apr_uint32_t b)
{
    apr_int64_t after = vt_after(q->flows[a].vt, q->flows[b].vt);

    return after ? after < 0 : a < b;
}

static void heap_put(vl_queue_t *q, apr_uint32_t i, apr_uint32_t flow)
{
    q->heap[i] = flow;
    q->flows[flow].heap_pos = i + 1;
}

static void sift_up(vl_queue_t *q, apr_uint32_t i)
{
    apr_uint32_t flow = q->heap[i];

    while (i && before(q, flow, q->heap[(i - 1) / 2])) {
        heap_put(q, i, q->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    heap_put(q, i, flow);
}

static void sift_down(vl_queue_t *q, apr_uint32_t i)
{
    apr_uint32_t flow = q->heap[i], n = q->head->heap_len, child;

    while ((child = 2 * i + 1) < n) {
        if (child + 1 < n && before(q, q->heap[child + 1], q->heap[child]))
            child++;
        if (!before(q, q->heap[child], flow))
            break;
        heap_put(q, i, q->heap[child]);
        i = child;
    }
    heap_put(q, i, flow);
}

static void heap_add(vl_queue_t *q, apr_uint32_t flow)
{
    apr_uint32_t i = q->head->heap_len++;

    heap_put(q, i, flow);
    sift_up(q, i);
}

static void heap_remove(vl_queue_t *q, apr_uint32_t flow)
{
    apr_uint32_t i = q->flows[flow].heap_pos - 1;
    apr_uint32_t last = q->heap[--q->head->heap_len];

    q->flows[flow].heap_pos = 0;
    if (last != flow) {
        heap_put(q, i, last);
        sift_up(q, i);
        sift_down(q, q->flows[last].heap_pos - 1);
    }
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

static apr_uint32_t weight_milli(const vl_flow_t *f)
{
    return f->part.weight_milli ? f->part.weight_milli : f->limits.weight * 1000;
}

static void count_active(vl_queue_t *q, vl_flow_t *f)
{
    apr_uint32_t now = f->running || f->waiting ? weight_milli(f) : 0;

    q->head->active += (now != 0) - (f->active_milli != 0);
    q->head->active_milli += (apr_uint64_t)now - f->active_milli;
    f->active_milli = now;
}

static apr_uint32_t duty_of(const vl_queue_t *q, const vl_flow_t *f)
{
    apr_uint32_t duty = f->duty ? f->duty : q->head->duty;

    return duty && q->head->by_duty ? duty : 1000;
}

apr_uint32_t vl_queue_duty(const vl_queue_t *q, apr_uint32_t flow)
{
    return duty_of(q, &q->flows[flow]);
}

/* Returns 1 if the load of flow a for its weight is below parts/of of that of flow b. */
static int is_lighter(const vl_flow_t *a, const vl_flow_t *b, apr_uint32_t parts,
                      apr_uint32_t of)
{
    return (apr_uint64_t)a->load * weight_milli(b) * of
           < (apr_uint64_t)b->load * weight_milli(a) * parts;
}

static void count_load(vl_queue_t *q, apr_uint32_t flow)
{
    vl_queue_head_t *head = q->head;
    vl_flow_t *f = &q->flows[flow];
    apr_uint32_t asleep = head->by_duty ? f->asleep : 0;
    apr_uint32_t awake = f->running > asleep ? f->running - asleep : 0;
    apr_uint32_t load = awake * duty_of(q, f);

    head->load += (apr_uint64_t)load - f->load;
    f->load = load;
    if (load && (!head->heaviest
                 || is_lighter(&q->flows[head->heaviest - 1], f, 1, 1)))
        head->heaviest = flow + 1;
}

/* Restores the sums and the heap after any change of a flow. */
static void update(vl_queue_t *q, apr_uint32_t flow)
{
    vl_flow_t *f = &q->flows[flow];
    int ready = is_ready(q, flow);

    count_active(q, f);
    count_load(q, flow);
    if (ready && !f->heap_pos)
        heap_add(q, flow);
    else if (!ready && f->heap_pos)
        heap_remove(q, flow);
    else if (ready) {
        sift_up(q, f->heap_pos - 1);
        sift_down(q, f->heap_pos - 1);
    }
}

static apr_uint64_t virtual_of(const vl_flow_t *f, apr_uint64_t us)
{
    return us * 1000 * VL_VT_UNIT / weight_milli(f);
}

static void charge(vl_flow_t *f, apr_uint64_t us)
{
    f->vt += virtual_of(f, us);
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
    apr_uint64_t too_much = virtual_of(f, us);
    apr_uint64_t least = q->head->vt - virtual_of(f, VL_REFUND_US);
    apr_int64_t most = vt_after(f->vt, least);

    f->served_us -= (apr_int64_t)us;
    if (most > 0)
        f->vt -= too_much < (apr_uint64_t)most ? too_much : (apr_uint64_t)most;
    if (!cap_of(f))
        return;
    f->credit_us += (apr_int64_t)us;
    if (f->credit_us > most_credit(f))
        f->credit_us = most_credit(f);
}

/* A flow without waiting requests does not fall behind the current virtual time. */
static void catch_up(const vl_queue_t *q, vl_flow_t *f)
{
    if (!f->waiting && vt_after(f->vt, q->head->vt) < 0)
        f->vt = q->head->vt;
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

static int is_light(const vl_queue_t *q, const vl_flow_t *f)
{
    return q->head->heaviest
           && is_lighter(f, &q->flows[q->head->heaviest - 1], LIGHT_PARTS, LIGHT_OF);
}

int vl_queue_is_light(const vl_queue_t *q, apr_uint32_t flow)
{
    vl_flow_t then = q->flows[flow];

    then.load += duty_of(q, &then);
    return duty_of(q, &then) <= VL_DUTY_SLEEPS_LONG && is_light(q, &then);
}

static int sleeps(const vl_queue_t *q, apr_uint32_t flow)
{
    return q->head->by_duty && duty_of(q, &q->flows[flow]) <= VL_DUTY_SLEEPS;
}

/* Returns 1 if the flow has had less CPU time for its weight than others. What its own running
 * requests will cost counts as used. The heaviest flow's requests are charged while they run. */
static int is_owed(const vl_queue_t *q, apr_uint32_t flow)
{
    const vl_queue_head_t *head = q->head;
    const vl_flow_t *f = &q->flows[flow];
    apr_uint64_t vt = head->vt;

    if (head->heaviest && head->heaviest != flow + 1
        && vt_after(q->flows[head->heaviest - 1].vt, vt) > 0)
        vt = q->flows[head->heaviest - 1].vt;
    return head->by_duty && f->load < (apr_uint64_t)head->slots * 1000 * OWED_MOST
           && vt_after(vt, f->vt) > (apr_int64_t)virtual_of(f, VL_OWED_US + f->estimate_us);
}

int vl_queue_has_own(const vl_queue_t *q, apr_uint32_t flow, int is_first)
{
    const vl_queue_head_t *head = q->head;
    const vl_flow_t *f = &q->flows[flow];
    apr_uint64_t slots = (apr_uint64_t)head->slots * 1000, load = f->load + duty_of(q, f);

    if (is_first && is_owed(q, flow))
        return 1;
    if (is_first && sleeps(q, flow))
        return load * 5 <= slots * 4;
    return head->heaviest && head->heaviest != flow + 1 && sleeps(q, head->heaviest - 1)
           && load * head->active_milli <= slots * f->active_milli;
}

int vl_queue_may_exceed(const vl_queue_t *q, apr_uint32_t flow)
{
    const vl_queue_head_t *head = q->head;
    const vl_flow_t *heaviest = &q->flows[head->heaviest ? head->heaviest - 1 : flow];
    apr_uint32_t times = head->active < EXCESS_MOST ? head->active : EXCESS_MOST;

    return head->by_duty && is_light(q, &q->flows[flow])
           && head->load - heaviest->load < (apr_uint64_t)head->slots * 1000 * times
           && (vl_clock_us() - heaviest->ended_us) * heaviest->running > VL_KEPT_US;
}

int vl_queue_has_slot(const vl_queue_t *q, apr_uint32_t flow)
{
    return vl_queue_free(q) || vl_queue_may_exceed(q, flow);
}

static apr_uint32_t first_of(const vl_queue_t *q)
{
    return q->head->heap_len ? q->heap[0] : VL_NO_FLOW;
}

apr_uint32_t vl_queue_next(const vl_queue_t *q)
{
    if (!q->head->heap_len || !vl_queue_has_slot(q, q->heap[0]))
        return VL_NO_FLOW;
    return q->heap[0];
}

apr_uint32_t vl_queue_next_where(vl_queue_t *q, vl_queue_filter_fn can_serve,
                                 void *data)
{
    apr_uint32_t flow, set_aside = 0;

    /* A flow that cannot be served is removed from the heap and stored in the cell that its
     * removal frees behind the heap. All of them are added again afterwards. Nearly always
     * there is none. */
    for (flow = first_of(q); flow != VL_NO_FLOW && !can_serve(data, flow); flow = first_of(q)) {
        if (set_aside == SET_ASIDE_MOST && !vl_queue_free(q)) {
            flow = VL_NO_FLOW;
            break;
        }
        heap_remove(q, flow);
        q->heap[q->head->heap_len] = flow;
        set_aside++;
    }
    for (; set_aside; set_aside--)
        heap_add(q, q->heap[q->head->heap_len]);
    return flow;
}

int vl_queue_may_begin_now(const vl_queue_t *q, apr_uint32_t flow)
{
    return vl_queue_has_slot(q, flow) && !q->head->heap_len
           && !q->flows[flow].waiting && vl_queue_is_within_bounds(q, flow);
}

int vl_queue_may_take(const vl_queue_t *q, apr_uint32_t flow, apr_uint32_t held,
                      apr_uint32_t left)
{
    const vl_flow_t *f = &q->flows[flow];
    apr_uint32_t weight = weight_milli(f), more = f->active_milli ? 0 : 1;

    return vl_admit_more_weighted(held, left, weight, q->head->active + more,
                                  q->head->active_milli + more * weight);
}

static apr_uint32_t begin(vl_queue_t *q, apr_uint32_t flow)
{
    vl_flow_t *f = &q->flows[flow];
    apr_uint32_t charged = f->estimate_us;

    if (vt_after(f->vt, q->head->vt) > 0)
        q->head->vt = f->vt;
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

const char *vl_queue_validate(const vl_queue_t *q, apr_uint32_t flows)
{
    apr_uint32_t f, i, running = 0, waiting = 0, ready = 0, active = 0;
    apr_uint64_t weights = 0, load = 0;

    for (f = 0; f < flows; f++) {
        const vl_flow_t *x = &q->flows[f];
        int in = is_ready(q, f);

        running += x->running;
        load += x->load;
        waiting += x->waiting;
        ready += in;
        active += x->running || x->waiting;
        weights += x->running || x->waiting ? weight_milli(x) : 0;
        if (in != (x->heap_pos != 0))
            return "a flow is in the heap iff it waits and may run";
        if (in && (x->heap_pos > q->head->heap_len
                   || q->heap[x->heap_pos - 1] != f))
            return "a flow's heap_pos is 1 + its index in the heap";
    }
    if (running != q->head->running || waiting != q->head->waiting)
        return "running and waiting are the sums over the flows";
    if (load != q->head->load)
        return "load is the sum over the flows";
    if (active != q->head->active || weights != q->head->active_milli)
        return "active and active_milli are the number and the weights of active flows";
    if (ready != q->head->heap_len)
        return "nothing else is in the heap";
    for (i = 1; i < ready; i++) {
        if (before(q, q->heap[i], q->heap[(i - 1) / 2]))
            return "no flow is before its parent in the heap";
    }
    return NULL;
}
