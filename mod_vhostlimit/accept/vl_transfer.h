/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_TRANSFER_H
#define VL_TRANSFER_H

/* Connections passed from a child that stops to whichever reads first, through
 * a socket pair that the parent makes once in its life. */

#include <apr_errno.h>

/* In one message; the kernel's bound is 253 (SCM_MAX_FD). */
#define VL_TRANSFER_MAX 64

/* What is known of a connection that is passed on.  All zero: it is new. */
typedef struct vl_passed_t {
    apr_int64_t since_us;       /* its request has waited since; 0: it has not */
    apr_int64_t began_us;       /* its head began to come, 0: it has not */
} vl_passed_t;

/* ret_pair: read end, write end. */
apr_status_t vl_transfer_create(int ret_pair[2]);
/* n: 1 to VL_TRANSFER_MAX; passed: one for each.  The sender closes its own after this; until they
 * are received they live in the pair.  APR_EAGAIN: the pair is full.
 * ETOOMANYREFS: its user has more on their way than RLIMIT_NOFILE (unix(7)). */
apr_status_t vl_transfer_send(const int pair[2], const int *fds,
                              const vl_passed_t *passed, apr_size_t n);
void vl_transfer_close(const int *fds, apr_size_t n);
/* APR_EAGAIN: none are there.  APR_EMFILE: this process has no room for those
 * that are, and they stay there; unless two children read and neither has: then
 * some may be lost.  What a module of another version says of them is not
 * understood: they are new. */
apr_status_t vl_transfer_receive(const int pair[2],
                                 int ret_fds[VL_TRANSFER_MAX],
                                 vl_passed_t ret_passed[VL_TRANSFER_MAX],
                                 apr_size_t *ret_n);

/* The same with bytes of the caller's, one at least, to and from any such
 * socket.  n, most: 0 to VL_TRANSFER_MAX.  flags: of recvmsg().  APR_EOF: it
 * was another number of bytes; descriptors that came with them are closed.
 * APR_EMFILE: there was no room for the descriptors, which are lost. */
apr_status_t vl_transfer_write(int to, const void *bytes, apr_size_t size,
                               const int *fds, apr_size_t n);
apr_status_t vl_transfer_read(int from, int flags, void *ret_bytes,
                              apr_size_t size, int *ret_fds, apr_size_t most,
                              apr_size_t *ret_n);
/* There is for one, as far as the only thread of a process can know.  any: a
 * descriptor that is open. */
int vl_transfer_has_room(int any);

#endif
