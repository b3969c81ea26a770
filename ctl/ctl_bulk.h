/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_BULK_H
#define CTL_BULK_H

/* Changes of many sites from a file with comma-separated values (RFC 4180).  The first line
 * names the columns: site, then limits as set takes them, and for.  An empty cell changes
 * nothing. */

#include "ctl_limits.h"

/* Reads call->file ("-": standard input), and sends all changes at once: the server makes
 * all of them or none.  duration: NULL, or the word for=SECONDS for lines without one. */
ctl_exit_e ctl_bulk(const ctl_call_t *call, const char *duration, ctl_error_t *error);

/* What the lines of a file become. */
typedef struct ctl_bulk_t {
    char *body;                 /* commands, a line each */
    size_t len, size;
    int *lines;                 /* line of the file, for each command */
    size_t n, nmax;
} ctl_bulk_t;

/* Makes commands of the text of a file.  Returns CTL_DONE, or fills in *error. */
ctl_exit_e ctl_bulk_read(const char *text, const char *duration, ctl_bulk_t *ret_bulk,
                         ctl_error_t *error);
void ctl_bulk_free(ctl_bulk_t *bulk);

#endif
