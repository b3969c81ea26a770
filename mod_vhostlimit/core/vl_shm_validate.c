/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the invariants of vl_segment.h. For tests. */
#include <string.h>

#include "core/vl_segment.h"

static const char *validate_child_locked(const vl_shm_t *shm, apr_uint32_t c)
{
    const child_t *child = &shm->children[c];
    apr_uint32_t a, running = child->ring_len, waiting = 0, occupied = 0;
    apr_uint32_t streams = 0;

    for (a = 0; a < shm->head->used; a++) {
        running += vl_segment_cell(shm, c, a)->running;
        waiting += vl_segment_cell(shm, c, a)->waiting
                   + vl_segment_cell(shm, c, a)->deferred;
        occupied += vl_segment_cell(shm, c, a)->occupied;
        streams += vl_segment_cell(shm, c, a)->streams;
    }
    if (occupied != child->occupied || streams != child->streams)
        return "a child's occupied and streams are sums of its cells";
    if (!child->pid && (running || waiting || occupied))
        return "a free column has nothing in its cells and its ring";
    if (child->stalled && child->ring_len)
        return "a stalled child has nothing in its ring";
    if (running != child->running)
        return "a child's running is the sum of its cells and its ring";
    return NULL;
}

static const char *validate_flow_locked(const vl_shm_t *shm, apr_uint32_t a)
{
    apr_uint32_t c, i, running = 0, waiting = 0, occupied = 0, deferred = 0;

    for (c = 0; c < shm->head->children; c++) {
        child_t *child = &shm->children[c];

        running += vl_segment_cell(shm, c, a)->running;
        waiting += vl_segment_cell(shm, c, a)->waiting;
        occupied += vl_segment_cell(shm, c, a)->occupied;
        deferred += vl_segment_cell(shm, c, a)->deferred;
        for (i = 0; i < child->ring_len; i++)
            running += vl_segment_ticket(child, i)->account == a;
    }
    if (running != shm->queue.flows[a].running
        || waiting != shm->queue.flows[a].waiting)
        return "running and waiting are the sums of the cells and rings";
    if (occupied != shm->accounts[a].occupied)
        return "occupied is the sum of the cells";
    if (deferred != shm->accounts[a].deferred)
        return "deferred is the sum of the cells";
    return NULL;
}

static const char *validate_relay_locked(const vl_shm_t *shm)
{
    const head_t *head = shm->head;
    apr_uint32_t c, asking = 0;

    for (c = 0; c < head->children; c++)
        asking += shm->children[c].asks != 0;
    if (asking != head->asking)
        return "asking is the number of children with asks set";
    if (head->acceptor && (!shm->children[head->acceptor - 1].pid
                           || shm->children[head->acceptor - 1].asks))
        return "the acceptor is a child with a pid that does not ask";
    return NULL;
}

static const char *validate_locked(const vl_shm_t *shm)
{
    const head_t *head = shm->head;
    const char *why = NULL;
    apr_uint32_t a, b;

    if (head->used > head->capacity)
        return "more accounts used than there are";
    for (a = 0; a < head->capacity && !why; a++) {
        if ((a < head->used) != (shm->accounts[a].name[0] != '\0'))
            return "accounts 0 to used-1 have a name, the others none";
        for (b = 0; b < a && a < head->used; b++) {
            if (!strcmp(shm->accounts[b].name, shm->accounts[a].name))
                return "no two accounts of one name";
        }
        why = validate_flow_locked(shm, a);
    }
    for (b = 0; b < head->children && !why; b++)
        why = validate_child_locked(shm, b);
    if (!why)
        why = validate_relay_locked(shm);
    return why ? why : vl_queue_validate(&shm->queue, head->used);
}

const char *vl_shm_validate(vl_shm_t *shm)
{
    const char *why;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return "the lock cannot be taken";
    why = validate_locked(shm);
    vl_segment_unlock(shm);
    return why;
}
