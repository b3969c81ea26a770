/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that the acceptor sends itself. Each is short and goes out in one send(): a
 * refused request takes no thread of the MPM, no pool and no handshake. ErrorDocument
 * is not used, because it needs a request in Apache. */
#include "accept/vl_newconn_answer.h"

#include <errno.h>
#include <sys/socket.h>

#include <apr_strings.h>
#include <apr_time.h>
#include <http_protocol.h>

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

static apr_uint32_t refusal_us(void)
{
    return vl_newconns->refusal_us ? vl_newconns->refusal_us : REFUSAL_US;
}

/* Writes "Retry-After: n\r\n", or an empty string. */
static void put_retry_after(char *to, apr_size_t size, const vl_conf_t *conf,
                            const vl_admission_t *admission)
{
    apr_uint32_t seconds = vl_conf_retry_after(conf, admission->service_us,
                                               admission->concurrency);

    *to = '\0';
    if (seconds)
        apr_snprintf(to, size, "Retry-After: %u\r\n", seconds);
}

/* Writes the complete answer, without its body for a HEAD request. Returns its length. */
static int put_answer(char *to, apr_size_t size, int status, const char *headers,
                      const char *text, int head)
{
    const char *line = ap_get_status_line(status);
    char date[APR_RFC822_DATE_LEN];

    apr_rfc822_date(date, apr_time_now());
    return apr_snprintf(to, size, "HTTP/1.1 %s\r\nDate: %s\r\nServer: %s\r\n"
                        "%sContent-Length: %d\r\nConnection: close\r\n"
                        "Content-Type: text/plain; charset=us-ascii\r\n\r\n"
                        "%s%s%s", line, date, ap_get_server_banner(), headers,
                        (int)(strlen(line) + strlen(text) + 2),
                        head ? "" : line, head ? "" : text,
                        head ? "" : "\r\n");
}

int vl_newconn_discard_input(int fd)
{
    static char discarded[DRAIN_SIZE];      /* MSG_TRUNC leaves it unwritten: tcp(7) */
    ssize_t n = recv(fd, discarded, sizeof(discarded),
                     MSG_TRUNC | MSG_DONTWAIT);

    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Sends the answer, if len is not 0. The connection lingers until its client closes
 * it: close() of a socket with unread input makes the kernel send a reset, which can
 * overtake the answer. Most requests have been read completely by then. */
static void answer_locked(vl_newconn_t *newconn, const char *answer, int len)
{
    vl_newconn_discard_input(newconn->fd);
    if (len && send(newconn->fd, answer, (apr_size_t)len,
                    MSG_DONTWAIT | MSG_NOSIGNAL) != len) {
        vl_newconn_close_locked(newconn);
        return;
    }
    vl_newconn_limit_lingering_locked();
    vl_newconn_linger_locked(newconn, SHORT_LINGER_US);
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

/* Answers as ap_read_request() does: without a request line it sends nothing. */
void vl_newconn_time_out_locked(vl_newconn_t *newconn)
{
    char answer[1024];
    int len = 0;

    if (!newconn->client.tls && has_request_line(newconn->fd))
        len = put_answer(answer, sizeof(answer), HTTP_REQUEST_TIME_OUT, "",
                         ": the request did not come in time.", 0);
    answer_locked(newconn, answer, len);
}

void vl_newconn_refuse_locked(vl_newconn_t *newconn)
{
    vl_admission_t admission = { .entered = 0 };
    char answer[1024], retry_after[40];

    if (newconn->client.tls) {
        vl_newconn_reset_locked(newconn);
        return;
    }
    vl_slot_refused_connection(vl_child.shm, newconn->waiter.account,
                               refusal_us(), 0, &admission);
    put_retry_after(retry_after, sizeof(retry_after), newconn->conf,
                    &admission);
    answer_locked(newconn, answer,
                  put_answer(answer, sizeof(answer), newconn->conf->status_code,
                             retry_after, ": this site has more requests than "
                             "it can answer now. Please try again later.",
                             newconn->is_head));
}

void vl_newconn_reset_locked(vl_newconn_t *newconn)
{
    const struct linger reset = { 1, 0 };

    vl_slot_refused_connection(vl_child.shm, newconn->waiter.account,
                               refusal_us(), 1, NULL);
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
