/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_IMPORT_H
#define CTL_IMPORT_H

/* Translates the configuration of other programs into directives of the module.  What has
 * no equivalent becomes a comment.  Nothing is changed, and no server is asked. */

#include "ctl_command.h"

/* CloudLinux: the XML of /etc/container/ve.cfg.  processors: of the machine with that file,
 * for the old form of CPU limits. */
ctl_exit_e ctl_import_lve(FILE *in, const char *path, long processors, ctl_error_t *error);
/* mod_qos: a file of Apache's configuration. */
ctl_exit_e ctl_import_mod_qos(FILE *in, const char *path, ctl_error_t *error);

/* Cuts a line into at most `most` words, with or without quotation marks, and ends each with a
 * zero byte.  Returns their number. */
int ctl_import_words(char *line, const char *separators, char **words, int most);

#endif
