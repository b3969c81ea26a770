/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CPU_H
#define VL_CPU_H

/* Load of the processors that the server may use, and CPU times of processes, as read from
 * the kernel. No state, no lock. */

#include <sys/types.h>

#include <apr_errno.h>

typedef struct vl_cpu_t {
    apr_uint64_t busy, total;   /* in clock ticks, since boot */
    apr_uint64_t work;          /* part of busy: used by processes */
} vl_cpu_t;

/* Returns the number of processors that the calling thread may run on
 * (sched_getaffinity). */
apr_uint32_t vl_cpu_count(void);
/* Reads the times of those processors from /proc/stat. Stolen time counts as busy, because
 * it is not available. */
apr_status_t vl_cpu_read(vl_cpu_t *ret_cpu);
/* Returns the CPU time that a process has used, us; 0 if there is no such process. */
apr_uint64_t vl_cpu_of_process(pid_t pid);
/* Returns how many thousandths of a processor other processes used between two readings
 * that are passed_us apart. used_us: CPU time of the processes that are not counted. */
apr_uint32_t vl_cpu_others_permille(const vl_cpu_t *from, const vl_cpu_t *to,
                                    apr_uint64_t used_us,
                                    apr_int64_t passed_us);
/* Returns the busy permille of the time between two readings; 1000 if no time has
 * passed. */
apr_uint32_t vl_cpu_busy_permille(const vl_cpu_t *from, const vl_cpu_t *to);

/* Sums up the lines "cpuN ..." of `text` for which wanted(data, N) returns non-zero. Pure;
 * declared for its tests. */
void vl_cpu_parse(const char *text, int (*wanted)(void *data, unsigned cpu),
                  void *data, vl_cpu_t *ret_cpu);

#endif
