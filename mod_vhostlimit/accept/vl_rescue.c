/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_rescue.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <httpd.h>

#include <http_core.h>
#include <http_log.h>

#include "accept/vl_child.h"
#include "base/vl_private.h"
#include "cgroup/vl_cgroup.h"
#include "core/vl_slot.h"
#include "core/vl_shm_child.h"

/* Tells the rescue process that the thread which started it has ended. httpd sends children
 * no SIGUSR2. */
#define DEATH_SIGNAL SIGUSR2
#define STACK_SIZE (64 * 1024)
/* Descriptors from here on are not noted. */
#define MOST_DESCRIPTORS (1 << 20)
/* How long the other child processes have to receive the connections. */
#define TRIES 1000
#define TRY_MS 10
/* How long a child that ends waits for the end of its rescue process. */
#define END_TRIES 1000
#define END_TRY_MS 1

typedef struct note_t {
    int noted;
    vl_passed_t passed;
} note_t;

/* Memory that the child process and its rescue process share. */
typedef struct notes_t {
    pid_t child;
    int ends;                   /* the child process ends in an orderly way */
    int limit;                  /* number of notes */
    int used;                   /* 1 + the largest descriptor that was ever noted */
    note_t note[];
} notes_t;

static notes_t *notes;          /* NULL: there is no memory for a rescue process */
static char *stack;
static pid_t rescue_pid;        /* 0: it does not run; the acceptor's */
static int cannot_start;

void vl_rescue_note(int fd, const vl_passed_t *passed)
{
    if (!notes || fd >= notes->limit)
        return;
    if (fd >= notes->used)
        notes->used = fd + 1;
    notes->note[fd].passed = *passed;
    __atomic_store_n(&notes->note[fd].noted, 1, __ATOMIC_RELEASE);
}

void vl_rescue_forget(int fd)
{
    if (notes && fd >= 0 && fd < notes->limit)
        __atomic_store_n(&notes->note[fd].noted, 0, __ATOMIC_RELEASE);
}

/* --- the rescue process ---------------------------------------------------- */

/* What follows runs in a process with a copy of the child's memory as it was at the start.
 * Another thread of the child may have held any lock then, so these functions take none and
 * allocate nothing. */

/* Closes what the dead child had open besides: its clients must not wait for this process.
 * Without the read end of the pair here, a pair that no process reads is an error. */
static void close_others(void)
{
    int fd;

    for (fd = 0; fd < notes->limit; fd++) {
        if ((fd >= notes->used || !notes->note[fd].noted) && fd != vl_child.transfer_pair[1])
            close(fd);
    }
}

/* Sends the connections to whichever child process reads first. Returns 0 if none has read
 * in time, or if none is left. */
static int send_all(const int *fds, const vl_passed_t *passed, apr_size_t n)
{
    apr_status_t rv;
    int tries;

    for (tries = 0; (rv = vl_transfer_send(vl_child.transfer_pair, fds, passed, n))
                    != APR_SUCCESS; tries++) {
        if (tries == TRIES || (!APR_STATUS_IS_EAGAIN(rv) && rv != ETOOMANYREFS))
            return 0;
        if (!tries) {
            vl_slot_wake_all(vl_child.shm);
            close_others();
        }
        poll(NULL, 0, TRY_MS);
    }
    vl_transfer_close(fds, n);
    return 1;
}

static void rescue(void)
{
    int fds[VL_TRANSFER_MAX], fd;
    vl_passed_t passed[VL_TRANSFER_MAX];
    apr_size_t n = 0;

    for (fd = 0; fd < notes->used; fd++) {
        if (!notes->note[fd].noted)
            continue;
        fds[n] = fd;
        passed[n++] = notes->note[fd].passed;
        if (n == VL_TRANSFER_MAX) {
            if (!send_all(fds, passed, n))
                return;
            n = 0;
        }
    }
    if (n)
        send_all(fds, passed, n);
}

/* All signals are blocked here: httpd sends its own to the whole process group. */
static int run(void *unused)
{
    sigset_t death;

    sigemptyset(&death);
    sigaddset(&death, DEATH_SIGNAL);
    prctl(PR_SET_NAME, VL_RESCUE_NAME);
    prctl(PR_SET_PDEATHSIG, DEATH_SIGNAL);
    while (getppid() == notes->child && !__atomic_load_n(&notes->ends, __ATOMIC_ACQUIRE))
        sigwaitinfo(&death, NULL);
    if (!__atomic_load_n(&notes->ends, __ATOMIC_ACQUIRE)) {
        vl_shm_child_died(vl_child.shm, notes->child);
        rescue();
        vl_slot_wake_all(vl_child.shm);
    }
    _exit(0);
}

/* --- its start and its end ------------------------------------------------- */

/* The rescue process ends before the child, so that nothing of the server is left in the
 * cgroup tree when the parent removes it. */
static apr_status_t end(void *unused)
{
    int tries;

    if (!rescue_pid)
        return APR_SUCCESS;
    __atomic_store_n(&notes->ends, 1, __ATOMIC_RELEASE);
    kill(rescue_pid, DEATH_SIGNAL);
    for (tries = 0; tries < END_TRIES && !waitpid(rescue_pid, NULL, __WALL | WNOHANG); tries++)
        poll(NULL, 0, END_TRY_MS);
    rescue_pid = 0;
    return APR_SUCCESS;
}

/* The clone has no exit signal, so no code of other modules that waits for its own processes
 * finds it. */
void vl_rescue_start(void)
{
    sigset_t all, before;

    if (!notes || rescue_pid || cannot_start)
        return;
    notes->ends = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rescue_pid = clone(run, stack + STACK_SIZE, CLONE_FILES, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rescue_pid > 0)
        return;
    rescue_pid = 0;
    cannot_start = 1;
    ap_log_error(APLOG_MARK, APLOG_WARNING, errno, vl_child.main_server,
                 VLOGNO(0046) "no rescue process could be started: if this child process dies, "
                 "the connections that are queued in it are lost. Raise TasksMax or the "
                 "memory limit");
}

void vl_rescue_stop(void)
{
    end(NULL);
}

int vl_rescue_runs(void)
{
    return rescue_pid != 0;
}

void vl_rescue_child_init(void)
{
    struct rlimit limit;
    notes_t *map;
    int n = MOST_DESCRIPTORS;

    if (vl_is_one_process())
        return;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < MOST_DESCRIPTORS)
        n = (int)limit.rlim_cur;
    map = mmap(NULL, sizeof(*map) + sizeof(map->note[0]) * (size_t)n, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return;
    map->child = getpid();
    map->limit = n;
    notes = map;
    stack = apr_palloc(vl_child.pool, STACK_SIZE);
    apr_pool_cleanup_register(vl_child.pool, NULL, end, apr_pool_cleanup_null);
}
