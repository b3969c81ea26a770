/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SECCOMP_H
#define VL_SECCOMP_H

/* The filter of system calls.  It refuses with EPERM what a program
 * of a site has no use for and what has led out of sandboxes before: mounts, namespaces,
 * ptrace, kernel modules, keys, BPF, raw sockets and the like.  libseccomp compiles it in the
 * parent process; a process that was forked to execute a program loads it with a system
 * call. */

#include <apr_errno.h>
#include <apr_pools.h>

#include "sandbox/vl_rule.h"

typedef struct vl_seccomp_t vl_seccomp_t;

/* Returns 1 if the module is built with libseccomp. */
int vl_seccomp_built(void);

/* Compiles the filter for sites with such limits of connections.  It allows no sockets that
 * nothing in *connect needs; Landlock refuses ports and paths.  *ret_filter is NULL if the module is built without libseccomp. */
apr_status_t vl_seccomp_make(apr_pool_t *p, const vl_connect_t *connect,
                             const vl_seccomp_t **ret_filter);

/* Loads the filter into the calling process, which must have set PR_SET_NO_NEW_PRIVS.
 * Returns 0, or -1 and errno.  Makes one system call. */
int vl_seccomp_enter(const vl_seccomp_t *filter);

#endif
