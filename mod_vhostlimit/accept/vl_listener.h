/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LISTENER_H
#define VL_LISTENER_H

/* The listening sockets of Apache: the acceptor (vl_acceptor.h) gets the real ones, and
 * the MPM gets a placeholder for each.
 * Owns ap_listeners and its accept functions in a child process, from child_init on.
 * There is no lock: they change before the MPM accepts.
 * vl_acceptor.c and vl_prefork.c are the callers; mod_vhostlimit.c asks what there is. */

#include <sys/socket.h>

#include <httpd.h>
#include <ap_listen.h>

/* Local address of all connections to a listener. length 0: it listens on several
 * addresses. */
typedef struct vl_local_t {
    struct sockaddr_storage address;
    socklen_t length;
} vl_local_t;

typedef struct vl_listeners_t {
    int *fds;                       /* the real listening sockets */
    vl_local_t *local;              /* one for each of fds */
    int n;
    const ap_listen_rec *first;     /* first listener that was replaced, or NULL */
} vl_listeners_t;

/* The MPM accepts from the listening sockets (1), or does not (0). Returns 0 if it cannot. */
int vl_listener_child_let_mpm(int accept);
/* Returns 1 if the MPM has accepted this descriptor itself since the last call. */
int vl_listener_was_direct(int fd);

/* Returns 1 if the MPM has threads. */
int vl_listener_is_threaded(void);
/* Returns NULL if the MPM can do without its listeners, else why it cannot, and the remedy.
 * Parent or child. */
const char *vl_listener_obstacle(void);
/* Parent: returns 1 if the acceptor will take over the listeners, and connections will be queued as
 * sockets. */
int vl_listener_will_queue(void);
/* Parent, before the MPM opens the listeners: makes it ignore ListenCoresBucketsRatio, as on a
 * kernel without SO_REUSEPORT. A child process sees the listeners of the first bucket only. */
void vl_listener_use_one_bucket(apr_pool_t *pconf);

/* Parent, if vl_listener_will_queue(), as soon as the listeners are open: before, they are not
 * final, and children of an earlier configuration may still accept from them. Makes them
 * non-blocking, so that acceptors do not block in accept(). It sets the option through APR,
 * so that Apache resets it in a configuration without this module. */
void vl_listener_open_logs(void);

/* --- the acceptor is a thread (vl_acceptor.c) ------------------------------- */

/* Returns a placeholder for each listener for HTTP, or NULL if there are not enough
 * descriptors. pass_fd: readable while a connection is to be passed to the MPM. */
int *vl_listener_child_placeholders(int pass_fd);
/* Closes placeholders that are not used. */
void vl_listener_child_discard(const int *placeholders);
/* Gives the placeholders to the MPM, and the real sockets to ret_listeners. */
void vl_listener_child_replace(const int *placeholders, vl_listeners_t *ret_listeners);
/* Replaces the accept functions of the MPM. The MPM sets its own when its threads start,
 * which is after child_init. Returns 0 while it has not set all of them. Until then no
 * connection is passed. */
int vl_listener_child_take_over(const vl_listeners_t *listeners);

/* The acceptors of both kinds look once a millisecond whether the MPM has set its accept
 * functions.  After so many looks they call vl_listener_report_wait(), once, and go on. */
#define VL_LISTENER_TRIES 5000
void vl_listener_report_wait(void);

/* --- the acceptor is a child process (vl_prefork.c) ----------------------- */

/* Duplicates the n sockets in the list `real`. Returns 0 if there are not enough
 * descriptors. */
int vl_listener_child_copy(const ap_listen_rec *real, int n,
                           vl_listeners_t *ret_listeners);
/* Returns a listening socket without any client, whose accept() fails after 10 ms. An
 * MPM that does not poll accepts from it until its accept function is replaced.
 * Returns -1 if no descriptor is left. */
int vl_listener_empty_fd(void);

/* Closes the real sockets. */
void vl_listener_child_close(const vl_listeners_t *listeners);

#endif
