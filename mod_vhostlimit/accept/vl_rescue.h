/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_RESCUE_H
#define VL_RESCUE_H

/* Connections of a child process that dies.
 *
 * A child process that crashes or is killed would take every connection that is queued in it
 * along. So each acceptor has a rescue process: a clone that shares its table of descriptors
 * (CLONE_FILES in clone(2)) and not its memory. It sleeps. When the child process has died,
 * the descriptors are still open in it, and it transfers those of which nothing has been read
 * to the other child processes (vl_transfer.h). A connection costs a few stores to memory
 * that both processes share, and no system call.
 *
 * The connection that the acceptor was classifying is not rescued, because it may be the
 * cause of the crash. "httpd -X" has no other child process and no rescue process.
 *
 * This file owns the notes about descriptors. Invariant: a descriptor is noted only while it
 * is open here and none of its bytes have been read.
 * The lock is vl_waiters_lock(). The callers, vl_acceptor.c and vl_newconn.c, hold it, except
 * for a descriptor that has no record yet. vl_acceptor.c starts the process. */

#include "accept/vl_transfer.h"

/* Starts the rescue process of this child process. It ends when the child has ended. A
 * failure is logged: the child then works without it. Called by the child's main thread,
 * whose end is the end of the child. */
void vl_rescue_child_init(void);
/* Acceptor: start the process, unless it runs, and end it. */
void vl_rescue_start(void);
void vl_rescue_stop(void);
int vl_rescue_runs(void);

/* Notes that the connection is to be rescued, and what is known of it. */
void vl_rescue_note(int fd, const vl_passed_t *passed);
/* Removes the note, if there is one. Called before the descriptor is read from or closed. */
void vl_rescue_forget(int fd);

#endif
