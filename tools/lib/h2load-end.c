/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into h2load when it runs for a time (-D), which is in BED_SECONDS.
 *
 * h2load up to at least 1.52 does not end if a TLS handshake is incomplete when the
 * time is up: stop_all_clients() skips clients without a session, and a client that
 * gets one later sends requests forever, uncounted.  A second after the time, and
 * every second from then on, this library shuts down all sockets.  Such a client then
 * reads the end of its connection and ends; the summary is not affected.
 *
 * h2load counts broken connections as failures, and later removes them from the total.
 * This library counts them, as sockets closed before the time was up, and prints
 * "broken: N" at the end.
 *
 * It uses nothing that is newer than the oldest C library of a client.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_FILES 65536

static double end;              /* of the time, on the monotonic clock; 0: not h2load */
static int broken;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int is_connection(int fd)
{
    int domain;
    socklen_t size = sizeof(domain);

    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size)
        && (domain == AF_INET || domain == AF_INET6);
}

int close(int fd)
{
    if (end > 0 && is_connection(fd) && now() < end)
        broken++;
    return (int)syscall(SYS_close, fd);
}

static void shut_all(int signal)
{
    int fd, saved = errno;

    (void)signal;
    for (fd = 3; fd < MOST_FILES; fd++)
        shutdown(fd, SHUT_RDWR);
    alarm(1);
    errno = saved;
}

__attribute__((constructor)) static void begin(void)
{
    const char *seconds = getenv("BED_SECONDS");
    struct sigaction action = {.sa_handler = shut_all, .sa_flags = SA_RESTART };

    if (!seconds)
        return;
    end = now() + atoi(seconds);
    sigaction(SIGALRM, &action, NULL);
    alarm((unsigned)atoi(seconds) + 1);
}

__attribute__((destructor)) static void tell(void)
{
    if (end > 0)
        fprintf(stderr, "broken: %d\n", broken);
}
