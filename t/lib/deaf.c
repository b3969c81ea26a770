/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server: while the file that DEAF names is there,
 * nobody gets a lock that processes share and that outlives its holder, as those of
 * the module's shared memory are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define ROBUST 16               /* of __kind, in glibc */

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*next)(pthread_mutex_t *);
    const char *file = getenv("DEAF");

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    if (mutex->__data.__kind & ROBUST && file && !access(file, F_OK))
        return EINVAL;
    return next(mutex);
}
