/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_fair.h"

void vl_fair_raise(apr_uint64_t *tag, apr_uint64_t least)
{
    apr_uint64_t now = __atomic_load_n(tag, __ATOMIC_RELAXED);

    while (VL_FAIR_AFTER(least, now) > 0
           && !__atomic_compare_exchange_n(tag, &now, least, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

void vl_fair_move(apr_uint64_t *tag, apr_int64_t by, apr_uint64_t bound)
{
    apr_uint64_t now = __atomic_load_n(tag, __ATOMIC_RELAXED);
    apr_int64_t most;

    do {
        most = VL_FAIR_AFTER(bound, now);
        if (by > 0 ? most <= 0 : most >= 0)
            return;
        if (by > 0 ? most > by : most < by)
            most = by;
    } while (!__atomic_compare_exchange_n(tag, &now, now + (apr_uint64_t)most, 1,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static int is_before(const vl_fair_t *a, const vl_fair_t *b)
{
    apr_int64_t after = VL_FAIR_AFTER(a->tag, b->tag);

    return after ? after < 0 : a->order < b->order;
}

/* Puts the member where the order demands it; its old place is i, and free. */
static void settle(vl_fair_heap_t *heap, apr_uint32_t i, vl_fair_t *member)
{
    apr_uint32_t next;

    for (; i && is_before(member, heap->at[next = (i - 1) / 2]); i = next) {
        heap->at[i] = heap->at[next];
        heap->at[i]->place = i + 1;
    }
    for (; (next = 2 * i + 1) < heap->length; i = next) {
        if (next + 1 < heap->length && is_before(heap->at[next + 1], heap->at[next]))
            next++;
        if (!is_before(heap->at[next], member))
            break;
        heap->at[i] = heap->at[next];
        heap->at[i]->place = i + 1;
    }
    heap->at[i] = member;
    member->place = i + 1;
}

void vl_fair_add(vl_fair_heap_t *heap, vl_fair_t *member)
{
    settle(heap, member->place ? member->place - 1 : heap->length++, member);
}

void vl_fair_remove(vl_fair_heap_t *heap, vl_fair_t *member)
{
    apr_uint32_t place = member->place;

    if (!place)
        return;
    member->place = 0;
    if (place <= --heap->length)
        settle(heap, place - 1, heap->at[heap->length]);
}
