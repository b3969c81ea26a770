/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_TABLE_H
#define CTL_TABLE_H

/* The table of sites that top prints: words to the left, numbers to the right,
 * each column as wide as its widest cell. */

#include "ctl_status.h"

/* The column REQ/s of a site whose rate is not known. */
#define CTL_RATE_UNKNOWN -1

/* Prints the sites in this order.  rates: requests a second of each of them, shown instead
 * of the number of requests; NULL: the number is shown. */
void ctl_table_print(FILE *out, const ctl_vhost_t *const vhosts[], size_t n,
                     const json_int_t *rates);

#endif
