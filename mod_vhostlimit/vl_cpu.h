/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CPU_H
#define VL_CPU_H

/* How busy the processors are that the server may use. */

#include <apr_errno.h>

typedef struct vl_cpu_t {
    apr_uint64_t busy, total;   /* in clock ticks, since boot */
} vl_cpu_t;

/* Processors the calling thread may run on (sched_getaffinity). */
apr_uint32_t vl_cpu_count(void);
/* Their times, from /proc/stat.  Stolen time is busy: it cannot be had. */
apr_status_t vl_cpu_read(vl_cpu_t *ret_cpu);
/* Permille of the time between two readings; 1000 when none has passed. */
apr_uint32_t vl_cpu_busy_permille(const vl_cpu_t *from, const vl_cpu_t *to);

/* The sum over the lines "cpuN ..." of `text` for which wanted(data, N).  Pure;
 * here for its tests. */
void vl_cpu_parse(const char *text, int (*wanted)(void *data, unsigned cpu),
                  void *data, vl_cpu_t *ret_cpu);

#endif
