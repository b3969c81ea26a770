/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded with ThreadSanitizer, and compiled with it: APR's atomic operations, by
 * which event and worker pass pools and connections between threads. libapr is not
 * compiled with ThreadSanitizer, which would report races on what is passed. */
#include <stdint.h>

uint32_t apr_atomic_read32(volatile uint32_t *mem)
{
    return __atomic_load_n(mem, __ATOMIC_SEQ_CST);
}

void apr_atomic_set32(volatile uint32_t *mem, uint32_t value)
{
    __atomic_store_n(mem, value, __ATOMIC_SEQ_CST);
}

uint32_t apr_atomic_add32(volatile uint32_t *mem, uint32_t value)
{
    return __atomic_fetch_add(mem, value, __ATOMIC_SEQ_CST);
}

uint32_t apr_atomic_inc32(volatile uint32_t *mem)
{
    return __atomic_fetch_add(mem, 1, __ATOMIC_SEQ_CST);
}

/* 0: what is left is 0. */
int apr_atomic_dec32(volatile uint32_t *mem)
{
    return __atomic_sub_fetch(mem, 1, __ATOMIC_SEQ_CST) != 0;
}

uint32_t apr_atomic_cas32(volatile uint32_t *mem, uint32_t with, uint32_t is)
{
    __atomic_compare_exchange_n(mem, &is, with, 0, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return is;
}

void *apr_atomic_casptr(void *volatile *mem, void *with, void *is)
{
    __atomic_compare_exchange_n(mem, &is, with, 0, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return is;
}
