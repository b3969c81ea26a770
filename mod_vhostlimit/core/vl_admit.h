/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ADMIT_H
#define VL_ADMIT_H

/* The decision about one request: a pure function of limits and counts. */

#include "core/vl.h"

typedef struct vl_decision_t {
    vl_verdict_e verdict;
    vl_reason_e reason;     /* VL_REASON_NONE with VL_PASS */
} vl_decision_t;

/* running: requests of the account now running, the one asking not among
 * them.  For who cannot wait. */
vl_decision_t vl_admit_decide(const vl_limits_t *limits, apr_uint64_t running);

/* What On would do, under DryRun, where those who would wait run as well: they
 * are those above the concurrency.  ret_waits: it would let this one wait. */
vl_decision_t vl_admit_dryrun(const vl_limits_t *limits, apr_uint64_t running,
                              int *ret_waits);

/* 1: an account that holds `held` of something may have one more while `left` are
 * free.  Dynamic thresholds (Choudhury and Hahne 1998): an account that is alone
 * gets four fifths, and the next one that comes finds some, however long those are
 * held.  Of up to four it may have all. */
int vl_admit_more(apr_uint32_t held, apr_uint32_t left);

/* Seconds a refused client should stay away: the time until a place is
 * expected to be free (mean service time / places, all of them being taken),
 * at least 1 and at most VL_RETRY_MAX, then up to twice as long by `random`,
 * lest everybody who was refused comes back at the same instant. */
#define VL_RETRY_MAX 30
apr_uint32_t vl_admit_retry_after(apr_uint64_t service_us, apr_uint32_t places,
                                  apr_uint32_t random);

const char *vl_admit_reason_name(vl_reason_e reason);

#endif
