/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_HISTORY_H
#define CTL_HISTORY_H

/* Parts of the command history that have a test of their own. */

#include <time.h>

/* Reads the argument of --since: a time before now such as 90min, 6h or 2d, or a local time
 * such as "2026-11-22" or "2026-11-22 14:30", with a "T" in place of the blank too.  Returns
 * 0 if it is neither, or not before now. */
int ctl_history_since(const char *text, time_t now, time_t *ret_since);

/* Returns the number of minutes of a line of the table, so that it has at most 60 lines. */
unsigned ctl_history_step(unsigned minutes);

#endif
