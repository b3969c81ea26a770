/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_TICKET_H
#define VL_TICKET_H

/* What passes between the segment and the process in which requests wait: a slot that is
 * held, and the first waiter of an account. No state, no lock. */

#include "core/vl_clients.h"

/* A slot that is held. Release it once with vl_slot_end(). */
typedef struct vl_ticket_t {
    apr_uint32_t account;
    apr_uint32_t charged;       /* estimated cost charged at the start, us */
    int stream;                 /* 1: an HTTP/2 stream, see vl_thread_is_stream() */
    vl_client_id_t client;      /* the client that was charged client_us in advance */
    apr_uint32_t client_us;
} vl_ticket_t;

/* What a child tells the others of its first waiter of an account. */
typedef struct vl_first_t {
    vl_tags_t tags;
    apr_int64_t since_us;       /* arrival */
} vl_first_t;

#endif
