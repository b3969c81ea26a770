/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server. While the file named by NO_LOCK exists, robust process-shared
 * mutexes, such as that of the module's shared memory, cannot be locked. Each thread may still
 * take as many locks as the file has bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#define ROBUST 16               /* of __kind, in glibc */

static int is_deaf(void)
{
    static __thread off_t heard;
    const char *file = getenv("NO_LOCK");
    struct stat info;

    if (file && !stat(file, &info))
        return heard++ >= info.st_size;
    heard = 0;
    return 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*next)(pthread_mutex_t *);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    if (mutex->__data.__kind & ROBUST && is_deaf())
        return EINVAL;
    return next(mutex);
}
