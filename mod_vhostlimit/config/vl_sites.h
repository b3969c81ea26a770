/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SITES_H
#define VL_SITES_H

/* A site is what shares and limits apply to: all virtual hosts of one ServerName, or of
 * one VhostLimitGroup.  Each site has one account in shared memory.  The reasons are in
 * docs/design/010-sites.md.  Main thread of the parent, while it reads the configuration;
 * after that the structs are constant, and any thread may read them without a lock. */

#include <apr_tables.h>
#include <httpd.h>

typedef struct vl_site_t {
    const char *name;           /* unique: the ServerName in lower case, "@" and the name
                                 * of the group, or the address of a virtual host without
                                 * ServerName */
    apr_array_header_t *vhosts; /* server_rec *, in the order of the configuration;
                                 * without the virtual hosts that say VhostLimit Off */
    apr_array_header_t *confs;  /* vl_site_conf_t *: sections of <VhostLimitSite> */
    const char *unenforced;     /* why the cgroup with the limits could not be made, set in
                                 * post_config; NULL: it was made */
} vl_site_t;

/* Finds the sites, sets conf->site of all servers, and gives a limit that one virtual host
 * of a site sets to the others.  Logs each site whose virtual hosts set different values,
 * and returns APR_EINVAL then.  p: pool of the configuration. */
apr_status_t vl_sites_find(apr_pool_t *p, apr_pool_t *ptemp,
                           server_rec *main_server);
/* Parent, after vl_sites_find(): logs sections of sites that the configuration does not have.
 * That is no error: a site may have been removed after vhostlimitctl has saved its limits. */
void vl_sites_report_unused(const server_rec *main_server);

/* Parent: sets conf->sites, after vl_sites_find() and when a site has been turned off. */
void vl_sites_list(apr_pool_t *p, const server_rec *main_server);

/* Returns an address of a virtual host as <VirtualHost> has it, such as "*:80". */
const char *vl_sites_address(apr_pool_t *p, const server_addr_rec *address);

#endif
