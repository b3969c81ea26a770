/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_VHOSTMAP_H
#define VL_VHOSTMAP_H

/* Cache of (address a client connected to, host that it asks for) -> server, as Apache
 * maps it: the answer is Apache's own for a scratch request.
 * Owns the cache and its lock, which is taken inside; any thread may call. */

#include <apr_network_io.h>
#include <httpd.h>

typedef struct vl_vhostmap_t vl_vhostmap_t;

/* Child. */
vl_vhostmap_t *vl_vhostmap_child_init(apr_pool_t *pchild);

/* host "": the default server of the address. */
const server_rec *vl_vhostmap_find(vl_vhostmap_t *map, server_rec *main_server,
                                   apr_sockaddr_t *local, const char *host);

#endif
