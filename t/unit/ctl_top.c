/* SPDX-License-Identifier: Apache-2.0 */
/* The order of top, rates, and text that goes to a terminal. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "ctl_top.h"

static ctl_vhost_t vhosts[] = {
    { .name = "idle2" },
    { .name = "slow", .running = 3, .cpu_now_permille = 10, .requests = 40 },
    { .name = "idle1" },
    { .name = "busy", .running = 1, .cpu_now_permille = 900, .requests = 200 },
    { .name = "full", .running = 3, .waiting = 5, .cpu_now_permille = 10, .refused = 7 }
};

#define VHOSTS (sizeof(vhosts) / sizeof(vhosts[0]))

static const ctl_status_t now = { .now_us = 3000000, .vhosts = vhosts, .nvhosts = VHOSTS };

/* Returns 1 if the order puts the sites so. */
static int is_sorted(ctl_order_e order, const ctl_status_t *before, const char *expected)
{
    ctl_top_row_t *rows = ctl_top_rows(&now, before);
    char names[100] = "";
    size_t i;

    ctl_top_sort(rows, VHOSTS, order);
    for (i = 0; i < VHOSTS; i++) {
        strcat(names, i ? " " : "");
        strcat(names, rows[i].vhost->name);
    }
    free(rows);
    if (strcmp(names, expected) != 0)
        printf("# %s\n", names);
    return !strcmp(names, expected);
}

static void orders(void)
{
    ctl_vhost_t earlier[] = { { .name = "slow", .requests = 20 },
                              { .name = "busy", .requests = 198 } };
    ctl_status_t before = { .now_us = 1000000, .vhosts = earlier, .nvhosts = 2 };

    ok(is_sorted(CTL_ORDER_CPU, NULL, "busy full slow idle2 idle1"),
       "cpu; then running and waiting; idle sites as configured");
    ok(is_sorted(CTL_ORDER_RUNNING, NULL, "full slow busy idle2 idle1"), "running");
    ok(is_sorted(CTL_ORDER_WAITING, NULL, "full slow busy idle2 idle1"), "waiting");
    ok(is_sorted(CTL_ORDER_REFUSED, NULL, "full slow busy idle2 idle1"), "refused");
    ok(is_sorted(CTL_ORDER_NAME, NULL, "busy full idle1 idle2 slow"), "name");
    ok(is_sorted(CTL_ORDER_RATE, &before, "slow busy full idle2 idle1"), "rate");
}

static void rates(void)
{
    ctl_vhost_t earlier[] = { { .name = "slow", .requests = 20 },
                              { .name = "busy", .requests = 201 } };
    ctl_status_t before = { .now_us = 1000000, .vhosts = earlier, .nvhosts = 2 };
    ctl_top_row_t *rows = ctl_top_rows(&now, &before);

    ok(rows[1].rate == 10, "20 requests in 2 seconds");
    ok(rows[3].rate == CTL_RATE_UNKNOWN, "a counter that went back has no rate");
    ok(rows[4].rate == CTL_RATE_UNKNOWN, "a new site has no rate");
    free(rows);
    before.now_us = now.now_us;
    rows = ctl_top_rows(&now, &before);
    ok(rows[1].rate == CTL_RATE_UNKNOWN, "no rate without time");
    free(rows);
}

/* Returns 1 if the text is shown so. */
static int is_plain(const char *text, const char *expected)
{
    char *copy = ctl_plain(ctl_printf("%s", text));
    int rv = !strcmp(copy, expected);

    free(copy);
    return rv;
}

static void texts(void)
{
    ok(is_plain("a.test:80", "a.test:80"), "a name as it is");
    ok(is_plain("a\033[31m\r\n\177b", "a?[31m???b"), "control characters");
    ok(is_plain("a\302\233b", "a?b"), "a control character of two bytes");
    ok(is_plain("\303\274\342\202\254", "??"), "other characters, one mark for each");
    ok(is_plain("\233x", "?x"), "a byte that is not UTF-8");
    ok(!strcmp(ctl_tenths(123).text, "12.3") && !strcmp(ctl_tenths(120).text, "12"),
       "tenths");
    ok(!strcmp(ctl_ms(1249).text, "1.2") && !strcmp(ctl_ms(0).text, "0"), "milliseconds");
}

int main(void)
{
    orders();
    rates();
    texts();
    return tap_done();
}
