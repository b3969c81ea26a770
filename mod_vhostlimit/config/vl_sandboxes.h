/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SANDBOXES_H
#define VL_SANDBOXES_H

/* The sandboxes of the sites: the rules of VhostLimitSandbox and VhostLimitSandboxPath, those
 * that a site has by default, and what cannot be together.  Main thread of the parent,
 * while it reads the configuration. */

#include <httpd.h>

#include "config/vl_sites.h"
#include "sandbox/vl_rule.h"
#include "sandbox/vl_sandbox.h"

/* In check_config, after vl_conf_check(): logs what stands against the sandboxes that are
 * configured.  Returns APR_SUCCESS if the server may start. */
apr_status_t vl_sandboxes_check(apr_pool_t *ptemp, server_rec *main_server);

/* In post_config: makes the sandboxes and sets conf->programs of all servers.  *kept: see
 * vl_sandbox_begin().  Returns APR_EGENERAL if the server must not start. */
apr_status_t vl_sandboxes_make(apr_pool_t *p, server_rec *main_server,
                               vl_sandbox_kept_t **kept, int is_restart);

/* Parent, after vl_sandboxes_make(); the control thread calls it, without a lock.  Returns the
 * rules of the site, an array of vl_rule_t that is sorted by path, and its VhostLimitSandbox.
 * With Off they are those that Full would have, without the folders of ScriptAlias.  They are
 * made by this call, which looks at the site's files. */
const apr_array_header_t *vl_sandboxes_rules(apr_pool_t *p, server_rec *main_server,
                                             const vl_site_t *site, vl_sandbox_e *ret_mode);

#endif
