/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_charge.h"

#include "base/vl_clock.h"
#include "core/vl_dispatch.h"
#include "core/vl_segment.h"

/* The moving average of an account's service time uses a factor of 1/8 per request, like
 * TCP's smoothed round-trip time (RFC 6298, alpha). */
#define SERVICE_SHIFT 3
/* If the reader has not read the usage for this long, another child becomes the reader. */
#define READER_TIMEOUT_US 500000
/* If no child has read the usage for this long, none will (the prefork MPM). */
#define UNREAD_US (5 * APR_USEC_PER_SEC)
/* If requests of back ends end for this long while their group uses no CPU time, the back
 * ends have left the group. */
#define LEFT_US (5 * APR_USEC_PER_SEC)

/* The meaning of "recently" in vl_charge_has_outside(). */
#define OUTSIDE_US (5 * APR_USEC_PER_SEC)
/* Back ends are charged at least this fraction (1/8) of what they could use, because each
 * of their requests holds a slot. */
#define ELSEWHERE_LEAST 8
/* Hosts that are given credit while the segment lock is held once. */
#define CREDIT_BATCH 256

/* Returns how many thousandths of a processor n back ends use together. The CPU time of a
 * single one is unknown. The upper bounds are n processors, and what all processes other
 * than Apache's children use. */
static apr_uint64_t elsewhere_permille(const head_t *head, apr_uint32_t n)
{
    apr_uint64_t most = 1000 * (apr_uint64_t)(n < head->processors
                                              ? n : head->processors);
    apr_uint64_t others = head->others_permille;

    if (others >= most)
        return most;
    return others > most / ELSEWHERE_LEAST ? others : most / ELSEWHERE_LEAST;
}

/* Advances the clock of back-end work. It runs at the rate at which one such request
 * progresses if all of them share the CPU time equally. Each request is charged the
 * difference of two readings. Requires the segment lock. */
static void advance_elsewhere(head_t *head, apr_int64_t now_us)
{
    apr_uint32_t n = head->elsewhere;
    apr_int64_t passed = now_us - head->elsewhere_at;

    /* A thread that read the time before it waited for the lock may be slightly late. A
     * clock that was set back by a second or more is followed. */
    if (passed < 0 && passed > -APR_USEC_PER_SEC)
        return;
    if (n && passed > 0)
        __atomic_store_n(&head->elsewhere_ns,
                         head->elsewhere_ns + (apr_uint64_t)passed
                                              * elsewhere_permille(head, n) / n,
                         __ATOMIC_RELAXED);
    head->elsewhere_at = now_us;
}

/* Adds `by` to the number of requests that run in back ends. The sum is read without the
 * lock too. Requires the segment lock. */
static void add_elsewhere_locked(vl_shm_t *shm, int by)
{
    __atomic_store_n(&shm->head->elsewhere, shm->head->elsewhere + (apr_uint32_t)by,
                     __ATOMIC_RELAXED);
    shm->children[shm->self].elsewhere += (apr_uint32_t)by;
}

/* Adds `by` to the number of requests that run in back ends. Returns the reading of their
 * clock. */
static apr_uint64_t count_elsewhere(vl_shm_t *shm, apr_int64_t now_us, int by)
{
    apr_uint64_t clock;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    advance_elsewhere(shm->head, now_us);
    clock = shm->head->elsewhere_ns;
    add_elsewhere_locked(shm, by);
    vl_segment_unlock(shm);
    return clock;
}

apr_uint64_t vl_charge_elsewhere(vl_shm_t *shm, apr_int64_t now_us)
{
    return count_elsewhere(shm, now_us, 1);
}

apr_uint64_t vl_charge_elsewhere_clock(const vl_shm_t *shm)
{
    return __atomic_load_n(&shm->head->elsewhere_ns, __ATOMIC_RELAXED);
}

apr_uint64_t vl_charge_elsewhere_pause(vl_shm_t *shm, apr_int64_t now_us,
                                       apr_uint64_t from)
{
    return count_elsewhere(shm, now_us, -1) - from;
}

apr_uint64_t vl_charge_elsewhere_go_on(vl_shm_t *shm, apr_int64_t now_us,
                                       apr_uint64_t done)
{
    return count_elsewhere(shm, now_us, 1) - done;
}

static apr_uint64_t elsewhere_us_locked(vl_shm_t *shm, apr_uint32_t account,
                                        apr_uint64_t from)
{
    if (shm->accounts[account].measured)
        return 0;
    shm->head->outside_at = vl_clock_us();
    advance_elsewhere(shm->head, shm->head->outside_at);
    return (shm->head->elsewhere_ns - from) / 1000;
}

/* Counts us of CPU time, used in the last busy_us, for the status page. */
static void count_charge(account_t *a, apr_uint64_t busy_us, apr_uint64_t us)
{
    a->metrics.charged_us += us;
    vl_rate_add(&a->rate, vl_clock_us(), busy_us, us);
}

apr_uint64_t vl_charge_so_far(vl_shm_t *shm, apr_uint32_t account,
                              apr_uint64_t from)
{
    apr_uint64_t us;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    us = elsewhere_us_locked(shm, account, from);
    vl_segment_unlock(shm);
    return us;
}

void vl_charge_part_locked(vl_shm_t *shm, apr_uint32_t account,
                              apr_uint64_t us)
{
    vl_queue_charge(&shm->queue, account, (apr_int64_t)us);
    count_charge(&shm->accounts[account], us, us);
}

void vl_charge_part(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    vl_charge_part_locked(shm, account, us);
    vl_segment_unlock(shm);
}

/* Replaces the estimate that requests were charged at their ends by the measured us.
 * Requires the segment lock. */
static void settle_usage_locked(vl_shm_t *shm, apr_uint32_t account,
                                apr_int64_t us)
{
    account_t *a = &shm->accounts[account];
    apr_int64_t charged = (apr_int64_t)a->backend_us * a->backend_ended;

    vl_queue_charge(&shm->queue, account, us - charged);
    a->metrics.backend_us += (apr_uint64_t)us;
    count_charge(a, 0, (apr_uint64_t)us);
    if (a->backend_ended)
        a->backend_us = vl_average(a->backend_us,
                                   (apr_uint64_t)us / a->backend_ended);
    a->backend_ended = 0;
}

/* Gives credit to the accounts from the i-th on, to the n-th. Requires the segment lock. */
static void give_credit_locked(vl_shm_t *shm, apr_uint32_t i, apr_uint32_t n,
                               apr_int64_t passed_us)
{
    apr_uint32_t a;

    for (; i < n && passed_us > 0; i++) {
        a = vl_segment_account(shm, i);
        if (vl_queue_is_capped(&shm->queue, a))
            vl_queue_credit(&shm->queue, a, (apr_uint64_t)passed_us);
    }
}

/* Gives credit to the hosts, in batches, because there may be many. */
static void give_hosts_credit(vl_shm_t *shm, apr_int64_t passed_us)
{
    apr_uint32_t i = shm->head->used, n;

    while (shm->hosts->capped && i < vl_segment_count(shm)
           && vl_segment_lock_child(shm) == APR_SUCCESS) {
        n = i + CREDIT_BATCH < vl_segment_count(shm) ? i + CREDIT_BATCH
                                                     : vl_segment_count(shm);
        give_credit_locked(shm, i, n, passed_us);
        i = n;
        vl_dispatch_and_unlock(shm);
    }
}

int vl_charge_reads_usage(vl_shm_t *shm, apr_int64_t now_us)
{
    head_t *head = shm->head;
    apr_int64_t passed_us;
    int is_reader;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    is_reader = head->reader == shm->self
                || now_us - head->read_at > READER_TIMEOUT_US
                || now_us < head->read_at;
    passed_us = now_us - head->read_at;
    if (is_reader) {
        give_credit_locked(shm, 0, head->used, passed_us);
        head->reader = shm->self;
        head->read_at = now_us;
    }
    vl_dispatch_and_unlock(shm);
    if (is_reader)
        give_hosts_credit(shm, passed_us);
    return is_reader;
}

int vl_charge_has_outside(const vl_shm_t *shm, apr_int64_t now_us)
{
    return shm->head->outside_at
           && now_us - shm->head->outside_at < OUTSIDE_US;
}

void vl_charge_usage(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us,
                     int resident)
{
    account_t *a = &shm->accounts[account];

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    if (a->has_hosts) {
        a->measured = 0;
        vl_segment_unlock(shm);
        return;
    }
    if (a->usage_us && us > a->usage_us)
        settle_usage_locked(shm, account, (apr_int64_t)(us - a->usage_us));
    /* The charges so far were estimated by the clock, which ignores a CPU quota. */
    if (resident && !a->measured)
        vl_queue_forgive(&shm->queue, account);
    a->usage_us = us;
    a->measured = resident;
    vl_dispatch_and_unlock(shm);
}

void vl_charge_kills(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t kills)
{
    account_t *a = &shm->accounts[account];

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    /* A smaller number means that the group was created again. */
    a->metrics.memory_kills += kills >= a->kills ? kills - a->kills : kills;
    a->kills = kills;
    vl_segment_unlock(shm);
}

static int is_usage_read(const head_t *head)
{
    apr_int64_t passed = vl_clock_us() - head->read_at;

    return head->read_at && passed >= 0 && passed < UNREAD_US;
}

/* A group is read when its CPU time has grown. If it does not grow while requests of the
 * account end, it does not measure their back ends. Then the clock estimates again, and the
 * next reading is the new start. */
static void forget_left_group(account_t *a)
{
    apr_int64_t now_us = vl_clock_us();

    if (!a->backend_ended) {
        a->backend_since_us = now_us;
    }
    else if (now_us - a->backend_since_us > LEFT_US) {
        a->measured = 0;
        a->usage_us = 0;
        a->backend_ended = 0;
    }
}

/* Ends the back-end part of a request. Returns its cost. *ret_measured is 1 if the group
 * measures it; the cost is an average then. Requires the segment lock. */
static apr_uint64_t end_backend_locked(vl_shm_t *shm, apr_uint32_t account,
                                       const vl_cost_t *cost, int *ret_measured)
{
    account_t *a = &shm->accounts[account];
    apr_uint64_t clock_us;

    *ret_measured = 0;
    if (!cost->elsewhere)
        return 0;
    forget_left_group(a);
    clock_us = elsewhere_us_locked(shm, account, cost->elsewhere_from);
    add_elsewhere_locked(shm, -1);
    *ret_measured = a->measured
                    || (cost->grouped && is_usage_read(shm->head));
    a->cost_by = *ret_measured ? VL_COST_CGROUP : VL_COST_CLOCK;
    if (!*ret_measured)
        return clock_us;
    a->backend_ended++;
    return a->backend_us;
}

static void average_request(account_t *a, const vl_cost_t *cost)
{
    __atomic_store_n(&a->thread_us, vl_average(a->thread_us, cost->cpu_us), __ATOMIC_RELAXED);
    a->metrics.busy_us += cost->busy_us;
    a->metrics.cpu_us += cost->cpu_us;
    a->service_us += (cost->busy_us >> SERVICE_SHIFT)
                     - (a->service_us >> SERVICE_SHIFT);
}

apr_uint64_t vl_charge_end_locked(vl_shm_t *shm, apr_uint32_t account,
                                  const vl_cost_t *cost)
{
    account_t *a = &shm->accounts[account];
    int measured;
    apr_uint64_t backend_us = end_backend_locked(shm, account, cost, &measured);
    apr_uint64_t cost_us = cost->cpu_us + backend_us;
    /* The status page counts measured CPU time when vl_charge_usage() reads it, and what
     * was paid when vl_charge_part() charged it. */
    apr_uint64_t counted_us = measured ? cost->cpu_us : cost_us;

    if (counted_us > cost->charged_us)
        count_charge(a, cost->busy_us, counted_us - cost->charged_us);
    average_request(a, cost);
    vl_queue_charge(&shm->queue, account, -(apr_int64_t)cost->charged_us);
    return cost_us;
}
