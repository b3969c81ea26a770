/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONTROL_INT_H
#define VL_CONTROL_INT_H

/* Between the control socket (vl_control.c) and what is done there
 * (vl_control_answer.c). */

#include "cgroup/vl_cgroup.h"
#include "base/vl_out.h"
#include "core/vl_shm.h"

void vl_control_answer_post_config(server_rec *main_server, vl_shm_t *shm,
                                   const vl_cgroup_t *cg);
/* Does what the line says, in the parent: a document like ?json of the status
 * page, that of vl_modules.h, or {"error":"why not"}. */
void vl_control_answer(const char *line, apr_size_t len, vl_out_t *out);

#endif
