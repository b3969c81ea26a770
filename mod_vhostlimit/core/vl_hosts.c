/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_hosts.h"

#include <string.h>

#include <apr_general.h>
#include <apr_lib.h>
#include <apr_siphash.h>
#include <apr_strings.h>

#include "base/vl_clock.h"
#include "core/vl_segment.h"

/* Entries that one attempt to reuse an account looks at. */
#define HAND_STEPS 16
/* A chain that is longer is searched under the lock. Keys are secret, so chains are short. */
#define CHAIN_STEPS 64
/* Hosts that are changed while the segment lock is held once. */
#define BATCH 256

/* Requests that waited until so long ago count as waiting. */
#define CONTENDED_S 1
/* While requests wait, a name has to be seen for so long before it gets an account. */
#define SEEN_MIN_S 1

static apr_uint32_t load(const apr_uint32_t *value)
{
    return __atomic_load_n(value, __ATOMIC_ACQUIRE);
}

static void store(apr_uint32_t *value, apr_uint32_t n)
{
    __atomic_store_n(value, n, __ATOMIC_RELEASE);
}

/* Returns the number of seconds since then; 0 if another process has read the clock later. */
static apr_uint32_t passed_s(apr_uint32_t now_s, apr_uint32_t then_s)
{
    apr_int32_t passed = (apr_int32_t)(now_s - then_s);

    return passed > 0 ? (apr_uint32_t)passed : 0;
}

/* --- names ----------------------------------------------------------------- */

int vl_hosts_normalize(const char *host, char ret_name[VL_HOST_SIZE])
{
    apr_size_t n = 0;

    for (; host && *host && *host != ':'; host++) {
        if (n == VL_HOST_SIZE - 1
            || !(apr_isalnum(*host) || *host == '.' || *host == '_' || *host == '-'))
            return 0;
        ret_name[n++] = (char)apr_tolower(*host);
    }
    /* What follows a colon is a port. An IPv6 address has brackets, or more colons. */
    if (host && *host && strchr(host + 1, ':'))
        return 0;
    if (n && ret_name[n - 1] == '.')
        n--;
    ret_name[n] = '\0';
    return n > 0;
}

static apr_uint32_t *bucket_of(const vl_shm_t *shm, apr_uint64_t key)
{
    return &shm->host_buckets[(key >> 1) & (shm->hosts->buckets - 1)];
}

/* Returns 1 + the entry with the key, or 0. */
static apr_uint32_t search(const vl_shm_t *shm, apr_uint64_t key, apr_uint32_t steps)
{
    apr_uint32_t i = load(bucket_of(shm, key));

    for (; i && steps; i = load(&shm->host[i - 1].next), steps--) {
        if (__atomic_load_n(&shm->host[i - 1].key, __ATOMIC_ACQUIRE) == key)
            return i;
    }
    return 0;
}

static apr_uint32_t account_of(const vl_shm_t *shm, apr_uint32_t entry)
{
    return shm->head->sites + entry;
}

/* Returns 1 if the name may have an account of its own at the site, and its key. */
static int has_key(const vl_shm_t *shm, apr_uint32_t site, const char *host,
                   char ret_name[VL_HOST_SIZE], apr_uint64_t *ret_key)
{
    char text[VL_HOST_SIZE + sizeof(site)];
    const char *end;

    if (!shm->hosts->max || !vl_hosts_normalize(host, ret_name)
        || !strcmp(ret_name, shm->accounts[site].name))
        return 0;
    memcpy(text, &site, sizeof(site));
    end = apr_cpystrn(text + sizeof(site), ret_name, VL_HOST_SIZE);
    *ret_key = apr_siphash24(text, (apr_size_t)(end - text), shm->hosts->secret) | 1;
    return 1;
}

int vl_hosts_lookup(const vl_shm_t *shm, apr_uint32_t site, const char *host,
                    apr_uint32_t *ret_account)
{
    char name[VL_HOST_SIZE];
    apr_uint64_t key;
    apr_uint32_t i = has_key(shm, site, host, name, &key)
                     ? search(shm, key, CHAIN_STEPS) : 0;

    if (i)
        *ret_account = account_of(shm, i - 1);
    return i != 0;
}

apr_uint32_t vl_hosts_identity(const vl_shm_t *shm, apr_uint32_t account)
{
    return vl_segment_identity(shm, account);
}

/* --- the end of a host's account ------------------------------------------- */

/* Adds the counters of a host to those of its site. Requires the segment lock. */
static void add_counters_locked(vl_shm_t *shm, apr_uint32_t site_account,
                                apr_uint32_t host_account)
{
    account_t *site = &shm->accounts[site_account];
    const account_t *host = &shm->accounts[host_account];

#define X(member, kind, prometheus, help) \
    if ((kind) == VL_COUNTER) \
        __atomic_add_fetch(&site->metrics.member, host->metrics.member, __ATOMIC_RELAXED);
    VL_METRICS(X)
#undef X
    unsigned b;

    for (b = 0; b < VL_WAIT_BUCKETS; b++)
        __atomic_add_fetch(&site->waits[b], host->waits[b], __ATOMIC_RELAXED);
    shm->queue.accounts[site_account].backlog_us += shm->queue.accounts[host_account].backlog_us;
}

/* Removes the name of an entry that may be reused, and puts the entry into the free ones.
 * Requires the segment lock. */
static void release_locked(vl_shm_t *shm, apr_uint32_t entry)
{
    vl_host_t *host = &shm->host[entry];
    apr_uint32_t *link = bucket_of(shm, host->key);

    while (*link && *link != entry + 1)
        link = &shm->host[*link - 1].next;
    if (*link)
        store(link, host->next);
    __atomic_store_n(&host->key, 0, __ATOMIC_RELEASE);
    add_counters_locked(shm, host->site, account_of(shm, entry));
    store(&host->next, shm->hosts->free);
    shm->hosts->free = entry + 1;
    shm->hosts->named--;
}

/* Releases an entry that may be reused, if there is one among the next HAND_STEPS. is_full: there is
 * no other entry for the new name. Requires the segment lock. */
static void reuse_locked(vl_shm_t *shm, apr_uint32_t now_s, int is_full)
{
    vl_hosts_t *hosts = shm->hosts;
    apr_uint32_t n;

    for (n = 0; n < HAND_STEPS && n < hosts->used; n++) {
        apr_uint32_t entry = hosts->hand, account = account_of(shm, entry);
        const vl_host_t *host = &shm->host[entry];
        apr_uint32_t last_s = load(&host->last_s), idle_s = passed_s(now_s, last_s);
        int is_new = last_s - host->since_s < VL_HOSTS_ESTABLISHED_S;
        const vl_fair_account_t *fair = &shm->queue.accounts[account];

        hosts->hand = (hosts->hand + 1) % hosts->used;
        if (!host->key || idle_s < VL_HOSTS_IDLE_S || !vl_segment_is_idle_locked(shm, account))
            continue;
        /* The account has not used more than the others. One that has used a little more counts as
         * well: the virtual time of the others only passes it when one of them comes twice. */
        if (idle_s >= VL_HOSTS_KEEP_S
            || (is_full && is_new
                && VL_FAIR_AFTER(fair->fair.tag, shm->queue.head->vtime)
                   <= VL_FAIR_ADVANCE(VL_REFUND_US, fair->limits.weight)
                && (!vl_fair_is_capped(&shm->queue, account) || fair->credit_us > 0))) {
            release_locked(shm, entry);
            return;
        }
    }
}

apr_uint32_t vl_hosts_forget_locked(vl_shm_t *shm, apr_uint32_t site)
{
    apr_uint32_t entry, left = 0;

    for (entry = 0; entry < shm->hosts->used; entry++) {
        if (!shm->host[entry].key || shm->host[entry].site != site)
            continue;
        if (vl_segment_is_idle_locked(shm, account_of(shm, entry)))
            release_locked(shm, entry);
        else
            left++;
    }
    return left;
}

/* --- the begin of a host's account ----------------------------------------- */

/* Returns 1 if requests wait, or have waited a moment ago. */
static int is_contended(vl_shm_t *shm, apr_uint32_t now_s)
{
    if (__atomic_load_n(&shm->head->contended, __ATOMIC_RELAXED)) {
        store(&shm->hosts->contended_s, now_s);
        return 1;
    }
    return load(&shm->hosts->contended_s)
           && passed_s(now_s, load(&shm->hosts->contended_s)) <= CONTENDED_S;
}

/* Returns 1 if the name was seen before. A place of the table has the upper half of the key
 * and the time when it was first seen. Another name with the same place replaces it. */
static int was_seen(vl_shm_t *shm, apr_uint64_t key, apr_uint32_t now_s)
{
    apr_uint64_t *seen = &shm->host_seen[(key >> 1) % HOSTS_SEEN];
    apr_uint64_t last = __atomic_load_n(seen, __ATOMIC_RELAXED);
    apr_uint32_t since_s = passed_s(now_s, (apr_uint32_t)last);

    if (last >> 32 == key >> 32 && since_s < VL_HOSTS_KEEP_S)
        return since_s >= SEEN_MIN_S;
    __atomic_store_n(seen, (key >> 32 << 32) | now_s, __ATOMIC_RELAXED);
    return 0;
}

/* Limits the number of accounts that begin while requests wait. Requires the segment
 * lock. */
static int may_begin_locked(vl_shm_t *shm, apr_uint32_t now_s)
{
    vl_hosts_t *hosts = shm->hosts;

    if (!is_contended(shm, now_s))
        return 1;
    if (hosts->second != now_s) {
        hosts->second = now_s;
        hosts->begun = 0;
    }
    return hosts->begun < VL_HOSTS_BEGIN_RATE && ++hosts->begun;
}

/* Returns 1 + an empty entry, or 0. Prefers one that was in use, because its memory has been
 * touched. Requires the segment lock. */
static apr_uint32_t take_entry_locked(vl_shm_t *shm, apr_uint32_t now_s)
{
    vl_hosts_t *hosts = shm->hosts;
    apr_uint32_t entry, account;
    int is_full = hosts->named >= hosts->limit;

    if (!hosts->free || is_full)
        reuse_locked(shm, now_s, is_full);
    if (hosts->named >= hosts->limit)
        return 0;
    entry = hosts->free;
    if (entry) {
        hosts->free = shm->host[entry - 1].next;
        account = account_of(shm, entry - 1);
        memset(&shm->accounts[account], 0, sizeof(account_t));
        memset(&shm->queue.accounts[account], 0, sizeof(vl_fair_account_t));
        memset(&shm->inner[account], 0, sizeof(vl_inner_t));
    }
    else if (hosts->used < hosts->max)
        entry = ++hosts->used;
    return entry;
}

/* Gives the host the limits, leases and classes of its site. Requires the segment lock. */
static void configure_locked(vl_shm_t *shm, apr_uint32_t account, apr_uint32_t site)
{
    const vl_inner_t *inner = &shm->inner[site];
    account_t *a = &shm->accounts[account];
    apr_uint32_t weights[VL_CLASSES_MAX];
    int i;

    a->generation = shm->accounts[site].generation;
    a->override = shm->accounts[site].override;
    vl_fair_set_limits(&shm->queue, account, &shm->queue.accounts[site].limits);
    vl_fair_set_part(&shm->queue, account, &shm->queue.accounts[site].part);
    if (!shm->accounts[site].has_classes && !a->has_classes)
        return;
    a->has_classes = shm->accounts[site].has_classes;
    for (i = 0; i < VL_CLASSES_MAX; i++)
        weights[i] = inner->classes[i].weight;
    vl_fair_configure(&shm->inner[account], weights, inner->known_share);
}

/* Gives the entry to the name. Requires the segment lock. */
static void begin_locked(vl_shm_t *shm, apr_uint32_t entry, apr_uint32_t site,
                         const char *name, apr_uint64_t key, apr_uint32_t now_s)
{
    vl_host_t *host = &shm->host[entry];
    apr_uint32_t account = account_of(shm, entry);

    apr_cpystrn(shm->accounts[account].name, name, VL_NAME_SIZE);
    configure_locked(shm, account, site);
    store(&host->site, site);
    store(&host->serial, shm->hosts->next_serial++);
    if (shm->hosts->next_serial < shm->head->capacity)
        shm->hosts->next_serial = shm->head->capacity;  /* it has wrapped around */
    host->since_s = now_s;
    store(&host->last_s, now_s);
    __atomic_store_n(&host->key, key, __ATOMIC_RELEASE);
    store(&host->next, *bucket_of(shm, key));
    store(bucket_of(shm, key), entry + 1);
    shm->hosts->named++;
}

/* Returns 1 + the entry of the name, which begins now if there is none, or 0. */
static apr_uint32_t find_or_begin(vl_shm_t *shm, apr_uint32_t site, const char *name,
                                  apr_uint64_t key, apr_uint32_t now_s)
{
    apr_uint32_t entry;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    entry = search(shm, key, APR_UINT32_MAX);
    if (!entry && may_begin_locked(shm, now_s)) {
        entry = take_entry_locked(shm, now_s);
        if (entry)
            begin_locked(shm, entry - 1, site, name, key, now_s);
    }
    vl_segment_unlock(shm);
    return entry;
}

apr_uint32_t vl_hosts_find(vl_shm_t *shm, apr_uint32_t site, const char *host)
{
    char name[VL_HOST_SIZE];
    apr_uint32_t entry, now_s = (apr_uint32_t)(vl_clock_us() / APR_USEC_PER_SEC);
    apr_uint64_t key;

    if (!has_key(shm, site, host, name, &key))
        return site;
    entry = search(shm, key, CHAIN_STEPS);
    if (!entry && (!is_contended(shm, now_s) || was_seen(shm, key, now_s)))
        entry = find_or_begin(shm, site, name, key, now_s);
    if (!entry) {
        __atomic_add_fetch(&shm->hosts->beyond, 1, __ATOMIC_RELAXED);
        return site;
    }
    if (load(&shm->host[entry - 1].last_s) != now_s)
        store(&shm->host[entry - 1].last_s, now_s);
    return account_of(shm, entry - 1);
}

/* --- all hosts ------------------------------------------------------------- */

void vl_hosts_each(const vl_shm_t *shm, vl_hosts_each_fn fn, void *data)
{
    apr_uint32_t entry, used = load(&shm->hosts->used);
    vl_metrics_t metrics;

    for (entry = 0; entry < used; entry++) {
        apr_uint32_t account = account_of(shm, entry);

        if (!__atomic_load_n(&shm->host[entry].key, __ATOMIC_ACQUIRE))
            continue;
        metrics = shm->accounts[account].metrics;
        metrics.running = load(&shm->queue.accounts[account].running)
                          + load(&shm->accounts[account].listed);
        metrics.waiting = load(&shm->queue.accounts[account].waiting);
        metrics.deferred = load(&shm->accounts[account].deferred);
        fn(data, account, load(&shm->host[entry].site), &metrics);
    }
}

void vl_hosts_sum(const vl_shm_t *shm, apr_uint32_t site, apr_int64_t now_us,
                  vl_hosts_sum_t *ret_sum)
{
    apr_uint32_t entry, used = load(&shm->hosts->used);

    memset(ret_sum, 0, sizeof(*ret_sum));
    for (entry = 0; entry < used; entry++) {
        apr_uint32_t account = account_of(shm, entry);
        const vl_fair_account_t *fair = &shm->queue.accounts[account];

        if (load(&shm->host[entry].site) != site
            || !__atomic_load_n(&shm->host[entry].key, __ATOMIC_ACQUIRE))
            continue;
        ret_sum->charged_us += shm->accounts[account].metrics.charged_us;
        ret_sum->backlog_us += vl_fair_backlog(&shm->queue, account, now_us);
        if (ret_sum->newest < shm->accounts[account].rate.newest)
            ret_sum->newest = shm->accounts[account].rate.newest;
        ret_sum->requests += fair->running + fair->waiting + shm->accounts[account].deferred
                             + shm->accounts[account].listed;
    }
}

vl_hosts_count_t vl_hosts_count(const vl_shm_t *shm)
{
    vl_hosts_count_t count = { .max = shm->hosts->max };

    count.limit = load(&shm->hosts->limit);
    count.named = load(&shm->hosts->named);
    count.beyond = __atomic_load_n(&shm->hosts->beyond, __ATOMIC_RELAXED);
    return count;
}

void vl_hosts_post_config_init(vl_shm_t *shm, apr_uint32_t max, apr_uint32_t buckets)
{
    vl_hosts_t *hosts = shm->hosts;

    apr_generate_random_bytes(hosts->secret, sizeof(hosts->secret));
    hosts->max = hosts->limit = max;
    hosts->buckets = buckets;
    hosts->next_serial = shm->head->capacity;
}

void vl_hosts_post_config_limit(vl_shm_t *shm, apr_uint32_t limit)
{
    shm->hosts->capped = 0;
    store(&shm->hosts->limit, limit < shm->hosts->max ? limit : shm->hosts->max);
}

void vl_hosts_refresh(vl_shm_t *shm, apr_uint32_t site)
{
    apr_uint32_t entry = 0, end = 0;

    do {
        if (vl_segment_lock(shm) != APR_SUCCESS)
            return;
        if (vl_fair_is_capped(&shm->queue, site))
            shm->hosts->capped = 1;
        for (end += BATCH; entry < end && entry < shm->hosts->used; entry++) {
            if (shm->host[entry].key && shm->host[entry].site == site)
                configure_locked(shm, account_of(shm, entry), site);
        }
        vl_segment_unlock(shm);
    } while (entry == end);
}
