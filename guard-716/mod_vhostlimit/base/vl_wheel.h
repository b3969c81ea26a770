/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WHEEL_H
#define VL_WHEEL_H

/* Timers for many objects that mostly never expire: a hashed timing wheel (Varghese
 * and Lauck 1987, scheme 6).  Setting and clearing a timer is O(1).  Timers expire in
 * steps of VL_WHEEL_STEP_US and never early.  The caller must hold the lock that protects
 * the wheel and its timers. */

#include <apr_pools.h>
#include <apr_ring.h>

#define VL_WHEEL_STEP_US (100 * 1000)
/* One revolution of the wheel takes 25.6 s.  A timer that is due later stays in its bucket
 * for more revolutions. */
#define VL_WHEEL_BUCKETS 256

/* A timer, in memory of the caller.  All zero: not set. */
typedef struct vl_timer_t {
    APR_RING_ENTRY(vl_timer_t) link;
    apr_int64_t due_us;             /* 0: not set */
} vl_timer_t;

typedef struct vl_wheel_t vl_wheel_t;

/* Creates a wheel in p.  now_us: the current time; all timers expire later. */
vl_wheel_t *vl_wheel_create(apr_pool_t *p, apr_int64_t now_us);

/* Sets the timer to due_us, which must be greater than 0.  A timer that is set is moved. */
void vl_wheel_set(vl_wheel_t *w, vl_timer_t *timer, apr_int64_t due_us);
/* Clears the timer; does nothing if it is not set. */
void vl_wheel_clear(vl_timer_t *timer);

/* Clears each expired timer and calls fn with it.  fn may set the timer again to a time
 * after now_us, and may set and clear other timers. */
typedef void (*vl_wheel_fn)(vl_timer_t *timer);
void vl_wheel_turn(vl_wheel_t *w, apr_int64_t now_us, vl_wheel_fn fn);

#endif
