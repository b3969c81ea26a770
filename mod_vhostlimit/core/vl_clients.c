/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_clients.h"

#include <string.h>

#include <apr_general.h>
#include <apr_siphash.h>
#include <apr_time.h>

/* A site's requests count as contended for so long after one has had to wait. Long enough
 * for a request that was granted its slot to end. */
#define BACKLOG_US APR_USEC_PER_SEC

/* People wait for a page for at least so long. A client that leaves earlier says nothing about the
 * patience of the others, and nor do many that leave together: a connection to them was lost. */
#define PATIENCE_MIN_US ((apr_int64_t)APR_USEC_PER_SEC)
/* How long a client that has gone says something about the patience of the others. */
#define GONE_US ((apr_int64_t)5 * APR_USEC_PER_SEC)

/* What a client may save of its share while it does not use it, in CPU time. It is first until it
 * has used this, so others wait as long. */
#define SAVED_MAX_US ((apr_int64_t)10000)

/* A client that was charged more than others is behind them by this much at most, in CPU
 * time: it may have had slots that no other client could use. */
#define LAG_MAX_US ((apr_int64_t)10 * APR_USEC_PER_SEC)

/* vl_client_entry_t.charged of a client that is charged in this tick and has had no request lately:
 * its next request is no repeated one. */
#define NO_REQUEST(tick) (((tick) - 2) << 1)

void vl_clients_init(vl_clients_t *clients)
{
    apr_generate_random_bytes(clients->secret, sizeof(clients->secret));
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

static apr_uint64_t get(const apr_uint64_t *value)
{
    return __atomic_load_n(value, __ATOMIC_RELAXED);
}

static apr_uint16_t get16(const apr_uint16_t *value)
{
    return __atomic_load_n(value, __ATOMIC_RELAXED);
}

static void add(apr_uint64_t *value, apr_uint64_t n)
{
    __atomic_add_fetch(value, n, __ATOMIC_RELAXED);
}

static void raise_to(apr_uint64_t *value, apr_uint64_t least)
{
    apr_uint64_t now = get(value);

    while (now < least
           && !__atomic_compare_exchange_n(value, &now, least, 1, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED))
        continue;
}

/* Adds `by`, which may be negative. The result is neither below 0 nor above `most`. */
static void move(apr_uint64_t *value, apr_int64_t by, apr_uint64_t most)
{
    apr_uint64_t now = get(value), next;

    do {
        next = by < 0 && now < (apr_uint64_t)-by ? 0 : now + (apr_uint64_t)by;
        if (by > 0 && next > most)
            next = now > most ? now : most;
    } while (!__atomic_compare_exchange_n(value, &now, next, 1, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

/* Returns the tag of us of CPU time at the weight. */
static apr_int64_t tag_of(apr_int64_t us, apr_uint32_t weight)
{
    return us * VL_TAG_UNIT / (apr_int64_t)weight;
}

/* Returns a tag that is us of CPU time earlier, at least 0. */
static apr_uint64_t before(apr_uint64_t tag, apr_int64_t us)
{
    apr_uint64_t by = (apr_uint64_t)tag_of(us, 1);

    return tag > by ? tag - by : 0;
}

static apr_uint64_t larger(apr_uint64_t a, apr_uint64_t b)
{
    return a > b ? a : b;
}

static vl_client_entry_t *first_way(const vl_clients_t *clients, apr_uint64_t key)
{
    apr_uint64_t set = (key >> 1) % (VL_CLIENTS_SIZE / VL_CLIENTS_WAYS);

    return (vl_client_entry_t *)&clients->entries[set * VL_CLIENTS_WAYS];
}

static vl_client_entry_t *find(const vl_clients_t *clients, apr_uint64_t key)
{
    vl_client_entry_t *entry = first_way(clients, key);
    int i;

    for (i = 0; i < VL_CLIENTS_WAYS; i++, entry++) {
        if (get(&entry->key) == key)
            return entry;
    }
    return NULL;
}

static apr_uint32_t tick_of(apr_int64_t now_us)
{
    return (apr_uint32_t)(now_us / VL_CLIENTS_TICK_US);
}

/* Returns the ticks since the entry's `charged`. */
static apr_uint32_t ticks_since(const vl_client_entry_t *entry, apr_uint32_t tick)
{
    return (tick - (__atomic_load_n(&entry->charged, __ATOMIC_RELAXED) >> 1)) & 0x7fffffff;
}

apr_int64_t vl_clients_idle(const vl_client_entry_t *entry, apr_int64_t now_us)
{
    return (apr_int64_t)ticks_since(entry, tick_of(now_us)) * VL_CLIENTS_TICK_US;
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
                                     const vl_client_id_t *id, apr_uint32_t tick)
{
    vl_client_entry_t *entry = first_way(clients, id->key), *oldest = entry;
    apr_uint64_t key;
    int i;

    for (i = 0; i < VL_CLIENTS_WAYS && oldest->key; i++, entry++) {
        if (!entry->key || is_less_due(entry, oldest, tick))
            oldest = entry;
    }
    key = get(&oldest->key);
    if (!__atomic_compare_exchange_n(&oldest->key, &key, id->key, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return NULL;
    __atomic_store_n(&oldest->tag, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&oldest->cpu_us, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&oldest->requests, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&oldest->charged, NO_REQUEST(tick), __ATOMIC_RELAXED);
    oldest->account = account;
    oldest->class_no = id->class_no;
    oldest->band = id->band;
    memcpy(oldest->prefix, id->prefix, VL_PREFIX_SIZE);
    return oldest;
}

/* Returns the client's entry, a new one if it has none. Returns NULL if the site does not
 * share by client, or if another process took the entry. */
static vl_client_entry_t *entry_of(vl_clients_t *clients, apr_uint32_t account,
                                   const vl_client_id_t *id, apr_int64_t now_us)
{
    vl_client_entry_t *entry = id->key ? find(clients, id->key) : NULL;

    if (!entry && id->key)
        entry = take_entry(clients, account, id, tick_of(now_us));
    return entry;
}

static struct vl_band_t *band_of(vl_inner_t *inner, const vl_client_id_t *id)
{
    return &inner->classes[id->class_no].band[id->band];
}

static apr_uint32_t weight_of(const vl_inner_t *inner, unsigned class_no)
{
    apr_uint32_t weight = inner->classes[class_no].weight;

    return weight ? weight : VL_CLASS_WEIGHT_DEFAULT;
}

static apr_uint32_t share_of(const vl_inner_t *inner, unsigned band)
{
    apr_uint32_t known = inner->known_share ? inner->known_share : VL_KNOWN_SHARE_DEFAULT;

    return band == VL_BAND_KNOWN ? known : 100 - known;
}

apr_uint64_t vl_clients_tag(const vl_clients_t *clients, const vl_client_id_t *id,
                            apr_uint64_t least)
{
    const vl_client_entry_t *entry = id->key ? find(clients, id->key) : NULL;

    return entry ? larger(get(&entry->tag), least) : least;
}

apr_uint64_t vl_clients_class_tag(const vl_inner_t *inner, unsigned class_no)
{
    return larger(get(&inner->classes[class_no].tag), get(&inner->class_clock));
}

apr_uint64_t vl_clients_band_tag(const vl_inner_t *inner, unsigned class_no, unsigned band)
{
    const struct vl_class_t *c = &inner->classes[class_no];

    return larger(get(&c->band[band].tag), get(&c->band_clock));
}

/* Returns 1 if the tick is that of the band's last request, or the one before. */
static int is_recent(const struct vl_band_t *band, apr_uint32_t tick)
{
    return (apr_uint16_t)(get16(&band->tick) - (apr_uint16_t)tick) <= 1;
}

apr_uint64_t vl_clients_join(const vl_clients_t *clients, const vl_inner_t *inner,
                             const vl_client_id_t *id, apr_uint64_t *ret_tag)
{
    const struct vl_band_t *band = &inner->classes[id->class_no].band[id->band];
    const vl_client_entry_t *entry = id->key ? find(clients, id->key) : NULL;
    apr_uint64_t joined = get(&band->client_clock);

    if (entry && is_recent(band, __atomic_load_n(&entry->charged, __ATOMIC_RELAXED) >> 1))
        joined = before(joined, SAVED_MAX_US);
    *ret_tag = entry ? larger(get(&entry->tag), joined) : joined;
    return joined;
}

/* Charges the levels above the client. us may be negative. */
static void charge_above(vl_inner_t *inner, const vl_client_id_t *id, apr_int64_t us)
{
    struct vl_class_t *c = &inner->classes[id->class_no];
    apr_uint32_t weight = weight_of(inner, id->class_no);
    apr_uint32_t share = share_of(inner, id->band);

    move(&c->tag, tag_of(us, weight),
         get(&inner->class_clock) + (apr_uint64_t)tag_of(LAG_MAX_US, weight));
    move(&c->band[id->band].tag, tag_of(us, share),
         get(&c->band_clock) + (apr_uint64_t)tag_of(LAG_MAX_US, share));
}

/* Charges the client. us may be negative. */
static void charge_client(vl_client_entry_t *entry, const struct vl_band_t *band,
                          apr_int64_t us)
{
    move(&entry->tag, tag_of(us, 1),
         get(&band->client_clock) + (apr_uint64_t)tag_of(LAG_MAX_US, 1));
}

vl_tags_t vl_clients_tags(const vl_clients_t *clients, const vl_inner_t *inner,
                          const vl_first_t *first)
{
    vl_client_id_t id = { .key = get(&first->key) };
    unsigned char class_no = __atomic_load_n(&first->class_no, __ATOMIC_RELAXED);
    unsigned char band = __atomic_load_n(&first->band, __ATOMIC_RELAXED);

    return (vl_tags_t){
        .class_tag = vl_clients_class_tag(inner, class_no),
        .band_tag = vl_clients_band_tag(inner, class_no, band),
        .client_tag = vl_clients_tag(clients, &id, get(&first->joined))
    };
}

void vl_clients_begin(vl_clients_t *clients, vl_inner_t *inner, apr_uint32_t account,
                      const vl_client_id_t *id, apr_uint64_t joined,
                      apr_uint32_t us, apr_uint32_t others, apr_int64_t now_us)
{
    struct vl_class_t *c = &inner->classes[id->class_no];
    struct vl_band_t *band = band_of(inner, id);
    vl_first_t client = { .key = id->key, .joined = joined, .class_no = id->class_no,
                          .band = id->band };
    vl_tags_t tags = vl_clients_tags(clients, inner, &client);
    vl_client_entry_t *entry;

    vl_clients_backlog(inner, now_us);
    raise_to(&c->tag, tags.class_tag);
    raise_to(&inner->class_clock, tags.class_tag);
    raise_to(&band->tag, tags.band_tag);
    raise_to(&c->band_clock, tags.band_tag);
    __atomic_store_n(&band->waiting, others < 65535 ? others : 65535, __ATOMIC_RELAXED);
    raise_to(&band->client_clock, tags.client_tag);
    charge_above(inner, id, us);
    entry = entry_of(clients, account, id, now_us);
    if (!entry)
        return;
    raise_to(&entry->tag, tags.client_tag);
    charge_client(entry, band, us);
}

void vl_clients_refund(vl_clients_t *clients, vl_inner_t *inner, const vl_client_id_t *id,
                       apr_uint32_t us)
{
    vl_client_entry_t *entry = id->key ? find(clients, id->key) : NULL;

    charge_above(inner, id, -(apr_int64_t)us);
    if (entry)
        charge_client(entry, band_of(inner, id), -(apr_int64_t)us);
}

/* Begins a new tick of the band, unless another process has. */
static void turn_to(struct vl_band_t *band, apr_uint16_t tick)
{
    apr_uint16_t before = get16(&band->tick);

    if (before == tick
        || !__atomic_compare_exchange_n(&band->tick, &before, tick, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        return;
    __atomic_store_n(&band->repeated_before,
                     (apr_uint16_t)(tick - before) == 1 ? get16(&band->repeated) : 0,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&band->repeated, 0, __ATOMIC_RELAXED);
}

/* Records that the client is charged, but not for a request. */
static void note_charge(vl_client_entry_t *entry, apr_uint32_t tick)
{
    if (ticks_since(entry, tick) > 2)
        __atomic_store_n(&entry->charged, NO_REQUEST(tick), __ATOMIC_RELAXED);
}

/* Records that a request of the client has ended in this tick. */
static void count_request(struct vl_band_t *band, vl_client_entry_t *entry, apr_uint32_t tick)
{
    apr_uint32_t is_repeated = ticks_since(entry, tick) <= 1;

    turn_to(band, (apr_uint16_t)tick);
    if (__atomic_load_n(&entry->charged, __ATOMIC_RELAXED) == (tick << 1 | 1))
        return;
    __atomic_store_n(&entry->charged, tick << 1 | is_repeated, __ATOMIC_RELAXED);
    if (is_repeated && get16(&band->repeated) < 65535)
        __atomic_add_fetch(&band->repeated, 1, __ATOMIC_RELAXED);
}

/* Returns how many clients are active, at least 1. Those that wait are known of one process, and a
 * client that sends its next request when it has a response does not wait all the time. */
static apr_uint32_t active_clients(const struct vl_band_t *band)
{
    apr_uint32_t active = 1, n[] = { get16(&band->waiting), get16(&band->repeated),
                                     get16(&band->repeated_before) };
    int i;

    for (i = 0; i < 3; i++)
        active = n[i] > active ? n[i] : active;
    return active;
}

void vl_clients_charge(vl_clients_t *clients, vl_inner_t *inner, apr_uint32_t account,
                       const vl_client_id_t *id, apr_uint64_t us, apr_uint32_t requests,
                       apr_int64_t now_us)
{
    struct vl_band_t *band = band_of(inner, id);
    vl_client_entry_t *entry;

    if (!vl_clients_contended(inner, now_us))
        return;
    charge_above(inner, id, (apr_int64_t)us);
    entry = entry_of(clients, account, id, now_us);
    if (entry && requests)
        count_request(band, entry, tick_of(now_us));
    else if (entry)
        note_charge(entry, tick_of(now_us));
    add(&band->client_clock, (apr_uint64_t)tag_of((apr_int64_t)us, active_clients(band)));
    add(&band->cpu_us, us);
    add(&band->requests, requests);
    if (!entry)
        return;
    raise_to(&entry->tag, before(get(&band->client_clock), SAVED_MAX_US));
    charge_client(entry, band, (apr_int64_t)us);
    add(&entry->cpu_us, us);
    __atomic_add_fetch(&entry->requests, requests, __ATOMIC_RELAXED);
}

void vl_clients_configure(vl_inner_t *inner, const apr_uint32_t *weights,
                          apr_uint32_t known_share)
{
    int i;

    for (i = 0; i < VL_CLASSES_MAX; i++)
        __atomic_store_n(&inner->classes[i].weight, weights[i], __ATOMIC_RELAXED);
    __atomic_store_n(&inner->known_share, known_share, __ATOMIC_RELAXED);
}

void vl_clients_backlog(vl_inner_t *inner, apr_int64_t now_us)
{
    __atomic_store_n(&inner->backlog_us, now_us, __ATOMIC_RELAXED);
}

int vl_clients_contended(const vl_inner_t *inner, apr_int64_t now_us)
{
    apr_int64_t since_us = __atomic_load_n(&inner->backlog_us, __ATOMIC_RELAXED);

    return since_us && now_us - since_us < BACKLOG_US;
}

static int is_leaving(const vl_inner_t *inner, apr_int64_t now_us)
{
    apr_int64_t gone_us = __atomic_load_n(&inner->gone_us, __ATOMIC_RELAXED);

    return gone_us && now_us - gone_us < GONE_US;
}

void vl_clients_gone(vl_inner_t *inner, apr_int64_t waited_us, apr_int64_t now_us)
{
    apr_int64_t patience = __atomic_load_n(&inner->patience_us, __ATOMIC_RELAXED);

    if (waited_us < PATIENCE_MIN_US)
        return;
    /* The weights make it settle where one client in nine is less patient. */
    if (!is_leaving(inner, now_us)) {
        patience = waited_us;
        __atomic_store_n(&inner->leaving_us, now_us, __ATOMIC_RELAXED);
    }
    else if (waited_us < patience)
        patience -= (patience - waited_us) / 4;
    else
        patience += (waited_us - patience) / 32;
    __atomic_store_n(&inner->patience_us, patience, __ATOMIC_RELAXED);
    __atomic_store_n(&inner->gone_us, now_us, __ATOMIC_RELAXED);
}

void vl_clients_stayed(vl_inner_t *inner, apr_int64_t waited_us)
{
    apr_int64_t patience = __atomic_load_n(&inner->patience_us, __ATOMIC_RELAXED);

    if (waited_us > patience)
        __atomic_store_n(&inner->patience_us, patience + (waited_us - patience) / 4, __ATOMIC_RELAXED);
}

apr_int64_t vl_clients_patience(const vl_inner_t *inner, apr_int64_t now_us)
{
    apr_int64_t gone_us = __atomic_load_n(&inner->gone_us, __ATOMIC_RELAXED);
    apr_int64_t leaving_us = __atomic_load_n(&inner->leaving_us, __ATOMIC_RELAXED);

    return is_leaving(inner, now_us) && gone_us - leaving_us >= PATIENCE_MIN_US
           ? __atomic_load_n(&inner->patience_us, __ATOMIC_RELAXED) * 3 / 4 : 0;
}

void vl_clients_late(vl_inner_t *inner)
{
    add(&inner->late, 1);
}

int vl_clients_find(const vl_clients_t *clients, apr_uint64_t key,
                    vl_client_entry_t *ret_entry)
{
    const vl_client_entry_t *entry = key ? find(clients, key) : NULL;

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

        if (!get(&entry->key) || entry->account != account)
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
