/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_TOP_H
#define CTL_TOP_H

#include "ctl_status.h"

/* Orders of top.  The letter is the key that selects it while top runs. */
#define CTL_ORDERS(X) X(CPU, cpu, c) X(RUNNING, running, r) X(WAITING, waiting, w) \
    X(REFUSED, refused, f) X(RATE, rate, s) X(NAME, name, n)

typedef enum {
#define X(id, word, letter) CTL_ORDER_##id,
    CTL_ORDERS(X)
#undef X
    CTL_ORDER_COUNT
} ctl_order_e;

#define CTL_RATE_UNKNOWN -1

/* A site and its requests a second, CTL_RATE_UNKNOWN if there is one document only. */
typedef struct ctl_top_row_t {
    const ctl_vhost_t *vhost;
    json_int_t rate;
} ctl_top_row_t;

/* Sorts the rows, which are in the order of the configuration.  Except by name, sites
 * without requests stay in that order, after all others. */
void ctl_top_sort(ctl_top_row_t *rows, size_t n, ctl_order_e order);

/* Returns the rows of all sites, for the caller to free.  before: an earlier document, from
 * which rates are computed; NULL: there is none. */
ctl_top_row_t *ctl_top_rows(const ctl_status_t *status, const ctl_status_t *before);

/* Prints the table of these sites, with their rates or their numbers of requests. */
void ctl_top_print(FILE *out, const ctl_top_row_t *rows, size_t n, int has_rates);

#endif
