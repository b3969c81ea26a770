/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SHARING_H
#define VL_SHARING_H

/* VhostLimitClients, VhostLimitClass and VhostLimitKnown: the shares of clients inside a
 * site. Finds the class of a request, its client and whether the client is known, for the
 * order inside a site's queue (core/vl_fair.h).
 *
 * The address is that of the connection before a request exists, and afterwards the one of
 * the request (useragent_addr), which mod_remoteip takes from a header of trusted proxies.
 * account is the one that the request belongs to (vl_accounts_find()).
 * The settings belong to vl_conf_t. Only the parent writes them. No lock: any thread of a
 * child may call vl_sharing_identify() and vl_sharing_served(). */

#include <httpd.h>

#include "config/vl_conf.h"
#include "core/vl_shm.h"

/* Stores the weights of the server's classes, and the share of its known clients, with its
 * account. Parent, in post_config. */
void vl_sharing_post_config(const server_rec *s, vl_shm_t *shm);

/* Returns how many classes the site has, with the one of all other requests, which is class 0.
 * Returns 0 if it has no VhostLimitClass. */
int vl_sharing_classes(const vl_sharing_conf_t *conf);
/* Returns the name of a class. "other" is class 0, "removed" one that a graceful restart has
 * removed. */
const char *vl_sharing_class_name(const vl_sharing_conf_t *conf, unsigned class_no);

/* Finds the class, the client and the band of a request. r: the request, or NULL if only the
 * connection is known; then address is that of the connection. sent: see vl_seen.h. */
void vl_sharing_identify(vl_shm_t *shm, apr_uint32_t account, const server_rec *s,
                         request_rec *r, apr_table_t *sent, const apr_sockaddr_t *address,
                         vl_client_id_t *ret_id);
/* A request has been answered: the client becomes known if its site has no backlog. */
void vl_sharing_served(vl_shm_t *shm, apr_uint32_t account, const request_rec *r,
                       const vl_client_id_t *id);
/* VhostLimitKnown Cookie: chooses a cookie for a client that is not known, and takes the cookie
 * out of the request, so that the site does not see it. The client gets it with a response that
 * no shared cache may store. Called before the handler. */
void vl_sharing_cookie(vl_shm_t *shm, apr_uint32_t account, request_rec *r,
                       const vl_client_id_t *id);

/* Registers the filter of the cookie. */
void vl_sharing_register(void);

#endif
