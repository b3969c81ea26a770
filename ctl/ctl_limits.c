/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_limits.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const ctl_key_names[CTL_KEYS] = {
    "weight", "concurrency", "queue", "cpu", "memory", "processes", "io"
};

/* Returns the seconds of a time such as "90", "2h" or "30min"; 0: it is none. */
static long seconds_of(const char *text)
{
    static const struct {
        const char *name;
        long seconds;
    } units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "min", 60 }, { "h", 3600 },
                  { "d", 24 * 3600L } };
    char *end;
    long n;
    size_t i;

    if (!isdigit((unsigned char)*text))
        return 0;
    n = strtol(text, &end, 10);
    for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!strcmp(end, units[i].name) && n <= CTL_SECONDS_MAX / units[i].seconds)
            return n * units[i].seconds;
    }
    return 0;
}

char *ctl_limit_duration(const char *text, ctl_error_t *error)
{
    long seconds = seconds_of(text);

    if (seconds)
        return ctl_printf("for=%ld", seconds);
    ctl_error_set(error, CTL_USAGE, "'%s' is no time: write a number with s, min, h or d, up "
                  "to 366d", text);
    return NULL;
}

char *ctl_limit_value(ctl_key_e key, json_int_t value)
{
    static const char units[] = "KMGT";
    int unit = -1;

    if (!value && key != CTL_KEY_CONCURRENCY && key != CTL_KEY_QUEUE)
        return ctl_printf("none");
    if (key == CTL_KEY_CPU)
        return ctl_printf("%" JSON_INTEGER_FORMAT "%%", value);
    if (key != CTL_KEY_MEMORY && key != CTL_KEY_IO)
        return ctl_printf("%" JSON_INTEGER_FORMAT, value);
    while (value % 1024 == 0 && unit < 2) {
        value /= 1024;
        unit++;
    }
    return unit < 0 ? ctl_printf("%" JSON_INTEGER_FORMAT, value)
                    : ctl_printf("%" JSON_INTEGER_FORMAT "%c", value, units[unit]);
}
