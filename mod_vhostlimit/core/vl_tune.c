/* SPDX-License-Identifier: Apache-2.0 */
/* How many slots there are, and how much of the processors the back ends use. */
#include "core/vl_slot.h"

#include "core/vl_shm_int.h"

/* Readings of the processors that are so far apart say nothing about now. */
#define STALE_US (1 * APR_USEC_PER_SEC)

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
    vl_slot_dispatch_and_unlock(shm);
}

int vl_slot_capped(const vl_shm_t *shm, apr_uint32_t account)
{
    return __atomic_load_n(&shm->queue.flows[account].cap, __ATOMIC_RELAXED)
           != 0;
}

apr_uint32_t vl_slot_queue(const vl_shm_t *shm, apr_uint32_t account)
{
    return __atomic_load_n(&shm->accounts[account].limits.queue,
                           __ATOMIC_RELAXED);
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
        if (shm->children[c].pid && shm->head->acceptor != c + 1)
            rooms += vl_capacity_most(shm, c);
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
    sample.busy_permille = vl_cpu_busy_permille(&head->cpu, cpu);
    __atomic_store_n(&head->queue.slots,
                     vl_auto_step(&head->auto_state, &sample),
                     __ATOMIC_RELAXED);
}

/* CPU time that the children have used since the last step. A new child is younger
 * than that. */
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

/* The half of what was known before makes one reading less of an accident: ticks
 * are long beside a step. */
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

/* Returns 1 if the step is due and this child's. */
static int begins_step(vl_shm_t *shm, apr_int64_t now_us,
                       apr_int64_t *ret_passed_us)
{
    head_t *head = shm->head;
    int begins;

    if (!(head->auto_on || head->elsewhere) || vl_slot_lock(shm) != APR_SUCCESS)
        return 0;
    *ret_passed_us = now_us - head->cpu_at;
    begins = *ret_passed_us >= VL_AUTO_STEP_US || *ret_passed_us < 0;
    if (begins)
        head->cpu_at = now_us;
    vl_shm_unlock(shm);
    return begins;
}

void vl_slot_adjust(vl_shm_t *shm, apr_int64_t now_us)
{
    apr_int64_t passed_us;
    apr_uint64_t used_us;
    vl_cpu_t cpu;

    if (!begins_step(shm, now_us, &passed_us)
        || vl_cpu_read(&cpu) != APR_SUCCESS)
        return;
    used_us = children_used_us(shm);
    if (vl_shm_lock(shm) != APR_SUCCESS)
        return;
    measure_others_locked(shm->head, &cpu, used_us, passed_us);
    if (shm->head->auto_on)
        adjust_locked(shm, &cpu);
    shm->head->cpu = cpu;
    vl_slot_dispatch_and_unlock(shm);
}
