/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_charge.h"

#include "base/vl_clock.h"
#include "core/vl_shm_int.h"

/* The moving average of a vhost's service time forgets by 1/8 a request, as
 * TCP's smoothed round-trip time does (RFC 6298, alpha). */
#define SERVICE_SHIFT 3
/* A child that has not read the usage for so long does not any more. */
#define READER_GONE_US 500000
/* Nobody has for so long: nobody will (the prefork MPM). */
#define UNREAD_US (5 * APR_USEC_PER_SEC)
/* Requests of back ends have ended for so long and their group has used nothing:
 * the back ends have left it. */
#define LEFT_US (5 * APR_USEC_PER_SEC)

/* "Lately", for vl_charge_has_outside(). */
#define OUTSIDE_US (5 * APR_USEC_PER_SEC)
/* Back ends are charged at least this part (1/8) of what they could use, because each of
 * their requests holds a slot. */
#define ELSEWHERE_LEAST 8

/* Thousandths of a processor that n back ends use together. The CPU time of a single one
 * is not known. The upper bounds are n processors, and what all processes other than
 * Apache's children use. */
static apr_uint64_t elsewhere_permille(const head_t *head, apr_uint32_t n)
{
    apr_uint64_t most = 1000 * (apr_uint64_t)(n < head->processors
                                              ? n : head->processors);
    apr_uint64_t others = head->others_permille;

    if (others >= most)
        return most;
    return others > most / ELSEWHERE_LEAST ? others : most / ELSEWHERE_LEAST;
}

/* The clock of the work done elsewhere runs as fast as one such request gets on if
 * all of them share that equally: it is what each is charged. */
static void advance_elsewhere(head_t *head, apr_int64_t now_us)
{
    apr_uint32_t n = head->elsewhere;
    apr_int64_t passed = now_us - head->elsewhere_at;

    /* Whoever read the time before another got the lock comes late; a clock
     * that was set back by more than that is followed. */
    if (passed < 0 && passed > -APR_USEC_PER_SEC)
        return;
    if (n && passed > 0)
        head->elsewhere_ns += (apr_uint64_t)passed * elsewhere_permille(head, n)
                              / n;
    head->elsewhere_at = now_us;
}

/* So many more requests are worked on elsewhere. */
static apr_uint64_t count_elsewhere(vl_shm_t *shm, apr_int64_t now_us, int by)
{
    apr_uint64_t clock;

    if (vl_slot_lock(shm) != APR_SUCCESS)
        return 0;
    advance_elsewhere(shm->head, now_us);
    clock = shm->head->elsewhere_ns;
    shm->head->elsewhere += (apr_uint32_t)by;
    shm->children[shm->self].elsewhere += (apr_uint32_t)by;
    vl_shm_unlock(shm);
    return clock;
}

apr_uint64_t vl_charge_elsewhere(vl_shm_t *shm, apr_int64_t now_us)
{
    return count_elsewhere(shm, now_us, 1);
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

/* For the status page: us of CPU, used in the busy_us that end now. */
static void count_charge(account_t *a, apr_uint64_t busy_us, apr_uint64_t us)
{
    a->metrics.charged_us += us;
    vl_rate_add(&a->rate, vl_clock_us(), busy_us, us);
}

apr_uint64_t vl_charge_so_far(vl_shm_t *shm, apr_uint32_t account,
                              apr_uint64_t from)
{
    apr_uint64_t us;

    if (vl_slot_lock(shm) != APR_SUCCESS)
        return 0;
    us = elsewhere_us_locked(shm, account, from);
    vl_shm_unlock(shm);
    return us;
}

void vl_charge_pay_locked(vl_shm_t *shm, apr_uint32_t account,
                              apr_uint64_t us)
{
    vl_queue_charge(&shm->queue, account, (apr_int64_t)us);
    count_charge(&shm->accounts[account], us, us);
}

void vl_charge_pay(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us)
{
    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    vl_charge_pay_locked(shm, account, us);
    vl_shm_unlock(shm);
}

/* Requests were charged an estimate of what was measured at their ends. */
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

static void give_credit_locked(vl_shm_t *shm, apr_int64_t passed_us)
{
    apr_uint32_t a;

    if (passed_us <= 0)
        return;
    for (a = 0; a < shm->head->used; a++) {
        if (shm->queue.flows[a].cap)
            vl_queue_credit(&shm->queue, a, (apr_uint64_t)passed_us);
    }
}

int vl_charge_reads_usage(vl_shm_t *shm, apr_int64_t now_us)
{
    head_t *head = shm->head;
    int mine;

    if (vl_slot_lock(shm) != APR_SUCCESS)
        return 0;
    mine = head->reader == shm->self
           || now_us - head->read_at > READER_GONE_US
           || now_us < head->read_at;
    if (mine) {
        give_credit_locked(shm, now_us - head->read_at);
        head->reader = shm->self;
        head->read_at = now_us;
    }
    vl_slot_dispatch_and_unlock(shm);
    return mine;
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

    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    if (a->usage_us && us > a->usage_us)
        settle_usage_locked(shm, account, (apr_int64_t)(us - a->usage_us));
    /* Until now the clock has guessed, which knows nothing of a quota. */
    if (resident && !a->measured)
        vl_queue_forgive(&shm->queue, account);
    a->usage_us = us;
    a->measured = resident;
    vl_slot_dispatch_and_unlock(shm);
}

void vl_charge_kills(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t kills)
{
    account_t *a = &shm->accounts[account];

    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    /* Fewer: the group was made anew. */
    a->metrics.memory_kills += kills >= a->kills ? kills - a->kills : kills;
    a->kills = kills;
    vl_shm_unlock(shm);
}

static int is_usage_read(const head_t *head)
{
    apr_int64_t passed = vl_clock_us() - head->read_at;

    return passed >= 0 && passed < UNREAD_US;
}

/* A group's reading comes when it has grown.  One that does not grow while its
 * requests end is no measure: the clock counts again, and the next reading is
 * where it begins. */
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

/* The part of the cost that the thread's clock does not see. */
static apr_uint64_t end_elsewhere_locked(vl_shm_t *shm, apr_uint32_t account,
                                         const vl_cost_t *cost,
                                         int *ret_measured)
{
    account_t *a = &shm->accounts[account];
    apr_uint64_t us;

    *ret_measured = 0;
    if (!cost->elsewhere)
        return 0;
    forget_left_group(a);
    us = elsewhere_us_locked(shm, account, cost->elsewhere_from);
    shm->head->elsewhere--;
    shm->children[shm->self].elsewhere--;
    *ret_measured = a->measured
                    || (cost->grouped && is_usage_read(shm->head));
    a->cost_by = *ret_measured ? VL_COST_CGROUP : VL_COST_CLOCK;
    if (!*ret_measured)
        return us;
    a->backend_ended++;
    return a->backend_us;
}

apr_uint64_t vl_charge_end_locked(vl_shm_t *shm, const vl_ticket_t *ticket,
                                  const vl_cost_t *cost)
{
    account_t *a = &shm->accounts[ticket->account];
    int measured;
    apr_uint64_t elsewhere = end_elsewhere_locked(shm, ticket->account, cost,
                                                  &measured);
    /* What is measured is counted when it is. */
    apr_uint64_t known = cost->cpu_us + (measured ? 0 : elsewhere);

    vl_queue_charge(&shm->queue, ticket->account,
                    -(apr_int64_t)cost->paid_us);
    vl_slot_release_locked(shm, ticket, cost->cpu_us + elsewhere);
    if (known > cost->paid_us)
        count_charge(a, cost->busy_us, known - cost->paid_us);
    a->thread_us = vl_average(a->thread_us, cost->cpu_us);
    a->metrics.busy_us += cost->busy_us;
    a->metrics.cpu_us += cost->cpu_us;
    a->service_us += (cost->busy_us >> SERVICE_SHIFT)
                     - (a->service_us >> SERVICE_SHIFT);
    return cost->cpu_us + elsewhere;
}
