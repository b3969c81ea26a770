/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_admit.h"

#include <string.h>

#include "base/vl_clock.h"
#include "core/vl_segment.h"

/* Connections with a lease may run this many times as many requests as there are slots of `auto`.
 * Below that none of their requests is queued, which costs more than the request of a static
 * page. docs/design/007-leases.md has the measurements. */
#define OVERRUN 2
/* While the MPM can start children, one account takes a thread of a child if this many are free. With
 * as many free as the MPM wants it would start a child now and then, and not twice as many each second. */
#define FREE_LEAST 2
/* The factor of the dynamic threshold. */
#define MORE_ALPHA 4
/* An account is light if its load for its weight is below this part (3/4) of the heaviest
 * account's. With equal loads allowed, the sum would never fall again. */
#define LIGHT_PARTS 3
#define LIGHT_OF 4
/* Requests of an account with a duty of at most this, permille, sleep for most of their time. */
#define SLEEPS_LONG 250
/* A light account may exceed the slots until the sum of all accounts but the heaviest is this
 * many times the slots, or as many times as there are active accounts. */
#define EXCESS_MOST 4
/* A request may wait for so many calls, one for the other: Apache before Varnish before Apache, whose page asks its
 * own site in the same way, are three. */
#define CALLS_EACH 4
/* An account is owed CPU time if it is this far behind others, us. Back ends are charged ten times a
 * second, so less may be time that was not charged yet. Until it holds this many times the slots. */
#define OWED_US 150000
#define OWED_MOST 4
/* After this time without a running request an account may take a slot of the last fifth, us. */
#define STALLED_US APR_USEC_PER_SEC

static apr_uint32_t load(const apr_uint32_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static apr_uint32_t difference(apr_uint32_t all, apr_uint32_t used)
{
    return all > used ? all - used : 0;
}

int vl_admit_more_weighted(apr_uint32_t held, apr_uint32_t left, apr_uint32_t weight,
                           apr_uint32_t n, apr_uint64_t weights)
{
    if (!held)
        return left > 0;
    return held * weights < (apr_uint64_t)left * MORE_ALPHA * weight * n;
}

int vl_admit_more(apr_uint32_t held, apr_uint32_t left)
{
    return vl_admit_more_weighted(held, left, 1, 1, 1);
}

/* The same with the weights of the active accounts. */
static int may_take(const vl_queue_t *q, apr_uint32_t account, apr_uint32_t held,
                    apr_uint32_t left)
{
    apr_uint32_t weight = q->accounts[account].weight_milli;
    apr_uint32_t more = q->accounts[account].active_milli ? 0 : 1;

    return vl_admit_more_weighted(held, left, weight, q->head->active + more,
                                  q->head->active_milli + more * weight);
}

/* --- slots ------------------------------------------------------------------ */

/* Returns 1 if the load is well below that of the heaviest account, for their weights. */
static int is_light(const vl_fair_account_t *f, const vl_standing_t *s, apr_uint64_t load)
{
    return s->heaviest && load * s->heaviest->weight_milli * LIGHT_OF
                          < (apr_uint64_t)s->heaviest->load * f->weight_milli * LIGHT_PARTS;
}

/* Returns 1 if the account has had less CPU time for its weight than another one that runs. What its
 * own running requests will cost counts as used. Long requests are charged while they run. */
static int is_owed(const vl_queue_t *q, const vl_fair_account_t *f, const vl_standing_t *s)
{
    return f->load < (apr_uint64_t)q->head->slots * 1000 * OWED_MOST
           && s->behind > VL_FAIR_ADVANCE((OWED_US + (apr_int64_t)f->estimate_us) * 1000, f->weight_milli);
}

/* Returns 1 if requests of the account have waited for long, and none ran. */
static int is_stalled(const vl_fair_account_t *f)
{
    const apr_int64_t since_us = f->ended_us > f->waiting_since_us ? f->ended_us : f->waiting_since_us;

    return !f->running && f->waiting && vl_clock_us() - since_us > STALLED_US;
}

static int may_take_slot(const vl_queue_t *q, apr_uint32_t account, const vl_standing_t *s,
                         int is_first)
{
    const vl_queue_head_t *head = q->head;
    const vl_fair_account_t *f = &q->accounts[account];
    apr_uint64_t slots = (apr_uint64_t)head->slots * 1000, then = (apr_uint64_t)f->load + s->duty;
    apr_uint32_t times = head->active < EXCESS_MOST ? head->active : EXCESS_MOST;

    /* A number that is set counts requests. Only what does not ask here runs beyond it. */
    if (!head->by_duty)
        return may_take(q, account, f->load, s->left);
    /* More than the last fifth is free. */
    if (s->left > slots / 5)
        return 1;
    /* This account is due, and its requests that run are too few to use its share. */
    if (is_first > 0 && is_owed(q, f, s))
        return 1;
    /* The last fifth is for an account that holds none and is due: it would wait for the end of a
     * request otherwise, however little it asks for. One that is not first leaves it free too. Otherwise
     * one with a small weight, which often holds none, would get more than its share. */
    if (s->left && is_first > 0 && !f->load)
        return 1;
    /* Those that are due before it can take no slot, and their requests are not charged: they wait for
     * something that was not found. One request in a second changes no shares. */
    if (s->left && is_stalled(f))
        return 1;
    /* It is also for an account whose requests sleep, and whose load would stay well below the
     * heaviest one's. */
    if (s->left && s->duty <= SLEEPS_LONG && is_light(f, s, then))
        return 1;
    /* This account is due, and its requests sleep. The kernel divides the processors by what is
     * awake at the moment, so its load has to be above its part for it to get its share: up to
     * four fifths of the slots, whatever others hold. */
    if (is_first > 0 && s->duty <= VL_DUTY_SLEEPS) {
        if (then * 5 <= slots * 4)
            return 1;
    }
    /* The heaviest account's requests sleep, and this account's load is within its weight's part of
     * the slots. Processors would be idle otherwise while requests wait. */
    else if (s->heaviest && s->heaviest != f && s->heaviest_duty <= VL_DUTY_SLEEPS
             && then * head->active_milli <= slots * f->active_milli)
        return 1;
    /* This account is due and light, and the heaviest account has kept its slots for long. Slots
     * are not taken back. So long requests would otherwise keep the processors that they got while
     * no other account wanted them. If they are awake and have had less than this
     * account, the kernel keeps them from processors, and more requests would do so too. */
    return is_first && is_light(f, s, f->load)
           && (s->heaviest->awake <= VL_DUTY_SLEEPS || VL_FAIR_AFTER(s->heaviest->fair.tag, f->fair.tag) >= 0)
           && head->load - s->heaviest->load < slots * times
           && (vl_clock_us() - s->heaviest->ended_us) * s->heaviest->running > VL_KEPT_US;
}

int vl_admit_slot(const vl_queue_t *q, apr_uint32_t account, int is_first)
{
    const vl_standing_t s = vl_fair_standing(q, account);

    return may_take_slot(q, account, &s, is_first);
}

int vl_admit_is_overrun(const vl_shm_t *shm)
{
    const vl_queue_head_t *head = shm->queue.head;
    const apr_uint64_t running = __atomic_load_n(&head->load, __ATOMIC_RELAXED) / 1000;
    const apr_uint32_t slots = load(&head->slots);

    /* A number that is set is for a resource that is scarce. */
    if (!head->by_duty)
        return running >= slots;
    return __atomic_load_n(&shm->head->contended, __ATOMIC_RELAXED) && running / OVERRUN >= slots;
}

vl_admit_e vl_admit(const vl_shm_t *shm, apr_uint32_t account, vl_ask_e ask)
{
    const vl_queue_t *q = &shm->queue;
    const vl_queue_head_t *head = q->head;
    const vl_standing_t s = vl_fair_standing(q, account);
    const apr_uint32_t concurrency = vl_fair_limits(q, account).concurrency;
    int limited = ask == VL_ASK_NEW || ask == VL_ASK_LEASE || ask == VL_ASK_KEPT || ask == VL_ASK_FORCED;

    if (limited && !s.within_bounds)
        return VL_NOT_BY_LIMITS;
    switch (ask) {
    case VL_ASK_NEW:
        if (head->heap.length || q->accounts[account].waiting
            || shm->cells[shm->self][account].deferred)
            return VL_NOT_BEFORE_OTHERS;
        if (!may_take_slot(q, account, &s, 1))
            return VL_NO_SLOT;
        return vl_admit_thread(shm, shm->self, account, 1) ? VL_ADMITTED : VL_NO_THREAD;
    case VL_ASK_KEPT:
        /* Requests that sleep keep their threads for long. With short ones before, most connections have a lease. */
        if (s.duty <= VL_DUTY_SLEEPS && !vl_admit_thread(shm, shm->self, account, 1))
            return VL_NO_THREAD;
        /* fall through */
    case VL_ASK_LEASE:
        return vl_admit_is_overrun(shm) ? VL_NO_SLOT : VL_ADMITTED;
    case VL_ASK_FORCED:
        return VL_ADMITTED;
    case VL_ASK_ENTER:
        return concurrency && q->accounts[account].running >= concurrency ? VL_NOT_BY_LIMITS
                                                                          : VL_ADMITTED;
    case VL_ASK_ERROR_PAGE:
        if (head->heap.length)
            return VL_NOT_BEFORE_OTHERS;
        return s.left ? VL_ADMITTED : VL_NO_SLOT;
    case VL_ASK_CALL:
        break;
    }
    return shm->head->calls < (head->running - shm->head->calls) * CALLS_EACH ? VL_ADMITTED : VL_NO_SLOT;
}

/* --- threads of one child --------------------------------------------------- */

/* The event MPM's listener keeps the last idle thread for itself and then stops accepting
 * (connections_above_limit). So a child runs one request less than it has threads. */
apr_uint32_t vl_admit_most(const vl_shm_t *shm, apr_uint32_t c)
{
    const child_t *child = &shm->children[c];

    if (load(&shm->head->acceptor) == c + 1)
        return load(&shm->head->asking);
    return load(&child->threads) > 1 ? load(&child->threads) - 1 : load(&child->threads);
}

apr_uint32_t vl_admit_busy(const vl_shm_t *shm, apr_uint32_t c)
{
    const child_t *child = &shm->children[c];

    return load(&child->running) - load(&child->streams) + load(&child->occupied)
           + (load(&child->threads) > 1 ? load(&child->accepted) : 0);
}

/* What is kept free for other accounts may make the MPM see so many idle threads that it starts no
 * further child process. While it can start some, their threads count as free too, until so few are
 * left of those that run that it does. threads: of a child; 1 under prefork, where left is the
 * number of idle children. */
static apr_uint32_t with_growth(const vl_shm_t *shm, apr_uint32_t left, apr_uint32_t threads)
{
    const head_t *head = shm->head;
    apr_uint32_t more = difference(head->processes, head->attached), needed = head->spare;

    if (!more || !head->attached)
        return left;
    if (threads > 1) {
        /* One idle thread of each child is not in left. */
        needed = difference(head->spare, 1) / head->attached;
        more = (more * threads + head->attached - 1) / head->attached;
    }
    return left && left >= (needed < FREE_LEAST ? needed : FREE_LEAST) ? left + more : left;
}

static apr_uint32_t left_growing(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t left)
{
    return with_growth(shm, left, shm->head->acceptor == c + 1 ? 1 : shm->children[c].threads);
}

static int accepts_grants(const child_t *child)
{
    return child->pid && !child->stalled && child->ring_len < RING_SIZE;
}

/* Returns the capacity for connections that the MPM already has and need not accept. */
static apr_uint32_t left_for_parked(const vl_shm_t *shm, apr_uint32_t c)
{
    if (!accepts_grants(&shm->children[c]))
        return 0;
    return difference(vl_admit_most(shm, c), vl_admit_busy(shm, c));
}

apr_uint32_t vl_admit_left(const vl_shm_t *shm, apr_uint32_t c)
{
    return shm->children[c].state == CHILD_ACCEPTING ? left_for_parked(shm, c) : 0;
}

/* Returns the number of child processes that the account uses. */
static apr_uint32_t processes_of(const vl_shm_t *shm, apr_uint32_t account)
{
    return shm->queue.accounts[account].running + shm->accounts[account].occupied;
}

/* Returns the number of threads of child c that the account holds. granted: its slots in
 * the child's ring. */
static apr_uint32_t threads_of(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account,
                               apr_uint32_t granted)
{
    const cell_t *cell = &shm->cells[c][account];

    if (shm->head->acceptor == c + 1)
        return processes_of(shm, account);
    return cell->running + granted - cell->streams + cell->occupied;
}

int vl_admit_thread(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account, int is_new)
{
    const cell_t *cell = &shm->cells[c][account];
    child_t *child = &shm->children[c];
    apr_uint32_t i, granted = 0, held;

    for (i = 0; i < child->ring_len; i++)
        granted += vl_segment_ticket(child, i)->account == account;
    held = threads_of(shm, c, account, granted);
    /* Connections whose site is not known yet may all be the account's. */
    if (held && child->threads > 1)
        held += __atomic_load_n(&child->accepted, __ATOMIC_RELAXED);
    if (may_take(&shm->queue, account, held,
                 left_growing(shm, c, vl_admit_left(shm, c))))
        return 1;
    if (is_new)
        return 0;
    if (__atomic_load_n(&cell->parked, __ATOMIC_RELAXED) > granted
        && may_take(&shm->queue, account, held,
                    left_growing(shm, c, left_for_parked(shm, c))))
        return 1;
    return __atomic_load_n(&cell->thread_waiters, __ATOMIC_RELAXED) > granted
           && accepts_grants(child);
}

/* --- thresholds of this child --------------------------------------------- */

static apr_uint32_t processes_free(const vl_shm_t *shm)
{
    apr_uint32_t c, all = 0, busy = 0;

    if (shm->head->acceptor)
        return shm->head->asking;
    for (c = 0; c < shm->head->columns; c++) {
        all += shm->children[c].pid != 0;
        busy += vl_admit_busy(shm, c);
    }
    return difference(all, busy);
}

int vl_admit_process(const vl_shm_t *shm, apr_uint32_t account)
{
    return may_take(&shm->queue, account, processes_of(shm, account),
                    with_growth(shm, processes_free(shm), 1));
}

/* The account's first unit never exceeds the threshold. A further one does if the account
 * could not take it again after releasing it. */
int vl_admit_is_exceeded(const vl_shm_t *shm, apr_uint32_t account)
{
    const child_t *child = &shm->children[shm->self];
    apr_uint32_t held, left;

    if (child->threads == 1) {
        held = processes_of(shm, account);
        left = processes_free(shm) + 1;
    }
    else {
        held = threads_of(shm, shm->self, account, 0);
        left = difference(vl_admit_most(shm, shm->self) + 1,
                          vl_admit_busy(shm, shm->self) - child->ring_len);
    }
    return held > 1 && !may_take(&shm->queue, account, held - 1,
                                 with_growth(shm, left, child->threads));
}

void vl_admit_capacity(vl_shm_t *shm, vl_capacity_t *ret_capacity)
{
    apr_uint32_t c, left;

    memset(ret_capacity, 0, sizeof(*ret_capacity));
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    for (c = 0; c < shm->head->columns; c++) {
        /* As for an account that already holds all busy threads there. The rest below the capacity
         * threshold is reserved for other accounts. */
        left = vl_admit_left(shm, c);
        if (vl_admit_more(vl_admit_busy(shm, c), left_growing(shm, c, left)))
            *(c == shm->self ? &ret_capacity->here : &ret_capacity->elsewhere) += left;
    }
    ret_capacity->most = vl_admit_most(shm, shm->self);
    ret_capacity->ended = shm->children[shm->self].ended;
    vl_segment_unlock(shm);
}

/* --- without the segment ------------------------------------------------------ */

apr_uint32_t vl_admit_retry_after(apr_uint64_t service_us, apr_uint32_t slots,
                                  apr_uint32_t random)
{
    apr_uint64_t second = 1000000;
    apr_uint64_t wait_us = service_us / (slots ? slots : 1);
    apr_uint64_t wait = (wait_us + second - 1) / second;

    if (wait < 1)
        wait = 1;
    if (wait > VL_RETRY_MAX)
        wait = VL_RETRY_MAX;
    return (apr_uint32_t)(wait + random % (wait + 1));
}

const char *vl_admit_reason_name(vl_reason_e reason)
{
    static const char *const names[] = {
        [VL_REASON_NONE] = "none", [VL_REASON_CONCURRENCY] = "concurrency",
        [VL_REASON_QUEUE] = "queue", [VL_REASON_TIMEOUT] = "timeout",
        [VL_REASON_ERROR] = "error", [VL_REASON_GONE] = "gone"
    };

    return names[reason];
}
