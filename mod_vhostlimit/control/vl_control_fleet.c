/* SPDX-License-Identifier: Apache-2.0 */
#include "control/vl_control_fleet.h"

#include "base/vl_clock.h"
#include "core/vl_fleet.h"

static void put_number(vl_out_t *out, apr_uint64_t n)
{
    vl_out_text(out, ",");
    vl_out_number(out, n);
}

static void put_reading(vl_out_t *out, const vl_fleet_reading_t *reading, int is_first)
{
    vl_out_text(out, is_first ? "\n[" : ",\n[");
    vl_out_json(out, reading->name);
    put_number(out, reading->account);
    put_number(out, reading->limits.weight);
    put_number(out, reading->limits.cpu);
    put_number(out, reading->limits.concurrency);
    put_number(out, reading->charged_us);
    put_number(out, reading->backlog_us);
    put_number(out, reading->requests);
    vl_out_text(out, "]");
}

void vl_control_fleet_json(vl_out_t *out, vl_shm_t *shm, int all)
{
    vl_fleet_reading_t readings[VL_FLEET_READINGS];
    apr_uint32_t account = 0;
    apr_size_t i, n;
    int is_first = 1;

    vl_out_text(out, "{\"generation\":");
    vl_out_number(out, vl_fleet_generation(shm));
    vl_out_text(out, ",\"clock_us\":");
    vl_out_number(out, (apr_uint64_t)vl_clock_us());
    vl_out_text(out, ",\"processors\":");
    vl_out_number(out, vl_shm_processors(shm));
    vl_out_text(out, ",\"sites\":[");
    do {
        n = vl_fleet_read(shm, all, &account, readings);
        for (i = 0; i < n; i++, is_first = 0)
            put_reading(out, &readings[i], is_first);
    } while (account);
    vl_out_text(out, "\n]}\n");
}

void vl_control_leased_json(vl_out_t *out, apr_size_t n)
{
    vl_out_text(out, "{\"leased\":");
    vl_out_number(out, n);
    vl_out_text(out, "}\n");
}
