/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONTROL_INT_H
#define VL_CONTROL_INT_H

/* Private to vl_control.c, which serves the control socket, and vl_control_answer.c, which
 * executes the commands.  The control thread calls vl_control_answer() with the fork lock
 * of vl_control.c held. */

#include "cgroup/vl_cgroup.h"
#include "base/vl_out.h"
#include "core/vl_shm.h"

/* Parent: sets the data that commands read and change. */
void vl_control_answer_post_config(server_rec *main_server, vl_shm_t *shm,
                                   const vl_cgroup_t *cg);
/* Executes the command in the line and writes a JSON document: that of the status page with
 * ?json, that of vl_modules.h, that of vl_control_fleet.h, or {"error":"message"}. */
void vl_control_answer(const char *line, apr_size_t len, vl_out_t *out);

/* Ends the leases of vhostlimit-fleet if they are due, and logs it. Returns when they will
 * be due (vl_clock_us()); 0: there are none. The control thread calls it with the fork lock
 * held. */
apr_int64_t vl_control_expire(apr_int64_t now_us);

#endif
