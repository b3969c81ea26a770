/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>

#define CHUNK 65536

static const char unix_prefix[] = "unix:";

/* Returns -1, for the caller to return. */
static int fail(fleet_link_t *link, const char *why)
{
    snprintf(link->why, sizeof(link->why), "%s", why);
    return -1;
}

/* Waits until the socket is ready. Returns 0, or -1. */
static int wait_for(fleet_link_t *link, short events, long long deadline)
{
    struct pollfd pfd = { .fd = link->fd, .events = events };

    for (;;) {
        long long left = deadline - ctl_now_ms();
        int n = left > 0 ? poll(&pfd, 1, (int)left) : 0;

        if (n > 0)
            return 0;
        if (!n)
            return fail(link, "no answer in time");
        if (errno != EINTR)
            return fail(link, strerror(errno));
    }
}

/* --- addresses -------------------------------------------------------------- */

int fleet_link_is_address(const char *address)
{
    const char *colon = strrchr(address, ':');
    char *end;
    long port;

    if (!strncmp(address, unix_prefix, strlen(unix_prefix)))
        return address[strlen(unix_prefix)] == '/';
    if (!colon || colon == address || colon[1] < '0' || colon[1] > '9')
        return 0;
    port = strtol(colon + 1, &end, 10);
    return !*end && port >= 1 && port <= 65535;
}

/* Splits HOST:PORT or [ADDRESS]:PORT. Returns the port; the caller frees *ret_host. */
static const char *split_address(const char *address, char **ret_host)
{
    const char *colon = strrchr(address, ':');
    char *host = ctl_printf("%.*s", (int)(colon - address), address);
    size_t len = strlen(host);

    if (*host == '[' && host[len - 1] == ']') {
        memmove(host, host + 1, len - 2);
        host[len - 2] = '\0';
    }
    *ret_host = host;
    return colon + 1;
}

/* --- connecting ------------------------------------------------------------- */

static int connect_socket(fleet_link_t *link, const struct sockaddr *addr, socklen_t len,
                          long long deadline)
{
    int failed = 0, one = 1;
    socklen_t size = sizeof(failed);

    link->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->fd < 0)
        return fail(link, strerror(errno));
    if (addr->sa_family != AF_UNIX)
        setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!connect(link->fd, addr, len))
        return 0;
    /* A unix socket whose queue is full is EAGAIN, and cannot be waited for. */
    if (errno == EINPROGRESS) {
        if (wait_for(link, POLLOUT, deadline))
            return -1;
        if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &failed, &size))
            failed = errno;
    }
    else
        failed = errno;
    return failed ? fail(link, strerror(failed)) : 0;
}

static void close_socket(fleet_link_t *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

static int connect_unix(fleet_link_t *link, const char *path, long long deadline)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };

    if (strlen(path) >= sizeof(addr.sun_path))
        return fail(link, "the path of a socket has at most 107 bytes");
    strcpy(addr.sun_path, path);
    return connect_socket(link, (struct sockaddr *)&addr, sizeof(addr), deadline);
}

/* Tries all addresses of the host. A silent one leaves the others their part of the time. */
static int connect_host(fleet_link_t *link, const char *host, const char *port,
                        long long deadline)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found, *at;
    int n = 0, rv = getaddrinfo(host, port, &hints, &found);

    if (rv)
        return fail(link, gai_strerror(rv));
    for (at = found; at; at = at->ai_next)
        n++;
    rv = -1;
    for (at = found; at && rv; at = at->ai_next, n--) {
        long long now = ctl_now_ms();

        close_socket(link);
        rv = connect_socket(link, at->ai_addr, at->ai_addrlen, now + (deadline - now) / n);
    }
    freeaddrinfo(found);
    return rv;
}

/* Waits for what an operation of OpenSSL that returned `rv` wants. Returns 0: try again;
 * or -1. */
static int wait_for_tls(fleet_link_t *link, int rv, long long deadline)
{
    int failed = errno;

    switch (SSL_get_error(link->ssl, rv)) {
    case SSL_ERROR_WANT_READ:
        return wait_for(link, POLLIN, deadline);
    case SSL_ERROR_WANT_WRITE:
        return wait_for(link, POLLOUT, deadline);
    case SSL_ERROR_ZERO_RETURN:
        return fail(link, "the connection was closed");
    case SSL_ERROR_SYSCALL:
        if (failed && !ERR_peek_error())
            return fail(link, strerror(failed));
        /* fall through */
    default:
        fleet_tls_why(link->ssl, link->why, sizeof(link->why));
        return -1;
    }
}

static int shake_hands(fleet_link_t *link, const fleet_tls_t *tls, const char *host,
                       long long deadline)
{
    int rv;

    link->ssl = fleet_tls_begin(tls, link->fd, host);
    if (!link->ssl)
        return fail(link, "TLS: the name cannot be one of a certificate");
    while ((rv = SSL_connect(link->ssl)) != 1) {
        if (wait_for_tls(link, rv, deadline))
            return -1;
    }
    return 0;
}

static int open_host(fleet_link_t *link, const char *address, const fleet_tls_t *tls,
                     long long deadline)
{
    char *host;
    const char *port = split_address(address, &host);
    int rv = connect_host(link, host, port, deadline);

    if (!rv && tls)
        rv = shake_hands(link, tls, host, deadline);
    free(host);
    return rv;
}

int fleet_link_open(fleet_link_t *link, const char *address, const fleet_tls_t *tls)
{
    long long deadline = ctl_now_ms() + FLEET_LINK_MS;
    int rv;

    if (!strncmp(address, unix_prefix, strlen(unix_prefix)))
        rv = connect_unix(link, address + strlen(unix_prefix), deadline);
    else
        rv = open_host(link, address, tls, deadline);
    if (!rv && !(link->reader = redisReaderCreate()))
        rv = fail(link, "not enough memory");
    if (rv)
        fleet_link_close(link);
    return rv;
}

void fleet_link_close(fleet_link_t *link)
{
    if (link->ssl)
        SSL_free(link->ssl);
    close_socket(link);
    if (link->reader)
        redisReaderFree(link->reader);
    free(link->out);
    link->ssl = NULL;
    link->reader = NULL;
    link->out = NULL;
    link->nout = 0;
}

/* --- commands --------------------------------------------------------------- */

/* Adds a command of `len` bytes, and frees it. */
static void add(fleet_link_t *link, char *command, long long len)
{
    char *out;

    if (len < 0) {                  /* not enough memory, or a wrong format */
        fprintf(stderr, "vhostlimit-fleet: a command cannot be written\n");
        abort();
    }
    out = ctl_alloc(link->nout + (size_t)len);
    if (link->nout)
        memcpy(out, link->out, link->nout);
    memcpy(out + link->nout, command, (size_t)len);
    free(link->out);
    link->out = out;
    link->nout += (size_t)len;
    redisFreeCommand(command);
}

void fleet_link_add(fleet_link_t *link, const char *format, ...)
{
    char *command = NULL;
    va_list words;
    int len;

    va_start(words, format);
    len = redisvFormatCommand(&command, format, words);
    va_end(words);
    add(link, command, len);
}

void fleet_link_add_words(fleet_link_t *link, size_t n, const char *words[])
{
    char *command = NULL;
    long long len = redisFormatCommandArgv(&command, (int)n, words, NULL);

    add(link, command, len);
}

/* --- sending and receiving -------------------------------------------------- */

/* Sends some bytes. Returns how many, or -1. */
static ssize_t send_some(fleet_link_t *link, const char *bytes, size_t n, long long deadline)
{
    for (;;) {
        ssize_t sent;

        if (link->ssl) {
            sent = SSL_write(link->ssl, bytes, (int)(n < CHUNK ? n : CHUNK));
            if (sent > 0)
                return sent;
            if (wait_for_tls(link, (int)sent, deadline))
                return -1;
            continue;
        }
        sent = send(link->fd, bytes, n, MSG_NOSIGNAL);
        if (sent >= 0)
            return sent;
        if (errno == EAGAIN) {
            if (wait_for(link, POLLOUT, deadline))
                return -1;
        }
        else if (errno != EINTR)
            return fail(link, strerror(errno));
    }
}

static int send_all(fleet_link_t *link, long long deadline)
{
    size_t at = 0;

    while (at < link->nout) {
        ssize_t sent = send_some(link, link->out + at, link->nout - at, deadline);

        if (sent < 0)
            return -1;
        at += (size_t)sent;
    }
    free(link->out);
    link->out = NULL;
    link->nout = 0;
    return 0;
}

/* Receives some bytes. Returns how many, or -1. */
static ssize_t receive_some(fleet_link_t *link, char *bytes, size_t size,
                            long long deadline)
{
    for (;;) {
        ssize_t n;

        if (link->ssl) {
            n = SSL_read(link->ssl, bytes, (int)size);
            if (n > 0)
                return n;
            if (wait_for_tls(link, (int)n, deadline))
                return -1;
            continue;
        }
        n = recv(link->fd, bytes, size, 0);
        if (n > 0)
            return n;
        if (!n)
            return fail(link, "the connection was closed");
        if (errno == EAGAIN) {
            if (wait_for(link, POLLIN, deadline))
                return -1;
        }
        else if (errno != EINTR)
            return fail(link, strerror(errno));
    }
}

redisReply *fleet_link_reply(fleet_link_t *link)
{
    static char bytes[CHUNK];
    long long deadline = ctl_now_ms() + FLEET_LINK_MS;
    void *reply = NULL;
    ssize_t n;

    if (send_all(link, deadline))
        return NULL;
    for (;;) {
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
            fail(link, link->reader->errstr);
            return NULL;
        }
        if (reply)
            return reply;
        n = receive_some(link, bytes, sizeof(bytes), deadline);
        if (n < 0)
            return NULL;
        if (redisReaderFeed(link->reader, bytes, (size_t)n) != REDIS_OK) {
            fail(link, link->reader->errstr);
            return NULL;
        }
    }
}
