/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef union control_t {
    struct cmsghdr header;      /* for its alignment */
    char bytes[CMSG_SPACE(sizeof(int) * VL_TRANSFER_MAX)];
} control_t;

/* Incremented when vl_passed_t changes: after an update, children of both versions use
 * the pair. */
#define VERSION 1

/* Data of a message: its identity, and a record for each of its descriptors. */
typedef struct message_t {
    pid_t sender;
    apr_uint32_t number;
    apr_uint32_t version;
    apr_uint32_t size;          /* of vl_passed_t */
    vl_passed_t passed[VL_TRANSFER_MAX];
} message_t;

#define HEAD_SIZE offsetof(message_t, passed)

apr_status_t vl_transfer_create(int flags, int ret_pair[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0, ret_pair) ? errno
                                                                               : APR_SUCCESS;
}

apr_status_t vl_transfer_write(int to, const void *bytes, apr_size_t size,
                               const int *fds, apr_size_t n)
{
    struct iovec iov = { (void *)bytes, size };
    control_t control = { .bytes = { 0 } };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    struct cmsghdr *header;

    if (n) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
        header = CMSG_FIRSTHDR(&msg);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * n);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * n);
    }
    return sendmsg(to, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size
           ? APR_SUCCESS : errno;
}

apr_status_t vl_transfer_send(const int pair[2], const int *fds,
                              const vl_passed_t *passed, apr_size_t n)
{
    static apr_uint32_t sent;
    message_t message = { getpid(),
                          __atomic_add_fetch(&sent, 1, __ATOMIC_RELAXED),
                          VERSION, sizeof(vl_passed_t), { { 0 } } };

    memcpy(message.passed, passed, sizeof(*passed) * n);
    return vl_transfer_write(pair[1], &message, HEAD_SIZE + sizeof(*passed) * n,
                             fds, n);
}

void vl_transfer_close(const int *fds, apr_size_t n)
{
    while (n)
        close(fds[--n]);
}

/* The kernel discards descriptors that this process has no room for. Returns
 * APR_EMFILE if it did; the others are closed then. */
static apr_status_t receive(int from, int flags, struct iovec *iov, int *ret_fds,
                            apr_size_t most, ssize_t *ret_size, apr_size_t *ret_n)
{
    control_t control;
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = CMSG_SPACE(sizeof(int) * most) };
    const struct cmsghdr *header;
    apr_size_t bytes;

    *ret_n = 0;
    *ret_size = recvmsg(from, &msg, flags | MSG_CMSG_CLOEXEC);
    if (*ret_size < 0)
        return errno;
    header = CMSG_FIRSTHDR(&msg);
    if (header && header->cmsg_type == SCM_RIGHTS) {
        bytes = header->cmsg_len - CMSG_LEN(0);
        memcpy(ret_fds, CMSG_DATA(header), bytes);
        *ret_n = bytes / sizeof(int);
    }
    if (!(msg.msg_flags & MSG_CTRUNC))
        return APR_SUCCESS;
    vl_transfer_close(ret_fds, *ret_n);
    *ret_n = 0;
    return APR_EMFILE;
}

apr_status_t vl_transfer_read(int from, void *ret_bytes, apr_size_t size,
                              int *ret_fds, apr_size_t most, apr_size_t *ret_n)
{
    struct iovec iov = { ret_bytes, size };
    ssize_t got;
    apr_status_t rv = receive(from, MSG_DONTWAIT, &iov, ret_fds, most, &got, ret_n);

    if (rv != APR_SUCCESS || got == (ssize_t)size)
        return rv;
    vl_transfer_close(ret_fds, *ret_n);
    *ret_n = 0;
    return APR_EOF;
}

int vl_transfer_has_descriptor(int any)
{
    int fd = fcntl(any, F_DUPFD_CLOEXEC, 0);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* MSG_PEEK duplicates the descriptors of a message and leaves the message there. Only
 * a child that could duplicate all of them removes the message, and needs no more
 * descriptors for that. If another child removed it in between, this child has removed
 * the next message, and closes its duplicates. */
apr_status_t vl_transfer_receive(const int pair[2],
                                 int ret_fds[VL_TRANSFER_MAX],
                                 vl_passed_t ret_passed[VL_TRANSFER_MAX],
                                 apr_size_t *ret_n)
{
    message_t peeked = { 0 }, taken = { 0 };
    struct iovec peek_iov = { &peeked, HEAD_SIZE };
    struct iovec read_iov = { &taken, sizeof(taken) };
    int fds[VL_TRANSFER_MAX];
    apr_size_t n;
    ssize_t size;
    apr_status_t rv = receive(pair[0], MSG_DONTWAIT | MSG_PEEK, &peek_iov, ret_fds,
                           VL_TRANSFER_MAX, &size, ret_n);

    if (rv != APR_SUCCESS)
        return rv;
    rv = receive(pair[0], MSG_DONTWAIT, &read_iov, fds, VL_TRANSFER_MAX, &size, &n);
    if (size >= 0 && !memcmp(&peeked, &taken, HEAD_SIZE)) {
        vl_transfer_close(fds, n);
        rv = APR_SUCCESS;
    }
    else {
        vl_transfer_close(ret_fds, *ret_n);
        memcpy(ret_fds, fds, sizeof(int) * n);
        *ret_n = n;
    }
    if (taken.version != VERSION || taken.size != sizeof(vl_passed_t))
        memset(taken.passed, 0, sizeof(taken.passed));
    memcpy(ret_passed, taken.passed, sizeof(*ret_passed) * *ret_n);
    return rv;
}
