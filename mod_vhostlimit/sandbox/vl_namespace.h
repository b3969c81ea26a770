/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_NAMESPACE_H
#define VL_NAMESPACE_H

/* The namespaces of a site: user, mount, PID and IPC.  The parent process makes them as root.
 * A process of the site's own, its keeper, is the first process of the PID namespace and
 * keeps the namespaces alive.  It is a shell that reads from a pipe and ends when all
 * processes have closed the other end: the parent, and the child processes that it forked
 * while the site had these namespaces.  So nothing is left behind when the server ends,
 * however it ends.
 *
 * The user namespace belongs to the server's User, so processes of that user need no
 * privilege to join.  It knows that user and group only.  The shell was executed in the user
 * namespace, so its memory holds nothing of the server's. */

#include <apr_errno.h>
#include <apr_pools.h>
#include <apr_tables.h>
#include <sys/types.h>

/* Plain descriptors, close-on-exec, that belong to the caller. */
typedef struct vl_namespace_t {
    int keeper;                 /* pidfd of the keeper */
    int life;                   /* pipe; the keeper ends when it is closed everywhere */
} vl_namespace_t;

/* Returns NULL if the kernel has what vl_namespace_make() needs, else what is missing. */
const char *vl_namespace_lacks(void);

/* Parent, as root, with one thread.  rules: of vl_rule_t, sorted by path.  Returns NULL, or an
 * error message allocated in p. */
const char *vl_namespace_make(apr_pool_t *p, const char *name, const apr_array_header_t *rules,
                              uid_t user, gid_t group, vl_namespace_t *ret_namespace);

/* Waits so long for the keeper's end.  Returns 1 if it has ended. */
int vl_namespace_has_ended(const vl_namespace_t *ns, int timeout_ms);
/* Parent: lets the keeper end, if no other process has the namespaces. */
void vl_namespace_release(vl_namespace_t *ns);
/* Parent: closes the descriptors. */
void vl_namespace_close(vl_namespace_t *ns);

/* Moves the calling process, which has one thread, into the namespaces.  Returns 0, or -1
 * and errno.  The caller goes on in a new process, a child of the one that was forked.  The
 * forked one stays outside of the PID namespace, has no descriptors, passes signals on and
 * ends with the same status.  Async-signal-safe. */
int vl_namespace_enter(const vl_namespace_t *ns);

#endif
