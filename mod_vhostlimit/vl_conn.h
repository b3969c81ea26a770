/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONN_H
#define VL_CONN_H

/* What the gate and the request hooks know of a connection; in c->pool. */

#include <httpd.h>

#include "vl_park.h"
#include "vl_private.h"

typedef struct vl_conn_t {
    vl_waiter_t waiter;         /* first: a waiter is its connection */
    int parked;                 /* stands in line (vl_park_lock) */
    int fd;
    vl_turn_t turn;             /* for its next request (vl_park_lock while
                                 * parked, else its thread's) */
    struct req_t *current;      /* at most one is being worked on */
} vl_conn_t;

static inline vl_conn_t *vl_conn_get(const conn_rec *c)
{
    return ap_get_module_config(c->conn_config, &vhostlimit_module);
}

#endif
