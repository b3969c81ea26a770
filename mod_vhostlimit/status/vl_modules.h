/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_MODULES_H
#define VL_MODULES_H

/* Facts about the loaded modules of httpd. The lists of modules and hooks do not change after
 * post_config, so the functions need no lock. */

#include <httpd.h>

#include "base/vl_out.h"
#include "cgroup/vl_cgroup.h"

/* Writes {"modules":[...],"hooks":{"post_read_request":[...],...},"no_worker":...}, for "vhostlimitctl
 * doctor". A module is named by its source file. The modules of a hook are in the order of
 * the calls. */
void vl_modules_json(vl_out_t *out);

/* mod_cgid and mod_fcgid start programs from a process of their own. That process does not
 * know the vhost of a program, so the program is in no vhost's group
 * (docs/design/004-cgroups.md). Returns the name of such a module that is loaded; "" if none
 * is loaded or there is no cgroup tree. */
const char *vl_modules_outside(const vl_cgroup_t *cg);
/* Parent, after each (re)configuration: logs a notice if such a module is loaded. */
void vl_modules_post_config(server_rec *main_server, const vl_cgroup_t *cg);

#endif
