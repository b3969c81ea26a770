/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_wait.h"

#include <stdlib.h>

/* A line is in `busy` iff it has a waiter.  Within a line the waiters are in
 * the order in which they came.  An account's timeout is the same for all of
 * them, so deadlines are in order too: only the first need be looked at. */
typedef struct line_t {
    APR_RING_ENTRY(line_t) link;
    APR_RING_HEAD(line_head_t, vl_waiter_t) waiters;
    apr_uint32_t count;
} line_t;

struct vl_wait_t {
    line_t *lines;                  /* by account */
    APR_RING_HEAD(busy_head_t, line_t) busy;
    apr_uint32_t count;
};

static apr_status_t free_lines(void *lines)
{
    free(lines);
    return APR_SUCCESS;
}

/* Lines that no waiter ever joins stay untouched, and their pages cost
 * nothing: every child has a line for each account. */
vl_wait_t *vl_wait_create(apr_pool_t *p, apr_uint32_t accounts)
{
    vl_wait_t *w = apr_palloc(p, sizeof(*w));

    w->lines = calloc(accounts, sizeof(line_t));
    if (!w->lines)
        abort();
    apr_pool_cleanup_register(p, w->lines, free_lines, apr_pool_cleanup_null);
    w->count = 0;
    APR_RING_INIT(&w->busy, line_t, link);
    return w;
}

static int is_empty(const line_t *line)
{
    return !line->count;
}

static line_t *line_to_join(vl_wait_t *w, const vl_waiter_t *waiter)
{
    line_t *line = &w->lines[waiter->account];

    if (is_empty(line)) {
        APR_RING_INIT(&line->waiters, vl_waiter_t, link);
        APR_RING_INSERT_TAIL(&w->busy, line, line_t, link);
    }
    line->count++;
    w->count++;
    return line;
}

void vl_wait_add(vl_wait_t *w, vl_waiter_t *waiter)
{
    line_t *line = line_to_join(w, waiter);
    vl_waiter_t *before = APR_RING_LAST(&line->waiters);

    /* Only a connection from another child is older than the last one here. */
    while (before != APR_RING_SENTINEL(&line->waiters, vl_waiter_t, link)
           && before->since_us > waiter->since_us)
        before = APR_RING_PREV(before, link);
    APR_RING_INSERT_AFTER(before, waiter, link);
}

void vl_wait_add_first(vl_wait_t *w, vl_waiter_t *waiter)
{
    line_t *line = line_to_join(w, waiter);

    APR_RING_INSERT_HEAD(&line->waiters, waiter, vl_waiter_t, link);
}

void vl_wait_remove(vl_wait_t *w, vl_waiter_t *waiter)
{
    line_t *line = &w->lines[waiter->account];

    APR_RING_REMOVE(waiter, link);
    line->count--;
    w->count--;
    if (is_empty(line))
        APR_RING_REMOVE(line, link);
}

vl_waiter_t *vl_wait_first(const vl_wait_t *w, apr_uint32_t account)
{
    line_t *line = &w->lines[account];

    return is_empty(line) ? NULL : APR_RING_FIRST(&line->waiters);
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
    line_t *line = &w->lines[account];
    vl_waiter_t *waiter;

    if (is_empty(line))
        return NULL;
    APR_RING_FOREACH(waiter, &line->waiters, vl_waiter_t, link) {
        if (waiter->in_mpm)
            return waiter;
    }
    return NULL;
}

vl_waiter_t *vl_wait_expired(vl_wait_t *w, apr_int64_t now_us)
{
    line_t *line;

    APR_RING_FOREACH(line, &w->busy, line_t, link) {
        vl_waiter_t *first = APR_RING_FIRST(&line->waiters);

        if (first->deadline_us > now_us)
            continue;
        APR_RING_REMOVE(line, link);
        APR_RING_INSERT_TAIL(&w->busy, line, line_t, link);
        return first;
    }
    return NULL;
}

vl_waiter_t *vl_wait_any(const vl_wait_t *w, vl_waiter_done_fn done)
{
    line_t *line;
    vl_waiter_t *waiter;

    APR_RING_FOREACH(line, &w->busy, line_t, link) {
        APR_RING_FOREACH(waiter, &line->waiters, vl_waiter_t, link) {
            if (waiter->done == done)
                return waiter;
        }
    }
    return NULL;
}

apr_uint32_t vl_wait_longest(const vl_wait_t *w)
{
    line_t *line, *longest = NULL;

    APR_RING_FOREACH(line, &w->busy, line_t, link) {
        if (!longest || line->count > longest->count)
            longest = line;
    }
    return longest ? (apr_uint32_t)(longest - w->lines) : VL_NO_FLOW;
}

vl_waiter_t *vl_wait_newest_with(const vl_wait_t *w, apr_uint32_t account,
                                 vl_waiter_done_fn done)
{
    line_t *line = &w->lines[account];
    vl_waiter_t *waiter;

    if (is_empty(line))
        return NULL;
    for (waiter = APR_RING_LAST(&line->waiters);
         waiter != APR_RING_SENTINEL(&line->waiters, vl_waiter_t, link);
         waiter = APR_RING_PREV(waiter, link)) {
        if (waiter->done == done)
            return waiter;
    }
    return NULL;
}

void vl_wait_each_account(vl_wait_t *w, void (*fn)(apr_uint32_t account))
{
    line_t *line, *next;

    for (line = APR_RING_FIRST(&w->busy);
         line != APR_RING_SENTINEL(&w->busy, line_t, link); line = next) {
        next = APR_RING_NEXT(line, link);
        fn((apr_uint32_t)(line - w->lines));
    }
}

apr_uint32_t vl_wait_count(const vl_wait_t *w)
{
    return w->count;
}

apr_uint32_t vl_wait_count_of(const vl_wait_t *w, apr_uint32_t account)
{
    return w->lines[account].count;
}
