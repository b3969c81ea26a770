/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_H
#define VL_CGROUP_H

/* The cgroup tree: a root of ours and below it one group per account, for its
 * back ends.  Beside them ".server" holds Apache itself, and each account has a
 * group for the threads that work for it; docs/design/004-cgroups.md says where
 * and why.  Parent only, while the configuration is read and when the server
 * ends, but for the paths. */

#include <apr_errno.h>
#include <apr_pools.h>

#include "cgroup/vl_cgroup_value.h"

typedef struct vl_cgroup_t vl_cgroup_t;

/* "auto": "vhostlimit" below the group the server was started in; "off": none;
 * else a path from the root of the hierarchy, e.g. "/web/vhosts".
 * needs: vl_cgroup_needs() of all accounts together.  old: the tree until now,
 * or NULL.  Never fails: where no tree can be made the backend is "off" and
 * says why. */
vl_cgroup_t *vl_cgroup_open(const char *setting, unsigned needs,
                            const vl_cgroup_t *old);

/* The controller that these limits need and that is not to be had, as
 * "the memory controller is missing: ..."; NULL: none.  Allocated in p. */
const char *vl_cgroup_missing(const vl_cgroup_t *cg, apr_pool_t *p,
                              const vl_cgroup_limits_t *limits);

/* Makes the account's groups, or keeps them if they are there, and sets the
 * limits as far as the kernel can.  Any status but APR_SUCCESS: see
 * vl_cgroup_reason(). */
apr_status_t vl_cgroup_add(vl_cgroup_t *cg, const char *account,
                           const vl_cgroup_limits_t *limits);

/* Sets weight and quota of the account's groups anew.  NULL, or why not. */
const char *vl_cgroup_change(const vl_cgroup_t *cg, apr_pool_t *p,
                             const char *account,
                             const vl_cgroup_limits_t *limits);

/* Removes the groups that were added to `old` and not to `cg` (NULL: all of
 * them), then old's root if cg has another, and old itself.  A group with members,
 * or with groups of somebody else below it, stays: cg remembers it, and this tries
 * again when cg is the old one. */
void vl_cgroup_remove_gone(vl_cgroup_t *old, vl_cgroup_t *cg);

/* The file of the tree's weight, and what to write there (vl_yield.h). NULL: there is
 * no tree with CPU shares. */
const char *vl_cgroup_weight_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                  const char **ret_heavy, const char **ret_light);

/* "v1"; "v2"; "hybrid": cpu in a v1 hierarchy and a v2 tree beside it; "off". */
const char *vl_cgroup_backend(const vl_cgroup_t *cg);
/* Path of the tree's root from the hierarchy's, "" when off. */
const char *vl_cgroup_path(const vl_cgroup_t *cg);
/* Why the backend is off, or what went wrong last; "" when nothing did. */
const char *vl_cgroup_reason(const vl_cgroup_t *cg);
/* Path of an account's group, "" when off.  Allocated in p. */
const char *vl_cgroup_account_path(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *account);

/* Files, by their full names; any process may ask.  NULL: there is none. */

/* Into which a thread writes itself ("0") to work for the account; account
 * NULL: to be the server's again. */
const char *vl_cgroup_thread_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                  const char *account);
/* Into which a child process writes itself to be the account's back end; the
 * i-th of several, one for each hierarchy. */
const char *vl_cgroup_process_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *account, int i);
/* That tells the CPU time of the account's back ends.  ret_less: that of its
 * threads, when the first includes it; else NULL. */
const char *vl_cgroup_usage_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                 const char *account, const char **ret_less);

/* That tells, behind "oom_kill", how many of them the kernel has ended because
 * of VhostLimitMemory; NULL too when no vhost has that limit. */
const char *vl_cgroup_kills_file(const vl_cgroup_t *cg, apr_pool_t *p,
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
