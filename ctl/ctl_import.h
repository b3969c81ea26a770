/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_IMPORT_H
#define CTL_IMPORT_H

/* Translates the configuration of other programs into directives of the module.  What has
 * no equivalent becomes a comment.  Nothing is changed, and no server is asked. */

#include "ctl_command.h"

/* CloudLinux: the XML of /etc/container/ve.cfg. */
ctl_exit_e ctl_import_lve(FILE *in, const char *path, ctl_error_t *error);
/* mod_qos: a file of Apache's configuration. */
ctl_exit_e ctl_import_mod_qos(FILE *in, const char *path, ctl_error_t *error);

#endif
