/* SPDX-License-Identifier: Apache-2.0 */
/* handshake KIND NAME PORT CONNECTIONS SECONDS
 *
 * A flood of TLS connections that never send a request.  With KIND handshake a
 * connection stays open for a second after its handshake, and another one replaces
 * it.  With hello it is reset as soon as the server's answer begins to arrive: the
 * server has then made its signature, and the client has done no work.  Prints one
 * line of JSON at the end.
 *
 * openssl s_time makes one handshake after the other and sends no host name; load
 * generators send requests. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>

#define STAY_S 1.0              /* after the handshake */
#define RETRY_S 0.1             /* after a connection that was refused */

typedef struct {
    int fd;                     /* -1: none, until `until` */
    int done;                   /* and stays until `until` */
    double until;
    SSL *ssl;
} client_t;

static struct {
    int hello;
    const char *name;
    struct addrinfo *server;
    SSL_CTX *ctx;
    unsigned long done, failed;
} flood;

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void hang_up(client_t *c, double wait_s)
{
    struct linger at_once = { 1, 0 };

    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(c->fd);
    SSL_free(c->ssl);
    c->fd = -1;
    c->ssl = NULL;
    c->done = 0;
    c->until = now_s() + wait_s;
}

static void dial(client_t *c)
{
    c->fd = socket(flood.server->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0 || (connect(c->fd, flood.server->ai_addr,
                              flood.server->ai_addrlen)
                      && errno != EINPROGRESS)) {
        perror("handshake: connect");
        exit(1);
    }
    c->ssl = SSL_new(flood.ctx);
    SSL_set_tlsext_host_name(c->ssl, flood.name);
    SSL_set_fd(c->ssl, c->fd);
    SSL_set_connect_state(c->ssl);
}

static void complete(client_t *c)
{
    flood.done++;
    if (flood.hello) {
        hang_up(c, 0);
    }
    else {
        c->done = 1;
        c->until = now_s() + STAY_S;
    }
}

static void fail(client_t *c)
{
    flood.failed++;
    hang_up(c, RETRY_S);
}

/* What comes after the handshake is the server's end. */
static void step(client_t *c, short revents)
{
    char byte;
    int rv;

    if (c->done || (flood.hello && (revents & POLLIN))) {
        ssize_t n = recv(c->fd, &byte, 1, c->done ? 0 : MSG_PEEK);

        if (c->done && n <= 0)
            hang_up(c, 0);
        else if (!c->done && n > 0)
            complete(c);
        else if (!c->done)
            fail(c);
        return;
    }
    rv = SSL_do_handshake(c->ssl);
    if (rv == 1)
        complete(c);
    else if (SSL_get_error(c->ssl, rv) != SSL_ERROR_WANT_READ
             && SSL_get_error(c->ssl, rv) != SSL_ERROR_WANT_WRITE)
        fail(c);
}

static short awaited(const client_t *c)
{
    return c->done || SSL_get_state(c->ssl) != TLS_ST_BEFORE ? POLLIN : POLLOUT;
}

static void turn(client_t *clients, struct pollfd *fds, nfds_t n)
{
    double now = now_s();
    nfds_t i;

    for (i = 0; i < n; i++) {
        client_t *c = &clients[i];

        if (c->fd >= 0 && c->done && now >= c->until)
            hang_up(c, 0);
        if (c->fd < 0 && now >= c->until)
            dial(c);
        fds[i].fd = c->fd;
        fds[i].events = c->fd < 0 ? 0 : awaited(c);
    }
    if (poll(fds, n, 50) <= 0)
        return;
    for (i = 0; i < n; i++) {
        if (fds[i].fd >= 0 && fds[i].revents)
            step(&clients[i], fds[i].revents);
    }
}

static void run(nfds_t n, double seconds)
{
    client_t *clients = calloc(n, sizeof(*clients));
    struct pollfd *fds = calloc(n, sizeof(*fds));
    double start = now_s();
    nfds_t i;

    if (!clients || !fds)
        exit(1);
    for (i = 0; i < n; i++)
        clients[i].fd = -1;
    while (now_s() < start + seconds)
        turn(clients, fds, n);
    printf("{\"done\":%lu,\"failed\":%lu,\"elapsed\":%.6f}\n", flood.done,
           flood.failed, now_s() - start);
}

static void find_server(const char *name, const char *port)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM };
    int rv = getaddrinfo(name, port, &wanted, &flood.server);

    if (rv) {
        fprintf(stderr, "handshake: %s: %s\n", name, gai_strerror(rv));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 6 || atoi(argv[4]) < 1) {
        fprintf(stderr, "usage: handshake handshake|hello NAME PORT "
                "CONNECTIONS SECONDS\n");
        return 2;
    }
    flood.hello = !strcmp(argv[1], "hello");
    flood.name = argv[2];
    find_server(argv[2], argv[3]);
    flood.ctx = SSL_CTX_new(TLS_client_method());
    if (!flood.ctx)
        return 1;
    SSL_CTX_set_verify(flood.ctx, SSL_VERIFY_NONE, NULL);
    run((nfds_t)atoi(argv[4]), atof(argv[5]));
    return 0;
}
