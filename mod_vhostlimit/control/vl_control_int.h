/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONTROL_INT_H
#define VL_CONTROL_INT_H

/* Private to the files control/vl_control*.c. The control thread calls these functions with the
 * fork lock held, if nothing else is said. */

#include <httpd.h>

#include "base/vl_out.h"
#include "cgroup/vl_cgroup.h"
#include "config/vl_plans.h"
#include "core/vl_shm.h"

/* --- vl_control_fork.c: the data of the control thread, and the fork lock of the parent --- */

/* What commands read and change. vl_control_post_config() sets it. */
extern server_rec *vl_control_server;
extern vl_shm_t *vl_control_shm;
extern const vl_cgroup_t *vl_control_cgroup;

/* The control thread holds the fork lock while it changes the list of clients or creates an answer,
 * and every thread of the parent does during fork(). */

/* Parent, in post_config. */
void vl_control_fork_post_config(void);
/* The control thread, when it begins. end_fd becomes readable when it must stop. */
void vl_control_fork_begin(int end_fd);
/* Child process: closes what it has inherited. */
void vl_control_fork_child_init(void);
void vl_control_fork_lock(void);
void vl_control_fork_unlock(void);

/* The control thread calls it before it writes a line to the error log.  It waits, without the fork
 * lock, until a piped log can take a line.  Returns 0 if the line must be left out, because the
 * server stops or restarts meanwhile. */
int vl_control_fork_may_log(void);

/* --- vl_control_answer.c --- */

/* Parent: makes the table of sites. */
void vl_control_answer_post_config(void);
/* Returns the number of bytes that follow the line; 0: it is a complete command. */
apr_size_t vl_control_body(const char *line, apr_size_t len);
/* Executes the command in the line and writes a JSON document: that of the status page with
 * ?json, that of vl_modules.h, one of vl_control_show.c, or {"error":"message"}.  body:
 * what follows "bulk".  Returns the virtual host whose sandbox is the answer, which
 * vl_control_sandbox_json() writes, or NULL. */
const server_rec *vl_control_answer(const char *line, apr_size_t len, char *body, vl_out_t *out);
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

void vl_control_change_post_config(vl_plans_kept_t *kept);
/* Makes all changes or none: first in the cgroups, where the kernel may refuse one, then in
 * shared memory.  `why` is added to the log lines.  No two jobs are of one site.  Returns
 * NULL or an error message. */
const char *vl_control_change(apr_pool_t *p, vl_job_t *jobs, int n, const char *why);
/* Changes a plan, and with it all sites whose limits come from it, or nothing. */
const char *vl_control_plans_change(apr_pool_t *p, const char *name,
                                    const vl_change_t *change, const char *why);
/* Takes back the changes of sites and plans whose time is over.  Returns when the next one ends;
 * 0: all last. */
apr_int64_t vl_control_expire(apr_pool_t *p, apr_int64_t now_us);
/* Writes all plans, or the one of that name, as {"plans":[...]}. */
void vl_control_plans_json(vl_out_t *out, const char *name);

/* --- vl_control_show.c --- */

/* The answer to "fleet": active sites, or all, as arrays of name, account, weight, CPU cap,
 * concurrency, charged_us, backlog_us and requests (vl_fleet.h). */
void vl_control_fleet_json(vl_out_t *out, int all);
/* The answer to "clients": the classes of a site, its clients that used most CPU time while
 * requests waited, and how much of the queue one of them has. Addresses are personal data: only
 * root can read the control socket, and the module writes them nowhere else. host: one host of
 * the site (VhostLimitAccounts Host), or NULL. No lock: the numbers need not be consistent. */
void vl_control_clients_json(vl_out_t *out, const server_rec *s, const char *host);
/* The answer to "sandbox", for programs that start outside of the server ("vhostlimitctl unit"):
 * its mode, the user of the server's child processes, and the rules. Needs no lock. */
void vl_control_sandbox_json(vl_out_t *out, const server_rec *s);

/* --- vl_control_owner.c --- */

/* Parent, main thread: finds the owners of the sites with VhostLimitOwner.  Returns 1 if there
 * is one. */
int vl_control_owner_post_config(void);
/* Executes "mine" of a user, and writes the sites that the user owns.  Returns 0, and writes
 * nothing, if the line is not such a command. */
int vl_control_owner_answer(const char *line, apr_size_t len, uid_t uid, vl_out_t *out);

#endif
