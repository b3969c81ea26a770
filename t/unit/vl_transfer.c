/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that another process receives when it can open them. */
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "accept/vl_transfer.h"

#define READERS 4
#define MESSAGES 240
#define IN_ONE 3
#define ROUNDS 10

static int fd_open(void)
{
    return eventfd(0, EFD_NONBLOCK);
}

static void leave_all_room(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Limits the number of further descriptors; all below the lowest free one are open. */
static void leave_room_for(int n)
{
    struct rlimit limit;
    int lowest;

    leave_all_room();
    lowest = fd_open();
    close(lowest);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)(lowest + n);
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int room(void)
{
    int fds[256], n = 0, free;

    while (n < 256 && (fds[n] = fd_open()) >= 0)
        n++;
    for (free = n; n > 0; n--)
        close(fds[n - 1]);
    return free;
}

static vl_passed_t passed[VL_TRANSFER_MAX];

static void send_ends(const int pair[2], int n)
{
    int fds[VL_TRANSFER_MAX], i;

    for (i = 0; i < n; i++) {
        fds[i] = fd_open();
        passed[i].since_us = n * 100 + i;
    }
    ok(vl_transfer_send(pair, fds, passed, (apr_size_t)n) == APR_SUCCESS,
       "%d are sent", n);
    for (i = 0; i < n; i++)
        close(fds[i]);
}

/* Records each received item. */
static int receive(const int pair[2], apr_status_t *ret_rv)
{
    int fds[VL_TRANSFER_MAX], i, open = 0;
    apr_size_t n;

    *ret_rv = vl_transfer_receive(pair, fds, passed, &n);
    for (i = 0; i < (int)n; i++) {
        open += fcntl(fds[i], F_GETFD) == FD_CLOEXEC
                && eventfd_write(fds[i], 1) == 0;
        close(fds[i]);
    }
    return open;
}

static void no_room_loses_nothing(void)
{
    apr_status_t rv;
    int pair[2], got;

    vl_transfer_create(SOCK_NONBLOCK, pair);
    ok(receive(pair, &rv) == 0 && rv == APR_EAGAIN, "an empty channel gives EAGAIN");
    send_ends(pair, 4);
    send_ends(pair, 2);
    leave_room_for(3);
    ok(receive(pair, &rv) == 0 && rv == APR_EMFILE,
       "with room for three descriptors none of four is received");
    ok(room() == 3, "no descriptor stays open");
    ok(receive(pair, &rv) == 0 && rv == APR_EMFILE, "a second attempt receives none");
    leave_room_for(0);
    ok(receive(pair, &rv) == 0 && rv == APR_EMFILE, "without room none is received");
    leave_room_for(4);
    got = receive(pair, &rv);
    ok(got == 4 && rv == APR_SUCCESS, "with room for four all are received");
    ok(passed[0].since_us == 400 && passed[3].since_us == 403,
       "each has its data");
    ok(room() == 4 && receive(pair, &rv) == 2, "the next two are received");
    leave_all_room();
    close(pair[0]);
    close(pair[1]);
}

/* Reads all items once it may begin. */
static void read_all(const int pair[2], int begin)
{
    struct pollfd pfd = { begin, POLLIN, 0 };
    apr_status_t rv;

    poll(&pfd, 1, 10000);
    do {
        receive(pair, &rv);
    } while (rv == APR_SUCCESS);
}

static void begin_readers(const int pair[2])
{
    int begin = eventfd(0, 0), i;

    for (i = 0; i < READERS; i++) {
        if (!fork()) {
            read_all(pair, begin);
            _exit(0);
        }
    }
    eventfd_write(begin, 1);
    while (wait(NULL) > 0)
        ;
    close(begin);
}

static int each_comes_once(void)
{
    static int fds[MESSAGES * IN_ONE];
    int pair[2], i, once = 0;
    eventfd_t times;

    vl_transfer_create(SOCK_NONBLOCK, pair);
    for (i = 0; i < MESSAGES * IN_ONE; i++)
        fds[i] = fd_open();
    for (i = 0; i < MESSAGES; i++)
        vl_transfer_send(pair, fds + i * IN_ONE, passed, IN_ONE);
    begin_readers(pair);
    for (i = 0; i < MESSAGES * IN_ONE; i++) {
        once += eventfd_read(fds[i], &times) == 0 && times == 1;
        close(fds[i]);
    }
    close(pair[0]);
    close(pair[1]);
    return once == MESSAGES * IN_ONE;
}

/* Items that an older or newer module sends. */
static void another_version_is_not_understood(void)
{
    struct {
        pid_t sender;
        apr_uint32_t number, version, size;
        vl_passed_t passed[2];
    } message = { 1, 1, 4711, sizeof(vl_passed_t), { { 0 } } };
    apr_status_t rv;
    int pair[2], fds[2];

    vl_transfer_create(SOCK_NONBLOCK, pair);
    fds[0] = fd_open();
    fds[1] = fd_open();
    message.passed[1].since_us = 7;
    passed[1].since_us = 9;
    vl_transfer_write(pair[1], &message, sizeof(message), fds, 2);
    ok(receive(pair, &rv) == 2 && rv == APR_SUCCESS && !passed[1].since_us,
       "connections from another version are received as new ones");
    vl_transfer_write(pair[1], &message, 8, fds, 1);
    ok(receive(pair, &rv) == 1 && rv == APR_SUCCESS && !passed[0].since_us,
       "items with fewer bytes are received as new ones");
    close(fds[0]);
    close(fds[1]);
}

static void one_item_is_lost(void)
{
    char byte;
    apr_size_t n = 7;
    int pair[2], fd;

    vl_transfer_create(SOCK_NONBLOCK, pair);
    fd = fd_open();
    ok(vl_transfer_write(pair[1], "x", 1, &fd, 1) == APR_SUCCESS, "an item is sent");
    close(fd);
    ok(vl_transfer_has_descriptor(pair[0]), "a descriptor is free");
    leave_room_for(0);
    ok(!vl_transfer_has_descriptor(pair[0]), "no descriptor is free");
    ok(vl_transfer_read(pair[0], &byte, 1, &fd, 1, &n) == APR_EMFILE && !n,
       "a read without a free descriptor gives EMFILE");
    leave_all_room();
}

int main(void)
{
    int i, right = 0;

    no_room_loses_nothing();
    for (i = 0; i < ROUNDS; i++)
        right += each_comes_once();
    ok(right == ROUNDS, "each item was received by one of four readers, once: %d of %d "
       "times", right, ROUNDS);
    another_version_is_not_understood();
    one_item_is_lost();
    return tap_done();
}
