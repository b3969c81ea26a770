/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_cgroup_value.h"

#include <string.h>

#include <apr_strings.h>
#include <apr_tables.h>

/* Bounds of cpu.shares (kernel/sched/sched.h). */
#define SHARES_MIN 2
#define SHARES_MAX 262144

/* The kernel's default period of the CPU quota.  The unused part of a quota expires at the
 * end of the period. */
#define PERIOD_US 100000

const char *vl_cgroup_controller_name(vl_cgroup_controller_e controller,
                                      int version)
{
    static const char *const names[VL_CG_CONTROLLERS][2] = {
        { "cpu", "cpu" },
        { "cpuacct", "" },
        { "memory", "memory" },
        { "pids", "pids" },
        { "blkio", "io" }
    };

    return names[controller][version - 1];
}

unsigned vl_cgroup_needs(const vl_cgroup_limits_t *limits)
{
    return (limits->cpu ? 1u << VL_CG_CPU : 0)
           | (limits->memory ? 1u << VL_CG_MEMORY : 0)
           | (limits->processes ? 1u << VL_CG_PIDS : 0)
           | (limits->io ? 1u << VL_CG_IO : 0);
}

/* Appends one write to the list. */
static void put(apr_array_header_t *values, const char *file,
                const char *value, int optional)
{
    vl_cgroup_value_t *to = apr_array_push(values);

    to->file = file;
    to->value = value;
    to->optional = optional;
}

static void put_cpu(apr_array_header_t *values, int version,
                    const vl_cgroup_limits_t *limits)
{
    apr_uint32_t shares = limits->weight * 1024 / 100;
    apr_int64_t quota = (apr_int64_t)limits->cpu * (PERIOD_US / 100);
    apr_pool_t *p = values->pool;

    if (version == 2) {
        put(values, "cpu.weight", apr_psprintf(p, "%u", limits->weight), 0);
        put(values, "cpu.max", limits->cpu
            ? apr_psprintf(p, "%" APR_INT64_T_FMT " %d", quota, PERIOD_US)
            : "max", !limits->cpu);
        return;
    }
    if (shares < SHARES_MIN)
        shares = SHARES_MIN;
    if (shares > SHARES_MAX)
        shares = SHARES_MAX;
    put(values, "cpu.shares", apr_psprintf(p, "%u", shares), 0);
    if (limits->cpu)
        put(values, "cpu.cfs_period_us", apr_psprintf(p, "%d", PERIOD_US), 0);
    put(values, "cpu.cfs_quota_us", limits->cpu
        ? apr_psprintf(p, "%" APR_INT64_T_FMT, quota) : "-1", !limits->cpu);
}

/* v1 limits memory plus swap, and rejects a sum that is less than the memory limit at any
 * moment.  So the limit of the sum is removed first.  v2 limits swap separately: an
 * account with a memory limit gets no swap. */
static void put_memory(apr_array_header_t *values, int version,
                       const vl_cgroup_limits_t *limits)
{
    const char *bytes = apr_psprintf(values->pool, "%" APR_INT64_T_FMT,
                                     limits->memory);

    if (version == 2) {
        put(values, "memory.max", limits->memory ? bytes : "max",
            !limits->memory);
        put(values, "memory.swap.max", limits->memory ? "0" : "max", 1);
        return;
    }
    put(values, "memory.memsw.limit_in_bytes", "-1", 1);
    put(values, "memory.limit_in_bytes", limits->memory ? bytes : "-1",
        !limits->memory);
    if (limits->memory)
        put(values, "memory.memsw.limit_in_bytes", bytes, 1);
}

static void put_io(apr_array_header_t *values, int version,
                   const vl_cgroup_limits_t *limits,
                   const char *const *disks)
{
    apr_pool_t *p = values->pool;
    const char *v1 = apr_psprintf(p, "%" APR_INT64_T_FMT, limits->io);
    const char *v2 = limits->io ? v1 : "max";
    int optional = !limits->io;

    for (; *disks; disks++) {
        if (version == 2) {
            put(values, "io.max", apr_psprintf(p, "%s rbps=%s wbps=%s", *disks,
                                               v2, v2), optional);
            continue;
        }
        put(values, "blkio.throttle.read_bps_device",
            apr_psprintf(p, "%s %s", *disks, v1), optional);
        put(values, "blkio.throttle.write_bps_device",
            apr_psprintf(p, "%s %s", *disks, v1), optional);
    }
}

const vl_cgroup_value_t *vl_cgroup_values(apr_pool_t *p,
                                          vl_cgroup_controller_e controller,
                                          int version,
                                          const vl_cgroup_limits_t *limits,
                                          const char *const *disks)
{
    apr_array_header_t *values = apr_array_make(p, 4,
                                                sizeof(vl_cgroup_value_t));

    switch (controller) {
    case VL_CG_CPU:
        put_cpu(values, version, limits);
        break;
    case VL_CG_MEMORY:
        put_memory(values, version, limits);
        break;
    case VL_CG_PIDS:
        put(values, "pids.max", limits->processes
            ? apr_psprintf(p, "%u", limits->processes) : "max",
            !limits->processes);
        break;
    case VL_CG_IO:
        put_io(values, version, limits, disks);
        break;
    default:
        break;
    }
    put(values, NULL, NULL, 0);
    return (const vl_cgroup_value_t *)values->elts;
}

int vl_cgroup_lists(const char *list, const char *word)
{
    apr_size_t len = strlen(word);
    const char *at;

    for (at = strstr(list, word); at; at = strstr(at + 1, word)) {
        if ((at == list || strchr(" ,", at[-1])) && (!at[len] || strchr(" ,\n", at[len])))
            return 1;
    }
    return 0;
}
