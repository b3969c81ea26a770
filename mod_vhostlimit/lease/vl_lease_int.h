/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_LEASE_INT_H
#define VL_LEASE_INT_H

/* Private to the files lease/vl_lease*.c, which call each other from the top down:
 * vl_lease.c runs connections and owns their states, vl_lease_run.c has the threads that process
 * connections that the MPM has suspended, vl_lease_http2.c holds the frames of streams that may
 * not begin yet, vl_lease_queue.c has the credit, the queue and what wakes a connection.
 *
 * States of a connection. Where connections cannot be parked (worker, prefork), the
 * state does not change.
 *
 *   RUNNING  a thread of the MPM runs the connection's hooks
 *   IDLE     the connection waits for its client
 *   PARKED   the connection is queued, or waits for a worker of mod_http2
 *   EXPIRED  the connection is to be closed
 *
 *   from     event                                                  to
 *   (new)    connection begins                                      RUNNING
 *   (new)    connection begins, handshake has released its slot     IDLE
 *   RUNNING  handshake is done, no request has come (slot returned) IDLE
 *   RUNNING  no more input, or the MPM continues the connection     IDLE
 *   RUNNING  streams are held, no slot is free (HTTP/2)             RUNNING, queued
 *   RUNNING  streams are held, no worker of mod_http2 is left       RUNNING, in want_worker
 *   RUNNING  end of the run while queued or in want_worker          PARKED
 *   RUNNING  its request has been read, no slot is free (HTTP/1)    PARKED, queued
 *   IDLE     input, and lease left, or slot free, or not limited    RUNNING
 *   IDLE     input, no lease left, no slot free                     PARKED, queued
 *   IDLE     input that the acceptor has found, and a slot          IDLE, ready
 *   IDLE     ready, and a worker takes it up                        RUNNING
 *   IDLE     KeepAliveTimeout, child stops, or descriptors short    EXPIRED
 *   PARKED   answer of the queue, or worker of mod_http2 is free    RUNNING
 *   PARKED   input for running streams that wait for their client   RUNNING, queued
 *   PARKED   client has gone, HTTP/1 (the request is refused)       RUNNING
 *   PARKED   client has gone, HTTP/2                                EXPIRED
 *   any      the MPM closes the connection, or its pool ends        EXPIRED
 *
 * The MPM polls connections in IDLE and PARKED, unless it has suspended them: HTTP/1
 * connections, from the first time that one of their requests is queued, or would be.
 * Those stay suspended until they end. The acceptor polls them, and queues them or takes
 * their slots (vl_lease_handle_input()). When a suspended connection has something to do, it
 * enters the ring `ready`, from which a runner takes it: a thread that the MPM has lent for a
 * timer.
 *
 * The acceptor's thread changes IDLE to EXPIRED (expire_locked()). The last row happens in
 * vl_lease_close(), or in the cleanup of the connection's pool. vl_lease_process(), called by
 * a worker of the MPM or a runner, makes all other changes.
 *
 * Owns vl_leases and the members of vl_lease_t. Invariants: a connection is in one ring at
 * most; `queued` is 1 if and only if its waiter is in vl_waiters.h; a connection that is
 * `busy` belongs to one thread, and is in no ring of ready connections.
 * The lock is vl_waiters_lock(). Functions that end in _locked need it. */

#include <ap_mpm.h>
#include <apr_ring.h>
#include <http_protocol.h>
#include <scoreboard.h>
#include <util_filter.h>

#include "base/vl_client.h"
#include "base/vl_wheel.h"
#include "lease/vl_frames.h"
#include "lease/vl_held.h"
#include "lease/vl_lease.h"

/* Unused credit expires when the connection has been idle for this long. A shorter round
 * trip of the client costs no new lease. */
#define VL_LEASE_GRACE_US 20000

typedef enum { RUNNING, IDLE, PARKED, EXPIRED } state_e;
typedef enum { NO_ANSWER, GRANTED, REFUSED } answer_e;
/* The first stream of an HTTP/2 connection in cleartext tells its site. Until that
 * stream's request has been read, the account is not known, and later streams are held.
 * STREAM_NONE: no stream has passed. STREAM_PASSED: the first has passed to mod_http2.
 * STREAM_READ: its request has been read. STREAM_SEEN: the input filter has seen
 * STREAM_READ. */
typedef enum { STREAM_NONE, STREAM_PASSED, STREAM_READ, STREAM_SEEN } first_stream_e;

struct vl_lease_t {
    vl_waiter_t waiter;             /* first: a waiter is cast to its lease */
    vl_client_id_t client_id;       /* the client of its last request */
    conn_rec *c;
    int fd;                         /* the client's socket */
    vl_client_t client;
    state_e state;
    int queued;
    answer_e answer;                /* of the queue, not used yet */
    int nested;                     /* vl_lease_process() runs the other hooks */
    int is_new;                     /* vl_lease_process() has not been called */
    int classified;                 /* account was set by the acceptor ... */
    int account_known;              /* ... or by a request */
    int other_protocol;             /* neither HTTP/1 nor HTTP/2 */
    apr_uint32_t account;
    apr_int64_t queue_timeout_us;   /* 0: the account does not queue */
    apr_int64_t keepalive_us;
    apr_int64_t credit_us;          /* left of the quantum; atomic */
    apr_int64_t idle_since_us;
    vl_timer_t timer;               /* KeepAliveTimeout */
    vl_grant_t *grant;              /* for the next request (HTTP/1) */
    vl_grant_t queue_grant;         /* what the queue answered */
    vl_reason_e refused;            /* of the streams of this run */
    int requeue_at_head;            /* the first slot was returned during the
                                     * handshake ... */
    apr_int64_t waited_us;          /* ... after the connection waited so long */
    int at_rest;                    /* IDLE: the server is dormant, and the MPM handles the
                                     * connection alone */
    int varies;                     /* HTTP/1: its requests were of several accounts or clients */
    int reads_first;                /* IDLE: its next request is read before it is queued */
    int ready;                      /* IDLE: has input, and may run */
    /* A connection that the MPM can suspend, or has suspended */
    int can_suspend;
    int suspended;
    int busy;                       /* a thread has not finished with it */
    int has_events;                 /* busy: the socket had events since the run began */
    apr_uint32_t events;            /* of the socket, with the last input */
    int in_input_set;               /* the socket is in vl_leases.input_fd */
    apr_uint32_t arrivals;          /* vl_lease_take_arrivals(); atomic */
    int wants_output;               /* IDLE: its client has not taken the response yet */
    ap_sb_handle_t *sbh;
    const struct lease_thread_t *left_by;   /* the MPM's thread that has suspended it, */
    apr_uint32_t left_at;                   /* and its `frames` then */
    /* HTTP/2 */
    int http2;
    apr_uint32_t estimate_us;       /* charged in advance for each stream */
    int streams_blocked;            /* running streams wait for the client */
    int is_measured;                /* cpu_us was read: the server was engaged when this run
                                     * began */
    int has_worker;                 /* a worker of the MPM runs it; under the waiters lock */
    int thread_counted;             /* the connection's thread is counted
                                     * (vl_slot.h) ... */
    apr_uint32_t thread_account;    /* ... for this account */
    apr_array_header_t *tickets;    /* slots for streams that begin */
    apr_uint32_t passed;            /* its part of vl_leases.passed */
    int stream_allowed;             /* the grant admits one more stream */
    int worker_free;                /* woken because a worker is free */
    int input_exhausted;            /* the last read found nothing */
    int session_pending;            /* mod_http2 has not begun its session */
    first_stream_e first_stream;
    apr_int64_t cpu_us;             /* the thread's clock at the last charge */
    apr_int64_t charged_us;         /* when the run began, or was charged before a read */
    vl_frames_t *frames;            /* NULL: the connection is not HTTP/2 */
    vl_held_t held;
    apr_bucket_brigade *input;
    /* A parked HTTP/2 connection has poll_fd in its socket, and the MPM polls it. While
     * it runs, mod_http2 polls it. */
    int wake_fd, poll_fd;           /* -1: not made */
    apr_uint32_t polled;            /* events of the socket that make poll_fd
                                     * readable */
    int poll_fd_installed;          /* the socket has poll_fd in place of fd */
    int pretends_output;            /* polls_for_output: wait_in_mpm() has set the flag */
    APR_RING_ENTRY(vl_lease_t) all_link;
    APR_RING_ENTRY(vl_lease_t) link;
    struct lease_ring_t *ring;      /* idle, want_worker, closing, ready, or NULL */
};

APR_RING_HEAD(lease_ring_t, vl_lease_t);

typedef struct child_leases_t {
    vl_shm_t *shm;                  /* NULL: shared memory is unmapped */
    vl_wheel_t *wheel;
    struct lease_ring_t *idle, *want_worker, *closing, *ready;  /* oldest first */
    apr_uint32_t nready;            /* connections in `ready` */
    apr_uint32_t starting;          /* runners that the MPM was asked for */
    vl_lease_look_fn look;
    ap_mpm_callback_fn_t *run;      /* what a runner does */
    int ended;                      /* the child ends at once */
    struct lease_ring_t *all;       /* leases of this child process */
    apr_uint32_t workers;           /* threads of mod_http2 in this child */
    apr_uint32_t waiting;           /* of these, with a stream that waits for its
                                     * client or its back end */
    apr_uint32_t *waiting_by_account;
    apr_uint32_t descriptors;       /* atomic */
    apr_uint32_t passed;            /* streams of all leases that passed while the server was
                                     * dormant, and have not begun */
    int awake;                      /* leases that are not at rest; atomic */
    int parks;                      /* connections can be parked */
    int input_fd;                   /* epoll set of suspended connections, or -1 */
    apr_uint32_t arrivals;          /* vl_lease_arrivals(); written under the lock */
    int threads;                    /* of the MPM, in this child */
    int has_waitio;                 /* the MPM has CONN_STATE_ASYNC_WAITIO */
    int polls_for_output;           /* without it, the MPM polls only a connection with
                                     * pending output (httpd before 2.4.41) */
    int stopping;                   /* the child stops */
    int granting_ended;             /* the child is granted no more slots */
} child_leases_t;

extern child_leases_t vl_leases;            /* one for each child process */
/* The connection whose process_connection hooks the calling thread runs. */
extern __thread vl_lease_t *vl_lease_current;

/* The calling runner has sent a response, and takes the next ready connection soon. */
extern __thread int vl_lease_takes_next;

/* --- vl_lease_queue.c: rings and the polled descriptor ---------------------- */

/* The connection has something to do: makes wake_fd readable, or the connection ready. */
void vl_lease_wake_locked(vl_lease_t *lease);
/* Asks the MPM for a runner, if there are more ready connections than runners that start. */
void vl_lease_start_runner_locked(void);

void vl_lease_leave_ring_locked(vl_lease_t *lease);
void vl_lease_enter_ring_locked(vl_lease_t *lease, struct lease_ring_t *ring);
/* Makes wake_fd and poll_fd. poll_fd is an epoll descriptor that is readable when wake_fd is
 * written, and at the events of the client's socket in `polled`. Returns 0 if no descriptor is
 * left. */
int vl_lease_make_poll_fd(vl_lease_t *lease);
/* Sets the events of the client's socket that make poll_fd readable. */
void vl_lease_poll_client(vl_lease_t *lease, apr_uint32_t events);
/* Puts poll_fd, or the client's descriptor again, into the socket of the connection. */
void vl_lease_install_poll_fd(vl_lease_t *lease);
void vl_lease_uninstall_poll_fd(vl_lease_t *lease);
/* Returns 1 if the held frames use so much memory that no more input is read. */
int vl_lease_is_held_full(const vl_lease_t *lease);
/* Installs poll_fd before the MPM polls the connection. has_ended: the client has closed
 * its sending side and may still wait for the answer, so that event must not wake the
 * MPM again. Streams that wait for their client need its input. */
void vl_lease_park_locked(vl_lease_t *lease, int has_ended);

/* --- vl_lease_queue.c: credit and the queue --------------------------------- */

/* Returns the unused part of the quantum, us of CPU time. */
apr_int64_t vl_lease_credit(const vl_lease_t *lease);
/* Reduces it. */
void vl_lease_use_credit(vl_lease_t *lease, apr_int64_t us);
/* Return 1 if the connection's requests may have to wait. */
int vl_lease_is_limited(const vl_lease_t *lease);
int vl_lease_is_limited_locked(const vl_lease_t *lease);
/* vl_waiter_done_fn of leases: stores the answer of the queue and wakes the connection. */
void vl_lease_answer_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                            vl_reason_e refused);
/* Uses the answer of the queue, if there is one: a new lease, or a refusal. */
void vl_lease_use_answer_locked(vl_lease_t *lease);
/* Leaves the queue. The second is for a connection that has nothing to run: it ends, or its held
 * streams have begun on credit or were reset. It returns the grant that has come in the meantime. */
void vl_lease_unqueue_locked(vl_lease_t *lease);
vl_grant_t vl_lease_leave_queue_locked(vl_lease_t *lease);
/* Changes the state, and keeps the counts of waiters with a thread and without one. */
void vl_lease_change_state_locked(vl_lease_t *lease, state_e state);
/* Queues the connection. first: at the head of the queue. Its answer may have come already. */
void vl_lease_queue_locked(vl_lease_t *lease, apr_uint32_t account, const vl_client_id_t *client,
                           apr_int64_t since_us, int first);
/* Begins a new lease with a free slot, or queues the connection. first: at the head of the
 * queue. Returns 1 if the connection may run now. */
int vl_lease_request_slot_locked(vl_lease_t *lease, apr_int64_t since_us, int first);
/* Handles input on an idle connection. Returns 1 if the connection runs now, and 0 if it
 * has been queued. */
int vl_lease_run_or_queue_locked(vl_lease_t *lease);
/* Returns 1 if the next request of the idle connection may have to be queued, and its bytes in the
 * socket do not tell whose it is. */
int vl_lease_must_look(const vl_lease_t *lease);
/* The thread has finished with a suspended connection. */
void vl_lease_release_locked(vl_lease_t *lease);
/* Count the thread of the connection for its account (vl_slot.h), and no more. Waiters lock. */
void vl_lease_count_thread(vl_lease_t *lease);
void vl_lease_uncount_thread(vl_lease_t *lease);

/* --- vl_lease_run.c --------------------------------------------------------- */

void vl_lease_run_register(vl_lease_linger_fn linger);
/* Returns 1 if the MPM can suspend the connection. */
int vl_lease_can_suspend(const vl_lease_t *lease);
/* The connection is suspended when the thread returns to the MPM, or to its runner. */
void vl_lease_suspend(vl_lease_t *lease);
/* It is not, because it closes. */
void vl_lease_forget_suspend(const vl_lease_t *lease);

/* --- vl_lease_http2.c ------------------------------------------------------- */

/* From here on the CPU time of the calling thread is the connection's. */
void vl_lease_begin_charges(vl_lease_t *lease);
/* Charges the account and the lease for the CPU time that the connection's thread has used
 * since the last charge. */
void vl_lease_charge_connection(vl_lease_t *lease);
/* Before mod_http2 begins its session: makes it poll poll_fd. */
void vl_lease_prepare_session(vl_lease_t *lease);
/* Returns 1 if the child stops. */
int vl_lease_is_stopping(const vl_lease_t *lease);

#endif
