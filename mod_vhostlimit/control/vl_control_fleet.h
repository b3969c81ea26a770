/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONTROL_FLEET_H
#define VL_CONTROL_FLEET_H

/* The answers to the commands of vhostlimit-fleet. The daemon asks once a second, so they
 * are short. No lock. */

#include "base/vl_out.h"
#include "core/vl_shm.h"

/* The answer to "fleet": active sites, or all, as arrays of name, account, weight, CPU cap,
 * concurrency, charged_us, backlog_us and requests (vl_fleet.h). */
void vl_control_fleet_json(vl_out_t *out, vl_shm_t *shm, int all);

/* The answer to "lease". */
void vl_control_leased_json(vl_out_t *out, apr_size_t n);

#endif
