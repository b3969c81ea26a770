/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WHEEL_H
#define VL_WHEEL_H

/* Timers for many things that mostly never fall due: a hashed timing wheel
 * (Varghese and Lauck 1987, scheme 6).  Setting and clearing one is O(1).  They
 * fall due by steps of VL_WHEEL_STEP_US, never early.  Lock: the caller's. */

#include <apr_pools.h>
#include <apr_ring.h>

#define VL_WHEEL_STEP_US (100 * 1000)
/* One turn of the wheel takes 25.6 s; later timers are passed by until their
 * turn. */
#define VL_WHEEL_SLOTS 256

/* The caller's memory; all zero: not set. */
typedef struct vl_timer_t {
    APR_RING_ENTRY(vl_timer_t) link;
    apr_int64_t due_us;             /* 0: not set */
} vl_timer_t;

typedef struct vl_wheel_t vl_wheel_t;

/* now_us: no timer will be set to fall due before. */
vl_wheel_t *vl_wheel_create(apr_pool_t *p, apr_int64_t now_us);

/* due_us > 0; one that is set already is set anew. */
void vl_wheel_set(vl_wheel_t *w, vl_timer_t *timer, apr_int64_t due_us);
void vl_wheel_clear(vl_timer_t *timer);

/* Clears each that is due and hands it over.  fn may set it again, for later
 * than now_us, and set and clear others. */
typedef void (*vl_wheel_fn)(vl_timer_t *timer);
void vl_wheel_turn(vl_wheel_t *w, apr_int64_t now_us, vl_wheel_fn fn);

#endif
