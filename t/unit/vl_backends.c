/* SPDX-License-Identifier: Apache-2.0 */
/* What requests want of a processor whose back end has processes that serve several connections each, with real
 * ones. t/593 has the real servers. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apr_general.h>

#include "tap.h"
#include "cost/vl_backends.h"
#include "cost/vl_proc.h"

#define PROCESSES 9
#define EACH 4
#define STRIDE 3
#define ROUNDS 9

static pid_t pids[PROCESSES];
static int connections[PROCESSES * EACH];
static int threads;                 /* of each process, more than its first one; the last one computes */

static void *run(void *computes)
{
    while (computes)
        continue;
    pause();
    return NULL;
}

/* A process of the back end that has accepted EACH connections, and computes or waits. */
static void serve(int listener, int computes)
{
    pthread_t thread;
    char byte;
    int i, fd = -1;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (i = 0; i < EACH; i++) {
        fd = accept(listener, NULL, NULL);
        if (write(fd, "", 1) != 1)
            _exit(1);
    }
    for (i = 1; i <= threads; i++)
        pthread_create(&thread, NULL, run, computes && i == threads ? &byte : NULL);
    while (computes && !threads)
        continue;
    _exit(recv(fd, &byte, 1, 0) < 0);
}

/* Starts a back end of which so many processes compute. Returns 1 if it serves all connections. */
static int begin(int listener, const struct sockaddr_in *address, int computing)
{
    char byte;
    int i, n = 0;

    for (i = 0; i < PROCESSES * EACH; i++) {
        if (i % EACH == 0 && !(pids[i / EACH] = fork()))
            serve(listener, i / EACH < computing);
        connections[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        n += !connect(connections[i], (const struct sockaddr *)address, sizeof(*address))
             && recv(connections[i], &byte, 1, 0) == 1;
    }
    return n == PROCESSES * EACH;
}

static void end(void)
{
    int i;

    for (i = 0; i < PROCESSES; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    for (i = 0; i < PROCESSES * EACH; i++)
        close(connections[i]);
}

/* Returns what a request wants on the average, permille. Requests wait for all connections, and each round looks at
 * one of STRIDE. */
static unsigned wanted(apr_pool_t *p)
{
    vl_backends_t *b = vl_backends_create(p, getpid());
    apr_uint32_t runs, sum = 0, looks = 0;
    int round, i;

    for (round = 0; round < ROUNDS; round++) {
        vl_backends_begin(b, (round + 1) * APR_USEC_PER_SEC, NULL, 0, STRIDE);
        for (i = round % STRIDE; i < PROCESSES * EACH; i += STRIDE) {
            vl_backends_look(b, 1, getpid(), getpid(), connections[i], &runs);
            /* In the first rounds the processes are found. */
            sum += round < STRIDE ? 0 : runs;
            looks += round >= STRIDE;
        }
    }
    return looks ? sum / looks : 0;
}

static void shares(apr_pool_t *p, int computing, unsigned least, unsigned most)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    unsigned permille;

    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, EACH)
        || getsockname(listener, (struct sockaddr *)&address, &size) || !begin(listener, &address, computing)) {
        ok(0, "%d processes serve %d connections", PROCESSES, PROCESSES * EACH);
    }
    else {
        permille = wanted(p);
        ok(permille >= least && permille <= most, "%d of %d processes of %d threads compute: each of %d requests wants %u permille",
           computing, PROCESSES, 1 + threads, PROCESSES * EACH, permille);
    }
    end();
    close(listener);
}

#define POOLS 2

/* A process with a child for each listening socket, which accepts one connection and computes. */
static void be_master(const int listeners[POOLS])
{
    pid_t parent = getpid();
    int i, k;

    for (i = 0; i < POOLS; i++) {
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            /* As PHP-FPM does. */
            dup2(listeners[i], 0);
            for (k = 0; k < POOLS && getppid() == parent; k++)
                close(listeners[k]);
            for (accept(0, NULL, NULL);;)
                continue;
        }
    }
    pause();
}

/* When the process of one pool is found, those of the master's other pools are found without its list of children: their
 * connections have the same descriptor. */
static void pools(apr_pool_t *p)
{
    struct sockaddr_in address[POOLS];
    socklen_t size = sizeof(address[0]);
    vl_backends_t *b;
    int listeners[POOLS], clients[POOLS], i, round, reads = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), is_read;
    apr_uint32_t runs = 0;
    char path[64], events[4096];
    pid_t master, server;

    for (i = 0; i < POOLS; i++) {
        address[i] = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        listeners[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listeners[i], (struct sockaddr *)&address[i], size) || listen(listeners[i], 1)
            || getsockname(listeners[i], (struct sockaddr *)&address[i], &size))
            ok(0, "an address for a pool");
    }
    /* The processes that Apache itself has started would be found in another way. */
    if (!(server = fork())) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
    }
    b = vl_backends_create(p, server);
    if (!(master = fork())) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_master(listeners);
        _exit(1);
    }
    for (i = 0; i < POOLS; i++) {
        close(listeners[i]);
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ok(!connect(clients[i], (struct sockaddr *)&address[i], size), "a connection to pool %d", i);
    }
    usleep(200000);
    for (round = 1; round < 4; round++) {
        vl_backends_begin(b, round * APR_USEC_PER_SEC, NULL, 0, 1);
        vl_backends_look(b, 1, getpid(), getpid(), clients[0], &runs);
    }
    ok(runs == 1000, "the process of the first pool computes: %u permille", runs);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)master, (int)master);
    ok(inotify_add_watch(reads, path, IN_OPEN) >= 0, "the list of the master's children is watched");
    vl_backends_begin(b, 4 * APR_USEC_PER_SEC, NULL, 0, 1);
    vl_backends_look(b, 2, getpid(), getpid(), clients[1], &runs);
    is_read = read(reads, events, sizeof(events)) > 0;
    ok(runs == 1000 && !is_read, "that of the second one is found without it: %u permille%s", runs, is_read ? ", read" : "");
    kill(master, SIGKILL);
    waitpid(master, NULL, 0);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    for (i = 0; i < POOLS; i++)
        close(clients[i]);
    close(reads);
}

int main(void)
{
    apr_pool_t *p;

    if (!vl_proc_open()) {
        printf("1..0 # SKIP the kernel answers no questions about sockets\n");
        return 0;
    }
    apr_initialize();
    apr_pool_create(&p, NULL);
    shares(p, 0, 0, 10);
    shares(p, 1, 10, 100);
    shares(p, PROCESSES, 150, 400);
    threads = 150;
    shares(p, PROCESSES, 80, 500);
    shares(p, 0, 0, 10);
    pools(p);
    apr_terminate();
    return tap_done();
}
