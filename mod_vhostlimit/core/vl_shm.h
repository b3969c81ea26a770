/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SHM_H
#define VL_SHM_H

/* The state all children share: one account per vhost, found by name when the
 * configuration is read and by number on the request path.
 *
 *   _post_config_*   parent, while reading the configuration
 *   _parent_*        parent, any time
 *   _child_*         a child, before its threads start
 *
 * The segment outlives graceful and hard restarts: an account keeps its number
 * and its counts as long as the configuration names it or a request of an old
 * generation runs in it. */

#include <apr_errno.h>
#include <apr_pools.h>
#include <sys/types.h>

#include "core/vl.h"
#include "core/vl_metrics.h"
#include "core/vl_override.h"
#include "base/vl_rate.h"

typedef struct vl_shm_t vl_shm_t;

/* Copied out under the lock; nobody else walks shared memory. */
typedef struct vl_account_snapshot_t {
    char name[VL_NAME_SIZE];
    vl_limits_t limits;
    vl_override_t override;     /* what of them is not as configured */
    vl_metrics_t metrics;
    vl_cost_by_e cost_by;       /* that of the last request with a back end */
    apr_uint64_t service_us;    /* moving average of busy time per request */
    apr_int64_t limited_since_us;   /* see vl_limited.h; 0: it is not */
    vl_rate_t rate;             /* of the CPU time charged */
    apr_uint64_t waits[VL_WAIT_BUCKETS];    /* see vl_metrics_wait_bucket() */
} vl_account_snapshot_t;

/* children: most that can be alive at once, old generations included. */
apr_status_t vl_shm_post_config_create(apr_pool_t *p, apr_uint32_t accounts,
                                       apr_uint32_t children,
                                       vl_shm_t **ret_shm);

/* Parent: no child that is made from now on will need it. */
void vl_shm_post_config_destroy(vl_shm_t *shm);
/* There is an account of that name. */
int vl_shm_post_config_knows(const vl_shm_t *shm, const char *name);

/* A new configuration follows, one vl_shm_post_config_account() per vhost. */
void vl_shm_post_config_begin(vl_shm_t *shm);
/* Finds the account by name or makes it.  APR_ENOSPC: no room for another. */
apr_status_t vl_shm_post_config_account(vl_shm_t *shm, const char *name,
                                        const vl_limits_t *limits,
                                        apr_uint32_t *ret_account);
/* Its limits change, for all children and at once.  Until the server ends, or
 * the configuration says otherwise of them, or no longer names the account. */
apr_status_t vl_shm_parent_change(vl_shm_t *shm, apr_uint32_t account,
                                  const vl_change_t *change);
/* What vl_usage_kills() says of the account's group when it is first used:
 * nothing that this server has to tell of. */
void vl_shm_post_config_kills(vl_shm_t *shm, apr_uint32_t account,
                              apr_uint64_t kills);

/* The child takes a column of cells, so that what it holds can be taken back
 * when it dies.  threads: most requests it can work on at once.  APR_ENOSPC:
 * more children than vl_shm_post_config_create() was told of. */
apr_status_t vl_shm_child_attach(vl_shm_t *shm, pid_t pid,
                                 apr_uint32_t threads);
/* Readable when slots were granted to this child (an eventfd); -1: none. */
int vl_shm_child_wake_fd(const vl_shm_t *shm);
/* Only to who waits with a thread is granted in this child until it goes on
 * (paused 0). */
void vl_shm_child_pause(vl_shm_t *shm, int paused);
/* This child stops: nothing more is granted to it, and it takes nobody. */
void vl_shm_child_leave(vl_shm_t *shm);
/* The children that do not: they can be handed connections. */
apr_uint32_t vl_shm_child_others(vl_shm_t *shm);
/* Returns how many running and waiting requests the dead child left behind. */
apr_uint32_t vl_shm_parent_reclaim(vl_shm_t *shm, pid_t pid);

apr_status_t vl_shm_snapshot(vl_shm_t *shm, apr_uint32_t account,
                             vl_account_snapshot_t *ret_snapshot);
/* n of them under one lock: keep n small.  Only what must be of one moment is
 * copied under it.  Adds the time it was held to held_us. */
apr_status_t vl_shm_snapshots(vl_shm_t *shm, const apr_uint32_t *accounts,
                              apr_size_t n,
                              vl_account_snapshot_t *ret_snapshots,
                              apr_int64_t *held_us);
/* Processors that the server may use. */
apr_uint32_t vl_shm_processors(const vl_shm_t *shm);
/* Children that there may be, old generations included: every child has a
 * descriptor for each of them. */
apr_uint32_t vl_shm_columns(const vl_shm_t *shm);
/* Children alive, old generations included. */
apr_uint32_t vl_shm_children(vl_shm_t *shm);
/* When the segment was made, i.e. the server started; microseconds (Unix). */
apr_int64_t vl_shm_created_us(const vl_shm_t *shm);

/* Checks the sentences at the top of vl_shm_int.h; NULL when all hold, else the
 * first that does not.  For tests. */
const char *vl_shm_validate(vl_shm_t *shm);

#endif
