/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int wanted_by_set(void *data, unsigned cpu)
{
    return cpu < CPU_SETSIZE && CPU_ISSET(cpu, (cpu_set_t *)data);
}

apr_uint32_t vl_cpu_count(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set))
        return 1;
    return (apr_uint32_t)CPU_COUNT(&set);
}

void vl_cpu_parse(const char *text, int (*wanted)(void *data, unsigned cpu),
                  void *data, vl_cpu_t *ret_cpu)
{
    const char *line;

    ret_cpu->busy = ret_cpu->total = 0;
    for (line = text; line; line = strchr(line, '\n')) {
        unsigned long long t[8];    /* user nice system idle iowait irq
                                     * softirq steal (proc(5)) */
        unsigned cpu;

        line += *line == '\n';
        if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &cpu,
                   &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) != 9
            || !wanted(data, cpu))
            continue;
        ret_cpu->busy += t[0] + t[1] + t[2] + t[5] + t[6] + t[7];
        ret_cpu->total += t[0] + t[1] + t[2] + t[5] + t[6] + t[7] + t[3] + t[4];
    }
}

apr_status_t vl_cpu_read(vl_cpu_t *ret_cpu)
{
    char text[16384];           /* the lines of 150 processors come first */
    cpu_set_t set;
    ssize_t n;
    int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return errno;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0 || sched_getaffinity(0, sizeof(set), &set))
        return APR_EGENERAL;
    text[n] = '\0';
    vl_cpu_parse(text, wanted_by_set, &set, ret_cpu);
    return APR_SUCCESS;
}

apr_uint32_t vl_cpu_busy_permille(const vl_cpu_t *from, const vl_cpu_t *to)
{
    if (to->total <= from->total)
        return 1000;
    return (apr_uint32_t)((to->busy - from->busy) * 1000
                          / (to->total - from->total));
}
