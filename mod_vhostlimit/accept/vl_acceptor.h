/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ACCEPTOR_H
#define VL_ACCEPTOR_H

/* Internal to vl_accept*.c: the acceptor of this child process. vl_accept.c waits for
 * events and accepts connections; vl_acceptor.c exchanges connections with other
 * children.
 * Only the acceptor's thread uses acceptor_t once it runs. The exceptions are
 * `stopping`, which is atomic, and what vl_accept_stand_in() and
 * vl_accept_transfer_unbegun() need. */

#include <pthread.h>

#include <apr_thread_proc.h>

#include "accept/vl_accept.h"
#include "accept/vl_child.h"
#include "accept/vl_listener.h"

typedef struct acceptor_t {
    int epoll_fd;
    vl_listeners_t listeners;
    int is_prefork;                 /* the acceptor of the prefork MPM, for all children */
    const sigset_t *signals;        /* signal mask while it sleeps, or NULL */
    int not_listening;              /* no listener is in the epoll set */
    int no_descriptors;             /* none left for connections from other children */
    apr_uint32_t ended_requests;    /* requests that had ended here at the last tick */
    const char *pid_file;
    int reads_usage;                /* this child reads the CPU usage for all children */
    apr_thread_t *thread;
    pthread_mutex_t may_begin;      /* the thread starts to accept when it gets this */
    int stopping;                   /* atomic: the thread is to stop */
} acceptor_t;

extern acceptor_t *vl_acceptor;     /* one for each child process */

/* Stops accepting connections until vl_accept_resume_listening(). */
void vl_accept_stop_listening(void);
void vl_accept_resume_listening(void);
/* Returns 1 if the child process ends. */
int vl_accept_is_ending(void);
/* Handles the events of one epoll_pwait(), which lasts until the next tick at most. */
void vl_accept_wait_for_events(void);

/* Receives the connections that other children have transferred. */
void vl_accept_adopt(void);
/* Called at each tick. Shares connections with other children. mpm_stalled: the MPM
 * takes no connections. */
void vl_accept_balance(int mpm_stalled);
/* Called when the MPM has closed its listeners; the last thing the acceptor does. It
 * closes the real listeners, and transfers or answers the connections here, in at most
 * 3 s. Then it returns; where leases are granted it does when the child ends. */
void vl_accept_leave(void);
/* The callback of vl_watchdog_start(). */
void vl_accept_stand_in(apr_int64_t now_us);
/* Transfers connections that the MPM took and no worker has begun. The acceptor's
 * thread and the MPM's threads have ended. */
void vl_accept_transfer_unbegun(void);

#endif
