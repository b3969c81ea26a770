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

/* Connects to HOST:PORT or [ADDRESS]:PORT. */
static int open_host(fleet_link_t *link, const char *address, const fleet_tls_t *tls,
                     long long deadline)
{
    const char *colon = strrchr(address, ':');
    int is_bracketed = *address == '[' && colon[-1] == ']';
    char *host = ctl_printf("%.*s", (int)(colon - address) - 2 * is_bracketed,
                            address + is_bracketed);
    int rv = connect_host(link, host, colon + 1, deadline);

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
    if (len < 0) {                  /* not enough memory, or a wrong format */
        fprintf(stderr, "vhostlimit-fleet: a command cannot be written\n");
        abort();
    }
    link->out = ctl_grow(link->out, link->nout, link->nout + (size_t)len);
    memcpy(link->out + link->nout, command, (size_t)len);
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

/* Sends (POLLOUT) or receives (POLLIN) some bytes. Returns how many, or -1. */
static ssize_t transfer(fleet_link_t *link, short events, char *bytes, size_t n,
                        long long deadline)
{
    int is_out = events == POLLOUT;
    ssize_t done;

    for (;;) {
        if (link->ssl) {
            int most = (int)(n < CHUNK ? n : CHUNK);

            done = is_out ? SSL_write(link->ssl, bytes, most) : SSL_read(link->ssl, bytes, most);
            if (done > 0)
                return done;
            if (wait_for_tls(link, (int)done, deadline))
                return -1;
            continue;
        }
        done = is_out ? send(link->fd, bytes, n, MSG_NOSIGNAL) : recv(link->fd, bytes, n, 0);
        if (done > 0)
            return done;
        if (!done)
            return fail(link, "the connection was closed");
        if (errno == EAGAIN) {
            if (wait_for(link, events, deadline))
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
    size_t at = 0;
    ssize_t n;

    while (at < link->nout) {
        n = transfer(link, POLLOUT, link->out + at, link->nout - at, deadline);
        if (n < 0)
            return NULL;
        at += (size_t)n;
    }
    free(link->out);
    link->out = NULL;
    link->nout = 0;
    for (;;) {
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
            fail(link, link->reader->errstr);
            return NULL;
        }
        if (reply)
            return reply;
        n = transfer(link, POLLIN, bytes, sizeof(bytes), deadline);
        if (n < 0)
            return NULL;
        if (redisReaderFeed(link->reader, bytes, (size_t)n) != REDIS_OK) {
            fail(link, link->reader->errstr);
            return NULL;
        }
    }
}
