/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_table.h"

#include <stdlib.h>
#include <string.h>

enum {
    COLUMN_NAME, COLUMN_STATE, COLUMN_MODE, COLUMN_RUNNING, COLUMN_SLOTS, COLUMN_DUTY,
    COLUMN_WAITING, COLUMN_REQUESTS, COLUMN_QUEUED, COLUMN_REFUSED, COLUMN_CPU,
    COLUMN_DATABASE, COLUMN_WAIT, COLUMN_LIMITS,
    COLUMNS = COLUMN_LIMITS + CTL_LIMITS
};

/* Columns before this one are words, which stand to the left. */
#define FIRST_NUMBER COLUMN_RUNNING

static const char *const headings[COLUMNS] = {
    "SITE", "STATE", "MODE", "RUN", "SLOTS", "DUTY%", "WAIT", "REQUESTS", "QUEUED",
    "REFUSED", "CPU%", "DB%", "P99ms", "WEIGHT", "CONC", "QUEUE", "CAP%"
};

/* --- cells ---------------------------------------------------------------- */

static char *number_cell(json_int_t n)
{
    return ctl_printf("%" JSON_INTEGER_FORMAT, n);
}

static char *word_cell(const char *word)
{
    return ctl_plain(ctl_printf("%s", word));
}

static void fill_row(char *cells[COLUMNS], const ctl_vhost_t *vhost,
                     const json_int_t *rate)
{
    int i;

    cells[COLUMN_NAME] = word_cell(vhost->name);
    cells[COLUMN_STATE] = word_cell(vhost->limited_s > 0 ? "limited" : vhost->state);
    cells[COLUMN_MODE] = word_cell(vhost->mode);
    cells[COLUMN_RUNNING] = number_cell(vhost->running);
    cells[COLUMN_SLOTS] = word_cell(ctl_slots(vhost->runnable_permille).text);
    cells[COLUMN_DUTY] = word_cell(vhost->duty_permille
                                   ? ctl_tenths(vhost->duty_permille).text : "-");
    cells[COLUMN_WAITING] = number_cell(vhost->waiting);
    cells[COLUMN_REQUESTS] = !rate ? number_cell(vhost->requests)
                             : *rate == CTL_RATE_UNKNOWN ? word_cell("-") : number_cell(*rate);
    cells[COLUMN_QUEUED] = number_cell(vhost->queued);
    cells[COLUMN_REFUSED] = number_cell(vhost->refused);
    cells[COLUMN_CPU] = word_cell(ctl_tenths(vhost->cpu_now_permille).text);
    cells[COLUMN_DATABASE] = word_cell(ctl_tenths(vhost->database_now_permille).text);
    cells[COLUMN_WAIT] = word_cell(ctl_ms((double)vhost->wait_p99_us).text);
    /* A star marks a limit that is not as configured. */
    for (i = 0; i < CTL_LIMITS; i++)
        cells[COLUMN_LIMITS + i] = ctl_printf("%" JSON_INTEGER_FORMAT "%s", vhost->limits[i],
                                              vhost->configured[i] >= 0 ? "*" : "");
}

/* --- lines ---------------------------------------------------------------- */

static void print_row(FILE *out, char *const cells[COLUMNS], const int width[COLUMNS])
{
    int i;

    for (i = 0; i < COLUMNS; i++)
        fprintf(out, "%s%*s", i ? "  " : "", i < FIRST_NUMBER ? -width[i] : width[i],
                cells[i]);
    fputc('\n', out);
}

void ctl_table_print(FILE *out, const ctl_vhost_t *const vhosts[], size_t n,
                     const json_int_t *rates)
{
    char *(*rows)[COLUMNS] = ctl_alloc((n + 1) * sizeof(*rows));
    int width[COLUMNS] = { 0 };
    size_t row;
    int i;

    for (i = 0; i < COLUMNS; i++)
        rows[0][i] = word_cell(i == COLUMN_REQUESTS && rates ? "REQ/s" : headings[i]);
    for (row = 0; row < n; row++)
        fill_row(rows[row + 1], vhosts[row], rates ? &rates[row] : NULL);
    for (row = 0; row <= n; row++) {
        for (i = 0; i < COLUMNS; i++) {
            if ((int)strlen(rows[row][i]) > width[i])
                width[i] = (int)strlen(rows[row][i]);
        }
    }
    for (row = 0; row <= n; row++) {
        print_row(out, rows[row], width);
        for (i = 0; i < COLUMNS; i++)
            free(rows[row][i]);
    }
    free(rows);
}
