/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SHM_INT_H
#define VL_SHM_INT_H

/* The segment's layout, for the rooms of the core that keep it.
 *
 * [ head | account x capacity | flow x capacity | heap x capacity
 *   | child x children | cell x children x capacity ]
 *
 * cells[child][account] says what the child has of the account, and its ring
 * which slots it has been granted and not picked up.  Only that child writes
 * its cells, and the parent once it is dead, but for a slot that a child takes
 * from the acceptor (vl_relay.c); dispatch (vl_slot.c) puts grants
 * into the ring and then counts one waiting less, and the other way round when a
 * child does not pick them up (vl_stalled.c).
 *  - running of a flow is the sum of its cells and its tickets in the rings,
 *    waiting the sum of its cells;
 *  - deferred and occupied of an account, and occupied and streams of a child,
 *    are sums of cells;
 *  - a child's running is the sum of its cells and its ring's length;
 *  - asking of the head is how many children ask; the acceptor, if there is one,
 *    is a child with a pid that does not ask;
 *  - a child with pid 0 has nothing in its cells and its ring, one that stands
 *    still has nothing in its ring;
 *  - accounts 0 ... used-1 have a name, no two the same; the others have none;
 *  - an account is configured if it carries the head's generation.  Others are
 *    kept, and their room is used again when it is short and nothing runs
 *    or waits in them.
 * All of it is guarded by head.lock, a robust mutex: whoever finds its owner
 * dead computes the sums again, because the cells and rings are the truth: a
 * grant is there or not with one store, and one that was not yet taken off the
 * waiting only leads to a grant that nobody wants.  Nothing on
 * the request path makes a system call while it holds the lock. */

#include <pthread.h>

#include <apr_hash.h>
#include <apr_time.h>

#include "core/vl_auto.h"
#include "core/vl_cpu.h"
#include "core/vl_limited.h"
#include "core/vl_queue.h"
#include "core/vl_shm.h"
#include "core/vl_slot.h"

/* Slots granted to a child that it has not picked up; a power of 2. */
#define RING_SIZE 128
/* Slots on their way to a child (vl_relay.h); a power of 2, because numbers wrap
 * around. */
#define RELAY_SIZE 1024

typedef struct account_t {
    char name[VL_NAME_SIZE];
    apr_uint32_t generation;
    vl_limits_t limits;
    vl_override_t override;
    vl_metrics_t metrics;           /* its gauges are in the flow */
    apr_uint64_t service_us;
    apr_uint32_t occupied;          /* threads without a slot */
    apr_uint32_t deferred;          /* connections beyond its queue */
    int measured;                   /* vl_charge_usage() knows its back ends */
    apr_uint64_t usage_us;          /* its last reading; 0: none */
    apr_uint32_t thread_us;         /* a request's CPU in its thread, average */
    apr_uint32_t backend_us;        /* a request's part of that, estimated */
    apr_uint32_t backend_ended;     /* requests charged so since then ... */
    apr_int64_t backend_since_us;   /* ... of which the first ended */
    vl_cost_by_e cost_by;
    int kills_known;
    apr_uint64_t kills;             /* vl_usage_kills(), the last reading */
    apr_uint64_t kills_told;        /* of metrics.memory_kills, in the log ... */
    apr_int64_t kills_told_at;      /* ... when, us */
    vl_rate_t rate;                 /* of what was charged */
    vl_limited_t limited;
    apr_uint64_t waits[VL_WAIT_BUCKETS];
} account_t;

typedef struct cell_t {
    apr_uint32_t running;           /* slots held */
    apr_uint32_t waiting;
    apr_uint32_t deferred;          /* connections beyond the queue */
    apr_uint32_t with_thread;       /* of its line; atomic, the child's own */
    apr_uint32_t parked;            /* of its line, in the MPM without a thread;
                                     * atomic, the child's own */
    apr_uint32_t occupied;          /* threads without a slot (vl_thread.h) */
    apr_uint32_t streams;           /* slots held without a thread of the MPM */
    apr_int64_t first_us;           /* when the first of them came */
} cell_t;

typedef struct child_t {
    pid_t pid;                      /* 0: column is free */
    apr_uint32_t threads;           /* most it can run */
    int paused;                     /* only what its MPM has is granted to */
    int leaving;                    /* for good */
    int asks;                       /* for a connection, see vl_relay.h */
    apr_uint32_t running;
    apr_uint32_t occupied;
    apr_uint32_t streams;
    apr_uint32_t ended;             /* since it began; wraps around */
    apr_uint32_t elsewhere;         /* of them, worked on elsewhere */
    apr_uint64_t cpu_us;            /* that it had used at head_t.cpu_at */
    int woken;                      /* its descriptor has been written */
    int stalled;                      /* it is granted nothing, see vl_stalled.c */
    apr_int64_t moved_us;           /* when its ring was last empty, or read */
    apr_uint32_t ring_head, ring_len;
    vl_ticket_t ring[RING_SIZE];
} child_t;

typedef struct head_t {
    pthread_mutex_t lock;
    apr_time_t created;
    apr_uint32_t capacity;          /* accounts */
    apr_uint32_t children;
    apr_uint32_t columns;           /* children 0 ... columns-1 were ever used */
    apr_uint32_t used;              /* accounts with a name */
    apr_uint32_t generation;        /* of the configuration, from 1 */
    vl_queue_head_t queue;
    int contended;                  /* a flow is ready to run; atomic */
    apr_uint32_t processors;        /* that the server may use */
    apr_uint32_t elsewhere;         /* requests worked on elsewhere */
    apr_int64_t elsewhere_at;       /* us, when their clock was last moved */
    apr_uint64_t elsewhere_ns;      /* what it shows */
    apr_int64_t outside_at;         /* us, when some were last known that no
                                     * group measures */
    apr_uint32_t others_permille;   /* of a processor, used by processes that are
                                     * not the children; UINT32_MAX: not known */
    apr_int64_t cpu_at;             /* us, when the processors' times were read */
    vl_cpu_t cpu;                   /* those */
    apr_uint32_t reader;            /* child that reads usage ... */
    apr_int64_t read_at;            /* ... and did at, us */
    int auto_on;                    /* the slots are found by vl_auto.h */
    vl_auto_t auto_state;
    apr_int64_t watch_at;           /* when vl_watch.c last looked, us */
    apr_uint32_t acceptor;          /* child that accepts for all, and 1 */
    apr_uint32_t asking;            /* children that wait for a connection */
    apr_int64_t epoch;              /* when the acceptor began, us */
    apr_uint32_t taken[RELAY_SIZE]; /* the last number that was taken there */
} head_t;

#define NO_CHILD ((apr_uint32_t)-1)

struct vl_shm_t {
    head_t *head;
    account_t *accounts;
    vl_queue_t queue;               /* view of the flows */
    child_t *children;
    cell_t *cells;
    int *wake_fds;                  /* eventfd of each column, or -1 */
    apr_uint32_t self;              /* this process's column, or NO_CHILD */
    apr_pool_t *pool;               /* the parent's; all of this is in it */
    apr_hash_t *by_name;            /* the parent's; name -> account_t */
    apr_uint32_t spare;             /* the parent's; search for room from here */
};

apr_status_t vl_shm_lock(vl_shm_t *shm);
void vl_shm_unlock(vl_shm_t *shm);

/* vl_slot.c's, for the rooms beside it.  vl_slot_lock() fails in a process that
 * is no child; every holder grants what is free before it unlocks. */
apr_status_t vl_slot_lock(vl_shm_t *shm);
void vl_slot_dispatch_and_unlock(vl_shm_t *shm);
/* A slot comes back, used or not. */
void vl_slot_release_locked(vl_shm_t *shm, const vl_ticket_t *ticket,
                            apr_uint64_t cost_us);
void vl_slot_cancel_locked(vl_shm_t *shm, const vl_ticket_t *ticket);

/* vl_capacity.c's, for the rooms beside it.  Requests a child can work on at once,
 * or, of the acceptor, that it can pass on. */
apr_uint32_t vl_capacity_most(const vl_shm_t *shm, apr_uint32_t child);
/* Threads of the MPM that are not free. */
apr_uint32_t vl_capacity_busy(const child_t *child);
/* How many more sockets it can work on. */
apr_uint32_t vl_capacity_left(const vl_shm_t *shm, apr_uint32_t child);
/* The account's slots in the child's ring. */
apr_uint32_t vl_capacity_granted_to(const child_t *child, apr_uint32_t account);
/* Threads of the child are left for others if the account, which has been
 * granted so many slots there, gets one more. */
int vl_capacity_is_left(const vl_shm_t *shm, apr_uint32_t child,
                    apr_uint32_t account, apr_uint32_t granted);
/* One who waits there may be granted a slot, as far as the child goes. */
int vl_capacity_may_grant(const vl_shm_t *shm, apr_uint32_t child,
                      apr_uint32_t account);
/* The account has more of this child's threads than one account may have
 * (vl_admit_more()). */
int vl_capacity_is_exceeded_locked(const vl_shm_t *shm, apr_uint32_t account);
/* Under prefork: beside the processes that the account has, its idle connections'
 * included, it may be granted one more. */
int vl_capacity_leaves_process_locked(const vl_shm_t *shm, apr_uint32_t account);

/* vl_charge.c's: a slot that was used comes back, and is charged for. */
apr_uint64_t vl_charge_end_locked(vl_shm_t *shm, const vl_ticket_t *ticket,
                                  const vl_cost_t *cost);
/* us of CPU time that the account has cost besides its requests' own. */
void vl_charge_pay_locked(vl_shm_t *shm, apr_uint32_t account,
                              apr_uint64_t us);

/* The i-th of the slots that were granted and not picked up. */
static inline vl_ticket_t *vl_shm_ticket(child_t *child, apr_uint32_t i)
{
    return &child->ring[(child->ring_head + i) % RING_SIZE];
}

static inline cell_t *vl_shm_cell(const vl_shm_t *shm, apr_uint32_t child,
                                  apr_uint32_t account)
{
    return &shm->cells[(apr_size_t)child * shm->head->capacity + account];
}

/* Some ask who it is without the lock.  0: nobody. */
static inline void vl_shm_set_acceptor_locked(vl_shm_t *shm,
                                              apr_uint32_t acceptor)
{
    __atomic_store_n(&shm->head->acceptor, acceptor, __ATOMIC_RELAXED);
}

#endif
