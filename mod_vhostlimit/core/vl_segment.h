/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SEGMENT_H
#define VL_SEGMENT_H

/* The shared memory segment: its layout, its lock, and the recovery after a process has died
 * with the lock. Only the core and vl_relay.c include this header.
 *
 * [ head | account x capacity | fair account x capacity | heap x capacity
 *   | child x children | cell x children x capacity | inner x capacity | clients
 *   | sampler | waiting x children x capacity | sleeping x children | accepting x children
 *   | tasks x children | hosts | host x max | bucket x buckets | seen ]
 *
 * Accounts 0 ... sites-1 are those of sites, the others those of hosts (vl_hosts.h).
 *
 * cells[child][account] holds the child's counts of the account. The child's ring holds the
 * slots that were granted to it and not yet taken. Only the child writes its cells.
 * Exceptions: the parent clears them after the child's death (vl_shm_child.c); a grant moves a
 * waiter of a cell into the ring, and a revocation moves it back (vl_slot.c); a child
 * takes a slot over from the acceptor's cell (vl_relay.c).
 *
 * Invariants, which t/unit/validate.h checks:
 *  - running of an account is the sum of its cells and its tickets in the rings; waiting is the
 *    sum of its cells;
 *  - deferred, called and occupied of an account, and occupied and streams of a child, are sums of
 *    cells;
 *  - running of a child is the sum of its cells and the length of its ring;
 *  - head.asking is the number of children with asks set; the acceptor, if there is one, is
 *    a child with a pid and without asks;
 *  - a child with pid 0 has nothing in its cells and its ring, and a stalled child has
 *    nothing in its ring;
 *  - accounts 0 ... used-1 have a name, and no two names are equal; the other accounts of
 *    sites have no name;
 *  - an entry of hosts.used is in one chain, that of its key, or in the list of free ones;
 *  - an account of a site is configured if its generation is the head's. Other accounts are kept.
 *    They are reused if no unused one is left and they have no requests, threads or
 *    connections.
 *
 * Lock: head.lock, the segment lock, guards all of it. It is a robust mutex. The process
 * that finds its owner dead computes the sums again from the cells and rings. That is safe:
 * a single store makes or revokes a grant, and a grant whose waiter is still counted as
 * waiting only leads to one unused grant. No function on the request path makes a system
 * call while it holds the lock.
 *
 * README.md has the files of the core in five rooms. */

#include <pthread.h>

#include <apr_hash.h>
#include <apr_time.h>

#include "core/vl_duty.h"
#include "core/vl_engage.h"
#include "core/vl_fleet.h"
#include "core/vl_hosts.h"
#include "core/vl_limited.h"
#include "core/vl_fair.h"
#include "core/vl_shm.h"

/* Maximum number of grants that a child has not yet taken; a power of 2. */
#define RING_SIZE 128
/* Maximum number of slots on their way to a child (vl_relay.h). A power of 2, because the
 * item numbers wrap around. */
#define RELAY_SIZE 1024
/* Places of the table of names that were seen while requests waited (vl_hosts.c). */
#define HOSTS_SEEN 65536

typedef struct account_t {
    char name[VL_NAME_SIZE];
    apr_uint32_t generation;
    int has_hosts;                  /* it is a site whose hosts have accounts */
    int is_unconfined;              /* its owner has switched its sandbox off; atomic */
    int has_classes;                /* its shares are configured (vl_fair_configure()) */
    vl_override_t override;
    vl_metrics_t metrics;           /* without the gauges, which the fair queue has */
    apr_uint64_t service_us;
    apr_uint32_t occupied;          /* threads that it uses without a slot */
    apr_uint32_t deferred;          /* connections that wait beyond its queue */
    apr_uint32_t thread_us;         /* average CPU time of a request in its thread */
    apr_uint32_t backend_permille;  /* its back ends' CPU time, of time in service */
    apr_uint64_t backend_advance_us;    /* charged since vl_charge_backend() ... */
    apr_uint64_t backend_busy_us;   /* ... for this time in service */
    apr_uint32_t database_permille; /* CPU time of its databases lately, 1000 is one processor */
    apr_uint32_t database_waits;    /* see vl_duty_t */
    apr_int64_t backend_at;         /* last vl_charge_backend() */
    vl_cost_by_e cost_by;
    apr_uint32_t listed;            /* listed requests (vl_engage.h); atomic */
    int kills_known;
    apr_uint64_t kills;             /* last reading of vl_kills_of() */
    apr_uint64_t kills_logged;      /* part of metrics.memory_kills that is logged */
    apr_int64_t kills_logged_at;    /* when it was logged, us */
    vl_rate_t rate;                 /* of the CPU time charged */
    vl_limited_t limited;
    apr_uint64_t waits[VL_WAIT_BUCKETS];
} account_t;

typedef struct cell_t {
    apr_uint32_t running;           /* slots held */
    apr_uint32_t waiting;
    apr_uint32_t deferred;          /* connections that wait beyond the queue */
    apr_uint32_t thread_waiters;    /* in this child; atomic, written only by the child */
    apr_uint32_t parked;            /* queued connections that are parked in the MPM;
                                     * atomic, written only by the child */
    apr_uint32_t occupied;          /* threads used without a slot (vl_slot.h) */
    apr_uint32_t streams;           /* slots held that use no thread of the MPM */
    apr_uint32_t called;            /* slots held for calls of other accounts */
    vl_first_t first;               /* the first waiter */
} cell_t;

/* vl_shm_child.c has the transitions. */
typedef enum {
    CHILD_ACCEPTING,                /* also the value in a free column */
    CHILD_PAUSED,                   /* grants only for waiters that its MPM has */
    CHILD_DRAINING                  /* the same, for good: the child stops */
} child_state_e;

typedef struct child_t {
    pid_t pid;                      /* 0: the column is free */
    apr_uint32_t threads;           /* maximum number of running requests */
    child_state_e state;
    int asks;                       /* 1: waits for a connection, see vl_relay.h */
    apr_uint32_t running;
    apr_uint32_t occupied;
    apr_uint32_t streams;
    apr_uint32_t ended;             /* requests ended since it attached; wraps */
    apr_int64_t arrival_us;         /* vl_charge_arrival() */
    apr_uint32_t calls;             /* slots held for calls (VL_ASK_CALL) */
    apr_uint32_t tasks;             /* entries of its tasks that were ever used; atomic */
    apr_uint32_t listed;            /* listed requests with a thread, and ... */
    apr_uint32_t accepted;          /* ... connections of vl_engage_accepted(); both are atomic */
    int woken;                      /* 1: its eventfd has been written */
    int stalled;                    /* 1: no grants, see vl_slot.c */
    pid_t died;                     /* the process that its rescue process saw die; atomic */
    apr_uint32_t lost;              /* requests that it had when it died */
    apr_int64_t moved_us;           /* last time the ring was empty or was read */
    apr_uint32_t ring_head, ring_len;
    vl_ticket_t ring[RING_SIZE];
} child_t;

/* In three parts, so that no line of a processor's cache is in two: what changes under the lock, with the
 * lock; what is read without it and seldom changes; and what listed requests change. */
#define CACHE_LINE 64

typedef struct head_t {
    pthread_mutex_t lock;
    vl_queue_head_t queue;
    apr_uint32_t calls;             /* the sum of the children's */
    apr_uint32_t reader;            /* child that gives credit and reads kills */
    apr_int64_t read_at;            /* when it last did, us */

    apr_time_t created __attribute__((aligned(CACHE_LINE)));
    int contended;                  /* 1: the heap is not empty; atomic */
    apr_uint32_t capacity;          /* maximum number of accounts */
    apr_uint32_t sites;             /* ... of sites */
    apr_uint32_t children;
    apr_uint32_t columns;           /* children 0 ... columns-1 were ever used */
    apr_uint32_t attached;          /* children that are not draining */
    apr_uint32_t processes, spare;  /* see vl_slot_set_mpm() */
    apr_uint32_t used;              /* accounts of sites that have a name */
    apr_uint32_t generation;        /* of the configuration, starts at 1 */
    int died;                       /* 1: a child has died; atomic */
    apr_uint32_t processors;        /* that the server may use */
    apr_uint32_t acceptor;          /* 0: none, or 1 + the child that accepts connections
                                     * for all children */

    vl_engage_t engage __attribute__((aligned(CACHE_LINE)));    /* see vl_engage.h */

    apr_int64_t limited_at __attribute__((aligned(CACHE_LINE)));    /* when vl_limited.c last checked, us */
    vl_fleet_state_t fleet;         /* see vl_fleet.h */
    apr_uint32_t asking;            /* children that wait for a connection */
    apr_uint32_t unclaimed;         /* connections on their way for which no child was woken;
                                     * atomic (vl_relay.c) */
    apr_int64_t epoch;              /* when the acceptor took over, us */
    apr_uint32_t taken[RELAY_SIZE]; /* last item number taken, by number modulo RELAY_SIZE
                                     * (vl_relay.c) */
} head_t;

#define NO_CHILD ((apr_uint32_t)-1)

struct vl_shm_t {
    head_t *head;
    account_t *accounts;
    vl_queue_t queue;               /* pointers into the segment */
    child_t *children;
    cell_t **cells;                 /* [child][account] */
    vl_inner_t *inner;              /* shares inside each account */
    vl_clients_t *clients;
    vl_sampler_state_t *sampler; /* see vl_duty.h */
    vl_waiting_t **waiting;         /* as cells, but only touched while requests wait */
    apr_uint32_t *sleeping;         /* a futex of each child; 1: it sleeps until it is woken for a
                                     * connection (vl_relay.c) */
    apr_int64_t *accepting_us;      /* when each child last said that it takes new connections, us;
                                     * 0: it takes none; atomic (vl_shm_child.c) */
    task_t *tasks;                  /* VL_TASKS_MAX of each child (vl_duty.h) */
    vl_hosts_t *hosts;
    vl_host_t *host;
    apr_uint32_t *host_buckets;     /* 1 + the first entry of the chain, 0: none; atomic */
    apr_uint64_t *host_seen;        /* HOSTS_SEEN; atomic */
    int *wake_fds;                  /* eventfd of each column, or -1 */
    apr_uint32_t self;              /* column of this process, or NO_CHILD */
    apr_pool_t *pool;               /* parent only: holds all of this */
    apr_hash_t *by_name;            /* parent only: name -> account_t */
    apr_uint32_t reuse_from;        /* parent only: first account to check for reuse */
};

/* Creates the segment lock, in the parent. */
apr_status_t vl_segment_post_config_init_lock(head_t *head);
/* Takes the segment lock. If its last owner died with it, computes the sums again first. */
apr_status_t vl_segment_lock(vl_shm_t *shm);
/* The same in a child. Returns APR_EINIT in a process that has no column. */
apr_status_t vl_segment_lock_child(vl_shm_t *shm);
/* Releases the lock. A function that may have freed a slot calls vl_slot_dispatch_and_unlock()
 * instead. */
void vl_segment_unlock(vl_shm_t *shm);

/* Returns the number of accounts that are or were in use. */
static inline apr_uint32_t vl_segment_count(const vl_shm_t *shm)
{
    return shm->head->used + shm->hosts->used;
}

/* Returns the i-th of them. */
static inline apr_uint32_t vl_segment_account(const vl_shm_t *shm, apr_uint32_t i)
{
    return i < shm->head->used ? i : shm->head->sites + (i - shm->head->used);
}

/* Returns 1 if nothing of the account runs or waits. Requires the segment lock. */
static inline int vl_segment_is_idle_locked(const vl_shm_t *shm, apr_uint32_t account)
{
    const vl_fair_account_t *fair = &shm->queue.accounts[account];
    const account_t *a = &shm->accounts[account];

    return !fair->running && !fair->waiting && !a->occupied && !a->listed && !a->deferred;
}

/* Returns the i-th grant in the child's ring. */
static inline vl_ticket_t *vl_segment_ticket(child_t *child, apr_uint32_t i)
{
    return &child->ring[(child->ring_head + i) % RING_SIZE];
}

/* See vl_hosts_identity(). */
static inline apr_uint32_t vl_segment_identity(const vl_shm_t *shm, apr_uint32_t account)
{
    return account < shm->head->sites ? account
           : __atomic_load_n(&shm->host[account - shm->head->sites].serial, __ATOMIC_RELAXED);
}

/* Sets the acceptor (1 + its child, 0: none). The store is atomic, because some readers do
 * not take the lock. */
static inline void vl_segment_set_acceptor_locked(vl_shm_t *shm,
                                              apr_uint32_t acceptor)
{
    __atomic_store_n(&shm->head->acceptor, acceptor, __ATOMIC_RELAXED);
}

#endif
