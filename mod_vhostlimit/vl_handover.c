/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_handover.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef union control_t {
    struct cmsghdr header;      /* for its alignment */
    char bytes[CMSG_SPACE(sizeof(int) * VL_HANDOVER_MAX)];
} control_t;

apr_status_t vl_handover_create(int ret_pair[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   ret_pair))
        return errno;
    return APR_SUCCESS;
}

static void attach(struct msghdr *msg, control_t *control, const int *fds,
                   apr_size_t n)
{
    struct cmsghdr *header;

    msg->msg_control = control;
    msg->msg_controllen = CMSG_SPACE(sizeof(int) * n);
    header = CMSG_FIRSTHDR(msg);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * n);
    memcpy(CMSG_DATA(header), fds, sizeof(int) * n);
}

apr_status_t vl_handover_write(int to, const void *bytes, apr_size_t size,
                               const int *fds, apr_size_t n)
{
    struct iovec iov = { (void *)bytes, size };
    control_t control = { .bytes = { 0 } };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (n)
        attach(&msg, &control, fds, n);
    return sendmsg(to, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size
           ? APR_SUCCESS : errno;
}

apr_status_t vl_handover_send(const int pair[2], const int *fds, apr_size_t n)
{
    return vl_handover_write(pair[1], "", 1, fds, n);
}

static apr_size_t detach(struct msghdr *msg, int *ret_fds)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(msg);
    apr_size_t bytes;

    if (!header || header->cmsg_type != SCM_RIGHTS)
        return 0;
    bytes = header->cmsg_len - CMSG_LEN(0);
    memcpy(ret_fds, CMSG_DATA(header), bytes);
    return bytes / sizeof(int);
}

apr_status_t vl_handover_read(int from, int flags, void *ret_bytes,
                              apr_size_t size, int *ret_fds, apr_size_t most,
                              apr_size_t *ret_n)
{
    struct iovec iov = { ret_bytes, size };
    control_t control;
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = CMSG_SPACE(sizeof(int) * most) };
    ssize_t got = recvmsg(from, &msg, flags | MSG_CMSG_CLOEXEC);

    *ret_n = 0;
    if (got < 0)
        return errno;
    *ret_n = detach(&msg, ret_fds);
    if (got == (ssize_t)size)
        return APR_SUCCESS;
    while (*ret_n)
        close(ret_fds[--*ret_n]);
    return APR_EOF;
}

apr_size_t vl_handover_receive(const int pair[2],
                               int ret_fds[VL_HANDOVER_MAX])
{
    char byte;
    apr_size_t n;

    vl_handover_read(pair[0], MSG_DONTWAIT, &byte, 1, ret_fds, VL_HANDOVER_MAX,
                     &n);
    return n;
}
