/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_REMOTEIP_H
#define VL_REMOTEIP_H

/* The client's address behind a trusted proxy, before the connection is accepted. The trust
 * is that of mod_remoteip: its own hook is called with the scratch request, so its header,
 * proxies and exceptions apply as configured. Any thread of a child calls these functions. The
 * lock is held only while mod_remoteip looks whether a connection has a PROXY header. */

#include <httpd.h>

/* Parent, in post_config: finds mod_remoteip, its headers, and whether it expects PROXY headers. */
void vl_remoteip_post_config(apr_pool_t *pconf);
/* Returns 1 if mod_remoteip may take the address of a request from a header line. */
int vl_remoteip_is_used(void);
/* Lets mod_remoteip set r->useragent_addr of a scratch request (vl_scratch.h). Only the addresses
 * at the end of its list are left in, because mod_remoteip would look up the name before them. */
void vl_remoteip_apply(request_rec *r);
/* Returns 1 if mod_remoteip expects a PROXY header on the scratch connection. */
int vl_remoteip_expects_proxy_header(conn_rec *c);

#endif
