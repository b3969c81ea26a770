/* SPDX-License-Identifier: Apache-2.0 */
/* The segment lock, and the recovery after a process has died while it held the lock. */
#include "core/vl_segment.h"

#include <errno.h>
#include <string.h>

apr_status_t vl_segment_post_config_init_lock(head_t *head)
{
    pthread_mutexattr_t attr;
    int err = pthread_mutexattr_init(&attr);

    if (err)
        return err;
    err = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    /* A signal may end a child of the prefork MPM at any instruction. The MPM's handler
     * destroys its pools, and their cleanups may need a lock that the child holds. With
     * this type the cleanup fails instead of hanging. The parent reclaims everything. */
    if (!err)
        err = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    if (!err)
        err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (!err)
        err = pthread_mutex_init(&head->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    return err;
}

/* Adds the cells and the ring of child c to the sums. Requires the segment lock. */
static void sum_child_locked(vl_shm_t *shm, apr_uint32_t c)
{
    child_t *child = &shm->children[c];
    vl_queue_t *q = &shm->queue;
    apr_uint32_t a, i;

    /* The process that died with the lock may have been revoking grants of this child. A
     * stalled child has an empty ring, so a child that still has grants is not stalled. */
    if (child->ring_len)
        __atomic_store_n(&child->stalled, 0, __ATOMIC_RELAXED);
    child->running = child->ring_len;
    shm->head->calls += child->calls;
    child->occupied = child->streams = 0;
    for (i = 0; i < child->ring_len; i++)
        q->accounts[vl_segment_ticket(child, i)->account].running++;
    if (!child->pid)
        return;                     /* its cells are empty, and may be many */
    for (i = 0; i < vl_segment_count(shm); i++) {
        const cell_t *cell = &shm->cells[c][a = vl_segment_account(shm, i)];

        q->accounts[a].running += cell->running;
        q->accounts[a].waiting += cell->waiting;
        child->running += cell->running;
        child->occupied += cell->occupied;
        child->streams += cell->streams;
        q->accounts[a].called += cell->called;
        shm->accounts[a].occupied += cell->occupied;
        shm->accounts[a].deferred += cell->deferred;
    }
}

/* Computes all sums again from the cells and rings. asking and waiting are read without the
 * lock, so they are stored once, when they are complete. Requires the segment lock. */
static void sum_up_locked(vl_shm_t *shm)
{
    vl_queue_t *q = &shm->queue;
    vl_hosts_t *hosts = shm->hosts;
    apr_uint32_t a, c, i, entry, asking = 0, waiting = 0;

    /* The chains of hosts, and the list of free entries. */
    memset(shm->host_buckets, 0, sizeof(*shm->host_buckets) * hosts->buckets);
    hosts->named = hosts->free = 0;
    for (entry = 0; entry < hosts->used; entry++) {
        vl_host_t *host = &shm->host[entry];
        apr_uint32_t *list = host->key
            ? &shm->host_buckets[(host->key >> 1) & (hosts->buckets - 1)] : &hosts->free;

        host->next = *list;
        *list = entry + 1;
        hosts->named += host->key != 0;
    }
    q->head->running = q->head->heap.length = q->head->active = q->head->heaviest
        = q->head->ahead = 0;
    q->head->active_milli = q->head->load = shm->head->calls = 0;
    for (i = 0; i < vl_segment_count(shm); i++) {
        a = vl_segment_account(shm, i);
        q->accounts[a].running = q->accounts[a].waiting = q->accounts[a].fair.place = 0;
        q->accounts[a].active_milli = q->accounts[a].load = q->accounts[a].called = 0;
        shm->accounts[a].occupied = shm->accounts[a].deferred = 0;
    }
    for (c = 0; c < shm->head->columns; c++) {
        sum_child_locked(shm, c);
        asking += shm->children[c].asks != 0;
    }
    for (i = 0; i < vl_segment_count(shm); i++) {
        a = vl_segment_account(shm, i);
        q->head->running += q->accounts[a].running;
        waiting += q->accounts[a].waiting;
        vl_fair_set_limits(q, a, &shm->queue.accounts[a].limits);
    }
    __atomic_store_n(&shm->head->asking, asking, __ATOMIC_RELAXED);
    __atomic_store_n(&q->head->waiting, waiting, __ATOMIC_RELAXED);
}

apr_status_t vl_segment_lock(vl_shm_t *shm)
{
    int err = pthread_mutex_lock(&shm->head->lock);

    if (err == EOWNERDEAD) {
        sum_up_locked(shm);
        err = pthread_mutex_consistent(&shm->head->lock);
    }
    return err;
}

void vl_segment_unlock(vl_shm_t *shm)
{
    int contended = shm->head->queue.heap.length > 0;

    /* Its cache line stays with those that read it. */
    if (shm->head->contended != contended)
        __atomic_store_n(&shm->head->contended, contended, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&shm->head->lock);
}

apr_status_t vl_segment_lock_child(vl_shm_t *shm)
{
    return shm->self == NO_CHILD ? APR_EINIT : vl_segment_lock(shm);
}
