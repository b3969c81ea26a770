/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_RETURN_H
#define VL_RETURN_H

/* Taking a connection back from the MPM when its request has been answered. */

#include <httpd.h>
#include <util_filter.h>

#include "vl_arrival.h"

/* 1: nothing is left to do for the connection but to wait, for its next request
 * (for idle_us) or for the client to close, and it does so with us: the MPM is
 * to be told that the client has gone.  0: it stays with the MPM.  bb: an empty
 * brigade of the connection's. */
int vl_return(conn_rec *c, vl_visit_t *visit, apr_int64_t idle_us,
              apr_bucket_brigade *bb);

#endif
