/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_clients.h"

#include <string.h>

#include <apr_general.h>
#include <apr_siphash.h>

#include "base/vl_clock.h"
#include "core/vl_segment.h"

/* Bits of each client. With VL_KNOWN_MAX clients in VL_KNOWN_BITS bits, five give a rate of
 * false positives near the least one, 0.25 % for each generation. */
#define HASHES 5

void vl_clients_init(vl_clients_t *clients)
{
    apr_generate_random_bytes(clients->secret, sizeof(clients->secret));
    apr_generate_random_bytes(clients->known.secret, sizeof(clients->known.secret));
}

/* Clears the bits of the address behind the first `bits`. */
static void mask(unsigned char *address, apr_size_t length, unsigned bits)
{
    apr_size_t i;

    for (i = 0; i < length; i++) {
        if (bits >= 8)
            bits -= 8;
        else {
            address[i] &= (unsigned char)(0xff00 >> bits);
            bits = 0;
        }
    }
}

void vl_clients_prefix(const void *address, apr_size_t length, unsigned bits4, unsigned bits6,
                       vl_client_id_t *ret_id)
{
    static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

    memset(ret_id, 0, sizeof(*ret_id));
    if (length == 16 && memcmp(address, mapped, sizeof(mapped))) {
        memcpy(ret_id->prefix, address, 16);
        mask(ret_id->prefix, 16, bits6);
    }
    else if (length == 4 || length == 16) {
        memcpy(ret_id->prefix, mapped, sizeof(mapped));
        memcpy(ret_id->prefix + 12, (const char *)address + length - 4, 4);
        mask(ret_id->prefix + 12, 4, bits4);
    }
}

void vl_clients_key(const vl_shm_t *shm, apr_uint32_t account, vl_client_id_t *id)
{
    unsigned char text[VL_PREFIX_SIZE + 8] = { 0 };
    apr_uint32_t identity = vl_segment_identity(shm, account);

    memcpy(text, id->prefix, VL_PREFIX_SIZE);
    memcpy(text + VL_PREFIX_SIZE, &identity, sizeof(identity));
    text[VL_PREFIX_SIZE + 4] = id->class_no;
    text[VL_PREFIX_SIZE + 5] = id->band;
    id->key = apr_siphash24(text, sizeof(text), shm->clients->secret) | 1;
}

/* --- known clients ----------------------------------------------------------- */

static apr_uint64_t hash(const vl_shm_t *shm, apr_uint32_t account,
                         const unsigned char *prefix, apr_int64_t period)
{
    unsigned char text[VL_PREFIX_SIZE + 12];
    apr_uint32_t identity = vl_segment_identity(shm, account);

    memcpy(text, prefix, VL_PREFIX_SIZE);
    memcpy(text + VL_PREFIX_SIZE, &identity, 4);
    memcpy(text + VL_PREFIX_SIZE + 4, &period, 8);
    return apr_siphash24(text, sizeof(text), shm->clients->known.secret);
}

/* Returns the number of the i-th bit: double hashing (Kirsch, Mitzenmacher 2006). */
static apr_uint32_t bit_of(apr_uint64_t hash_value, apr_uint32_t i)
{
    return ((apr_uint32_t)hash_value + i * ((apr_uint32_t)(hash_value >> 32) | 1))
           % VL_KNOWN_BITS;
}

static int has(const vl_known_t *known, apr_uint32_t generation, apr_uint64_t hash_value)
{
    apr_uint32_t i, bit;

    for (i = 0; i < HASHES; i++) {
        bit = bit_of(hash_value, i);
        if (!(__atomic_load_n(&known->bits[generation][bit / 64], __ATOMIC_RELAXED)
              >> (bit % 64) & 1))
            return 0;
    }
    return 1;
}

/* Begins the other generation. One process does so; another that enters a client at the
 * same time may lose it. */
static void change_generation(vl_known_t *known, apr_uint32_t old)
{
    apr_uint32_t next = (old + 1) % VL_KNOWN_GENERATIONS;

    if (!__atomic_compare_exchange_n(&known->current, &old, next, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    memset(known->bits[next], 0, sizeof(known->bits[next]));
    __atomic_store_n(&known->entered[next], 0, __ATOMIC_RELAXED);
}

void vl_clients_serve(const vl_shm_t *shm, apr_uint32_t account, const unsigned char *prefix,
                      apr_int64_t ttl_us)
{
    vl_known_t *known = &shm->clients->known;
    apr_uint64_t hash_value = hash(shm, account, prefix, vl_clock_us() / (ttl_us / 2));
    apr_uint32_t generation = __atomic_load_n(&known->current, __ATOMIC_RELAXED);
    apr_uint32_t i, bit;

    if (has(known, generation, hash_value))
        return;
    for (i = 0; i < HASHES; i++) {
        bit = bit_of(hash_value, i);
        __atomic_or_fetch(&known->bits[generation][bit / 64], (apr_uint64_t)1 << (bit % 64),
                          __ATOMIC_RELAXED);
    }
    if (__atomic_add_fetch(&known->entered[generation], 1, __ATOMIC_RELAXED) >= VL_KNOWN_MAX)
        change_generation(known, generation);
}

int vl_clients_is_known(const vl_shm_t *shm, apr_uint32_t account, const unsigned char *prefix,
                        apr_int64_t ttl_us)
{
    const vl_known_t *known = &shm->clients->known;
    apr_int64_t period = vl_clock_us() / (ttl_us / 2);
    apr_uint32_t i, g;

    for (i = 0; i < 2; i++) {
        apr_uint64_t hash_value = hash(shm, account, prefix, period - (apr_int64_t)i);

        for (g = 0; g < VL_KNOWN_GENERATIONS; g++) {
            if (has(known, g, hash_value))
                return 1;
        }
    }
    return 0;
}
