/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONTROL_H
#define VL_CONTROL_H

/* The control socket in the runtime directory.  vhostlimitctl sends one line (vl_command.h)
 * and reads one JSON document.  A thread of the parent serves the socket, with the rights
 * of the parent and with any MPM.  Only root and the user that started the server may
 * connect.  The main thread calls the functions below; vl_control.c describes its lock. */

#include <httpd.h>

#include "cgroup/vl_cgroup.h"
#include "config/vl_plans.h"
#include "core/vl_shm.h"

#define VL_CONTROL_SOCKET "vhostlimit.sock"

/* State that survives restarts, initially all zero: the socket and its name. */
typedef struct vl_control_kept_t {
    int made;                   /* 1: the socket exists */
    int fd;
    char path[108];             /* size of sun_path in struct sockaddr_un */
} vl_control_kept_t;

/* Parent: creates the socket and starts the thread.  Must run last in post_config, when all
 * other state of the parent is set. */
void vl_control_post_config(apr_pool_t *pconf, server_rec *main_server,
                            vl_control_kept_t *kept, vl_shm_t *shm,
                            const vl_cgroup_t *cg, vl_plans_kept_t *plans);
/* Child process: closes the inherited descriptors. */
void vl_control_child_init(void);

#endif
