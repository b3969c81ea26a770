/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vl_client.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define HANGUP_EVENTS (EPOLLHUP | EPOLLERR)

apr_uint32_t vl_client_events(int fd)
{
    struct pollfd pfd = { fd, POLLRDHUP, 0 };

    return poll(&pfd, 1, 0) > 0 ? (apr_uint32_t)(unsigned short)pfd.revents : 0;
}

int vl_client_has_sent(int fd)
{
    char byte;

    return recv(fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) > 0;
}

int vl_client_is_gone(vl_client_t *client, int fd, apr_uint32_t events)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";

    if ((events & HANGUP_EVENTS) || ((events & EPOLLRDHUP) && client->tls))
        return 1;
    if (!(events & EPOLLRDHUP) || !client->http11 || client->probed)
        return 0;
    client->probed = 1;
    if (send(fd, interim, sizeof(interim) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return 1;
    /* The reset of a client on this machine has arrived already.  The reset of a remote
     * client causes an event later. */
    return (vl_client_events(fd) & HANGUP_EVENTS) != 0;
}
