/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_KNOWN_H
#define VL_KNOWN_H

/* Clients that were served while their site had no backlog (VhostLimitKnown Address): a
 * Bloom filter in shared memory (Bloom 1970), of two generations, so that it forgets. It
 * holds no address, only bits, and cannot be listed. Each client is entered with the number
 * of the half ttl that it was seen in, and asked for with that number and the one before.
 * So a client is known for between half its site's ttl and all of it. A generation ends
 * after VL_KNOWN_MAX clients; then at most one stranger in 200 passes for a known client.
 *
 * No lock: bits are set with atomic operations. Any thread of any process. */

#include <apr.h>

#define VL_KNOWN_BITS (1u << 20)        /* of one generation: 128 KB */
#define VL_KNOWN_MAX 80000
#define VL_KNOWN_GENERATIONS 2

typedef struct vl_known_t {
    unsigned char secret[16];
    apr_uint32_t current;               /* generation that clients are entered in */
    apr_uint32_t entered[VL_KNOWN_GENERATIONS];
    apr_uint64_t bits[VL_KNOWN_GENERATIONS][VL_KNOWN_BITS / 64];
} vl_known_t;

/* Chooses the secret of the hash. Parent, before any child exists. */
void vl_known_init(vl_known_t *known);
/* Enters a client of the account. prefix: VL_PREFIX_SIZE bytes. ttl_us: how long it is known
 * at most. */
void vl_known_add(vl_known_t *known, apr_uint32_t account, const unsigned char *prefix,
                  apr_int64_t now_us, apr_int64_t ttl_us);
/* Returns 1 if the client has probably been entered, 0 if it has not. */
int vl_known_has(const vl_known_t *known, apr_uint32_t account, const unsigned char *prefix,
                 apr_int64_t now_us, apr_int64_t ttl_us);

#endif
