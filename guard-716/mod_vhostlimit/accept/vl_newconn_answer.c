/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that the acceptor ends itself. The MPM answers and logs each request that has been
 * read, also a refused one. */
#include "accept/vl_newconn_answer.h"

#include <errno.h>
#include <sys/socket.h>

#include <apr_time.h>

/* Assumed cost of a refusal until enough connections have been counted. */
#define REFUSAL_US 50
/* Connections over which the cost is averaged. */
#define MEASURE_MIN 32
/* Bytes of input that are discarded in one call, so that other connections are not
 * delayed. */
#define DRAIN_SIZE (1 << 16)
/* The event MPM waits as long for the client after it has closed an idle connection
 * (SECONDS_TO_LINGER). */
#define SHORT_LINGER_US (2 * APR_USEC_PER_SEC)

/* The CPU time of the acceptor per connection, from accept() to close(), is taken as
 * the cost of a refusal. The kernel's own work for the connection is not included. */
void vl_newconn_measure_refusals(apr_int64_t cpu_us)
{
    static apr_int64_t last_us;
    static apr_uint32_t last_accepted;
    apr_uint32_t n = vl_newconns->accepted - last_accepted;

    if (last_us && n < MEASURE_MIN)
        return;
    if (last_us)
        vl_newconns->refusal_us = vl_average(
            vl_newconns->refusal_us ? vl_newconns->refusal_us : REFUSAL_US,
            (apr_uint64_t)(cpu_us - last_us) / n);
    last_us = cpu_us;
    last_accepted += n;
}

int vl_newconn_discard_input(int fd)
{
    static char discarded[DRAIN_SIZE];      /* MSG_TRUNC leaves it unwritten: tcp(7) */
    ssize_t n = recv(fd, discarded, sizeof(discarded),
                     MSG_TRUNC | MSG_DONTWAIT);

    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Returns 1 if the request line has arrived completely. Empty lines before it do not
 * count. */
static int has_request_line(int fd)
{
    char bytes[8192];
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    ssize_t i = 0;

    while (i < n && (bytes[i] == '\r' || bytes[i] == '\n'))
        i++;
    return i < n && memchr(bytes + i, '\n', (size_t)(n - i)) != NULL;
}

/* ap_read_request() answers and logs a request whose line has arrived. Otherwise it sends
 * nothing, and no worker is needed. */
void vl_newconn_time_out_locked(vl_newconn_t *newconn)
{
    if (!newconn->client.tls && has_request_line(newconn->fd)) {
        newconn->ready = newconn->grant.late = 1;
        vl_newconn_pass_locked(newconn);
        return;
    }
    vl_newconn_discard_input(newconn->fd);
    vl_newconn_limit_lingering_locked();
    vl_newconn_linger_locked(newconn, SHORT_LINGER_US);
}

void vl_newconn_reset_locked(vl_newconn_t *newconn)
{
    const struct linger reset = { 1, 0 };

    vl_slot_reset(vl_child.shm, newconn->waiter.account,
                  vl_newconns->refusal_us ? vl_newconns->refusal_us : REFUSAL_US);
    setsockopt(newconn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    vl_newconn_close_locked(newconn);
}

void vl_newconn_answer_503_locked(vl_newconn_t *newconn)
{
    static const char answer[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n";

    if (newconn->ready
        && send(newconn->fd, answer, sizeof(answer) - 1,
                MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        vl_newconn_close_locked(newconn);
    else
        vl_newconn_linger_locked(newconn, SHORT_LINGER_US);
}
