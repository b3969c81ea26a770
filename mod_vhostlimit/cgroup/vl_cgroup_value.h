/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_VALUE_H
#define VL_CGROUP_VALUE_H

/* What an account's limits are called in the kernel's files, and what is
 * written into them.  Pure. */

#include <apr_pools.h>

typedef enum {
    VL_CG_CPU,
    VL_CG_CPUACCT,              /* v2 has none: any group's cpu.stat tells */
    VL_CG_MEMORY,
    VL_CG_PIDS,
    VL_CG_IO,
    VL_CG_CONTROLLERS
} vl_cgroup_controller_e;

/* Limits of the account's group; 0 is none. */
typedef struct vl_cgroup_limits_t {
    apr_uint32_t weight;        /* 1 to 10000, 100 is the kernel's own */
    apr_uint32_t cpu;           /* percent of one CPU */
    apr_int64_t memory;         /* bytes, swap included */
    apr_uint32_t processes;
    apr_int64_t io;             /* bytes a second, each disk, each way */
} vl_cgroup_limits_t;

/* In the order they are to be written in; file NULL ends the list. */
typedef struct vl_cgroup_value_t {
    const char *file, *value;
    int optional;               /* no harm if the kernel takes it not */
} vl_cgroup_value_t;

/* Name of the controller in that version, "" where it has none. */
const char *vl_cgroup_controller_name(vl_cgroup_controller_e controller,
                                      int version);
/* 1 << controller for each one the limits cannot do without.  The weight is no
 * limit. */
unsigned vl_cgroup_needs(const vl_cgroup_limits_t *limits);
/* disks: "8:0" and so on, NULL-terminated. */
const vl_cgroup_value_t *vl_cgroup_values(apr_pool_t *p,
                                          vl_cgroup_controller_e controller,
                                          int version,
                                          const vl_cgroup_limits_t *limits,
                                          const char *const *disks);
/* Is the word in a list like cgroup.controllers? */
int vl_cgroup_lists(const char *list, const char *word);

#endif
