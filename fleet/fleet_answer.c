/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_answer.h"

#include <string.h>

#include <jansson.h>

#include "fleet_report.h"

#define NUMBERS 7               /* of a row */

/* Passes over a text. Returns 0, or -1 if something else is there. */
static int skip(char **at, const char *text)
{
    size_t len = strlen(text);

    if (strncmp(*at, text, len) != 0)
        return -1;
    *at += len;
    return 0;
}

/* Reads a JSON string and ends it with a zero byte. Returns 0, or -1 if there is none. */
static int read_name(char **at, const char **ret_name)
{
    char *begin = *at, *end = begin + 1;
    int is_escaped = 0;

    if (*begin != '"')
        return -1;
    for (; *end && *end != '"'; end++) {
        if (*end == '\\') {
            is_escaped = 1;
            if (!*++end)
                return -1;
        }
    }
    if (!*end)
        return -1;
    *at = end + 1;
    *ret_name = begin + 1;
    if (is_escaped) {               /* the value of a JSON string is never longer */
        json_t *json = json_loadb(begin, (size_t)(end + 1 - begin), JSON_DECODE_ANY, NULL);
        const char *value = json_string_value(json);

        if (value)
            memmove(begin + 1, value, strlen(value) + 1);
        json_decref(json);
        if (!value)
            return -1;
    }
    *end = '\0';
    return 0;
}

int fleet_answer_begin(char *text, fleet_answer_t *ret_answer)
{
    char *at = text;

    if (skip(&at, "{\"generation\":") || fleet_report_number(&at, &ret_answer->generation)
        || skip(&at, ",\"clock_us\":") || fleet_report_number(&at, &ret_answer->clock_us)
        || skip(&at, ",\"processors\":") || fleet_report_number(&at, &ret_answer->processors)
        || skip(&at, ",\"sites\":["))
        return -1;
    ret_answer->at = at;
    return 0;
}

int fleet_answer_next(fleet_answer_t *answer, fleet_reading_t *ret_reading)
{
    uint64_t *const numbers[NUMBERS] = {
        &ret_reading->account, &ret_reading->weight, &ret_reading->cpu,
        &ret_reading->concurrency, &ret_reading->charged_us, &ret_reading->backlog_us,
        &ret_reading->requests
    };
    char **at = &answer->at;
    size_t i;

    if (!strcmp(*at, "\n]}\n"))
        return 0;
    if (**at == ',')
        ++*at;
    if (skip(at, "\n[") || read_name(at, &ret_reading->name))
        return -1;
    for (i = 0; i < NUMBERS; i++) {
        if (skip(at, ",") || fleet_report_number(at, numbers[i]))
            return -1;
    }
    return skip(at, "]") ? -1 : 1;
}
