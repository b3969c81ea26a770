/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONTROL_FORK_H
#define VL_CONTROL_FORK_H

/* The fork lock of the parent, and the moments at which the control thread releases it.
 * Owns the lock and the descriptor of the limit that is being written.
 * The control thread holds the lock while it changes the list of clients or creates an answer, and
 * every thread of the parent does during fork(). Callers: vl_control*.c. */

#include <httpd.h>

/* Parent, in post_config. */
void vl_control_fork_post_config(server_rec *main_server);
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

#endif
