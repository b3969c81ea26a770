/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_slot.h"

#include <string.h>
#include <unistd.h>

#include "base/vl_clock.h"
#include "core/vl_duty.h"
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
/* After this time without a running request an account may take a slot of the last fifth. A child that
 * has not taken a grant for as long is stalled: longer than one needs that only waits for a processor, us. */
#define STALLED_US APR_USEC_PER_SEC
/* A waiter in another child is preferred to the first one in this child only if it arrived
 * more than this much earlier. This child has the processor now, and waking another one
 * costs two context switches. */
#define REMOTE_PENALTY_US 10000
/* The moving average of an account's service time uses a factor of 1/8 per request, like
 * TCP's smoothed round-trip time (RFC 6298, alpha). */
#define SERVICE_SHIFT 3
/* An advance is for this much of a request's time in service at most: the sampler has
 * charged earlier time while the request ran. */
#define ADVANCE_MOST_US 100000

static apr_uint32_t load(const apr_uint32_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static apr_uint32_t difference(apr_uint32_t all, apr_uint32_t used)
{
    return all > used ? all - used : 0;
}

int vl_slot_more_weighted(apr_uint32_t held, apr_uint32_t left, apr_uint32_t weight,
                           apr_uint32_t n, apr_uint64_t weights)
{
    if (!held)
        return left > 0;
    return held * weights < (apr_uint64_t)left * MORE_ALPHA * weight * n;
}

int vl_slot_more(apr_uint32_t held, apr_uint32_t left)
{
    return vl_slot_more_weighted(held, left, 1, 1, 1);
}

/* The same with the weights of the active accounts. */
static int may_take(const vl_queue_t *q, apr_uint32_t account, apr_uint32_t held,
                    apr_uint32_t left)
{
    apr_uint32_t weight = q->accounts[account].weight_milli;
    apr_uint32_t more = q->accounts[account].active_milli ? 0 : 1;

    return vl_slot_more_weighted(held, left, weight, q->head->active + more,
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
static int is_starving(const vl_fair_account_t *f)
{
    const apr_int64_t since_us = f->ended_us > f->waiting_since_us ? f->ended_us : f->waiting_since_us;

    return !f->running && f->waiting && vl_clock_us() - since_us > STALLED_US;
}

static int may_take_slot(const vl_queue_t *q, apr_uint32_t account, const vl_standing_t *s,
                         int is_first)
{
    const vl_queue_head_t *head = q->head;
    const vl_fair_account_t *f = &q->accounts[account];
    apr_uint64_t slots = (apr_uint64_t)head->slots * 1000, then = (apr_uint64_t)f->load + s->duty, called;
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
    /* This account is due. Calls of other accounts run here beyond the slots, and leave its own requests its
     * weight's part of them. */
    called = (apr_uint64_t)f->called * s->duty;
    if (is_first > 0 && f->called && (then > called ? then - called : 0) * head->active_milli <= slots * f->active_milli)
        return 1;
    /* The last fifth is for an account that holds none and is due: it would wait for the end of a
     * request otherwise, however little it asks for. One that is not first leaves it free too. Otherwise
     * one with a small weight, which often holds none, would get more than its share. */
    if (s->left && is_first > 0 && !f->load)
        return 1;
    /* Those that are due before it can take no slot, and their requests are not charged: they wait for
     * something that was not found. One request in a second changes no shares. */
    if (s->left && is_starving(f))
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

int vl_slot_may_take(const vl_queue_t *q, apr_uint32_t account, int is_first)
{
    const vl_standing_t s = vl_fair_standing(q, account);

    return may_take_slot(q, account, &s, is_first);
}
/* --- threads of one child --------------------------------------------------- */

/* The event MPM's listener keeps the last idle thread for itself and then stops accepting
 * (connections_above_limit). So a child runs one request less than it has threads. */
static apr_uint32_t most_threads(const vl_shm_t *shm, apr_uint32_t c)
{
    const child_t *child = &shm->children[c];

    if (load(&shm->head->acceptor) == c + 1)
        return load(&shm->head->asking);
    return load(&child->threads) > 1 ? load(&child->threads) - 1 : load(&child->threads);
}

apr_uint32_t vl_slot_busy_threads(const vl_shm_t *shm, apr_uint32_t c)
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

/* Returns how many more connections the child can run: new ones, or, if is_new is 0, those that its MPM
 * already has and need not accept. */
static apr_uint32_t threads_left(const vl_shm_t *shm, apr_uint32_t c, int is_new)
{
    const child_t *child = &shm->children[c];

    if (!accepts_grants(child) || (is_new && child->state != CHILD_ACCEPTING))
        return 0;
    return difference(most_threads(shm, c), vl_slot_busy_threads(shm, c));
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

/* Returns 1 if child c can use one more grant of the account: for a new connection, or, if is_new is 0, also
 * for a waiter that it already has. */
static int may_take_thread(const vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account, int is_new)
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
                 left_growing(shm, c, threads_left(shm, c, 1))))
        return 1;
    if (is_new)
        return 0;
    if (__atomic_load_n(&cell->parked, __ATOMIC_RELAXED) > granted
        && may_take(&shm->queue, account, held,
                    left_growing(shm, c, threads_left(shm, c, 0))))
        return 1;
    return __atomic_load_n(&cell->thread_waiters, __ATOMIC_RELAXED) > granted
           && accepts_grants(child);
}

/* --- the answer ------------------------------------------------------------- */

/* Returns 1 if connections with a lease have to wait for a slot. Without the lock it is not exact. */
static int is_overrun(const vl_shm_t *shm)
{
    const vl_queue_head_t *head = shm->queue.head;
    const apr_uint64_t running = __atomic_load_n(&head->load, __ATOMIC_RELAXED) / 1000;
    const apr_uint32_t slots = load(&head->slots);

    /* A number that is set is for a resource that is scarce. */
    if (!head->by_duty)
        return running >= slots;
    return __atomic_load_n(&shm->head->contended, __ATOMIC_RELAXED) && running / OVERRUN >= slots;
}

vl_admit_e vl_slot_admit(const vl_shm_t *shm, apr_uint32_t account, vl_ask_e ask)
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
        return may_take_thread(shm, shm->self, account, 1) ? VL_ADMITTED : VL_NO_THREAD;
    case VL_ASK_KEPT:
        /* Requests that sleep keep their threads for long. With short ones before, most connections have a lease. */
        if (s.duty <= VL_DUTY_SLEEPS && !may_take_thread(shm, shm->self, account, 1))
            return VL_NO_THREAD;
        /* fall through */
    case VL_ASK_LEASE:
        return is_overrun(shm) ? VL_NO_SLOT : VL_ADMITTED;
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

/* --- the dispatcher --------------------------------------------------------- */

/* Children to wake after the lock is released, because write() is a system call. */
typedef struct wakes_t {
    apr_uint32_t n;
    apr_uint32_t child[32];
} wakes_t;

#define WAKES_MAX (sizeof(((wakes_t *)0)->child) / sizeof(apr_uint32_t))

typedef struct choice_t {
    const vl_shm_t *shm;
    apr_uint32_t child;             /* child for the account that was checked last */
    int is_first;                   /* see vl_slot_may_take() */
} choice_t;

/* Returns 1 if the account may take a slot, and sets choice->child: the child in which its first waiter
 * probably waits, of those that have a waiter of the account and capacity. Under prefork nearly all
 * connections wait in the acceptor. It is looked at first, so that the cells of several hundred children
 * are not read. */
static int can_serve(void *data, apr_uint32_t account)
{
    choice_t *choice = data;
    const vl_shm_t *shm = choice->shm;
    vl_candidate_t next, best = { .child = NO_CHILD };
    apr_uint32_t first = shm->head->acceptor ? shm->head->acceptor - 1 : 0;
    apr_uint32_t i, c, waiting, left = shm->queue.accounts[account].waiting;

    if (!vl_slot_may_take(&shm->queue, account, choice->is_first)) {
        if (choice->is_first)
            choice->is_first = shm->queue.head->heaviest == account + 1 ? -1 : 0;
        return 0;
    }
    for (i = 0; left && i < shm->head->columns; i++) {
        c = (first + i) % shm->head->columns;
        waiting = shm->cells[c][account].waiting;
        left -= waiting;
        if (!waiting || !may_take_thread(shm, c, account, 0))
            continue;
        vl_fair_candidate(shm, account, c, &next);
        next.since_us -= c == shm->self ? REMOTE_PENALTY_US : 0;
        if (best.child == NO_CHILD || vl_fair_is_before(&next, &best))
            best = next;
    }
    choice->child = best.child;
    return best.child != NO_CHILD;
}

/* Grants a slot to the account in child c. One store makes the grant valid; vl_segment.h
 * explains a crash before or after it. Requires the segment lock. */
static void grant(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account,
                  wakes_t *wakes)
{
    child_t *child = &shm->children[c];
    cell_t *cell = &shm->cells[c][account];
    apr_int64_t now_us = vl_clock_us();
    vl_ticket_t *ticket;

    ticket = &child->ring[(child->ring_head + child->ring_len) % RING_SIZE];
    ticket->account = account;
    ticket->charged = vl_fair_begin(&shm->queue, account);
    ticket->stream = ticket->call = 0;
    ticket->caller = ticket->client_us = 0;
    vl_fair_granted(shm, account, c, ticket->charged);
    if (!child->ring_len)
        __atomic_store_n(&child->moved_us, now_us, __ATOMIC_RELAXED);
    __atomic_store_n(&child->ring_len, child->ring_len + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&cell->waiting, cell->waiting - 1, __ATOMIC_RELAXED);
    child->running++;
    if (c != shm->self && !child->woken) {
        __atomic_store_n(&child->woken, 1, __ATOMIC_RELAXED);
        wakes->child[wakes->n++] = c;
    }
}

static void wake(const vl_shm_t *shm, apr_uint32_t child)
{
    apr_uint64_t one = 1;

    /* write() fails only if the counter is at its maximum. The descriptor is readable
     * then. */
    if (write(shm->wake_fds[child], &one, sizeof(one)) < 0)
        return;
}

/* Takes the next grant of this child, whose ring must not be empty. */
static void take_granted_locked(vl_shm_t *shm, vl_ticket_t *ret_ticket)
{
    child_t *child = &shm->children[shm->self];

    *ret_ticket = child->ring[child->ring_head];
    shm->cells[shm->self][ret_ticket->account].running++;
    child->ring_head = (child->ring_head + 1) % RING_SIZE;
    __atomic_store_n(&child->moved_us, vl_clock_us(), __ATOMIC_RELAXED);
    __atomic_store_n(&child->ring_len, child->ring_len - 1, __ATOMIC_RELEASE);
}

/* Grants free slots to eligible accounts until none is left, and releases the lock, which the caller holds.
 * Every function that may have freed a slot ends with it. Takes up to max grants of this child; the others
 * stay in its ring. Returns the number of grants taken. */
static apr_uint32_t dispatch_take_and_unlock(vl_shm_t *shm, vl_ticket_t *ret_tickets,
                                             apr_uint32_t max)
{
    apr_uint32_t account, i, taken = 0;
    wakes_t wakes;

    do {
        choice_t choice = { shm, NO_CHILD, 1 };

        wakes.n = 0;
        while (wakes.n < WAKES_MAX
               && (account = vl_fair_next_where(&shm->queue, can_serve, &choice)) != VL_NO_ACCOUNT) {
            grant(shm, choice.child, account, &wakes);
            choice.is_first = 1;
        }
        while (taken < max && shm->children[shm->self].ring_len)
            take_granted_locked(shm, &ret_tickets[taken++]);
        vl_segment_unlock(shm);
        for (i = 0; i < wakes.n; i++)
            wake(shm, wakes.child[i]);
    } while (wakes.n == WAKES_MAX && vl_segment_lock(shm) == APR_SUCCESS);
    return taken;
}

void vl_slot_dispatch_and_unlock(vl_shm_t *shm)
{
    dispatch_take_and_unlock(shm, NULL, 0);
}

void vl_slot_wake_self(const vl_shm_t *shm)
{
    if (shm->self != NO_CHILD)
        wake(shm, shm->self);
}

void vl_slot_wake_all(const vl_shm_t *shm)
{
    apr_uint32_t c;

    for (c = 0; c < shm->head->columns; c++) {
        if (c != shm->self && shm->wake_fds[c] >= 0)
            wake(shm, c);
    }
}

void vl_slot_dispatch(vl_shm_t *shm)
{
    apr_uint32_t c;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    vl_slot_dispatch_and_unlock(shm);
    /* A child that crashed may have made a grant without waking its receiver. */
    for (c = 0; c < shm->head->columns; c++) {
        if (__atomic_load_n(&shm->children[c].ring_len, __ATOMIC_RELAXED))
            wake(shm, c);
    }
}

/* If the account's queue is not full, wakes one other child that has deferred connections of the account,
 * preferably one that has no queued connection of it. */
static void wake_deferred(vl_shm_t *shm, apr_uint32_t account)
{
    apr_uint32_t c, found = NO_CHILD;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    if (shm->queue.accounts[account].waiting
        < shm->queue.accounts[account].limits.queue) {
        for (c = 0; c < shm->head->columns; c++) {
            const cell_t *cell = &shm->cells[c][account];

            if (c != shm->self && cell->deferred
                && (found == NO_CHILD || !cell->waiting))
                found = c;
        }
    }
    vl_segment_unlock(shm);
    if (found != NO_CHILD)
        wake(shm, found);
}

/* --- stalled children ------------------------------------------------------ */

static int is_stalled(const vl_shm_t *shm, apr_uint32_t c, apr_int64_t now_us)
{
    const child_t *child = &shm->children[c];

    return c != shm->self
           && __atomic_load_n(&child->ring_len, __ATOMIC_RELAXED)
           && now_us - __atomic_load_n(&child->moved_us, __ATOMIC_RELAXED)
              > STALLED_US;
}

/* Revokes the last grant in the ring of child c and counts its waiter as waiting again. The
 * waiter is counted before the grant is removed; vl_segment.h explains a crash in between.
 * Requires the segment lock. */
static void revoke_locked(vl_shm_t *shm, apr_uint32_t c)
{
    child_t *child = &shm->children[c];
    vl_ticket_t ticket = *vl_segment_ticket(child, child->ring_len - 1);
    cell_t *cell = &shm->cells[c][ticket.account];

    __atomic_store_n(&cell->waiting, cell->waiting + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&child->ring_len, child->ring_len - 1, __ATOMIC_RELEASE);
    child->running--;
    vl_fair_cancel(&shm->queue, ticket.account, ticket.charged);
    vl_fair_arrive(&shm->queue, ticket.account);
}

void vl_slot_revoke_stalled(vl_shm_t *shm, apr_int64_t now_us)
{
    apr_uint32_t c;

    for (c = 0; c < shm->head->columns; c++) {
        if (!is_stalled(shm, c, now_us) || vl_segment_lock_child(shm) != APR_SUCCESS)
            continue;
        if (is_stalled(shm, c, now_us)) {
            /* Set before the ring is emptied: a child that finds its ring empty must see the
             * mark, too, and must not sleep. */
            __atomic_store_n(&shm->children[c].stalled, 1, __ATOMIC_RELAXED);
            while (shm->children[c].ring_len)
                revoke_locked(shm, c);
        }
        vl_slot_dispatch_and_unlock(shm);
    }
}

/* --- slots that are held, and their cost ------------------------------------ */

void vl_slot_hold_locked(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account, int stream, int by)
{
    cell_t *cell = &shm->cells[c][account];
    child_t *child = &shm->children[c];

    cell->running += (apr_uint32_t)by;
    child->running += (apr_uint32_t)by;
    cell->streams += (apr_uint32_t)(by * stream);
    child->streams += (apr_uint32_t)(by * stream);
}

static void hold_called_locked(vl_shm_t *shm, apr_uint32_t c, apr_uint32_t account, int by)
{
    shm->cells[c][account].called += (apr_uint32_t)by;
    shm->queue.accounts[account].called += (apr_uint32_t)by;
}

void vl_slot_hold_call_locked(vl_shm_t *shm, apr_uint32_t c, const vl_ticket_t *ticket, int by)
{
    shm->children[c].calls += (apr_uint32_t)(by * ticket->call);
    shm->head->calls += (apr_uint32_t)(by * ticket->call);
    if (ticket->caller)
        hold_called_locked(shm, c, ticket->account, by);
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
    vl_slot_hold_call_locked(shm, shm->self, ticket, -1);
    shm->children[shm->self].ended++;
}

void vl_slot_cancel_locked(vl_shm_t *shm, const vl_ticket_t *ticket)
{
    free_slot_locked(shm, ticket);
    vl_fair_cancel(&shm->queue, ticket->account, ticket->charged);
}
/* Counts us of CPU time, used in the last busy_us, for the status page. */
static void count_charge(account_t *a, apr_uint64_t busy_us, apr_uint64_t us)
{
    a->metrics.charged_us += us;
    vl_rate_add(&a->rate, vl_clock_us(), busy_us, us);
}

void vl_slot_charge_locked(vl_shm_t *shm, apr_uint32_t account,
                           apr_uint64_t us)
{
    vl_fair_charge(&shm->queue, account, (apr_int64_t)us);
    count_charge(&shm->accounts[account], us, us);
}

void vl_slot_charge(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    vl_slot_charge_locked(shm, account, us);
    vl_segment_unlock(shm);
}

apr_uint64_t vl_slot_charge_end_locked(vl_shm_t *shm, apr_uint32_t account,
                                  const vl_cost_t *cost)
{
    account_t *a = &shm->accounts[account];
    apr_uint64_t most_us = cost->busy_us < ADVANCE_MOST_US ? cost->busy_us : ADVANCE_MOST_US;
    apr_uint64_t advance_us = most_us * a->backend_permille / 1000;

    if (cost->cpu_us > cost->charged_us)
        count_charge(a, cost->busy_us, cost->cpu_us - cost->charged_us);
    __atomic_store_n(&a->thread_us, vl_average(a->thread_us, cost->cpu_us), __ATOMIC_RELAXED);
    a->metrics.busy_us += cost->busy_us;
    a->metrics.cpu_us += cost->cpu_us;
    a->service_us += (cost->busy_us >> SERVICE_SHIFT)
                     - (a->service_us >> SERVICE_SHIFT);
    a->backend_busy_us += most_us;
    a->backend_advance_us += advance_us;
    return cost->cpu_us + advance_us;
}

/* --- waiters are counted ---------------------------------------------------- */

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
    if (how == VL_WAIT_ASK && vl_slot_admit(shm, account, VL_ASK_NEW) == VL_ADMITTED) {
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
    vl_slot_dispatch_and_unlock(shm);
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
        vl_slot_dispatch_and_unlock(shm);
    }
    if (vl_slot_deferred(shm, account) > vl_slot_deferred_here(shm, account))
        wake_deferred(shm, account);
}

void vl_slot_put_back(vl_shm_t *shm, const vl_ticket_t *ticket, apr_int64_t since_us)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    vl_slot_cancel_locked(shm, ticket);
    if (since_us)
        arrive_locked(shm, ticket->account, since_us);
    vl_slot_dispatch_and_unlock(shm);
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
        vl_slot_dispatch_and_unlock(shm);
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
    take_granted_locked(shm, ret_ticket);
    if (child->ring_len == RING_SIZE - 1)
        vl_slot_dispatch_and_unlock(shm);   /* the ring was full */
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

/* --- a request, from its slot to its end ------------------------------------ */

apr_status_t vl_slot_ask(vl_shm_t *shm, apr_uint32_t account, vl_ask_e ask, int stream,
                         vl_ticket_t *ret_ticket)
{
    apr_status_t rv;

    /* The connection is queued then, under the lock. */
    if ((ask == VL_ASK_LEASE || ask == VL_ASK_KEPT) && is_overrun(shm))
        return APR_EAGAIN;
    if ((rv = vl_segment_lock_child(shm)) != APR_SUCCESS)
        return rv;
    if (vl_slot_admit(shm, account, ask) != VL_ADMITTED) {
        vl_segment_unlock(shm);
        return APR_EAGAIN;
    }
    take_slot_locked(shm, account, stream, ret_ticket);
    vl_segment_unlock(shm);
    return APR_SUCCESS;
}

static int is_other_caller(const vl_ticket_t *ticket, apr_uint32_t call)
{
    return call && call != VL_CALL_OF_UNKNOWN && call != ticket->account + 1 && !ticket->caller;
}

static void found_caller_locked(vl_shm_t *shm, vl_ticket_t *ticket, apr_uint32_t call)
{
    ticket->caller = call;
    hold_called_locked(shm, shm->self, ticket->account, 1);
    vl_fair_charge(&shm->queue, ticket->account, -(apr_int64_t)ticket->charged);
    ticket->charged = 0;
}

apr_status_t vl_slot_ask_call(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t call, int stream,
                              vl_ticket_t *ret_ticket)
{
    apr_status_t rv = vl_segment_lock_child(shm);

    if (rv != APR_SUCCESS)
        return rv;
    if (vl_slot_admit(shm, account, VL_ASK_CALL) != VL_ADMITTED) {
        vl_segment_unlock(shm);
        return APR_EAGAIN;
    }
    take_slot_locked(shm, account, stream, ret_ticket);
    ret_ticket->call = 1;
    vl_slot_hold_call_locked(shm, shm->self, ret_ticket, 1);
    if (is_other_caller(ret_ticket, call))
        found_caller_locked(shm, ret_ticket, call);
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
    if (vl_slot_admit(shm, account, VL_ASK_ENTER) != VL_ADMITTED)
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
    vl_slot_charge_locked(shm, account, cost_us);
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
    apr_uint32_t payer = vl_ticket_payer(ticket);

    *ret_charged = 0;
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    if (!cost) {
        vl_slot_cancel_locked(shm, ticket);
    }
    else {
        *ret_charged = vl_slot_charge_end_locked(shm, payer, cost);
        free_slot_locked(shm, ticket);
        if (payer == ticket->account) {
            vl_fair_end(&shm->queue, payer, ticket->charged + (apr_uint32_t)cost->charged_us,
                        *ret_charged);
        }
        else {
            vl_fair_cancel(&shm->queue, ticket->account, ticket->charged);
            vl_fair_charge(&shm->queue, payer,
                           (apr_int64_t)*ret_charged - (apr_int64_t)cost->charged_us);
        }
    }
    /* Before the next grant, whose order depends on it. */
    vl_fair_end_client(shm, ticket, cost && !ticket->caller ? cost->client : NULL, *ret_charged);
    return dispatch_take_and_unlock(shm, ret_tickets, max);
}

void vl_slot_pause(vl_shm_t *shm, const vl_ticket_t *ticket, apr_uint64_t us)
{
    vl_fair_end_client(shm, ticket, NULL, 0);
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    vl_slot_charge_locked(shm, vl_ticket_payer(ticket), us);
    vl_slot_cancel_locked(shm, ticket);
    vl_slot_dispatch_and_unlock(shm);
}

void vl_slot_found_caller(vl_shm_t *shm, vl_ticket_t *ticket, apr_uint32_t call)
{
    if (!is_other_caller(ticket, call) || vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    found_caller_locked(shm, ticket, call);
    vl_segment_unlock(shm);
}

void vl_slot_go_on(vl_shm_t *shm, vl_ticket_t *ticket)
{
    apr_uint32_t caller = ticket->caller;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    take_slot_locked(shm, ticket->account, ticket->stream, ticket);
    vl_segment_unlock(shm);
    vl_slot_found_caller(shm, ticket, caller);
}

/* --- threads without a slot ------------------------------------------------ */

/* Returns 1 if the MPM may start no further child process. */
static int all_are_alive(const vl_shm_t *shm)
{
    apr_uint32_t c, alive = 0;

    for (c = 0; c < load(&shm->head->columns); c++)
        alive += __atomic_load_n(&shm->children[c].pid, __ATOMIC_RELAXED) != 0;
    return alive >= load(&shm->head->processes);
}

static apr_uint32_t processes_free(const vl_shm_t *shm)
{
    apr_uint32_t c, all = 0, busy = 0;

    if (shm->head->acceptor)
        return shm->head->asking;
    for (c = 0; c < shm->head->columns; c++) {
        all += shm->children[c].pid != 0;
        busy += vl_slot_busy_threads(shm, c);
    }
    return difference(all, busy);
}

/* Returns 1 if the account exceeds its threshold for threads in this child (prefork: for processes). Its
 * first unit never does. A further one does if it could not take it again
 * after releasing it. */
static int is_exceeded(const vl_shm_t *shm, apr_uint32_t account)
{
    const child_t *child = &shm->children[shm->self];
    apr_uint32_t held, left;

    if (child->threads == 1) {
        held = processes_of(shm, account);
        left = processes_free(shm) + 1;
    }
    else {
        held = threads_of(shm, shm->self, account, 0);
        left = difference(most_threads(shm, shm->self) + 1,
                          vl_slot_busy_threads(shm, shm->self) - child->ring_len);
    }
    return held > 1 && !may_take(&shm->queue, account, held - 1,
                                 with_growth(shm, left, child->threads));
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
                    ? !shm->head->acceptor
                      || may_take(&shm->queue, account, processes_of(shm, account),
                                  with_growth(shm, processes_free(shm), 1))
                    : !is_exceeded(shm, account);
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
    vl_slot_dispatch_and_unlock(shm);
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
               || vl_slot_busy_threads(shm, shm->self) > most_threads(shm, shm->self));
}

void vl_slot_capacity(vl_shm_t *shm, vl_capacity_t *ret_capacity)
{
    apr_uint32_t c, left;

    memset(ret_capacity, 0, sizeof(*ret_capacity));
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    for (c = 0; c < shm->head->columns; c++) {
        /* As for an account that already holds all busy threads there. The rest below the capacity
         * threshold is reserved for other accounts. */
        left = threads_left(shm, c, 1);
        if (vl_slot_more(vl_slot_busy_threads(shm, c), left_growing(shm, c, left)))
            *(c == shm->self ? &ret_capacity->here : &ret_capacity->elsewhere) += left;
    }
    ret_capacity->most = most_threads(shm, shm->self);
    ret_capacity->ended = shm->children[shm->self].ended;
    vl_segment_unlock(shm);
}

/* --- settings ------------------------------------------------------------- */

void vl_slot_set(vl_shm_t *shm, apr_uint32_t slots)
{
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    shm->head->queue.slots = slots ? slots : shm->head->processors * VL_AUTO_PER_CPU;
    shm->head->queue.by_duty = !slots;
    vl_slot_dispatch_and_unlock(shm);
}

void vl_slot_set_mpm(vl_shm_t *shm, apr_uint32_t processes, apr_uint32_t spare)
{
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    shm->head->processes = processes;
    shm->head->spare = spare;
    vl_slot_dispatch_and_unlock(shm);
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

/* --- without the segment ------------------------------------------------------ */

apr_uint32_t vl_slot_retry_after(apr_uint64_t service_us, apr_uint32_t slots,
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

const char *vl_slot_reason_name(vl_reason_e reason)
{
    static const char *const names[] = {
        [VL_REASON_NONE] = "none", [VL_REASON_CONCURRENCY] = "concurrency",
        [VL_REASON_QUEUE] = "queue", [VL_REASON_TIMEOUT] = "timeout",
        [VL_REASON_ERROR] = "error", [VL_REASON_GONE] = "gone"
    };

    return names[reason];
}

