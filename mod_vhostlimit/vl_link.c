/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_link.h"

#include "vl_shm_int.h"

static void link_locked(vl_shm_t *shm, apr_uint32_t account, int by)
{
    vl_shm_cell(shm, shm->self, account)->linked += by;
    shm->children[shm->self].linked += by;
}

/* Only who could wait is refused: its vhost may say that nobody does. */
static int is_limited(const account_t *a)
{
    return a->limits.mode == VL_MODE_ON && a->limits.queue;
}

apr_status_t vl_link_begin(vl_shm_t *shm, apr_uint32_t account)
{
    apr_status_t rv = vl_slot_lock(shm);

    if (rv != APR_SUCCESS)
        return rv;
    link_locked(shm, account, 1);
    if (is_limited(&shm->accounts[account])
        && vl_room_overfills_locked(shm, account, 0)) {
        link_locked(shm, account, -1);
        rv = APR_EAGAIN;
    }
    vl_shm_unlock(shm);
    return rv;
}

void vl_link_end(vl_shm_t *shm, apr_uint32_t account)
{
    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    link_locked(shm, account, -1);
    vl_slot_dispatch_and_unlock(shm);
}

void vl_link_hold(vl_shm_t *shm, apr_uint32_t account)
{
    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    link_locked(shm, account, 1);
    vl_shm_unlock(shm);
}

void vl_link_stream(vl_shm_t *shm, vl_ticket_t *ticket)
{
    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    ticket->stream = 1;
    vl_shm_cell(shm, shm->self, ticket->account)->streams++;
    shm->children[shm->self].streams++;
    vl_shm_unlock(shm);
}
