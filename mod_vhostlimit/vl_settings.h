/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SETTINGS_H
#define VL_SETTINGS(X)                                                        \
    /* member     directive               default        min max      unit words help */ \
    X(mode,        "VhostLimit",            VL_MODE_OFF,   0, -1,      "", mode_words, \
      "On, Off or DryRun (decide and count, carry nothing out)")              \
    X(concurrency, "VhostLimitConcurrency", 0,             0, 1000000, "", NULL, \
      "most requests running at once, 0 = no limit")                          \
    X(status_code, "VhostLimitStatusCode",  503,           0, -1,      "", status_words, \
      "status of a refused request: 503, 429 or 508")                         \
    X(retry_after, "VhostLimitRetryAfter",  VL_RETRY_AUTO, 1, 86400, "of seconds ", retry_words, \
      "Retry-After of a refused request: auto, off or seconds")

#define VL_UNSET (-1000)

/* Values of retry_after that are not seconds. */
#define VL_RETRY_AUTO 0
#define VL_RETRY_OFF (-1)

#endif
