/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Size of the start of /proc/stat that is read. The lines of the processors come first and
 * have ten numbers each. */
#define START_SIZE (CPU_SETSIZE * 128)

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

/* Parses "cpuN user nice system idle iowait irq softirq steal ..." (proc(5)). Returns N, or
 * -1 for any other line. */
static int parse_line(const char *line, unsigned long long ticks[8])
{
    const char *end = line + strcspn(line, "\n");
    char *at;
    unsigned long cpu;
    int i;

    if (strncmp(line, "cpu", 3) || line[3] < '0' || line[3] > '9')
        return -1;
    cpu = strtoul(line + 3, &at, 10);
    for (i = 0; i < 8; i++) {
        while (*at == ' ')
            at++;
        if (at >= end || *at < '0' || *at > '9')
            return -1;
        ticks[i] = strtoull(at, &at, 10);
    }
    return cpu < CPU_SETSIZE ? (int)cpu : -1;
}

void vl_cpu_parse(const char *text, int (*wanted)(void *data, unsigned cpu),
                  void *data, vl_cpu_t *ret_cpu)
{
    const char *line;

    ret_cpu->busy = ret_cpu->total = ret_cpu->work = 0;
    for (line = text; line; line = strchr(line, '\n')) {
        unsigned long long t[8], busy;
        int cpu;

        line += *line == '\n';
        cpu = parse_line(line, t);
        if (cpu < 0 || !wanted(data, (unsigned)cpu))
            continue;
        busy = t[0] + t[1] + t[2] + t[5] + t[6] + t[7];
        ret_cpu->busy += busy;
        ret_cpu->total += busy + t[3] + t[4];
        ret_cpu->work += t[0] + t[1] + t[2];
    }
}

/* Returns the start of the file in allocated memory, or NULL if it cannot be read. */
static char *read_start(const char *file)
{
    char *text = malloc(START_SIZE);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = text && fd >= 0 ? read(fd, text, START_SIZE - 1) : -1;

    if (fd >= 0)
        close(fd);
    if (n > 0) {
        text[n] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

apr_status_t vl_cpu_read(vl_cpu_t *ret_cpu)
{
    cpu_set_t set;
    char *text = read_start("/proc/stat");
    apr_status_t rv = text && !sched_getaffinity(0, sizeof(set), &set)
                      ? APR_SUCCESS : APR_EGENERAL;

    if (rv == APR_SUCCESS)
        vl_cpu_parse(text, wanted_by_set, &set, ret_cpu);
    free(text);
    return rv;
}

apr_uint32_t vl_cpu_busy_permille(const vl_cpu_t *from, const vl_cpu_t *to)
{
    apr_uint64_t busy = to->busy > from->busy ? to->busy - from->busy : 0;
    apr_uint64_t total = to->total > from->total ? to->total - from->total : 0;

    if (busy >= total)          /* idle times may decrease (proc(5)) */
        return 1000;
    return (apr_uint32_t)(busy * 1000 / total);
}

apr_uint64_t vl_cpu_of_process(pid_t pid)
{
    clockid_t clock;
    struct timespec used;

    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
        return 0;
    return (apr_uint64_t)used.tv_sec * 1000000
           + (apr_uint64_t)used.tv_nsec / 1000;
}

apr_uint32_t vl_cpu_others_permille(const vl_cpu_t *from, const vl_cpu_t *to,
                                    apr_uint64_t used_us,
                                    apr_int64_t passed_us)
{
    apr_uint64_t ticks = to->work > from->work ? to->work - from->work : 0;
    apr_uint64_t us = ticks * 1000000 / (apr_uint64_t)sysconf(_SC_CLK_TCK);

    if (us <= used_us || passed_us <= 0)
        return 0;
    return (apr_uint32_t)((us - used_us) * 1000 / (apr_uint64_t)passed_us);
}
