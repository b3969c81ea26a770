/* SPDX-License-Identifier: Apache-2.0 */
/* How many slots there are. */
#include "vl_slot.h"

#include "vl_shm_int.h"

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
            rooms += vl_room_most_of(shm, c);
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
    sample.busy_permille = vl_cpu_busy_permille(&head->auto_cpu, cpu);
    __atomic_store_n(&head->queue.slots,
                     vl_auto_step(&head->auto_state, &sample),
                     __ATOMIC_RELAXED);
    head->auto_cpu = *cpu;
}

void vl_slot_adjust(vl_shm_t *shm, apr_int64_t now_us)
{
    vl_cpu_t cpu;
    int mine;

    if (!shm->head->auto_on || vl_slot_lock(shm) != APR_SUCCESS)
        return;
    mine = now_us - shm->head->auto_at >= VL_AUTO_STEP_US;
    if (mine)
        shm->head->auto_at = now_us;
    vl_shm_unlock(shm);
    if (!mine || vl_cpu_read(&cpu) != APR_SUCCESS
        || vl_shm_lock(shm) != APR_SUCCESS)
        return;
    adjust_locked(shm, &cpu);
    vl_slot_dispatch_and_unlock(shm);
}
