/* SPDX-License-Identifier: Apache-2.0 */
/* The automatic number of slots, on a small simulated server. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "core/vl_auto.h"
#include "core/vl_capacity.h"

#define CPUS 2
#define MIN (CPUS * VL_AUTO_MIN_PER_CPU)
#define MAX 400
#define USERS 1000

/* One tick is a millisecond. Each of the first CPUS runnable jobs gets one tick of CPU and
 * goes to the end of the list. A job with no CPU time left sleeps and ends. */
typedef struct job_t {
    int cpu, sleep;             /* ticks left */
} job_t;

typedef struct server_t {
    vl_auto_t state;
    apr_uint32_t slots, users;
    apr_uint32_t cpu, sleep;    /* of a request */
    apr_uint32_t njobs;
    job_t jobs[USERS];          /* running jobs, in scheduling order */
    apr_uint32_t served;
    apr_uint32_t backlog;       /* ticks in which a request waited, since the last step */
} server_t;

static server_t s;

static void begin(apr_uint32_t users, apr_uint32_t cpu, apr_uint32_t sleep)
{
    memset(&s, 0, sizeof(s));
    s.slots = MIN;
    s.users = users;
    s.cpu = cpu;
    s.sleep = sleep;
}

/* Returns how many processors were busy. */
static apr_uint32_t tick(void)
{
    job_t again[CPUS];
    apr_uint32_t i, kept = 0, busy = 0;

    while (s.njobs < s.slots && s.njobs < s.users) {
        job_t job = { (int)s.cpu, (int)s.sleep };

        s.jobs[s.njobs++] = job;
    }
    s.backlog += s.users > s.njobs;
    for (i = 0; i < s.njobs; i++) {
        job_t job = s.jobs[i];

        if (job.cpu && busy < CPUS) {
            job.cpu--;
            again[busy++] = job;
            continue;
        }
        if (!job.cpu && job.sleep-- <= 0) {
            s.served++;
            continue;
        }
        s.jobs[kept++] = job;
    }
    for (i = 0; i < busy; i++)
        s.jobs[kept++] = again[i];
    s.njobs = kept;
    return busy;
}

static vl_auto_sample_t sample(apr_uint32_t slots, apr_uint32_t running,
                               apr_uint32_t backlog, apr_uint32_t busy)
{
    vl_auto_sample_t x = { slots, MIN, MAX, running, busy, backlog };

    return x;
}

/* One step of simulated time; returns the permille the processors were busy. */
static apr_uint32_t step(void)
{
    apr_uint32_t i, ticks = VL_AUTO_STEP_US / 1000, busy = 0;
    vl_auto_sample_t x;

    for (i = 0; i < ticks; i++)
        busy += tick();
    busy = busy * 1000 / (ticks * CPUS);
    x = sample(s.slots, s.njobs, s.backlog * 1000 / ticks, busy);
    s.backlog = 0;
    s.slots = vl_auto_step(&s.state, &x);
    return busy;
}

static apr_uint32_t steps(int n)
{
    apr_uint32_t busy = 0;

    while (n--)
        busy = step();
    return busy;
}

static void cpu_work_needs_few(void)
{
    apr_uint32_t busy;

    begin(500, 3, 0);
    busy = steps(100);
    ok(busy >= 990 && s.slots == MIN, "work that burns CPU gets the fewest "
       "slots (%u, %u permille busy)", s.slots, busy);
    s.slots = 200;
    steps(25);
    ok(s.slots == MIN, "work that burns CPU shrinks from 200 slots within 5 s (%u)",
       s.slots);
}

static void sleeping_work_needs_more(void)
{
    apr_uint32_t busy, served;

    /* 1 ms of CPU, 50 ms of sleep: two processors need about 100. */
    begin(500, 1, 50);
    step();
    ok(s.slots > MIN, "the first step with idle processors adds slots");
    busy = steps(9);
    ok(busy >= 900 && s.slots >= 95, "work that sleeps 50 ms keeps the "
       "processors busy after 2 s (%u permille, %u slots)", busy, s.slots);
    steps(15);
    served = s.served;
    busy = steps(25);
    ok(busy >= 900 && s.slots <= 200, "work that sleeps gets few more slots than "
       "it needs (%u permille, %u slots)", busy, s.slots);
    ok(s.served - served >= 9000, "nine tenths of the possible requests are served");
}

static void the_mix_may_change(void)
{
    apr_uint32_t busy;

    begin(500, 1, 50);
    steps(20);
    s.cpu = 5;
    s.sleep = 0;
    steps(80);
    ok(s.slots == MIN, "slots shrink when sleeping work becomes CPU work (%u)",
       s.slots);
    s.cpu = 1;
    s.sleep = 50;
    busy = steps(10);
    ok(busy >= 900, "slots grow within 2 s when it sleeps again (%u permille, "
       "%u slots)", busy, s.slots);
}

static void idle_server_does_not_grow(void)
{
    begin(10, 1, 50);
    steps(50);
    ok(s.slots == MIN, "idle processors without queued requests add no slots");
}

static apr_uint32_t one(apr_uint32_t slots, apr_uint32_t running,
                        apr_uint32_t backlog, apr_uint32_t busy)
{
    vl_auto_t state = { 0, 0 };
    vl_auto_sample_t x = sample(slots, running, backlog, busy);

    return vl_auto_step(&state, &x);
}

static void a_step(void)
{
    ok(one(100, 100, 1000, 500) > 100,
       "requests wait, all slots in use, idle processors: more slots");
    ok(one(100, 100, 0, 500) == 100, "no request waits: no more slots");
    ok(one(100, 50, 1000, 500) == 100,
       "requests wait and half of the slots are free: no more slots");
    ok(one(100, 90, 1000, 500) > 100, "requests wait and a few slots are free: more slots");
    ok(one(100, 80, 1000, 500) > 100 && one(8, 7, 1000, 500) > 8,
       "one account uses all that one account may: more slots");
    ok(one(100, 100, 1000, 950) == 100, "a little idle: no change");
    ok(one(100, 100, 1000, 1000) < 100 && one(100, 0, 0, 1000) < 100,
       "not idle: fewer slots");
    ok(one(MIN + 1, 7, 1000, 1000) == MIN, "not idle: one slot less");
    ok(one(100, 100, 1000, 1100) < 100, "more than 1000 permille: fewer slots");
    ok(one(100, 100, 500, 500) == 100 && one(100, 100, 850, 800) == 100,
       "the processors may have been idle while no request waited: no more slots");
    ok(one(100, 100, 700, 300) > 100,
       "they were idle for longer than no request waited: more slots");
    ok(one(100, 100, 2000, 500) > 100, "more than 1000 permille of waiting: more slots");
}

static void bounds_hold(void)
{
    vl_auto_t state = { 0, 0 };
    vl_auto_sample_t x = sample(MAX - 1, MAX, 1000, 0);
    apr_uint32_t i, outside = 0;

    ok(vl_auto_step(&state, &x) == MAX, "never above the maximum");
    ok(one(MIN + 1, 9, 1000, 1000) >= MIN, "never below the minimum");
    ok(one(5000, 9, 0, 500) == MAX && one(1, 9, 0, 500) == MIN,
       "a value outside the bounds is corrected at once");
    x.max = 3;
    ok(vl_auto_step(&state, &x) == MIN,
       "without children the minimum applies, even above the maximum");
    x = sample(MIN, 0, 0, 0);
    memset(&state, 0, sizeof(state));
    for (i = 0; i < 100000; i++) {
        x.running = (apr_uint32_t)rand() % (x.slots + 5);
        x.backlog_permille = (apr_uint32_t)rand() % 1100;
        x.busy_permille = (apr_uint32_t)rand() % 1100;
        x.slots = vl_auto_step(&state, &x);
        outside += x.slots < MIN || x.slots > MAX;
    }
    ok(!outside, "100000 random steps stay within the bounds");
}

/* Returns the fewest slots of so many steps with busy processors and all slots in use. */
static apr_uint32_t fewest_of(vl_auto_t *state, vl_auto_sample_t *x, int n)
{
    apr_uint32_t fewest = MAX;

    while (n--) {
        vl_auto_sample_t busy = sample(x->slots, x->slots, 1000, 1000);

        x->slots = vl_auto_step(state, &busy);
        fewest = x->slots < fewest ? x->slots : fewest;
    }
    return fewest;
}

static void too_few_is_remembered(void)
{
    vl_auto_t state = { 0 };
    vl_auto_sample_t x = sample(80, 80, 1000, 500);
    apr_uint32_t fewest, i;

    x.slots = vl_auto_step(&state, &x);
    fewest = fewest_of(&state, &x, 4);
    ok(fewest > 80 && fewest < 120, "after idle processors with 80 slots, it does not shrink "
       "below %u for four steps", fewest);
    ok(fewest_of(&state, &x, 4) < 80, "then it tries fewer");
    for (i = 0; i < 6; i++) {
        x = sample(80, 80, 1000, 500);
        x.slots = vl_auto_step(&state, &x);
        while (fewest_of(&state, &x, 1) >= 80)
            continue;
    }
    x = sample(80, 80, 1000, 500);
    x.slots = vl_auto_step(&state, &x);
    ok(fewest_of(&state, &x, 78) > 80, "each time that 80 prove too few again it waits longer, 16 s "
       "at most");
    ok(fewest_of(&state, &x, 40) == MIN, "later it shrinks to the minimum again");
    fewest_of(&state, &x, 1);
    x = sample(80, 80, 1000, 500);
    x.slots = vl_auto_step(&state, &x);
    ok(fewest_of(&state, &x, 10) < 80, "and begins anew, because the fewest slots kept the "
       "processors busy");
}

int main(void)
{
    srand(20261121);
    cpu_work_needs_few();
    sleeping_work_needs_more();
    the_mix_may_change();
    idle_server_does_not_grow();
    a_step();
    bounds_hold();
    too_few_is_remembered();
    return tap_done();
}
