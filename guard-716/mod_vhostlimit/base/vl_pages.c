/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vl_pages.h"

#include <stdlib.h>
#include <sys/mman.h>

typedef struct pages_t {
    void *start;
    apr_size_t length;
} pages_t;

static apr_status_t unmap(void *data)
{
    const pages_t *pages = data;

    munmap(pages->start, pages->length);
    return APR_SUCCESS;
}

void *vl_pages_make(apr_pool_t *p, apr_size_t n, apr_size_t size)
{
    pages_t *pages = apr_palloc(p, sizeof(*pages));

    pages->length = n && size ? n * size : 1;
    pages->start = mmap(NULL, pages->length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages->start == MAP_FAILED)
        abort();
    apr_pool_cleanup_register(p, pages, unmap, apr_pool_cleanup_null);
    return pages->start;
}
