/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CLIENTS_H
#define VL_CLIENTS_H

/* Shares inside a site: between its classes (VhostLimitClass) by weight, inside a class
 * between known clients and strangers (VhostLimitKnown), inside such a band equally between
 * clients. A client is an address prefix (VhostLimitClients). Each level is start-time fair
 * queueing by CPU time, as in vl_queue.h; the level of clients advances its virtual time
 * also by the work done divided by the number of active clients (as WF2Q+ does: Bennett,
 * Zhang 1997), so that a stream of new clients cannot keep the others waiting. A client is
 * active while it waits, and while it sends requests one after the other.
 *
 * This file owns the tags and the table of clients, which all children share. The waiters
 * are in vl_wait.h. A site that has no waiting request is not charged, so a client may use
 * what no other client wants, and the table only has clients of sites with a backlog. The table
 * has a fixed size. Where eight clients have the same place, the one that has least to pay
 * for is forgotten, and is a new client when it comes again.
 *
 * Nothing here takes a lock: every field is read and written with atomic operations, and a
 * lost race costs one client the charge of one request, or counts it twice. Any thread of any
 * process. */

#include <sys/types.h>

#include <apr.h>

#define VL_CLASSES_MAX 8        /* of a site, with the class of all other requests */
#define VL_BANDS 2
#define VL_CLASS_WEIGHT_DEFAULT 100
#define VL_KNOWN_SHARE_DEFAULT 50       /* % of a class */
typedef enum { VL_BAND_STRANGERS, VL_BAND_KNOWN } vl_band_e;

/* Entries of the table, a power of 2, and how many of them a client may be in. */
#define VL_CLIENTS_SIZE 16384
#define VL_CLIENTS_WAYS 8

/* Tag of 1 us of CPU time at weight 1. */
#define VL_TAG_UNIT 1024

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

typedef struct vl_tags_t {
    apr_uint64_t class_tag, band_tag, client_tag;
} vl_tags_t;

/* What a child tells the others of the client that is first in its queue of a site. Its tags
 * grow while it waits, so they are read when they are needed (vl_clients_tags()). */
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
    apr_int64_t patience_us;    /* how long such clients had waited, see vl_clients_gone() */
    apr_uint64_t late;          /* requests that were late, see vl_wait.h */
    apr_uint64_t class_clock;   /* tag of the last class that was granted a slot */
    struct vl_class_t {
        apr_uint32_t weight;    /* 0: VL_CLASS_WEIGHT_DEFAULT */
        apr_uint64_t tag, band_clock;
        struct vl_band_t {
            apr_uint64_t tag, client_clock;
            /* Clients, 65535 at most: those that wait in the process that looked last, and
             * those that were charged repeatedly until `tick` and until the tick before. */
            apr_uint16_t waiting, repeated, repeated_before;
            apr_uint16_t tick;
            apr_uint64_t requests, cpu_us;  /* while requests waited */
        } band[VL_BANDS];
    } classes[VL_CLASSES_MAX];
    apr_uint32_t known_share;   /* % of a class for known clients; 0: the default */
} vl_inner_t;

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

/* The table in shared memory. */
typedef struct vl_clients_t {
    unsigned char secret[16];   /* of the hash, so that clients cannot choose colliding
                                 * prefixes */
    vl_client_entry_t entries[VL_CLIENTS_SIZE];
} vl_clients_t;

/* Chooses the secret. Parent, before any child exists. */
void vl_clients_init(vl_clients_t *clients);

/* Forgets the clients of an account whose number another site gets. Parent, while the account
 * has no requests. */
void vl_clients_forget(vl_clients_t *clients, apr_uint32_t account);

/* Fills in the prefix of *ret_id and clears the rest. address: 4 or 16 bytes (length); bits4
 * and bits6: how many bits of it distinguish clients, 0 to 32 and 0 to 128. */
void vl_clients_prefix(const void *address, apr_size_t length, unsigned bits4, unsigned bits6,
                       vl_client_id_t *ret_id);
/* Fills in the key. The other members are set. */
void vl_clients_key(const vl_clients_t *clients, apr_uint32_t account, vl_client_id_t *id);

/* Returns the tag of the client, which is at least `least`. */
apr_uint64_t vl_clients_tag(const vl_clients_t *clients, const vl_client_id_t *id,
                            apr_uint64_t least);
/* Return the tags of the class and of the band, at least the present time of their level. */
apr_uint64_t vl_clients_class_tag(const vl_inner_t *inner, unsigned class_no);
apr_uint64_t vl_clients_band_tag(const vl_inner_t *inner, unsigned class_no, unsigned band);

/* Returns the tag that a client has at least when it begins to wait: the present time of its
 * level, or 10 ms of CPU time less if it sent requests in the last tick or the one before. What
 * such a client did not use while it had no request waiting is its own, or one that sends each request
 * after the last response would get less than one with many connections. *ret_tag is its tag now. */
apr_uint64_t vl_clients_join(const vl_clients_t *clients, const vl_inner_t *inner,
                             const vl_client_id_t *id, apr_uint64_t *ret_tag);

/* Returns the tags that the client has now. */
vl_tags_t vl_clients_tags(const vl_clients_t *clients, const vl_inner_t *inner,
                          const vl_first_t *first);

/* The client is granted a slot: advances the virtual times to its tags, and charges the
 * client, its band and its class us in advance. joined: tag that it has at least, the time
 * of its level when it began to wait. others: clients of its band that wait in this process,
 * itself included, at least 1. */
void vl_clients_begin(vl_clients_t *clients, vl_inner_t *inner, apr_uint32_t account,
                      const vl_client_id_t *id, apr_uint64_t joined,
                      apr_uint32_t us, apr_uint32_t others, apr_int64_t now_us);
/* Takes back what vl_clients_begin() charged, at the end of the request or when the slot is
 * not used. The client may have been forgotten. */
void vl_clients_refund(vl_clients_t *clients, vl_inner_t *inner, const vl_client_id_t *id,
                       apr_uint32_t us);
/* Charges us of CPU time, and counts `requests` that end with it. Does nothing if no request
 * of the site has had to wait lately. */
void vl_clients_charge(vl_clients_t *clients, vl_inner_t *inner, apr_uint32_t account,
                       const vl_client_id_t *id, apr_uint64_t us, apr_uint32_t requests,
                       apr_int64_t now_us);

/* Sets the weights of the classes (VL_CLASSES_MAX) and the share of known clients. Parent. */
void vl_clients_configure(vl_inner_t *inner, const apr_uint32_t *weights,
                          apr_uint32_t known_share);

/* Records that a request of the site waits. */
void vl_clients_backlog(vl_inner_t *inner, apr_int64_t now_us);
/* Returns 1 if a request of the site has had to wait in the last second. */
int vl_clients_contended(const vl_inner_t *inner, apr_int64_t now_us);

/* Records that a client has gone after it had waited for waited_us. Less than a second counts as
 * nothing. */
void vl_clients_gone(vl_inner_t *inner, apr_int64_t waited_us, apr_int64_t now_us);
/* Records that a client that had waited for waited_us was still there when its turn came. */
void vl_clients_stayed(vl_inner_t *inner, apr_int64_t waited_us);
/* Returns how long a request may wait and still be answered before its client gives up, us.
 * It is three quarters of how long the impatient ones of the last clients had waited, and at least
 * 0.75 s. Returns 0 if none has gone in the last five seconds, or all of them within a second. */
apr_int64_t vl_clients_patience(const vl_inner_t *inner, apr_int64_t now_us);

/* Counts a request that is late, see vl_wait.h. */
void vl_clients_late(vl_inner_t *inner);

/* Returns the time since the client was last charged, us, to within three ticks. */
apr_int64_t vl_clients_idle(const vl_client_entry_t *entry, apr_int64_t now_us);

/* Copies the entry with this key. Returns 0 if there is none. */
int vl_clients_find(const vl_clients_t *clients, apr_uint64_t key,
                    vl_client_entry_t *ret_entry);
/* Copies up to max entries of the account, those with most CPU time first. Returns their
 * number. */
apr_uint32_t vl_clients_top(const vl_clients_t *clients, apr_uint32_t account,
                            vl_client_entry_t *ret_entries, apr_uint32_t max);

#endif
