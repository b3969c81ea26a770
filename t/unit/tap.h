/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TAP_H
#define TAP_H

/* The Test Anything Protocol, as much of it as prove needs. */

#include <stdarg.h>
#include <stdio.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 2, 3)))
static void ok(int passed, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    printf("%sok %d - ", passed ? "" : "not ", ++tap_count);
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    if (!passed)
        tap_failed = 1;
}

static int tap_done(void)
{
    printf("1..%d\n", tap_count);
    return tap_failed;
}

#endif
