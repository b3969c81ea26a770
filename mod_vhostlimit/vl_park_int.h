/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PARK_INT_H
#define VL_PARK_INT_H

/* For the files of this room only: who waits for a slot (vl_park.c), and for a
 * thread of HTTP/2 connections (vl_park_link.c). */

#include <pthread.h>

#include "vl_park.h"

typedef struct park_t {
    pthread_mutex_t lock;           /* of a kind that a signal handler does not
                                     * hang in, see vl_shm.c */
    vl_shm_t *shm;
    vl_wait_t *lines;
    vl_wait_t *deferred;            /* beyond the queues */
    apr_uint32_t threads;
    apr_uint32_t workers;           /* HTTP/2's */
    apr_uint32_t streams;           /* HTTP/2's that wait, in all and ... */
    apr_uint32_t *streams_of;       /* ... of each account */
    apr_uint32_t *sitting;          /* in line with a thread, of each account */
    apr_uint32_t *parked;           /* by account: connections in the MPM */
} park_t;

extern park_t vl_park;

/* vl_park_take_locked(), if there is something to take. */
void vl_park_take_granted_locked(void);

/* The thread sleeps until it is called, or it is time to look for itself, at
 * until_us at the latest.  Times are those of vl_clock_us(). */
void vl_park_called_init(pthread_cond_t *called);
void vl_park_nap_locked(pthread_cond_t *called, apr_int64_t until_us);

/* One of HTTP/2's workers may wait for this account, and no longer does. */
int vl_park_stream_sits_locked(apr_uint32_t account);
void vl_park_stream_rises_locked(apr_uint32_t account);

/* The newest who waits for a connection's thread is refused, of an account that
 * overfills this child.  0: there is none. */
int vl_park_link_drop_locked(void);
void vl_park_link_child_init(void);

#endif
