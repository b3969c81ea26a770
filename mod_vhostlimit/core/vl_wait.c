/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_wait.h"

#include <stdlib.h>

/* A FIFO is in `busy` if and only if it has a waiter. Its waiters are ordered by arrival.
 * All waiters of an account have the same timeout, so their deadlines have the same order,
 * and only the first one need be checked. */
typedef struct fifo_t {
    APR_RING_ENTRY(fifo_t) link;
    APR_RING_HEAD(fifo_head_t, vl_waiter_t) waiters;
    apr_uint32_t count;
} fifo_t;

struct vl_wait_t {
    fifo_t *fifos;                  /* by account */
    APR_RING_HEAD(busy_head_t, fifo_t) busy;
    apr_uint32_t count;
};

static apr_status_t free_fifos(void *fifos)
{
    free(fifos);
    return APR_SUCCESS;
}

/* calloc() leaves the pages of FIFOs that are never used untouched, so they use no memory.
 * Every child has a FIFO for each account. */
vl_wait_t *vl_wait_create(apr_pool_t *p, apr_uint32_t accounts)
{
    vl_wait_t *w = apr_palloc(p, sizeof(*w));

    w->fifos = calloc(accounts, sizeof(fifo_t));
    if (!w->fifos)
        abort();
    apr_pool_cleanup_register(p, w->fifos, free_fifos, apr_pool_cleanup_null);
    w->count = 0;
    APR_RING_INIT(&w->busy, fifo_t, link);
    return w;
}

static int is_empty(const fifo_t *fifo)
{
    return !fifo->count;
}

static fifo_t *fifo_to_join(vl_wait_t *w, const vl_waiter_t *waiter)
{
    fifo_t *fifo = &w->fifos[waiter->account];

    if (is_empty(fifo)) {
        APR_RING_INIT(&fifo->waiters, vl_waiter_t, link);
        APR_RING_INSERT_TAIL(&w->busy, fifo, fifo_t, link);
    }
    fifo->count++;
    w->count++;
    return fifo;
}

void vl_wait_add(vl_wait_t *w, vl_waiter_t *waiter)
{
    fifo_t *fifo = fifo_to_join(w, waiter);
    vl_waiter_t *before = APR_RING_LAST(&fifo->waiters);

    /* Only a connection transferred from another child can be older than the last
     * waiter. */
    while (before != APR_RING_SENTINEL(&fifo->waiters, vl_waiter_t, link)
           && before->since_us > waiter->since_us)
        before = APR_RING_PREV(before, link);
    APR_RING_INSERT_AFTER(before, waiter, link);
}

void vl_wait_add_first(vl_wait_t *w, vl_waiter_t *waiter)
{
    fifo_t *fifo = fifo_to_join(w, waiter);

    APR_RING_INSERT_HEAD(&fifo->waiters, waiter, vl_waiter_t, link);
}

void vl_wait_remove(vl_wait_t *w, vl_waiter_t *waiter)
{
    fifo_t *fifo = &w->fifos[waiter->account];

    APR_RING_REMOVE(waiter, link);
    fifo->count--;
    w->count--;
    if (is_empty(fifo))
        APR_RING_REMOVE(fifo, link);
}

vl_waiter_t *vl_wait_first(const vl_wait_t *w, apr_uint32_t account)
{
    fifo_t *fifo = &w->fifos[account];

    return is_empty(fifo) ? NULL : APR_RING_FIRST(&fifo->waiters);
}

vl_waiter_t *vl_wait_pop(vl_wait_t *w, apr_uint32_t account)
{
    vl_waiter_t *first = vl_wait_first(w, account);

    if (first)
        vl_wait_remove(w, first);
    return first;
}

vl_waiter_t *vl_wait_first_in_mpm(const vl_wait_t *w, apr_uint32_t account)
{
    fifo_t *fifo = &w->fifos[account];
    vl_waiter_t *waiter;

    if (is_empty(fifo))
        return NULL;
    APR_RING_FOREACH(waiter, &fifo->waiters, vl_waiter_t, link) {
        if (waiter->in_mpm)
            return waiter;
    }
    return NULL;
}

vl_waiter_t *vl_wait_expired(vl_wait_t *w, apr_int64_t now_us)
{
    fifo_t *fifo;

    APR_RING_FOREACH(fifo, &w->busy, fifo_t, link) {
        vl_waiter_t *first = APR_RING_FIRST(&fifo->waiters);

        if (first->deadline_us > now_us)
            continue;
        APR_RING_REMOVE(fifo, link);
        APR_RING_INSERT_TAIL(&w->busy, fifo, fifo_t, link);
        return first;
    }
    return NULL;
}

vl_waiter_t *vl_wait_any(const vl_wait_t *w, vl_waiter_done_fn done)
{
    fifo_t *fifo;
    vl_waiter_t *waiter;

    APR_RING_FOREACH(fifo, &w->busy, fifo_t, link) {
        APR_RING_FOREACH(waiter, &fifo->waiters, vl_waiter_t, link) {
            if (waiter->done == done)
                return waiter;
        }
    }
    return NULL;
}

apr_uint32_t vl_wait_longest(const vl_wait_t *w)
{
    fifo_t *fifo, *longest = NULL;

    APR_RING_FOREACH(fifo, &w->busy, fifo_t, link) {
        if (!longest || fifo->count > longest->count)
            longest = fifo;
    }
    return longest ? (apr_uint32_t)(longest - w->fifos) : VL_NO_FLOW;
}

vl_waiter_t *vl_wait_newest_with(const vl_wait_t *w, apr_uint32_t account,
                                 vl_waiter_done_fn done)
{
    fifo_t *fifo = &w->fifos[account];
    vl_waiter_t *waiter;

    if (is_empty(fifo))
        return NULL;
    for (waiter = APR_RING_LAST(&fifo->waiters);
         waiter != APR_RING_SENTINEL(&fifo->waiters, vl_waiter_t, link);
         waiter = APR_RING_PREV(waiter, link)) {
        if (waiter->done == done)
            return waiter;
    }
    return NULL;
}

void vl_wait_each_account(vl_wait_t *w, void (*fn)(apr_uint32_t account))
{
    fifo_t *fifo, *next;

    for (fifo = APR_RING_FIRST(&w->busy);
         fifo != APR_RING_SENTINEL(&w->busy, fifo_t, link); fifo = next) {
        next = APR_RING_NEXT(fifo, link);
        fn((apr_uint32_t)(fifo - w->fifos));
    }
}

apr_uint32_t vl_wait_count(const vl_wait_t *w)
{
    return w->count;
}

apr_uint32_t vl_wait_count_of(const vl_wait_t *w, apr_uint32_t account)
{
    return w->fifos[account].count;
}
