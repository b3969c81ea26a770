/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CHILD_H
#define VL_CHILD_H

/* What this child process works with: its segment, its pairs of sockets, its limits.
 * Owns vl_child, which vl_child_init() fills in before the child has other threads, and
 * which is read-only from then on.  The exceptions are has_sockets, which is set before there
 * are other threads too, and `ended`: the main thread sets it when the process exits.  There is
 * no lock.  The files of accept/, request/ and status/ read it. The layers below may not: vl_waiters.c, vl_meter.c
 * and vl_lease.c have pointers to the segment of their own. */

#include <httpd.h>

#include "cgroup/vl_place.h"
#include "core/vl_shm.h"
#include "cost/vl_kills.h"

typedef struct vl_child_t {
    apr_pool_t *pool;               /* pchild */
    server_rec *main_server;
    vl_shm_t *shm;
    const vl_place_t *place;        /* the cgroups of the sites */
    vl_kills_t *kills;
    const char *pid_file;           /* of the parent */
    const int *transfer_pair;       /* see vl_transfer.h */
    const int *relay_pair;          /* see vl_relay.h */
    apr_uint32_t max_lingering;     /* limit of lingering connections, and half the
                                     * limit of descriptors for all connections here */
    int is_async;                   /* the MPM keeps the end of a response (event) */
    int has_sockets;                /* the listeners are taken over: connections are queued
                                     * as sockets */
    int ended;                      /* the shared memory must not be used any more */
} vl_child_t;

extern vl_child_t vl_child;

/* Child, before other handlers of fork(): a forked process ends by SIGTERM and SIGHUP at once. */
void vl_child_guard_forks(void);

/* Child, before it starts threads. child: the members up to relay_pair; the others follow
 * from the MPM and the limit of descriptors. threads: threads of the MPM in a child. */
void vl_child_init(const vl_child_t *child, int threads);

#endif
