/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_yield.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static struct {
    int fd;                         /* file of the weight, or -1 */
    const char *heavy, *light;      /* the two values for the file */
    int yields;                     /* last value of vl_yield_child_set() in this child;
                                     * -1: none yet */
} yield = { .fd = -1 };

static apr_status_t close_file(void *unused)
{
    close(yield.fd);
    yield.fd = -1;
    return APR_SUCCESS;
}

void vl_yield_post_config(apr_pool_t *p, const vl_cgroup_t *cg)
{
    const char *file = vl_cgroup_weight_file(cg, p, &yield.heavy, &yield.light);

    yield.yields = -1;
    yield.fd = file ? open(file, O_WRONLY | O_CLOEXEC) : -1;
    if (yield.fd >= 0)
        apr_pool_cleanup_register(p, NULL, close_file, apr_pool_cleanup_null);
}

void vl_yield_child_set(int yields)
{
    const char *text = yields ? yield.light : yield.heavy;

    if (yield.fd < 0 || yields == yield.yields)
        return;
    /* After a failure the next call tries again. */
    if (pwrite(yield.fd, text, strlen(text), 0) > 0)
        yield.yields = yields;
}
