/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that are occupied without a slot. */
#include "segment.h"
#include "core/vl_capacity.h"
#include "core/vl_thread.h"

static vl_shm_t *with_threads(apr_uint32_t threads)
{
    vl_shm_t *shm = make(10, 2);

    if (vl_shm_child_attach(shm, getpid(), threads) != APR_SUCCESS)
        abort();
    vl_slot_set(shm, 100);
    return shm;
}

static apr_uint32_t occupies(vl_shm_t *shm, apr_uint32_t a)
{
    apr_uint32_t n = 0;

    while (n < 1000 && vl_thread_try_occupy(shm, a) == APR_SUCCESS)
        n++;
    return n;
}

static void one_alone_leaves_threads(void)
{
    vl_shm_t *shm = with_threads(16);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), n;
    vl_ticket_t ticket;

    n = occupies(shm, a);
    ok(n == 12, "of fifteen threads a single account gets twelve (%u)", n);
    ok(vl_slot_try(shm, a, &ticket) == APR_EAGAIN,
       "the account gets no slot that needs a thread");
    ok(vl_slot_try(shm, b, &ticket) == APR_SUCCESS, "another account gets a slot");
    ok(occupies(shm, b) > 0, "another account gets a thread for its connection");
    ok(valid(shm), "the sums hold");
    vl_thread_free(shm, a);
    ok(occupies(shm, a) == 0, "the account gets no thread while others use them");
    end(shm, &ticket, 1);
    vl_thread_free(shm, b);
    ok(occupies(shm, a) == 1, "the account gets a thread when one is free");
}

/* The account already has one of the MPM's threads. */
static void the_first_always_may(void)
{
    vl_shm_t *shm = with_threads(4);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0);

    ok(occupies(shm, a) == 3, "a few threads may all be one account's");
    ok(occupies(shm, b) == 1, "another account gets the first thread");
    ok(valid(shm), "the sums hold");
}

static void accounts_without_queue_are_not_refused(void)
{
    vl_shm_t *shm = with_threads(16);
    apr_uint32_t dry = account_with(shm, "dry",
                                    limits_of(VL_MODE_DRYRUN, 0, 100));
    apr_uint32_t none = account_with(shm, "none",
                                     limits_of(VL_MODE_ON, 0, 0));

    ok(occupies(shm, dry) == 1000, "under DryRun no thread is refused");
    vl_shm_parent_reclaim(shm, getpid());
    shm = with_threads(16);
    ok(occupies(shm, none) == 1000, "without a queue no thread is refused");
}

static void streams_take_no_thread(void)
{
    vl_shm_t *shm = with_threads(16);
    apr_uint32_t a = account(shm, "a", 0), b = account(shm, "b", 0), n;
    vl_ticket_t of[14];
    vl_capacity_t capacity;

    vl_thread_occupy(shm, a);
    for (n = 0; n < 14; n++) {
        enter(shm, a, &of[n]);
        vl_thread_is_stream(shm, &of[n]);
    }
    vl_capacity_count(shm, &capacity);
    ok(capacity.here == 14, "fourteen streams of a connection have its thread (%u)",
       capacity.here);
    ok(valid(shm), "the sums hold");
    for (n = 0; n < 14; n++)
        end(shm, &of[n], 1);
    vl_thread_free(shm, a);
    ok(is_empty(shm) && occupies(shm, b) == 12, "the threads are free afterwards");
}

static void dead_children_leave_no_threads(void)
{
    vl_shm_t *shm = with_threads(16);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket;

    vl_thread_occupy(shm, a);
    enter(shm, a, &ticket);
    vl_thread_is_stream(shm, &ticket);
    vl_shm_parent_reclaim(shm, getpid());
    ok(is_empty(shm) && !vl_segment_cell(shm, 0, a)->occupied
       && !vl_segment_cell(shm, 0, a)->streams, "a dead child has none");
}

int main(void)
{
    segment_init();
    one_alone_leaves_threads();
    the_first_always_may();
    accounts_without_queue_are_not_refused();
    streams_take_no_thread();
    dead_children_leave_no_threads();
    return tap_done();
}
