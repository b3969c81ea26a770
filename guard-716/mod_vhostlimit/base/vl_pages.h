/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PAGES_H
#define VL_PAGES_H

/* Memory that costs nothing until it is written: tables with an entry for each account, of
 * which a child process uses few. The pages come from the kernel, which provides zeros. A
 * pool would write to them, and malloc() may reuse memory that was written before. No state,
 * no lock. Any thread. */

#include <apr_pools.h>

/* Returns n * size bytes of zeros, until p is cleared. Aborts if there is no memory. */
void *vl_pages_make(apr_pool_t *p, apr_size_t n, apr_size_t size);

#endif
