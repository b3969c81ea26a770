/* SPDX-License-Identifier: Apache-2.0 */
/* The timing wheel: timers fire within one step and never early, also when the clock jumps.
 * */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <apr_general.h>

#include "tap.h"
#include "base/vl_wheel.h"

#define STEP VL_WHEEL_STEP_US
#define TURN ((apr_int64_t)STEP * VL_WHEEL_BUCKETS)
#define START ((apr_int64_t)1790000000 * 1000000 + 12345)
#define TIMERS 500

typedef struct item_t {
    vl_timer_t timer;
    apr_int64_t due;                /* the model's; 0: not set */
    int fired;
} item_t;

static apr_pool_t *pool;
static vl_wheel_t *wheel;
static item_t items[TIMERS];
static apr_int64_t now;
static int early, unexpected;

static item_t *item_of(vl_timer_t *timer)
{
    return (item_t *)(void *)((char *)timer - offsetof(item_t, timer));
}

static void note(vl_timer_t *timer)
{
    item_t *item = item_of(timer);

    early += item->due > now;
    unexpected += !item->due || timer->due_us;
    item->due = 0;
    item->fired++;
}

static void set(int i, apr_int64_t due)
{
    items[i].due = due;
    vl_wheel_set(wheel, &items[i].timer, due);
}

static void clear(int i)
{
    items[i].due = 0;
    vl_wheel_clear(&items[i].timer);
}

static void begin(void)
{
    memset(items, 0, sizeof(items));
    early = unexpected = 0;
    now = START;
    wheel = vl_wheel_create(pool, now);
}

static void turn_with(apr_int64_t to, vl_wheel_fn fn)
{
    now = to;
    vl_wheel_turn(wheel, now, fn);
}

static void turn(apr_int64_t to)
{
    turn_with(to, note);
}

/* Returns when timer i fires if the wheel is turned every `every` us, or 0 if it has not
 * fired by `until`. */
static apr_int64_t fires_at(int i, apr_int64_t every, apr_int64_t until)
{
    int before = items[i].fired;

    while (items[i].fired == before && now < until)
        turn(now + every);
    return items[i].fired == before ? 0 : now;
}

static void one_timer(void)
{
    apr_int64_t after, late, worst = 0;
    int missed = 0;

    for (after = 1; after < 3 * STEP; after += 777) {
        begin();
        set(0, START + after);
        late = fires_at(0, 1000, START + 5 * STEP) - START - after;
        missed += late < 0;
        worst = late > worst ? late : worst;
    }
    ok(!missed && !early, "a timer fires and is not early, wherever in a step it is due");
    ok(worst <= STEP + 1000, "a timer fires within a step (%d us)", (int)worst);

    begin();
    set(0, START + STEP);
    turn(START + STEP - 1);
    ok(!items[0].fired, "a microsecond before its time it does not fire");
    turn(START + 2 * STEP);
    turn(START + 3 * TURN);
    ok(items[0].fired == 1 && !items[0].timer.due_us, "a timer fires once and is then off");
}

static void due_timers(void)
{
    begin();
    turn(START + 7 * STEP);
    set(0, START);
    set(1, now);
    turn(now);
    ok(items[0].fired == 1, "a timer in the past fires at the next turn");
    turn(now + STEP);
    ok(items[1].fired == 1 && !early, "a timer that is due now fires within a step");
}

static void far_deadlines(void)
{
    static const apr_int64_t far[] = {
        TURN - STEP, TURN - 1, TURN, TURN + 1, TURN + STEP, 2 * TURN + 5,
        10 * TURN - 3
    };
    apr_int64_t at;
    int i, wrong = 0;

    for (i = 0; i < (int)(sizeof(far) / sizeof(far[0])); i++) {
        begin();
        set(0, START + far[i]);
        at = fires_at(0, STEP / 2, START + 11 * TURN);
        wrong += at < START + far[i] || at > START + far[i] + 2 * STEP;
    }
    ok(!wrong && !early, "timers one turn of the wheel away, and further");
}

static void set_again_and_cleared(void)
{
    begin();
    set(0, START + 5 * STEP);
    set(0, START + 50 * STEP);
    turn(START + 20 * STEP);
    ok(!items[0].fired, "a timer set again for later does not fire at the first time");
    set(0, START + 22 * STEP);
    turn(START + 24 * STEP);
    ok(items[0].fired == 1, "a timer set again for sooner fires at the second time");
    turn(START + 60 * STEP);
    ok(items[0].fired == 1, "it fires once");
    set(1, now + STEP);
    clear(1);
    clear(1);
    clear(2);
    turn(now + 2 * TURN);
    ok(!items[1].fired, "a cleared timer does not fire; clearing it twice or unset is allowed");
    set(1, now + STEP);
    turn(now + 3 * STEP);
    ok(items[1].fired == 1, "a cleared timer can be set again");
}

/* --- callbacks ------------------------------------------------------------ */

static void note_and_repeat(vl_timer_t *timer)
{
    note(timer);
    set((int)(item_of(timer) - items), now + STEP / 2);
}

static void note_and_clear_others(vl_timer_t *timer)
{
    int i;

    note(timer);
    for (i = 0; i < 10; i++)
        clear(i);
}

/* Timer 0 puts off timer 1, which is due as well, brings 20 forward and clears 2. */
static void note_and_change_others(vl_timer_t *timer)
{
    note(timer);
    if (item_of(timer) != &items[0])
        return;
    set(1, now + 10 * STEP);
    set(20, now + STEP);
    clear(2);
    set(0, now);
}

static void callbacks_may_do_anything(void)
{
    int i, n = 0;

    begin();
    set(0, START + STEP);
    for (i = 0; i < 1000; i++)
        turn_with(now + STEP / 10, note_and_repeat);
    ok(items[0].fired >= 98 && items[0].fired <= 100,
       "a timer that sets itself again fires once per step (%d)", items[0].fired);

    begin();
    for (i = 0; i < 10; i++)
        set(i, START + STEP + i * 10);
    turn_with(START + 3 * STEP, note_and_clear_others);
    for (i = 0; i < 10; i++)
        n += items[i].fired;
    ok(n == 1, "a timer that clears other due timers is the only one to fire");

    begin();
    for (i = 0; i < 3; i++)
        set(i, START + STEP);
    set(20, START + 2 * TURN);
    turn_with(START + 2 * STEP, note_and_change_others);
    ok(items[0].fired == 1 && !items[1].fired && !items[2].fired,
       "due timers are put off and cleared by another");
    turn(now + 2 * STEP);
    ok(items[0].fired == 2 && items[20].fired == 1 && !items[1].fired,
       "a timer set for now fires at the next turn, one brought forward at its new time");
    turn(now + 11 * STEP);
    ok(items[1].fired == 1 && !items[2].fired && !early && !unexpected,
       "a timer that was put off fires at its new time");
}

/* --- the clock ------------------------------------------------------------ */

static void the_clock_jumps_forward(void)
{
    int i, n = 0;

    begin();
    for (i = 0; i < TIMERS; i++)
        set(i, START + 1 + i * (apr_int64_t)STEP);
    turn(START + 300 * (apr_int64_t)STEP);
    for (i = 0; i < TIMERS; i++)
        n += items[i].fired;
    ok(n >= 299 && n <= 301 && !early,
       "after a jump by more than a turn all due timers fire, and no other (%d)", n);
    turn(START + 100 * TURN);
    for (i = 0, n = 0; i < TIMERS; i++)
        n += items[i].fired;
    ok(n == TIMERS, "after a jump by a hundred turns all timers fire");
    set(0, now + STEP);
    turn(now + 3 * STEP);
    ok(items[0].fired == 2, "the wheel works after a jump");
}

static void the_clock_jumps_back(void)
{
    begin();
    turn(START + 5 * TURN);
    set(0, now + 10 * STEP);
    set(1, START + STEP);               /* overdue when it is set */
    turn(START);
    ok(!items[0].fired && !items[1].fired, "a clock set back makes no timer early");
    set(2, now + 3 * STEP);
    turn(now + 5 * STEP);
    ok(items[2].fired == 1, "a timer set afterwards is in time");
    while (now < START + 5 * TURN + 12 * STEP)
        turn(now + STEP);
    ok(items[0].fired == 1 && items[1].fired == 1 && !early,
       "earlier timers fire when the clock reaches their time again, or before");
}

/* --- many ----------------------------------------------------------------- */

/* Every timer that is late by more than a step must have fired. */
static int overdue(void)
{
    int i, n = 0;

    for (i = 0; i < TIMERS; i++)
        n += items[i].due && items[i].due + STEP < now;
    return n;
}

static void random_step(void)
{
    int i = rand() % TIMERS;

    switch (rand() % 8) {
    case 0:
        clear(i);
        break;
    case 1:
        set(i, now + rand() % (4 * TURN) + 1);
        break;
    case 2:
        turn(now + rand() % (3 * STEP));
        break;
    default:
        set(i, now + rand() % (20 * STEP) + 1);
    }
}

static void random_against_model(void)
{
    int i, late = 0, fired = 0;

    begin();
    for (i = 0; i < 400000; i++) {
        random_step();
        if (!(i % 50000))
            turn(now + 5 * TURN / 2);
        if (!(i % 100)) {
            turn(now);
            late += overdue();
        }
    }
    turn(now + 6 * TURN);
    for (i = 0; i < TIMERS; i++) {
        late += items[i].due != 0;
        fired += items[i].fired;
    }
    ok(!early && !unexpected && !late,
       "400000 random steps, %d fired: %d early, %d late, %d that were not set",
       fired, early, late, unexpected);
}

int main(void)
{
    srand(20261121);
    apr_initialize();
    apr_pool_create(&pool, NULL);
    one_timer();
    due_timers();
    far_deadlines();
    set_again_and_cleared();
    callbacks_may_do_anything();
    the_clock_jumps_forward();
    the_clock_jumps_back();
    random_against_model();
    return tap_done();
}
