/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_admit.h"

vl_decision_t vl_admit_decide(const vl_limits_t *limits, apr_uint64_t running)
{
    static const vl_decision_t pass = { VL_PASS, VL_REASON_NONE };
    static const vl_decision_t full = { VL_REFUSE, VL_REASON_CONCURRENCY };

    if (limits->concurrency && running >= limits->concurrency)
        return full;
    return pass;
}

vl_decision_t vl_admit_dryrun(const vl_limits_t *limits, apr_uint64_t running,
                              int *ret_waits)
{
    vl_decision_t decision = vl_admit_decide(limits, running);

    *ret_waits = 0;
    if (decision.verdict == VL_PASS || !limits->queue)
        return decision;
    *ret_waits = running - limits->concurrency < limits->queue;
    decision.verdict = *ret_waits ? VL_PASS : VL_REFUSE;
    decision.reason = *ret_waits ? VL_REASON_NONE : VL_REASON_QUEUE;
    return decision;
}

#define MORE_ALPHA 4

int vl_admit_more(apr_uint32_t held, apr_uint32_t left)
{
    return vl_admit_more_weighted(held, left, 1, 1, 1);
}

int vl_admit_more_weighted(apr_uint32_t held, apr_uint32_t left, apr_uint32_t weight,
                           apr_uint32_t n, apr_uint64_t weights)
{
    if (!held)
        return left > 0;
    return held * weights < (apr_uint64_t)left * MORE_ALPHA * weight * n;
}

apr_uint32_t vl_admit_retry_after(apr_uint64_t service_us, apr_uint32_t slots,
                                  apr_uint32_t random)
{
    apr_uint64_t second = 1000000;
    apr_uint64_t wait_us = service_us / (slots ? slots : 1);
    apr_uint64_t wait = (wait_us + second - 1) / second;

    if (wait < 1)
        wait = 1;
    if (wait > VL_RETRY_MAX)
        wait = VL_RETRY_MAX;
    return (apr_uint32_t)(wait + random % (wait + 1));
}

const char *vl_admit_reason_name(vl_reason_e reason)
{
    switch (reason) {
    case VL_REASON_CONCURRENCY:
        return "concurrency";
    case VL_REASON_QUEUE:
        return "queue";
    case VL_REASON_TIMEOUT:
        return "timeout";
    case VL_REASON_ERROR:
        return "error";
    case VL_REASON_GONE:
        return "gone";
    case VL_REASON_NONE:
        break;
    }
    return "none";
}
