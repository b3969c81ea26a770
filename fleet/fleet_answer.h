/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_ANSWER_H
#define FLEET_ANSWER_H

/* The answer of Apache to the command `fleet`: a JSON document with a head line, a line for
 * each active site, and a last line. It is read in place, because a JSON library takes more
 * than half of the daemon's CPU time for it (docs/design/016-fleet.md). */

#include <stdint.h>

typedef struct fleet_answer_t {
    uint64_t generation;            /* of Apache's configuration */
    uint64_t clock_us;              /* monotonic */
    uint64_t processors;
    char *at;                       /* the next row */
} fleet_answer_t;

typedef struct fleet_reading_t {
    const char *name;               /* in the text */
    uint64_t account;
    uint64_t weight, cpu, concurrency;
    uint64_t charged_us, backlog_us;
    uint64_t requests;
} fleet_reading_t;

/* Reads the head of the text, which is changed and must outlive *ret_answer. Returns 0, or -1
 * if it is no such answer. */
int fleet_answer_begin(char *text, fleet_answer_t *ret_answer);

/* Reads a row. Returns 1; 0: there are no more rows; -1: the text is not valid. */
int fleet_answer_next(fleet_answer_t *answer, fleet_reading_t *ret_reading);

#endif
