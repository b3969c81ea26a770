/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_SAVE_H
#define CTL_SAVE_H

/* The file of VhostLimitSaveFile: limits of sites that vhostlimitctl has saved, as
 * <VhostLimitSite> sections.  Only vhostlimitctl writes it. */

#include "ctl_limits.h"

/* The saved limits of one site. */
typedef struct ctl_saved_t {
    char *site;
    char *values[CTL_KEYS];     /* as the directives take them; NULL: not saved */
    char *stamps[CTL_KEYS];     /* when the value was saved, and by which user */
    struct ctl_saved_t *next;
} ctl_saved_t;

/* Reads the text of a file that ctl_save_print() has written.  path: for messages.  Returns
 * CTL_DONE, or fills in *error if the file has any other line. */
ctl_exit_e ctl_save_read(const char *path, const char *text, ctl_saved_t **ret_saved,
                         ctl_error_t *error);
/* Writes the file. */
void ctl_save_print(FILE *out, const ctl_saved_t *saved);
/* Saves a limit; value NULL: removes it.  Sites without limits are removed. */
void ctl_save_put(ctl_saved_t **saved, const char *site, ctl_key_e key, const char *value,
                  const char *stamp);
void ctl_save_free(ctl_saved_t *saved);

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
