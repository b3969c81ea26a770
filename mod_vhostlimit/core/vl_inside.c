/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_inside.h"

#include <string.h>

#include "core/vl_segment.h"

static apr_uint32_t get(const apr_uint32_t *value)
{
    return __atomic_load_n(value, __ATOMIC_RELAXED);
}

static apr_uint64_t get64(const apr_uint64_t *value)
{
    return __atomic_load_n(value, __ATOMIC_RELAXED);
}

/* Returns the number of columns to look at: none if the account has no waiter, so that a page
 * of many sites does not read all their cells. */
static apr_uint32_t columns_with_waiters(const vl_shm_t *shm, apr_uint32_t account)
{
    return get(&shm->queue.flows[account].waiting) || get(&shm->accounts[account].deferred)
           ? get(&shm->head->columns) : 0;
}

/* Returns what the child tells, or NULL if it has no waiter of the account. The column may
 * have what a child told that has died. */
static const vl_waiting_t *waiting_in(const vl_shm_t *shm, apr_uint32_t child,
                                      apr_uint32_t account)
{
    const cell_t *cell = vl_segment_cell(shm, child, account);
    const vl_waiting_t *waiting = vl_segment_waiting(shm, child, account);

    /* The cell is read first: it saves touching the memory behind `waiting`. */
    if (!get(&cell->waiting) && !get(&cell->deferred))
        return NULL;
    return shm->children[child].pid && waiting->pid == shm->children[child].pid ? waiting
                                                                                : NULL;
}

static void read_class(const struct vl_class_t *from, vl_inside_class_t *ret)
{
    const struct vl_band_t *known = &from->band[VL_BAND_KNOWN];
    const struct vl_band_t *strangers = &from->band[VL_BAND_STRANGERS];

    ret->weight = get(&from->weight);
    if (!ret->weight)
        ret->weight = VL_CLASS_WEIGHT_DEFAULT;
    ret->known_requests = get64(&known->requests);
    ret->known_cpu_us = get64(&known->cpu_us);
    ret->requests = get64(&strangers->requests) + ret->known_requests;
    ret->cpu_us = get64(&strangers->cpu_us) + ret->known_cpu_us;
}

void vl_inside_read(const vl_shm_t *shm, apr_uint32_t account, vl_inside_t *ret_inside)
{
    const vl_inner_t *inner = &shm->inner[account];
    apr_uint32_t child, columns = columns_with_waiters(shm, account);
    unsigned c;

    memset(ret_inside, 0, sizeof(*ret_inside));
    ret_inside->late = get64(&inner->late);
    for (c = 0; c < VL_CLASSES_MAX; c++)
        read_class(&inner->classes[c], &ret_inside->classes[c]);
    for (child = 0; child < columns; child++) {
        const vl_waiting_t *waiting = waiting_in(shm, child, account);

        if (!waiting)
            continue;
        ret_inside->clients += get(&waiting->clients);
        for (c = 0; c < VL_CLASSES_MAX; c++) {
            ret_inside->classes[c].waiting += get(&waiting->classes[c]);
            ret_inside->waiting += get(&waiting->classes[c]);
        }
    }
}

/* Returns how many waiters the client has in the child processes in which it has most. */
static apr_uint32_t waiters_of(const vl_shm_t *shm, apr_uint32_t account, apr_uint64_t key)
{
    apr_uint32_t child, n = 0, columns = columns_with_waiters(shm, account);

    for (child = 0; child < columns; child++) {
        const vl_waiting_t *waiting = waiting_in(shm, child, account);

        if (waiting && __atomic_load_n(&waiting->most_key, __ATOMIC_RELAXED) == key)
            n += get(&waiting->most);
    }
    return n;
}

apr_uint32_t vl_inside_most(const vl_shm_t *shm, apr_uint32_t account,
                            apr_uint64_t *ret_key)
{
    apr_uint32_t child, most = 0, columns = columns_with_waiters(shm, account);

    *ret_key = 0;
    for (child = 0; child < columns; child++) {
        const vl_waiting_t *waiting = waiting_in(shm, child, account);
        apr_uint64_t key = waiting ? __atomic_load_n(&waiting->most_key, __ATOMIC_RELAXED) : 0;
        apr_uint32_t n = key && key != *ret_key ? waiters_of(shm, account, key) : 0;

        if (n > most) {
            most = n;
            *ret_key = key;
        }
    }
    return most;
}

vl_waiting_t *vl_inside_mine(const vl_shm_t *shm, apr_uint32_t account)
{
    vl_waiting_t *mine;

    if (shm->self == NO_CHILD)
        return NULL;
    mine = vl_segment_waiting(shm, shm->self, account);
    if (mine->pid != shm->children[shm->self].pid) {
        memset(mine, 0, sizeof(*mine));
        mine->pid = shm->children[shm->self].pid;
    }
    return mine;
}
