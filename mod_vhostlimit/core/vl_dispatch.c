/* SPDX-License-Identifier: Apache-2.0 */
/* Revocation of grants of stalled children (stopped, starved or with a thread that hangs).
 * A stalled child does not take its grants, so they go to other children. All state is in
 * the segment (vl_segment.h), under the segment lock. */
#include "core/vl_slot.h"

#include "core/vl_segment.h"

/* Longer than a child needs that only waits for a processor. */
#define STALLED_US 1000000

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

    vl_segment_cell(shm, c, ticket.account)->waiting++;
    __atomic_store_n(&child->ring_len, child->ring_len - 1, __ATOMIC_RELEASE);
    child->running--;
    vl_queue_cancel(&shm->queue, ticket.account, ticket.charged);
    vl_queue_arrive(&shm->queue, ticket.account);
}

static void revoke_stalled(vl_shm_t *shm, apr_uint32_t c, apr_int64_t now_us)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    if (is_stalled(shm, c, now_us)) {
        /* Set before the ring is emptied: a child that finds its ring empty must see the
         * mark, too, and must not sleep. */
        __atomic_store_n(&shm->children[c].stalled, 1, __ATOMIC_RELAXED);
        while (shm->children[c].ring_len)
            revoke_locked(shm, c);
    }
    vl_dispatch_and_unlock(shm);
}

void vl_dispatch_revoke_stalled(vl_shm_t *shm, apr_int64_t now_us)
{
    apr_uint32_t c;

    for (c = 0; c < shm->head->columns; c++) {
        if (is_stalled(shm, c, now_us))
            revoke_stalled(shm, c, now_us);
    }
}

void vl_dispatch_resume_child(vl_shm_t *shm)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    __atomic_store_n(&shm->children[shm->self].stalled, 0, __ATOMIC_RELAXED);
    vl_dispatch_and_unlock(shm);
}
