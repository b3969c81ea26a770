/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_H
#define FUZZ_H

/* A target is one file of this folder. fuzz_bytes() gets bytes in memory of exactly their
 * size, so that a read beyond them is detected; fuzz_text() gets them with a NUL behind them.
 * must() asserts properties of the result. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <apr_general.h>
#include <apr_pools.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: it must be that %s\n", __FILE__, \
                    __LINE__, #what); \
            abort(); \
        } \
    } while (0)

static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* Empty at each call. */
static inline apr_pool_t *fuzz_pool(void)
{
    static apr_pool_t *pool;

    if (!pool) {
        apr_initialize();
        apr_pool_create(&pool, NULL);
    }
    apr_pool_clear(pool);
    return pool;
}

#endif
