/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_LIMITS_H
#define CTL_LIMITS_H

/* Names, values and times of the limits that set and reset change. */

#include "ctl_command.h"

/* The first CTL_LIMITS are those of ctl_status.h. */
typedef enum {
    CTL_KEY_WEIGHT,
    CTL_KEY_CONCURRENCY,
    CTL_KEY_QUEUE,
    CTL_KEY_CPU,
    CTL_KEY_MEMORY,
    CTL_KEY_PROCESSES,
    CTL_KEY_IO,
    CTL_KEYS                    /* number of limits */
} ctl_key_e;

extern const char *const ctl_key_names[CTL_KEYS];

/* Longest time of a change. */
#define CTL_SECONDS_MAX (366 * 24 * 3600L)

/* Returns the word for=SECONDS, which the caller frees.  Returns NULL and fills in *error
 * if the text is no time. */
char *ctl_limit_duration(const char *text, ctl_error_t *error);
/* Returns a limit as set takes it, which the caller frees. */
char *ctl_limit_value(ctl_key_e key, json_int_t value);

#endif
