/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about other processes, with real ones. */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"
#include "cost/vl_proc.h"

static void parses(void)
{
    unsigned long args[2];

    ok(vl_proc_parse_syscall("running\n", args) == -1, "a thread that runs");
    ok(vl_proc_parse_syscall("7 0x55d0 0x2 0xffffffff 0x0 0x0 0x0 0x7ffe 0x7f0e\n", args) == 7
       && args[0] == 0x55d0 && args[1] == 2, "a system call with its arguments");
    ok(vl_proc_parse_syscall("-1 0x7ffe 0x7f0e\n", args) == -2,
       "a thread that is blocked outside of a system call waits for nothing that is known");
    ok(vl_proc_parse_syscall("", args) == -2, "nothing");
}

typedef enum { READS, POLLS, SELECTS, WAITS, SLEEPS, BURNS } does_e;

/* A process that does this with the descriptor. */
static pid_t process(does_e does, int fd)
{
    struct pollfd pfd = { fd, POLLIN, 0 };
    pid_t pid = fork();
    fd_set set;
    char byte;

    if (pid)
        return pid;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    switch (does) {
    case READS:
        if (read(fd, &byte, 1) < 0)
            _exit(1);
        break;
    case POLLS:
        poll(&pfd, 1, 20000);
        break;
    case SELECTS:
        select(fd + 1, &set, NULL, NULL, NULL);
        break;
    case WAITS:
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            sleep(20);
        }
        else {
            wait(NULL);
        }
        break;
    case SLEEPS:
        sleep(20);
        break;
    case BURNS:
        for (;;)
            ;
    }
    _exit(0);
}

/* Looks until the process does what is expected, for 2 s at most. */
static vl_proc_e look_for(pid_t pid, vl_proc_e expected, int fds, vl_waits_t *waits)
{
    vl_proc_e seen = VL_PROC_GONE;
    int tries;

    for (tries = 0; tries < 200; tries++) {
        seen = vl_proc_look(pid, pid, waits);
        if (seen == VL_PROC_DENIED || (seen == expected && waits->n == fds))
            break;
        usleep(10000);
    }
    return seen;
}

static void stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void sees_what_threads_wait_for(void)
{
    vl_waits_t waits;
    pid_t pid;
    int fds[2];

    if (pipe(fds))
        abort();
    pid = process(READS, fds[0]);
    if (look_for(pid, VL_PROC_WAITS, 1, &waits) == VL_PROC_DENIED) {
        printf("# /proc/PID/syscall is not readable here\n");
        stop(pid);
        return;
    }
    ok(waits.n == 1 && waits.fd[0] == fds[0], "a read");
    stop(pid);
    pid = process(POLLS, fds[0]);
    ok(look_for(pid, VL_PROC_WAITS, 1, &waits) == VL_PROC_WAITS && waits.fd[0] == fds[0], "a poll");
    stop(pid);
    pid = process(SELECTS, fds[0]);
    ok(look_for(pid, VL_PROC_WAITS, 1, &waits) == VL_PROC_WAITS && waits.fd[0] == fds[0], "a select");
    stop(pid);
    pid = process(WAITS, fds[0]);
    usleep(50000);
    ok(look_for(pid, VL_PROC_WAITS, 0, &waits) == VL_PROC_WAITS && waits.is_for_child, "the end of a child");
    stop(pid);
    pid = process(SLEEPS, fds[0]);
    ok(look_for(pid, VL_PROC_WAITS, 0, &waits) == VL_PROC_WAITS && !waits.n && !waits.is_for_child,
       "a sleep");
    stop(pid);
    pid = process(BURNS, fds[0]);
    ok(look_for(pid, VL_PROC_RUNS, 0, &waits) == VL_PROC_RUNS, "a process that computes");
    stop(pid);
    ok(look_for(pid, VL_PROC_GONE, 0, &waits) == VL_PROC_GONE, "a process that has ended");
    close(fds[0]);
    close(fds[1]);
}

static void finds_the_other_end_of_unix_sockets(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    int server;
    vl_peer_t peer = { 0 };

    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/vl-proc-%d.sock", (int)getpid());
    unlink(address.sun_path);
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 5)
        || connect(client, (struct sockaddr *)&address, sizeof(address)))
        abort();
    ok(vl_proc_peer(getpid(), client, vl_proc_inode(getpid(), client, NULL), &peer)
       == VL_PEER_QUEUED, "a connection that was not accepted");
    server = accept(listener, NULL, NULL);
    ok(vl_proc_peer(getpid(), client, vl_proc_inode(getpid(), client, NULL), &peer)
       == VL_PEER_HERE && peer.inode == vl_proc_inode(getpid(), server, NULL),
       "a connection that was");
    vl_proc_name(getpid(), client, &peer);
    ok(!strcmp(peer.name, address.sun_path), "the path of the socket that listens: %s", peer.name);
    ok(vl_proc_listener(&peer) == vl_proc_inode(getpid(), listener, NULL), "its inode");
    unlink(address.sun_path);
    close(client);
    close(server);
    close(listener);
}

static void finds_the_other_end_of_tcp_sockets(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    int server;
    vl_peer_t peer = { 0 };

    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 5)
        || getsockname(listener, (struct sockaddr *)&address, &size)
        || connect(client, (struct sockaddr *)&address, size))
        abort();
    server = accept(listener, NULL, NULL);
    ok(vl_proc_peer(getpid(), client, vl_proc_inode(getpid(), client, NULL), &peer)
       == VL_PEER_HERE && peer.inode == vl_proc_inode(getpid(), server, NULL)
       && peer.port == ntohs(address.sin_port), "a connection over TCP: %s", peer.name);
    ok(vl_proc_listener(&peer) == vl_proc_inode(getpid(), listener, NULL), "its listening socket");
    close(client);
    close(server);
    close(listener);
}

static void measures_processes(void)
{
    apr_uint64_t before, children_ns;
    pid_t pid = process(BURNS, 0), found[64];
    int i, n, has = 0;

    before = vl_proc_cpu_ns(pid);
    usleep(100000);
    ok(vl_proc_cpu_ns(pid) > before, "CPU time of another process grows");
    ok(vl_proc_parent(pid, &children_ns) == getpid(), "its parent");
    n = vl_proc_children(getpid(), 0, found, 64);
    for (i = 0; i < n; i++)
        has |= found[i] == pid;
    ok(has, "it is a child of its parent");
    ok(vl_proc_threads(pid, found, 64) == 1 && found[0] == pid, "its only thread");
    ok(vl_proc_count_threads(pid, 64) == 1 && !vl_proc_count_threads(pid, 0), "it has one");
    stop(pid);
    ok(!vl_proc_cpu_ns(pid) && !vl_proc_parent(pid, &children_ns), "a process that has ended");
}

#define MANY 1500

/* One read() of the kernel's list returns a page of it. */
static void lists_many_children(void)
{
    static pid_t found[MANY * 2];
    int i, n, ends[2];
    pid_t last = 0;

    if (pipe(ends)) {
        ok(0, "pipe()");
        return;
    }
    for (i = 0; i < MANY && last >= 0; i++) {
        last = fork();
        if (!last) {
            char byte;

            close(ends[1]);
            _exit((int)read(ends[0], &byte, 1));
        }
    }
    n = vl_proc_children(getpid(), 0, found, MANY * 2);
    ok(n == MANY && found[MANY - 1] == last, "all of %d children are listed: %d", MANY, n);
    ok(vl_proc_children(getpid(), 0, found, 10) == 10, "ten of them");
    close(ends[1]);
    while (wait(NULL) > 0)
        ;
    close(ends[0]);
}

int main(void)
{
    parses();
    lists_many_children();
    if (vl_proc_open()) {
        sees_what_threads_wait_for();
        finds_the_other_end_of_unix_sockets();
        finds_the_other_end_of_tcp_sockets();
    }
    else {
        printf("# the kernel answers no questions about sockets here\n");
    }
    measures_processes();
    return tap_done();
}
