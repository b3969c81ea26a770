/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_MAX 16
/* The columns that are no limits. */
#define COLUMN_SITE (-1)
#define COLUMN_FOR (-2)

/* A line of the file. */
typedef struct row_t {
    char *cells[CELLS_MAX];     /* in the memory of the text */
    int n;
    int line;                   /* in which it begins */
} row_t;

/* What the lines of a file become. */
typedef struct bulk_t {
    FILE *out;                  /* writes body */
    char *body;                 /* commands, a line each */
    size_t len;
    int *lines;                 /* line of the file, for each command */
    size_t n;
} bulk_t;

/* --- comma-separated values ----------------------------------------------- */

/* Reads one cell, with or without quotes, and ends it with a zero byte.  Returns what ends
 * the cell (',', '\n' or '\0'); -1: a quoted cell has no end, or something follows it.
 * *at moves behind the end. */
static int read_cell(char **at, char **ret_cell, int *line)
{
    char *from = *at, *to;
    int end;

    if (*from != '"') {
        *ret_cell = from;
        from += strcspn(from, ",\r\n");
        to = from;
    }
    else {
        *ret_cell = to = ++from;
        while (*from && (*from != '"' || from[1] == '"')) {
            *line += *from == '\n';
            from += *from == '"';
            *to++ = *from++;
        }
        if (*from++ != '"')
            return -1;
    }
    if (*from == '\r' && from[1] == '\n')
        from++;
    end = (unsigned char)*from;
    if (end && end != ',' && end != '\n')
        return -1;
    *at = end ? from + 1 : from;
    *to = '\0';
    return end;
}

/* Reads one line.  Returns CTL_DONE, or fills in *error. */
static ctl_exit_e read_row(char **at, int *line, row_t *row, ctl_error_t *error)
{
    int end = ',';

    row->line = *line;
    for (row->n = 0; end == ','; row->n++) {
        if (row->n == CELLS_MAX)
            return ctl_error_set(error, CTL_REFUSED, "line %d: more than %d columns", *line,
                                 CELLS_MAX);
        end = read_cell(at, &row->cells[row->n], line);
        if (end < 0)
            return ctl_error_set(error, CTL_REFUSED, "line %d: the quotation marks are not "
                                 "closed at the end of a cell", row->line);
    }
    *line += end == '\n';
    return CTL_DONE;
}

/* Returns 1 if the line has neither values nor a comment. */
static int is_empty(const row_t *row)
{
    return row->cells[0][0] == '#' || (row->n == 1 && !row->cells[0][0]);
}

/* --- commands ------------------------------------------------------------- */

/* Finds out what the columns are.  Returns CTL_DONE, or fills in *error. */
static ctl_exit_e read_heading(const row_t *row, int columns[CELLS_MAX], ctl_error_t *error)
{
    int i, j, key;

    for (i = 0; i < row->n; i++) {
        const char *name = row->cells[i];

        for (key = 0; key < CTL_KEYS && strcmp(ctl_key_names[key], name) != 0; key++)
            ;
        columns[i] = !strcmp(name, "site") ? COLUMN_SITE : !strcmp(name, "for") ? COLUMN_FOR
                     : key;
        if (columns[i] == CTL_KEYS)
            return ctl_error_set(error, CTL_REFUSED, "line %d: '%s' is no column: there are "
                                 "site, weight, concurrency, queue, cpu, memory, processes, "
                                 "io and for", row->line, name);
        for (j = 0; j < i; j++) {
            if (columns[j] == columns[i])
                return ctl_error_set(error, CTL_REFUSED, "line %d: the column '%s' is there "
                                     "twice", row->line, name);
        }
    }
    for (i = 0; i < row->n && columns[i] != COLUMN_SITE; i++)
        ;
    if (i == row->n)
        return ctl_error_set(error, CTL_REFUSED, "line %d: the first line has to name the "
                             "columns, and one of them is site", row->line);
    return CTL_DONE;
}

/* Makes a command of a line.  A line without values makes none. */
static ctl_exit_e add_row(const row_t *row, const int columns[CELLS_MAX], int ncolumns,
                          const char *duration, bulk_t *bulk, ctl_error_t *error)
{
    const char *site = "", *time = NULL;
    char *word = NULL;
    int i, nvalues = 0;

    if (row->n != ncolumns)
        return ctl_error_set(error, CTL_REFUSED, "line %d: %d cell%s in place of %d", row->line,
                             row->n, ctl_plural(row->n), ncolumns);
    for (i = 0; i < ncolumns; i++) {
        if (strpbrk(row->cells[i], "\t\r\n"))
            return ctl_error_set(error, CTL_REFUSED, "line %d: a cell must not contain a tab "
                                 "or a line break", row->line);
        if (columns[i] == COLUMN_SITE)
            site = row->cells[i];
        else if (columns[i] == COLUMN_FOR && *row->cells[i])
            time = row->cells[i];
        else
            nvalues += columns[i] >= 0 && *row->cells[i];
    }
    if (!*site)
        return ctl_error_set(error, CTL_REFUSED, "line %d: no site is named", row->line);
    if (!nvalues)
        return CTL_DONE;
    if (time && !(word = ctl_limit_duration(time, error)))
        return ctl_error_set(error, CTL_REFUSED, "line %d: '%s' is no time", row->line, time);
    bulk->lines = ctl_grow(bulk->lines, bulk->n * sizeof(int), (bulk->n + 1) * sizeof(int));
    bulk->lines[bulk->n++] = row->line;
    fprintf(bulk->out, "set\t%s", site);
    for (i = 0; i < ncolumns; i++) {
        if (columns[i] >= 0 && *row->cells[i])
            fprintf(bulk->out, "\t%s=%s", ctl_key_names[columns[i]], row->cells[i]);
    }
    if (word || duration)
        fprintf(bulk->out, "\t%s", word ? word : duration);
    fputc('\n', bulk->out);
    free(word);
    return CTL_DONE;
}

/* Makes commands of the text of a file, which is changed.  Returns CTL_DONE, or fills in
 * *error. */
static ctl_exit_e read_bulk(char *text, const char *duration, bulk_t *bulk, ctl_error_t *error)
{
    int columns[CELLS_MAX], ncolumns = 0, line = 1;
    ctl_exit_e status = CTL_DONE;
    row_t row;

    while (*text && status == CTL_DONE) {
        status = read_row(&text, &line, &row, error);
        if (status != CTL_DONE || is_empty(&row))
            continue;
        if (ncolumns) {
            status = add_row(&row, columns, ncolumns, duration, bulk, error);
            continue;
        }
        status = read_heading(&row, columns, error);
        ncolumns = row.n;
    }
    if (status == CTL_DONE && !bulk->n)
        status = ctl_error_set(error, CTL_REFUSED, "the file has no values");
    return status;
}

/* --- the command ---------------------------------------------------------- */

/* The server counts commands.  Replaces its number by the line of the file. */
static void correct_line(const bulk_t *bulk, ctl_error_t *error)
{
    static const char prefix[] = "line ";
    char *rest = NULL, *text;
    unsigned long n;

    if (strncmp(error->text, prefix, sizeof(prefix) - 1) != 0)
        return;
    n = strtoul(error->text + sizeof(prefix) - 1, &rest, 10);
    if (!n || n > bulk->n || *rest != ':')
        return;
    text = ctl_printf("%s", rest);
    ctl_error_set(error, error->status, "%s%d%s", prefix, bulk->lines[n - 1], text);
    free(text);
}

static ctl_exit_e send(const ctl_call_t *call, const bulk_t *bulk, ctl_error_t *error)
{
    char *size = ctl_printf("%zu", bulk->len);
    const char *words[] = { "bulk", size, NULL };
    ctl_answer_t answer;
    ctl_exit_e status = ctl_client_ask(call->socket, words, bulk->body, &answer, error);
    json_int_t n;

    free(size);
    if (status != CTL_DONE) {
        correct_line(bulk, error);
        return status;
    }
    n = json_integer_value(json_object_get(answer.json, "changed"));
    if (call->json)
        printf("%s", answer.text);
    else
        printf("limits of %" JSON_INTEGER_FORMAT " site%s changed\n", n, ctl_plural(n));
    ctl_client_free(&answer);
    return CTL_DONE;
}

ctl_exit_e ctl_bulk(const ctl_call_t *call, const char *duration, ctl_error_t *error)
{
    FILE *in = strcmp(call->file, "-") ? fopen(call->file, "re") : stdin;
    char *text = in ? ctl_read(in, NULL) : NULL;
    bulk_t bulk = { .n = 0 };
    ctl_exit_e status = CTL_DONE;

    if (!in || ferror(in))
        status = ctl_error_set(error, CTL_REFUSED, "%s cannot be read: %s", call->file,
                               strerror(errno));
    if (in && in != stdin)
        (void)fclose(in);           /* nothing was written */
    if (text && status == CTL_DONE) {
        bulk.out = open_memstream(&bulk.body, &bulk.len);
        status = bulk.out ? read_bulk(text, duration, &bulk, error) : CTL_REFUSED;
        if (!bulk.out || fclose(bulk.out))
            status = ctl_error_set(error, CTL_REFUSED, "not enough memory");
    }
    if (status == CTL_DONE)
        status = send(call, &bulk, error);
    free(bulk.body);
    free(bulk.lines);
    free(text);
    return status;
}
