/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that leave while their connection waits: nothing is to run for them.
 *
 * A reset says so.  An end of the input (FIN) does not: the client has closed the
 * connection, or only its sending side, and then waits for the answer, as HTTP
 * allows.  TCP shows no difference until the server sends something: a closed
 * client answers that with a reset.  So a client of HTTP/1.1 is sent "100
 * Continue", which every such client has to take, asked for or not (RFC 9110,
 * 15.2).  To a client of HTTP/1.0 nothing may be sent before the answer (RFC 9110,
 * 15.2 as well): it counts as waiting.  Before its handshake a TLS connection whose
 * input has ended is of no use to anybody. */
#include "vl_arrival_int.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ENDS (EPOLLHUP | EPOLLERR)

static apr_uint32_t events_of(int fd)
{
    struct pollfd pfd = { fd, POLLRDHUP, 0 };

    return poll(&pfd, 1, 0) > 0 ? (apr_uint32_t)(unsigned short)pfd.revents : 0;
}

int vl_arrival_is_gone_locked(vl_arrival_t *arrival, apr_uint32_t events)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";

    if ((events & ENDS) || ((events & EPOLLRDHUP) && arrival->tls))
        return 1;
    if (!(events & EPOLLRDHUP) || !arrival->http11 || arrival->probed)
        return 0;
    arrival->probed = 1;
    if (send(arrival->fd, interim, sizeof(interim) - 1,
             MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return 1;
    /* From this machine the reset is there already; another one's is an event. */
    return (events_of(arrival->fd) & ENDS) != 0;
}

void vl_arrival_drop_gone_locked(vl_arrival_t *arrival)
{
    vl_slot_gone(vl_arrivals->shm, arrival->waiter.account);
    if (arrival->place == LINE)
        vl_park_remove_locked(&arrival->waiter);
    else
        vl_arrival_give_back_locked(&arrival->turn);
    vl_arrival_close_locked(arrival);
    vl_park_take_locked();
}

vl_arrival_t *vl_arrival_first_passing_locked(void)
{
    vl_arrival_t *arrival;

    while ((arrival = vl_arrival_first_locked(PASSING)) && arrival->waited
           && vl_arrival_is_gone_locked(arrival, events_of(arrival->fd)))
        vl_arrival_drop_gone_locked(arrival);
    return arrival;
}
