/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_child.h"

#include <sys/resource.h>

#include <ap_mpm.h>

vl_child_t vl_child;

void vl_child_init(const vl_child_t *child, int threads)
{
    struct rlimit limit;
    rlim_t reserved;

    vl_child = *child;
    /* As many other connections are allowed as lingering ones. Both together use the descriptors
     * below RLIMIT_NOFILE that remain after these are reserved:
     *  - 5 for each thread (two for its client, a file, a back end, one spare), plus 100;
     *  - the open cgroup files;
     *  - one eventfd for each child process that can exist. */
    reserved = (rlim_t)threads * 5 + 100 + vl_child.place->open
               + vl_shm_facts(vl_child.shm).columns;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        vl_child.max_lingering = APR_UINT32_MAX;
    else
        vl_child.max_lingering = limit.rlim_cur > reserved + 1
                                 ? (apr_uint32_t)((limit.rlim_cur - reserved) / 2) : 1;
    if (ap_mpm_query(AP_MPMQ_IS_ASYNC, &vl_child.is_async) != APR_SUCCESS)
        vl_child.is_async = 0;
}
