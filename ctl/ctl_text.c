/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

void *ctl_grow(void *memory, size_t old_size, size_t size)
{
    char *grown = realloc(memory, size);

    if (!grown)
        end_without_memory();
    memset(grown + old_size, 0, size - old_size);
    return grown;
}

char *ctl_vprintf(const char *format, va_list args)
{
    char *text = NULL;

    if (vasprintf(&text, format, args) < 0)
        end_without_memory();
    return text;
}

char *ctl_printf(const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = ctl_vprintf(format, args);
    va_end(args);
    return text;
}

void ctl_append(char **text, const char *format, ...)
{
    char *before = *text, *more;
    va_list args;

    va_start(args, format);
    more = ctl_vprintf(format, args);
    va_end(args);
    *text = ctl_printf("%s%s", before ? before : "", more);
    free(before);
    free(more);
}

char *ctl_read(FILE *in, size_t *ret_len)
{
    size_t size = 4096, len = 0, n;
    char *bytes = ctl_alloc(size);

    while ((n = fread(bytes + len, 1, size - len - 1, in))) {
        len += n;
        if (size - len == 1) {
            bytes = ctl_grow(bytes, size, 2 * size);
            size *= 2;
        }
    }
    bytes[len] = '\0';
    if (ret_len)
        *ret_len = len;
    return bytes;
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

const char *ctl_text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "";
}

long long ctl_clock_ms(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

long long ctl_now_ms(void)
{
    return ctl_clock_ms(CLOCK_MONOTONIC);
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

void ctl_put_table(FILE *out, char **cells, size_t n, int columns, int words)
{
    int *width = ctl_alloc((size_t)columns * sizeof(*width)), column;
    size_t i, all = n * (size_t)columns;

    for (i = 0; i < all; i++) {
        column = (int)(i % (size_t)columns);
        if ((int)strlen(cells[i]) > width[column])
            width[column] = (int)strlen(cells[i]);
    }
    for (i = 0; i < all; i++) {
        column = (int)(i % (size_t)columns);
        fprintf(out, "%s%*s%s", column ? "  " : "", column < words ? -width[column] : width[column],
                cells[i], column + 1 < columns ? "" : "\n");
        free(cells[i]);
    }
    free(width);
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
