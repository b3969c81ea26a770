/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_drain.h"

#include "vl_shm_int.h"

void vl_drain_set(vl_shm_t *shm, apr_uint32_t most)
{
    __atomic_store_n(&shm->head->drains, most, __ATOMIC_RELAXED);
}

static void count(vl_shm_t *shm, apr_uint32_t account, int by)
{
    __atomic_add_fetch(&vl_shm_cell(shm, shm->self, account)->draining, by,
                       __ATOMIC_RELAXED);
    __atomic_add_fetch(&shm->children[shm->self].draining, by,
                       __ATOMIC_RELAXED);
}

void vl_drain_begin(vl_shm_t *shm, apr_uint32_t account)
{
    if (shm->self != NO_CHILD)
        count(shm, account, 1);
}

void vl_drain_end(vl_shm_t *shm, apr_uint32_t account)
{
    if (shm->self == NO_CHILD)
        return;
    count(shm, account, -1);
    if (vl_slot_contended(shm))
        vl_slot_dispatch(shm);
}

int vl_drain_leaves_room(const vl_shm_t *shm, apr_uint32_t c,
                         apr_uint32_t account, apr_uint32_t held)
{
    const child_t *child = &shm->children[c];
    apr_uint32_t most = __atomic_load_n(&shm->head->drains, __ATOMIC_RELAXED);
    apr_uint32_t all = child->running
                       + __atomic_load_n(&child->draining, __ATOMIC_RELAXED);

    held += __atomic_load_n(&vl_shm_cell(shm, c, account)->draining,
                            __ATOMIC_RELAXED);
    return !most || vl_admit_more(held, most > all ? most - all : 0);
}
