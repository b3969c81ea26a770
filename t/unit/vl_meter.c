/* SPDX-License-Identifier: Apache-2.0 */
/* A request is charged the CPU time of its thread once, and is in the table of tasks while it
 * runs. */
#include "segment.h"
#include "cost/vl_meter.h"

static vl_shm_t *shm;
static apr_uint32_t a;

typedef struct seen_t {
    int n;
    task_t task;
} seen_t;

static void see(void *data, pid_t pid, apr_uint32_t child, apr_uint32_t i, const task_t *task)
{
    seen_t *seen = data;

    (void)i;
    ok(pid == getpid() && child == 0, "the entry is this child's");
    seen->n += !task->paused;
    seen->task = *task;
}

static seen_t tasks(void)
{
    seen_t seen = { 0 };

    vl_duty_tasks(shm, see, &seen);
    return seen;
}

static void burn(apr_int64_t us)
{
    apr_int64_t until = vl_meter_thread_us() + us;

    while (vl_meter_thread_us() < until)
        ;
}

/* Begins a request. */
static void begin(vl_meter_t *meter, vl_ticket_t *ticket)
{
    enter(shm, a, ticket);
    vl_meter_begin(meter, ticket, vl_meter_thread_us(), 7, 0, NULL);
}

static void end_request(vl_meter_t *meter, vl_ticket_t *ticket, apr_uint64_t cpu_us)
{
    vl_cost_t cost = { cpu_us, cpu_us, 0, NULL };

    vl_meter_end(meter, &cost);
    vl_slot_end(shm, ticket, &cost);
}

static void a_long_request_is_charged_once(void)
{
    vl_ticket_t ticket;
    vl_meter_t meter;
    apr_uint64_t part;

    begin(&meter, &ticket);
    burn(30000);
    vl_meter_tick(vl_clock_us());
    part = metrics(shm, a).charged_us;
    ok(part >= 30000, "a part is charged while it runs (%u us)", (unsigned)part);
    end_request(&meter, &ticket, 40000);
    ok(metrics(shm, a).charged_us == 40000, "the end charges the rest");
    ok(is_empty(shm), "the segment is empty");
}

static void the_table_lists_running_requests(void)
{
    vl_ticket_t ticket[3];
    vl_meter_t meter[3];
    apr_uint32_t serial;
    seen_t seen = tasks();

    ok(!seen.n, "nothing runs");
    begin(&meter[0], &ticket[0]);
    seen = tasks();
    serial = seen.task.serial;
    ok(seen.n == 1 && seen.task.account == a && seen.task.client_fd == 7,
       "a request is listed with its account and the socket of its client");
    begin(&meter[1], &ticket[1]);
    begin(&meter[2], &ticket[2]);
    ok(tasks().n == 3, "all requests are listed");
    vl_duty_pause(shm, meter[1].task, 1);
    ok(tasks().n == 2, "one that waits for its client is paused");
    vl_duty_pause(shm, meter[1].task, 0);
    ok(tasks().n == 3, "until it goes on");
    end_request(&meter[0], &ticket[0], 1);
    begin(&meter[0], &ticket[0]);
    end_request(&meter[2], &ticket[2], 1);
    end_request(&meter[1], &ticket[1], 1);
    seen = tasks();
    ok(seen.n == 1 && seen.task.serial != serial, "a request in the same entry has another number");
    end_request(&meter[0], &ticket[0], 1);
    ok(!tasks().n && is_empty(shm), "nothing is left");
}

int main(void)
{
    segment_init();
    shm = make(10, 2);
    a = account(shm, "a", 0);
    vl_shm_child_attach(shm, getpid(), 10);
    vl_meter_child_init(shm);
    a_long_request_is_charged_once();
    the_table_lists_running_requests();
    return tap_done();
}
