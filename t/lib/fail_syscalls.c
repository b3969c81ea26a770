/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server. Files in the folder SHORT name the calls that fail in all
 * processes, or, if the name ends in a dot and a pid, in that process.
 *   eventfd, dup, socketpair    EMFILE: no descriptor is left
 *   clone                 EAGAIN: no process can be created with clone()
 *   epoll, thread         the first one of a process cannot be created
 *   pass                  for 1.5 s descriptors cannot be passed to a process
 *   stuck                 the acceptor's thread stalls
 *   openat                the thread that looks for links in a path stalls
 *   mkdir, write          no cgroup can be created; writes to its files fail
 *   slow                  writes to files of cgroups last as long as the file is there
 *   open                  files of cgroups cannot be opened for writing */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NEXT(name) \
    do { \
        if (!next) \
            *(void **)&next = dlsym(RTLD_NEXT, name); \
    } while (0)

static int is_short(const char *what)
{
    const char *folder = getenv("SHORT");
    char name[4096];

    if (!folder)
        return 0;
    snprintf(name, sizeof(name), "%s/%s", folder, what);
    if (!access(name, F_OK))
        return 1;
    snprintf(name, sizeof(name), "%s/%s.%ld", folder, what, (long)getpid());
    return !access(name, F_OK);
}

/* Fails the first call of a process only. The MPM ends the server if its own call fails. */
static int is_first_short(const char *what, pid_t *last)
{
    if (*last == getpid() || !is_short(what))
        return 0;
    *last = getpid();
    return 1;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

static int is_cgroup(const char *path)
{
    return !strncmp(path, "/sys/fs/cgroup", strlen("/sys/fs/cgroup"));
}

static int is_cgroup_fd(int fd)
{
    char link[64], path[256] = "";

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof(path) - 1) > 0 && is_cgroup(path);
}

int eventfd(unsigned count, int flags)
{
    static int (*next)(unsigned, int);

    NEXT("eventfd");
    return is_short("eventfd") ? fail(EMFILE) : next(count, flags);
}

int socketpair(int domain, int type, int protocol, int pair[2])
{
    static int (*next)(int, int, int, int[2]);

    NEXT("socketpair");
    return is_short("socketpair") ? fail(EMFILE)
                                  : next(domain, type, protocol, pair);
}

int clone(int (*start)(void *), void *stack, int flags, void *data, ...)
{
    static int (*next)(int (*)(void *), void *, int, void *);

    NEXT("clone");
    return is_short("clone") ? fail(EAGAIN) : next(start, stack, flags, data);
}

int epoll_create1(int flags)
{
    static int (*next)(int);
    static pid_t last;

    NEXT("epoll_create1");
    return is_first_short("epoll", &last) ? fail(EMFILE) : next(flags);
}

int fcntl(int fd, int cmd, ...)
{
    static int (*next)(int, int, void *);
    va_list args;
    void *arg;

    NEXT("fcntl");
    va_start(args, cmd);
    arg = va_arg(args, void *);
    va_end(args);
    if (cmd == F_DUPFD_CLOEXEC && is_short("dup"))
        return fail(EMFILE);
    return next(fd, cmd, arg);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*start)(void *), void *data)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                       void *);
    static pid_t last;

    NEXT("pthread_create");
    return is_first_short("thread", &last) ? EAGAIN : next(thread, attr, start,
                                                           data);
}

/* Stalls while the file exists; the file "stalled.PID" shows that it does. */
static void stall(const char *what)
{
    char name[4096];

    if (!is_short(what))
        return;
    snprintf(name, sizeof(name), "%s/stalled.%ld", getenv("SHORT"),
             (long)getpid());
    close(creat(name, 0666));
    while (is_short(what))
        usleep(20000);
    unlink(name);
}

/* No other code in a server calls it. */
int epoll_pwait(int set, struct epoll_event *events, int most, int timeout,
                const sigset_t *mask)
{
    static int (*next)(int, struct epoll_event *, int, int, const sigset_t *);

    NEXT("epoll_pwait");
    stall("stuck");
    return next(set, events, most, timeout, mask);
}

int openat(int folder, const char *path, int flags, ...)
{
    static int (*next)(int, const char *, int, ...);
    va_list args;
    mode_t mode = 0;

    if (flags & O_CREAT) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    NEXT("openat");
    stall("openat");
    return next(folder, path, flags, mode);
}

static int is_over(struct timespec since)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - since.tv_sec) * 1000
           + (now.tv_nsec - since.tv_nsec) / 1000000 > 1500;
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    static ssize_t (*next)(int, const struct msghdr *, int);
    static struct timespec since;

    NEXT("sendmsg");
    if (!msg->msg_controllen || !is_short("pass"))
        return next(fd, msg, flags);
    if (!since.tv_sec)
        clock_gettime(CLOCK_MONOTONIC, &since);
    return is_over(since) ? next(fd, msg, flags) : fail(ETOOMANYREFS);
}

/* libcgroup changes to the folder in which it creates a group. */
static int is_here_cgroup(const char *path)
{
    char here[4096];

    return is_cgroup(*path == '/' || !getcwd(here, sizeof(here)) ? path
                                                                 : here);
}

int mkdir(const char *path, mode_t mode)
{
    static int (*next)(const char *, mode_t);

    NEXT("mkdir");
    return is_here_cgroup(path) && access(path, F_OK) && is_short("mkdir")
           ? fail(ENOSPC) : next(path, mode);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    static ssize_t (*next)(int, const void *, size_t);

    NEXT("write");
    while (is_short("slow") && is_cgroup_fd(fd))
        usleep(10000);
    return is_short("write") && is_cgroup_fd(fd) ? fail(ENOSPC)
                                                 : next(fd, bytes, n);
}

int open(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, mode_t);
    va_list args;
    mode_t mode;

    NEXT("open");
    va_start(args, flags);
    mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (flags & (O_WRONLY | O_RDWR) && is_cgroup(path) && is_short("open"))
        return fail(EACCES);
    return next(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*next)(const char *, const char *);

    NEXT("fopen");
    if (*mode != 'r' && is_cgroup(path) && is_short("open")) {
        errno = EACCES;
        return NULL;
    }
    return next(path, mode);
}
