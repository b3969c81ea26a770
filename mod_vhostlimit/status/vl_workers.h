/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WORKERS_H
#define VL_WORKERS_H

/* The site that has most running requests when httpd logs that it has no free worker (AH00484
 * and its like), or that the scoreboard is full.  The error_log hook of the parent's main thread
 * finds it.  httpd logs the former once in the life of the parent (maxclients_reported is in its
 * retained data), so what was found survives restarts. */

#include <httpd.h>

#include "base/vl_out.h"
#include "core/vl_shm.h"

/* The last such message and its site, initially all zero.  Survives restarts. */
typedef struct vl_workers_kept_t {
    unsigned message;           /* its number in vl_workers.c, written last; 0: there was none */
    apr_time_t at;
    char site[VL_NAME_SIZE];
    apr_uint64_t running, all;
} vl_workers_kept_t;

void vl_workers_register(void);
/* Parent. sites: vl_conf_t.sites. */
void vl_workers_post_config(vl_workers_kept_t *kept, const server_rec *main_server,
                            const apr_array_header_t *sites, vl_shm_t *shm);
/* Control thread: writes the last message and its site, or null. */
void vl_workers_json(vl_out_t *out);

#endif
