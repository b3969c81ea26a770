/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SHM_CHILD_H
#define VL_SHM_CHILD_H

/* Columns of the segment: each child process has one, for what it holds. A child attaches
 * when it starts, says whether its MPM accepts connections, and drains when it stops. When
 * it has died, the parent reclaims what it held. vl_shm_child.c has the table of its states.
 *
 * This file owns pid, threads and state of a child in the segment. Invariant: a column
 * without a pid holds nothing.
 *
 * Lock: the segment lock, which the functions take themselves unless their comment says
 * otherwise. Called by the acceptor of each child. vl_shm_parent_reclaim() is called by
 * the parent, vl_shm_child_count() by any process. */

#include <sys/types.h>

#include "core/vl_shm.h"

/* Gives this process a column, so that its slots can be reclaimed when it dies, and
 * dispatches. threads: maximum number of requests it can run at once. Returns APR_ENOSPC if
 * more children exist than vl_shm_post_config_create() was told. Called before the child's
 * threads start. */
apr_status_t vl_shm_child_attach(vl_shm_t *shm, pid_t pid, apr_uint32_t threads);
/* Returns the eventfd that becomes readable when another process grants slots to this
 * child, or -1 if this process has no column. Takes no lock. */
int vl_shm_child_wake_fd(const vl_shm_t *shm);
/* paused 1: this child is granted slots only for thread waiters and for connections parked
 * in its MPM, until the next call with 0. Dispatches. Has no effect in a draining child. */
void vl_shm_child_pause(vl_shm_t *shm, int paused);
/* This child accepts no more connections and is paused for good. Dispatches. */
void vl_shm_child_drain(vl_shm_t *shm);
/* This child takes new connections at now_us (vl_clock_us()); 0: it takes none. A child that
 * takes them calls this ten times a second. Returns 1 if it took them before. Takes no lock. */
int vl_shm_child_set_accepting(vl_shm_t *shm, apr_int64_t now_us);
/* Returns 1 if as many other children take new connections as the server has processors. If this one
 * does too, only those before it count. A child whose last call of vl_shm_child_set_accepting()
 * is 0.3 s ago does not. Takes no lock. */
int vl_shm_child_is_standby(const vl_shm_t *shm, apr_int64_t now_us);
/* Returns the number of children that are not draining. Connections can be transferred to
 * them. The calling child is included unless it is draining. Takes no lock. */
apr_uint32_t vl_shm_child_count_active(const vl_shm_t *shm);
/* Reclaims what the dead child held, and dispatches. Returns the number of its running,
 * queued and deferred requests. */
apr_uint32_t vl_shm_parent_reclaim(vl_shm_t *shm, pid_t pid);
/* The rescue process of a dead child (vl_rescue.h): tells the other children of its death,
 * which the parent may notice a second later. pid: of the dead child, because its column may
 * be another child's by now. Takes no lock and allocates nothing. */
void vl_shm_child_died(vl_shm_t *shm, pid_t pid);
/* Any child, about ten times a second: frees the slots of children that have died. Their
 * columns are kept until the parent calls vl_shm_parent_reclaim(), which returns what it
 * would have returned without this. */
void vl_shm_child_reclaim_dead(vl_shm_t *shm);
/* Returns the number of children alive, old generations included. */
apr_uint32_t vl_shm_child_count(vl_shm_t *shm);

#endif
