/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SAMPLER_H
#define VL_SAMPLER_H

/*
 * The sampler: a process beside Apache that looks some times a second what running requests
 * do. It tells the segment for each account
 *   - its duty: the part of their time in which its requests want a processor (vl_fair.h);
 *   - how many of its requests have been asleep for long;
 *   - the CPU time of its back ends (vl_charge.h).
 *
 * A request wants a processor while its thread runs or waits for a processor, and while the
 * back end that its thread waits for does (vl_backends.h). A request whose state cannot be
 * seen counts as one that wants a processor.
 *
 * The time between two rounds follows from their cost, so that the sampler uses about half a
 * percent of one processor whatever the server has to do. While no request runs it sleeps.
 */

#include "core/vl_shm.h"
#include "cost/vl_backends.h"

typedef struct vl_sampler_conf_t {
    vl_shm_t *shm;
    pid_t server;                   /* Apache's parent */
    const vl_listen_address_t *own; /* where Apache listens */
    int n_own;
    vl_backends_site_fn *folder, *user;     /* see vl_backends.h */
    vl_backends_name_fn *unfound;
    vl_backends_unread_fn *unread;
    int stop_fd;                    /* an eventfd; a signal makes the sampler look at once */
} vl_sampler_conf_t;

/* Runs until stop_fd is readable. */
void vl_sampler_run(apr_pool_t *p, const vl_sampler_conf_t *conf);

#endif
