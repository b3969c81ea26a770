/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of the state "limited" of a site. */
#include <string.h>

#include "tap.h"
#include "core/vl_limited.h"

#define S 1000000

static vl_limited_t state;
static vl_limited_look_t look;

static void fresh(void)
{
    memset(&state, 0, sizeof(state));
    memset(&look, 0, sizeof(look));
    look.at_us = 1000000 * (apr_int64_t)S;
    vl_limited_step(&state, &look);
}

/* One second later, with the given requests admitted, refused and queued. */
static vl_limited_e second(unsigned served, unsigned refused, unsigned waiting)
{
    vl_limited_e what;

    look.at_us += S;
    look.requests += served;
    look.refused += refused;
    look.waiting = waiting;
    what = vl_limited_step(&state, &look);
    if (what == VL_LIMITED_ENDS)
        vl_limited_clear(&state);
    return what;
}

/* Counts events of a kind in equal seconds. */
static int events(int seconds, vl_limited_e what, unsigned served,
                  unsigned refused, unsigned waiting)
{
    int n = 0;

    while (seconds--)
        n += second(served, refused, waiting) == what;
    return n;
}

static void refusing(void)
{
    fresh();
    ok(second(10, 0, 0) == VL_LIMITED_AS_BEFORE, "nothing without a cause");
    ok(second(10, 3, 0) == VL_LIMITED_BEGINS, "a refusal begins the state");
    ok(look.refused - state.before.refused == 3, "the refusals of the last second are counted");
    ok(!events(30, VL_LIMITED_BEGINS, 10, 3, 0), "once");
    ok(!events(9, VL_LIMITED_ENDS, 10, 0, 0), "nine seconds without a cause do not end it");
    ok(second(10, 0, 0) == VL_LIMITED_ENDS, "ten seconds without a cause end it");
    ok(!events(60, VL_LIMITED_ENDS, 10, 0, 0), "once");
}

static void waiting(void)
{
    fresh();
    ok(!events(60, VL_LIMITED_BEGINS, 100, 0, 5),
       "5 waiting at 100 a second is sharing");
    ok(second(100, 0, 50) == VL_LIMITED_AS_BEFORE, "one check with a backlog does not begin it");
    ok(second(100, 0, 50) == VL_LIMITED_BEGINS, "two checks with a backlog begin it");
    fresh();
    ok(events(5, VL_LIMITED_BEGINS, 0, 0, 1) == 1,
       "a request queued behind a long one begins it");
    fresh();
    second(0, 0, 1);
    second(1, 0, 0);
    ok(second(0, 0, 1) == VL_LIMITED_AS_BEFORE,
       "requests that are queued one after the other do not");
}

static void rarely(void)
{
    int begins = 0, ends = 0, i;

    fresh();
    /* For an hour: one second with refusals, then eleven without. */
    for (i = 0; i < 300; i++) {
        begins += second(1, 1, 0) == VL_LIMITED_BEGINS;
        ends += events(11, VL_LIMITED_ENDS, 1, 0, 0);
    }
    ok(begins + ends <= 360, "at most one line in ten seconds");
    ok(begins - ends <= 1 && begins >= ends && begins > 100,
       "each beginning has its end");
}

static void clock_back(void)
{
    fresh();
    look.at_us -= 3600 * (apr_int64_t)S;
    ok(second(0, 9, 0) == VL_LIMITED_AS_BEFORE, "a clock that was set back: no event");
    ok(second(0, 9, 0) == VL_LIMITED_BEGINS, "the next second counts again");
}

int main(void)
{
    refusing();
    waiting();
    rarely();
    clock_back();
    return tap_done();
}
