/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_FAIR_H
#define VL_FAIR_H

/* Start-time fair queueing (Goyal, Vin, Cheng 1996), for each level that shares: between
 * sites, and inside a site between its classes, known clients and clients.
 *
 * Each member of a level has a tag: the service that it has received, divided by its weight.
 * The member with the least tag is next. A level has a virtual time, `vtime`, which is at least
 * the tag of the last member that was next. A member that was idle joins at that time, so idle
 * time earns no service.
 *
 * Tags wrap around, so they are only compared by their signed difference, as in the kernel's
 * scheduler (time_after64()). Tags are read and written atomically, because those inside a site
 * have no lock. The heap has the caller's lock. */

#include <apr_pools.h>
#include <apr_ring.h>

#include "core/vl_shm.h"

/* A tag grows by this much for each us of CPU time at weight 1. Fine enough that a cheap request
 * of the member with the largest weight still counts. */
#define VL_FAIR_UNIT 65536

/* A member of a level that has a heap. */
typedef struct vl_fair_t {
    apr_uint64_t tag;
    apr_uint64_t order;         /* of two with the same tag, the lower one is next */
    apr_uint32_t place;         /* 1 + index in the heap; 0: not in it */
} vl_fair_t;

/* A binary heap. The caller provides `at`, with room for all members. */
typedef struct vl_fair_heap_t {
    vl_fair_t **at;
    apr_uint32_t length;
} vl_fair_heap_t;

/* How far tag a is after b; below 0: before it. */
#define VL_FAIR_AFTER(a, b) ((apr_int64_t)((a) - (b)))
/* By how much us of CPU time advance a tag. */
#define VL_FAIR_ADVANCE(us, weight) ((apr_int64_t)(us) * VL_FAIR_UNIT / (apr_int64_t)(weight))

/* --- between sites ------------------------------------------------------------ */

/* The fair queue between accounts: with depth D, SFQ(D) (Jin, Chase, Kaur 2004, for storage).
 *
 * An account only has a tag and a number of waiting and running requests. The caller
 * keeps the requests, and decides which may begin (vl_slot.h). Head, accounts and heap are in memory that other
 * processes have at the same address. Lock: the segment lock, which the caller has.
 *
 * Depth counts runnable work, unless the administrator has set it. A running request counts as
 * its account's duty: the part of its time in which it wants a processor, as the sampler measures
 * it (vl_duty.h). A request that sleeps holds nearly no slot.
 *
 * The cost of a request is known only at its end. So its account is charged an estimate (a
 * moving average) at the start and the difference at the end. */

#define VL_WEIGHT_MAX 10000
#define VL_NO_ACCOUNT ((apr_uint32_t)-1)

typedef struct vl_fair_account_t {
    vl_fair_t fair;             /* first member: the heap has pointers to it */
    vl_limits_t limits;         /* of which weight, concurrency and cpu matter here */
    vl_part_t part;             /* leased by vhostlimit-fleet */
    apr_int64_t served_us;      /* the sum of all that it was charged */
    apr_int64_t credit_us;      /* left under the cap; below 0: debt */
    apr_int64_t waiting_since_us;   /* when the first of its waiting requests arrived */
    apr_uint64_t backlog_us;    /* time in which a request waited, until then */
    apr_int64_t ended_us;       /* when one of its running requests last ended, or the first
                                 * of them began */
    apr_uint32_t waiting;
    apr_uint32_t running;       /* begun, not yet ended */
    apr_uint32_t asleep;        /* of these, for long: they hold no slot */
    apr_uint32_t idle;          /* of these, without a back end: no concurrency either */
    apr_uint32_t awake;         /* part of their time outside of shared backlogs in which they wanted a processor, permille */
    apr_uint32_t duty;          /* permille; 0: unknown, that of the head holds */
    apr_uint32_t load;          /* permille of a slot that its running requests hold */
    apr_uint32_t called;        /* running: requests of other accounts wait for these */
    apr_uint32_t estimate_us;   /* estimated cost of a request; at least 1 */
    apr_uint32_t weight_milli;  /* of the part or the limits */
    apr_uint32_t active_milli;  /* the same while it is active; 0: it is not */
} vl_fair_account_t;

typedef struct vl_queue_head_t {
    apr_uint64_t vtime;         /* tag of the last account that began a request */
    vl_fair_heap_t heap;        /* of accounts */
    apr_uint32_t slots;         /* D: most runnable requests in all accounts */
    apr_uint32_t running;
    int by_duty;                /* 1: slots count runnable work; 0: requests, and they are
                                 * never exceeded */
    apr_uint32_t duty;          /* average of all accounts, permille; 0: unknown */
    apr_uint32_t heaviest;      /* 1 + the account with the most load for its weight, as far as
                                 * known; 0: none */
    apr_uint32_t ahead;         /* 1 + the running account with the latest tag, as far as known; 0: none */
    apr_uint64_t load;          /* the sum of the accounts', permille of a slot */
    apr_uint32_t waiting;
    apr_uint32_t active;        /* accounts with a waiting or running request */
    apr_uint64_t active_milli;  /* the sum of their weights * 1000 */
} vl_queue_head_t;

typedef struct vl_queue_t {
    vl_queue_head_t *head;
    vl_fair_account_t *accounts;
} vl_queue_t;

/* Sets the limits of an account. They may change at any time. */
void vl_fair_set_limits(vl_queue_t *q, apr_uint32_t account, const vl_limits_t *limits);

/* Sets what vhostlimit-fleet leases to the account. A change of the cap adds no credit. */
void vl_fair_set_part(vl_queue_t *q, apr_uint32_t account, const vl_part_t *part);
/* Returns the limits that hold: the part's concurrency in place of a larger one. */
vl_limits_t vl_fair_limits(const vl_queue_t *q, apr_uint32_t account);
/* Returns 1 if the account has a cap of CPU time. */
int vl_fair_is_capped(const vl_queue_t *q, apr_uint32_t account);
/* Returns the time in which a request of the account waited, us. */
apr_uint64_t vl_fair_backlog(const vl_queue_t *q, apr_uint32_t account, apr_int64_t now_us);

/* An account with a cap (limits.cpu, part.cpu_permille) has a token bucket of credit. Its cost
 * is taken from the credit, and it is granted nothing without credit. The credit grows by the
 * cap's fraction of the time that passes, up to that fraction of VL_CREDIT_US. */
#define VL_CREDIT_US 200000
/* Adds the credit for passed_us of time. */
void vl_fair_credit(vl_queue_t *q, apr_uint32_t account, apr_uint64_t passed_us);

/* A refund leaves an account at most this far behind the virtual time of the others, us of CPU
 * time. So an overcharge of long ago does not block the others now. */
#define VL_REFUND_US 1000000
/* Charges the account a cost beyond its requests' own cost, us. Below 0: a refund. */
void vl_fair_charge(vl_queue_t *q, apr_uint32_t account, apr_int64_t us);

/* One request arrives; n requests leave without having begun. */
void vl_fair_arrive(vl_queue_t *q, apr_uint32_t account);
void vl_fair_abandon(vl_queue_t *q, apr_uint32_t account, apr_uint32_t n);

/* Sets what the sampler has found out about the account's running requests. duty: 0 or
 * VL_DUTY_MIN to 1000. asleep: requests that have wanted no processor for long. idle: those
 * of them that wait for no back end. */
void vl_fair_set_duty(vl_queue_t *q, apr_uint32_t account, apr_uint32_t duty,
                      apr_uint32_t asleep, apr_uint32_t idle);
/* An account of sleeping requests may have this many permille of a slot for each of them at
 * least, so that an account that begins to compute has a bounded number of requests running. */
#define VL_DUTY_MIN 20

/* Returns the duty that a request of the account counts with, permille. */
static inline apr_uint32_t vl_fair_duty(const vl_queue_t *q, apr_uint32_t account)
{
    const vl_fair_account_t *f = &q->accounts[account];
    apr_uint32_t duty = f->duty ? f->duty : q->head->duty;

    return duty && q->head->by_duty ? duty : 1000;
}
/* Returns how many thousandths of a slot are free. */
apr_uint32_t vl_fair_free(const vl_queue_t *q);

/* What decides whether an account may hold one more slot (vl_slot_may_take()). Slots are in thousandths. */
typedef struct vl_standing_t {
    int within_bounds;              /* see vl_fair_is_within_bounds() */
    apr_uint32_t duty;              /* of the account */
    apr_uint32_t left;              /* free slots */
    const vl_fair_account_t *heaviest;      /* the account with the most load for its weight, or NULL */
    apr_uint32_t heaviest_duty;
    apr_int64_t behind;             /* by how much the account's tag is before that of the account ahead */
} vl_standing_t;

vl_standing_t vl_fair_standing(const vl_queue_t *q, apr_uint32_t account);

/* Returns the next account: the one with the least tag among those that have a waiting request,
 * run less than their concurrency and have credit under their cap, and for which
 * filter(data, account) returns non-zero. Returns VL_NO_ACCOUNT if there is none. Asks a few accounts
 * only, because the caller holds a lock. */
typedef int (*vl_fair_filter_fn)(void *data, apr_uint32_t account);
apr_uint32_t vl_fair_next_where(vl_queue_t *q, vl_fair_filter_fn filter,
                                void *data);

/* Returns 1 if the account's own limits (concurrency, cap) allow one more running request,
 * whether or not a slot is free. */
int vl_fair_is_within_bounds(const vl_queue_t *q, apr_uint32_t account);

/* One of the account's waiting requests begins. Returns the cost charged, us. */
apr_uint32_t vl_fair_begin(vl_queue_t *q, apr_uint32_t account);

/* A request that did not wait begins, even if no slot is free. Returns the cost charged,
 * us. */
apr_uint32_t vl_fair_begin_now(vl_queue_t *q, apr_uint32_t account);

/* A request ends: it was charged `charged` us and its cost was `cost` us. */
void vl_fair_end(vl_queue_t *q, apr_uint32_t account, apr_uint32_t charged,
                 apr_uint64_t cost);

/* A request that began was not executed: its charge is refunded. */
void vl_fair_cancel(vl_queue_t *q, apr_uint32_t account, apr_uint32_t charged);

/* n requests end without a known cost, because their child died. */
void vl_fair_forget(vl_queue_t *q, apr_uint32_t account, apr_uint32_t n);

/* --- inside a site ------------------------------------------------------------ */

/* The fair queue inside a site: which of its waiters is next.
 *
 * A site shares between its classes (VhostLimitClass) by weight, a class between two bands,
 * known clients and strangers (VhostLimitKnown), and a band equally between its clients
 * (VhostLimitClients). The level
 * of clients advances its virtual time also by the work done divided by the number of active
 * clients (as WF2Q+ does: Bennett, Zhang 1997), so that a stream of new clients cannot keep the
 * others waiting. A client is active while it waits, and while it sends requests one after the
 * other. The waiters of one client are in the order of their arrival. Where a site does not
 * share by client, all its waiters are of one client.
 *
 * A site that has no waiting request is not charged here, so a client may use what no other
 * client wants.
 *
 * Late waiters. If clients of the site give up, a waiter that has waited for nearly as long
 * as they did is late: its client would probably be gone before the answer. It stays queued,
 * but those that are in time go first, and of 16 grants one goes to a client whose waiters
 * are all late. Without this, a site that gets more requests than it can answer would
 * answer nearly all of them too late. Each late waiter is counted once (vl_inner_t.late).
 *
 * Tags are in the segment. Nothing there takes a lock: every field is read and written with
 * atomic operations, by any thread of any process. The waiters are in the memory of their child
 * process, with the lock of vl_waiters.h. Each child tells the others which of its waiters is the
 * next (vl_first_t), for the dispatcher, and how many it has (vl_waiting_t), for the status page. */

/* What a child tells the others of the client that is first in its queue of a site. Its tags
 * grow while it waits, so they are read when they are needed. */
typedef struct vl_first_t {
    apr_uint64_t key;           /* of the client; 0: the site does not share by client */
    apr_uint64_t joined;        /* tag that the client has at least */
    apr_uint64_t tag;           /* its tag when the child told it. No client of its band that was in
                                 * time had an earlier one in the child */
    apr_int64_t since_us;       /* arrival of that client's first waiter there */
    unsigned char class_no, band;
} vl_first_t;

/* What a child tells the others of its waiters of one site, in shared memory. Only the child
 * writes it. It is valid while the child with this pid lives. */
typedef struct vl_waiting_t {
    pid_t pid;
    apr_uint32_t classes[VL_CLASSES_MAX];   /* waiters of each class */
    apr_uint32_t clients;       /* that have a waiter */
    /* A client with at least as many waiters as any other whose number of waiters has
     * changed since. 0: none. */
    apr_uint32_t most;          /* its waiters */
    apr_uint64_t most_key;
} vl_waiting_t;

/* The levels above the clients of one site, in shared memory. */
typedef struct vl_inner_t {
    apr_int64_t backlog_us;     /* when a request last had to wait; 0: never */
    /* When a client last left the queue after a second or more, and when the first one of those
     * that have left within five seconds of the one before did; 0: never. */
    apr_int64_t gone_us, leaving_us;
    apr_int64_t patience_us;    /* how long such clients had waited, see vl_fair_gone() */
    apr_uint64_t late;          /* requests that were late, see above */
    apr_uint64_t vtime;         /* of its classes */
    struct vl_class_t {
        apr_uint32_t weight;    /* 0: the site never had any, and class 0 is alone */
        apr_uint64_t tag, vtime;
        struct vl_band_t {
            apr_uint64_t tag, vtime;
            /* Clients, 65535 at most: those that wait in the process that looked last, and
             * those that were charged repeatedly until `tick` and until the tick before. */
            apr_uint16_t waiting, repeated, repeated_before;
            apr_uint16_t tick;
            apr_uint64_t requests, cpu_us;  /* while requests waited */
        } band[VL_BANDS];
    } classes[VL_CLASSES_MAX];
    apr_uint32_t known_share;   /* % of a class for known clients */
} vl_inner_t;

/* Sets the weights of the classes (VL_CLASSES_MAX) and the share of known clients. Parent. */
void vl_fair_configure(vl_inner_t *inner, const apr_uint32_t *weights,
                       apr_uint32_t known_share);
/* Returns 1 if a request of the site has had to wait in the last second. */
int vl_fair_contended(const vl_inner_t *inner);

/* Charges the client us of CPU time, and counts `requests` that end with it. Does nothing if no
 * request of the site has had to wait lately. */
void vl_fair_charge_client(vl_shm_t *shm, apr_uint32_t account, const vl_client_id_t *id,
                           apr_uint64_t us, apr_uint32_t requests);
/* The slot is released: takes back what vl_fair_pop_waiter() charged for the ticket, and charges us to
 * the client of the request, NULL: to none. */
void vl_fair_end_client(vl_shm_t *shm, const vl_ticket_t *ticket, const vl_client_id_t *id,
                        apr_uint64_t us);

/* Records that a client has gone after it had waited for waited_us. Less than a second counts as
 * nothing. */
void vl_fair_gone(vl_inner_t *inner, apr_int64_t waited_us);
/* Returns how long a request may wait and still be answered before its client gives up, us.
 * It is three quarters of how long the impatient ones of the last clients had waited, and at least
 * 0.75 s. Returns 0 if none has gone in the last five seconds, or all of them within a second. */
apr_int64_t vl_fair_patience(const vl_inner_t *inner);

/* --- the waiters of this child process --------------------------------------- */

typedef struct vl_waiter_t vl_waiter_t;

/* Called after the waiter was removed from its queue. With a ticket it was granted a slot.
 * Without one (NULL) it is refused with the reason `refused`; VL_REASON_NONE means that it
 * goes on without a slot, because it could not be counted. */
typedef void (*vl_waiter_done_fn)(vl_waiter_t *waiter,
                                  const vl_ticket_t *ticket,
                                  vl_reason_e refused);

struct vl_waiter_t {
    APR_RING_ENTRY(vl_waiter_t) link;           /* of the account, by arrival */
    APR_RING_ENTRY(vl_waiter_t) client_link;    /* of the client, by arrival */
    struct wait_client_t *client_queue;    /* its client's queue */
    vl_client_id_t client;          /* its client; all zero: the site does not share
                                     * by client */
    APR_RING_ENTRY(vl_waiter_t) own_link;       /* key is not 0: see vl_waiters_let_calls_locked() */
    apr_uint32_t key;               /* of the connection of a client on this machine (vl_own.h); else 0 */
    apr_uint32_t account;
    apr_int64_t since_us;           /* arrival */
    apr_int64_t deadline_us;        /* when it is refused */
    vl_waiter_done_fn done;
    int in_mpm;                     /* 1: the MPM already has its connection and need not
                                     * accept it */
    int may_defer;                  /* 1: if the queue is full, it is deferred */
    int was_deferred;               /* 1: the queue was full when it arrived */
    int was_late;                   /* 1: counted as late */
};

typedef struct vl_queues_t vl_queues_t;

/* Creates the queues of a child in p, one for each account. Aborts if there is no memory. A queue
 * that has no waiter uses no memory but one pointer. */
vl_queues_t *vl_fair_create(apr_pool_t *p, vl_shm_t *shm, apr_uint32_t accounts);

/* Adds a waiter behind those of its client that arrived earlier (since_us), or, if is_first is 1, at the head
 * of its client's queue. The waiter is the caller's memory. */
void vl_fair_add_waiter(vl_queues_t *q, vl_waiter_t *waiter, int is_first);
/* Removes a queued waiter. */
void vl_fair_remove_waiter(vl_queues_t *q, vl_waiter_t *waiter);
/* Returns the waiter of the account that is next, or NULL. It stays queued. */
vl_waiter_t *vl_fair_first_waiter(vl_queues_t *q, apr_uint32_t account);
/* Removes and returns the waiter that the grant is for, sets its client in the ticket, and
 * charges the client in advance. Returns NULL if there is none. only_in_mpm: the first one to
 * arrive of those that the MPM has. */
vl_waiter_t *vl_fair_pop_waiter(vl_queues_t *q, vl_ticket_t *ticket, int only_in_mpm);

/* Returns a waiter whose deadline has passed, or NULL. It stays queued. Successive calls
 * rotate through the accounts. */
vl_waiter_t *vl_fair_expired_waiter(vl_queues_t *q, apr_int64_t now_us);
/* Returns any waiter with this done(), or NULL. It stays queued. may: NULL, or returns 0 for
 * accounts that are left out. */
vl_waiter_t *vl_fair_any_waiter(const vl_queues_t *q, vl_waiter_done_fn done,
                                int (*may)(apr_uint32_t account));
/* Returns a new waiter with this done() of the account with the longest queue: of its 64 newest
 * waiters one whose client has most waiters. Returns NULL if no waiter of it has this done(). It
 * stays queued. *ret_count: the account's waiters. */
vl_waiter_t *vl_fair_newest_waiter(const vl_queues_t *q, vl_waiter_done_fn done,
                                   apr_uint32_t *ret_count);
/* Calls fn once for each account that has a waiter. fn may add and remove waiters of that
 * account. */
void vl_fair_each_account(vl_queues_t *q, void (*fn)(vl_shm_t *shm, apr_uint32_t account));
/* Returns the number of waiters of the account. */
apr_uint32_t vl_fair_count_waiters(const vl_queues_t *q, apr_uint32_t account);

/* --- waiters of all children -------------------------------------------------- */

/* The first waiter of an account in a child, as the child has told. */
typedef struct vl_candidate_t {
    apr_uint32_t child;
    apr_uint64_t class_tag, band_tag, client_tag;
    apr_int64_t since_us;           /* its arrival */
} vl_candidate_t;

/* Fills in the candidate of the child. For the dispatcher, under the segment lock, as the next
 * two. */
void vl_fair_candidate(const vl_shm_t *shm, apr_uint32_t account, apr_uint32_t child,
                       vl_candidate_t *ret_candidate);
/* Returns 1 if candidate a is before b. */
int vl_fair_is_before(const vl_candidate_t *a, const vl_candidate_t *b);
/* The first waiter of the child is granted a slot, and charged_us in advance. Until the child
 * tells its next waiter, it is assumed to be of the same client and to have just arrived. */
void vl_fair_granted(const vl_shm_t *shm, apr_uint32_t account, apr_uint32_t child,
                     apr_uint32_t charged_us);

typedef struct vl_inside_class_t {
    apr_uint32_t weight;
    apr_uint32_t waiting;           /* waiters, in the queue and beyond it */
    apr_uint64_t requests, cpu_us;  /* that ended while requests waited */
    apr_uint64_t known_requests, known_cpu_us;  /* the part of known clients */
} vl_inside_class_t;

typedef struct vl_inside_t {
    apr_uint64_t late;              /* requests that were late since the start */
    apr_uint32_t waiting;           /* waiters of all classes, removed ones too */
    apr_uint32_t clients;           /* that wait. One that waits in two child processes
                                     * counts twice. */
    vl_inside_class_t classes[VL_CLASSES_MAX];
} vl_inside_t;

/* Adds up what the children tell of their waiters. The numbers need not be consistent. Reading
 * makes pages of the segment resident, so do not ask for a site that has neither classes nor had
 * a waiting request. Any process. */
void vl_fair_read_clients(const vl_shm_t *shm, apr_uint32_t account, vl_inside_t *ret_inside);
/* Finds the client that has most waiters. Returns their number and sets *ret_key, the key of
 * its entry in the table of clients. Returns 0 if no client waits. Any process. */
apr_uint32_t vl_fair_most_waiters(const vl_shm_t *shm, apr_uint32_t account,
                                  apr_uint64_t *ret_key);

/* --- the table of clients ----------------------------------------------------- */

/* Forgets the clients of an account whose number another site gets. Parent, while the account
 * has no requests. */
void vl_fair_forget_clients(vl_clients_t *clients, apr_uint32_t account);
/* Returns the time since the client was last charged, us, to within three ticks. */
apr_int64_t vl_fair_client_idle(const vl_client_entry_t *entry, apr_int64_t now_us);

/* Copies the entry with this key. Returns 0 if there is none. */
int vl_fair_find_client(const vl_clients_t *clients, apr_uint64_t key,
                        vl_client_entry_t *ret_entry);
/* Copies up to max entries of the account, those with most CPU time first. Returns their
 * number. */
apr_uint32_t vl_fair_top_clients(const vl_clients_t *clients, apr_uint32_t account,
                                 vl_client_entry_t *ret_entries, apr_uint32_t max);

#endif
