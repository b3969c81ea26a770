/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SETTINGS_H
#define VL_SETTINGS_H

/* The default of each directive with a number or a word, here and nowhere else, and the bounds of its
 * values; for other forms vl_conf_check.c uses the constants below.  args: TAKE1, TAKE12 with an
 * optional second one, or BYTES, which are stored in 64 bits.  Each list
 * is a macro of X() rows, from which vl_conf.c makes struct members, the command table, the merge
 * and the defaults.  Constants only. */

#define VL_SETTINGS(X)                                                        \
    /* member     directive      args  default  min max  unit  words  help */ \
    X(mode, "VhostLimit", TAKE1, VL_MODE_OFF, 0, -1, "", mode_words,          \
      "On, Off or DryRun (decide and count, but delay and refuse nothing)")   \
    X(weight, "VhostLimitWeight", TAKE1, VL_WEIGHT, 1, VL_WEIGHT_MAX,         \
      "", NULL, "share of the CPU under load, in proportion to other weights")\
    X(concurrency, "VhostLimitConcurrency", TAKE1, 0, 0, 1000000, "", NULL,   \
      "most requests of the site running at once; 0: no limit")               \
    X(queue, "VhostLimitQueue", TAKE12, 1000, 0, 1000000, "", NULL,           \
      "most queued requests of the site, and the queue timeout")        \
    X(cpu, "VhostLimitCPU", TAKE1, 0, 1, 100000, "%", none_words,             \
      "most CPU time, in percent of one CPU: none, or such as 150%")          \
    X(processes, "VhostLimitProcesses", TAKE1, 0, 1, 4194304, "", none_words, \
      "most processes and threads of the back ends: none or a number")        \
    X(sandbox, "VhostLimitSandbox", TAKE1, VL_SANDBOX_OFF, 0, -1, "",         \
      sandbox_words, "what the site's programs see: Off, Files or Full")      \
    X(owner, "VhostLimitOwner", TAKE1, VL_OWNER_OFF, 0, -1, "", owner_words,  \
      "what the site's owner may do: Off, Show or Sandbox")                   \
    X(status_code, "VhostLimitStatusCode", TAKE1, 503, 0, -1, "",             \
      status_words, "status code of refused requests: 503, 429 or 508")       \
    X(retry_after, "VhostLimitRetryAfter", TAKE1, VL_RETRY_AUTO, 1, 86400,    \
      "of seconds ", retry_words,                                             \
      "Retry-After of refused requests: auto, off or seconds")                \
    X(memory, "VhostLimitMemory", BYTES, 0, 1024 * 1024, VL_SIZE_MAX,         \
      "bytes", NULL, "most memory of the back ends: none or bytes, with K, M or G") \
    X(io, "VhostLimitIO", BYTES, 0, 1024, VL_SIZE_MAX, "bytes", NULL,         \
      "most bytes per second that the back ends read from each disk, and "    \
      "write to it: none or bytes, with K, M or G")

/* The same for directives of the main server alone. */
#define VL_GLOBALS(X)                                                         \
    X(slots, "VhostLimitSlots", TAKE1, VL_SLOTS_AUTO, 1, 100000, "",          \
      slots_words, "number of slots, which all sites share: auto or a number") \
    X(on_error, "VhostLimitOnError", TAKE1, VL_ERROR_OPEN, 0, -1, "",         \
      error_words, "what happens to requests when the module cannot count "   \
      "them: open serves them, closed refuses them")

/* Index of a setting in vl_conf_t.set_at.  The settings before VL_AT_group are shared by the
 * virtual hosts of a site. */
enum {
    VL_AT_plan,
#define X(member, directive, args, def, min, max, unit, words, help) VL_AT_##member,
    VL_SETTINGS(X)
#undef X
    VL_AT_queue_timeout,
    VL_AT_clients,
    VL_AT_known,
    VL_AT_classes,
    VL_AT_accounts,
    VL_AT_group,
    VL_AT_COUNT
};

#define VL_SIZE_MAX APR_INT64_C(0x4000000000000)   /* 1024 TB */

/* Default of VhostLimitWeight, and the weight of a site that is Off. */
#define VL_WEIGHT 100
#define VL_CGROUP "auto"
/* max= of VhostLimitAccounts Host. */
#define VL_HOSTS 65536

/* Default of the timeout (second argument) of VhostLimitQueue, and its bounds. */
#define VL_QUEUE_TIMEOUT apr_time_from_sec(10)
#define VL_QUEUE_TIMEOUT_MIN apr_time_from_msec(1)
#define VL_QUEUE_TIMEOUT_MAX apr_time_from_sec(3600)

/* Maximum length of the name of a VhostLimitGroup or VhostLimitPlan, in bytes. */
#define VL_GROUP_MAX 64

/* Defaults of VhostLimitClients: length of the prefixes, in bits. */
#define VL_CLIENT_BITS4 32
#define VL_CLIENT_BITS6 64

/* Weight of the class of all other requests, and of each class that a restart has removed. */
#define VL_CLASS_WEIGHT 100

/* Defaults of VhostLimitKnown, in percent and us, and the bounds of ttl. */
#define VL_KNOWN_SHARE 80
#define VL_KNOWN_TTL_US (30 * 60 * (apr_int64_t)APR_USEC_PER_SEC)
#define VL_KNOWN_TTL_MIN_US ((apr_int64_t)APR_USEC_PER_SEC)
#define VL_KNOWN_TTL_MAX_US (30 * 24 * 3600 * (apr_int64_t)APR_USEC_PER_SEC)

/* The directive is not in the configuration. */
#define VL_UNSET (-1000)

/* VhostLimitSlots auto: VL_AUTO_PER_CPU for each processor (core/vl_slot.h). */
#define VL_SLOTS_AUTO 0

/* Values of on_error. */
enum { VL_ERROR_OPEN, VL_ERROR_CLOSED };

/* Values of owner. */
enum { VL_OWNER_OFF, VL_OWNER_SHOW, VL_OWNER_SANDBOX };

/* Values of retry_after that are not a number of seconds. */
#define VL_RETRY_AUTO 0
#define VL_RETRY_OFF (-1)

#endif
