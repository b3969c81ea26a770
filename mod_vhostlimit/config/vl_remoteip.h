/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_REMOTEIP_H
#define VL_REMOTEIP_H

/* The client's address behind a trusted proxy, before the connection is accepted. The trust
 * is that of mod_remoteip: its own hook is called with the scratch request, so its header,
 * proxies and exceptions apply as configured. No lock: any thread of a child. */

#include <httpd.h>

/* Parent, in post_config: finds mod_remoteip, and whether it expects PROXY headers. */
void vl_remoteip_post_config(void);
/* Returns 1 if mod_remoteip is loaded, and may change the address of a request. */
int vl_remoteip_is_used(void);
/* Lets mod_remoteip set r->useragent_addr of a scratch request (vl_scratch.h). Header fields
 * that are no lists of addresses are left out, because names would be looked up. */
void vl_remoteip_apply(request_rec *r);
/* Returns 1 if some server has RemoteIPProxyProtocol On. */
int vl_remoteip_expects_proxy_header(void);

#endif
