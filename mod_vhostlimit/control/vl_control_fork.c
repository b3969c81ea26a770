/* SPDX-License-Identifier: Apache-2.0 */
#include "control/vl_control_int.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <apr_portable.h>

#include "cgroup/vl_cgroup_file.h"

server_rec *vl_control_server;
vl_shm_t *vl_control_shm;
const vl_cgroup_t *vl_control_cgroup;

static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
/* Threads that wait to fork. */
static int forks;
static int end_fd = -1;
static int limit_fd = -1;           /* a file of a cgroup that is being written, or -1 */
static int log_fd = -1;             /* of the error log; -1: it is syslog */

static void lock_for_fork(void)
{
    __atomic_add_fetch(&forks, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&fork_lock);
    __atomic_sub_fetch(&forks, 1, __ATOMIC_RELAXED);
}

void vl_control_fork_lock(void)
{
    pthread_mutex_lock(&fork_lock);
}

void vl_control_fork_unlock(void)
{
    pthread_mutex_unlock(&fork_lock);
}

int vl_control_fork_may_log(void)
{
    struct pollfd pfds[] = { { .fd = log_fd, .events = POLLOUT },
                             { .fd = end_fd, .events = POLLIN } };

    if (__atomic_load_n(&forks, __ATOMIC_RELAXED) || (log_fd >= 0 && !poll(pfds, 1, 0))) {
        pthread_mutex_unlock(&fork_lock);
        if (log_fd >= 0)
            poll(pfds, 2, -1);
        while (__atomic_load_n(&forks, __ATOMIC_RELAXED))
            sched_yield();
        pthread_mutex_lock(&fork_lock);
    }
    return log_fd < 0 || pfds[0].revents;
}

/* vl_cgroup_write_hook. A child that is forked meanwhile has a copy of the descriptor, which only
 * root may have; vl_control_fork_child_init() closes it. */
static void let_fork(int fd)
{
    if (fd < 0)
        pthread_mutex_lock(&fork_lock);
    limit_fd = fd;
    if (fd >= 0)
        pthread_mutex_unlock(&fork_lock);
}

static void register_handlers(void)
{
    pthread_atfork(lock_for_fork, vl_control_fork_unlock, vl_control_fork_unlock);
}

void vl_control_fork_post_config(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (!vl_control_server->error_log
        || apr_os_file_get(&log_fd, vl_control_server->error_log) != APR_SUCCESS)
        log_fd = -1;
    pthread_once(&once, register_handlers);
}

void vl_control_fork_begin(int fd)
{
    end_fd = fd;
    limit_fd = -1;
    vl_cgroup_write_hook = let_fork;
}

void vl_control_fork_child_init(void)
{
    if (limit_fd >= 0)
        close(limit_fd);
}
