/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_WORKERS_H
#define VL_WORKERS_H

/* The site that has most running requests when httpd logs that it has no free worker (AH00484
 * and its like).  The error_log hook of the parent's main thread finds it.  Each message is
 * logged once until the next restart, which also forgets it here. */

#include <httpd.h>

#include "base/vl_out.h"
#include "core/vl_shm.h"

void vl_workers_register(void);
/* Parent. sites: from vl_sites_servers(). */
void vl_workers_post_config(const server_rec *main_server, const apr_array_header_t *sites, vl_shm_t *shm);
/* Control thread: writes the last message and its site, or null. */
void vl_workers_json(vl_out_t *out);

#endif
