/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_INSIDE_H
#define VL_INSIDE_H

/* The fair queue inside a site: which of its waiters is next.
 *
 * A site shares between its classes (VhostLimitClass) by weight, a class between two bands,
 * known clients and strangers (VhostLimitKnown), and a band equally between its clients
 * (VhostLimitClients). Each level is start-time fair queueing by CPU time (vl_fair.h). The level
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

#include <apr_pools.h>
#include <apr_ring.h>

#include "core/vl_fair.h"
#include "core/vl_shm.h"

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
    apr_int64_t patience_us;    /* how long such clients had waited, see vl_inside_gone() */
    apr_uint64_t late;          /* requests that were late, see above */
    apr_uint64_t vtime;         /* of its classes */
    struct vl_class_t {
        apr_uint32_t weight;    /* 0: VL_CLASS_WEIGHT_DEFAULT */
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
    apr_uint32_t known_share;   /* % of a class for known clients; 0: the default */
} vl_inner_t;

/* Sets the weights of the classes (VL_CLASSES_MAX) and the share of known clients. Parent. */
void vl_inside_configure(vl_inner_t *inner, const apr_uint32_t *weights,
                         apr_uint32_t known_share);
/* Returns 1 if a request of the site has had to wait in the last second. */
int vl_inside_contended(const vl_inner_t *inner);

/* Charges the client us of CPU time, and counts `requests` that end with it. Does nothing if no
 * request of the site has had to wait lately. */
void vl_inside_charge(vl_shm_t *shm, apr_uint32_t account, const vl_client_id_t *id,
                      apr_uint64_t us, apr_uint32_t requests);
/* The slot is released: takes back what vl_inside_pop() charged for the ticket, and charges us to
 * the client of the request, NULL: to none. */
void vl_inside_end(vl_shm_t *shm, const vl_ticket_t *ticket, const vl_client_id_t *id,
                   apr_uint64_t us);

/* Records that a client has gone after it had waited for waited_us. Less than a second counts as
 * nothing. */
void vl_inside_gone(vl_inner_t *inner, apr_int64_t waited_us);
/* Returns how long a request may wait and still be answered before its client gives up, us.
 * It is three quarters of how long the impatient ones of the last clients had waited, and at least
 * 0.75 s. Returns 0 if none has gone in the last five seconds, or all of them within a second. */
apr_int64_t vl_inside_patience(const vl_inner_t *inner);

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
vl_queues_t *vl_inside_create(apr_pool_t *p, vl_shm_t *shm, apr_uint32_t accounts);

/* Adds a waiter behind those of its client that arrived earlier (since_us). The waiter is the
 * caller's memory. */
void vl_inside_add(vl_queues_t *q, vl_waiter_t *waiter);
/* Adds a waiter at the head of its client's queue. */
void vl_inside_add_first(vl_queues_t *q, vl_waiter_t *waiter);
/* Removes a queued waiter. */
void vl_inside_remove(vl_queues_t *q, vl_waiter_t *waiter);
/* Returns the waiter of the account that is next, or NULL. It stays queued. */
vl_waiter_t *vl_inside_first(vl_queues_t *q, apr_uint32_t account);
/* Removes and returns the waiter that the grant is for, sets its client in the ticket, and
 * charges the client in advance. Returns NULL if there is none. only_in_mpm: the first one to
 * arrive of those that the MPM has. */
vl_waiter_t *vl_inside_pop(vl_queues_t *q, vl_ticket_t *ticket, int only_in_mpm);

/* Returns a waiter whose deadline has passed, or NULL. It stays queued. Successive calls
 * rotate through the accounts. */
vl_waiter_t *vl_inside_expired(vl_queues_t *q, apr_int64_t now_us);
/* Returns any waiter with this done(), or NULL. It stays queued. may: NULL, or returns 0 for
 * accounts that are left out. */
vl_waiter_t *vl_inside_any(const vl_queues_t *q, vl_waiter_done_fn done,
                           int (*may)(apr_uint32_t account));
/* Returns a new waiter with this done() of the account with the longest queue: of its 64 newest
 * waiters one whose client has most waiters. Returns NULL if no waiter of it has this done(). It
 * stays queued. *ret_count: the account's waiters. */
vl_waiter_t *vl_inside_newest_of_longest(const vl_queues_t *q, vl_waiter_done_fn done,
                                         apr_uint32_t *ret_count);
/* Calls fn once for each account that has a waiter. fn may add and remove waiters of that
 * account. */
void vl_inside_each_account(vl_queues_t *q, void (*fn)(apr_uint32_t account));
/* Returns the number of waiters of the account. */
apr_uint32_t vl_inside_count(const vl_queues_t *q, apr_uint32_t account);

/* --- waiters of all children -------------------------------------------------- */

/* The first waiter of an account in a child, as the child has told. */
typedef struct vl_candidate_t {
    apr_uint32_t child;
    apr_uint64_t class_tag, band_tag, client_tag;
    apr_int64_t since_us;           /* its arrival */
} vl_candidate_t;

/* Fills in the candidate of the child. For the dispatcher, under the segment lock, as the next
 * two. */
void vl_inside_candidate(const vl_shm_t *shm, apr_uint32_t account, apr_uint32_t child,
                         vl_candidate_t *ret_candidate);
/* Returns 1 if candidate a is before b. */
int vl_inside_is_before(const vl_candidate_t *a, const vl_candidate_t *b);
/* The first waiter of the child is granted a slot, and charged_us in advance. Until the child
 * tells its next waiter, it is assumed to be of the same client and to have just arrived. */
void vl_inside_granted(const vl_shm_t *shm, apr_uint32_t account, apr_uint32_t child,
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
void vl_inside_read(const vl_shm_t *shm, apr_uint32_t account, vl_inside_t *ret_inside);
/* Finds the client that has most waiters. Returns their number and sets *ret_key, the key of
 * its entry in the table of clients. Returns 0 if no client waits. Any process. */
apr_uint32_t vl_inside_most(const vl_shm_t *shm, apr_uint32_t account,
                            apr_uint64_t *ret_key);

#endif
