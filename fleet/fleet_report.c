/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define MAGIC "vhostlimit-fleet 1 "
/* Bytes of a row without its name. */
#define ROW_SIZE 64
/* The shortest row: a name of one byte, four digits, four tabs and a line break. */
#define ROW_LEAST 10

int fleet_report_is_server(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_:";
    size_t len = strlen(name);

    return len && len <= FLEET_SERVER_MAX && strspn(name, allowed) == len;
}

/* --- writing ---------------------------------------------------------------- */

/* Writes a number and the byte behind it. Returns the end. sprintf() takes three times as
 * long, and a report has four numbers for each site. */
static char *write_number(char *at, uint64_t number, char end)
{
    char digits[20];
    size_t n = sizeof(digits);

    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    memcpy(at, digits + n, sizeof(digits) - n);
    at += sizeof(digits) - n;
    *at = end;
    return at + 1;
}

char *fleet_report_write(const fleet_report_t *report, size_t *ret_len)
{
    size_t size = FLEET_REPORT_HEAD, i;
    char *text, *at;

    for (i = 0; i < report->nentries; i++)
        size += strlen(report->entries[i].name) + ROW_SIZE;
    at = text = ctl_alloc(size);
    at += sprintf(at, MAGIC "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %zu\n", report->server,
                  report->start, report->sequence, report->capacity, report->nentries);
    for (i = 0; i < report->nentries; i++) {
        const fleet_entry_t *entry = &report->entries[i];

        at = stpcpy(at, entry->name);
        *at++ = '\t';
        at = write_number(at, entry->weight, '\t');
        at = write_number(at, entry->used, '\t');
        at = write_number(at, entry->wanted, '\t');
        at = write_number(at, entry->requests, '\n');
    }
    *at = '\0';
    *ret_len = (size_t)(at - text);
    return text;
}

/* --- parsing ---------------------------------------------------------------- */

int fleet_report_number(char **at, uint64_t *ret_number)
{
    uint64_t number = 0;
    char *digit = *at;

    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (number > (UINT64_MAX - 9) / 10)
            return -1;
        number = number * 10 + (uint64_t)(*digit - '0');
    }
    if (digit == *at)
        return -1;
    *at = digit;
    *ret_number = number;
    return 0;
}

/* Reads a whole number up to most, and the byte behind it, which must be `end`. Returns 0, or
 * -1 if there is no such number. */
static int read_number(char **at, char end, uint64_t most, uint64_t *ret_number)
{
    uint64_t number;

    if (fleet_report_number(at, &number) || **at != end || number > most)
        return -1;
    ++*at;
    *ret_number = number;
    return 0;
}

static const char *read_head(char **at, fleet_report_t *report)
{
    char *space;
    uint64_t rows;

    if (strncmp(*at, MAGIC, strlen(MAGIC)))
        return "it does not begin as a report of this version does";
    *at += strlen(MAGIC);
    space = strchr(*at, ' ');
    if (!space || space - *at > FLEET_SERVER_MAX)
        return "the name of its server is too long";
    *space = '\0';
    if (!fleet_report_is_server(*at))
        return "it has no name of a server";
    strcpy(report->server, *at);
    *at = space + 1;
    if (read_number(at, ' ', UINT64_MAX, &report->start)
        || read_number(at, ' ', UINT64_MAX, &report->sequence)
        || read_number(at, ' ', FLEET_CPU_MAX, &report->capacity)
        || read_number(at, '\n', FLEET_ROWS_MAX, &rows))
        return "a number of its first line is not valid";
    report->nentries = (size_t)rows;
    return NULL;
}

/* Ends the name at its tab. Returns 0, or -1 if it is no name. */
static int read_name(char **at, const char **ret_name)
{
    char *end = *at;

    while ((unsigned char)*end >= ' ' && *end != 127)
        end++;
    if (end == *at || *end != '\t' || end - *at > FLEET_NAME_MAX)
        return -1;
    *end = '\0';
    *ret_name = *at;
    *at = end + 1;
    return 0;
}

static const char *read_entry(char **at, fleet_entry_t *entry)
{
    uint64_t weight, requests;

    if (read_name(at, &entry->name))
        return "the name of a site is not valid";
    if (read_number(at, '\t', FLEET_WEIGHT_MAX, &weight) || !weight)
        return "a weight is not valid";
    if (read_number(at, '\t', FLEET_CPU_MAX, &entry->used)
        || read_number(at, '\t', FLEET_CPU_MAX, &entry->wanted))
        return "a CPU time is not valid";
    if (read_number(at, '\n', FLEET_REQUESTS_MAX, &requests))
        return "a number of requests is not valid";
    entry->weight = (uint32_t)weight;
    entry->requests = (uint32_t)requests;
    return NULL;
}

const char *fleet_report_parse(const char *text, size_t len, fleet_report_t *ret_report)
{
    const char *wrong;
    char *at;
    size_t i, n;

    memset(ret_report, 0, sizeof(*ret_report));
    if (len > FLEET_REPORT_MAX)
        return "it is too long";
    if (memchr(text, 0, len))
        return "it has a zero byte";
    at = ret_report->text = ctl_alloc(len + 1);
    memcpy(at, text, len);
    wrong = read_head(&at, ret_report);
    n = ret_report->nentries;
    if (!wrong && (len - (size_t)(at - ret_report->text)) / ROW_LEAST < n)
        wrong = "it is shorter than its first line says";
    if (!wrong)
        ret_report->entries = ctl_alloc(n * sizeof(*ret_report->entries));
    for (i = 0; i < n && !wrong; i++)
        wrong = read_entry(&at, &ret_report->entries[i]);
    if (!wrong && *at)
        wrong = "it is longer than its first line says";
    if (wrong)
        fleet_report_free(ret_report);
    return wrong;
}

int fleet_report_start(const char *text, size_t len, uint64_t *ret_start)
{
    fleet_report_t report;
    char head[FLEET_REPORT_HEAD + 1], *at = head;

    memset(&report, 0, sizeof(report));
    snprintf(head, sizeof(head), "%.*s",
             (int)(len < FLEET_REPORT_HEAD ? len : FLEET_REPORT_HEAD), text);
    if (read_head(&at, &report))
        return -1;
    *ret_start = report.start;
    return 0;
}

void fleet_report_free(fleet_report_t *report)
{
    free(report->entries);
    free(report->text);
    memset(report, 0, sizeof(*report));
}
