/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into wrk for https URLs.
 *
 * wrk up to at least 4.2 waits for its socket to be writable while it waits for the
 * server's part of a TLS handshake.  The socket always is, so wrk calls SSL_connect() in a
 * loop and uses a whole CPU as soon as one connection waits.  A server whose connections
 * wait before the handshake would seem slow, because the load generator has no time left.
 * This library makes wrk wait for input then.  wrk itself sets both events again when the
 * handshake is complete.
 */
#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_FILES 65536
/* SSL_ERROR_WANT_READ and SSL_ERROR_WANT_WRITE of OpenSSL */
#define WANT_READ 2
#define WANT_WRITE 3

int SSL_connect(void *ssl);
int SSL_get_error(const void *ssl, int returned);
int SSL_get_fd(const void *ssl);

static struct {
    int epoll;
    epoll_data_t data;
} file[MOST_FILES];

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    if (fd >= 0 && fd < MOST_FILES && operation != EPOLL_CTL_DEL) {
        file[fd].epoll = epoll;
        file[fd].data = event->data;
    }
    return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

static void wait_for(int fd, unsigned events)
{
    struct epoll_event event = { .events = events };

    if (fd < 0 || fd >= MOST_FILES)
        return;
    event.data = file[fd].data;
    syscall(SYS_epoll_ctl, file[fd].epoll, EPOLL_CTL_MOD, fd, &event);
}

int SSL_connect(void *ssl)
{
    static int (*real)(void *);
    int returned;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "SSL_connect");
    returned = real(ssl);
    if (returned == 1)
        return returned;
    if (SSL_get_error(ssl, returned) == WANT_READ)
        wait_for(SSL_get_fd(ssl), EPOLLIN);
    else if (SSL_get_error(ssl, returned) == WANT_WRITE)
        wait_for(SSL_get_fd(ssl), EPOLLIN | EPOLLOUT);
    return returned;
}
