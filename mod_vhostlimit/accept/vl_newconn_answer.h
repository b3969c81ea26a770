/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_NEWCONN_ANSWER_H
#define VL_NEWCONN_ANSWER_H

/* Answers to connections that the MPM never gets: 408, a refusal, 503 when the server
 * stops, or a reset.
 * Owns the average cost of a refusal (vl_newconns->refusal_us).
 * The lock is vl_waiters_lock(). The functions are called with a connection in any state
 * but IN_MPM, which is LINGERING or RELEASED when they return. */

#include "accept/vl_newconn_table.h"

/* Closes a connection whose head or ClientHello is too late. It is answered with 408
 * first where Apache does so. */
void vl_newconn_time_out_locked(vl_newconn_t *newconn);
/* Refuses a connection without the MPM: an HTTP request gets a prepared answer, a TLS
 * connection a reset. The refusal is counted and charged to the account. */
void vl_newconn_refuse_locked(vl_newconn_t *newconn);
/* Closes a connection with a reset because descriptors are short. The refusal is
 * counted and charged as above. */
void vl_newconn_reset_locked(vl_newconn_t *newconn);
/* Answers a request that was read with 503, because no other child is left. */
void vl_newconn_answer_503_locked(vl_newconn_t *newconn);

/* Reads and discards a part of the input. Returns 0 at the end of the input. */
int vl_newconn_discard_input(int fd);

#endif
