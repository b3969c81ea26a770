/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_REPORT_H
#define FLEET_REPORT_H

/* A report: what a server tells the others, once a second. It is text, so that an operator
 * can read it with the store's own client:
 *
 *   vhostlimit-fleet 1 SERVER START SEQUENCE CAPACITY ROWS
 *   NAME <tab> WEIGHT <tab> USED <tab> WANTED <tab> REQUESTS
 *
 * START and SEQUENCE tell two reports of a server apart. CAPACITY, USED and WANTED are
 * microseconds of CPU time per second. REQUESTS are running and waiting ones. Numbers are
 * whole.
 *
 * A report comes from other machines, so fleet_report_parse() trusts no byte of it. It
 * rejects a report as a whole. No state, no lock. */

#include <stddef.h>
#include <stdint.h>

#define FLEET_NAME_MAX 279          /* bytes of the name of a site */
#define FLEET_SERVER_MAX 64         /* bytes of the name of a server */
#define FLEET_REPORT_HEAD 256    /* bytes: the first line is shorter */
#define FLEET_ROWS_MAX 100000
#define FLEET_REPORT_MAX (16U << 20)    /* bytes of a report */
#define FLEET_WEIGHT_MAX 10000
#define FLEET_CPU_MAX 10000000000U  /* ten thousand processors */
#define FLEET_REQUESTS_MAX 1000000

typedef struct fleet_entry_t {
    const char *name;               /* zero-terminated */
    uint32_t weight;
    uint32_t requests;
    uint64_t used, wanted;
} fleet_entry_t;

typedef struct fleet_report_t {
    char server[FLEET_SERVER_MAX + 1];
    uint64_t start, sequence;
    uint64_t capacity;
    fleet_entry_t *entries;
    size_t nentries;
    char *text;                     /* memory of the names */
} fleet_report_t;

/* Returns 1 if the text may be the name of a server: letters, digits, ".", "-", "_" and
 * ":". */
int fleet_report_is_server(const char *name);

/* Returns the report as text, which the caller frees, and its length. */
char *fleet_report_write(const fleet_report_t *report, size_t *ret_len);

/* Parses a report. Returns NULL, or what is wrong with it; *ret_report holds nothing then.
 * fleet_report_free() frees what it holds. */
const char *fleet_report_parse(const char *text, size_t len, fleet_report_t *ret_report);

/* Reads only the start of the process that wrote the report, from the report or the first
 * FLEET_REPORT_HEAD bytes of it. Returns 0, or -1 if it is no report. */
int fleet_report_start(const char *text, size_t len, uint64_t *ret_start);

/* Reads a whole number and goes to the byte behind it. Returns 0, or -1 if there is none. */
int fleet_report_number(char **at, uint64_t *ret_number);

void fleet_report_free(fleet_report_t *report);

#endif
