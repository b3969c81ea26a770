/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CPU_H
#define VL_CPU_H

/* How busy the processors are that the server may use. */

#include <sys/types.h>

#include <apr_errno.h>

typedef struct vl_cpu_t {
    apr_uint64_t busy, total;   /* in clock ticks, since boot */
    apr_uint64_t work;          /* of busy: what processes have used */
} vl_cpu_t;

/* Processors the calling thread may run on (sched_getaffinity). */
apr_uint32_t vl_cpu_count(void);
/* Their times, from /proc/stat.  Stolen time is busy: it cannot be had. */
apr_status_t vl_cpu_read(vl_cpu_t *ret_cpu);
/* CPU time that a process has used, us; 0 if there is none with that number. */
apr_uint64_t vl_cpu_of_process(pid_t pid);
/* Of the time between two readings, passed_us apart: how many thousandths of a
 * processor processes have used that are not those of used_us. */
apr_uint32_t vl_cpu_others_permille(const vl_cpu_t *from, const vl_cpu_t *to,
                                    apr_uint64_t used_us,
                                    apr_int64_t passed_us);
/* Permille of the time between two readings; 1000 when none has passed. */
apr_uint32_t vl_cpu_busy_permille(const vl_cpu_t *from, const vl_cpu_t *to);

/* The sum over the lines "cpuN ..." of `text` for which wanted(data, N).  Pure;
 * here for its tests. */
void vl_cpu_parse(const char *text, int (*wanted)(void *data, unsigned cpu),
                  void *data, vl_cpu_t *ret_cpu);

#endif
