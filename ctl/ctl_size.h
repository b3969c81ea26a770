/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_SIZE_H
#define CTL_SIZE_H

#include "ctl_status.h"

/* Erlang's formula B: the part of the requests that find all n servers busy when
 * `offered` erlangs are offered and no request waits. */
double ctl_size_erlang_b(long n, double offered);

/* Erlang's formula C: the part of the requests that wait when requests do wait. */
double ctl_size_erlang_c(long n, double offered);

/* Returns the least number of servers that refuses at most this part of the requests
 * (formula B); 0: the number is 20 000 or more. */
long ctl_size_least(double offered, double part);

/* Load that was measured, and what it needs. */
typedef struct ctl_size_t {
    json_int_t seconds, processors, slots, workers;
    json_int_t requests;        /* 0: the members below are not set */
    double per_second;
    double service_ms, cpu_ms;  /* of a request on average */
    double most_per_second;     /* that the processors can do; < 0: no CPU time was used */
    double offered;             /* erlangs: requests that run on average */
    long at_once;               /* running requests that keep the processors busy */
    long workers_wanted;
    double loss, wait;          /* part of the requests, if at most at_once run */
    long for_loss;              /* running requests for a loss of 1 %; 0: too many */
} ctl_size_t;

/* Computes *ret_size from two documents.  before NULL: since the start of the server.
 * Returns 0, or -1 if the counters went back between the documents. */
int ctl_size_compute(const ctl_status_t *before, const ctl_status_t *after,
                     json_int_t seconds, ctl_size_t *ret_size);

#endif
