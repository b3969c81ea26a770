/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_handover.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

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

apr_status_t vl_handover_send(const int pair[2], const int *fds, apr_size_t n)
{
    char byte = 0;
    struct iovec iov = { &byte, 1 };
    control_t control = { .bytes = { 0 } };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = CMSG_SPACE(sizeof(int) * n) };
    struct cmsghdr *header = CMSG_FIRSTHDR(&msg);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * n);
    memcpy(CMSG_DATA(header), fds, sizeof(int) * n);
    return sendmsg(pair[1], &msg, MSG_NOSIGNAL) == 1 ? APR_SUCCESS : errno;
}

apr_size_t vl_handover_receive(const int pair[2],
                               int ret_fds[VL_HANDOVER_MAX])
{
    char byte;
    struct iovec iov = { &byte, 1 };
    control_t control;
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = sizeof(control) };
    struct cmsghdr *header;
    apr_size_t bytes;

    if (recvmsg(pair[0], &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
        return 0;
    header = CMSG_FIRSTHDR(&msg);
    if (!header || header->cmsg_type != SCM_RIGHTS)
        return 0;
    bytes = header->cmsg_len - CMSG_LEN(0);
    memcpy(ret_fds, CMSG_DATA(header), bytes);
    return bytes / sizeof(int);
}
