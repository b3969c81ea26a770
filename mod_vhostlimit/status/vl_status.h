/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_STATUS_H
#define VL_STATUS_H

/* SetHandler vhostlimit-status: HTML, ?auto (key: value), ?json, ?prometheus;
 * with "me" (?me, ?me&json) of the vhost alone that it is asked through.  The
 * keys are documented in docs/operating.md. */

#include <apr_tables.h>

#include "cgroup/vl_cgroup.h"
#include "core/vl_shm.h"

void vl_status_register(apr_pool_t *p);
/* Parent, after each (re)configuration.  servers: see vl_conf_servers(). */
void vl_status_post_config(const apr_array_header_t *servers, vl_shm_t *shm,
                           const vl_cgroup_t *cgroup);

#endif
