/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_clients.h"

#include <string.h>

#include <apr_general.h>
#include <apr_siphash.h>

/* vl_client_entry_t.charged of a client that is charged in this tick and has had no request lately:
 * its next request is no repeated one. */
#define NO_REQUEST(tick) (((tick) - 2) << 1)

/* Bits of each client. With VL_KNOWN_MAX clients in VL_KNOWN_BITS bits, five give a rate of
 * false positives near the least one, 0.25 % for each generation. */
#define HASHES 5

void vl_clients_init(vl_clients_t *clients)
{
    apr_generate_random_bytes(clients->secret, sizeof(clients->secret));
    apr_generate_random_bytes(clients->known.secret, sizeof(clients->known.secret));
}

void vl_clients_forget(vl_clients_t *clients, apr_uint32_t account)
{
    apr_uint32_t i;

    for (i = 0; i < VL_CLIENTS_SIZE; i++) {
        if (clients->entries[i].account == account)
            __atomic_store_n(&clients->entries[i].key, 0, __ATOMIC_RELAXED);
    }
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

void vl_clients_key(const vl_clients_t *clients, apr_uint32_t account, vl_client_id_t *id)
{
    unsigned char text[VL_PREFIX_SIZE + 8] = { 0 };

    memcpy(text, id->prefix, VL_PREFIX_SIZE);
    memcpy(text + VL_PREFIX_SIZE, &account, sizeof(account));
    text[VL_PREFIX_SIZE + 4] = id->class_no;
    text[VL_PREFIX_SIZE + 5] = id->band;
    id->key = apr_siphash24(text, sizeof(text), clients->secret) | 1;
}

/* --- the table --------------------------------------------------------------- */

static vl_client_entry_t *first_way(const vl_clients_t *clients, apr_uint64_t key)
{
    apr_uint64_t set = (key >> 1) % (VL_CLIENTS_SIZE / VL_CLIENTS_WAYS);

    return (vl_client_entry_t *)&clients->entries[set * VL_CLIENTS_WAYS];
}

vl_client_entry_t *vl_clients_entry(const vl_clients_t *clients, apr_uint64_t key)
{
    vl_client_entry_t *entry = first_way(clients, key);
    int i;

    for (i = 0; i < VL_CLIENTS_WAYS; i++, entry++) {
        if (key && __atomic_load_n(&entry->key, __ATOMIC_RELAXED) == key)
            return entry;
    }
    return NULL;
}

/* Returns the ticks since the entry's `charged`. */
static apr_uint32_t ticks_since(const vl_client_entry_t *entry, apr_uint32_t tick)
{
    return (tick - (__atomic_load_n(&entry->charged, __ATOMIC_RELAXED) >> 1)) & 0x7fffffff;
}

apr_int64_t vl_clients_idle(const vl_client_entry_t *entry, apr_int64_t now_us)
{
    return (apr_int64_t)ticks_since(entry, vl_clients_tick(now_us)) * VL_CLIENTS_TICK_US;
}

/* Returns 1 if client a was charged longer ago than b, or in the same tick and less in all. */
static int is_less_due(const vl_client_entry_t *a, const vl_client_entry_t *b, apr_uint32_t tick)
{
    apr_uint32_t ticks_a = ticks_since(a, tick), ticks_b = ticks_since(b, tick);

    return ticks_a > ticks_b || (ticks_a == ticks_b && a->cpu_us < b->cpu_us);
}

/* Takes a free entry, or that of the client that has waited longest to be charged again:
 * the others of its site have passed it, so it has nothing to pay for. Returns NULL if
 * another process was quicker. */
static vl_client_entry_t *take_entry(vl_clients_t *clients, apr_uint32_t account,
                                     const vl_client_id_t *id, apr_uint64_t tag,
                                     apr_uint32_t tick)
{
    vl_client_entry_t *entry = first_way(clients, id->key), *oldest = entry;
    apr_uint64_t key;
    int i;

    for (i = 0; i < VL_CLIENTS_WAYS && oldest->key; i++, entry++) {
        if (!entry->key || is_less_due(entry, oldest, tick))
            oldest = entry;
    }
    key = __atomic_load_n(&oldest->key, __ATOMIC_RELAXED);
    if (!__atomic_compare_exchange_n(&oldest->key, &key, id->key, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return NULL;
    __atomic_store_n(&oldest->tag, tag, __ATOMIC_RELAXED);
    __atomic_store_n(&oldest->cpu_us, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&oldest->requests, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&oldest->charged, NO_REQUEST(tick), __ATOMIC_RELAXED);
    oldest->account = account;
    oldest->class_no = id->class_no;
    oldest->band = id->band;
    memcpy(oldest->prefix, id->prefix, VL_PREFIX_SIZE);
    return oldest;
}

vl_client_entry_t *vl_clients_make_entry(vl_clients_t *clients, apr_uint32_t account,
                                         const vl_client_id_t *id, apr_uint64_t tag,
                                         apr_uint32_t tick)
{
    vl_client_entry_t *entry = vl_clients_entry(clients, id->key);

    return entry || !id->key ? entry : take_entry(clients, account, id, tag, tick);
}

int vl_clients_repeats(vl_client_entry_t *entry, apr_uint32_t tick)
{
    apr_uint32_t is_repeated = ticks_since(entry, tick) <= 1;

    if (__atomic_load_n(&entry->charged, __ATOMIC_RELAXED) == (tick << 1 | 1))
        return 0;
    __atomic_store_n(&entry->charged, tick << 1 | is_repeated, __ATOMIC_RELAXED);
    return (int)is_repeated;
}

void vl_clients_touch(vl_client_entry_t *entry, apr_uint32_t tick)
{
    if (ticks_since(entry, tick) > 2)
        __atomic_store_n(&entry->charged, NO_REQUEST(tick), __ATOMIC_RELAXED);
}

int vl_clients_find(const vl_clients_t *clients, apr_uint64_t key,
                    vl_client_entry_t *ret_entry)
{
    const vl_client_entry_t *entry = vl_clients_entry(clients, key);

    if (entry)
        *ret_entry = *entry;
    return entry != NULL;
}

apr_uint32_t vl_clients_top(const vl_clients_t *clients, apr_uint32_t account,
                            vl_client_entry_t *ret_entries, apr_uint32_t max)
{
    apr_uint32_t i, n = 0, at;

    for (i = 0; i < VL_CLIENTS_SIZE; i++) {
        const vl_client_entry_t *entry = &clients->entries[i];

        if (!__atomic_load_n(&entry->key, __ATOMIC_RELAXED) || entry->account != account)
            continue;
        for (at = n; at && ret_entries[at - 1].cpu_us < entry->cpu_us; at--) {
            if (at < max)
                ret_entries[at] = ret_entries[at - 1];
        }
        if (at < max)
            ret_entries[at] = *entry;
        if (n < max)
            n++;
    }
    return n;
}

/* --- known clients ----------------------------------------------------------- */

static apr_uint64_t hash(const vl_known_t *known, apr_uint32_t account,
                         const unsigned char *prefix, apr_int64_t period)
{
    unsigned char text[VL_PREFIX_SIZE + 12];

    memcpy(text, prefix, VL_PREFIX_SIZE);
    memcpy(text + VL_PREFIX_SIZE, &account, 4);
    memcpy(text + VL_PREFIX_SIZE + 4, &period, 8);
    return apr_siphash24(text, sizeof(text), known->secret);
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

void vl_clients_serve(vl_clients_t *clients, apr_uint32_t account, const unsigned char *prefix,
                      apr_int64_t now_us, apr_int64_t ttl_us)
{
    vl_known_t *known = &clients->known;
    apr_uint64_t hash_value = hash(known, account, prefix, now_us / (ttl_us / 2));
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

int vl_clients_is_known(const vl_clients_t *clients, apr_uint32_t account,
                        const unsigned char *prefix, apr_int64_t now_us, apr_int64_t ttl_us)
{
    const vl_known_t *known = &clients->known;
    apr_int64_t period = now_us / (ttl_us / 2);
    apr_uint32_t i, g;

    for (i = 0; i < 2; i++) {
        apr_uint64_t hash_value = hash(known, account, prefix, period - (apr_int64_t)i);

        for (g = 0; g < VL_KNOWN_GENERATIONS; g++) {
            if (has(known, g, hash_value))
                return 1;
        }
    }
    return 0;
}
