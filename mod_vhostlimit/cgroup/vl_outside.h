/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_OUTSIDE_H
#define VL_OUTSIDE_H

/* Detects modules (mod_cgid, mod_fcgid) that start programs from a process of their own.
 * That process does not know the vhost of a program, so the program is in no vhost's group
 * (docs/design/004-cgroups.md).  The file keeps no state and needs no lock. */

#include <httpd.h>

#include "cgroup/vl_cgroup.h"

/* Returns the name of such a module that is loaded; "" if none is loaded or there is no
 * cgroup tree. */
const char *vl_outside(const vl_cgroup_t *cg);

/* Parent, after each (re)configuration: logs a notice if such a module is loaded. */
void vl_outside_post_config(server_rec *main_server, const vl_cgroup_t *cg);

#endif
