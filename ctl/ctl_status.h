/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_STATUS_H
#define CTL_STATUS_H

/* The server's status document as a structure.  The members have the names of the keys
 * (docs/reference/status.md). */

#include "ctl.h"

/* The limits that can be changed, in the order in which they are shown. */
typedef enum {
    CTL_WEIGHT,
    CTL_CONCURRENCY,
    CTL_QUEUE,
    CTL_CPU,
    CTL_LIMITS                  /* number of limits */
} ctl_limit_e;

extern const char *const ctl_limit_names[CTL_LIMITS];

/* Numbers of a vhost that commands use. */
#define CTL_VHOST_NUMBERS(X) X(running) X(waiting) X(deferred) X(requests) X(queued) \
    X(refused) X(refused_concurrency) X(refused_queue) X(refused_timeout)           \
    X(would_queue) X(would_refuse) X(busy_us) X(charged_us) X(limited_s)            \
    X(late) X(wait_us) X(cpu_now_permille) X(service_us) X(wait_p99_us)             \
    X(duty_permille) X(runnable_permille) X(asleep) X(fleet_concurrency)            \
    X(fleet_cpu_permille) X(database_waits) X(database_now_permille)

/* Numbers of the server. */
#define CTL_SERVER_NUMBERS(X) X(now_us) X(uptime_s) X(children) X(workers) X(threads) \
    X(slots) X(slots_auto) X(processors)

/* A site: a vhost, or all vhosts of a VhostLimitGroup. */
typedef struct ctl_vhost_t {
    const char *name, *mode, *state, *method;
    json_int_t limits[CTL_LIMITS];
    json_int_t configured[CTL_LIMITS];  /* -1: the limit is as configured */
#define X(member) json_int_t member;
    CTL_VHOST_NUMBERS(X)
#undef X
    json_t *json;
} ctl_vhost_t;

typedef struct ctl_status_t {
    const char *module, *mpm;
#define X(member) json_int_t member;
    CTL_SERVER_NUMBERS(X)
#undef X
    struct {
        const char *backend, *path, *reason, *outside;
    } cgroup;
    struct {
        const char *is;         /* dormant or engaged */
        const char *why;        /* slots, threads, limit or always */
        json_int_t since_s, changes;
    } state;
    struct {
        const char *state;      /* runs, blind or none */
        const char *unread;     /* a database whose sessions are not seen, or "" */
        json_int_t round_us, processes, unfound;
    } sampler;
    const char *fleet;          /* leases of vhostlimit-fleet: none, held or lapsed */
    ctl_vhost_t *vhosts;
    size_t nvhosts;
    int is_partial;             /* 1: sites of other users are missing; set by ctl_mine() */
    json_int_t held_permille;   /* then: what running requests of all sites hold */
} ctl_status_t;

/* Reads the document.  The strings belong to json, which must live as long as *ret_status.
 * Returns CTL_DONE, or fills in *error if a key is missing or not valid. */
ctl_exit_e ctl_status_read(json_t *json, ctl_status_t *ret_status, ctl_error_t *error);

void ctl_status_free(ctl_status_t *status);

/* The site has VhostLimit DryRun. */
int ctl_vhost_is_dry(const ctl_vhost_t *vhost);

/* Returns the sum of a member over all sites; INT64_MAX if it is larger. */
#define CTL_SUM(status, member) ctl_status_sum(status, offsetof(ctl_vhost_t, member))
json_int_t ctl_status_sum(const ctl_status_t *status, size_t offset);

#endif
