/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HOOKS_NET_H
#define VL_HOOKS_NET_H

/*
 * Filters for clients that read or send slowly: a request holds no slot while its thread
 * waits for its client.
 * Owns the handles of the filters, which do not change after the module is loaded. There
 * is no lock: a filter runs on the thread that works on its connection.
 * vl_hooks.c calls these functions.
 */

#include <http_request.h>

#include "request/vl_request.h"

void vl_hooks_net_register(void);
/* Adds the filters to the connection, or to the stream. */
void vl_hooks_net_add(conn_rec *c, conn_t *conn);
/* Returns 1 if the brigade has an end-of-request bucket. */
static inline int vl_hooks_ends_request(const apr_bucket_brigade *bb)
{
    const apr_bucket *b;

    for (b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb);
         b = APR_BUCKET_NEXT(b)) {
        if (AP_BUCKET_IS_EOR(b))
            return 1;
    }
    return 0;
}

#endif
