/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SETTINGS_H
#define VL_SETTINGS(X)                                                        \
    /* member     directive      args  default  min max  unit  words  help */ \
    X(mode, "VhostLimit", TAKE1, VL_MODE_OFF, 0, -1, "", mode_words,          \
      "On, Off or DryRun (decide and count, carry nothing out)")              \
    X(weight, "VhostLimitWeight", TAKE1, VL_WEIGHT_DEFAULT, 1, VL_WEIGHT_MAX, \
      "", NULL, "share of the server under load, beside the others' weights") \
    X(concurrency, "VhostLimitConcurrency", TAKE1, 0, 0, 1000000, "", NULL,   \
      "most requests running at once, 0 = no limit")                          \
    X(queue, "VhostLimitQueue", TAKE12, 1000, 0, 1000000, "", NULL,           \
      "most requests waiting at once, and how long one may wait (10s)")       \
    X(status_code, "VhostLimitStatusCode", TAKE1, 503, 0, -1, "",             \
      status_words, "status of a refused request: 503, 429 or 508")           \
    X(retry_after, "VhostLimitRetryAfter", TAKE1, VL_RETRY_AUTO, 1, 86400,    \
      "of seconds ", retry_words,                                             \
      "Retry-After of a refused request: auto, off or seconds")

/* Second value of VhostLimitQueue, and its bounds. */
#define VL_QUEUE_TIMEOUT apr_time_from_sec(10)
#define VL_QUEUE_TIMEOUT_MIN apr_time_from_msec(1)
#define VL_QUEUE_TIMEOUT_MAX apr_time_from_sec(3600)

/* Longest name of a group. */
#define VL_GROUP_MAX 64

#define VL_UNSET (-1000)

#define VL_SLOTS_AUTO 0

/* Values of retry_after that are not seconds. */
#define VL_RETRY_AUTO 0
#define VL_RETRY_OFF (-1)

#endif
