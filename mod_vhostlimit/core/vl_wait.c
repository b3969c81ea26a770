/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_wait.h"

#include <stdlib.h>
#include <string.h>

#include "base/vl_pages.h"

/* Heads of the hash of clients that have waiters, a power of 2. */
#define HASH_SIZE 4096

/* Of so many newest waiters the one is closed whose client has most waiters. A bound,
 * because it is chosen for each connection that comes while descriptors are short. */
#define NEWEST_CHECKED 64

/* Of so many grants one goes to a late client, if there is any. */
#define LATE_TURN 16

/* Waiters of one client of an account. */
typedef struct wait_client_t {
    vl_client_id_t id;
    apr_uint32_t account;
    struct wait_client_t *next;     /* with the same hash */
    APR_RING_HEAD(waiters_t, vl_waiter_t) waiters;
    vl_waiter_t *in_time;           /* the first one that is not late; NULL: all are */
    APR_RING_ENTRY(wait_client_t) late_link;
    int is_late;                    /* 1: all are, it is in `late` and not in the heap */
    apr_uint32_t count;
    apr_uint64_t joined;            /* tag that it has at least: the time of its level when
                                     * it began to wait */
    apr_uint64_t tag;               /* by which the heap is ordered; the client's tag may
                                     * be larger by now */
    apr_uint64_t number;            /* order of arrival of clients with equal tags */
    apr_uint32_t heap_pos;
} wait_client_t;

/* Clients of one band of a class. Those with a waiter in time are in a binary heap by tag,
 * then by number. */
typedef struct heap_t {
    wait_client_t **at;
    apr_uint32_t length, size;
    APR_RING_HEAD(late_t, wait_client_t) late;
    apr_uint32_t nlate;
    apr_uint32_t grants;            /* since one went to a late client */
} heap_t;

/* The queue of an account. It exists if and only if it has a waiter, and is then in
 * `busy`. */
typedef struct account_queue_t {
    APR_RING_ENTRY(account_queue_t) link;
    APR_RING_HEAD(account_waiters_t, vl_waiter_t) waiters;     /* by arrival */
    apr_uint32_t account;
    apr_uint32_t count;
    unsigned classes;               /* the highest class that has had a waiter, plus 1 */
    heap_t heaps[VL_CLASSES_MAX][VL_BANDS];
} account_queue_t;

struct vl_wait_t {
    const vl_clients_t *clients;
    vl_inner_t *(*inner)(apr_uint32_t account);
    vl_waiting_t *(*waiting)(apr_uint32_t account);
    account_queue_t **queues;        /* by account */
    APR_RING_HEAD(busy_head_t, account_queue_t) busy;
    apr_uint32_t count;
    apr_uint64_t number;
    wait_client_t *hash[HASH_SIZE];
    account_queue_t *spare_queue;   /* of the last queue that ended */
    wait_client_t *spare_client;
};

static void *zeroed(apr_size_t n, apr_size_t size)
{
    void *memory = calloc(n, size);

    if (!memory)
        abort();
    return memory;
}

static void free_queue(account_queue_t *queue)
{
    apr_uint32_t c, b;

    for (c = 0; c < VL_CLASSES_MAX; c++) {
        for (b = 0; b < VL_BANDS; b++)
            free(queue->heaps[c][b].at);
    }
    free(queue);
}

static apr_status_t free_all(void *data)
{
    vl_wait_t *w = data;
    wait_client_t *client;
    account_queue_t *queue;
    apr_uint32_t i;

    for (i = 0; i < HASH_SIZE; i++) {
        while ((client = w->hash[i])) {
            w->hash[i] = client->next;
            free(client);
        }
    }
    while (!APR_RING_EMPTY(&w->busy, account_queue_t, link)) {
        queue = APR_RING_FIRST(&w->busy);
        APR_RING_REMOVE(queue, link);
        free_queue(queue);
    }
    if (w->spare_queue)
        free_queue(w->spare_queue);
    free(w->spare_client);
    return APR_SUCCESS;
}

vl_wait_t *vl_wait_create(apr_pool_t *p, apr_uint32_t accounts,
                          const vl_clients_t *clients,
                          vl_inner_t *(*inner)(apr_uint32_t account),
                          vl_waiting_t *(*waiting)(apr_uint32_t account))
{
    vl_wait_t *w = vl_pages_make(p, 1, sizeof(*w));

    w->queues = vl_pages_make(p, accounts, sizeof(account_queue_t *));
    w->clients = clients;
    w->inner = inner;
    w->waiting = waiting;
    APR_RING_INIT(&w->busy, account_queue_t, link);
    apr_pool_cleanup_register(p, w, free_all, apr_pool_cleanup_null);
    return w;
}

/* --- the heap of a band --------------------------------------------------- */

static int is_before(const wait_client_t *a, const wait_client_t *b)
{
    return a->tag != b->tag ? a->tag < b->tag : a->number < b->number;
}

static void put(heap_t *heap, apr_uint32_t i, wait_client_t *client)
{
    heap->at[i] = client;
    client->heap_pos = i;
}

static void sift_up(heap_t *heap, apr_uint32_t i)
{
    wait_client_t *client = heap->at[i];

    for (; i && is_before(client, heap->at[(i - 1) / 2]); i = (i - 1) / 2)
        put(heap, i, heap->at[(i - 1) / 2]);
    put(heap, i, client);
}

static void sift_down(heap_t *heap, apr_uint32_t i)
{
    wait_client_t *client = heap->at[i];
    apr_uint32_t child;

    for (; (child = 2 * i + 1) < heap->length; i = child) {
        if (child + 1 < heap->length && is_before(heap->at[child + 1], heap->at[child]))
            child++;
        if (!is_before(heap->at[child], client))
            break;
        put(heap, i, heap->at[child]);
    }
    put(heap, i, client);
}

static void heap_add(heap_t *heap, wait_client_t *client)
{
    if (heap->length == heap->size) {
        heap->size = heap->size ? heap->size * 2 : 16;
        heap->at = realloc(heap->at, heap->size * sizeof(wait_client_t *));
        if (!heap->at)
            abort();
    }
    put(heap, heap->length++, client);
    sift_up(heap, heap->length - 1);
}

static void heap_remove(heap_t *heap, const wait_client_t *client)
{
    apr_uint32_t i = client->heap_pos;
    wait_client_t *last = heap->at[--heap->length];

    if (last == client)
        return;
    put(heap, i, last);
    sift_up(heap, i);
    sift_down(heap, last->heap_pos);
}

/* --- what the other processes are told ------------------------------------- */

static void set(apr_uint32_t *value, apr_uint32_t n)
{
    __atomic_store_n(value, n, __ATOMIC_RELAXED);
}

static void tell_clients(const vl_wait_t *w, const wait_client_t *client, int by)
{
    vl_waiting_t *waiting = client->id.key ? w->waiting(client->account) : NULL;

    if (waiting)
        set(&waiting->clients, waiting->clients + (apr_uint32_t)by);
}

static void tell_count(const vl_wait_t *w, const wait_client_t *client, int by)
{
    vl_waiting_t *waiting = w->waiting(client->account);

    if (!waiting)
        return;
    set(&waiting->classes[client->id.class_no],
        waiting->classes[client->id.class_no] + (apr_uint32_t)by);
    if (client->id.key
        && (client->count > waiting->most || client->id.key == waiting->most_key)) {
        set(&waiting->most, client->count);
        __atomic_store_n(&waiting->most_key, client->count ? client->id.key : 0,
                         __ATOMIC_RELAXED);
    }
}

/* --- the clients of an account -------------------------------------------- */

static wait_client_t **hash_of(vl_wait_t *w, apr_uint32_t account,
                               const vl_client_id_t *id)
{
    apr_uint64_t hash = id->key ? id->key >> 1
                                : account * VL_CLASSES_MAX * VL_BANDS
                                  + id->class_no * VL_BANDS + id->band;

    return &w->hash[hash % HASH_SIZE];
}

static int is_of(const wait_client_t *client, apr_uint32_t account, const vl_client_id_t *id)
{
    return client->id.key == id->key && client->account == account
           && client->id.class_no == id->class_no && client->id.band == id->band;
}

static heap_t *heap_of(account_queue_t *queue, const wait_client_t *client)
{
    return &queue->heaps[client->id.class_no][client->id.band];
}

/* All waiters of the client are late. */
static void become_late(heap_t *heap, wait_client_t *client)
{
    heap_remove(heap, client);
    client->is_late = 1;
    APR_RING_INSERT_TAIL(&heap->late, client, wait_client_t, late_link);
    heap->nlate++;
}

static void leave_late(heap_t *heap, wait_client_t *client)
{
    APR_RING_REMOVE(client, late_link);
    heap->nlate--;
    client->is_late = 0;
}

/* The client has a waiter that is in time. */
static void be_in_time(heap_t *heap, wait_client_t *client, vl_waiter_t *first)
{
    client->in_time = first;
    if (!client->is_late)
        return;
    leave_late(heap, client);
    heap_add(heap, client);
}

static wait_client_t *client_of(vl_wait_t *w, account_queue_t *queue, const vl_waiter_t *waiter)
{
    const vl_client_id_t *id = &waiter->client;
    wait_client_t **head = hash_of(w, queue->account, id), *client;

    for (client = *head; client; client = client->next) {
        if (is_of(client, queue->account, id))
            return client;
    }
    client = w->spare_client ? w->spare_client : zeroed(1, sizeof(*client));
    w->spare_client = NULL;
    client->id = *id;
    client->account = queue->account;
    client->count = 0;
    APR_RING_INIT(&client->waiters, vl_waiter_t, client_link);
    client->next = *head;
    *head = client;
    client->joined = vl_clients_join(w->clients, w->inner(queue->account), id, &client->tag);
    client->number = w->number++;
    client->in_time = NULL;
    client->is_late = 0;
    heap_add(heap_of(queue, client), client);
    tell_clients(w, client, 1);
    if (queue->classes <= id->class_no)
        queue->classes = id->class_no + 1u;
    return client;
}

static void end_client(vl_wait_t *w, account_queue_t *queue, wait_client_t *client)
{
    wait_client_t **at = hash_of(w, client->account, &client->id);

    tell_clients(w, client, -1);
    if (client->is_late)
        leave_late(heap_of(queue, client), client);
    else
        heap_remove(heap_of(queue, client), client);
    while (*at != client)
        at = &(*at)->next;
    *at = client->next;
    if (w->spare_client)
        free(client);
    else
        w->spare_client = client;
}

/* Returns the client that is next in the heap. Tags only grow while a client waits, so a
 * client whose tag has grown moves down when it comes to the top. */
static wait_client_t *next_client(const vl_wait_t *w, heap_t *heap)
{
    for (;;) {
        wait_client_t *client = heap->at[0];
        apr_uint64_t tag = vl_clients_tag(w->clients, &client->id, client->joined);

        if (tag <= client->tag)
            return client;
        client->tag = tag;
        sift_down(heap, 0);
        if (heap->at[0] == client)
            return client;
    }
}

/* --- the queue of an account ---------------------------------------------- */

static account_queue_t *queue_of(vl_wait_t *w, apr_uint32_t account)
{
    account_queue_t *queue = w->queues[account];
    apr_uint32_t c, b;

    if (queue)
        return queue;
    queue = w->spare_queue ? w->spare_queue : zeroed(1, sizeof(*queue));
    w->spare_queue = NULL;
    queue->account = account;
    for (c = 0; c < VL_CLASSES_MAX; c++) {
        for (b = 0; b < VL_BANDS; b++)
            APR_RING_INIT(&queue->heaps[c][b].late, wait_client_t, late_link);
    }
    APR_RING_INIT(&queue->waiters, vl_waiter_t, link);
    APR_RING_INSERT_TAIL(&w->busy, queue, account_queue_t, link);
    w->queues[account] = queue;
    return queue;
}

static void end_queue(vl_wait_t *w, account_queue_t *queue)
{
    APR_RING_REMOVE(queue, link);
    w->queues[queue->account] = NULL;
    if (w->spare_queue)
        free_queue(queue);
    else
        w->spare_queue = queue;
}

static void count(vl_wait_t *w, account_queue_t *queue, wait_client_t *client, int by)
{
    client->count += (apr_uint32_t)by;
    queue->count += (apr_uint32_t)by;
    w->count += (apr_uint32_t)by;
    tell_count(w, client, by);
}

void vl_wait_add(vl_wait_t *w, vl_waiter_t *waiter)
{
    account_queue_t *queue = queue_of(w, waiter->account);
    wait_client_t *client = client_of(w, queue, waiter);
    vl_waiter_t *before = APR_RING_LAST(&queue->waiters);

    /* Only a connection transferred from another child can be older than the last
     * waiter. */
    while (before != APR_RING_SENTINEL(&queue->waiters, vl_waiter_t, link)
           && before->since_us > waiter->since_us)
        before = APR_RING_PREV(before, link);
    APR_RING_INSERT_AFTER(before, waiter, link);
    before = APR_RING_LAST(&client->waiters);
    while (before != APR_RING_SENTINEL(&client->waiters, vl_waiter_t, client_link)
           && before->since_us > waiter->since_us)
        before = APR_RING_PREV(before, client_link);
    APR_RING_INSERT_AFTER(before, waiter, client_link);
    if (!client->in_time || client->in_time->since_us > waiter->since_us)
        be_in_time(heap_of(queue, client), client, waiter);
    waiter->client_queue = client;
    waiter->was_late = 0;
    count(w, queue, client, 1);
}

void vl_wait_add_first(vl_wait_t *w, vl_waiter_t *waiter)
{
    account_queue_t *queue = queue_of(w, waiter->account);
    wait_client_t *client = client_of(w, queue, waiter);

    APR_RING_INSERT_HEAD(&queue->waiters, waiter, vl_waiter_t, link);
    APR_RING_INSERT_HEAD(&client->waiters, waiter, vl_waiter_t, client_link);
    be_in_time(heap_of(queue, client), client, waiter);
    waiter->client_queue = client;
    count(w, queue, client, 1);
}

/* Returns the client's waiter after this one, or NULL. */
static vl_waiter_t *next_of(wait_client_t *client, const vl_waiter_t *waiter)
{
    vl_waiter_t *next = APR_RING_NEXT(waiter, client_link);

    return next == APR_RING_SENTINEL(&client->waiters, vl_waiter_t, client_link) ? NULL : next;
}

void vl_wait_remove(vl_wait_t *w, vl_waiter_t *waiter)
{
    account_queue_t *queue = w->queues[waiter->account];
    wait_client_t *client = waiter->client_queue;

    if (client->in_time == waiter)
        client->in_time = next_of(client, waiter);
    APR_RING_REMOVE(waiter, link);
    APR_RING_REMOVE(waiter, client_link);
    waiter->client_queue = NULL;
    count(w, queue, client, -1);
    if (!client->count)
        end_client(w, queue, client);
    if (!queue->count)
        end_queue(w, queue);
}

static int has_clients(const heap_t *heap)
{
    return heap->length || heap->nlate;
}

/* Returns the class whose turn it is. */
static unsigned next_class(const account_queue_t *queue, const vl_inner_t *inner)
{
    unsigned c, best = VL_CLASSES_MAX;
    apr_uint64_t tag, least = 0;

    for (c = 0; c < queue->classes; c++) {
        if (!has_clients(&queue->heaps[c][VL_BAND_STRANGERS])
            && !has_clients(&queue->heaps[c][VL_BAND_KNOWN]))
            continue;
        tag = vl_clients_class_tag(inner, c);
        if (best == VL_CLASSES_MAX || tag < least) {
            best = c;
            least = tag;
        }
    }
    return best;
}

static unsigned next_band(const account_queue_t *queue, const vl_inner_t *inner, unsigned class_no)
{
    const heap_t *heaps = queue->heaps[class_no];
    apr_uint64_t known = vl_clients_band_tag(inner, class_no, VL_BAND_KNOWN);
    apr_uint64_t strangers = vl_clients_band_tag(inner, class_no, VL_BAND_STRANGERS);
    int is_known = has_clients(&heaps[VL_BAND_KNOWN])
                   && (!has_clients(&heaps[VL_BAND_STRANGERS]) || known <= strangers);

    return is_known ? VL_BAND_KNOWN : VL_BAND_STRANGERS;
}

/* Returns the waiter after one that is late, or NULL. */
static vl_waiter_t *after_late(const vl_wait_t *w, wait_client_t *client, vl_waiter_t *late)
{
    if (!late->was_late)
        vl_clients_late(w->inner(client->account));
    late->was_late = 1;
    return next_of(client, late);
}

/* Finds the client that is next in the band, and marks waiters that arrived before late_us
 * as late. Nothing is late if late_us is 0. Returns NULL if all clients are late. */
static wait_client_t *next_in_time(const vl_wait_t *w, heap_t *heap, apr_int64_t late_us)
{
    wait_client_t *client;

    while (!late_us && heap->nlate) {
        client = APR_RING_FIRST(&heap->late);
        be_in_time(heap, client, APR_RING_FIRST(&client->waiters));
    }
    while (heap->length) {
        client = next_client(w, heap);
        if (!late_us)
            client->in_time = APR_RING_FIRST(&client->waiters);
        while (client->in_time && client->in_time->since_us < late_us)
            client->in_time = after_late(w, client, client->in_time);
        if (client->in_time)
            return client;
        become_late(heap, client);
    }
    return NULL;
}

/* The children compare the arrival of the waiters themselves, not of the oldest in each child. If
 * another client has older ones in one of two children, that child would win each comparison of two
 * waiters of the same client. */
static void tell_first(const wait_client_t *client, const vl_waiter_t *waiter, vl_first_t *first)
{
    first->key = client->id.key;
    first->joined = client->joined;
    first->tag = client->tag;
    first->since_us = waiter->since_us;
    first->class_no = client->id.class_no;
    first->band = client->id.band;
}

vl_waiter_t *vl_wait_first(vl_wait_t *w, apr_uint32_t account, apr_int64_t now_us,
                           vl_first_t *ret_first)
{
    account_queue_t *queue = w->queues[account];
    const vl_inner_t *inner;
    wait_client_t *client;
    vl_waiter_t *waiter;
    heap_t *heap;
    apr_int64_t patience_us;
    unsigned c;

    if (!queue)
        return NULL;
    inner = w->inner(account);
    patience_us = vl_clients_patience(inner, now_us);
    c = next_class(queue, inner);
    heap = &queue->heaps[c][next_band(queue, inner, c)];
    client = next_in_time(w, heap, patience_us ? now_us - patience_us : 0);
    if (!client || (heap->nlate && heap->grants >= LATE_TURN))
        client = APR_RING_FIRST(&heap->late);
    waiter = client->is_late ? APR_RING_FIRST(&client->waiters) : client->in_time;
    if (ret_first)
        tell_first(client, waiter, ret_first);
    return waiter;
}

vl_waiter_t *vl_wait_pop(vl_wait_t *w, apr_uint32_t account, apr_int64_t now_us,
                         apr_uint64_t *ret_joined, apr_uint32_t *ret_others)
{
    vl_waiter_t *waiter = vl_wait_first(w, account, now_us, NULL);
    heap_t *heap;

    if (!waiter)
        return NULL;
    heap = heap_of(w->queues[account], waiter->client_queue);
    heap->grants = waiter->client_queue->is_late ? 0 : heap->grants + 1;
    vl_clients_stayed(w->inner(account), now_us - waiter->since_us);
    *ret_joined = waiter->client_queue->joined;
    *ret_others = heap->length + heap->nlate;
    vl_wait_remove(w, waiter);
    return waiter;
}

vl_waiter_t *vl_wait_first_in_mpm(const vl_wait_t *w, apr_uint32_t account)
{
    account_queue_t *queue = w->queues[account];
    vl_waiter_t *waiter;

    if (!queue)
        return NULL;
    APR_RING_FOREACH(waiter, &queue->waiters, vl_waiter_t, link) {
        if (waiter->in_mpm)
            return waiter;
    }
    return NULL;
}

vl_waiter_t *vl_wait_expired(vl_wait_t *w, apr_int64_t now_us)
{
    account_queue_t *queue;

    APR_RING_FOREACH(queue, &w->busy, account_queue_t, link) {
        vl_waiter_t *first = APR_RING_FIRST(&queue->waiters);

        if (first->deadline_us > now_us)
            continue;
        APR_RING_REMOVE(queue, link);
        APR_RING_INSERT_TAIL(&w->busy, queue, account_queue_t, link);
        return first;
    }
    return NULL;
}

vl_waiter_t *vl_wait_any(const vl_wait_t *w, vl_waiter_done_fn done,
                         int (*may)(apr_uint32_t account))
{
    account_queue_t *queue;
    vl_waiter_t *waiter;

    APR_RING_FOREACH(queue, &w->busy, account_queue_t, link) {
        if (may && !may(queue->account))
            continue;
        APR_RING_FOREACH(waiter, &queue->waiters, vl_waiter_t, link) {
            if (waiter->done == done)
                return waiter;
        }
    }
    return NULL;
}

apr_uint32_t vl_wait_longest(const vl_wait_t *w)
{
    account_queue_t *queue, *longest = NULL;

    APR_RING_FOREACH(queue, &w->busy, account_queue_t, link) {
        if (!longest || queue->count > longest->count)
            longest = queue;
    }
    return longest ? longest->account : VL_NO_FLOW;
}

vl_waiter_t *vl_wait_newest_with(const vl_wait_t *w, apr_uint32_t account,
                                 vl_waiter_done_fn done)
{
    account_queue_t *queue = w->queues[account];
    vl_waiter_t *waiter, *newest = NULL;
    int n = NEWEST_CHECKED;

    if (!queue)
        return NULL;
    for (waiter = APR_RING_LAST(&queue->waiters);
         waiter != APR_RING_SENTINEL(&queue->waiters, vl_waiter_t, link)
         && (n > 0 || !newest);
         waiter = APR_RING_PREV(waiter, link), n--) {
        if (waiter->done == done
            && (!newest || waiter->client_queue->count > newest->client_queue->count))
            newest = waiter;
    }
    return newest;
}

void vl_wait_each_account(vl_wait_t *w, void (*fn)(apr_uint32_t account))
{
    account_queue_t *queue, *next;

    for (queue = APR_RING_FIRST(&w->busy);
         queue != APR_RING_SENTINEL(&w->busy, account_queue_t, link); queue = next) {
        next = APR_RING_NEXT(queue, link);
        fn(queue->account);
    }
}

apr_uint32_t vl_wait_count(const vl_wait_t *w)
{
    return w->count;
}

apr_uint32_t vl_wait_count_of(const vl_wait_t *w, apr_uint32_t account)
{
    return w->queues[account] ? w->queues[account]->count : 0;
}
