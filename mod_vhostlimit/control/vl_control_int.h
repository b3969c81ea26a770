/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONTROL_INT_H
#define VL_CONTROL_INT_H

/* Private to vl_control.c, which serves the control socket, vl_control_answer.c, which
 * executes the commands, vl_control_change.c, which changes limits, vl_control_plans.c,
 * which shows and changes plans, and vl_control_sandbox.c, which shows sandboxes.  The
 * control thread calls these functions with the fork lock (vl_control_fork.h) held, if nothing
 * else is said. */

#include <httpd.h>

#include "base/vl_out.h"
#include "cgroup/vl_cgroup.h"
#include "config/vl_plans.h"
#include "core/vl_shm.h"

/* --- vl_control_answer.c --- */

/* Parent: sets the data that commands read and change. */
void vl_control_answer_post_config(server_rec *main_server, vl_shm_t *shm);
/* Returns the number of bytes that follow the line; 0: it is a complete command. */
apr_size_t vl_control_body(const char *line, apr_size_t len);
/* Executes the command in the line and writes a JSON document: that of the status page with
 * ?json, that of vl_modules.h, that of vl_control_fleet.h, or {"error":"message"}.  body:
 * what follows "bulk".  Returns the virtual host whose sandbox is the answer, which
 * vl_control_answer_sandbox() writes, or NULL. */
const server_rec *vl_control_answer(const char *line, apr_size_t len, char *body, vl_out_t *out);
/* Writes the sandbox of the virtual host's site.  The control thread calls it without the fork
 * lock, because it looks at the site's files. */
void vl_control_answer_sandbox(vl_out_t *out, const server_rec *s);
/* Ends the leases of vhostlimit-fleet if they are due, and logs it. Returns when they will
 * be due (vl_clock_us()); 0: there are none. The control thread calls it with the fork lock
 * held. */
apr_int64_t vl_control_leases_expire(apr_int64_t now_us);

/* --- vl_control_change.c --- */

/* The change of one site. */
typedef struct vl_job_t {
    const server_rec *s;            /* a virtual host of the site */
    vl_change_t change;
    vl_override_t before, after;    /* set by vl_control_change() */
} vl_job_t;

void vl_control_change_post_config(server_rec *main_server, vl_shm_t *shm,
                                   const vl_cgroup_t *cg);
/* Makes all changes or none: first in the cgroups, where the kernel may refuse one, then in
 * shared memory.  `why` is added to the log lines.  No two jobs are of one site.  Returns
 * NULL or an error message. */
const char *vl_control_change(apr_pool_t *p, vl_job_t *jobs, int n, const char *why);
/* Takes back the changes whose time is over.  Returns when the next one ends; 0: all
 * last. */
apr_int64_t vl_control_expire(apr_pool_t *p, apr_int64_t now_us);

/* --- vl_control_sandbox.c --- */

/* Writes the sandbox of the site of a virtual host: its mode, the user of the server's child
 * processes, and the rules.  Needs no lock. */
void vl_control_sandbox_json(vl_out_t *out, server_rec *main_server, const server_rec *s);

/* --- vl_control_owner.c --- */

/* Parent, main thread: finds the owners of the sites with VhostLimitOwner.  Returns 1 if there
 * is one. */
int vl_control_owner_post_config(server_rec *main_server, vl_shm_t *shm);
/* Executes "mine" of a user, and writes the sites that the user owns.  Returns 0, and writes
 * nothing, if the line is not such a command. */
int vl_control_owner_answer(const char *line, apr_size_t len, uid_t uid, vl_out_t *out);

/* --- vl_control_plans.c --- */

void vl_control_plans_post_config(server_rec *main_server, vl_plans_kept_t *kept);
/* Changes a plan, and with it all sites whose limits come from it, or nothing. */
const char *vl_control_plans_change(apr_pool_t *p, const char *name,
                                    const vl_change_t *change, const char *why);
/* As vl_control_expire(), for plans. */
apr_int64_t vl_control_plans_expire(apr_pool_t *p, apr_int64_t now_us);
/* Writes all plans, or the one of that name, as {"plans":[...]}. */
void vl_control_plans_json(vl_out_t *out, const char *name);

#endif
