/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server. A process that finds a file named after its pid in the
 * folder FALL dies of a segmentation fault while it holds the lock of the module's
 * shared memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROBUST 16               /* of __kind, in glibc */

static int is_to_fall(void)
{
    const char *folder = getenv("FALL");
    char name[4096];

    if (!folder)
        return 0;
    snprintf(name, sizeof(name), "%s/%ld", folder, (long)getpid());
    return !access(name, F_OK);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static int (*next)(pthread_mutex_t *);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    if (mutex->__data.__kind & ROBUST && is_to_fall()) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    return next(mutex);
}
