/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server. The module's clock is ahead by as many seconds as the file
 * that SHIFT names has bytes (truncate -s N sets it in one step, never back).
 *
 * Only calls that the module itself makes see the shifted time, so httpd's own
 * timeouts are as before. A wait on a condition ends at its deadline on the shifted
 * clock, also when the clock is shifted during the wait. The other waits of the
 * module (epoll_pwait, poll) are shorter than a second or end with an event. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SECOND_NS 1000000000L
/* A wait looks at the shift again after this time. */
#define SLICE_NS 20000000L

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_timedwait)(pthread_cond_t *, pthread_mutex_t *,
                             const struct timespec *);

__attribute__((constructor)) static void find_real(void)
{
    *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    *(void **)&real_timedwait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait",
                                       "GLIBC_2.3.2");
    if (!real_timedwait)
        *(void **)&real_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
}

static int is_module(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) && info.dli_fname
           && strstr(info.dli_fname, "mod_vhostlimit");
}

static time_t shift(void)
{
    const char *name = getenv("SHIFT");
    struct stat info;

    return name && !stat(name, &info) ? (time_t)info.st_size : 0;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    int rc;

    if (!real_clock_gettime)
        find_real();
    rc = real_clock_gettime(clock, ts);
    if (!rc && clock == CLOCK_MONOTONIC && is_module(__builtin_return_address(0)))
        ts->tv_sec += shift();
    return rc;
}

static int is_over(const struct timespec *now, const struct timespec *until)
{
    return now->tv_sec > until->tv_sec
           || (now->tv_sec == until->tv_sec && now->tv_nsec >= until->tv_nsec);
}

/* The module's conditions count with CLOCK_MONOTONIC (VL_CLOCK). */
int pthread_cond_timedwait(pthread_cond_t *restrict cond,
                           pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    if (!is_module(__builtin_return_address(0)))
        return real_timedwait(cond, mutex, until);
    for (;;) {
        struct timespec now, slice, real_until = *until;
        int rc;

        real_clock_gettime(CLOCK_MONOTONIC, &now);
        real_until.tv_sec -= shift();
        slice = now;
        slice.tv_nsec += SLICE_NS;
        if (slice.tv_nsec >= SECOND_NS) {
            slice.tv_sec++;
            slice.tv_nsec -= SECOND_NS;
        }
        rc = real_timedwait(cond, mutex,
                            is_over(&slice, &real_until) ? &real_until : &slice);
        if (rc != ETIMEDOUT || is_over(&slice, &real_until))
            return rc;
    }
}
