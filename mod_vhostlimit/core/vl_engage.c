/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_engage.h"

#include <stdlib.h>
#include <string.h>

#include "base/vl_clock.h"
#include "core/vl_slot.h"
#include "core/vl_charge.h"
#include "core/vl_segment.h"

/* Names the form in which the tests of this project run. */
#define FORM_VARIABLE "VHOSTLIMIT_TEST_STATE"
/* Requests are short if their average costs at most this. */
#define EVEN_COST_US 1000
/* Prefork: processes are short if more than so many times the free ones are busy. */
#define PROCESSES_PART 4

static vl_engage_t *state_of(const vl_shm_t *shm)
{
    return &shm->head->engage;
}

int vl_engage_is_dormant(const vl_shm_t *shm)
{
    return !__atomic_load_n(&state_of(shm)->engaged, __ATOMIC_ACQUIRE);
}

vl_engage_t vl_engage_state(const vl_shm_t *shm)
{
    return *state_of(shm);
}

/* --- listed requests get slots ---------------------------------------------- */

/* Prefork: returns 1 if the free processes are too few for the busy ones. One is, or becomes, the
 * acceptor. Those that the MPM can start count while at least one other is free. held: connections
 * that will take one each. part: how many times the free ones may be busy. */
static int processes_are_short(const vl_shm_t *shm, apr_uint32_t held, apr_uint32_t part)
{
    apr_uint32_t busy = held + __atomic_load_n(&state_of(shm)->busy, __ATOMIC_RELAXED);
    apr_uint32_t all = __atomic_load_n(&shm->head->attached, __ATOMIC_RELAXED);

    if (all > busy + 1 && shm->head->processes > all)
        all = shm->head->processes;
    return busy > part * (all > busy ? all - 1 - busy : 0);
}

static apr_uint32_t most_of(const vl_fair_account_t *fair)
{
    apr_uint32_t most = fair->limits.concurrency, part = fair->part.concurrency;

    return part && (!most || part < most) ? part : most;
}

static void uncount(vl_shm_t *shm, child_t *child, apr_uint32_t account, apr_uint32_t duty,
                    int stream)
{
    vl_engage_t *state = state_of(shm);

    if (__atomic_load_n(&state->at_limit, __ATOMIC_RELAXED) && most_of(&shm->queue.accounts[account]))
        __atomic_store_n(&state->at_limit, 0, __ATOMIC_RELAXED);
    if (!stream)
        __atomic_sub_fetch(&child->listed, 1, __ATOMIC_RELAXED);
    if (!__atomic_sub_fetch(&shm->accounts[account].listed, 1, __ATOMIC_RELAXED))
        __atomic_sub_fetch(&state->sites, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&state->load, duty, __ATOMIC_RELAXED);
}

/* The request may end at any time, so the slot is taken first. */
static void adopt_task_locked(vl_shm_t *shm, apr_uint32_t c, task_t *task)
{
    apr_uint32_t word = __atomic_load_n(&task->account, __ATOMIC_ACQUIRE);
    apr_uint32_t account = vl_duty_account(word), listed = word;
    int stream = (word & TASK_STREAM) != 0;

    if (!(word & TASK_LISTED))
        return;
    task->charged = vl_fair_begin_now(&shm->queue, account);
    vl_slot_hold_locked(shm, c, account, stream, 1);
    if (__atomic_compare_exchange_n(&task->account, &listed, (word & ~TASK_LISTED) | TASK_ADOPTED,
                                    0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        uncount(shm, &shm->children[c], account, task->load, stream);
        return;
    }
    vl_slot_hold_locked(shm, c, account, stream, -1);
    vl_fair_cancel(&shm->queue, account, task->charged);
}

static void adopt_child_locked(vl_shm_t *shm, apr_uint32_t c)
{
    apr_uint32_t i, n = __atomic_load_n(&shm->children[c].tasks, __ATOMIC_ACQUIRE);

    for (i = 0; shm->children[c].pid && i < n; i++)
        adopt_task_locked(shm, c, vl_duty_task(shm, c, i));
}

/* --- changes of the state --------------------------------------------------- */

static void change_locked(vl_shm_t *shm, int engaged, vl_engaged_e why)
{
    vl_engage_t *state = state_of(shm);

    state->why = why;
    state->changes++;
    state->since_us = vl_clock_us();
    state->busy_us = vl_clock_us();
    state->at_limit = 0;
    __atomic_store_n(&state->engaged, engaged, __ATOMIC_RELEASE);
}

/* Other children must notice at once: their MPM accepts in one state, their acceptor in the
 * other. */
static void tell(vl_shm_t *shm)
{
    vl_slot_wake_all(shm);
    vl_slot_wake_self(shm);
    vl_duty_wake_sampler(shm);
}

void vl_engage_now(vl_shm_t *shm, vl_engaged_e why)
{
    apr_uint32_t c;
    int is_first;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    is_first = vl_engage_is_dormant(shm);
    if (is_first) {
        change_locked(shm, 1, why);
        for (c = 0; c < shm->head->columns; c++)
            adopt_child_locked(shm, c);
    }
    if (why == VL_ENGAGED_ALWAYS)
        state_of(shm)->why = why;
    vl_segment_unlock(shm);
    if (is_first)
        tell(shm);
}

/* Returns 1 if a site with `own` of `all`, requests or what they want, has not much more than the
 * others, and its requests are known to be short. The queue would decide nothing that the kernel does
 * not. With a number of slots that was set no site is even. */
static int is_even(const vl_shm_t *shm, const vl_fair_account_t *fair, apr_uint64_t own, apr_uint64_t all,
                   apr_uint32_t sites)
{
    return shm->queue.head->by_duty && own * sites * 2 <= all * 3 && fair->estimate_us > 1
           && fair->estimate_us <= EVEN_COST_US;
}

/* Returns 1 if a site keeps the server engaged: it is at its own limit, or it has more than the
 * others where more than the slots is wanted (is_even()). all: the requests of all sites. */
static int site_engages_locked(const vl_shm_t *shm, apr_uint32_t all)
{
    apr_uint32_t i, most, active = shm->queue.head->active;

    for (i = 0; i < vl_segment_count(shm); i++) {
        apr_uint32_t account = vl_segment_account(shm, i);
        const vl_fair_account_t *fair = &shm->queue.accounts[account];

        if (!fair->running && !fair->waiting)
            continue;
        most = vl_fair_limits(&shm->queue, account).concurrency;
        if ((most && fair->running >= most) || vl_fair_is_capped(&shm->queue, account)
            || (all && !is_even(shm, fair, fair->running + fair->waiting, all, active)))
            return 1;
    }
    return 0;
}

/* Returns 1 if at most half of the threads are in use, and nothing is queued that would not also
 * run in a dormant server. */
static int is_calm_locked(const vl_shm_t *shm)
{
    const vl_queue_head_t *q = shm->queue.head;
    apr_uint64_t slots = (apr_uint64_t)q->slots * 1000;
    apr_uint64_t wanted = q->load + (apr_uint64_t)q->waiting * 1000;
    apr_uint32_t c;

    if (wanted > slots * 3 / 2)
        return 0;
    for (c = 0; c < shm->head->columns; c++) {
        if (shm->children[c].threads > 1 && vl_slot_busy_threads(shm, c) * 2 > shm->children[c].threads)
            return 0;
    }
    return !site_engages_locked(shm, q->waiting || wanted > slots / 2
                                     ? q->running + q->waiting : 0);
}

static int rests_now_locked(const vl_shm_t *shm, apr_int64_t now_us, apr_uint32_t held)
{
    vl_engage_t *state = state_of(shm);

    if (state->form == VL_FORM_TOGGLED)
        return state->why != VL_ENGAGED_ALWAYS && !shm->queue.head->waiting
               && !site_engages_locked(shm, 0) && !processes_are_short(shm, held, PROCESSES_PART);
    if (!is_calm_locked(shm) || processes_are_short(shm, held, 1))
        state->busy_us = now_us;
    return state->form == VL_FORM_USUAL && state->why != VL_ENGAGED_ALWAYS
           && now_us - state->busy_us >= VL_CALM_US;
}

void vl_engage_tick(vl_shm_t *shm, apr_int64_t now_us, apr_uint32_t held)
{
    int rests = 0;

    if (vl_engage_is_dormant(shm)) {
        if (state_of(shm)->form == VL_FORM_TOGGLED)
            vl_engage_now(shm, VL_ENGAGED_SLOTS);
        return;
    }
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    adopt_child_locked(shm, shm->self);
    if (!vl_engage_is_dormant(shm)
        && (shm->head->acceptor ? shm->head->acceptor == shm->self + 1 : shm->head->reader == shm->self))
        rests = rests_now_locked(shm, now_us, held);
    if (rests)
        change_locked(shm, 0, state_of(shm)->why);
    vl_slot_dispatch_and_unlock(shm);
    if (rests)
        tell(shm);
}

void vl_engage_post_config(vl_shm_t *shm, int may_rest)
{
    const char *form = getenv(FORM_VARIABLE);
    vl_engage_t *state = state_of(shm);

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    state->form = !form || !*form ? VL_FORM_USUAL : !strcmp(form, "toggled") ? VL_FORM_TOGGLED
                                                                    : VL_FORM_ENGAGED;
    if (!state->since_us)
        state->since_us = vl_clock_us();
    if (!may_rest || state->form == VL_FORM_ENGAGED) {
        state->why = VL_ENGAGED_ALWAYS;
        __atomic_store_n(&state->engaged, 1, __ATOMIC_RELEASE);
    }
    else if (state->engaged && state->why == VL_ENGAGED_ALWAYS) {
        state->why = VL_ENGAGED_SLOTS;
    }
    vl_segment_unlock(shm);
}

/* --- lines ------------------------------------------------------------------ */

/* Returns 1 if more than four fifths of this child's threads are busy. HTTP/2 connections occupy
 * theirs while their streams run. */
static inline int threads_are_short(const vl_shm_t *shm, const child_t *child)
{
    apr_uint32_t busy = __atomic_load_n(&child->listed, __ATOMIC_RELAXED)
                        + __atomic_load_n(&child->accepted, __ATOMIC_RELAXED)
                        + __atomic_load_n(&child->occupied, __ATOMIC_RELAXED);

    return child->threads > 1 ? busy * 5 > child->threads * 4 : processes_are_short(shm, 0, PROCESSES_PART);
}

/* Returns 1 if one more request would cross the line of slots. load: of the listed requests before
 * it. fair: its site, NULL if it is not known. n: the site's listed requests. Sites that are even
 * have twice the slots. A site may not use the last fifth (vl_slot_may_take()). */
static int slots_are_full(const vl_shm_t *shm, apr_int64_t load, apr_uint32_t duty,
                          const vl_fair_account_t *fair, apr_uint32_t n)
{
    apr_uint64_t slots = (apr_uint64_t)shm->queue.head->slots * 1000;
    apr_uint64_t all = (apr_uint64_t)load + shm->queue.head->load + duty;

    if (all <= slots && (all - duty < slots - slots / 5 || !fair || !(n || fair->running)))
        return 0;
    return all > (shm->queue.head->by_duty ? slots * 2 : slots)
           || (fair && !is_even(shm, fair, (apr_uint64_t)(n + 1) * duty, all,
                                __atomic_load_n(&state_of(shm)->sites, __ATOMIC_RELAXED)));
}

static __attribute__((cold)) int has_room_near(vl_shm_t *shm, apr_uint32_t account_1)
{
    const vl_fair_account_t *fair = account_1 ? &shm->queue.accounts[account_1 - 1] : NULL;
    apr_uint32_t most, n;

    if (!vl_engage_is_dormant(shm))
        return 0;
    most = fair ? most_of(fair) : 0;
    n = fair ? __atomic_load_n(&shm->accounts[account_1 - 1].listed, __ATOMIC_RELAXED) : 0;
    if (slots_are_full(shm, __atomic_load_n(&state_of(shm)->load, __ATOMIC_RELAXED),
                       fair ? vl_fair_duty(&shm->queue, account_1 - 1) : 1000, fair, n)) {
        vl_engage_now(shm, VL_ENGAGED_SLOTS);
        return 0;
    }
    if (fair ? !most || n + fair->running < most
             : !__atomic_load_n(&state_of(shm)->at_limit, __ATOMIC_RELAXED))
        return 1;
    vl_engage_now(shm, VL_ENGAGED_LIMIT);
    return 0;
}

int vl_engage_has_room(vl_shm_t *shm, apr_uint32_t account_1)
{
    const vl_engage_t *state = state_of(shm);

    /* Far below the line of slots, with no site at its own concurrency. */
    if (!__atomic_load_n(&state->engaged, __ATOMIC_ACQUIRE)
        && !__atomic_load_n(&state->at_limit, __ATOMIC_RELAXED)
        && ((apr_uint64_t)__atomic_load_n(&state->load, __ATOMIC_RELAXED)
            + shm->queue.head->load) * 2 < (apr_uint64_t)shm->queue.head->slots * 1000)
        return 1;
    return has_room_near(shm, account_1);
}

void vl_engage_accepted(vl_shm_t *shm, int by)
{
    child_t *child = &shm->children[shm->self];

    __atomic_add_fetch(&child->accepted, by, __ATOMIC_RELAXED);
    if (child->threads == 1)
        __atomic_add_fetch(&state_of(shm)->busy, by, __ATOMIC_RELAXED);
    if (by > 0 && threads_are_short(shm, child))
        vl_engage_now(shm, VL_ENGAGED_THREADS);
    if (by < 0 && child->threads > 1 && !vl_engage_is_dormant(shm)
        && vl_segment_lock_child(shm) == APR_SUCCESS)
        vl_slot_dispatch_and_unlock(shm);
}

/* Counts the request. Returns 1 if it would cross a line, with the line in *ret_why. */
static int crosses(vl_shm_t *shm, child_t *child, apr_uint32_t account, apr_uint32_t duty, int stream,
                   vl_engaged_e *ret_why)
{
    const vl_fair_account_t *fair = &shm->queue.accounts[account];
    vl_engage_t *state = state_of(shm);
    apr_uint32_t most = most_of(fair), n;
    apr_int64_t load;

    if (!stream)
        __atomic_add_fetch(&child->listed, 1, __ATOMIC_RELAXED);
    n = __atomic_add_fetch(&shm->accounts[account].listed, 1, __ATOMIC_RELAXED);
    if (n == 1)
        __atomic_add_fetch(&state->sites, 1, __ATOMIC_RELAXED);
    load = __atomic_fetch_add(&state->load, duty, __ATOMIC_RELAXED);
    *ret_why = VL_ENGAGED_LIMIT;
    if ((fair->limits.cpu || fair->part.cpu_permille) && vl_fair_is_capped(&shm->queue, account))
        return 1;
    if (most && n + fair->running >= most) {
        if (n + fair->running > most)
            return 1;
        __atomic_store_n(&state->at_limit, 1, __ATOMIC_RELAXED);
    }
    *ret_why = VL_ENGAGED_THREADS;
    if (!stream && threads_are_short(shm, child))
        return 1;
    *ret_why = VL_ENGAGED_SLOTS;
    return slots_are_full(shm, load, duty, fair, n - 1);
}

int vl_engage_list(vl_shm_t *shm, task_t *task, apr_uint32_t account, int client_fd, int stream)
{
    apr_uint32_t duty;
    vl_engaged_e why;
    child_t *child;
    account_t *a;

    if (!task || !vl_engage_is_dormant(shm))
        return 0;
    child = &shm->children[shm->self];
    duty = vl_fair_duty(&shm->queue, account);
    if (crosses(shm, child, account, duty, stream, &why)) {
        uncount(shm, child, account, duty, stream);
        vl_engage_now(shm, why);
        return 0;
    }
    a = &shm->accounts[account];
    __atomic_add_fetch(&a->metrics.requests, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&a->waits[0], 1, __ATOMIC_RELAXED);
    task->load = duty;
    vl_duty_fill(shm, shm->sampler, task, (account + 1) | TASK_LISTED | (stream ? TASK_STREAM : 0), client_fd, 0);
    return 1;
}

/* The process that gives the slot reads the entry until it releases the lock. */
static __attribute__((cold)) int take_slot(vl_shm_t *shm, const task_t *task, apr_uint32_t word,
                                           vl_ticket_t *ret_ticket)
{
    if (!(word & (TASK_ADOPTED | TASK_DISOWNED)) || vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    if (word & TASK_DISOWNED) {
        vl_slot_occupy_locked(shm, shm->self, vl_duty_account(word), -1);
        vl_slot_dispatch_and_unlock(shm);
        return 0;
    }
    vl_segment_unlock(shm);
    memset(ret_ticket, 0, sizeof(*ret_ticket));
    ret_ticket->account = vl_duty_account(word);
    ret_ticket->charged = task->charged;
    ret_ticket->stream = (word & TASK_STREAM) != 0;
    return 1;
}

int vl_engage_unlist(vl_shm_t *shm, task_t *task, vl_ticket_t *ret_ticket)
{
    apr_uint32_t word = __atomic_exchange_n(&task->account, 0, __ATOMIC_ACQ_REL);

    if (!(word & TASK_LISTED))
        return take_slot(shm, task, word, ret_ticket);
    uncount(shm, &shm->children[shm->self], vl_duty_account(word), task->load,
            (word & TASK_STREAM) != 0);
    return 0;
}

void vl_engage_disown(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t i, apr_uint32_t serial)
{
    task_t *task = vl_duty_task(shm, c, i);
    apr_uint32_t word = __atomic_load_n(&task->account, __ATOMIC_ACQUIRE);
    apr_uint32_t account = vl_duty_account(word);
    int stream = (word & TASK_STREAM) != 0;

    if (!(word & TASK_ADOPTED) || vl_segment_lock(shm) != APR_SUCCESS)
        return;
    if (__atomic_load_n(&task->serial, __ATOMIC_RELAXED) == serial
        && __atomic_compare_exchange_n(&task->account, &word, (word & ~TASK_ADOPTED)
                                       | (stream ? 0 : TASK_DISOWNED), 0,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        vl_slot_hold_locked(shm, c, account, stream, -1);
        vl_slot_occupy_locked(shm, c, account, !stream);
        vl_fair_cancel(&shm->queue, account, task->charged);
    }
    vl_slot_dispatch_and_unlock(shm);
}

/* The account's virtual time goes on as if its requests had held slots one after the other, so
 * that it has no other debt when the server becomes engaged. */
void vl_engage_charge(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t requests,
                      apr_uint64_t busy_us, apr_uint64_t cpu_us)
{
    vl_cost_t cost = { .cpu_us = cpu_us / requests, .busy_us = busy_us / requests };
    apr_uint64_t rest_us = cpu_us - cost.cpu_us;
    apr_uint32_t charged;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    charged = vl_fair_begin_now(&shm->queue, account);
    vl_fair_end(&shm->queue, account, charged,
                 vl_slot_charge_end_locked(shm, account, &cost));
    vl_slot_charge_locked(shm, account, rest_us);
    shm->accounts[account].metrics.cpu_us += rest_us;
    shm->accounts[account].metrics.busy_us += busy_us - cost.busy_us;
    vl_slot_dispatch_and_unlock(shm);
}
