/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_bulk.h"

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
    char *body;                 /* commands, a line each */
    size_t len, size;
    int *lines;                 /* line of the file, for each command */
    size_t n, nmax;
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

static void append(bulk_t *bulk, const char *text)
{
    size_t len = strlen(text);
    char *body;

    while (bulk->size < bulk->len + len + 1) {
        bulk->size = bulk->size ? 2 * bulk->size : 4096;
        body = ctl_alloc(bulk->size);
        if (bulk->len)
            memcpy(body, bulk->body, bulk->len);
        free(bulk->body);
        bulk->body = body;
    }
    memcpy(bulk->body + bulk->len, text, len + 1);
    bulk->len += len;
}

static void note_line(bulk_t *bulk, int line)
{
    int *lines;

    if (bulk->n == bulk->nmax) {
        bulk->nmax = bulk->nmax ? 2 * bulk->nmax : 256;
        lines = ctl_alloc(bulk->nmax * sizeof(*lines));
        if (bulk->n)
            memcpy(lines, bulk->lines, bulk->n * sizeof(*lines));
        free(bulk->lines);
        bulk->lines = lines;
    }
    bulk->lines[bulk->n++] = line;
}

/* Makes a command of a line.  A line without values makes none. */
static ctl_exit_e add_row(const row_t *row, const int columns[CELLS_MAX], int ncolumns,
                          const char *duration, bulk_t *bulk, ctl_error_t *error)
{
    const char *site = "", *time = NULL;
    char *word;
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
    note_line(bulk, row->line);
    append(bulk, "set\t");
    append(bulk, site);
    for (i = 0; i < ncolumns; i++) {
        if (columns[i] < 0 || !*row->cells[i])
            continue;
        append(bulk, "\t");
        append(bulk, ctl_key_names[columns[i]]);
        append(bulk, "=");
        append(bulk, row->cells[i]);
    }
    if (time) {
        word = ctl_limit_duration(time, error);
        if (!word)
            return ctl_error_set(error, CTL_REFUSED, "line %d: '%s' is no time", row->line, time);
        append(bulk, "\t");
        append(bulk, word);
        free(word);
    }
    else if (duration) {
        append(bulk, "\t");
        append(bulk, duration);
    }
    append(bulk, "\n");
    return CTL_DONE;
}

static void free_bulk(bulk_t *bulk)
{
    free(bulk->body);
    free(bulk->lines);
    memset(bulk, 0, sizeof(*bulk));
}

/* Makes commands of the text of a file.  Returns CTL_DONE, or fills in *error. */
static ctl_exit_e read_bulk(const char *text, const char *duration, bulk_t *ret_bulk,
                            ctl_error_t *error)
{
    char *copy = ctl_printf("%s", text), *at = copy;
    int columns[CELLS_MAX], ncolumns = 0, line = 1;
    ctl_exit_e status = CTL_DONE;
    row_t row;

    memset(ret_bulk, 0, sizeof(*ret_bulk));
    while (*at && status == CTL_DONE) {
        status = read_row(&at, &line, &row, error);
        if (status != CTL_DONE || is_empty(&row))
            continue;
        if (ncolumns) {
            status = add_row(&row, columns, ncolumns, duration, ret_bulk, error);
            continue;
        }
        status = read_heading(&row, columns, error);
        ncolumns = row.n;
    }
    free(copy);
    if (status == CTL_DONE && !ret_bulk->n)
        status = ctl_error_set(error, CTL_REFUSED, "the file has no values");
    if (status != CTL_DONE)
        free_bulk(ret_bulk);
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

/* Returns the text of the file, which the caller frees; NULL: it cannot be read. */
static char *read_file(const char *path)
{
    FILE *in = strcmp(path, "-") ? fopen(path, "re") : stdin;
    char *text = NULL;
    size_t size = 0;
    ssize_t len;

    if (!in)
        return NULL;
    errno = 0;
    len = getdelim(&text, &size, '\0', in);
    if (len < 0 && !errno) {
        free(text);
        text = ctl_printf("%s", "");
    }
    else if (len < 0) {
        free(text);
        text = NULL;
    }
    if (in != stdin)
        (void)fclose(in);           /* nothing was written */
    return text;
}

ctl_exit_e ctl_bulk(const ctl_call_t *call, const char *duration, ctl_error_t *error)
{
    char *text = read_file(call->file);
    bulk_t bulk;
    ctl_exit_e status;

    if (!text)
        return ctl_error_set(error, CTL_REFUSED, "%s cannot be read: %s", call->file,
                             strerror(errno));
    status = read_bulk(text, duration, &bulk, error);
    free(text);
    if (status != CTL_DONE)
        return status;
    status = send(call, &bulk, error);
    free_bulk(&bulk);
    return status;
}
