/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Whole numbers up to here are exact in a double. */
#define EXACT_MAX 9007199254740992.0

/* --- memory --------------------------------------------------------------- */

static void end_without_memory(void)
{
    fprintf(stderr, CTL_PROGRAM ": not enough memory\n");
    exit(CTL_REFUSED);
}

void *ctl_alloc(size_t size)
{
    void *memory = calloc(1, size ? size : 1);

    if (!memory)
        end_without_memory();
    return memory;
}

char *ctl_printf(const char *format, ...)
{
    va_list args;
    char *text = NULL;
    int n;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        end_without_memory();
    return text;
}

json_t *ctl_json_check(json_t *json)
{
    if (!json)
        end_without_memory();
    return json;
}

json_int_t ctl_number_of(const json_t *json, const char *key)
{
    return json_integer_value(json_object_get(json, key));
}

long long ctl_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- errors --------------------------------------------------------------- */

ctl_exit_e ctl_error_set(ctl_error_t *error, ctl_exit_e status, const char *format, ...)
{
    va_list args;

    error->status = status;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return status;
}

ctl_exit_e ctl_error_set_missing(ctl_error_t *error, const char *what, const char *name)
{
    return ctl_error_set(error, CTL_UNAVAILABLE, "the %s \"%s\" of the answer is missing or not "
                         "valid: the module in the server and " CTL_PROGRAM " are of "
                         "different versions. Restart Apache after an update", what, name);
}

ctl_exit_e ctl_error_print(const ctl_error_t *error)
{
    fflush(stdout);
    fprintf(stderr, CTL_PROGRAM ": ");
    ctl_put_plain(stderr, error->text);
    fputc('\n', stderr);
    if (error->status == CTL_USAGE)
        fprintf(stderr, "Try '" CTL_PROGRAM " --help'.\n");
    return error->status;
}

/* --- text ----------------------------------------------------------------- */

char *ctl_plain(char *text)
{
    const char *from;
    char *to = text;
    unsigned char c, before = 0;

    for (from = text; *from; from++, before = c) {
        c = (unsigned char)*from;
        if ((c & 0xc0) == 0x80 && (before & 0x80))
            continue;               /* a later byte of one character */
        *to = '?';
        if (c >= ' ' && c <= '~')
            *to = (char)c;
        to++;
    }
    *to = '\0';
    return text;
}

void ctl_put_plain(FILE *out, const char *text)
{
    char *copy = ctl_printf("%s", text);

    fprintf(out, "%s", ctl_plain(copy));
    free(copy);
}

ctl_number_t ctl_number(double value)
{
    ctl_number_t number;

    if (value == floor(value) && fabs(value) < EXACT_MAX)
        snprintf(number.text, sizeof(number.text), "%.0f", value);
    else
        snprintf(number.text, sizeof(number.text), "%.15g", value);
    return number;
}

ctl_number_t ctl_tenths(json_int_t n)
{
    return ctl_number((double)n / 10);
}

ctl_number_t ctl_slots(json_int_t permille)
{
    ctl_number_t number;

    snprintf(number.text, sizeof(number.text), "%.1f", (double)permille / 1000);
    return number;
}

ctl_number_t ctl_ms(double us)
{
    return ctl_number(round(us / 100) / 10);
}

const char *ctl_plural(json_int_t n)
{
    return n == 1 ? "" : "s";
}

/* --- JSON ----------------------------------------------------------------- */

json_t *ctl_json_number(double value)
{
    return ctl_json_check(value == floor(value) && fabs(value) < EXACT_MAX
                          ? json_integer((json_int_t)value) : json_real(value));
}

void ctl_json_print(const json_t *json)
{
    if (json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII
                   | JSON_REAL_PRECISION(15)))
        end_without_memory();
    putchar('\n');
}
