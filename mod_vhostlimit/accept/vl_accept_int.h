/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_ACCEPT_INT_H
#define VL_ACCEPT_INT_H

/* For the files of this room only: vl_accept.c waits for events and accepts,
 * vl_accept_share.c shares the work with other children. */

#include <pthread.h>

#include <apr_thread_proc.h>

#include "accept/vl_accept.h"
#include "accept/vl_listener.h"

typedef struct acceptor_t {
    vl_shm_t *shm;
    int epoll_fd;
    vl_listeners_t listeners;
    int relays;                     /* to the other children: the prefork MPM */
    const sigset_t *signals;        /* its mask while it sleeps, or NULL */
    int not_listening;                       /* no listener is in the set, for a while */
    int no_room;                    /* for those who were handed on */
    apr_uint32_t ended;             /* requests of this child, at the last tick */
    const int *handover;
    const int *relay;
    const char *pid_file;
    server_rec *main_server;
    apr_uint32_t most;
    vl_usage_t *usage;
    int reads;                      /* it, for all children */
    apr_thread_t *thread;
    pthread_mutex_t set_up;         /* it begins when it gets this */
    int ending;                     /* atomic: the thread is to stop */
} acceptor_t;

extern acceptor_t *vl_acceptor;     /* of this child */

/* No newcomers, until vl_accept_resume_listening(). */
void vl_accept_stop_listening(void);
void vl_accept_resume_listening(void);
/* The process ends. */
int vl_accept_is_ending(void);
/* Until a tick is due, at most. */
void vl_accept_wait_for_events(void);

void vl_accept_adopt(void);
/* stuck: the MPM takes nobody. */
void vl_accept_balance(int stuck);
/* The thread that accepts does nothing after it. */
void vl_accept_leave(void);
/* vl_watchdog_start()'s. */
void vl_accept_stand_in(apr_int64_t now_us);
/* The acceptor's thread is gone. */
void vl_accept_transfer_unbegun(void);

#endif
