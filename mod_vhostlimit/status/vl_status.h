/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_STATUS_H
#define VL_STATUS_H

/* The handler of "SetHandler vhostlimit-status".  It answers with ?json or ?prometheus, else with
 * a page in HTML whose script reads ?json.  With "me" (?me, ?me&json) the page has only the
 * site of the request.  docs/reference/status.md documents the keys.  The parent sets the state
 * in post_config; after that it is constant.  Any thread may serve a request; the segment
 * lock is taken for short times only, see vl_shm_snapshots(). */

#include <apr_tables.h>

#include "cgroup/vl_cgroup.h"
#include "core/vl_shm.h"

/* Registers the handler. */
void vl_status_register(apr_pool_t *p);
/* Parent, after each (re)configuration.  servers: an array of server_rec *, one server for
 * each account. */
void vl_status_post_config(const apr_array_header_t *servers, vl_shm_t *shm,
                           const vl_cgroup_t *cgroup);
/* Parent: a child process has died, with so many requests running. */
void vl_status_child_lost(apr_uint32_t running);

#endif
