/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_NEWCONN_ANSWER_H
#define VL_NEWCONN_ANSWER_H

/* The ends of connections that the MPM never gets: closed without a request, a reset, or 503
 * when the server stops.
 * Owns the average cost of a refusal (vl_newconns->refusal_us).
 * The lock is vl_waiters_lock(). The functions are called with a connection in any state
 * but IN_MPM, which is LINGERING, RELEASED or FOR_MPM when they return. */

#include "accept/vl_newconn_table.h"

/* Ends a connection whose head or ClientHello is too late. If it has a request line, it is
 * passed to the MPM, where its head ends with a timeout, so that httpd answers and logs 408. */
void vl_newconn_time_out_locked(vl_newconn_t *newconn);
/* Refuses a connection with a reset, because descriptors are short. The refusal is counted and
 * charged to the account. */
void vl_newconn_reset_locked(vl_newconn_t *newconn);
/* Answers a request that was read with 503, because no other child is left. */
void vl_newconn_answer_503_locked(vl_newconn_t *newconn);

/* Reads and discards a part of the input. Returns 0 at the end of the input. */
int vl_newconn_discard_input(int fd);

#endif
