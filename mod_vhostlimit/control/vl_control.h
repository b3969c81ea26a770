/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONTROL_H
#define VL_CONTROL_H

/* The control socket, in the runtime directory: vhostlimitctl says one line
 * (vl_command.h) and reads one JSON document.  A thread of the parent serves
 * it, with the parent's rights and whatever the MPM is; nobody is heard but
 * root, and who started the server. */

#include <httpd.h>

#include "cgroup/vl_cgroup.h"
#include "core/vl_shm.h"

#define VL_CONTROL_SOCKET "vhostlimit.sock"

/* What outlives restarts, zeroed at first: the socket and its name. */
typedef struct vl_control_kept_t {
    int made;
    int fd;
    char path[108];             /* as long as a socket's may be */
} vl_control_kept_t;

/* Last, when nothing of the parent changes any more. */
void vl_control_post_config(apr_pool_t *pconf, server_rec *main_server,
                            vl_control_kept_t *kept, vl_shm_t *shm,
                            const vl_cgroup_t *cg);
/* A child has no part in it. */
void vl_control_child_init(void);

#endif
