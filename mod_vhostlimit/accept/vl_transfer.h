/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_TRANSFER_H
#define VL_TRANSFER_H

/* Transfer of connections from a child to whichever child reads first, through a
 * socket pair that the parent makes once in its life. Also messages with descriptors
 * over any such socket.
 * Owns no state but the pair, which is the caller's, and needs no lock: the kernel
 * keeps messages whole. Any process or thread may call. */

#include <apr_errno.h>

/* Descriptors per message. The kernel's limit is 253 (SCM_MAX_FD). */
#define VL_TRANSFER_MAX 64

/* What is known of a transferred connection. All zero: it is new. */
typedef struct vl_passed_t {
    apr_int64_t since_us;       /* when it was queued; 0: it was not */
    apr_int64_t began_us;       /* when its head began to arrive; 0: not yet */
} vl_passed_t;

/* Makes a pair: the read end, then the write end. flags: SOCK_NONBLOCK, or 0 for that of vl_relay.h,
 * whose ends are the children's and the acceptor's. */
apr_status_t vl_transfer_create(int flags, int ret_pair[2]);
/* Sends a message. n: 1 to VL_TRANSFER_MAX; passed: one for each descriptor. The
 * sender then closes its own descriptors; the connections stay open in the pair until
 * they are received. Returns APR_EAGAIN if the pair is full, and ETOOMANYREFS if the
 * user has more descriptors in transit than RLIMIT_NOFILE (unix(7)). */
apr_status_t vl_transfer_send(const int pair[2], const int *fds,
                              const vl_passed_t *passed, apr_size_t n);
/* Closes n descriptors. */
void vl_transfer_close(const int *fds, apr_size_t n);
/* Receives a message. Returns APR_EAGAIN if there is none. Returns APR_EMFILE if this
 * process has too few free descriptors; the message then stays in the pair. If two
 * children read it and both have too few, some of its connections may be lost. Records
 * of another version of the module are ignored: the connections count as new. */
apr_status_t vl_transfer_receive(const int pair[2],
                                 int ret_fds[VL_TRANSFER_MAX],
                                 vl_passed_t ret_passed[VL_TRANSFER_MAX],
                                 apr_size_t *ret_n);

/* The same with the caller's bytes, at least one, over any such socket. n, most: 0 to
 * VL_TRANSFER_MAX. Reading does not wait: it returns APR_EAGAIN if there is no message, and
 * APR_EOF if the message had another length; its descriptors are closed then. It returns
 * APR_EMFILE if there were too few free descriptors; the message's descriptors are lost. */
apr_status_t vl_transfer_write(int to, const void *bytes, apr_size_t size,
                               const int *fds, apr_size_t n);
apr_status_t vl_transfer_read(int from, void *ret_bytes, apr_size_t size,
                              int *ret_fds, apr_size_t most, apr_size_t *ret_n);
/* Returns 1 if a descriptor is free. The answer is exact in a process with one thread.
 * any: an open descriptor. */
int vl_transfer_has_descriptor(int any);

#endif
