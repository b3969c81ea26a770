/* SPDX-License-Identifier: Apache-2.0 */
/* A new connection, from accept() until a worker begins with it: the table of connections and their
 * states, what the acceptor reads of them, the queue for a slot, deadlines, and the ways out: to the
 * MPM, to another child process, or closed here.
 *
 * The table owns the records, their descriptors until the MPM gets them, the list and the timer of
 * each state, the events that the epoll set reports, and the eventfd that tells the MPM of
 * connections. The descriptor of a connection that is passed to the MPM belongs to the MPM. The
 * record stays until a worker begins with the connection, because a child that stops may have to
 * transfer connections that no worker has begun.
 *
 * Invariants, while no thread holds vl_waiters_lock(), which functions that end in _locked need:
 *   - each record is in exactly one state, and on the list of that state;
 *   - a timer is set in INCOMPLETE_HEAD, QUEUED and LINGERING only;
 *   - a connection is QUEUED if and only if its waiter is in vl_waiters.h;
 *   - pass_fd is readable while FOR_MPM is not empty;
 *   - a record that is in the epoll set is freed by the acceptor only, after the events
 *     that it works on. */
#include "accept/vl_newconn.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <apr_portable.h>
#include <apr_ring.h>
#include <apr_strings.h>

#include "accept/vl_child.h"
#include "accept/vl_classify.h"
#include "accept/vl_rescue.h"
#include "base/vl_client.h"
#include "base/vl_clock.h"
#include "base/vl_own.h"
#include "base/vl_wheel.h"
#include "config/vl_conf.h"
#include "config/vl_headtime.h"
#include "core/vl_charge.h"
#include "core/vl_slot.h"
#include "core/vl_engage.h"
#include "core/vl_shm_child.h"
#include "cost/vl_meter.h"
#include "lease/vl_lease.h"

/* A connection that is queued for longer is watched for the close of its client. A
 * shorter one is checked before it is passed to the MPM, which saves two system calls. */
#define WATCH_CLOSE_US 100000
/* A connection that was queued for longer is checked for a client that has gone. */
#define PROBE_US 10000
/* A program on this machine that closes its connection sooner does not wait for the response: WordPress
 * starts its jobs so, and closes after 10 ms or a second. */
#define STARTS_JOB_US (2 * APR_USEC_PER_SEC)
/* Connections that are refused in a tenth of a second: 50 in all children, at least 4
 * in each. The others are refused later. So a flood beyond the queue costs a bounded
 * part of the CPU time, however large it is. */
#define REFUSALS_ALL 50
#define REFUSALS_EACH 4
/* The MPM is stalled if pass_fd has been readable and the MPM has not asked for a
 * connection for as long. */
#define MPM_STALLED_US (100 * 1000)
/* The cost of an arrival is measured in a time with as many of them, no longer than this. With
 * fewer, most of the time would be that of the tick. */
#define MEASURE_MIN 32
#define MEASURE_US (500 * 1000)
/* The acceptor also does what no connection has caused, so none is charged more than this. */
#define ARRIVAL_MOST_US 50
/* Bytes of input that are discarded in one call, so that other connections are not
 * delayed. */
#define DRAIN_SIZE (1 << 16)

/* The event MPM waits as long for the client after it has closed an idle connection
 * (SECONDS_TO_LINGER). */
#define SHORT_LINGER_US (2 * APR_USEC_PER_SEC)

static const char conninfo_key[] = "vhostlimit";

/* States of a connection, and what changes them:
 *
 *   new             --accept() or transfer-----------> CLASSIFYING
 *   new             --last answer sent by a worker---> LINGERING
 *   CLASSIFYING     --head incomplete----------------> INCOMPLETE_HEAD
 *                   --needs a slot: asks for it------> QUEUED
 *                   --needs none, or partial head----> FOR_MPM
 *                   --closed without any input-------> RELEASED
 *   INCOMPLETE_HEAD --input or close-----------------> CLASSIFYING
 *                   --too late, no request line------> LINGERING
 *                   --too late-----------------------> FOR_MPM
 *                   --input while acceptor stalls----> FOR_MPM
 *   QUEUED          --slot, grant or refusal---------> FOR_MPM
 *                   --client has gone----------------> RELEASED
 *   FOR_MPM         --MPM asks for a connection------> IN_MPM
 *                   --relayed to a prefork child-----> RELEASED
 *                   --MPM stalled, slot returned-----> QUEUED
 *                   --client has gone----------------> RELEASED
 *   IN_MPM          --worker begins, or pool ends----> RELEASED
 *   TRANSFER_FAILED --next vl_newconn_after_events()-------> CLASSIFYING
 *                   --input while acceptor stalls----> FOR_MPM
 *   LINGERING       --client closes, or time is up---> RELEASED
 *   RELEASED        --next vl_newconn_after_events()-------> freed
 *
 * A transfer to another child, or a shortage of descriptors, also ends a state in
 * RELEASED. A transfer that fails ends in TRANSFER_FAILED, with a new record. When the
 * last child stops, connections are answered and become LINGERING. */
typedef enum {
    CLASSIFYING,                    /* the acceptor reads its first bytes */
    INCOMPLETE_HEAD,                /* waits for the rest of the head */
    QUEUED,                         /* queued, or deferred because the queue is full
                                     * (vl_waiters.h) */
    FOR_MPM,                        /* the MPM takes it next: granted, refused, not
                                     * limited, or its site cannot be found */
    IN_MPM,                         /* the MPM has it; no worker has begun with it */
    TRANSFER_FAILED,                /* no other child took it; the acceptor classifies it
                                     * again */
    LINGERING,                      /* answered and shut down; waits until the client
                                     * closes */
    RELEASED,                       /* its descriptor is no longer used here; the record
                                     * waits to be freed */
    STATES
} state_e;

/* What the epoll set reports of a connection. */
typedef enum {
    NOT_WATCHED,
    WATCHED_FOR_CLOSE,              /* an event when the client closes */
    WATCHED_FOR_INPUT               /* an event also when the client sends */
} watched_e;

struct vl_newconn_t {
    vl_waiter_t waiter;             /* first member: a waiter pointer is cast to its
                                     * connection */
    APR_RING_ENTRY(vl_newconn_t) link;  /* on the list of its state */
    state_e state;
    vl_timer_t timer;               /* set in INCOMPLETE_HEAD, QUEUED and LINGERING */
    int fd;
    int watched;                    /* watched_e: its state in the epoll set */
    int ready;                      /* the first request can be read at once */
    int http2;                      /* begins with the preface of HTTP/2 */
    apr_int64_t head_since_us;      /* when its head began to arrive; 0: not yet */
    apr_int64_t head_us;            /* how long that took */
    apr_size_t head_bytes;          /* of an incomplete head, so far ... */
    apr_size_t head_counted;        /* ... and those that MinRate counts */
    apr_int64_t queued_since_us;    /* when it was queued in another child; 0: it was not */
    int was_queued;                 /* it has been queued since waiter.since_us */
    vl_grant_t grant;
    vl_conninfo_t *conninfo;        /* IN_MPM: points back here; NULL before */
    vl_client_t client;
    int may_start_job;              /* its client is a program on this machine and no proxy, and
                                     * its request is complete */
    int starts_job;                 /* the client has closed, and its request is served all the same */
    socklen_t addr_len;             /* length of local and of remote */
    struct sockaddr_storage local, remote;
};

APR_RING_HEAD(newconn_ring_t, vl_newconn_t);

static struct newconns_t {
    vl_wheel_t *wheel;
    int epoll_fd;
    struct newconn_ring_t ring[STATES];
    apr_uint32_t count[STATES];
    int pass_fd;                    /* eventfd, readable while FOR_MPM is not empty */
    int signalled;                  /* pass_fd is readable */
    apr_int64_t signalled_us;       /* when it became readable */
    apr_int64_t mpm_polled_us;      /* when the MPM last asked for a connection */
    int mpm_stalled;                /* see set_mpm_stalled_locked() */
    apr_uint32_t accepted;          /* connections so far; wraps around */
    clockid_t mpm_clock;            /* of the MPM's listener; 0: it has taken no connection yet */
} *here;                            /* one for each child process */

/* Returns the oldest record in the state, or NULL if there is none. */
static vl_newconn_t *first_locked(state_e state)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): free_records() removes each from its ring */
    return APR_RING_EMPTY(&here->ring[state], vl_newconn_t, link)
           ? NULL : APR_RING_FIRST(&here->ring[state]);
}

/* Frees the records when the child ends. The MPM closes the connections in IN_MPM later,
 * with cleanup_conninfo(), which then does nothing. */
static apr_status_t free_records(void *unused)
{
    state_e state;
    vl_newconn_t *newconn;

    for (state = CLASSIFYING; state < STATES; state++) {
        while ((newconn = first_locked(state))) {
            APR_RING_REMOVE(newconn, link);
            free(newconn);
        }
    }
    return APR_SUCCESS;
}

int vl_newconn_child_init(int epoll_fd)
{
    static struct newconns_t of_child;      /* pools of connections outlive pchild */
    int i;

    here = &of_child;
    here->wheel = vl_wheel_create(vl_child.pool, vl_clock_us());
    here->epoll_fd = epoll_fd;
    here->pass_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (i = 0; i < STATES; i++)
        APR_RING_INIT(&here->ring[i], vl_newconn_t, link);
    apr_pool_cleanup_register(vl_child.pool, NULL, free_records,
                              apr_pool_cleanup_null);
    return here->pass_fd;
}

/* --- the lists of the states ---------------------------------------------- */

/* Returns a record that is in no state yet. Returns NULL and closes fd if memory is
 * short. */
static vl_newconn_t *create(int fd)
{
    vl_newconn_t *newconn = calloc(1, sizeof(*newconn));

    if (!newconn) {
        vl_rescue_forget(fd);
        close(fd);
        return NULL;
    }
    newconn->fd = fd;
    return newconn;
}

static void unlink_locked(vl_newconn_t *newconn)
{
    vl_wheel_clear(&newconn->timer);
    APR_RING_REMOVE(newconn, link);
    here->count[newconn->state]--;
}

/* Returns what another child needs to know of the connection. All processes use the same
 * clock (vl_clock.h), so the times are valid there. */
static vl_passed_t known_of(const vl_newconn_t *newconn)
{
    vl_passed_t known = { 0 };

    if (newconn->was_queued)
        known.since_us = newconn->waiter.since_us;
    else if (newconn->state == TRANSFER_FAILED)
        known.since_us = newconn->queued_since_us;
    else
        known.began_us = newconn->head_since_us;
    return known;
}

/* Puts a record that is in no state into this one. */
static void enter_locked(vl_newconn_t *newconn, state_e state)
{
    vl_passed_t known;

    newconn->state = state;
    APR_RING_INSERT_TAIL(&here->ring[state], newconn, vl_newconn_t, link);
    here->count[state]++;
    if (state == INCOMPLETE_HEAD || state == QUEUED || state == FOR_MPM
        || state == TRANSFER_FAILED) {
        known = known_of(newconn);
        vl_rescue_note(newconn->fd, &known);
    }
    else if (state != IN_MPM) {         /* where it is noted as it was FOR_MPM */
        vl_rescue_forget(newconn->fd);
    }
}

/* Moves a record to another state and clears its timer. */
static void move_locked(vl_newconn_t *newconn, state_e state)
{
    unlink_locked(newconn);
    enter_locked(newconn, state);
}

/* The same, and sets its timer. */
static void move_until_locked(vl_newconn_t *newconn, state_e state, apr_int64_t until_us)
{
    move_locked(newconn, state);
    vl_wheel_set(here->wheel, &newconn->timer, until_us);
}

/* --- the epoll set -------------------------------------------------------- */

/* Watches the connection for input. how: EPOLLET, or 0 for a lingering connection,
 * which is read in parts and may have sent input before. Returns 0 if it cannot be
 * watched. */
static int watch_locked(vl_newconn_t *newconn, apr_uint32_t how)
{
    struct epoll_event ev = { EPOLLIN | EPOLLRDHUP | how, { .ptr = newconn } };
    int op = newconn->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (newconn->watched == WATCHED_FOR_INPUT && how)
        return 1;
    if (!epoll_ctl(here->epoll_fd, op, newconn->fd, &ev))
        newconn->watched = WATCHED_FOR_INPUT;
    return newconn->watched == WATCHED_FOR_INPUT;
}

/* --- the ends of a connection here ---------------------------------------- */

/* Moves the connection to FOR_MPM. The first one makes pass_fd readable;
 * vl_newconn_next() clears it when the list is empty. */
static void pass_locked(vl_newconn_t *newconn)
{
    apr_uint64_t one = 1;

    move_locked(newconn, FOR_MPM);
    if (!here->signalled) {
        here->signalled = write(here->pass_fd, &one, sizeof(one))
                                 == sizeof(one);
        here->signalled_us = vl_clock_us();
    }
}

/* Gives up the record and leaves its descriptor to the caller. A record that was not
 * watched is freed. Another one may be among the events that the acceptor works on, so
 * it becomes RELEASED and vl_newconn_after_events() frees it. */
static void release_locked(vl_newconn_t *newconn)
{
    vl_rescue_forget(newconn->fd);
    if (newconn->conninfo)
        newconn->conninfo->newconn = NULL;
    newconn->conninfo = NULL;
    if (!newconn->watched) {
        unlink_locked(newconn);
        free(newconn);
        return;
    }
    epoll_ctl(here->epoll_fd, EPOLL_CTL_DEL, newconn->fd, NULL);
    move_locked(newconn, RELEASED);
}

/* The same as release_locked(), and closes the descriptor. */
static void close_locked(vl_newconn_t *newconn)
{
    int fd = newconn->fd;

    release_locked(newconn);
    close(fd);
}

/* Shuts down the connection and moves it to LINGERING, for linger_us at most. Closes it
 * if it cannot be watched. */
static void linger_locked(vl_newconn_t *newconn, apr_int64_t linger_us)
{
    shutdown(newconn->fd, SHUT_WR);
    if (watch_locked(newconn, 0))
        move_until_locked(newconn, LINGERING, vl_clock_us() + linger_us);
    else
        close_locked(newconn);
}

/* Closes the oldest LINGERING connections until one more fits the limit. */
static void limit_lingering_locked(void)
{
    while (here->count[LINGERING] >= vl_child.max_lingering)
        close_locked(first_locked(LINGERING));
}

/* --- connections that end without the MPM ------------------------------------ */

/* Reads and discards a part of the input. Returns 0 at the end of the input. */
static int discard_input(int fd)
{
    static char discarded[DRAIN_SIZE];      /* MSG_TRUNC leaves it unwritten: tcp(7) */
    ssize_t n = recv(fd, discarded, sizeof(discarded),
                     MSG_TRUNC | MSG_DONTWAIT);

    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* ap_read_request() answers and logs a request whose line has arrived completely. Empty lines before it do
 * not count. Otherwise it sends nothing, and no worker is needed. */
static void time_out_locked(vl_newconn_t *newconn)
{
    char bytes[8192];
    ssize_t n = newconn->client.tls ? 0 : recv(newconn->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    ssize_t i = 0;

    while (i < n && (bytes[i] == '\r' || bytes[i] == '\n'))
        i++;
    if (i < n && memchr(bytes + i, '\n', (size_t)(n - i))) {
        newconn->ready = newconn->grant.late = 1;
        pass_locked(newconn);
        return;
    }
    discard_input(newconn->fd);
    limit_lingering_locked();
    linger_locked(newconn, SHORT_LINGER_US);
}

int vl_newconn_linger(int fd, apr_int64_t linger_us)
{
    vl_newconn_t *newconn;
    int copy_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy_fd < 0)
        return 0;
    newconn = create(copy_fd);
    if (!newconn)
        return 0;
    vl_waiters_lock();
    limit_lingering_locked();
    enter_locked(newconn, CLASSIFYING);
    linger_locked(newconn, linger_us);
    vl_waiters_unlock();
    /* The acceptor may sleep without an end. */
    if (vl_engage_is_dormant(vl_child.shm))
        vl_slot_wake_self(vl_child.shm);
    return 1;
}

/* --- the queue for a slot ---------------------------------------------------- */

/* The done() callback of the waiters. */
static void done_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    vl_newconn_t *newconn = (vl_newconn_t *)waiter;

    newconn->grant.holds = ticket != NULL;
    newconn->grant.ticket.account = waiter->account;
    if (ticket)
        newconn->grant.ticket = *ticket;
    newconn->grant.refused = refused;
    newconn->grant.reset = refused == VL_REASON_QUEUE && newconn->client.tls;
    pass_locked(newconn);
}

/* Asks for a slot of the account. The connection is passed at once if a slot is free, or if it is
 * a validation of ACME; otherwise it is queued or deferred. */
static void request_slot_locked(vl_newconn_t *newconn, const vl_conf_t *conf,
                                const vl_classified_t *found)
{
    vl_waiter_t *waiter = &newconn->waiter;

    waiter->account = found->account;
    waiter->client = found->client;
    waiter->key = vl_own_key((const struct sockaddr *)&newconn->local, (const struct sockaddr *)&newconn->remote);
    newconn->may_start_job = newconn->ready && !found->forwarded && waiter->key;
    waiter->since_us = newconn->queued_since_us ? newconn->queued_since_us
                                                : vl_clock_us();
    waiter->deadline_us = waiter->since_us + conf->queue_timeout;
    waiter->done = done_locked;
    newconn->grant.timeout_us = conf->queue_timeout;
    waiter->may_defer = 1;
    newconn->was_queued = 1;
    move_until_locked(newconn, QUEUED, vl_clock_us() + WATCH_CLOSE_US);
    if ((found->acme
         && vl_slot_ask_call(vl_child.shm, found->account, VL_CALL_OF_UNKNOWN, 0, &newconn->grant.ticket) == APR_SUCCESS)
        || vl_waiters_take_or_queue_locked(waiter, &newconn->grant.ticket)) {
        newconn->grant.holds = 1;
        newconn->grant.ticket.client = found->client;
        newconn->was_queued = newconn->queued_since_us != 0;
        pass_locked(newconn);
    }
}

apr_uint32_t vl_newconn_queued(void)
{
    return __atomic_load_n(&here->count[QUEUED], __ATOMIC_RELAXED);
}

/* Removes a connection from the queues and returns it, a queued one if there is any.
 * queued 1: returns no deferred one. Returns NULL if there is none. */
static vl_newconn_t *unqueue_locked(int queued)
{
    return (vl_newconn_t *)vl_waiters_evict_locked(done_locked, queued);
}

/* The MPM takes no connections, or takes them again. While it is stalled, this child is
 * granted nothing. */
static void set_mpm_stalled_locked(int stalled)
{
    here->mpm_stalled = stalled;
    vl_shm_child_pause(vl_child.shm, stalled);
    vl_waiters_take_locked();
}

/* Returns the slot and the thread of a grant. The child is paused, so that it is
 * granted nothing in exchange. */
static void return_grant_locked(vl_grant_t *grant)
{
    if (grant->holds)
        vl_slot_end(vl_child.shm, &grant->ticket, NULL);
    if (grant->occupies)
        vl_slot_unoccupy(vl_child.shm, grant->ticket.account);
    grant->holds = grant->occupies = 0;
}

/* Clears a grant that holds neither a slot nor a thread. */
static void clear_grant(vl_newconn_t *newconn)
{
    newconn->ready = 0;
    newconn->was_queued = 0;
    memset(&newconn->grant, 0, sizeof(newconn->grant));
}

/* --- clients that have gone: see vl_client.h ------------------------------ */

/* Returns 1 if the client has gone, and its request is not to be served. */
static int is_gone(vl_newconn_t *newconn, apr_uint32_t events)
{
    newconn->starts_job |= newconn->may_start_job && (events & EPOLLRDHUP)
                           && vl_clock_us() - newconn->waiter.since_us < STARTS_JOB_US;
    /* After a reset httpd would not read the request. */
    return (!newconn->starts_job || (events & (EPOLLHUP | EPOLLERR)))
           && vl_client_is_gone(&newconn->client, newconn->fd, events);
}

/* The client of a connection in QUEUED or FOR_MPM has gone: counts it, returns its grant
 * or leaves the queue, and closes the connection. */
static void drop_gone_locked(vl_newconn_t *newconn)
{
    vl_slot_gone(vl_child.shm, newconn->waiter.account,
                 vl_clock_us() - newconn->waiter.since_us);
    if (newconn->state == QUEUED)
        vl_waiters_remove_locked(&newconn->waiter);
    else
        return_grant_locked(&newconn->grant);
    close_locked(newconn);
    vl_waiters_take_locked();
}

/* Returns the first connection in FOR_MPM whose client is still there, or NULL. Drops the
 * connections before it. Those that were queued for a short time are not checked, because the
 * check is a system call. */
static vl_newconn_t *first_for_mpm_locked(void)
{
    vl_newconn_t *newconn;

    while ((newconn = first_locked(FOR_MPM)) && newconn->was_queued
           && vl_clock_us() - newconn->waiter.since_us > PROBE_US
           && is_gone(newconn, vl_client_events(newconn->fd)))
        drop_gone_locked(newconn);
    return newconn;
}

/* --- shortage of descriptors ---------------------------------------------- */

/* Closes one connection because descriptors are short. Returns whether one is closed
 * now, will be closed soon, or none can be. It chooses in this order:
 * 1. the oldest lingering connection;
 * 2. the newest connection of the site with most queued connections here, if their
 *    number is at least that of connections with incomplete heads, and at least that
 *    of connections with leases; so a flood closes its own connections. It is refused
 *    with a reset. The refusal is counted and charged to the account;
 * 3. a connection that the MPM has (vl_lease_close_one_locked());
 * 4. the oldest connection with an incomplete head. */
static vl_freed_e close_one_locked(void)
{
    const struct linger reset = { 1, 0 };
    vl_newconn_t *newconn = first_locked(LINGERING);
    apr_uint32_t waiting;
    vl_waiter_t *newest;

    if (!newconn) {
        newest = vl_waiters_newest_of_longest_locked(done_locked, &waiting);
        if (newest && waiting >= here->count[INCOMPLETE_HEAD]
            && waiting >= vl_lease_descriptors()) {
            vl_waiters_remove_locked(newest);
            newconn = (vl_newconn_t *)newest;
            vl_slot_reset(vl_child.shm, newest->account, (apr_uint32_t)vl_charge_arrival(vl_child.shm));
            setsockopt(newconn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
            close_locked(newconn);
            return VL_FREED;
        }
        if (vl_lease_close_one_locked())
            return VL_FREED_SOON;
        newconn = first_locked(INCOMPLETE_HEAD);
    }
    if (!newconn)
        return VL_FREED_NONE;
    close_locked(newconn);
    return VL_FREED;
}

vl_freed_e vl_newconn_free_descriptor(void)
{
    vl_freed_e freed;

    vl_waiters_lock();
    freed = close_one_locked();
    vl_waiters_unlock();
    return freed;
}

static apr_uint32_t descriptors_locked(void)
{
    apr_uint32_t all = vl_lease_descriptors();
    int i;

    for (i = 0; i < STATES; i++)
        all += i == IN_MPM || i == RELEASED ? 0 : here->count[i];
    return all;
}

int vl_newconn_has_descriptors(void)
{
    int has;

    vl_waiters_lock();
    has = descriptors_locked() < vl_child.max_lingering;
    vl_waiters_unlock();
    return has;
}

/* --- classification ---------------------------------------------------------- */

/* Waits for more of the head, outside of the queues and for as long as Apache would
 * wait. If epoll fails the connection is passed to the MPM.
 * With MinRate mod_reqtimeout begins to wait for the rest of a line before it counts the bytes
 * that have just arrived of it (reqtimeout_filter()). */
static void wait_for_head_locked(vl_newconn_t *newconn, const vl_classified_t *found)
{
    apr_int64_t now_us = vl_clock_us();

    if (!newconn->head_since_us)
        newconn->head_since_us = now_us;
    newconn->client.tls = found->tls;
    if (found->bytes > newconn->head_bytes) {
        newconn->head_counted = found->in_lines > newconn->head_bytes ? found->in_lines
                                                                      : newconn->head_bytes;
        newconn->head_bytes = found->bytes;
    }
    if (watch_locked(newconn, EPOLLET))
        move_until_locked(newconn, INCOMPLETE_HEAD,
                          vl_headtime_deadline(found->server, found->tls, newconn->head_since_us,
                                               now_us, newconn->head_counted));
    else
        pass_locked(newconn);
}

/* Decides what a classified connection needs: a slot, only a thread, or nothing
 * because its site is not limited or the request is exempt. */
static void admit_locked(vl_newconn_t *newconn, const vl_classified_t *found)
{
    const vl_conf_t *conf = vl_conf_get(found->server);

    newconn->head_us = newconn->head_since_us ? vl_clock_us() - newconn->head_since_us : 0;
    newconn->head_since_us = 0;
    newconn->head_bytes = newconn->head_counted = 0;
    newconn->http2 = found->http2;
    /* The first stream of cleartext HTTP/2 tells the site of its connection. Until then the connection
     * counts for the default server of its address. It needs no slot. It is queued only if that
     * server has too many threads of this child. */
    if (found->http2 && conf->mode == VL_MODE_ON
        && vl_slot_occupy(vl_child.shm, found->account, VL_OCCUPY_ASK)) {
        newconn->grant.occupies = 1;
        newconn->grant.ticket.account = found->account;
        pass_locked(newconn);
        return;
    }
    if (conf->mode != VL_MODE_ON || found->exempt
        || !vl_slot_queue(vl_child.shm, found->account)) {
        pass_locked(newconn);
        return;
    }
    newconn->ready = !found->tls && !found->http2;
    newconn->client.tls = found->tls;
    newconn->client.http11 = found->http11 && !found->http2;
    newconn->client.probed = newconn->starts_job = 0;
    request_slot_locked(newconn, conf, found);
}

/* Reads the first bytes of a connection in CLASSIFYING, and moves it to its next state.
 * at_end: the client sends nothing more. */
static void classify(vl_newconn_t *newconn, int at_end)
{
    vl_classified_t found;
    vl_classify_e result = vl_classify(newconn->fd, &newconn->local,
                                       &newconn->remote, newconn->addr_len,
                                       &found);

    clear_grant(newconn);
    vl_waiters_lock();
    if (result == VL_CLASSIFY_ALL)
        admit_locked(newconn, &found);
    else if (result == VL_CLASSIFY_CLOSED || (result == VL_CLASSIFY_NOTHING && at_end))
        close_locked(newconn);
    else if (at_end)
        pass_locked(newconn);       /* Apache answers an incomplete request */
    else
        wait_for_head_locked(newconn, &found);
    vl_waiters_unlock();
}

static void find_local(vl_newconn_t *newconn)
{
    newconn->addr_len = sizeof(newconn->local);
    getsockname(newconn->fd, (struct sockaddr *)&newconn->local,
                &newconn->addr_len);
}

static void add(vl_newconn_t *newconn, state_e state)
{
    vl_waiters_lock();
    if (state == CLASSIFYING) {
        /* The rest of the descriptors is for the MPM's threads. */
        if (descriptors_locked() / 2 > vl_child.max_lingering)
            close_one_locked();
        here->accepted++;
    }
    enter_locked(newconn, state);
    vl_waiters_unlock();
}

void vl_newconn_accepted(int fd, const struct sockaddr_storage *remote,
                         const struct sockaddr_storage *local, socklen_t local_length)
{
    vl_newconn_t *newconn = create(fd);

    if (!newconn)
        return;
    newconn->remote = *remote;
    newconn->local = *local;
    newconn->addr_len = local_length;
    if (!local_length)
        find_local(newconn);
    add(newconn, CLASSIFYING);
    classify(newconn, 0);
}

void vl_newconn_received(int fd, const vl_passed_t *passed, int is_back)
{
    vl_newconn_t *newconn = create(fd);
    socklen_t length = sizeof(newconn->remote);

    if (!newconn)
        return;
    find_local(newconn);
    getpeername(fd, (struct sockaddr *)&newconn->remote, &length);
    newconn->head_since_us = passed->began_us;
    newconn->queued_since_us = passed->since_us;
    add(newconn, is_back ? TRANSFER_FAILED : CLASSIFYING);
    if (!is_back)
        classify(newconn, 0);
}

void vl_newconn_handle_event(vl_newconn_t *newconn, apr_uint32_t events)
{
    int classify_again = 0;

    vl_waiters_lock();
    switch (newconn->state) {
    case INCOMPLETE_HEAD:
        move_locked(newconn, CLASSIFYING);
        classify_again = 1;
        break;
    case LINGERING:
        if (!discard_input(newconn->fd))
            close_locked(newconn);
        break;
    case QUEUED:
        if (is_gone(newconn, events))
            drop_gone_locked(newconn);
        break;
    default:
        break;
    }
    vl_waiters_unlock();
    if (classify_again)
        classify(newconn, !!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)));
}

void vl_newconn_after_events(void)
{
    vl_newconn_t *newconn;

    vl_waiters_lock();
    while ((newconn = first_locked(TRANSFER_FAILED))) {
        move_locked(newconn, CLASSIFYING);
        vl_waiters_unlock();
        classify(newconn, 0);
        vl_waiters_lock();
    }
    while ((newconn = first_locked(RELEASED))) {
        unlink_locked(newconn);
        free(newconn);
    }
    vl_waiters_unlock();
}

/* --- deadlines, also while the acceptor is stalled --------------------------- */

static void expired_locked(vl_timer_t *timer)
{
    vl_newconn_t *newconn = (vl_newconn_t *)(void *)
        ((char *)timer - offsetof(vl_newconn_t, timer));
    struct epoll_event ev = { EPOLLRDHUP | EPOLLET, { .ptr = newconn } };

    if (newconn->state == INCOMPLETE_HEAD)
        time_out_locked(newconn);
    else if (newconn->state == LINGERING)
        close_locked(newconn);
    /* A QUEUED one is watched for its close from now on. */
    else if (!newconn->watched && !epoll_ctl(here->epoll_fd, EPOLL_CTL_ADD, newconn->fd, &ev))
        newconn->watched = WATCHED_FOR_CLOSE;
}

/* Returns the slots that a stalled MPM does not use. A connection that loses its slot is
 * queued again, before the others: the last one first, because each becomes the head of
 * its queue. This child is granted nothing, so no other record moves meanwhile. */
static void return_grants_locked(void)
{
    struct newconn_ring_t *passing = &here->ring[FOR_MPM];
    vl_newconn_t *newconn, *before;

    for (newconn = APR_RING_LAST(passing);
         newconn != APR_RING_SENTINEL(passing, vl_newconn_t, link);
         newconn = before) {
        before = APR_RING_PREV(newconn, link);
        if (newconn->grant.holds) {
            return_grant_locked(&newconn->grant);
            newconn->was_queued = 1;
            move_locked(newconn, QUEUED);
            vl_waiters_put_back_locked(&newconn->waiter);
        }
    }
}

static void pass_with_input_locked(state_e state)
{
    struct newconn_ring_t *in = &here->ring[state];
    vl_newconn_t *newconn, *next;
    char byte;

    for (newconn = APR_RING_FIRST(in);
         newconn != APR_RING_SENTINEL(in, vl_newconn_t, link); newconn = next) {
        next = APR_RING_NEXT(newconn, link);
        if (recv(newconn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
            clear_grant(newconn);
            pass_locked(newconn);
        }
    }
}

int vl_newconn_tick(apr_int64_t now_us, int while_stalled)
{
    apr_uint32_t children = vl_shm_child_count_active(vl_child.shm);
    apr_uint32_t max = children ? REFUSALS_ALL / children : REFUSALS_ALL;
    int mpm_stalled;

    vl_waiters_lock();
    if (while_stalled) {
        pass_with_input_locked(INCOMPLETE_HEAD);
        pass_with_input_locked(TRANSFER_FAILED);
    }
    vl_waiters_expire_locked(now_us, max > REFUSALS_EACH ? max : REFUSALS_EACH);
    vl_waiters_refill_locked();
    vl_waiters_let_calls_locked();
    vl_waiters_take_locked();
    vl_wheel_turn(here->wheel, now_us, expired_locked);
    /* The MPM has stopped accepting, because its connections or its threads are at their limit. */
    if (!here->mpm_stalled && first_locked(FOR_MPM)
        && here->mpm_polled_us <= now_us - MPM_STALLED_US
        && here->signalled_us <= now_us - MPM_STALLED_US) {
        set_mpm_stalled_locked(1);
        return_grants_locked();
    }
    mpm_stalled = here->mpm_stalled;
    vl_waiters_unlock();
    return mpm_stalled;
}

void vl_newconn_pass_all(void)
{
    vl_newconn_t *newconn;

    vl_waiters_lock();
    while ((newconn = first_locked(INCOMPLETE_HEAD))
           || (newconn = first_locked(TRANSFER_FAILED))
           || (newconn = unqueue_locked(0))) {
        clear_grant(newconn);
        pass_locked(newconn);
    }
    vl_waiters_unlock();
}

/* What the acceptor and the MPM's listener use is divided equally among new connections and the input of
 * established ones. */
void vl_newconn_measure_arrivals(apr_int64_t cpu_us, apr_int64_t now_us)
{
    static apr_int64_t last_us, measured_us;
    static apr_uint32_t last_n;
    apr_uint32_t n = here->accepted + vl_lease_arrivals() - last_n;
    apr_int64_t us;

    if (here->mpm_clock)
        cpu_us += vl_meter_clock_us(here->mpm_clock);
    if (now_us - measured_us <= MEASURE_US) {
        if (n < MEASURE_MIN)
            return;
        us = (cpu_us - last_us + n / 2) / n;
        vl_charge_set_arrival(vl_child.shm, us < ARRIVAL_MOST_US ? us : ARRIVAL_MOST_US);
    }
    measured_us = now_us;
    last_us = cpu_us;
    last_n += n;
}

/* --- the MPM's listener --------------------------------------------------- */

/* The MPM asks for connections. */
static void mpm_asks_locked(void)
{
    here->mpm_polled_us = vl_clock_us();
    if (here->mpm_stalled)
        set_mpm_stalled_locked(0);
}

int vl_newconn_for_mpm(void)
{
    return __atomic_load_n(&here->signalled, __ATOMIC_RELAXED);
}

/* Releases the record, once a worker has begun with the connection or its pool is
 * destroyed. */
static void release_record(vl_conninfo_t *conninfo)
{
    vl_waiters_lock();
    if (conninfo->newconn)
        release_locked(conninfo->newconn);
    vl_waiters_unlock();
}

/* Pool cleanup. The MPM closes the connection. The function returns a slot or a thread that
 * the connection still holds. When the child process exits, pools of connections outlive
 * the child's pool; what the child held has been returned by then. */
static apr_status_t cleanup_conninfo(void *data)
{
    vl_conninfo_t *conninfo = data;

    if (vl_child.ended)
        return APR_SUCCESS;
    if (conninfo->grant.holds)
        vl_waiters_end(&conninfo->grant.ticket, NULL);
    if (conninfo->grant.occupies)
        vl_slot_unoccupy(vl_child.shm, conninfo->grant.ticket.account);
    conninfo->grant.holds = conninfo->grant.occupies = 0;
    release_record(conninfo);
    return APR_SUCCESS;
}

/* Makes an APR socket of fd, with the data that a worker takes from it. Closes fd if it cannot. */
static apr_status_t make_socket(int fd, struct sockaddr_storage *local, struct sockaddr_storage *remote,
                                const vl_grant_t *grant, int ready, apr_pool_t *p,
                                vl_conninfo_t **ret_conninfo, apr_socket_t **ret_sock)
{
    apr_os_sock_info_t info = {
        &fd, (struct sockaddr *)local, (struct sockaddr *)remote,
        local->ss_family, SOCK_STREAM, APR_PROTO_TCP
    };
    vl_conninfo_t *conninfo = *ret_conninfo = apr_pcalloc(p, sizeof(*conninfo));
    apr_status_t rv = apr_os_sock_make(ret_sock, &info, p);

    conninfo->grant = *grant;
    conninfo->ready = ready;
    apr_pool_cleanup_register(p, conninfo, cleanup_conninfo, apr_pool_cleanup_null);
    if (rv == APR_SUCCESS)
        apr_socket_data_set(*ret_sock, conninfo, conninfo_key, NULL);
    else
        close(fd);
    return rv;
}

/* The MPM takes one socket per call, so pass_fd stays readable until the list is empty. */
apr_status_t vl_newconn_next(apr_pool_t *p, void **ret_csd)
{
    vl_conninfo_t *conninfo;
    apr_socket_t *sock = NULL;
    vl_newconn_t *newconn;
    apr_uint64_t count;
    apr_status_t rv;

    *ret_csd = NULL;
    vl_waiters_lock();
    if (!here->mpm_clock)
        pthread_getcpuclockid(pthread_self(), &here->mpm_clock);
    mpm_asks_locked();
    newconn = first_for_mpm_locked();
    if (newconn)
        move_locked(newconn, IN_MPM);
    else if (here->signalled
             && read(here->pass_fd, &count, sizeof(count)) == sizeof(count))
        here->signalled = 0;
    vl_waiters_unlock();
    if (!newconn)
        return APR_EAGAIN;
    rv = make_socket(newconn->fd, &newconn->local, &newconn->remote, &newconn->grant, newconn->ready, p,
                     &conninfo, &sock);
    *ret_csd = sock;
    if (newconn->was_queued)
        conninfo->grant.waited_us = vl_clock_us() - newconn->waiter.since_us;
    conninfo->http2 = newconn->http2;
    conninfo->hello_us = newconn->head_us;
    vl_waiters_lock();
    conninfo->newconn = newconn;
    newconn->conninfo = conninfo;
    vl_waiters_unlock();
    if (rv != APR_SUCCESS)
        release_record(conninfo);
    return rv;
}

/* --- the MPM in another process ------------------------------------------- */

void vl_newconn_relay(void)
{
    vl_newconn_t *newconn;
    apr_status_t rv = APR_SUCCESS;

    vl_waiters_lock();
    while (rv == APR_SUCCESS && (newconn = first_for_mpm_locked())) {
        vl_item_t item = { .grant = newconn->grant, .ready = newconn->ready,
                           .addr_len = newconn->addr_len,
                           .local = newconn->local, .remote = newconn->remote };

        if (newconn->was_queued)
            item.grant.waited_us = vl_clock_us() - newconn->waiter.since_us;
        rv = vl_relay_acceptor_send(vl_child.shm, vl_child.relay_pair, &item, newconn->fd);
        if (rv == APR_SUCCESS)
            close_locked(newconn);
    }
    if (rv == APR_SUCCESS)
        mpm_asks_locked();
    vl_waiters_unlock();
}

apr_status_t vl_newconn_relayed_socket(const vl_item_t *item, int fd, apr_pool_t *p,
                                       apr_socket_t **ret_sock)
{
    vl_item_t *copy = apr_pmemdup(p, item, sizeof(*item));
    vl_conninfo_t *unused;

    return make_socket(fd, &copy->local, &copy->remote, &item->grant, item->ready, p, &unused, ret_sock);
}

/* --- its workers ---------------------------------------------------------- */

vl_conninfo_t *vl_newconn_begin(apr_socket_t *sock)
{
    void *data = NULL;

    if (apr_socket_data_get(&data, conninfo_key, sock) != APR_SUCCESS || !data)
        return NULL;
    release_record(data);
    return data;
}

/* --- other children ---------------------------------------------------------- */

/* Returns a connection that waits here, without a grant, or NULL. */
static vl_newconn_t *find_waiting_locked(void)
{
    vl_newconn_t *newconn = first_locked(INCOMPLETE_HEAD);

    if (!newconn)
        newconn = first_locked(TRANSFER_FAILED);
    if (!newconn && (newconn = first_locked(FOR_MPM)))
        return_grant_locked(&newconn->grant);
    return newconn ? newconn : unqueue_locked(0);
}

/* Returns a connection for vl_newconn_take(), or NULL. */
static vl_newconn_t *find_locked(vl_take_e which)
{
    vl_newconn_t *newconn;
    int fd;

    switch (which) {
    case VL_TAKE_WAITING:
        return find_waiting_locked();
    case VL_TAKE_QUEUED:
        /* First those that have been passed without being admitted: the site is not limited or is in DryRun,
         * the request is exempt, or the head is not complete. More of them can wait than this child has
         * threads. */
        APR_RING_FOREACH(newconn, &here->ring[FOR_MPM], vl_newconn_t, link) {
            if (!newconn->grant.holds && !newconn->grant.occupies && !newconn->grant.refused)
                return newconn;
        }
        return unqueue_locked(1);
    case VL_TAKE_UNBEGUN:
        break;
    }
    /* The descriptor is the MPM's, so the transfer gets a duplicate. Without a free descriptor the connection
     * stays where it is, and the batch ends: the next one has the descriptors of this one. */
    newconn = first_locked(IN_MPM);
    fd = newconn ? fcntl(newconn->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd < 0)
        return NULL;
    return_grant_locked(&newconn->grant);
    vl_rescue_forget(newconn->fd);
    newconn->fd = fd;
    return newconn;
}

void vl_newconn_take(vl_take_e which, apr_size_t max, vl_batch_t *ret_batch)
{
    vl_newconn_t *newconn;
    apr_size_t n;

    vl_waiters_lock();
    if (which == VL_TAKE_WAITING)
        set_mpm_stalled_locked(1);
    for (n = 0; n < max && (newconn = find_locked(which)); n++) {
        ret_batch->fds[n] = newconn->fd;
        ret_batch->passed[n] = known_of(newconn);
        release_locked(newconn);
    }
    ret_batch->n = n;
    vl_waiters_unlock();
}

void vl_newconn_answer_all(void)
{
    static const char answer[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n";
    vl_newconn_t *newconn;

    vl_waiters_lock();
    while ((newconn = find_waiting_locked())) {
        if (newconn->ready
            && send(newconn->fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            close_locked(newconn);
        else
            linger_locked(newconn, SHORT_LINGER_US);
    }
    vl_waiters_unlock();
}

apr_uint32_t vl_newconn_count(void)
{
    apr_uint32_t n;

    vl_waiters_lock();
    n = here->count[INCOMPLETE_HEAD] + here->count[QUEUED]
        + here->count[FOR_MPM] + here->count[TRANSFER_FAILED]
        + here->count[LINGERING];
    vl_waiters_unlock();
    return n;
}
