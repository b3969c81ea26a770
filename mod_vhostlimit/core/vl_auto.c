/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_auto.h"

#include "cgroup/vl_quota.h"
#include "core/vl_capacity.h"
#include "core/vl_dispatch.h"
#include "core/vl_segment.h"

/* Permille of idle time. More than IDLE_GROW while requests wait: too few slots. Less
 * than IDLE_SHRINK: possibly too many. Clock ticks of 10 ms cannot resolve what lies in
 * between. */
#define IDLE_GROW 80
#define IDLE_SHRINK 20
/* Steps in which a number of slots that proved too small is not tried again. Processors are
 * also idle while the load begins, or while the clients are busy. So the first time is short, and
 * each time that the number proves too small again doubles it. */
#define HOLD_FIRST 5            /* 1 s */
#define HOLD_MOST 80            /* 16 s */
/* Two readings of the processors' times that are further apart say nothing about now. */
#define STALE_US (1 * APR_USEC_PER_SEC)

static apr_uint32_t clamp(apr_uint32_t n, apr_uint32_t min, apr_uint32_t max)
{
    if (n > max)
        n = max;
    return n < min ? min : n;
}

apr_uint32_t vl_auto_step(vl_auto_t *state, const vl_auto_sample_t *s)
{
    apr_uint32_t idle = s->busy_permille < 1000 ? 1000 - s->busy_permille : 0;
    apr_uint32_t slots = s->slots, least = s->min;
    /* The processors may have been idle in all of the time in which no request waited. */
    apr_uint32_t no_backlog = s->backlog_permille < 1000 ? 1000 - s->backlog_permille : 0;

    if (state->hold)
        state->hold--;
    /* A single account may leave a fifth of the slots free (vl_queue_may_take()), so the
     * slots count as used when four fifths are. */
    if (s->running + s->running / 4 + 1 >= slots && idle > IDLE_GROW + no_backlog) {
        /* Increase by half: from 8 to 100 slots in 1.4 s. */
        state->floor = slots + slots / 8 + 1;
        if (!state->hold)
            state->hold_last = clamp(state->hold_last * 2, HOLD_FIRST, HOLD_MOST);
        state->hold = state->hold_last;
        slots += slots / 2 + 1;
    }
    else if (idle < IDLE_SHRINK && slots) {
        if (state->hold && state->floor > least)
            least = state->floor;
        if (!state->hold && slots <= s->min)
            state->hold_last = 0;
        slots -= slots < 8 ? 1 : slots / 8;
        if (slots < least)
            slots = least < s->slots ? least : s->slots;
    }
    return clamp(slots, s->min, s->max);
}

/* Returns the number of requests that the attached children can run. Requires the segment
 * lock. */
static apr_uint32_t request_threads_locked(const vl_shm_t *shm)
{
    apr_uint32_t c, threads = 0;

    for (c = 0; c < shm->head->columns; c++) {
        if (shm->children[c].pid && shm->head->acceptor != c + 1)
            threads += vl_capacity_most(shm, c);
    }
    return threads;
}

void vl_auto_count_request(vl_shm_t *shm, int is_stream)
{
    __atomic_add_fetch(&shm->head->streams_more, is_stream ? 1 : -1, __ATOMIC_RELAXED);
}

/* Finds out whether most requests are streams and use no back end. If no request has begun since
 * the last step, or as many streams as others, nothing changes. Requires the segment lock. */
static void look_at_streams_locked(head_t *head)
{
    apr_int32_t more = __atomic_exchange_n(&head->streams_more, 0, __ATOMIC_RELAXED);

    if (more)
        head->mostly_streams = more > 0 && head->elsewhere <= head->queue.running / 2;
}

static void adjust_locked(vl_shm_t *shm, const vl_cpu_t *cpu, apr_uint64_t quota_stops,
                          apr_int64_t now_us, apr_int64_t passed_us)
{
    head_t *head = shm->head;
    vl_auto_sample_t sample;
    apr_uint64_t backlog_us = vl_queue_backlog_any(&shm->queue, now_us);

    look_at_streams_locked(head);
    sample.slots = head->queue.slots;
    sample.min = vl_capacity_fewest(shm);
    sample.max = request_threads_locked(shm);
    sample.running = head->queue.running;
    /* After the death of a process the sum may be smaller. */
    sample.backlog_permille = passed_us > 0 && backlog_us > head->backlog_us
                              ? (apr_uint32_t)((backlog_us - head->backlog_us) * 1000
                                               / (apr_uint64_t)passed_us) : 0;
    head->backlog_us = backlog_us;
    sample.busy_permille = quota_stops != head->quota_stops
                           ? 1000 : vl_cpu_busy_permille(&head->cpu, cpu);
    head->quota_stops = quota_stops;
    __atomic_store_n(&head->queue.slots,
                     vl_auto_step(&head->auto_state, &sample),
                     __ATOMIC_RELAXED);
}

/* Returns the CPU time that the children have used since the last step. A child that
 * attached since then counts with all its CPU time. Takes no lock. */
static apr_uint64_t children_used_us(vl_shm_t *shm)
{
    apr_uint64_t sum = 0;
    apr_uint32_t c;

    for (c = 0; c < shm->head->columns; c++) {
        child_t *child = &shm->children[c];
        pid_t pid = __atomic_load_n(&child->pid, __ATOMIC_RELAXED);
        apr_uint64_t us = pid ? vl_cpu_of_process(pid) : 0;

        if (us > child->cpu_us)
            sum += us - child->cpu_us;
        child->cpu_us = us;
    }
    return sum;
}

/* Averages the reading with the previous value, because clock ticks are long compared with
 * a step. Requires the segment lock. */
static void measure_others_locked(head_t *head, const vl_cpu_t *cpu,
                                  apr_uint64_t used_us, apr_int64_t passed_us)
{
    apr_uint32_t permille = vl_cpu_others_permille(&head->cpu, cpu, used_us,
                                                   passed_us);

    if (passed_us > STALE_US)
        head->others_permille = UINT32_MAX;
    else if (head->others_permille == UINT32_MAX)
        head->others_permille = permille;
    else
        head->others_permille = (head->others_permille + permille) / 2;
}

/* Returns 1 if the step is due and this child performs it. */
static int begins_step(vl_shm_t *shm, apr_int64_t now_us,
                       apr_int64_t *ret_passed_us)
{
    head_t *head = shm->head;
    int begins;

    if (!(head->auto_on || __atomic_load_n(&head->elsewhere, __ATOMIC_RELAXED))
        || vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    *ret_passed_us = now_us - head->cpu_at;
    begins = *ret_passed_us >= VL_AUTO_STEP_US || *ret_passed_us < 0;
    if (begins)
        head->cpu_at = now_us;
    vl_segment_unlock(shm);
    return begins;
}

void vl_auto_adjust(vl_shm_t *shm, apr_int64_t now_us)
{
    apr_int64_t passed_us;
    apr_uint64_t used_us, quota_stops;
    vl_cpu_t cpu;

    if (!begins_step(shm, now_us, &passed_us)
        || vl_cpu_read(&cpu) != APR_SUCCESS)
        return;
    used_us = children_used_us(shm);
    quota_stops = vl_quota_child_stops();
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    measure_others_locked(shm->head, &cpu, used_us, passed_us);
    if (shm->head->auto_on)
        adjust_locked(shm, &cpu, quota_stops, now_us, passed_us);
    shm->head->cpu = cpu;
    vl_dispatch_and_unlock(shm);
}
