/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CLIENTS_H
#define VL_CLIENTS_H

/* The clients of sites, in memory that all children share: which client a request is of, what
 * clients were charged while requests of their site waited (vl_fair.h), and which clients
 * were served while none waited.
 *
 * A client is an address prefix (VhostLimitClients). The table has a fixed size. Where eight
 * clients have the same place, the one that has least to pay for is forgotten, and is a new
 * client when it comes again.
 *
 * Nothing here takes a lock: every field is read and written with atomic operations, and a
 * lost race costs one client the charge of one request, or counts it twice. Any thread of any
 * process. */

#include <apr.h>

typedef struct vl_shm_t vl_shm_t;

#define VL_CLASSES_MAX 8        /* of a site, with the class of all other requests */
#define VL_BANDS 2
typedef enum { VL_BAND_STRANGERS, VL_BAND_KNOWN } vl_band_e;

/* Entries of the table, a power of 2, and how many of them a client may be in. */
#define VL_CLIENTS_SIZE 16384
#define VL_CLIENTS_WAYS 8

/* Clients are counted, and their last charge is recorded, in ticks of vl_clock_us(). Longer
 * than a client of a busy site needs for a request. */
#define VL_CLIENTS_TICK_US 65536

/* Length of an address prefix in bytes. An IPv4 address is mapped (RFC 4291, 2.5.5.2). */
#define VL_PREFIX_SIZE 16

/* The client of a request. All zero: the site does not share by client. */
typedef struct vl_client_id_t {
    apr_uint64_t key;           /* of site, class, band and prefix; 0: none */
    unsigned char class_no;     /* 0: of no VhostLimitClass */
    unsigned char band;         /* vl_band_e */
    unsigned char prefix[VL_PREFIX_SIZE];
} vl_client_id_t;

typedef struct vl_client_entry_t {
    apr_uint64_t key;           /* 0: free */
    apr_uint64_t tag;
    apr_uint64_t cpu_us;        /* charged in all */
    apr_uint32_t account;
    apr_uint32_t requests;
    apr_uint32_t charged;       /* the tick of its last request * 2, and 1 if it had another one
                                 * in this tick or the one before. A charge without a request
                                 * makes it at least the tick before last */
    unsigned char class_no, band;
    unsigned char prefix[VL_PREFIX_SIZE];
} vl_client_entry_t;

/* Clients that were served while their site had no backlog (VhostLimitKnown Address): a
 * Bloom filter (Bloom 1970) of two generations, so that it forgets. It holds no address, only
 * bits, and cannot be listed. Each client is entered with the number of the half ttl that it
 * was seen in, and asked for with that number and the one before. So a client is known for
 * between half its site's ttl and all of it. A generation ends after VL_KNOWN_MAX clients; then
 * at most one stranger in 200 passes for a known client. */
#define VL_KNOWN_BITS (1u << 20)        /* of one generation: 128 KB */
#define VL_KNOWN_MAX 80000
#define VL_KNOWN_GENERATIONS 2

typedef struct vl_known_t {
    unsigned char secret[16];
    apr_uint32_t current;               /* generation that clients are entered in */
    apr_uint32_t entered[VL_KNOWN_GENERATIONS];
    apr_uint64_t bits[VL_KNOWN_GENERATIONS][VL_KNOWN_BITS / 64];
} vl_known_t;

typedef struct vl_clients_t {
    unsigned char secret[16];   /* of the hash, so that clients cannot choose colliding
                                 * prefixes */
    vl_client_entry_t entries[VL_CLIENTS_SIZE];
    vl_known_t known;
} vl_clients_t;

/* Chooses the secrets. Parent, before any child exists. */
void vl_clients_init(vl_clients_t *clients);

/* Fills in the prefix of *ret_id and clears the rest. address: 4 or 16 bytes (length); bits4
 * and bits6: how many bits of it distinguish clients, 0 to 32 and 0 to 128. */
void vl_clients_prefix(const void *address, apr_size_t length, unsigned bits4, unsigned bits6,
                       vl_client_id_t *ret_id);
/* Fills in the key. The other members are set. */
void vl_clients_key(const vl_shm_t *shm, apr_uint32_t account, vl_client_id_t *id);

/* Enters a served client of the account. prefix: VL_PREFIX_SIZE bytes. ttl_us: how long it is
 * known at most. */
void vl_clients_serve(const vl_shm_t *shm, apr_uint32_t account, const unsigned char *prefix,
                      apr_int64_t ttl_us);
/* Returns 1 if the client has probably been entered, 0 if it has not. */
int vl_clients_is_known(const vl_shm_t *shm, apr_uint32_t account, const unsigned char *prefix,
                        apr_int64_t ttl_us);

#endif
