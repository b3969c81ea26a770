/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HOOKS_H
#define VL_HOOKS_H

#include <httpd.h>

/*
 * The hooks of requests and of their connections. A request is counted for its site's
 * account after it has been read (post_read_request), and is counted no more when its work
 * is done. A request holds at most one slot.
 * The state of both is in vl_request.h; this file has none but the handles of filters.
 * mod_vhostlimit.c calls these functions when the module is loaded. httpd calls the hooks,
 * on the thread that works on the connection.
 */

/* Registers the hooks and filters. */
void vl_hooks_register(void);
/* Parent, in check_config: registers the hooks that only some configurations need. A hook that only
 * returns costs a request a thousandth of its instructions. */
void vl_hooks_check_config(server_rec *s);
/* Parent: finds the plain sites (vl_conf_t). */
void vl_hooks_post_config(server_rec *s);

#endif
