/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a request with a back end whose thread waits for its client. */
#include "segment.h"
#include "cost/vl_meter.h"

#define WAIT_US 40000

/* Another request with a back end begins and ends, which brings the clock up to date. */
static void other_request(vl_shm_t *shm)
{
    apr_uint64_t from = vl_charge_elsewhere(shm, vl_clock_us());

    vl_charge_elsewhere_pause(shm, vl_clock_us(), from);
}

typedef enum { WORKS, WAITS, WAITS_AT_ITS_END } write_e;

/* A request whose back end works for WAIT_US, or waits for so long. Returns what it was
 * charged, us. */
static apr_uint64_t charged(write_e write)
{
    vl_shm_t *shm = make(10, 2);
    apr_uint32_t a = account(shm, "a", 0);
    vl_cost_t cost = { 0 };
    vl_ticket_t ticket;
    vl_meter_t meter;

    vl_shm_child_attach(shm, getpid(), 10);
    vl_meter_child_init(shm);
    enter(shm, a, &ticket);
    vl_meter_begin(&meter, &ticket, vl_meter_thread_us(), NULL);
    vl_meter_elsewhere(&meter, 0);
    if (write != WORKS)
        vl_meter_may_wait(&meter);
    usleep(WAIT_US);
    other_request(shm);
    if (write == WAITS)
        vl_meter_go_on(&meter);
    vl_meter_end(&meter, &cost);
    vl_slot_end(shm, &ticket, &cost);
    ok(is_empty(shm), "the segment is empty");
    return metrics(shm, a).charged_us;
}

int main(void)
{
    apr_uint64_t works, waits, ends;

    segment_init();
    works = charged(WORKS);
    waits = charged(WAITS);
    ends = charged(WAITS_AT_ITS_END);
    ok(works >= WAIT_US / 8, "a back end is charged for the time in which it works (%u us)",
       (unsigned)works);
    ok(waits < works / 4, "it is not charged for the time in which a write blocks (%u us)",
       (unsigned)waits);
    ok(ends < works / 4, "nor if the request ends in that write (%u us)", (unsigned)ends);
    return tap_done();
}
