/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ADMIT_H
#define VL_ADMIT_H

/* The decision about one request: pure functions of limits and counts. No state, no
 * lock. */

#include "core/vl.h"

typedef struct vl_decision_t {
    vl_verdict_e verdict;
    vl_reason_e reason;     /* VL_REASON_NONE for VL_PASS */
} vl_decision_t;

/* Returns the decision about a request that cannot be queued. running: number of running
 * requests of the account, without this one. */
vl_decision_t vl_admit_decide(const vl_limits_t *limits, apr_uint64_t running);

/* Returns what mode On would decide about a request in mode DryRun. There, requests that On
 * would queue run as well: they are those above the concurrency. *ret_waits is 1 if On
 * would queue this one. */
vl_decision_t vl_admit_dryrun(const vl_limits_t *limits, apr_uint64_t running,
                              int *ret_waits);

/* Returns 1 if an account that holds `held` units of a resource may take one more while
 * `left` units are free. Dynamic thresholds (Choudhury and Hahne 1998): a single account
 * gets four fifths, and the next account finds free units, however long the others are
 * held. An account may use all of up to four units. */
int vl_admit_more(apr_uint32_t held, apr_uint32_t left);

/* The same for one of n active accounts: the threshold is in proportion to its weight.
 * Otherwise accounts that all want more would hold the same number of slots, whatever their
 * weights. weight: its weight; weights: the sum of the n weights; both in one unit. An
 * account that holds nothing may take any free unit. */
int vl_admit_more_weighted(apr_uint32_t held, apr_uint32_t left, apr_uint32_t weight,
                           apr_uint32_t n, apr_uint64_t weights);

/* Returns after how many seconds a refused client should retry. That is the time until a
 * slot is expected to be free (mean service time / slots, all slots being used), at least 1
 * and at most VL_RETRY_MAX. `random` extends it to up to twice that, so that refused
 * clients do not all return at the same instant. */
#define VL_RETRY_MAX 30
apr_uint32_t vl_admit_retry_after(apr_uint64_t service_us, apr_uint32_t slots,
                                  apr_uint32_t random);

/* Returns the name of the reason for logs and status pages. */
const char *vl_admit_reason_name(vl_reason_e reason);

#endif
