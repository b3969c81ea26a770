/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LANDLOCK_H
#define VL_LANDLOCK_H

/* Landlock: a process gives up rights for itself and for all programs that it starts.  The
 * parent process makes the rulesets and keeps them open, close-on-exec.  A process that was
 * forked to execute a program applies one with a system call.  No state and no lock. */

#include <apr_errno.h>
#include <apr_pools.h>
#include <apr_tables.h>

/* The version that can refuse abstract sockets and signals (Linux 6.12). */
#define VL_LANDLOCK_SCOPES 6

/* Returns the version of Landlock's interface in the running kernel; 0: there is none. */
int vl_landlock_version(void);

/* Makes a ruleset of vl_rule_t *rules: files, and signals and abstract sockets of processes
 * outside where the kernel can.  Paths that do not exist are left out.  The descriptor is
 * closed when p is cleared.  On an error *ret_path is the path of the rule, or "". */
apr_status_t vl_landlock_files(apr_pool_t *p, const apr_array_header_t *rules, int *ret_fd,
                               const char **ret_path);

/* Makes a ruleset that only refuses abstract sockets of processes outside.  *ret_fd is -1 if
 * the kernel cannot. */
apr_status_t vl_landlock_sockets(apr_pool_t *p, int *ret_fd);

/* Applies the ruleset to the calling process, which must have set PR_SET_NO_NEW_PRIVS.
 * Returns 0, or -1 and errno.  Makes one system call. */
int vl_landlock_enter(int fd);

#endif
