/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_H
#define VL_CGROUP_H

/* The cgroup tree of the module.  Below its root each account has one group for its back
 * ends, and the group ".server" holds Apache itself.  Each account also has a group for
 * the server threads that work for it; docs/design/004-cgroups.md says where and why.
 * Only the parent creates, changes and removes groups: its main thread while it reads the
 * configuration and when the server exits, the control thread in vl_cgroup_change().
 * There is no lock.  The functions that return paths and names only read the struct, and
 * any process may call them. */

#include <apr_errno.h>
#include <apr_pools.h>

#include "cgroup/vl_cgroup_value.h"

/* Name of the rescue processes (vl_rescue.h), by which they are told from programs of the
 * sites. */
#define VL_RESCUE_NAME "vl-rescue"

typedef struct vl_cgroup_t vl_cgroup_t;

/* Creates the tree.  setting: "auto" is the group "vhostlimit" below the group in which the
 * server was started; "off" is no tree; any other value is a path from the root of the
 * hierarchy, such as "/web/vhosts".  needs: vl_cgroup_needs() of all accounts combined.
 * old: the tree of the previous configuration, or NULL.  Never returns NULL: if the tree
 * cannot be created, the backend is "off" and vl_cgroup_reason() tells why. */
vl_cgroup_t *vl_cgroup_open(const char *setting, unsigned needs,
                            const vl_cgroup_t *old);

/* Returns what vl_cgroup_open() would find, as far as this can be known without any change:
 * which controllers exist, and whether the root of the tree could be created.  For
 * vl_cgroup_missing() only; never NULL.  Allocated in p. */
vl_cgroup_t *vl_cgroup_probe(apr_pool_t *p, const char *setting, unsigned needs);

/* Returns NULL if all controllers that the limits need are available, else a message such
 * as "the memory controller is missing: ...", allocated in p. */
const char *vl_cgroup_missing(const vl_cgroup_t *cg, apr_pool_t *p,
                              const vl_cgroup_limits_t *limits);

/* Creates the account's groups unless they exist, and sets the limits for which controllers
 * are available.  Makes no system call if the previous tree has the same.  On any status other than APR_SUCCESS vl_cgroup_reason() tells why. */
apr_status_t vl_cgroup_add(vl_cgroup_t *cg, const char *account,
                           const vl_cgroup_limits_t *limits);

/* Changes the limits of the account's groups from `before` to `limits`: writes the files of
 * the controllers for which they differ.  Returns NULL or an error message; then some
 * files may be written. */
const char *vl_cgroup_change(const vl_cgroup_t *cg, apr_pool_t *p,
                             const char *account,
                             const vl_cgroup_limits_t *before,
                             const vl_cgroup_limits_t *limits);

/* Removes the groups that were added to `old` and not to `cg`; all of them if cg is NULL.
 * Then removes the root of `old` if cg has another root, and frees `old`.  If `old` is NULL,
 * removes those that an earlier server has left and that were not added to cg.  A group stays
 * if it has members, or child groups that another program has created.  cg records such a
 * group, and the next call, with this cg as `old`, tries again. */
void vl_cgroup_remove_gone(vl_cgroup_t *old, vl_cgroup_t *cg);

/* Returns "v1", "v2", "hybrid" (the cpu controller in a v1 hierarchy, and a v2 tree is
 * mounted too) or "off". */
const char *vl_cgroup_backend(const vl_cgroup_t *cg);
/* Returns the path of the tree's root from the root of the hierarchy, "" when off. */
const char *vl_cgroup_path(const vl_cgroup_t *cg);
/* Returns why the backend is off, or the last error; "" if there was none. */
const char *vl_cgroup_reason(const vl_cgroup_t *cg);
/* Returns the path of the account's group, "" when off.  Allocated in p. */
const char *vl_cgroup_account_path(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *account);

/* The following functions return the full name of a file, allocated in p, or NULL if there
 * is no such file.  Any process may call them. */

/* A thread that writes "0" to this file moves to the account's group for threads, or, if
 * account is NULL, back to the group of the server. */
const char *vl_cgroup_thread_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                  const char *account);
/* A process that writes "0" to this file becomes a back end of the account.  There is one
 * file for each hierarchy; i counts from 0. */
const char *vl_cgroup_process_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *account, int i);
/* The file in which the field "oom_kill" counts the back-end processes that the kernel
 * has killed because of VhostLimitMemory.  NULL also if no vhost has that limit. */
const char *vl_cgroup_kills_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                 const char *account);

/* Helpers without side effects, exported for their unit tests. */

/* Returns the path of the group in a text like /proc/self/cgroup: the v1 group of
 * `controller`, or the v2 group if controller is "".  NULL: the text has no such line. */
const char *vl_cgroup_parse_self(apr_pool_t *p, const char *text,
                                 const char *controller);
/* Returns the file name of an account: bytes other than letters, digits and ". - _ :" are
 * replaced by '_', and so is a leading '.'. */
const char *vl_cgroup_file_name(apr_pool_t *p, const char *account);

#endif
