/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_COMMAND_H
#define VL_COMMAND_H

/* What is said to the server over its control socket: one line of words with a
 * tab between two of them.
 *
 *   status [VHOST]
 *   set VHOST KEY=VALUE...
 *   reset VHOST [KEY...]
 *   modules
 *
 * A KEY is one of VL_KEYS.  What a VALUE may be is for others to say.  Pure. */

#include "core/vl_override.h"

/* Longest line, with its newline. */
#define VL_COMMAND_MAX 1024

typedef enum {
    VL_COMMAND_STATUS,
    VL_COMMAND_SET,
    VL_COMMAND_RESET,
    VL_COMMAND_MODULES
} vl_command_e;

typedef struct vl_command_t {
    vl_command_e verb;
    const char *vhost;          /* NULL: none was named */
    unsigned keys;              /* VL_KEY_BIT() of those that were named */
    const char *values[VL_KEY_COUNT];   /* theirs; NULL for reset */
    const char *word;           /* that something is wrong with, or "" */
    char text[VL_COMMAND_MAX];  /* where the words are */
} vl_command_t;

/* The line has no newline.  NULL, or what is wrong with ret_command->word. */
const char *vl_command_parse(const char *line, apr_size_t len,
                             vl_command_t *ret_command);

#endif
