/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_fair.h"

#include <stdlib.h>
#include <string.h>

#include "base/vl_clock.h"
#include "base/vl_pages.h"
#include "core/vl_segment.h"

/* Accounts that are asked at most whether they can be served while no slot is free. While slots are
 * free and threads are not, all are asked: the last one may be the only one whose requests have
 * their threads already, and these would be free only after them. */
#define SET_ASIDE_MOST 8

/* A site's requests count as contended for so long after one has had to wait. Long enough
 * for a request that was granted its slot to end. */
#define BACKLOG_US APR_USEC_PER_SEC

/* People wait for a page for at least so long. A client that leaves earlier says nothing about the
 * patience of the others, and nor do many that leave together: a connection to them was lost. */
#define PATIENCE_MIN_US ((apr_int64_t)APR_USEC_PER_SEC)
/* How long a client that has gone says something about the patience of the others. */
#define GONE_US ((apr_int64_t)5 * APR_USEC_PER_SEC)

/* What a client may save of its share while it does not use it, in CPU time. It is first until it
 * has used this, so others wait as long. */
#define SAVED_MAX_US ((apr_int64_t)10000)

/* A client that was charged more than others is behind them by this much at most, in CPU
 * time: it may have had slots that no other client could use. */
#define LAG_MAX_US ((apr_int64_t)10 * APR_USEC_PER_SEC)

/* Heads of the hash of clients that have waiters, a power of 2. */
#define HASH_SIZE 4096

/* Of so many newest waiters the one is closed whose client has most waiters. A bound,
 * because it is chosen for each connection that comes while descriptors are short. */
#define NEWEST_CHECKED 64

/* Of so many grants one goes to a late client, if there is any. */
#define LATE_TURN 16

/* Tags of clients in two children that differ by less CPU time than this count as equal, because
 * another child has to be woken. */
#define EQUAL_US 200

#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define SET(field, n) __atomic_store_n(&(field), n, __ATOMIC_RELAXED)
#define ADD(field, n) __atomic_add_fetch(&(field), n, __ATOMIC_RELAXED)

/* vl_client_entry_t.charged of a client that is charged in this tick and has had no request lately:
 * its next request is no repeated one. */
#define NO_REQUEST(tick) (((tick) - 2) << 1)

/* --- tags and heaps, of every level ------------------------------------------------ */

/* Makes the tag, or virtual time, at least this late. */
static void raise_tag(apr_uint64_t *tag, apr_uint64_t least)
{
    apr_uint64_t now = __atomic_load_n(tag, __ATOMIC_RELAXED);

    while (VL_FAIR_AFTER(least, now) > 0
           && !__atomic_compare_exchange_n(tag, &now, least, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

/* Advances the tag, by < 0: takes it back, but not beyond the bound. */
static void move_tag(apr_uint64_t *tag, apr_int64_t by, apr_uint64_t bound)
{
    apr_uint64_t now = __atomic_load_n(tag, __ATOMIC_RELAXED);
    apr_int64_t most;

    do {
        most = VL_FAIR_AFTER(bound, now);
        if (by > 0 ? most <= 0 : most >= 0)
            return;
        if (by > 0 ? most > by : most < by)
            most = by;
    } while (!__atomic_compare_exchange_n(tag, &now, now + (apr_uint64_t)most, 1,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static int precedes(const vl_fair_t *a, const vl_fair_t *b)
{
    apr_int64_t after = VL_FAIR_AFTER(a->tag, b->tag);

    return after ? after < 0 : a->order < b->order;
}

/* Puts the member where the order demands it; its old place is i, and free. */
static void settle(vl_fair_heap_t *heap, apr_uint32_t i, vl_fair_t *member)
{
    apr_uint32_t next;

    for (; i && precedes(member, heap->at[next = (i - 1) / 2]); i = next) {
        heap->at[i] = heap->at[next];
        heap->at[i]->place = i + 1;
    }
    for (; (next = 2 * i + 1) < heap->length; i = next) {
        if (next + 1 < heap->length && precedes(heap->at[next + 1], heap->at[next]))
            next++;
        if (!precedes(heap->at[next], member))
            break;
        heap->at[i] = heap->at[next];
        heap->at[i]->place = i + 1;
    }
    heap->at[i] = member;
    member->place = i + 1;
}

/* Adds a member to the heap. If it is there already, restores the order after a change of its
 * tag. */
static void heap_put(vl_fair_heap_t *heap, vl_fair_t *member)
{
    settle(heap, member->place ? member->place - 1 : heap->length++, member);
}

static void heap_remove(vl_fair_heap_t *heap, vl_fair_t *member)
{
    apr_uint32_t place = member->place;

    if (!place)
        return;
    member->place = 0;
    if (place <= --heap->length)
        settle(heap, place - 1, heap->at[heap->length]);
}

static apr_uint64_t later(apr_uint64_t a, apr_uint64_t b)
{
    return VL_FAIR_AFTER(a, b) > 0 ? a : b;
}

/* --- between sites ----------------------------------------------------------------- */

/* An account is in the heap if and only if it has a waiting request, runs less than its
 * concurrency and has credit under its cap. The heap is ordered by virtual time, then by
 * number. head.running and head.waiting are the sums over the accounts. An account with a waiting or
 * running request is active; head.active and head.active_milli are their number and weights.
 *
 * Example: two slots, weights a=2 b=1, every request costs 6, all waiting.
 *   start tags   a: 0 3 6 9 12 …   b: 0 6 12 …
 *   begin        a b a a b a a b …      (ties go to the lower number)
 *
 * Idle time earns no service: an account that had no waiting request joins at the current
 * virtual time if its own is earlier. */

/* Returns the smaller of two limits; 0 is no limit. */
static apr_uint32_t smaller(apr_uint32_t a, apr_uint32_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* Returns the cap in permille of one processor; 0: no cap. */
static apr_uint32_t cap_of(const vl_fair_account_t *f)
{
    return smaller(f->limits.cpu * 10, f->part.cpu_permille);
}

int vl_fair_is_within_bounds(const vl_queue_t *q, apr_uint32_t account)
{
    const vl_fair_account_t *f = &q->accounts[account];
    apr_uint32_t concurrency = smaller(f->limits.concurrency, f->part.concurrency);

    return (!concurrency || f->running < concurrency + f->idle)
           && (!cap_of(f) || f->credit_us > 0);
}

static void count_load(vl_queue_t *q, apr_uint32_t account)
{
    vl_queue_head_t *head = q->head;
    vl_fair_account_t *f = &q->accounts[account];
    const vl_fair_account_t *heaviest = head->heaviest ? &q->accounts[head->heaviest - 1] : f;
    apr_uint32_t asleep = head->by_duty ? f->asleep : 0;
    apr_uint32_t awake = f->running > asleep ? f->running - asleep : 0;
    apr_uint32_t load = awake * vl_fair_duty(q, account);

    head->load += (apr_uint64_t)load - f->load;
    f->load = load;
    if (load && (!head->heaviest
                 || (apr_uint64_t)heaviest->load * f->weight_milli
                    < (apr_uint64_t)load * heaviest->weight_milli))
        head->heaviest = account + 1;
}

/* Returns the running account whose tag is latest, as far as known, or NULL. */
static const vl_fair_account_t *ahead_of(const vl_queue_t *q)
{
    const vl_fair_account_t *ahead = q->head->ahead ? &q->accounts[q->head->ahead - 1] : NULL;

    return ahead && ahead->running ? ahead : NULL;
}

/* Restores the sums and the heap after any change of an account. */
static void update(vl_queue_t *q, apr_uint32_t account)
{
    vl_fair_account_t *f = &q->accounts[account];
    const vl_fair_account_t *ahead = ahead_of(q);
    apr_uint32_t active_milli = f->running || f->waiting ? f->weight_milli : 0;

    q->head->active += (active_milli != 0) - (f->active_milli != 0);
    q->head->active_milli += (apr_uint64_t)active_milli - f->active_milli;
    f->active_milli = active_milli;
    if (f->running && (!ahead || VL_FAIR_AFTER(f->fair.tag, ahead->fair.tag) > 0))
        q->head->ahead = account + 1;
    count_load(q, account);
    /* Its load may have fallen below that of an account whose requests are long. */
    if (q->head->heaviest == account + 1 && ahead && ahead != f)
        count_load(q, (apr_uint32_t)(ahead - q->accounts));
    f->fair.order = account;
    if (f->waiting && vl_fair_is_within_bounds(q, account))
        heap_put(&q->head->heap, &f->fair);
    else
        heap_remove(&q->head->heap, &f->fair);
}

/* Returns by how much us of CPU time advance the account's tag. */
static apr_int64_t advance(const vl_fair_account_t *f, apr_uint64_t us)
{
    return VL_FAIR_ADVANCE((apr_int64_t)us * 1000, f->weight_milli);
}

static void charge(vl_fair_account_t *f, apr_uint64_t us)
{
    f->fair.tag += (apr_uint64_t)advance(f, us);
    f->served_us += (apr_int64_t)us;
    if (cap_of(f))
        f->credit_us -= (apr_int64_t)us;
}

static apr_int64_t most_credit(const vl_fair_account_t *f)
{
    return (apr_int64_t)VL_CREDIT_US * cap_of(f) / 1000;
}

static void refund(const vl_queue_t *q, vl_fair_account_t *f, apr_uint64_t us)
{
    f->served_us -= (apr_int64_t)us;
    move_tag(&f->fair.tag, -advance(f, us),
             q->head->vtime - (apr_uint64_t)advance(f, VL_REFUND_US));
    if (!cap_of(f))
        return;
    f->credit_us += (apr_int64_t)us;
    if (f->credit_us > most_credit(f))
        f->credit_us = most_credit(f);
}

/* An account without waiting requests does not fall behind the current virtual time. */
static void catch_up(const vl_queue_t *q, vl_fair_account_t *f)
{
    if (!f->waiting)
        raise_tag(&f->fair.tag, q->head->vtime);
}

void vl_fair_set_limits(vl_queue_t *q, apr_uint32_t account, const vl_limits_t *limits)
{
    vl_fair_account_t *f = &q->accounts[account];
    apr_uint32_t cap = cap_of(f);

    f->limits = *limits;
    f->weight_milli = f->part.weight_milli ? f->part.weight_milli : limits->weight * 1000;
    if (cap_of(f) != cap)
        f->credit_us = most_credit(f);
    if (!f->estimate_us)
        f->estimate_us = 1;
    update(q, account);
}

void vl_fair_set_part(vl_queue_t *q, apr_uint32_t account, const vl_part_t *part)
{
    vl_fair_account_t *f = &q->accounts[account];
    int had_cap = cap_of(f) != 0;

    f->part = *part;
    f->weight_milli = part->weight_milli ? part->weight_milli : f->limits.weight * 1000;
    if (!had_cap || f->credit_us > most_credit(f))
        f->credit_us = most_credit(f);
    update(q, account);
}

vl_limits_t vl_fair_limits(const vl_queue_t *q, apr_uint32_t account)
{
    const vl_fair_account_t *f = &q->accounts[account];
    vl_limits_t limits = f->limits;

    limits.concurrency = smaller(limits.concurrency, f->part.concurrency);
    return limits;
}

int vl_fair_is_capped(const vl_queue_t *q, apr_uint32_t account)
{
    return cap_of(&q->accounts[account]) != 0;
}

apr_uint64_t vl_fair_backlog(const vl_queue_t *q, apr_uint32_t account, apr_int64_t now_us)
{
    const vl_fair_account_t *f = &q->accounts[account];

    return f->waiting && now_us > f->waiting_since_us
           ? f->backlog_us + (apr_uint64_t)(now_us - f->waiting_since_us) : f->backlog_us;
}

void vl_fair_credit(vl_queue_t *q, apr_uint32_t account, apr_uint64_t passed_us)
{
    vl_fair_account_t *f = &q->accounts[account];

    f->credit_us += (apr_int64_t)(passed_us * cap_of(f) / 1000);
    if (f->credit_us > most_credit(f))
        f->credit_us = most_credit(f);
    update(q, account);
}

void vl_fair_charge(vl_queue_t *q, apr_uint32_t account, apr_int64_t us)
{
    vl_fair_account_t *f = &q->accounts[account];

    if (us >= 0)
        charge(f, (apr_uint64_t)us);
    else
        refund(q, f, (apr_uint64_t)-us);
    /* What a long request has used while none waited is no credit of later ones. */
    if (!q->head->heap.length)
        raise_tag(&q->head->vtime, f->fair.tag);
    update(q, account);
}

/* Counts waiting requests, and the time in which there are any. The counts are atomic, because
 * they may be read without the lock. */
static void count_waiting(vl_queue_t *q, vl_fair_account_t *f, int more)
{
    vl_queue_head_t *head = q->head;

    if (!f->waiting)
        f->waiting_since_us = vl_clock_us();
    __atomic_store_n(&f->waiting, f->waiting + (apr_uint32_t)more, __ATOMIC_RELAXED);
    __atomic_store_n(&head->waiting, head->waiting + (apr_uint32_t)more, __ATOMIC_RELAXED);
    if (!f->waiting)
        f->backlog_us += (apr_uint64_t)(vl_clock_us() - f->waiting_since_us);
}

void vl_fair_arrive(vl_queue_t *q, apr_uint32_t account)
{
    catch_up(q, &q->accounts[account]);
    count_waiting(q, &q->accounts[account], 1);
    update(q, account);
}

void vl_fair_abandon(vl_queue_t *q, apr_uint32_t account, apr_uint32_t n)
{
    count_waiting(q, &q->accounts[account], -(int)n);
    update(q, account);
}

void vl_fair_set_duty(vl_queue_t *q, apr_uint32_t account, apr_uint32_t duty,
                      apr_uint32_t asleep, apr_uint32_t idle)
{
    vl_fair_account_t *f = &q->accounts[account];

    f->duty = duty;
    f->asleep = asleep;
    f->idle = idle;
    update(q, account);
}

apr_uint32_t vl_fair_free(const vl_queue_t *q)
{
    apr_uint64_t all = (apr_uint64_t)q->head->slots * 1000;

    if (all <= q->head->load)
        return 0;
    all -= q->head->load;
    return all > APR_UINT32_MAX ? APR_UINT32_MAX : (apr_uint32_t)all;
}

vl_standing_t vl_fair_standing(const vl_queue_t *q, apr_uint32_t account)
{
    const vl_queue_head_t *head = q->head;
    vl_standing_t s = { .within_bounds = vl_fair_is_within_bounds(q, account),
                        .duty = vl_fair_duty(q, account), .left = vl_fair_free(q) };
    const vl_fair_account_t *ahead = ahead_of(q);

    s.behind = ahead ? VL_FAIR_AFTER(ahead->fair.tag, q->accounts[account].fair.tag) : 0;
    if (head->heaviest) {
        s.heaviest = &q->accounts[head->heaviest - 1];
        s.heaviest_duty = vl_fair_duty(q, head->heaviest - 1);
    }
    return s;
}

apr_uint32_t vl_fair_next_where(vl_queue_t *q, vl_fair_filter_fn filter,
                                void *data)
{
    vl_fair_heap_t *heap = &q->head->heap;
    apr_uint32_t account, found = VL_NO_ACCOUNT, set_aside = 0;

    /* An account that cannot be served is removed from the heap and stored in the cell that its
     * removal frees behind the heap. All of them are added again afterwards. Nearly always
     * there is none. */
    while (found == VL_NO_ACCOUNT && heap->length) {
        account = (apr_uint32_t)((const vl_fair_account_t *)heap->at[0] - q->accounts);
        if (filter(data, account)) {
            found = account;
            continue;
        }
        if (set_aside == SET_ASIDE_MOST && !vl_fair_free(q))
            break;
        heap_remove(heap, &q->accounts[account].fair);
        heap->at[heap->length] = &q->accounts[account].fair;
        set_aside++;
    }
    for (; set_aside; set_aside--)
        heap_put(heap, heap->at[heap->length]);
    return found;
}

static apr_uint32_t begin_request(vl_queue_t *q, apr_uint32_t account)
{
    vl_fair_account_t *f = &q->accounts[account];
    apr_uint32_t charged = f->estimate_us;

    raise_tag(&q->head->vtime, f->fair.tag);
    charge(f, charged);
    if (!f->running++)
        f->ended_us = vl_clock_us();
    q->head->running++;
    update(q, account);
    return charged;
}

apr_uint32_t vl_fair_begin(vl_queue_t *q, apr_uint32_t account)
{
    count_waiting(q, &q->accounts[account], -1);
    return begin_request(q, account);
}

apr_uint32_t vl_fair_begin_now(vl_queue_t *q, apr_uint32_t account)
{
    catch_up(q, &q->accounts[account]);
    return begin_request(q, account);
}

void vl_fair_cancel(vl_queue_t *q, apr_uint32_t account, apr_uint32_t charged)
{
    refund(q, &q->accounts[account], charged);
    vl_fair_forget(q, account, 1);
}

void vl_fair_end(vl_queue_t *q, apr_uint32_t account, apr_uint32_t charged,
                 apr_uint64_t cost)
{
    vl_fair_account_t *f = &q->accounts[account];
    apr_uint32_t average;

    if (cost >= charged)
        charge(f, cost - charged);
    else
        refund(q, f, charged - cost);
    average = vl_average(f->estimate_us, cost);
    __atomic_store_n(&f->estimate_us, average ? average : 1, __ATOMIC_RELAXED);
    vl_fair_forget(q, account, 1);
}

void vl_fair_forget(vl_queue_t *q, apr_uint32_t account, apr_uint32_t n)
{
    q->accounts[account].ended_us = vl_clock_us();
    q->accounts[account].running -= n;
    q->head->running -= n;
    update(q, account);
}

/* --- the table of clients --------------------------------------------------------------- */

static vl_client_entry_t *first_way(const vl_clients_t *clients, apr_uint64_t key)
{
    apr_uint64_t set = (key >> 1) % (VL_CLIENTS_SIZE / VL_CLIENTS_WAYS);

    return (vl_client_entry_t *)&clients->entries[set * VL_CLIENTS_WAYS];
}

static vl_client_entry_t *entry_of(const vl_clients_t *clients, apr_uint64_t key)
{
    vl_client_entry_t *entry = first_way(clients, key);
    int i;

    for (i = 0; i < VL_CLIENTS_WAYS; i++, entry++) {
        if (key && __atomic_load_n(&entry->key, __ATOMIC_RELAXED) == key)
            return entry;
    }
    return NULL;
}

static apr_uint32_t tick_of(apr_int64_t now_us)
{
    return (apr_uint32_t)(now_us / VL_CLIENTS_TICK_US);
}

/* Returns the ticks since the entry's `charged`. */
static apr_uint32_t ticks_since(const vl_client_entry_t *entry, apr_uint32_t tick)
{
    return (tick - (__atomic_load_n(&entry->charged, __ATOMIC_RELAXED) >> 1)) & 0x7fffffff;
}

apr_int64_t vl_fair_client_idle(const vl_client_entry_t *entry, apr_int64_t now_us)
{
    return (apr_int64_t)ticks_since(entry, tick_of(now_us)) * VL_CLIENTS_TICK_US;
}

/* Returns the client's entry. Without one it takes a free entry, or that of the client that has waited longest
 * to be charged again: the others of its site have passed it, so it has nothing to pay for. Returns NULL if
 * another process was quicker, or if the site does not share by client. */
static vl_client_entry_t *make_entry(vl_clients_t *clients, apr_uint32_t account,
                                     const vl_client_id_t *id, apr_uint64_t tag,
                                     apr_uint32_t tick)
{
    vl_client_entry_t *entry = entry_of(clients, id->key), *oldest;
    apr_uint64_t key;
    int i;

    if (entry || !id->key)
        return entry;
    entry = oldest = first_way(clients, id->key);
    /* One that was charged longer ago than the other, or in the same tick and less in all. */
    for (i = 0; i < VL_CLIENTS_WAYS && oldest->key; i++, entry++) {
        apr_uint32_t ticks = ticks_since(entry, tick), most = ticks_since(oldest, tick);

        if (!entry->key || ticks > most || (ticks == most && entry->cpu_us < oldest->cpu_us))
            oldest = entry;
    }
    key = __atomic_load_n(&oldest->key, __ATOMIC_RELAXED);
    if (!__atomic_compare_exchange_n(&oldest->key, &key, id->key, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return NULL;
    __atomic_store_n(&oldest->tag, tag, __ATOMIC_RELAXED);
    __atomic_store_n(&oldest->cpu_us, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&oldest->requests, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&oldest->charged, NO_REQUEST(tick), __ATOMIC_RELAXED);
    oldest->account = account;
    oldest->class_no = id->class_no;
    oldest->band = id->band;
    memcpy(oldest->prefix, id->prefix, VL_PREFIX_SIZE);
    return oldest;
}

/* Records that a request of the client has ended in this tick. Returns 1 if it is the first one
 * in this tick that repeats one of this tick or the one before. */
static int repeats(vl_client_entry_t *entry, apr_uint32_t tick)
{
    apr_uint32_t is_repeated = ticks_since(entry, tick) <= 1;

    if (__atomic_load_n(&entry->charged, __ATOMIC_RELAXED) == (tick << 1 | 1))
        return 0;
    __atomic_store_n(&entry->charged, tick << 1 | is_repeated, __ATOMIC_RELAXED);
    return (int)is_repeated;
}

int vl_fair_find_client(const vl_clients_t *clients, apr_uint64_t key,
                        vl_client_entry_t *ret_entry)
{
    const vl_client_entry_t *entry = entry_of(clients, key);

    if (entry)
        *ret_entry = *entry;
    return entry != NULL;
}

apr_uint32_t vl_fair_top_clients(const vl_clients_t *clients, apr_uint32_t account,
                                 vl_client_entry_t *ret_entries, apr_uint32_t max)
{
    apr_uint32_t i, n = 0, at;

    for (i = 0; i < VL_CLIENTS_SIZE; i++) {
        const vl_client_entry_t *entry = &clients->entries[i];

        if (!__atomic_load_n(&entry->key, __ATOMIC_RELAXED) || entry->account != account)
            continue;
        for (at = n; at && ret_entries[at - 1].cpu_us < entry->cpu_us; at--) {
            if (at < max)
                ret_entries[at] = ret_entries[at - 1];
        }
        if (at < max)
            ret_entries[at] = *entry;
        if (n < max)
            n++;
    }
    return n;
}

void vl_fair_forget_clients(vl_clients_t *clients, apr_uint32_t account)
{
    apr_uint32_t i;

    for (i = 0; i < VL_CLIENTS_SIZE; i++) {
        if (clients->entries[i].account == account)
            __atomic_store_n(&clients->entries[i].key, 0, __ATOMIC_RELAXED);
    }
}

/* --- when clients give up ------------------------------------------------------ */

static int is_leaving(const vl_inner_t *inner, apr_int64_t now_us)
{
    apr_int64_t gone_us = GET(inner->gone_us);

    return gone_us && now_us - gone_us < GONE_US;
}

void vl_fair_gone(vl_inner_t *inner, apr_int64_t waited_us)
{
    apr_int64_t now_us = vl_clock_us();
    apr_int64_t patience = GET(inner->patience_us);

    if (waited_us < PATIENCE_MIN_US)
        return;
    /* The weights make it settle where one client in nine is less patient. */
    if (!is_leaving(inner, now_us)) {
        patience = waited_us;
        SET(inner->leaving_us, now_us);
    }
    else if (waited_us < patience)
        patience -= (patience - waited_us) / 4;
    else
        patience += (waited_us - patience) / 32;
    SET(inner->patience_us, patience);
    SET(inner->gone_us, now_us);
}

apr_int64_t vl_fair_patience(const vl_inner_t *inner)
{
    apr_int64_t gone_us = GET(inner->gone_us);
    apr_int64_t leaving_us = GET(inner->leaving_us);

    return is_leaving(inner, vl_clock_us()) && gone_us - leaving_us >= PATIENCE_MIN_US
           ? GET(inner->patience_us) * 3 / 4 : 0;
}

/* --- tags ---------------------------------------------------------------------- */

void vl_fair_configure(vl_inner_t *inner, const apr_uint32_t *weights,
                       apr_uint32_t known_share)
{
    int i;

    for (i = 0; i < VL_CLASSES_MAX; i++)
        SET(inner->classes[i].weight, weights[i]);
    SET(inner->known_share, known_share);
}

int vl_fair_contended(const vl_inner_t *inner)
{
    apr_int64_t since_us = GET(inner->backlog_us);

    return since_us && vl_clock_us() - since_us < BACKLOG_US;
}

static struct vl_band_t *band_of(vl_inner_t *inner, const vl_client_id_t *id)
{
    return &inner->classes[id->class_no].band[id->band];
}

/* Returns the tag of the class, the band or the client, at least the virtual time of its level.
 * joined: the tag that the client has at least. */
static apr_uint64_t class_tag(const vl_inner_t *inner, unsigned class_no)
{
    return later(GET(inner->classes[class_no].tag),
                         GET(inner->vtime));
}

static apr_uint64_t band_tag(const vl_inner_t *inner, unsigned class_no, unsigned band)
{
    const struct vl_class_t *c = &inner->classes[class_no];

    return later(GET(c->band[band].tag), GET(c->vtime));
}

static apr_uint64_t client_tag(const vl_shm_t *shm, apr_uint64_t key, apr_uint64_t joined)
{
    const vl_client_entry_t *entry = entry_of(shm->clients, key);

    return entry ? later(GET(entry->tag), joined) : joined;
}

/* Returns the tag that a client has at least when it begins to wait: the present time of its
 * level, or 10 ms of CPU time less if it sent requests in the last tick or the one before. What
 * such a client did not use while it had no request waiting is its own, or one that sends each
 * request after the last response would get less than one with many connections. */
static apr_uint64_t join(const vl_shm_t *shm, vl_inner_t *inner, const vl_client_id_t *id)
{
    const struct vl_band_t *band = band_of(inner, id);
    const vl_client_entry_t *entry = entry_of(shm->clients, id->key);
    apr_uint64_t vtime = GET(band->vtime);
    int is_recent = entry && (apr_uint16_t)(GET(band->tick)
                                            - (apr_uint16_t)(GET(entry->charged) >> 1)) <= 1;

    return is_recent ? vtime - (apr_uint64_t)VL_FAIR_ADVANCE(SAVED_MAX_US, 1) : vtime;
}

/* Charges one level, within the bound. us may be negative. weight 0: the site has neither
 * classes nor known clients, so the level has one member. */
static void charge_level(apr_uint64_t *tag, const apr_uint64_t *vtime, apr_int64_t us,
                         apr_uint32_t weight)
{
    apr_int64_t most;

    if (!weight)
        return;
    most = VL_FAIR_ADVANCE(LAG_MAX_US, weight);
    move_tag(tag, VL_FAIR_ADVANCE(us, weight),
             GET(*vtime) + (apr_uint64_t)(us < 0 ? -most : most));
}

/* Charges the class, the band and, if it has an entry, the client. */
static void charge_levels(vl_inner_t *inner, const vl_client_id_t *id, vl_client_entry_t *entry,
                          apr_int64_t us)
{
    struct vl_class_t *c = &inner->classes[id->class_no];
    struct vl_band_t *band = band_of(inner, id);
    apr_uint32_t known = GET(inner->known_share);

    charge_level(&c->tag, &inner->vtime, us, GET(c->weight));
    charge_level(&band->tag, &c->vtime, us, id->band == VL_BAND_KNOWN ? known : 100 - known);
    if (entry)
        charge_level(&entry->tag, &band->vtime, us, 1);
}

/* The client is granted a slot: advances the virtual times to its tags, and charges us in
 * advance. others: clients of its band that wait in this process, itself included. */
static void begin_client(vl_shm_t *shm, apr_uint32_t account, const vl_client_id_t *id,
                  apr_uint64_t joined, apr_uint32_t us, apr_uint32_t others, apr_int64_t now_us)
{
    vl_inner_t *inner = &shm->inner[account];
    struct vl_class_t *c = &inner->classes[id->class_no];
    struct vl_band_t *band = band_of(inner, id);
    apr_uint64_t of_class = class_tag(inner, id->class_no);
    apr_uint64_t of_band = band_tag(inner, id->class_no, id->band);
    apr_uint64_t of_client = client_tag(shm, id->key, joined);
    vl_client_entry_t *entry;

    raise_tag(&c->tag, of_class);
    raise_tag(&inner->vtime, of_class);
    raise_tag(&band->tag, of_band);
    raise_tag(&c->vtime, of_band);
    raise_tag(&band->vtime, of_client);
    SET(band->waiting, (apr_uint16_t)(others < 65535 ? others : 65535));
    entry = make_entry(shm->clients, vl_segment_identity(shm, account), id, of_client,
                                  tick_of(now_us));
    if (entry)
        raise_tag(&entry->tag, of_client);
    charge_levels(inner, id, entry, us);
}

/* Begins a new tick of the band, unless another process has. */
static void turn_to(struct vl_band_t *band, apr_uint16_t tick)
{
    apr_uint16_t before = GET(band->tick);

    if (before == tick
        || !__atomic_compare_exchange_n(&band->tick, &before, tick, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        return;
    SET(band->repeated_before,
        (apr_uint16_t)((apr_uint16_t)(tick - before) == 1 ? GET(band->repeated) : 0));
    SET(band->repeated, 0);
}

/* Returns how many clients are active, at least 1. Those that wait are known of one process, and a
 * client that sends its next request when it has a response does not wait all the time. */
static apr_uint32_t active_clients(const struct vl_band_t *band)
{
    apr_uint32_t active = 1, n[] = { GET(band->waiting), GET(band->repeated),
                                     GET(band->repeated_before) };
    int i;

    for (i = 0; i < 3; i++)
        active = n[i] > active ? n[i] : active;
    return active;
}

void vl_fair_charge_client(vl_shm_t *shm, apr_uint32_t account, const vl_client_id_t *id,
                           apr_uint64_t us, apr_uint32_t requests)
{
    vl_inner_t *inner = &shm->inner[account];
    struct vl_band_t *band = band_of(inner, id);
    vl_client_entry_t *entry;
    apr_uint64_t saved;
    apr_uint32_t tick;

    if (!GET(inner->backlog_us))
        return;
    if (GET(shm->queue.accounts[account].waiting))
        SET(inner->backlog_us, vl_clock_us());
    else if (!vl_fair_contended(inner))
        return;
    tick = tick_of(vl_clock_us());
    saved = (apr_uint64_t)VL_FAIR_ADVANCE(SAVED_MAX_US, 1);
    entry = make_entry(shm->clients, vl_segment_identity(shm, account), id,
                                  GET(band->vtime) - saved, tick);
    if (entry && requests) {
        turn_to(band, (apr_uint16_t)tick);
        if (repeats(entry, tick) && GET(band->repeated) < 65535)
            ADD(band->repeated, 1);
    }
    else if (entry && ticks_since(entry, tick) > 2)
        SET(entry->charged, NO_REQUEST(tick));
    ADD(band->vtime, (apr_uint64_t)VL_FAIR_ADVANCE((apr_int64_t)us, active_clients(band)));
    ADD(band->cpu_us, us);
    ADD(band->requests, requests);
    if (entry) {
        raise_tag(&entry->tag, GET(band->vtime) - saved);
        ADD(entry->cpu_us, us);
        ADD(entry->requests, requests);
    }
    charge_levels(inner, id, entry, (apr_int64_t)us);
}

void vl_fair_end_client(vl_shm_t *shm, const vl_ticket_t *ticket, const vl_client_id_t *id,
                        apr_uint64_t us)
{
    const vl_client_id_t *waited_as = ticket->client_us ? &ticket->client : NULL;

    if (waited_as)
        charge_levels(&shm->inner[ticket->account], waited_as,
                      entry_of(shm->clients, waited_as->key),
                      -(apr_int64_t)ticket->client_us);
    if (!id)
        return;
    vl_fair_charge_client(shm, ticket->account, id, us, 1);
    /* The request may turn out to be from another client, or of another class, than it waited as.
     * Both are charged, or waiting under another name would be free. */
    if (waited_as && (waited_as->key != id->key || waited_as->class_no != id->class_no
                      || waited_as->band != id->band))
        vl_fair_charge_client(shm, ticket->account, waited_as, us, 0);
}

/* --- what the other processes are told ------------------------------------------ */

/* Returns what this child tells of its waiters, or NULL if it has no column. The column may have
 * what a child told that has died. */
static vl_waiting_t *mine(const vl_shm_t *shm, apr_uint32_t account)
{
    vl_waiting_t *mine;

    if (shm->self == NO_CHILD)
        return NULL;
    mine = &shm->waiting[shm->self][account];
    if (mine->pid != shm->children[shm->self].pid) {
        memset(mine, 0, sizeof(*mine));
        mine->pid = shm->children[shm->self].pid;
    }
    return mine;
}

/* Returns the number of columns to look at: none if the account has no waiter, so that a page
 * of many sites does not read all their cells. */
static apr_uint32_t columns_with_waiters(const vl_shm_t *shm, apr_uint32_t account)
{
    return GET(shm->queue.accounts[account].waiting) || GET(shm->accounts[account].deferred)
           ? GET(shm->head->columns) : 0;
}

/* Returns what the child tells, or NULL if it has no waiter of the account. */
static const vl_waiting_t *waiting_in(const vl_shm_t *shm, apr_uint32_t child,
                                      apr_uint32_t account)
{
    const cell_t *cell = &shm->cells[child][account];
    const vl_waiting_t *waiting = &shm->waiting[child][account];

    /* The cell is read first: it saves touching the memory behind `waiting`. */
    if (!GET(cell->waiting) && !GET(cell->deferred))
        return NULL;
    return shm->children[child].pid && waiting->pid == shm->children[child].pid ? waiting
                                                                                : NULL;
}

void vl_fair_read_clients(const vl_shm_t *shm, apr_uint32_t account, vl_inside_t *ret_inside)
{
    const vl_inner_t *inner = &shm->inner[account];
    apr_uint32_t child, columns = columns_with_waiters(shm, account);
    unsigned c;

    memset(ret_inside, 0, sizeof(*ret_inside));
    ret_inside->late = GET(inner->late);
    for (c = 0; c < VL_CLASSES_MAX; c++) {
        const struct vl_band_t *known = &inner->classes[c].band[VL_BAND_KNOWN];
        const struct vl_band_t *strangers = &inner->classes[c].band[VL_BAND_STRANGERS];
        vl_inside_class_t *ret = &ret_inside->classes[c];

        ret->weight = GET(inner->classes[c].weight);
        ret->known_requests = GET(known->requests);
        ret->known_cpu_us = GET(known->cpu_us);
        ret->requests = GET(strangers->requests) + ret->known_requests;
        ret->cpu_us = GET(strangers->cpu_us) + ret->known_cpu_us;
    }
    for (child = 0; child < columns; child++) {
        const vl_waiting_t *waiting = waiting_in(shm, child, account);

        if (!waiting)
            continue;
        ret_inside->clients += GET(waiting->clients);
        for (c = 0; c < VL_CLASSES_MAX; c++) {
            ret_inside->classes[c].waiting += GET(waiting->classes[c]);
            ret_inside->waiting += GET(waiting->classes[c]);
        }
    }
}

/* Returns how many waiters the client has in the child processes in which it has most. */
static apr_uint32_t waiters_of(const vl_shm_t *shm, apr_uint32_t account, apr_uint64_t key)
{
    apr_uint32_t child, n = 0, columns = columns_with_waiters(shm, account);

    for (child = 0; child < columns; child++) {
        const vl_waiting_t *waiting = waiting_in(shm, child, account);

        if (waiting && GET(waiting->most_key) == key)
            n += GET(waiting->most);
    }
    return n;
}

apr_uint32_t vl_fair_most_waiters(const vl_shm_t *shm, apr_uint32_t account,
                                  apr_uint64_t *ret_key)
{
    apr_uint32_t child, most = 0, columns = columns_with_waiters(shm, account);

    *ret_key = 0;
    for (child = 0; child < columns; child++) {
        const vl_waiting_t *waiting = waiting_in(shm, child, account);
        apr_uint64_t key = waiting ? GET(waiting->most_key) : 0;
        apr_uint32_t n = key && key != *ret_key ? waiters_of(shm, account, key) : 0;

        if (n > most) {
            most = n;
            *ret_key = key;
        }
    }
    return most;
}

/* Returns the tags of the first waiter that the child has told. */
static vl_candidate_t told_by(const vl_shm_t *shm, apr_uint32_t account, const vl_first_t *first)
{
    const vl_inner_t *inner = &shm->inner[account];
    unsigned class_no = GET(first->class_no);
    unsigned band = GET(first->band);

    return (vl_candidate_t){
        .class_tag = class_tag(inner, class_no), .band_tag = band_tag(inner, class_no, band),
        .client_tag = client_tag(shm, GET(first->key), GET(first->joined)),
        .since_us = GET(first->since_us)
    };
}

void vl_fair_candidate(const vl_shm_t *shm, apr_uint32_t account, apr_uint32_t child,
                       vl_candidate_t *ret_candidate)
{
    const vl_first_t *first = &shm->cells[child][account].first;
    apr_uint64_t told = GET(first->tag);

    *ret_candidate = told_by(shm, account, first);
    ret_candidate->child = child;
    /* If its client has been charged since the child told of it, and other clients wait there too,
     * one of them may be first now, with a tag that is not earlier than that of the first was
     * then. */
    if (VL_FAIR_AFTER(told, ret_candidate->client_tag) < 0
        && GET(shm->waiting[child][account].clients) > 1)
        ret_candidate->client_tag = told;
}

/* Compares the tags of one level: -1 if a is earlier, 1 if b is, 0 if they count as equal. */
static int compare_tags(apr_uint64_t a, apr_uint64_t b, apr_uint32_t weight)
{
    apr_int64_t after = VL_FAIR_AFTER(a, b), equal = VL_FAIR_ADVANCE(EQUAL_US, weight);

    return after < -equal ? -1 : after > equal;
}

int vl_fair_is_before(const vl_candidate_t *a, const vl_candidate_t *b)
{
    /* Weights of a class and of a band that are usual. */
    int order = compare_tags(a->class_tag, b->class_tag, 100);

    if (!order)
        order = compare_tags(a->band_tag, b->band_tag, 50);
    if (!order)
        order = compare_tags(a->client_tag, b->client_tag, 1);
    return order ? order < 0 : a->since_us < b->since_us;
}

/* The child needs no lock to tell its first waiter, so each value is stored and read atomically. */
void vl_fair_granted(const vl_shm_t *shm, apr_uint32_t account, apr_uint32_t child,
                     apr_uint32_t charged_us)
{
    vl_first_t *first = &shm->cells[child][account].first;

    if (GET(first->key)) {
        apr_uint64_t tag = told_by(shm, account, first).client_tag
                           + (apr_uint64_t)VL_FAIR_ADVANCE(charged_us, 1);

        SET(first->joined, tag);
        SET(first->tag, tag);
    }
    SET(first->since_us, vl_clock_us());
}

/* --- the clients of an account that wait in this child ---------------------------- */

/* Waiters of one client of an account. */
typedef struct wait_client_t {
    vl_fair_t fair;                 /* first member: the heap has pointers to it. The client's
                                     * tag may be larger by now */
    vl_client_id_t id;
    apr_uint32_t account;
    struct wait_client_t *next;     /* with the same hash */
    APR_RING_HEAD(waiters_t, vl_waiter_t) waiters;
    vl_waiter_t *in_time;           /* the first one that is not late; NULL: all are */
    APR_RING_ENTRY(wait_client_t) late_link;
    int is_late;                    /* 1: all are, it is in `late` and not in the heap */
    apr_uint32_t count;
    apr_uint64_t joined;            /* see join() */
} wait_client_t;

/* Clients of one band of a class. Those with a waiter in time are in a heap. */
typedef struct band_t {
    vl_fair_heap_t heap;
    apr_uint32_t size;              /* room in the heap */
    APR_RING_HEAD(late_t, wait_client_t) late;
    apr_uint32_t nlate;
    apr_uint32_t grants;            /* since one went to a late client */
} band_t;

/* The queue of an account. It exists if and only if it has a waiter, and is then in
 * `busy`. */
typedef struct account_queue_t {
    APR_RING_ENTRY(account_queue_t) link;
    APR_RING_HEAD(account_waiters_t, vl_waiter_t) waiters;     /* by arrival */
    apr_uint32_t account;
    apr_uint32_t count;
    unsigned classes;               /* the highest class that has had a waiter, plus 1 */
    band_t bands[VL_CLASSES_MAX][VL_BANDS];
} account_queue_t;

struct vl_queues_t {
    vl_shm_t *shm;
    account_queue_t **queues;        /* by account */
    APR_RING_HEAD(busy_head_t, account_queue_t) busy;
    apr_uint64_t order;             /* of clients that began to wait */
    wait_client_t *hash[HASH_SIZE];
    account_queue_t *spare_queue;   /* of the last queue that ended */
    wait_client_t *spare_client;
};

static void *zeroed(apr_size_t n, apr_size_t size)
{
    void *memory = calloc(n, size);

    if (!memory)
        abort();
    return memory;
}

static void free_queue(account_queue_t *queue)
{
    apr_uint32_t c, b;

    for (c = 0; c < VL_CLASSES_MAX; c++) {
        for (b = 0; b < VL_BANDS; b++)
            free(queue->bands[c][b].heap.at);
    }
    free(queue);
}

static apr_status_t free_all(void *data)
{
    vl_queues_t *q = data;
    wait_client_t *client;
    account_queue_t *queue;
    apr_uint32_t i;

    for (i = 0; i < HASH_SIZE; i++) {
        while ((client = q->hash[i])) {
            q->hash[i] = client->next;
            free(client);
        }
    }
    while (!APR_RING_EMPTY(&q->busy, account_queue_t, link)) {
        queue = APR_RING_FIRST(&q->busy);
        APR_RING_REMOVE(queue, link);
        free_queue(queue);
    }
    if (q->spare_queue)
        free_queue(q->spare_queue);
    free(q->spare_client);
    return APR_SUCCESS;
}

vl_queues_t *vl_fair_create(apr_pool_t *p, vl_shm_t *shm, apr_uint32_t accounts)
{
    vl_queues_t *q = vl_pages_make(p, 1, sizeof(*q));

    q->queues = vl_pages_make(p, accounts, sizeof(account_queue_t *));
    q->shm = shm;
    APR_RING_INIT(&q->busy, account_queue_t, link);
    apr_pool_cleanup_register(p, q, free_all, apr_pool_cleanup_null);
    return q;
}

static band_t *queue_band(account_queue_t *queue, const wait_client_t *client)
{
    return &queue->bands[client->id.class_no][client->id.band];
}

static void enter_heap(band_t *band, wait_client_t *client)
{
    if (band->heap.length == band->size) {
        band->size = band->size ? band->size * 2 : 16;
        band->heap.at = realloc(band->heap.at, band->size * sizeof(vl_fair_t *));
        if (!band->heap.at)
            abort();
    }
    heap_put(&band->heap, &client->fair);
}

static void leave_late(band_t *band, wait_client_t *client)
{
    APR_RING_REMOVE(client, late_link);
    band->nlate--;
    client->is_late = 0;
}

/* The client has a waiter that is in time. */
static void be_in_time(band_t *band, wait_client_t *client, vl_waiter_t *first)
{
    client->in_time = first;
    if (!client->is_late)
        return;
    leave_late(band, client);
    enter_heap(band, client);
}

/* Returns the link to the client in its chain of the hash. Without such a client it is the end of
 * the chain. */
static wait_client_t **find_client(vl_queues_t *q, apr_uint32_t account, const vl_client_id_t *id)
{
    apr_uint64_t hash = id->key ? id->key >> 1 : (account * VL_CLASSES_MAX + id->class_no)
                                                 * VL_BANDS + id->band;
    wait_client_t **at = &q->hash[hash % HASH_SIZE];

    while (*at && ((*at)->id.key != id->key || (*at)->account != account
                   || (*at)->id.class_no != id->class_no || (*at)->id.band != id->band))
        at = &(*at)->next;
    return at;
}

/* Counts, and tells the other processes, that the account has one more client that waits. */
static wait_client_t *client_of(vl_queues_t *q, account_queue_t *queue, const vl_client_id_t *id)
{
    wait_client_t **at = find_client(q, queue->account, id), *client = *at;
    vl_waiting_t *told;

    if (client)
        return client;
    client = q->spare_client ? q->spare_client : zeroed(1, sizeof(*client));
    q->spare_client = NULL;
    memset(client, 0, sizeof(*client));
    client->id = *id;
    client->account = queue->account;
    APR_RING_INIT(&client->waiters, vl_waiter_t, client_link);
    *at = client;
    client->joined = join(q->shm, &q->shm->inner[queue->account], id);
    client->fair.tag = client_tag(q->shm, id->key, client->joined);
    client->fair.order = q->order++;
    enter_heap(queue_band(queue, client), client);
    told = id->key ? mine(q->shm, queue->account) : NULL;
    if (told)
        SET(told->clients, told->clients + 1);
    if (queue->classes <= id->class_no)
        queue->classes = id->class_no + 1u;
    return client;
}

/* --- the queue of an account -------------------------------------------------------- */

static account_queue_t *queue_of(vl_queues_t *q, apr_uint32_t account)
{
    account_queue_t *queue = q->queues[account];
    apr_uint32_t c, b;

    if (queue)
        return queue;
    queue = q->spare_queue ? q->spare_queue : zeroed(1, sizeof(*queue));
    q->spare_queue = NULL;
    queue->account = account;
    for (c = 0; c < VL_CLASSES_MAX; c++) {
        for (b = 0; b < VL_BANDS; b++)
            APR_RING_INIT(&queue->bands[c][b].late, wait_client_t, late_link);
    }
    APR_RING_INIT(&queue->waiters, vl_waiter_t, link);
    APR_RING_INSERT_TAIL(&q->busy, queue, account_queue_t, link);
    q->queues[account] = queue;
    return queue;
}

/* Counts waiters of the client, and tells the other processes. */
static void count(vl_queues_t *q, account_queue_t *queue, wait_client_t *client, int by)
{
    vl_waiting_t *told = mine(q->shm, client->account);

    client->count += (apr_uint32_t)by;
    queue->count += (apr_uint32_t)by;
    if (!told)
        return;
    SET(told->classes[client->id.class_no], told->classes[client->id.class_no] + (apr_uint32_t)by);
    if (client->id.key && (client->count > told->most || client->id.key == told->most_key)) {
        SET(told->most, client->count);
        SET(told->most_key, client->count ? client->id.key : 0);
    }
}

/* Returns the client's waiter after this one, or NULL. */
static vl_waiter_t *next_of(wait_client_t *client, const vl_waiter_t *waiter)
{
    vl_waiter_t *next = APR_RING_NEXT(waiter, client_link);

    return next == APR_RING_SENTINEL(&client->waiters, vl_waiter_t, client_link) ? NULL : next;
}

/* Takes the waiter out of its queue. That of its client, and that of the account, end with the last one. */
static void take_out(vl_queues_t *q, vl_waiter_t *waiter)
{
    account_queue_t *queue = q->queues[waiter->account];
    wait_client_t *client = waiter->client_queue, **at;
    vl_waiting_t *told;

    if (client->in_time == waiter)
        client->in_time = next_of(client, waiter);
    APR_RING_REMOVE(waiter, link);
    APR_RING_REMOVE(waiter, client_link);
    waiter->client_queue = NULL;
    count(q, queue, client, -1);
    if (!client->count) {
        told = client->id.key ? mine(q->shm, client->account) : NULL;
        if (told)
            SET(told->clients, told->clients - 1);
        if (client->is_late)
            leave_late(queue_band(queue, client), client);
        heap_remove(&queue_band(queue, client)->heap, &client->fair);
        at = find_client(q, client->account, &client->id);
        *at = client->next;
        if (q->spare_client)
            free(client);
        else
            q->spare_client = client;
    }
    if (!queue->count) {
        APR_RING_REMOVE(queue, link);
        q->queues[queue->account] = NULL;
        if (q->spare_queue)
            free_queue(queue);
        else
            q->spare_queue = queue;
    }
}

/* --- which is next ------------------------------------------------------------------- */

static int has_clients(const band_t *band)
{
    return band->heap.length || band->nlate;
}

/* Returns the band that is next: of the class with the least tag, the one with the least tag. */
static band_t *next_band(account_queue_t *queue, const vl_inner_t *inner)
{
    band_t *best = NULL;
    apr_uint64_t least = 0;
    unsigned c;

    for (c = 0; c < queue->classes; c++) {
        band_t *strangers = &queue->bands[c][VL_BAND_STRANGERS];
        band_t *known = &queue->bands[c][VL_BAND_KNOWN];
        apr_uint64_t tag = class_tag(inner, c);

        if ((!has_clients(strangers) && !has_clients(known))
            || (best && VL_FAIR_AFTER(tag, least) >= 0))
            continue;
        least = tag;
        best = has_clients(known)
               && (!has_clients(strangers)
                   || VL_FAIR_AFTER(band_tag(inner, c, VL_BAND_KNOWN),
                                    band_tag(inner, c, VL_BAND_STRANGERS)) <= 0)
               ? known : strangers;
    }
    return best;
}

/* Returns the client that is next in the heap. Tags only grow while a client waits, so a
 * client whose tag has grown moves down when it comes to the top. */
static wait_client_t *next_client(const vl_queues_t *q, vl_fair_heap_t *heap)
{
    for (;;) {
        wait_client_t *client = (wait_client_t *)heap->at[0];
        apr_uint64_t tag = client_tag(q->shm, client->id.key, client->joined);

        if (VL_FAIR_AFTER(tag, client->fair.tag) <= 0)
            return client;
        client->fair.tag = tag;
        heap_put(heap, &client->fair);
        if (heap->at[0] == &client->fair)
            return client;
    }
}

/* Finds the client that is next in the band, and marks waiters that arrived before late_us
 * as late. Nothing is late if late_us is 0. Returns NULL if all clients are late. */
static wait_client_t *next_in_time(const vl_queues_t *q, band_t *band, apr_int64_t late_us)
{
    wait_client_t *client;

    while (!late_us && band->nlate) {
        client = APR_RING_FIRST(&band->late);
        be_in_time(band, client, APR_RING_FIRST(&client->waiters));
    }
    while (band->heap.length) {
        client = next_client(q, &band->heap);
        if (!late_us)
            client->in_time = APR_RING_FIRST(&client->waiters);
        while (client->in_time && client->in_time->since_us < late_us) {
            if (!client->in_time->was_late)
                ADD(q->shm->inner[client->account].late, 1);
            client->in_time->was_late = 1;
            client->in_time = next_of(client, client->in_time);
        }
        if (client->in_time)
            return client;
        heap_remove(&band->heap, &client->fair);
        client->is_late = 1;
        APR_RING_INSERT_TAIL(&band->late, client, wait_client_t, late_link);
        band->nlate++;
    }
    return NULL;
}

vl_waiter_t *vl_fair_first_waiter(vl_queues_t *q, apr_uint32_t account)
{
    account_queue_t *queue = q->queues[account];
    apr_int64_t patience_us;
    wait_client_t *client;
    band_t *band;

    if (!queue)
        return NULL;
    patience_us = vl_fair_patience(&q->shm->inner[account]);
    band = next_band(queue, &q->shm->inner[account]);
    client = next_in_time(q, band, patience_us ? vl_clock_us() - patience_us : 0);
    if (!client || (band->nlate && band->grants >= LATE_TURN))
        client = APR_RING_FIRST(&band->late);
    return client->is_late ? APR_RING_FIRST(&client->waiters) : client->in_time;
}

/* Tells the other children which waiter of the account is the first here. They compare the
 * arrival of the waiters themselves, not of the oldest in each child. If another client has older
 * ones in one of two children, that child would win each comparison of two waiters of the same
 * client. */
static void tell_first(vl_queues_t *q, apr_uint32_t account)
{
    const vl_waiter_t *waiter = vl_fair_first_waiter(q, account);
    const wait_client_t *client;
    vl_first_t *first;

    if (!waiter || q->shm->self == NO_CHILD)
        return;
    client = waiter->client_queue;
    first = &q->shm->cells[q->shm->self][account].first;
    SET(first->key, client->id.key);
    SET(first->joined, client->joined);
    SET(first->tag, client->fair.tag);
    SET(first->class_no, client->id.class_no);
    SET(first->band, client->id.band);
    SET(first->since_us, waiter->since_us);
}

void vl_fair_add_waiter(vl_queues_t *q, vl_waiter_t *waiter, int is_first)
{
    account_queue_t *queue = queue_of(q, waiter->account);
    wait_client_t *client = client_of(q, queue, &waiter->client);
    vl_waiter_t *const head = APR_RING_SENTINEL(&queue->waiters, vl_waiter_t, link);
    vl_waiter_t *const client_head = APR_RING_SENTINEL(&client->waiters, vl_waiter_t, client_link);
    vl_waiter_t *before = is_first ? head : APR_RING_LAST(&queue->waiters);

    if (!is_first) {
        SET(q->shm->inner[waiter->account].backlog_us, vl_clock_us());
        waiter->was_late = 0;
    }
    /* Only a connection transferred from another child can be older than the last
     * waiter. */
    while (before != head && before->since_us > waiter->since_us)
        before = APR_RING_PREV(before, link);
    APR_RING_INSERT_AFTER(before, waiter, link);
    before = is_first ? client_head : APR_RING_LAST(&client->waiters);
    while (before != client_head && before->since_us > waiter->since_us)
        before = APR_RING_PREV(before, client_link);
    APR_RING_INSERT_AFTER(before, waiter, client_link);
    if (is_first || !client->in_time || client->in_time->since_us > waiter->since_us)
        be_in_time(queue_band(queue, client), client, waiter);
    waiter->client_queue = client;
    count(q, queue, client, 1);
    tell_first(q, waiter->account);
}

void vl_fair_remove_waiter(vl_queues_t *q, vl_waiter_t *waiter)
{
    take_out(q, waiter);
    tell_first(q, waiter->account);
}

vl_waiter_t *vl_fair_pop_waiter(vl_queues_t *q, vl_ticket_t *ticket, int only_in_mpm)
{
    apr_uint32_t account = ticket->account;
    apr_int64_t now_us = vl_clock_us();
    vl_waiter_t *waiter = NULL;

    if (only_in_mpm) {
        if (q->queues[account]) {
            APR_RING_FOREACH(waiter, &q->queues[account]->waiters, vl_waiter_t, link) {
                if (waiter->in_mpm)
                    break;
            }
            if (waiter == APR_RING_SENTINEL(&q->queues[account]->waiters, vl_waiter_t, link))
                waiter = NULL;
        }
        if (waiter)
            take_out(q, waiter);
    }
    else if ((waiter = vl_fair_first_waiter(q, account))) {
        const wait_client_t *client = waiter->client_queue;
        band_t *band = queue_band(q->queues[account], client);
        apr_uint32_t others = band->heap.length + band->nlate;
        apr_uint64_t joined = client->joined;
        apr_int64_t patience = GET(q->shm->inner[account].patience_us);

        band->grants = client->is_late ? 0 : band->grants + 1;
        /* The client was still there. */
        if (now_us - waiter->since_us > patience)
            SET(q->shm->inner[account].patience_us,
                patience + (now_us - waiter->since_us - patience) / 4);
        SET(q->shm->inner[account].backlog_us, now_us);
        take_out(q, waiter);
        ticket->client_us = ticket->charged;
        begin_client(q->shm, account, &waiter->client, joined, ticket->charged, others, now_us);
    }
    if (waiter)
        ticket->client = waiter->client;
    tell_first(q, account);
    return waiter;
}

/* --- other ways to find a waiter ------------------------------------------------------ */

vl_waiter_t *vl_fair_expired_waiter(vl_queues_t *q, apr_int64_t now_us)
{
    account_queue_t *queue;

    APR_RING_FOREACH(queue, &q->busy, account_queue_t, link) {
        vl_waiter_t *first = APR_RING_FIRST(&queue->waiters);

        if (first->deadline_us > now_us)
            continue;
        APR_RING_REMOVE(queue, link);
        APR_RING_INSERT_TAIL(&q->busy, queue, account_queue_t, link);
        return first;
    }
    return NULL;
}

vl_waiter_t *vl_fair_any_waiter(const vl_queues_t *q, vl_waiter_done_fn done,
                                int (*may)(apr_uint32_t account))
{
    account_queue_t *queue;
    vl_waiter_t *waiter;

    APR_RING_FOREACH(queue, &q->busy, account_queue_t, link) {
        if (may && !may(queue->account))
            continue;
        APR_RING_FOREACH(waiter, &queue->waiters, vl_waiter_t, link) {
            if (waiter->done == done)
                return waiter;
        }
    }
    return NULL;
}

vl_waiter_t *vl_fair_newest_waiter(const vl_queues_t *q, vl_waiter_done_fn done,
                                   apr_uint32_t *ret_count)
{
    account_queue_t *queue, *longest = NULL;
    vl_waiter_t *waiter, *newest = NULL;
    int n = NEWEST_CHECKED;

    *ret_count = 0;
    APR_RING_FOREACH(queue, &q->busy, account_queue_t, link) {
        if (!longest || queue->count > longest->count)
            longest = queue;
    }
    if (!longest)
        return NULL;
    for (waiter = APR_RING_LAST(&longest->waiters);
         waiter != APR_RING_SENTINEL(&longest->waiters, vl_waiter_t, link)
         && (n > 0 || !newest);
         waiter = APR_RING_PREV(waiter, link), n--) {
        if (waiter->done == done
            && (!newest || waiter->client_queue->count > newest->client_queue->count))
            newest = waiter;
    }
    if (newest)
        *ret_count = longest->count;
    return newest;
}

void vl_fair_each_account(vl_queues_t *q, void (*fn)(vl_shm_t *shm, apr_uint32_t account))
{
    account_queue_t *queue, *next;

    for (queue = APR_RING_FIRST(&q->busy);
         queue != APR_RING_SENTINEL(&q->busy, account_queue_t, link); queue = next) {
        next = APR_RING_NEXT(queue, link);
        fn(q->shm, queue->account);
    }
}

apr_uint32_t vl_fair_count_waiters(const vl_queues_t *q, apr_uint32_t account)
{
    return q->queues[account] ? q->queues[account]->count : 0;
}
