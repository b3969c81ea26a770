/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_INSIDE_H
#define VL_INSIDE_H

/* What the status page and vhostlimitctl show of the queue inside a site: its classes, its
 * late requests and how many clients wait. The waiters are in the memory of the child
 * processes (vl_wait.h). Each child process tells the number of its waiters in a vl_waiting_t
 * of its own in the segment; here they are added up.
 *
 * No lock: the numbers need not be consistent. Reading makes pages of the segment resident,
 * so do not ask for a site that has neither classes nor had a waiting request. */

#include "core/vl_shm.h"

typedef struct vl_inside_class_t {
    apr_uint32_t weight;
    apr_uint32_t waiting;           /* waiters, in the queue and beyond it */
    apr_uint64_t requests, cpu_us;  /* that ended while requests waited */
    apr_uint64_t known_requests, known_cpu_us;  /* the part of known clients */
} vl_inside_class_t;

typedef struct vl_inside_t {
    apr_uint64_t late;              /* requests that were late since the start */
    apr_uint32_t waiting;           /* waiters of all classes, removed ones too */
    apr_uint32_t clients;           /* that wait. One that waits in two child processes
                                     * counts twice. */
    vl_inside_class_t classes[VL_CLASSES_MAX];
} vl_inside_t;

/* Any process. */
void vl_inside_read(const vl_shm_t *shm, apr_uint32_t account, vl_inside_t *ret_inside);
/* Finds the client that has most waiters. Returns their number and sets *ret_key, the key of
 * its entry in the table of clients. Returns 0 if no client waits. Any process. */
apr_uint32_t vl_inside_most(const vl_shm_t *shm, apr_uint32_t account,
                            apr_uint64_t *ret_key);
/* Returns what this child process tells of the account's waiters, or NULL if this process has
 * no column. Under the waiters lock. */
vl_waiting_t *vl_inside_mine(const vl_shm_t *shm, apr_uint32_t account);

#endif
