/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_H
#define VL_CGROUP_H

/* The cgroup tree: a root of ours and below it one group per account.  Parent
 * only, while the configuration is read and when the server ends; libcgroup
 * reads the mounts again at every call, so the request path never comes here.
 * The only room that includes <libcgroup.h>. */

#include <apr_errno.h>
#include <apr_pools.h>

typedef struct vl_cgroup_t vl_cgroup_t;

/* "auto": "vhostlimit" below the group the server itself runs in; "off": none;
 * else a path from the root of the hierarchy, e.g. "/web/vhosts".
 * Never fails: where no tree can be made the backend is "off" and says why. */
vl_cgroup_t *vl_cgroup_open(apr_pool_t *p, const char *setting);

/* Makes the account's group, or keeps it if it is there.  Any status but
 * APR_SUCCESS: see vl_cgroup_reason(). */
apr_status_t vl_cgroup_add(vl_cgroup_t *cg, const char *account);

/* Removes the groups that were added to `old` and not to `cg` (NULL: all of
 * them), then old's root.  A group with members or with groups of somebody
 * else below it stays. */
void vl_cgroup_remove_gone(vl_cgroup_t *old, const vl_cgroup_t *cg);

/* "v1"; "v2"; "hybrid": cpu in a v1 hierarchy and a v2 tree beside it; "off". */
const char *vl_cgroup_backend(const vl_cgroup_t *cg);
/* Path of the tree's root from the hierarchy's, "" when off. */
const char *vl_cgroup_path(const vl_cgroup_t *cg);
/* Why the backend is off, or what went wrong last; "" when nothing did. */
const char *vl_cgroup_reason(const vl_cgroup_t *cg);
/* Path of an account's group, "" when off.  Allocated in p. */
const char *vl_cgroup_account_path(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *account);

/* Pure helpers, here for their tests. */

/* The group's path in a text like /proc/self/cgroup: of `controller` in v1, of
 * the v2 tree when controller is "".  NULL if there is none. */
const char *vl_cgroup_parse_self(apr_pool_t *p, const char *text,
                                 const char *controller);
/* A file name for an account: bytes other than letters, digits and ". - _ :"
 * become '_', and so does a leading '.'. */
const char *vl_cgroup_file_name(apr_pool_t *p, const char *account);

#endif
