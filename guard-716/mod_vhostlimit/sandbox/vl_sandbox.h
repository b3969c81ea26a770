/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SANDBOX_H
#define VL_SANDBOX_H

/* The sandbox of a site: what its programs see.  The parent process makes it while it reads
 * the configuration.  A process that a request's thread forks to execute a program (mod_cgi,
 * mod_include, mod_ext_filter) enters it between fork and exec, through a handler of
 * pthread_atfork().  If that fails, the program is not executed.
 *
 * FILES   Landlock and the filter of system calls.
 * FULL    namespaces of the site, the filter, and Landlock against abstract sockets and TCP.
 *
 * No lock: the parent writes while it has one thread; later the struct is constant. */

#include <apr_errno.h>
#include <apr_pools.h>
#include <apr_tables.h>
#include <sys/types.h>

#include "sandbox/vl_rule.h"

typedef enum { VL_SANDBOX_OFF, VL_SANDBOX_FILES, VL_SANDBOX_FULL } vl_sandbox_e;

typedef struct vl_sandbox_t vl_sandbox_t;
/* Namespaces that outlive restarts.  The memory belongs to the caller's pool. */
typedef struct vl_sandbox_kept_t vl_sandbox_kept_t;

/* Returns "off", "files" or "full". */
const char *vl_sandbox_mode_name(vl_sandbox_e mode);
/* Returns NULL if this system can make such a sandbox, else why not. */
const char *vl_sandbox_lacks(vl_sandbox_e mode);
/* Returns NULL if such a sandbox has all its parts here, else what it does not refuse. */
const char *vl_sandbox_weakness(vl_sandbox_e mode);

/* Returns NULL if such a sandbox can refuse here what *connect does not allow, else why not. */
const char *vl_sandbox_cannot_connect(vl_sandbox_e mode, const vl_connect_t *connect);

/* Parent: begins with the sandboxes of a new configuration.  *kept: NULL at the first start;
 * p_kept outlives restarts. */
void vl_sandbox_begin(apr_pool_t *p, apr_pool_t *p_kept, vl_sandbox_kept_t **kept);

/* Parent: makes the sandbox of a site.  The namespaces of the previous configuration are
 * used again if name, user and rules are the same.  rules: of vl_rule_t, sorted by path.
 * Returns NULL, or an error message allocated in p. */
const char *vl_sandbox_make(apr_pool_t *p, vl_sandbox_kept_t *kept, const char *name,
                            vl_sandbox_e mode, const apr_array_header_t *rules,
                            const vl_connect_t *connect, uid_t user, gid_t group,
                            vl_sandbox_t **ret_sandbox);

/* A sandbox that no program can enter: none is started. */
vl_sandbox_t *vl_sandbox_refusing(apr_pool_t *p);

/* Parent: gives up namespaces that the new configuration has not asked for.  They end with the
 * last child process of the old configuration. */
void vl_sandbox_end(vl_sandbox_kept_t *kept);
/* Parent, when the server exits: gives up all, and waits up to a second until the keepers
 * have ended. */
void vl_sandbox_exit(vl_sandbox_kept_t *kept);

/* Child process: from now on processes that the calling thread forks enter the sandbox.
 * NULL: they do not. */
void vl_sandbox_fork_for(const vl_sandbox_t *sandbox);

/* Child process, after vl_sandbox_fork_for(): when p is cleared, waits up to 5 ms for the end of
 * the process that the thread forks next.  mod_cgi clears p at the end of a program's output.
 * A process that has not ended then gets SIGTERM from APR, which looks again after 46 ms.  A
 * process in a sandbox ends a little later after its output than others. */
void vl_sandbox_await_end(apr_pool_t *p);

#endif
