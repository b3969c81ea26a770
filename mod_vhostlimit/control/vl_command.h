/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_COMMAND_H
#define VL_COMMAND_H

/* The commands of the control socket.  A command is one line; tabs separate its words:
 *
 *   status [VHOST]
 *   set VHOST KEY=VALUE...
 *   reset VHOST [KEY...]
 *   clients VHOST
 *   modules
 *   figures
 *
 * A KEY is one of VL_KEYS.  The parser does not check a VALUE; vl_conf_read_limit() does.
 * The parser has no side effects and needs no lock; any thread may call it. */

#include "core/vl_override.h"

/* Maximum length of a line in bytes, including its newline. */
#define VL_COMMAND_MAX 1024

typedef enum {
    VL_COMMAND_STATUS,
    VL_COMMAND_SET,
    VL_COMMAND_RESET,
    VL_COMMAND_CLIENTS,
    VL_COMMAND_MODULES,
    VL_COMMAND_FIGURES
} vl_command_e;

typedef struct vl_command_t {
    vl_command_e verb;
    const char *vhost;          /* NULL: the command has no vhost */
    unsigned keys;              /* VL_KEY_BIT() of the keys in the command */
    const char *values[VL_KEY_COUNT];   /* values of these keys; NULL for reset */
    const char *word;           /* the word that is in error, or "" */
    char text[VL_COMMAND_MAX];  /* memory of the words above */
} vl_command_t;

/* Parses a line without its newline.  Returns NULL, or an error message about
 * ret_command->word. */
const char *vl_command_parse(const char *line, apr_size_t len,
                             vl_command_t *ret_command);

#endif
