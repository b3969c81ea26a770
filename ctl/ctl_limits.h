/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_LIMITS_H
#define CTL_LIMITS_H

/* What set and reset use: names, values and times of limits, changes from a file (ctl_bulk.c), and
 * changes that last (ctl_save.c). */

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

/* --- ctl_bulk.c --------------------------------------------------------------- */

/* Changes of many sites from a file with comma-separated values (RFC 4180).  The first line
 * names the columns: site, then limits as set takes them, and for.  An empty cell changes
 * nothing. */

/* Reads call->file ("-": standard input), and sends all changes at once: the server makes
 * all of them or none.  duration: NULL, or the word for=SECONDS for lines without one. */
ctl_exit_e ctl_bulk(const ctl_call_t *call, const char *duration, ctl_error_t *error);

/* --- ctl_save.c --------------------------------------------------------------- */

/* The file of VhostLimitSaveFile: limits of sites that vhostlimitctl has saved, as
 * <VhostLimitSite> sections.  Only vhostlimitctl writes it. */

/* A change of the file that is tested, and not made yet. */
typedef struct ctl_save_t {
    char *path, *new_path;
    int lock;                   /* descriptor of the locked file; -1: none */
} ctl_save_t;

/* Writes what the command line says to FILE.new, and lets httpd test the configuration with
 * it.  words: KEY=VALUE for set, KEY or nothing for reset.  Returns CTL_DONE, or fills in
 * *error; then nothing is changed. */
ctl_exit_e ctl_save_prepare(const ctl_call_t *call, int is_set, ctl_save_t *ret_save,
                            ctl_error_t *error);
/* Puts FILE.new in the place of FILE.  Returns CTL_DONE, or fills in *error. */
ctl_exit_e ctl_save_commit(const ctl_save_t *save, ctl_error_t *error);
/* Removes FILE.new, unless it was committed, and unlocks the file. */
void ctl_save_end(ctl_save_t *save);

#endif
