/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded after a sanitizer's runtime, none of which gets over the fork of a
 * process with threads, as Apache's parent is with that of the control socket.
 * ThreadSanitizer reports nothing in the children then (ForkChildAfter() in
 * tsan_rtl.cpp), and ends some: with NO_THREADS the parent gets no thread.
 * AddressSanitizer's locks stay locked in a child if the thread held them, as it
 * does while it begins: the parent waits for that.
 * Apache's parent is the one that leads its session. */
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
