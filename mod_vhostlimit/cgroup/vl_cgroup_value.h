/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CGROUP_VALUE_H
#define VL_CGROUP_VALUE_H

/* Translates the limits of an account to the names and values of the kernel's cgroup files.
 * The functions have no side effects and need no lock; any thread may call them. */

#include <apr_pools.h>

typedef enum {
    VL_CG_CPU,
    VL_CG_CPUACCT,              /* v1 only; in v2 every group has cpu.stat */
    VL_CG_MEMORY,
    VL_CG_PIDS,
    VL_CG_IO,
    VL_CG_CONTROLLERS
} vl_cgroup_controller_e;

/* Limits of the account's group; 0 means no limit. */
typedef struct vl_cgroup_limits_t {
    apr_uint32_t weight;        /* 1 to 10000; the kernel's default is 100 */
    apr_uint32_t cpu;           /* percent of one CPU */
    apr_int64_t memory;         /* bytes, including swap */
    apr_uint32_t processes;
    apr_int64_t io;             /* bytes per second, for each disk and direction */
} vl_cgroup_limits_t;

/* One write to a cgroup file.  Lists end with file NULL and must be written in order. */
typedef struct vl_cgroup_value_t {
    const char *file, *value;
    int optional;               /* 1: a failure of the write is ignored */
} vl_cgroup_value_t;

/* Returns the controller's name in cgroup version 1 or 2, "" if that version lacks it. */
const char *vl_cgroup_controller_name(vl_cgroup_controller_e controller,
                                      int version);
/* Returns the controllers that the limits require, as a set of bits 1 << controller.  The
 * weight is not a limit and requires none. */
unsigned vl_cgroup_needs(const vl_cgroup_limits_t *limits);
/* Returns the writes that set the limits of one controller, allocated in p.  disks: see
 * vl_cgroup_disks(). */
const vl_cgroup_value_t *vl_cgroup_values(apr_pool_t *p,
                                          vl_cgroup_controller_e controller,
                                          int version,
                                          const vl_cgroup_limits_t *limits,
                                          const char *const *disks);
/* Returns 1 if the word is in a list like cgroup.controllers, separated by spaces or commas. */
int vl_cgroup_lists(const char *list, const char *word);

#endif
