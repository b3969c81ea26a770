/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_SAVE_H
#define CTL_SAVE_H

/* The file of VhostLimitSaveFile: limits of sites that vhostlimitctl has saved, as
 * <VhostLimitSite> sections.  Only vhostlimitctl writes it. */

#include "ctl_limits.h"

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
