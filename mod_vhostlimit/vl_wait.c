/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_wait.h"

/* A line is in `busy` iff somebody stands in it.  Within a line deadlines are
 * in order, because an account's timeout is the same for all: only the first
 * need be looked at. */
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

vl_wait_t *vl_wait_create(apr_pool_t *p, apr_uint32_t accounts)
{
    vl_wait_t *w = apr_palloc(p, sizeof(*w));
    apr_uint32_t a;

    w->lines = apr_pcalloc(p, sizeof(line_t) * accounts);
    w->count = 0;
    APR_RING_INIT(&w->busy, line_t, link);
    for (a = 0; a < accounts; a++)
        APR_RING_INIT(&w->lines[a].waiters, vl_waiter_t, link);
    return w;
}

static int is_empty(line_t *line)
{
    return APR_RING_EMPTY(&line->waiters, vl_waiter_t, link);
}

static line_t *line_to_join(vl_wait_t *w, const vl_waiter_t *waiter)
{
    line_t *line = &w->lines[waiter->account];

    if (is_empty(line))
        APR_RING_INSERT_TAIL(&w->busy, line, line_t, link);
    line->count++;
    w->count++;
    return line;
}

void vl_wait_add(vl_wait_t *w, vl_waiter_t *waiter)
{
    line_t *line = line_to_join(w, waiter);

    APR_RING_INSERT_TAIL(&line->waiters, waiter, vl_waiter_t, link);
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
    if (is_empty(line))
        APR_RING_REMOVE(line, link);
    line->count--;
    w->count--;
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
    vl_waiter_t *waiter;

    APR_RING_FOREACH(waiter, &w->lines[account].waiters, vl_waiter_t, link) {
        if (waiter->in_mpm)
            return waiter;
    }
    return NULL;
}

vl_waiter_t *vl_wait_expired(const vl_wait_t *w, apr_int64_t now_us)
{
    line_t *line;

    APR_RING_FOREACH(line, &w->busy, line_t, link) {
        vl_waiter_t *first = APR_RING_FIRST(&line->waiters);

        if (first->deadline_us <= now_us)
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

vl_waiter_t *vl_wait_newest_where(const vl_wait_t *w,
                                  int (*is)(const vl_waiter_t *waiter))
{
    line_t *line;
    vl_waiter_t *waiter;

    APR_RING_FOREACH(line, &w->busy, line_t, link) {
        for (waiter = APR_RING_LAST(&line->waiters);
             waiter != APR_RING_SENTINEL(&line->waiters, vl_waiter_t, link);
             waiter = APR_RING_PREV(waiter, link)) {
            if (is(waiter))
                return waiter;
        }
    }
    return NULL;
}

vl_waiter_t *vl_wait_newest_of_longest(const vl_wait_t *w)
{
    line_t *line, *longest = NULL;

    APR_RING_FOREACH(line, &w->busy, line_t, link) {
        if (!longest || line->count > longest->count)
            longest = line;
    }
    return longest ? APR_RING_LAST(&longest->waiters) : NULL;
}

apr_uint32_t vl_wait_count(const vl_wait_t *w)
{
    return w->count;
}
