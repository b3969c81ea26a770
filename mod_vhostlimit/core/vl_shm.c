/* SPDX-License-Identifier: Apache-2.0 */
/* Creation of the segment and its accounts, and snapshots. */
#include "core/vl_shm.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <apr_shm.h>
#include <apr_strings.h>

#include "base/vl_clock.h"
#include "core/vl_slot.h"
#include "core/vl_segment.h"

/* Creates the eventfds before the first child is forked, so that every child inherits all
 * of them. */
static apr_status_t make_wake_fds(vl_shm_t *shm, apr_uint32_t children)
{
    apr_size_t size = sizeof(int) * children;
    apr_uint32_t c;

    shm->wake_fds = memset(apr_palloc(shm->pool, size), 0xff, size);
    for (c = 0; c < children; c++) {
        shm->wake_fds[c] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (shm->wake_fds[c] < 0)
            return errno;
    }
    return APR_SUCCESS;
}

/* Returns the address of the next `size` bytes of the segment, or NULL if base is NULL.
 * Adds their size to *offset. */
static void *carve(char *base, apr_size_t *offset, apr_size_t size)
{
    apr_size_t at = *offset;

    *offset += APR_ALIGN(size, CACHE_LINE);
    return base ? base + at : NULL;
}

/* Returns the number of chains of hosts: a power of 2, at least 1. */
static apr_uint32_t buckets_for(apr_uint32_t hosts)
{
    apr_uint32_t buckets = 1;

    while (buckets < hosts)
        buckets *= 2;
    return buckets;
}

static apr_size_t lay_out(vl_shm_t *shm, char *base, apr_size_t sites, apr_uint32_t hosts,
                          apr_size_t children)
{
    apr_size_t offset = 0, accounts = sites + hosts, c;
    vl_waiting_t *waiting;
    cell_t *cells;
    void *heap;

    shm->head = carve(base, &offset, sizeof(head_t));
    shm->accounts = carve(base, &offset, sizeof(account_t) * accounts);
    shm->queue.accounts = carve(base, &offset, sizeof(vl_fair_account_t) * accounts);
    heap = carve(base, &offset, sizeof(vl_fair_t *) * accounts);
    shm->children = carve(base, &offset, sizeof(child_t) * children);
    cells = carve(base, &offset, sizeof(cell_t) * children * accounts);
    shm->inner = carve(base, &offset, sizeof(vl_inner_t) * accounts);
    shm->clients = carve(base, &offset, sizeof(vl_clients_t));
    shm->sampler = carve(base, &offset, sizeof(vl_sampler_state_t));
    waiting = carve(base, &offset, sizeof(vl_waiting_t) * children * accounts);
    shm->sleeping = carve(base, &offset, sizeof(apr_uint32_t) * children);
    shm->accepting_us = carve(base, &offset, sizeof(apr_int64_t) * children);
    shm->tasks = carve(base, &offset, sizeof(task_t) * VL_TASKS_MAX * children);
    shm->hosts = carve(base, &offset, sizeof(vl_hosts_t));
    shm->host = carve(base, &offset, sizeof(vl_host_t) * hosts);
    shm->host_buckets = carve(base, &offset, sizeof(apr_uint32_t) * buckets_for(hosts));
    shm->host_seen = carve(base, &offset, hosts ? sizeof(apr_uint64_t) * HOSTS_SEEN : 0);
    if (base) {
        shm->queue.head = &shm->head->queue;
        shm->queue.head->heap.at = heap;
        shm->cells = apr_palloc(shm->pool, sizeof(void *) * children);
        shm->waiting = apr_palloc(shm->pool, sizeof(void *) * children);
        for (c = 0; c < children; c++) {
            shm->cells[c] = cells + c * accounts;
            shm->waiting[c] = waiting + c * accounts;
        }
    }
    return offset;
}

static apr_status_t make(vl_shm_t *shm, apr_uint32_t sites, apr_uint32_t hosts,
                         apr_uint32_t children)
{
    apr_shm_t *segment;
    apr_status_t rv;
    cpu_set_t set;
    char *base;

    /* Anonymous: pages that are never written use no memory, and the segment cannot outlive
     * the server. The kernel delivers it zeroed. */
    rv = apr_shm_create(&segment, lay_out(shm, NULL, sites, hosts, children) + CACHE_LINE, NULL,
                        shm->pool);
    if (rv != APR_SUCCESS)
        return rv;
    /* apr puts the size before it. */
    base = apr_shm_baseaddr_get(segment);
    lay_out(shm, base + (CACHE_LINE - (apr_uintptr_t)base % CACHE_LINE) % CACHE_LINE, sites, hosts, children);
    shm->self = NO_CHILD;
    shm->by_name = apr_hash_make(shm->pool);
    shm->head->capacity = sites + hosts;
    shm->head->sites = sites;
    shm->head->children = children;
    shm->head->processors = sched_getaffinity(0, sizeof(set), &set) ? 1
                                                                    : (apr_uint32_t)CPU_COUNT(&set);
    shm->head->created = apr_time_now();
    shm->head->queue.slots = APR_UINT32_MAX;
    vl_clients_init(shm->clients);
    vl_hosts_post_config_init(shm, hosts, buckets_for(hosts));
    rv = vl_segment_post_config_init_lock(shm->head);
    return rv == APR_SUCCESS ? make_wake_fds(shm, children) : rv;
}

apr_status_t vl_shm_post_config_create(apr_pool_t *p, apr_uint32_t sites,
                                       apr_uint32_t hosts, apr_uint32_t children,
                                       vl_shm_t **ret_shm)
{
    apr_pool_t *pool;
    vl_shm_t *shm;
    apr_status_t rv;

    apr_pool_create(&pool, p);
    shm = apr_pcalloc(pool, sizeof(*shm));
    shm->pool = pool;
    rv = make(shm, sites, hosts, children);
    if (rv == APR_SUCCESS)
        *ret_shm = shm;
    else
        vl_shm_post_config_destroy(shm);
    return rv;
}

/* Closes the descriptors here, because a cleanup of the pool would run after the module was
 * unloaded. */
void vl_shm_post_config_destroy(vl_shm_t *shm)
{
    apr_uint32_t c;

    for (c = 0; shm->wake_fds && c < shm->head->children; c++) {
        if (shm->wake_fds[c] >= 0)
            close(shm->wake_fds[c]);
    }
    apr_pool_destroy(shm->pool);
}

int vl_shm_post_config_knows(const vl_shm_t *shm, const char *name)
{
    return apr_hash_get(shm->by_name, name, APR_HASH_KEY_STRING) != NULL;
}

void vl_shm_post_config_begin(vl_shm_t *shm)
{
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    shm->head->generation++;
    shm->reuse_from = 0;
    vl_segment_unlock(shm);
}

/* Returns an account that is no longer needed and removes its name, or NULL if there is
 * none. Requires the segment lock. */
static account_t *account_reuse_locked(vl_shm_t *shm)
{
    for (; shm->reuse_from < shm->head->used; shm->reuse_from++) {
        account_t *account = &shm->accounts[shm->reuse_from];

        if (account->generation == shm->head->generation
            || !vl_segment_is_idle_locked(shm, shm->reuse_from)
            || vl_hosts_forget_locked(shm, shm->reuse_from))
            continue;
        apr_hash_set(shm->by_name, account->name, APR_HASH_KEY_STRING, NULL);
        memset(&shm->inner[shm->reuse_from], 0, sizeof(vl_inner_t));
        vl_fair_forget_clients(shm->clients, shm->reuse_from);
        return account;
    }
    return NULL;
}

static account_t *account_get_locked(vl_shm_t *shm, const char *name)
{
    account_t *account = apr_hash_get(shm->by_name, name, APR_HASH_KEY_STRING);

    if (account)
        return account;
    if (shm->head->used < shm->head->sites)
        account = &shm->accounts[shm->head->used++];
    else
        account = account_reuse_locked(shm);
    if (account) {
        memset(account, 0, sizeof(*account));
        memset(&shm->queue.accounts[account - shm->accounts], 0,
               sizeof(vl_fair_account_t));
        apr_cpystrn(account->name, name, VL_NAME_SIZE);
        apr_hash_set(shm->by_name, account->name, APR_HASH_KEY_STRING,
                     account);
    }
    return account;
}

/* Applies the limits of the configuration. An account that the previous configuration did
 * not name loses its overrides. Requires the segment lock. */
static void configure_locked(vl_shm_t *shm, account_t *account,
                             vl_mode_e mode, const vl_values_t *configured)
{
    apr_uint32_t number = (apr_uint32_t)(account - shm->accounts);
    apr_uint32_t generation = shm->head->generation;
    vl_limits_t limits;

    if (account->generation != generation
        && account->generation != generation - 1)
        vl_override_clear(&account->override);
    account->generation = generation;
    vl_override_configure(&account->override, configured);
    limits = vl_override_limits(mode, &account->override.now);
    vl_fair_set_limits(&shm->queue, number, &limits);
}

apr_status_t vl_shm_post_config_account(vl_shm_t *shm, const char *name,
                                        vl_mode_e mode, const vl_values_t *configured,
                                        apr_uint32_t *ret_account)
{
    account_t *account;
    apr_status_t rv;

    if (strlen(name) >= VL_NAME_SIZE)
        return APR_ENAMETOOLONG;
    rv = vl_segment_lock(shm);
    if (rv != APR_SUCCESS)
        return rv;
    account = account_get_locked(shm, name);
    if (account) {
        configure_locked(shm, account, mode, configured);
        *ret_account = (apr_uint32_t)(account - shm->accounts);
    }
    vl_segment_unlock(shm);
    return account ? APR_SUCCESS : APR_ENOSPC;
}

apr_status_t vl_shm_parent_change(vl_shm_t *shm, apr_uint32_t account,
                                  const vl_change_t *change)
{
    vl_override_t *override = &shm->accounts[account].override;
    apr_status_t rv = vl_segment_lock(shm);
    vl_limits_t limits;

    if (rv != APR_SUCCESS)
        return rv;
    vl_override_change(override, change);
    limits = vl_override_limits(shm->queue.accounts[account].limits.mode, &override->now);
    vl_override_limit_part(override, &shm->queue.accounts[account].part);
    vl_fair_set_limits(&shm->queue, account, &limits);
    vl_segment_unlock(shm);
    vl_hosts_refresh(shm, account);
    vl_slot_dispatch(shm);
    return APR_SUCCESS;
}

apr_int64_t vl_shm_parent_next_us(vl_shm_t *shm)
{
    apr_int64_t next = 0, own;
    apr_uint32_t a;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return 0;
    for (a = 0; a < shm->head->used; a++) {
        const account_t *account = &shm->accounts[a];

        own = account->generation == shm->head->generation
              ? vl_override_next_us(&account->override) : 0;
        if (own && (!next || own < next))
            next = own;
    }
    vl_segment_unlock(shm);
    return next;
}

void vl_shm_post_config_kills(vl_shm_t *shm, apr_uint32_t account,
                              apr_uint64_t kills)
{
    account_t *a = &shm->accounts[account];

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    if (!a->kills_known)
        a->kills = kills;
    a->kills_known = 1;
    vl_segment_unlock(shm);
}

const vl_values_t *vl_shm_post_config_values(const vl_shm_t *shm, apr_uint32_t account)
{
    return &shm->accounts[account].override.now;
}

int vl_shm_post_config_knows_kills(const vl_shm_t *shm, apr_uint32_t account)
{
    return shm->accounts[account].kills_known;
}

static void snapshot_locked(const vl_shm_t *shm, apr_uint32_t account,
                            vl_account_snapshot_t *ret)
{
    const account_t *a = &shm->accounts[account];

    ret->limits = shm->queue.accounts[account].limits;
    ret->override = a->override;
    ret->part = shm->queue.accounts[account].part;
    ret->metrics = a->metrics;
    ret->metrics.running = shm->queue.accounts[account].running
                           + __atomic_load_n(&a->listed, __ATOMIC_RELAXED);
    ret->metrics.waiting = shm->queue.accounts[account].waiting;
    ret->metrics.deferred = a->deferred;
    ret->cost_by = a->cost_by;
    ret->duty = shm->queue.accounts[account].duty;
    ret->asleep = shm->queue.accounts[account].asleep;
    ret->database_permille = a->database_permille;
    ret->database_waits = a->database_waits;
    ret->load = shm->queue.accounts[account].load;
    ret->service_us = a->service_us;
    ret->limited_since_us = a->limited.since_us;
}

apr_status_t vl_shm_snapshots(vl_shm_t *shm, const apr_uint32_t *accounts,
                              apr_size_t n,
                              vl_account_snapshot_t *ret_snapshots,
                              apr_int64_t *held_us)
{
    apr_status_t rv = vl_segment_lock(shm);
    apr_int64_t since_us;
    apr_size_t i;
    unsigned b;

    if (rv != APR_SUCCESS)
        return rv;
    since_us = vl_clock_us();
    for (i = 0; i < n; i++)
        snapshot_locked(shm, accounts[i], &ret_snapshots[i]);
    *held_us += vl_clock_us() - since_us;
    vl_segment_unlock(shm);
    /* The rest needs no lock: names do not change, and the counters need not be consistent. An account
     * without requests has nothing else to read. */
    for (i = 0; i < n; i++) {
        const account_t *a = &shm->accounts[accounts[i]];
        vl_account_snapshot_t *ret = &ret_snapshots[i];

        apr_cpystrn(ret->name, a->name, VL_NAME_SIZE);
        memset(ret->waits, 0, sizeof(ret->waits));
        memset(&ret->rate, 0, sizeof(ret->rate));
        if (!ret->metrics.requests)
            continue;
        ret->rate = a->rate;
        for (b = 0; b < VL_WAIT_BUCKETS; b++)
            ret->waits[b] = __atomic_load_n(&a->waits[b], __ATOMIC_RELAXED);
    }
    return APR_SUCCESS;
}

apr_status_t vl_shm_snapshot(vl_shm_t *shm, apr_uint32_t account,
                             vl_account_snapshot_t *ret_snapshot)
{
    apr_int64_t held_us = 0;

    return vl_shm_snapshots(shm, &account, 1, ret_snapshot, &held_us);
}

void vl_shm_post_config_classes(vl_shm_t *shm, apr_uint32_t account, int has_classes,
                                const apr_uint32_t *weights, apr_uint32_t known_share)
{
    /* The memory of an account that never had any is not touched. */
    if (!has_classes && !shm->accounts[account].has_classes)
        return;
    shm->accounts[account].has_classes = has_classes;
    vl_fair_configure(&shm->inner[account], weights, known_share);
}

void vl_shm_post_config_hosts(vl_shm_t *shm, apr_uint32_t account, int has_hosts)
{
    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    shm->accounts[account].has_hosts = has_hosts;
    vl_segment_unlock(shm);
}

void vl_shm_parent_unconfine(vl_shm_t *shm, apr_uint32_t account, int is_unconfined)
{
    __atomic_store_n(&shm->accounts[account].is_unconfined, is_unconfined, __ATOMIC_RELAXED);
}

int vl_shm_is_unconfined(const vl_shm_t *shm, apr_uint32_t account)
{
    return __atomic_load_n(&shm->accounts[account].is_unconfined, __ATOMIC_RELAXED);
}

int vl_shm_is_contended(const vl_shm_t *shm, apr_uint32_t account)
{
    return vl_fair_contended(&shm->inner[account]);
}

vl_clients_t *vl_shm_clients(const vl_shm_t *shm)
{
    return shm->clients;
}

vl_facts_t vl_shm_facts(const vl_shm_t *shm)
{
    const head_t *head = shm->head;
    const vl_facts_t facts = {
        .capacity = head->capacity, .columns = head->children, .processors = head->processors,
        .created_us = head->created, .slots = __atomic_load_n(&head->queue.slots, __ATOMIC_RELAXED),
        .is_auto = __atomic_load_n(&head->queue.by_duty, __ATOMIC_RELAXED),
        .held = __atomic_load_n(&head->queue.load, __ATOMIC_RELAXED)
    };

    return facts;
}
