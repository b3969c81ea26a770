/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LINK_H
#define VL_LINK_H

/* Threads of the MPM that HTTP/2 connections have.  mod_http2 works on streams
 * with threads of its own, and as long as there are some their connection has
 * one of the MPM's, whatever the streams do or wait for. */

#include "vl_slot.h"

/* Streams of the account begin on a connection that had none.  APR_EAGAIN: what
 * is left of this child's threads is for others (vl_admit_more()). */
apr_status_t vl_link_begin(vl_shm_t *shm, apr_uint32_t account);
/* The same without a limit: a connection that has been granted a lease. */
void vl_link_hold(vl_shm_t *shm, apr_uint32_t account);
void vl_link_end(vl_shm_t *shm, apr_uint32_t account);

/* The slot that is held is a stream's, which takes no thread of the MPM. */
void vl_link_stream(vl_shm_t *shm, vl_ticket_t *ticket);

#endif
