/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_OUTSIDE_H
#define VL_OUTSIDE_H

/* Modules that have their programs started by a process of their own, which
 * nothing tells for whom (docs/design/004-cgroups.md). */

#include <httpd.h>

#include "cgroup/vl_cgroup.h"

/* The name of one that is loaded, "" if none is or there is no tree. */
const char *vl_outside(const vl_cgroup_t *cg);

/* Parent, after each (re)configuration: says so in the log. */
void vl_outside_post_config(server_rec *main_server, const vl_cgroup_t *cg);

#endif
