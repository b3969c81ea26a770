/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_child.h"

#include <sys/resource.h>

#include <ap_mpm.h>

vl_child_t vl_child;

/* Returns how many lingering connections a child process may have. As many other
 * connections are allowed in addition. Both together use the descriptors below
 * RLIMIT_NOFILE that remain after these are reserved:
 *  - 5 for each thread (two for its client, a file, a back end, one spare), plus 100;
 *  - the open cgroup files;
 *  - one eventfd for each child process that can exist. */
static apr_uint32_t max_lingering(int threads)
{
    rlim_t reserved = (rlim_t)threads * 5 + 100 + vl_place_open_count(vl_child.place)
                      + vl_shm_columns(vl_child.shm);
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return APR_UINT32_MAX;
    return limit.rlim_cur > reserved + 1
           ? (apr_uint32_t)((limit.rlim_cur - reserved) / 2) : 1;
}

void vl_child_init(const vl_child_t *child, int threads)
{
    vl_child = *child;
    vl_child.max_lingering = max_lingering(threads);
    if (ap_mpm_query(AP_MPMQ_IS_ASYNC, &vl_child.is_async) != APR_SUCCESS)
        vl_child.is_async = 0;
}
