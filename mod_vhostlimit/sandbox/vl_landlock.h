/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LANDLOCK_H
#define VL_LANDLOCK_H

/* Landlock: a process gives up rights for itself and for all programs that it starts.  The
 * parent process makes the rulesets and keeps them open, close-on-exec.  A process that was
 * forked to execute a program applies one with a system call.  No state and no lock. */

#include <apr_errno.h>
#include <apr_pools.h>
#include <apr_tables.h>

#include "sandbox/vl_rule.h"

/* The versions that can refuse TCP by port (Linux 6.7), and Unix sockets by path (Linux 7.1). */
#define VL_LANDLOCK_PORTS 4
#define VL_LANDLOCK_UNIX 9
/* The version that can refuse abstract sockets and signals (Linux 6.12). */
#define VL_LANDLOCK_SCOPES 6

/* Returns the version of Landlock's interface in the running kernel; 0: there is none. */
int vl_landlock_version(void);

/* Makes a ruleset that refuses, where the kernel can, abstract sockets of processes outside, and TCP
 * that *connect does not allow.  With vl_rule_t *rules also what these do not allow, and signals to
 * processes outside; paths that do not exist are left out.  Without rules *ret_fd is -1 if the kernel cannot.  The
 * descriptor is closed when p is cleared.  On an error *ret_path is the path of the rule, or "". */
apr_status_t vl_landlock_make(apr_pool_t *p, const apr_array_header_t *rules,
                              const vl_connect_t *connect, int *ret_fd, const char **ret_path);

/* Applies the ruleset to the calling process, which must have set PR_SET_NO_NEW_PRIVS.
 * Returns 0, or -1 and errno.  Makes one system call. */
int vl_landlock_enter(int fd);

#endif
