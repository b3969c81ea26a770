/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VALIDATE_H
#define VALIDATE_H

/* Checks the invariants of vl_fair.c and vl_segment.h. Each function returns NULL, or the first
 * one that does not hold. */

#include <string.h>

#include "core/vl_fair.h"
#include "core/vl_segment.h"

static inline int is_fair_before(const vl_fair_t *a, const vl_fair_t *b)
{
    return a->tag == b->tag ? a->order < b->order : VL_FAIR_AFTER(a->tag, b->tag) < 0;
}

static inline const char *validate_queue(const vl_queue_t *q, apr_uint32_t accounts)
{
    apr_uint32_t f, i, running = 0, waiting = 0, ready = 0, active = 0;
    apr_uint64_t weights = 0, load = 0;

    for (f = 0; f < accounts; f++) {
        const vl_fair_account_t *x = &q->accounts[f];
        int in = (x->waiting && vl_fair_is_within_bounds(q, f));

        running += x->running;
        load += x->load;
        waiting += x->waiting;
        ready += in;
        active += x->running || x->waiting;
        weights += x->running || x->waiting ? x->weight_milli : 0;
        if (in != (x->fair.place != 0))
            return "an account is in the heap iff it waits and may run";
        if (in && (x->fair.place > q->head->heap.length
                   || q->head->heap.at[x->fair.place - 1] != &x->fair))
            return "an account's place is 1 + its index in the heap";
    }
    if (running != q->head->running || waiting != q->head->waiting)
        return "running and waiting are the sums over the accounts";
    if (load != q->head->load)
        return "load is the sum over the accounts";
    if (active != q->head->active || weights != q->head->active_milli)
        return "active and active_milli are the number and the weights of active accounts";
    if (ready != q->head->heap.length)
        return "nothing else is in the heap";
    for (i = 1; i < ready; i++) {
        if (is_fair_before(q->head->heap.at[i], q->head->heap.at[(i - 1) / 2]))
            return "no account is before its parent in the heap";
    }
    return NULL;
}

static inline const char *validate_child_locked(const vl_shm_t *shm, apr_uint32_t c)
{
    const child_t *child = &shm->children[c];
    apr_uint32_t a, i, running = child->ring_len, waiting = 0, occupied = 0;
    apr_uint32_t streams = 0;

    for (i = 0; i < vl_segment_count(shm); i++) {
        a = vl_segment_account(shm, i);
        running += shm->cells[c][a].running;
        waiting += shm->cells[c][a].waiting
                   + shm->cells[c][a].deferred;
        occupied += shm->cells[c][a].occupied;
        streams += shm->cells[c][a].streams;
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

static inline const char *validate_flow_locked(const vl_shm_t *shm, apr_uint32_t a)
{
    apr_uint32_t c, i, running = 0, waiting = 0, occupied = 0, deferred = 0, called = 0;

    for (c = 0; c < shm->head->children; c++) {
        child_t *child = &shm->children[c];

        running += shm->cells[c][a].running;
        waiting += shm->cells[c][a].waiting;
        occupied += shm->cells[c][a].occupied;
        called += shm->cells[c][a].called;
        deferred += shm->cells[c][a].deferred;
        for (i = 0; i < child->ring_len; i++)
            running += vl_segment_ticket(child, i)->account == a;
    }
    if (running != shm->queue.accounts[a].running
        || waiting != shm->queue.accounts[a].waiting)
        return "running and waiting are the sums of the cells and rings";
    if (occupied != shm->accounts[a].occupied)
        return "occupied is the sum of the cells";
    if (called != shm->queue.accounts[a].called)
        return "called is the sum of the cells";
    if (deferred != shm->accounts[a].deferred)
        return "deferred is the sum of the cells";
    return NULL;
}

static inline const char *validate_relay_locked(const vl_shm_t *shm)
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

static inline const char *validate_hosts_locked(const vl_shm_t *shm)
{
    const vl_hosts_t *hosts = shm->hosts;
    apr_uint32_t bucket, entry, named = 0, n = 0;
    const char *why = NULL;

    if (hosts->used > hosts->max)
        return "more hosts used than there are";
    for (bucket = 0; bucket < hosts->buckets; bucket++) {
        for (entry = shm->host_buckets[bucket]; entry; entry = shm->host[entry - 1].next) {
            apr_uint64_t key = shm->host[entry - 1].key;

            if (!key || ((key >> 1) & (hosts->buckets - 1)) != bucket
                || ++named > hosts->used)
                return "a chain has the hosts whose keys belong to it";
        }
    }
    for (entry = hosts->free; entry && n <= hosts->used; entry = shm->host[entry - 1].next)
        n += 1 + (shm->host[entry - 1].key ? hosts->used : 0);
    if (named != hosts->named || named + n != hosts->used)
        return "a host is in one chain, or it is free";
    for (entry = 0; entry < hosts->used && !why; entry++)
        why = validate_flow_locked(shm, shm->head->sites + entry);
    return why;
}

static inline const char *validate_locked(const vl_shm_t *shm)
{
    const head_t *head = shm->head;
    const char *why = validate_hosts_locked(shm);
    apr_uint32_t a, b;

    if (head->used > head->sites)
        return "more accounts used than there are";
    for (a = 0; a < head->sites && !why; a++) {
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
    return why ? why : validate_queue(&shm->queue, head->sites + shm->hosts->used);
}

static inline const char *validate(vl_shm_t *shm)
{
    const char *why;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return "the lock cannot be taken";
    why = validate_locked(shm);
    vl_segment_unlock(shm);
    return why;
}

#endif
