/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_VHOSTMAP_H
#define VL_VHOSTMAP_H

/* (address a client connected to, host it asks for) -> vhost, as Apache itself
 * maps it: the answer is Apache's, given to a scratch request and remembered. */

#include <apr_network_io.h>
#include <httpd.h>

typedef struct vl_vhostmap_t vl_vhostmap_t;

/* Child.  Any thread may use it. */
vl_vhostmap_t *vl_vhostmap_child_init(apr_pool_t *pchild);

/* host "": the default vhost of the address. */
const server_rec *vl_vhostmap_find(vl_vhostmap_t *map, server_rec *main_server,
                                   apr_sockaddr_t *local, const char *host);

#endif
