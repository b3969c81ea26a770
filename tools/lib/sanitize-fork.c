/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded after a sanitizer's runtime, which forgets two things when a process
 * with threads forks, as Apache's parent does with the thread of the control
 * socket.  ThreadSanitizer ends a child whose thread has the id (that is, the
 * stack) of one of its parent's: the parent's are too large to be used again.
 * AddressSanitizer's locks stay locked in a child if the parent's thread held them,
 * as it does while it begins: the parent waits for that.
 * Apache's parent is the one that leads its session. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#define STACK_SIZE (256u << 20)
#define BEGINS_US 50000

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*start)(void *), void *data)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                       void *);
    pthread_attr_t large;
    int rv;

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    if (getsid(0) != getpid())
        return next(thread, attr, start, data);
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, STACK_SIZE);
    rv = next(thread, &large, start, data);
    pthread_attr_destroy(&large);
    usleep(BEGINS_US);
    return rv;
}
