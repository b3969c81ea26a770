/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that the MPM has suspended, and the threads that process them.
 *
 * event's process_socket() forgets a connection whose process_connection hooks return
 * CONN_STATE_SUSPENDED, until the connection's pool is destroyed. A runner does for it what
 * process_socket() does for others. It is a worker of the MPM that runs a timer. It takes ready
 * connections until none is left. A thread that has released a slot is thus the one that
 * processes the connection that got it: no listener, no queue and no second thread is between.
 */
#include "lease/vl_lease_int.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <apr_portable.h>
#include <http_connection.h>
#include <http_core.h>
#include <mpm_common.h>

#include "base/vl_private.h"

/* A thread of the MPM that has processed a connection with a lease. */
typedef struct lease_thread_t {
    int child, number;              /* its place in the scoreboard */
    const worker_score *score;
    apr_thread_t *thread;
    apr_uint32_t frames;            /* connections that it has begun to process; atomic */
} lease_thread_t;

static __thread lease_thread_t *this_thread;
/* The connection that will be suspended when the thread returns. */
static __thread vl_lease_t *suspending;
static __thread int is_runner;
/* 1: this child has suspended a connection, or may do so soon. Read before the variables above: each of
 * them costs a call. */
static int suspends;
static vl_lease_linger_fn linger_on;

static int find_score(lease_thread_t *t)
{
    int children = 0, threads = 0;

    ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &children);
    ap_mpm_query(AP_MPMQ_HARD_LIMIT_THREADS, &threads);
    for (t->child = 0; t->child < children; t->child++) {
        for (t->number = 0; t->number < threads; t->number++) {
            t->score = ap_get_scoreboard_worker_from_indexes(t->child, t->number);
            if (t->score && t->score->pid == getpid()
                && pthread_equal(t->score->tid, pthread_self()))
                return 1;
        }
    }
    return 0;
}

/* Returns NULL if the calling thread is not a worker of the MPM. */
static lease_thread_t *my_thread(void)
{
    apr_os_thread_t self = apr_os_thread_current();
    apr_pool_t *pool;
    lease_thread_t *t;

    if (this_thread)
        return this_thread;
    __atomic_store_n(&suspends, 1, __ATOMIC_RELAXED);
    /* As long as the process */
    if (apr_pool_create(&pool, NULL) != APR_SUCCESS)
        return NULL;
    t = apr_pcalloc(pool, sizeof(*t));
    if (find_score(t) && apr_os_thread_put(&t->thread, &self, pool) == APR_SUCCESS)
        return this_thread = t;
    apr_pool_destroy(pool);
    return NULL;
}

int vl_lease_can_suspend(const vl_lease_t *lease)
{
    return lease->suspended || (vl_leases.input_fd >= 0 && lease->sbh && my_thread());
}

void vl_lease_suspend(vl_lease_t *lease)
{
    lease->suspended = lease->busy = 1;
    lease->c->cs->state = CONN_STATE_SUSPENDED;
    suspending = lease;
}

void vl_lease_forget_suspend(const vl_lease_t *lease)
{
    if (suspending == lease)
        suspending = NULL;
}

/* suspend_connection hook. The MPM writes to the connection once more (notify_suspend()). */
static void note_suspend(conn_rec *c, request_rec *r)
{
    vl_lease_t *lease = __atomic_load_n(&suspends, __ATOMIC_RELAXED) ? suspending : NULL;

    (void)r;
    if (!lease || is_runner || lease->c != c)
        return;
    suspending = NULL;
    lease->left_by = this_thread;
    lease->left_at = this_thread->frames;
    vl_waiters_lock();
    vl_lease_release_locked(lease);
    vl_waiters_unlock();
}

static void note_frame(void)
{
    if (__atomic_load_n(&suspends, __ATOMIC_RELAXED) && this_thread)
        __atomic_add_fetch(&this_thread->frames, 1, __ATOMIC_SEQ_CST);
}

static void note_resume(conn_rec *c, request_rec *r)
{
    (void)c;
    (void)r;
    if (__atomic_load_n(&suspends, __ATOMIC_RELAXED) && !is_runner)
        note_frame();
}

static int note_connection(conn_rec *c, void *csd)
{
    (void)csd;
    if (!c->master)
        note_frame();
    return DECLINED;
}

/* Returns 1 if the MPM has finished with the connection that it has suspended: its thread is idle,
 * or has begun with another one. */
static int has_left(const lease_thread_t *t, apr_uint32_t at)
{
    unsigned char status = __atomic_load_n(&t->score->status, __ATOMIC_SEQ_CST);

    return status == SERVER_READY || status == SERVER_GRACEFUL || status == SERVER_DEAD
           || __atomic_load_n(&t->frames, __ATOMIC_SEQ_CST) != at;
}

static int class_before;

static void restore_class(void)
{
    struct sched_param param = { 0 };

    sched_setscheduler(0, class_before, &param);
}

/* CGI programs that a worker forks run in the scheduling class that the server was
 * started with. SCHED_RESET_ON_FORK does not do that: it resets real-time classes only
 * (sched(7)). */
static void prepare_fork(void)
{
    class_before = sched_getscheduler(0);
    pthread_atfork(NULL, NULL, restore_class);
}

void vl_lease_use_batch_policy(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static __thread int done;
    struct sched_param param = { 0 };

    if (done)
        return;
    done = 1;
    pthread_once(&once, prepare_fork);
    sched_setscheduler(0, SCHED_BATCH, &param);
}

/* Closes the connection as the MPM does. The acceptor lingers. */
static void close_suspended(vl_lease_t *lease)
{
    conn_rec *c = lease->c;
    apr_socket_t *socket = ap_get_conn_socket(c);
    apr_pool_t *pool = c->pool;
    int fd = lease->fd;

#if AP_MODULE_MAGIC_AT_LEAST(20180720, 1)
    pool = apr_pool_parent_get(pool);
#endif
    if (!ap_start_lingering_close(c) && !c->aborted)
        linger_on(fd, apr_time_from_sec(apr_table_get(c->notes, "short-lingering-close") ? 2 : 30));
    apr_socket_close(socket);
    c->cs->state = CONN_STATE_SUSPENDED;    /* decrement_connection_count() */
    apr_pool_destroy(pool);
}

/* Returns 0 if it has closed the connection. */
static int run_connection(vl_lease_t *lease)
{
    const lease_thread_t *t = this_thread;
    conn_rec *c = lease->c;
    int threads = 0, rc;

    while (lease->left_by && !has_left(lease->left_by, lease->left_at))
        apr_sleep(100);
    lease->left_by = NULL;
    ap_mpm_query(AP_MPMQ_HARD_LIMIT_THREADS, &threads);
    ap_update_sb_handle(lease->sbh, t->child, t->number);
    c->sbh = lease->sbh;
    c->current_thread = t->thread;
    c->id = (long)t->child * threads + t->number;
    ap_run_resume_connection(c, NULL);
    c->cs->state = CONN_STATE_READ_REQUEST_LINE;
    rc = ap_run_process_connection(c);
    if ((rc != OK && rc != DONE) || suspending != lease || c->aborted) {
        close_suspended(lease);
        return 0;
    }
    suspending = NULL;
    ap_run_suspend_connection(c, NULL);
    c->sbh = NULL;
    return 1;
}

static vl_lease_t *take_ready_locked(void)
{
    vl_lease_t *lease = APR_RING_FIRST(vl_leases.ready);

    if (vl_leases.ended || !vl_leases.nready)
        return NULL;
    vl_lease_leave_ring_locked(lease);
    vl_leases.nready--;
    lease->busy = 1;
    vl_lease_takes_next = 0;
    vl_lease_start_runner_locked();
    return lease;
}

/* ap_mpm_callback_fn_t: what a runner does. */
static void run(void *unused)
{
    vl_lease_t *lease;
    int waits;

    (void)unused;
    note_frame();
    vl_waiters_lock();
    vl_leases.starting--;
    is_runner = my_thread() != NULL;
    vl_lease_use_batch_policy();
    while (is_runner && (lease = take_ready_locked())) {
        vl_waiters_unlock();
        waits = run_connection(lease);
        vl_waiters_lock();
        if (waits)
            vl_lease_release_locked(lease);
    }
    is_runner = vl_lease_takes_next = 0;
    vl_lease_start_runner_locked();
    vl_waiters_unlock();
}

void vl_lease_sent(void)
{
    vl_lease_takes_next = is_runner;
}

void vl_lease_run_register(vl_lease_linger_fn linger)
{
    linger_on = linger;
    vl_leases.run = run;
    ap_hook_pre_connection(note_connection, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_resume_connection(note_resume, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_suspend_connection(note_suspend, NULL, NULL, APR_HOOK_REALLY_LAST);
}
