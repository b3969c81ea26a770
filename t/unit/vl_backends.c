/* SPDX-License-Identifier: Apache-2.0 */
/* What requests want of a processor whose back end has processes that serve several connections each, with real
 * ones. t/593 has the real servers. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
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
    apr_terminate();
    return tap_done();
}
