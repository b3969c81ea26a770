/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SHM_H
#define VL_SHM_H

/* Creation of the shared memory segment, and its accounts: one account per site, found by
 * name while the configuration is read and by number on the request path.
 *
 * The segment outlives graceful and hard restarts. An account keeps its number and its
 * counters as long as the configuration names it or a request of an old generation runs in
 * it. vl_segment.h has the layout and the invariants.
 *
 *   _post_config_*   called by the parent while it reads the configuration
 *   _parent_*        called by the parent, any time
 *   others           called by any process
 *
 * Lock: the segment lock. Functions take it themselves unless their comment says
 * otherwise. */

#include <apr_errno.h>
#include <apr_pools.h>
#include <sys/types.h>

#include "core/vl.h"
#include "core/vl_metrics.h"
#include "core/vl_override.h"
#include "base/vl_rate.h"

typedef struct vl_shm_t vl_shm_t;

/* A copy made under the lock, so that its reader does not access the segment. */
typedef struct vl_account_snapshot_t {
    char name[VL_NAME_SIZE];
    vl_limits_t limits;
    vl_override_t override;     /* all limits, and which differ from the configuration */
    vl_part_t part;             /* leased by vhostlimit-fleet */
    vl_metrics_t metrics;
    vl_cost_by_e cost_by;       /* how the CPU time of its back ends is found */
    apr_uint32_t duty;          /* see vl_fair.h; permille, 0: unknown */
    apr_uint32_t asleep;        /* running requests that hold no slot */
    apr_uint32_t database_permille, database_waits;     /* see vl_segment.h */
    apr_uint32_t load;          /* permille of a slot that the others hold */
    apr_uint64_t service_us;    /* moving average of busy time per request */
    apr_int64_t limited_since_us;   /* see vl_limited.h; 0: not limited */
    vl_rate_t rate;             /* of the CPU time charged */
    apr_uint64_t waits[VL_WAIT_BUCKETS];    /* see vl_metrics_wait_bucket() */
} vl_account_snapshot_t;

/* What the segment was made for, and its slots. */
typedef struct vl_facts_t {
    apr_uint32_t capacity;      /* accounts that it can hold, of sites and hosts */
    apr_uint32_t columns;       /* most children, old generations included. Every child has one
                                 * descriptor for each of them */
    apr_uint32_t processors;    /* that the server may use */
    apr_int64_t created_us;     /* when the server started, in microseconds (Unix) */
    apr_uint32_t slots;         /* of the server */
    int is_auto;                /* VhostLimitSlots is auto */
    apr_uint64_t held;          /* by running requests, permille of a slot */
} vl_facts_t;

/* Creates the segment. sites and hosts: maximum numbers of accounts of sites and of hosts
 * (vl_hosts.h). children: maximum number of children alive at once, old generations
 * included. */
apr_status_t vl_shm_post_config_create(apr_pool_t *p, apr_uint32_t sites,
                                       apr_uint32_t hosts, apr_uint32_t children,
                                       vl_shm_t **ret_shm);

/* Destroys the segment in the parent, when no later child will need it. */
void vl_shm_post_config_destroy(vl_shm_t *shm);
/* Returns 1 if an account of that name exists. Takes no lock: the parent's table of
 * names. */
int vl_shm_post_config_knows(const vl_shm_t *shm, const char *name);

/* Begins a new configuration. One vl_shm_post_config_account() per site follows. */
void vl_shm_post_config_begin(vl_shm_t *shm);
/* Finds the account by name or creates it, and applies the limits. Returns APR_ENOSPC if
 * all accounts are in use, APR_ENAMETOOLONG if the name is too long. */
apr_status_t vl_shm_post_config_account(vl_shm_t *shm, const char *name,
                                        vl_mode_e mode, const vl_values_t *configured,
                                        apr_uint32_t *ret_account);
/* Changes limits of the account for all children at once. The change lasts until its time
 * is over (vl_change_t.expire_us), the server ends, the configuration changes the same
 * limits, or the configuration no longer names the account. */
apr_status_t vl_shm_parent_change(vl_shm_t *shm, apr_uint32_t account,
                                  const vl_change_t *change);
/* Returns when the first timed override of an account that the configuration names ends;
 * 0: there is none. */
apr_int64_t vl_shm_parent_next_us(vl_shm_t *shm);
/* Returns the limits that the account has now. Only the parent writes them, so no lock is
 * needed. */
const vl_values_t *vl_shm_post_config_values(const vl_shm_t *shm, apr_uint32_t account);
/* Returns 1 after vl_shm_post_config_kills(). */
int vl_shm_post_config_knows_kills(const vl_shm_t *shm, apr_uint32_t account);
/* Sets the base of the account's kill counter when its group is first used: kills before
 * that are not reported. kills: from vl_kills_of(). */
void vl_shm_post_config_kills(vl_shm_t *shm, apr_uint32_t account,
                              apr_uint64_t kills);

/* Copies one account. */
apr_status_t vl_shm_snapshot(vl_shm_t *shm, apr_uint32_t account,
                             vl_account_snapshot_t *ret_snapshot);
/* Copies n accounts under one lock, so keep n small. Only values that must be consistent
 * are copied under it. Adds the time the lock was held to *held_us. */
apr_status_t vl_shm_snapshots(vl_shm_t *shm, const apr_uint32_t *accounts,
                              apr_size_t n,
                              vl_account_snapshot_t *ret_snapshots,
                              apr_int64_t *held_us);
/* Sets the weights of the account's classes (VL_CLASSES_MAX) and the share of its known
 * clients. has_classes 0: it has neither, but may have had them before a restart. */
void vl_shm_post_config_classes(vl_shm_t *shm, apr_uint32_t account, int has_classes,
                                const apr_uint32_t *weights, apr_uint32_t known_share);
/* Records whether the hosts of the site have accounts (vl_hosts.h). */
void vl_shm_post_config_hosts(vl_shm_t *shm, apr_uint32_t account, int has_hosts);
/* Set and tell whether the owner of the site has switched its sandbox off. No lock. */
void vl_shm_parent_unconfine(vl_shm_t *shm, apr_uint32_t account, int is_unconfined);
int vl_shm_is_unconfined(const vl_shm_t *shm, apr_uint32_t account);
/* Returns 1 if a request of the account has had to wait in the last second. No lock. */
int vl_shm_is_contended(const vl_shm_t *shm, apr_uint32_t account);
/* Returns the table of clients. */
vl_clients_t *vl_shm_clients(const vl_shm_t *shm);
/* Takes no lock. */
vl_facts_t vl_shm_facts(const vl_shm_t *shm);

#endif
