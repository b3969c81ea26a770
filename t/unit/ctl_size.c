/* SPDX-License-Identifier: Apache-2.0 */
/* Erlang's formulas against published tables, and what size computes from two documents. */
#include <math.h>

#include "tap.h"
#include "ctl_size.h"

static int is_near(double value, double expected)
{
    return fabs(value - expected) < 0.00005;
}

static void formulas(void)
{
    ok(is_near(ctl_size_erlang_b(10, 5), 0.0184), "B(10, 5) is 0.0184");
    ok(is_near(ctl_size_erlang_b(1, 1), 0.5), "B(1, 1) is 0.5");
    ok(is_near(ctl_size_erlang_c(10, 5), 0.0361), "C(10, 5) is 0.0361");
    ok(ctl_size_erlang_c(4, 4) == 1, "every request waits at full load");
    ok(ctl_size_least(5, 0.01) == 11, "5 erlangs need 11 servers for a loss of 1 %%");
    ok(ctl_size_least(0, 0.01) == 1, "no load needs one server");
    ok(ctl_size_least(1e6, 0.01) == 0, "a number above 20 000 is not computed");
}

/* A server with one site that had so many requests, of 40 ms each with 10 ms of CPU time. */
static ctl_status_t server_after(ctl_vhost_t *vhost, json_int_t requests)
{
    ctl_status_t status = { .processors = 2, .slots = 16, .workers = 50, .uptime_s = 100,
                            .vhosts = vhost, .nvhosts = 1 };

    vhost->requests = requests;
    vhost->busy_us = requests * 40000;
    vhost->charged_us = requests * 10000;
    return status;
}

static void computes(void)
{
    ctl_vhost_t vhosts[2] = { { .name = "a" }, { .name = "a" } };
    ctl_status_t before = server_after(&vhosts[0], 1000);
    ctl_status_t after = server_after(&vhosts[1], 1500);
    ctl_size_t size;

    ok(!ctl_size_compute(&before, &after, 10, &size) && size.requests == 500,
       "the requests between two documents are counted");
    ok(size.per_second == 50 && is_near(size.service_ms, 40) && is_near(size.cpu_ms, 10),
       "rate, time and CPU time of a request");
    ok(size.at_once == 16, "8 requests for each processor at least: %ld",
       size.at_once);
    ok(size.workers_wanted == 50, "twice as many workers, a multiple of 25: %ld",
       size.workers_wanted);
    ok(size.most_per_second == 200, "two processors serve 200 requests of 10 ms a second");
    ok(is_near(size.offered, 2), "50 requests a second of 40 ms are 2 erlangs");
    ok(!ctl_size_compute(NULL, &after, 100, &size) && size.requests == 1500,
       "without an earlier document all requests count");
    ok(ctl_size_compute(&after, &before, 10, &size) == -1,
       "counters that went back are an error");
    ok(!ctl_size_compute(&after, &after, 10, &size) && !size.requests, "no request");
    vhosts[1].charged_us = vhosts[0].charged_us;
    ok(!ctl_size_compute(&before, &after, 10, &size) && size.most_per_second < 0
       && size.at_once == 16, "requests without CPU time set no bound");
    vhosts[1].charged_us++;
    ok(!ctl_size_compute(&before, &after, 10, &size) && size.at_once == 1000000,
       "the number of requests has a bound: %ld", size.at_once);
}

int main(void)
{
    formulas();
    computes();
    return tap_done();
}
