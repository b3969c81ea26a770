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

#endif
