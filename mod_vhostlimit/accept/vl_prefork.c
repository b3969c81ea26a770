/* SPDX-License-Identifier: Apache-2.0 */
/* A child becomes the acceptor if it asks for a connection and finds that there is no
 * acceptor. So the MPM starts it, replaces it when it dies, and stops it, like any
 * child. It runs in accept_next() with the MPM's signals blocked except while it
 * sleeps, until a signal handler of the MPM has closed the listeners or ended the
 * process. What a child does, and what changes that:
 *
 *   serves   --the MPM calls accept_next()----------> asks
 *   asks     --a connection comes from the acceptor----> serves
 *            --the server is dormant: it accepts one---> serves
 *            --the server is engaged, without acceptor-> accepts
 *            --no descriptor is left-------------------> asks again after RETRY_US
 *   accepts  --not enough descriptors for it-----------> asks
 *            --the server is dormant-------------------> asks
 *            --the MPM has closed its listeners--------> ends
 *
 * While the server is dormant each child waits in an epoll set of its own with the real sockets. A child
 * leaves the set of the sockets when it asks for the first time while the server is engaged. The change
 * wakes those that wait, and the first one becomes the acceptor.
 *
 * The MPM polls its listeners if there are several, and then lets one child at a time
 * accept, as the global list says. So each listener is replaced by a placeholder that
 * is always readable, and the global list is cut to one entry in this process. The
 * real sockets are appended to the MPM's own list, where it only closes them.
 *
 * The MPM's handler of SIGUSR1 walks that list, also while the child's pool is
 * destroyed at exit. So what is put into the list lives in the parent of that pool,
 * which no child destroys. */
#include "accept/vl_prefork.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <ap_listen.h>
#include <ap_mpm.h>
#include <apr_portable.h>
#include <apr_strings.h>
#include <http_core.h>
#include <http_main.h>
#include <mpm_common.h>
#include <scoreboard.h>
#include <unixd.h>

#include "accept/vl_acceptor.h"
#include "accept/vl_newconn.h"
#include "accept/vl_child.h"
#include "accept/vl_listener.h"
#include "accept/vl_relay.h"
#include "base/vl_clock.h"
#include "core/vl_slot.h"
#include "core/vl_engage.h"
#include "core/vl_shm_child.h"

/* How often the state changes in a test (VL_FORM_TOGGLED), ms. */
#define TOGGLE_MS 100
/* Interval at which a child without free descriptors tries again. */
#define RETRY_US (100 * 1000)

static struct {
    apr_pool_t *list_pool;          /* of what is put into the MPM's list */
    ap_listen_rec *first;           /* of the MPM's list */
    int n;                          /* placeholders at the start of the list */
    ap_listen_rec *real;            /* the real sockets, at the end of the list */
    vl_listeners_t listeners;       /* duplicates of them, in the acceptor */
    int is_open;                    /* this child has been the acceptor before */
    int epoll_fd;                   /* what this child waits for while the server is dormant: */
    int has_sockets;                /* the real sockets and the pairs are in it */
    pthread_t thread;               /* runs take_over() */
    int list_is_final;              /* atomic: the list does not change any more */
    int stopping;                   /* atomic: take_over() is to stop */
} prefork;

/* --- the acceptor --------------------------------------------------------- */

/* The acceptor must not count as idle, or the MPM would rely on it to take connections.
 * mod_status does not count this state as busy. */
static void mark(int status)
{
    int i, daemons = 0;

    ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &daemons);
    for (i = 0; i < daemons; i++) {
        if (ap_get_scoreboard_process(i)->pid == getpid())
            ap_update_child_status_from_indexes(i, 0, status, NULL);
    }
}

/* The MPM closes the real sockets, so the acceptor has duplicates. Returns 0 if there are
 * not enough descriptors. */
static int open_acceptor(void)
{
    if (vl_listener_child_copy(prefork.real, prefork.n, &prefork.listeners)) {
        prefork.is_open = prefork.is_open || vl_acceptor_open(1) >= 0;
        if (prefork.is_open)
            return 1;
        vl_listener_child_close(&prefork.listeners);
    }
    vl_acceptor_fail(-1, errno, "it accepts no connections and tries again");
    return 0;
}

/* Accepts for all children until the MPM has closed its listeners, or the server is dormant.
 * Returns at once if another child accepts or this one cannot. It resigns then: another one may be able to. */
static void run_as_acceptor(void)
{
    sigset_t stops, before;

    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGHUP);
    sigaddset(&stops, AP_SIG_GRACEFUL);
    pthread_sigmask(SIG_BLOCK, &stops, &before);
    if (prefork.first->active && vl_relay_claim(vl_child.shm)) {
        if (open_acceptor()) {
            mark(SERVER_IDLE_KILL);
            prefork.listeners.first = prefork.first;
            vl_acceptor_run(&prefork.listeners, &before);
            if (prefork.first->active) {
                vl_listener_child_close(&prefork.listeners);
                mark(SERVER_READY);
            }
        }
        else {
            vl_relay_acceptor_resign(vl_child.shm);
            vl_relay_child_ask(vl_child.shm);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* --- the others ----------------------------------------------------------- */

static int watch(int op, int fd, apr_uint32_t events, const void *source)
{
    struct epoll_event ev = { events, { .ptr = (void *)source } };

    return epoll_ctl(prefork.epoll_fd, op, fd, &ev);
}

/* Puts the sockets and the pairs into the epoll set, or removes them: a child in the set is looked at
 * for each connection, also while it waits elsewhere. */
static void watch_sockets(int watches)
{
    int op = watches ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, fails = 0;
    const apr_uint32_t events = EPOLLIN | EPOLLEXCLUSIVE;
    const ap_listen_rec *lr;

    if (prefork.has_sockets == watches)
        return;
    prefork.has_sockets = watches;
    for (lr = prefork.real; lr; lr = lr->next) {
        apr_os_sock_get(&fd, lr->sd);
        fails |= watch(op, fd, events, lr);
    }
    fails |= watch(op, vl_child.relay_pair[0], events, &vl_child.relay_pair);
    fails |= watch(op, vl_child.transfer_pair[0], events, &vl_child.transfer_pair);
    if (watches && fails && prefork.first->active)
        vl_engage_now(vl_child.shm, VL_ENGAGED_ALWAYS);
}

/* Takes a connection that the acceptor has sent. Returns APR_EAGAIN if there is none yet. */
static apr_status_t take_relayed(void **csd, int sleeps, apr_pool_t *ptrans)
{
    apr_socket_t *sock = NULL;
    vl_item_t item;
    int fd;
    apr_status_t rv = vl_relay_child_receive(vl_child.shm, vl_child.relay_pair, sleeps, &item, &fd);

    if (rv == APR_EMFILE) {     /* until there may be one, connections go to others or stay queued */
        vl_acceptor_warn_full();
        vl_relay_child_stop_asking(vl_child.shm);
        apr_sleep(RETRY_US);
    }
    if (rv != APR_SUCCESS)
        return APR_EAGAIN;
    rv = vl_newconn_relayed_socket(&item, fd, ptrans, &sock);
    *csd = sock;
    return rv;
}

/* The server is engaged. Returns APR_EAGAIN if there is no connection yet. */
static apr_status_t ask(void **csd, apr_pool_t *ptrans)
{
    watch_sockets(0);
    vl_relay_child_ask(vl_child.shm);
    if (vl_relay_has_acceptor(vl_child.shm))
        return take_relayed(csd, 1, ptrans);
    run_as_acceptor();
    return APR_EAGAIN;
}

/* The server is dormant: accepts as the MPM would. Returns APR_EAGAIN if there is no connection
 * yet. */
static apr_status_t accept_direct(void **csd, apr_pool_t *ptrans)
{
    const vl_engage_t state = vl_engage_state(vl_child.shm);
    int toggles = state.form == VL_FORM_TOGGLED, n;
    apr_status_t rv = APR_EAGAIN;
    struct epoll_event ev;
    ap_listen_rec *real;
    apr_uint64_t count;

    if (!prefork.has_sockets)
        vl_relay_child_stop_asking(vl_child.shm);
    watch_sockets(1);
    n = epoll_wait(prefork.epoll_fd, &ev, 1, toggles ? TOGGLE_MS : -1);
    if (toggles && vl_clock_us() - state.since_us >= TOGGLE_MS * 1000)
        vl_engage_tick(vl_child.shm, vl_clock_us(), 0);
    if (n < 1 || !prefork.first->active || !vl_engage_has_room(vl_child.shm, 0))
        return APR_EAGAIN;
    if (ev.data.ptr == &vl_child.relay_pair)
        return take_relayed(csd, 0, ptrans);
    if (ev.data.ptr == &vl_child.transfer_pair)     /* an acceptor receives it */
        vl_engage_now(vl_child.shm, VL_ENGAGED_THREADS);
    else if (ev.data.ptr)
        return ap_unixd_accept(csd, ev.data.ptr, ptrans);
    else if (read(vl_shm_child_wake_fd(vl_child.shm), &count, sizeof(count)) > 0) {
        /* EPOLLEXCLUSIVE does not repeat a wake-up that another child has not used. */
        for (real = prefork.real; real && rv == APR_EAGAIN; real = real->next)
            rv = ap_unixd_accept(csd, real, ptrans);
    }
    return rv;
}

/* Returns APR_EINTR if a listener has been closed: the MPM then checks whether this
 * child is to stop. */
static apr_status_t accept_next(void **csd, ap_listen_rec *lr, apr_pool_t *ptrans)
{
    apr_status_t rv = APR_EAGAIN;

    *csd = NULL;
    while (lr->active && !*csd && rv != APR_EGENERAL)
        rv = vl_engage_is_dormant(vl_child.shm) ? accept_direct(csd, ptrans) : ask(csd, ptrans);
    if (*csd || rv == APR_EGENERAL)
        return rv;
    vl_relay_child_stop_asking(vl_child.shm);
    /* This child may have used a wake-up for a connection. */
    if (prefork.has_sockets)
        vl_slot_wake_all(vl_child.shm);
    return APR_EINTR;
}

/* --- set-up --------------------------------------------------------------- */

static int mpm_is_ready(void)
{
    const ap_listen_rec *lr = prefork.first;
    int i;

    if (!__atomic_load_n(&prefork.list_is_final, __ATOMIC_ACQUIRE))
        return 0;
    for (i = 0; i < prefork.n; i++, lr = lr->next) {
        if (lr->accept_func != ap_unixd_accept)
            return 0;
    }
    return 1;
}

/* Thread that replaces the accept functions. The MPM sets its own after child_init,
 * and has no hook before it first uses them. Nothing can be accepted before. */
static void *take_over(void *unused)
{
    ap_listen_rec *lr = prefork.first;
    int i, fd, tries;

    for (tries = 0; !mpm_is_ready(); tries++) {
        if (__atomic_load_n(&prefork.stopping, __ATOMIC_RELAXED))
            return NULL;
        if (tries == VL_LISTENER_TRIES)
            vl_listener_report_wait();
        apr_sleep(1000);
    }
    for (i = 0; i < prefork.n; i++, lr = lr->next)
        lr->accept_func = accept_next;
    for (i = 0, lr = prefork.first; i < prefork.n; i++, lr = lr->next) {
        apr_os_sock_get(&fd, lr->sd);
        if (prefork.n > 1)
            shutdown(fd, SHUT_RDWR);    /* readable from now on */
    }
    return NULL;
}

/* The thread must end before the module is unloaded, because it runs code of the
 * module. */
static apr_status_t end_take_over(void *unused)
{
    __atomic_store_n(&prefork.stopping, 1, __ATOMIC_RELAXED);
    pthread_join(prefork.thread, NULL);
    return APR_SUCCESS;
}

/* Placeholders live in the parent of pchild, because a signal may close the listeners
 * while the child destroys pchild. Returns 0 if there are not enough descriptors. */
static int make_placeholders(apr_socket_t **sockets)
{
    int i, fd;

    for (i = 0; i < prefork.n; i++) {
        fd = vl_listener_empty_fd();
        sockets[i] = NULL;
        if (fd < 0)
            return 0;
        apr_os_sock_put(&sockets[i], &fd, prefork.list_pool);
    }
    return 1;
}

/* Appends the MPM's listeners to its list, and puts the placeholders at its start. */
static void move_listeners(apr_socket_t **placeholders)
{
    ap_listen_rec *lr = prefork.first, *last = lr, *copy;
    int i;

    while (last->next)
        last = last->next;
    for (i = 0; i < prefork.n; i++, lr = lr->next) {
        copy = apr_pmemdup(prefork.list_pool, lr, sizeof(*lr));
        copy->next = NULL;
        last = last->next = copy;
        if (!i)
            prefork.real = copy;
        lr->sd = placeholders[i];
    }
    ap_listeners = apr_pmemdup(prefork.list_pool, prefork.first,
                               sizeof(*prefork.first));
    ap_listeners->next = NULL;
    __atomic_store_n(&prefork.list_is_final, 1, __ATOMIC_RELEASE);
}

int vl_prefork_child_init(void)
{
    apr_socket_t **placeholders;
    ap_listen_rec *lr;

    prefork.list_pool = apr_pool_parent_get(vl_child.pool);
    prefork.first = ap_listeners;
    for (lr = ap_listeners; lr; lr = lr->next, prefork.n++)
        lr->accept_func = NULL;     /* until the MPM sets it */
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    placeholders = apr_palloc(vl_child.pool, sizeof(*placeholders) * prefork.n);
    prefork.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (prefork.epoll_fd < 0
        || watch(EPOLL_CTL_ADD, vl_shm_child_wake_fd(vl_child.shm), EPOLLIN, NULL)
        || !make_placeholders(placeholders))
        return 0;
    /* Signals are blocked in child_init, and so in this thread. It starts before the
     * listeners are moved, which cannot be undone. */
    if (pthread_create(&prefork.thread, NULL, take_over, NULL))
        return 0;
    apr_pool_pre_cleanup_register(vl_child.pool, NULL, end_take_over);
    move_listeners(placeholders);
    return prefork.n > 0;
}
