/* SPDX-License-Identifier: Apache-2.0 */
/* The server's answers, as vhostlimitctl reads and shows them: to the command "status" and,
 * after a zero byte, to the command "modules" or "clients". */
#include "fuzz.h"
#include "ctl_command.h"
#include "ctl_doctor.h"
#include "ctl_explain.h"
#include "ctl_top.h"

static void look_at_doctor(const ctl_status_t *status, const json_t *modules)
{
    ctl_facts_t facts = { .status = status, .modules = modules };
    json_t *findings;

    facts.release = strdup("6.1");
    facts.outside = json_object();
    findings = ctl_doctor_judge(&facts);
    must(json_array_size(findings) > 0);
    json_decref(findings);
    ctl_facts_free(&facts);
}

static void look_at_top(const ctl_status_t *status)
{
    static const ctl_status_t before = { .now_us = 0 };
    FILE *out = fopen("/dev/null", "w");
    ctl_top_row_t *rows;
    ctl_order_e order;
    size_t i;

    for (order = 0; order < CTL_ORDER_COUNT; order++) {
        rows = ctl_top_rows(status, &before);
        ctl_top_sort(rows, status->nvhosts, order);
        for (i = 0; i < status->nvhosts; i++)
            must(rows[i].vhost >= status->vhosts);
        ctl_top_print(out, rows, status->nvhosts, 1);
        free(rows);
    }
    fclose(out);
}

static void look_at(const ctl_status_t *status, json_t *modules)
{
    const json_t *clients = ctl_clients_is_sound(modules) ? modules : NULL;
    size_t i;

    for (i = 0; i < status->nvhosts; i++)
        json_decref(ctl_explain_make(status, &status->vhosts[i], clients));
    look_at_top(status);
    look_at_doctor(status, modules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t len = zero ? (size_t)(zero - data) : size;
    json_t *json = json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, NULL);
    json_t *modules = zero ? json_loadb((const char *)zero + 1, size - len - 1, 0, NULL)
                           : NULL;
    char *text = strndup((const char *)data, len);
    ctl_status_t status;
    ctl_error_t error;

    must(strlen(ctl_plain(text)) <= len);
    free(text);
    if (json && ctl_status_read(json, &status, &error) == CTL_DONE) {
        look_at(&status, modules);
        ctl_status_free(&status);
    }
    json_decref(modules);
    json_decref(json);
    return 0;
}
