/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_H
#define CTL_H

/* What every file of vhostlimitctl uses: exit statuses, errors, and text for people. */

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include <jansson.h>

#define CTL_PROGRAM "vhostlimitctl"

/* Exit statuses of the program. */
typedef enum {
    CTL_DONE = 0,
    CTL_REFUSED = 1,            /* refused, no such vhost, or doctor found a problem */
    CTL_USAGE = 2,
    CTL_UNAVAILABLE = 69,       /* no server with the module answers */
    CTL_NOT_ROOT = 77
} ctl_exit_e;

/* Why a function failed, and the exit status that follows from it. */
typedef struct ctl_error_t {
    ctl_exit_e status;
    char text[1024];
} ctl_error_t;

/* Fills in *error.  Returns its status. */
ctl_exit_e ctl_error_set(ctl_error_t *error, ctl_exit_e status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for an answer of the server without the member or key `name`.  what: "member" or
 * "key". */
ctl_exit_e ctl_error_set_missing(ctl_error_t *error, const char *what, const char *name);

/* Prints the error to stderr, without control characters.  For usage errors the line that
 * points to --help follows.  Returns the status. */
ctl_exit_e ctl_error_print(const ctl_error_t *error);

/* Return memory that is never NULL; the program ends when there is no memory.  ctl_grow() moves
 * what the memory has; the bytes behind it are zero. */
void *ctl_alloc(size_t size);
void *ctl_grow(void *memory, size_t old_size, size_t size);
char *ctl_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *ctl_vprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
/* Appends to *text, which may be NULL, and moves it. */
void ctl_append(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the bytes that the stream still has, with a zero byte behind them; the caller frees
 * them.  ret_len: their number; NULL: it is not needed. */
char *ctl_read(FILE *in, size_t *ret_len);

/* Ends the program with a message when a function of jansson has returned NULL for want of
 * memory; returns json otherwise. */
json_t *ctl_json_check(json_t *json);

/* Return the number or the text of a member; 0 or "" if it has none. */
json_int_t ctl_number_of(const json_t *json, const char *key);
const char *ctl_text_of(const json_t *json, const char *key);

/* Return the time of a clock, and of one that is never set. */
long long ctl_clock_ms(clockid_t clock);
long long ctl_now_ms(void);

/* Replaces what is not printable ASCII by "?", one for each character of UTF-8, because
 * terminals obey control characters.  Works in place.  Returns text. */
char *ctl_plain(char *text);

/* Prints text as ctl_plain() does. */
void ctl_put_plain(FILE *out, const char *text);

/* Prints n rows of cells as a table whose columns are as wide as their widest cell, and frees the
 * cells.  The first `words` columns stand to the left, the others, which are numbers, to the
 * right. */
void ctl_put_table(FILE *out, char **cells, size_t n, int columns, int words);

/* A number as text, without a point when it is whole: "12", "12.5". */
typedef struct ctl_number_t {
    char text[32];
} ctl_number_t;

ctl_number_t ctl_number(double value);
/* n tenths: permille as percent. */
ctl_number_t ctl_tenths(json_int_t n);
/* Thousandths of slots, with one digit behind the point in any case. */
ctl_number_t ctl_slots(json_int_t permille);
/* Microseconds as milliseconds with one digit behind the point. */
ctl_number_t ctl_ms(double us);

/* The same number for JSON: an integer when it is whole. */
json_t *ctl_json_number(double value);

/* Prints a document and a line break to stdout. */
void ctl_json_print(const json_t *json);

/* Returns "s" unless n is 1. */
const char *ctl_plural(json_int_t n);

#endif
