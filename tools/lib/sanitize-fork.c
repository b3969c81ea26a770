/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded after a sanitizer's runtime. No runtime supports the fork of a process
 * with threads, and Apache's parent process has one for the control socket.
 * After such a fork ThreadSanitizer reports nothing in the child processes
 * (ForkChildAfter() in tsan_rtl.cpp) and ends some of them, so with NO_THREADS the
 * parent process gets no thread. Locks of AddressSanitizer stay locked in a child
 * process if the thread held them during the fork, as it does when it starts, so the
 * parent process waits for that. Apache's parent process is its session's leader. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#define BEGINS_US 50000

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*start)(void *), void *data)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                       void *);
    int parent = getsid(0) == getpid(), rv;

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
#ifdef NO_THREADS
    if (parent)
        return EAGAIN;
#endif
    rv = next(thread, attr, start, data);
    if (parent)
        usleep(BEGINS_US);
    return rv;
}
