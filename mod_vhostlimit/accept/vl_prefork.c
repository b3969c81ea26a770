/* SPDX-License-Identifier: Apache-2.0 */
/* Any child becomes the acceptor that finds there is none while it asks for a
 * connection: so the MPM starts it, replaces it when it dies, and tells it to
 * stop, as any of its children.  It goes on in accept_relayed(), with the MPM's
 * signals blocked but while it sleeps, until the MPM's handler of one of them
 * has closed the listeners or ended the process.
 *
 * The MPM polls its listeners if there are several, and lets one child at a
 * time accept then, as the global list says.  So each listener has a stand-in here,
 * which is readable all the time, and the global list is cut short in this
 * process.  The real sockets follow at the end of the MPM's own list, where it
 * only looks in order to close them.
 *
 * The MPM's handler of SIGUSR1 walks that list, also while the child's pool is
 * being destroyed at its exit.  So what is put into the list lives in the pool
 * above it, which no child destroys. */
#include "accept/vl_prefork.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
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

#include "accept/vl_accept.h"
#include "accept/vl_arrival.h"
#include "accept/vl_listener.h"
#include "accept/vl_relay.h"

/* Until a child that has no descriptor left looks again. */
#define FULL_US (100 * 1000)

static struct {
    vl_shm_t *shm;
    apr_pool_t *pchild;
    apr_pool_t *lasting;            /* of what is in the MPM's list */
    const int *relay;
    ap_listen_rec *first;           /* of the MPM's list */
    int n;                          /* stand-ins, at its beginning */
    ap_listen_rec *real;            /* of it too: the real sockets */
    pthread_t thread;               /* take_over() */
    int moved;                      /* atomic: the list is as it stays */
    int ending;                     /* atomic: it is to stop */
} prefork;

/* --- the acceptor --------------------------------------------------------- */

/* It is not idle, else the MPM would count on it to take connections; and
 * mod_status does not count this state among the busy ones. */
static void leave_the_idle(void)
{
    int i, daemons = 0;

    ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &daemons);
    for (i = 0; i < daemons; i++) {
        if (ap_get_scoreboard_process(i)->pid == getpid())
            ap_update_child_status_from_indexes(i, 0, SERVER_IDLE_KILL, NULL);
    }
}

/* If it cannot accept, somebody else may be able to. */
static void claim_and_serve(const sigset_t *signals)
{
    if (!prefork.first->active || !vl_relay_claim(prefork.shm))
        return;
    if (vl_accept_open(prefork.pchild, prefork.real)) {
        leave_the_idle();
        vl_accept_serve(prefork.first, signals);
    }
    else {
        vl_relay_acceptor_resign(prefork.shm);
        vl_relay_child_ask(prefork.shm);
    }
}

static void be_acceptor(void)
{
    sigset_t stops, before;

    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGHUP);
    sigaddset(&stops, AP_SIG_GRACEFUL);
    pthread_sigmask(SIG_BLOCK, &stops, &before);
    claim_and_serve(&before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* --- the others ----------------------------------------------------------- */

/* Who comes may go to another child, or waits until there is a descriptor. */
static void wait_for_room(void)
{
    vl_accept_warn_full();
    vl_relay_child_unask(prefork.shm);
    apr_sleep(FULL_US);
    vl_relay_child_ask(prefork.shm);
}

/* APR_EINTR: the MPM looks whether it is to stop. */
static apr_status_t accept_relayed(void **csd, ap_listen_rec *lr,
                                   apr_pool_t *ptrans)
{
    apr_socket_t *sock = NULL;
    vl_item_t item;
    apr_status_t rv;
    int fd;

    *csd = NULL;
    vl_relay_child_ask(prefork.shm);
    while (lr->active) {
        if (!vl_relay_has_acceptor(prefork.shm))
            be_acceptor();
        if (!lr->active)
            break;
        rv = vl_relay_child_receive(prefork.shm, prefork.relay, &item, &fd);
        if (rv == APR_EMFILE)
            wait_for_room();
        if (rv == APR_SUCCESS) {
            rv = vl_arrival_from(&item, fd, ptrans, &sock);
            *csd = sock;
            return rv;
        }
    }
    vl_relay_child_unask(prefork.shm);
    return APR_EINTR;
}

/* --- set-up --------------------------------------------------------------- */

static int is_mpms(void)
{
    const ap_listen_rec *lr = prefork.first;
    int i;

    if (!__atomic_load_n(&prefork.moved, __ATOMIC_ACQUIRE))
        return 0;
    for (i = 0; i < prefork.n; i++, lr = lr->next) {
        if (lr->accept_func != ap_unixd_accept)
            return 0;
    }
    return 1;
}

/* The MPM sets its own accept function after child_init, and has no hook before
 * its first use.  Until ours is in place nothing can be accepted. */
static void *take_over(void *unused)
{
    ap_listen_rec *lr = prefork.first;
    int i, fd;

    while (!is_mpms()) {
        if (__atomic_load_n(&prefork.ending, __ATOMIC_RELAXED))
            return NULL;
        apr_sleep(1000);
    }
    for (i = 0; i < prefork.n; i++, lr = lr->next)
        lr->accept_func = accept_relayed;
    for (i = 0, lr = prefork.first; i < prefork.n; i++, lr = lr->next) {
        apr_os_sock_get(&fd, lr->sd);
        if (prefork.n > 1)
            shutdown(fd, SHUT_RDWR);    /* readable from now on */
    }
    return NULL;
}

/* Before the module goes, which that thread may still be in. */
static apr_status_t end_take_over(void *unused)
{
    __atomic_store_n(&prefork.ending, 1, __ATOMIC_RELAXED);
    pthread_join(prefork.thread, NULL);
    return APR_SUCCESS;
}

/* Signals are blocked in child_init, and so in this thread.  It begins before the
 * listeners are moved, which cannot be undone.  0: there is none. */
static int begin_take_over(void)
{
    if (pthread_create(&prefork.thread, NULL, take_over, NULL))
        return 0;
    apr_pool_pre_cleanup_register(prefork.pchild, NULL, end_take_over);
    return 1;
}

/* What the MPM's list points to is allocated in ap_pglobal: a signal may close the
 * listeners while the child destroys pchild.  0: there are not enough
 * descriptors. */
static int make_stand_ins(apr_socket_t **sockets)
{
    int i, fd;

    for (i = 0; i < prefork.n; i++) {
        fd = vl_listener_empty_fd();
        sockets[i] = NULL;
        if (fd < 0)
            return 0;
        apr_os_sock_put(&sockets[i], &fd, prefork.lasting);
    }
    return 1;
}

/* What the MPM has for each listener moves to the end of its list. */
static void move_listeners(apr_socket_t **stand_ins)
{
    ap_listen_rec *lr = prefork.first, *last = lr, *moved;
    int i;

    while (last->next)
        last = last->next;
    for (i = 0; i < prefork.n; i++, lr = lr->next) {
        moved = apr_pmemdup(prefork.lasting, lr, sizeof(*lr));
        moved->next = NULL;
        last = last->next = moved;
        if (!i)
            prefork.real = moved;
        lr->sd = stand_ins[i];
    }
    ap_listeners = apr_pmemdup(prefork.lasting, prefork.first,
                               sizeof(*prefork.first));
    ap_listeners->next = NULL;
    __atomic_store_n(&prefork.moved, 1, __ATOMIC_RELEASE);
}

int vl_prefork_can_spare_one(void)
{
    int daemons = 1;

    ap_mpm_query(AP_MPMQ_MAX_DAEMONS, &daemons);
    return daemons > 1 && !ap_exists_config_define("ONE_PROCESS")
           && !ap_exists_config_define("DEBUG");
}

int vl_prefork_child_init(apr_pool_t *pchild, vl_shm_t *shm,
                          const int relay[2])
{
    apr_socket_t **stand_ins;
    ap_listen_rec *lr;

    if (!vl_prefork_can_spare_one())
        return 0;
    prefork.shm = shm;
    prefork.pchild = pchild;
    prefork.lasting = apr_pool_parent_get(pchild);
    prefork.relay = relay;
    prefork.first = ap_listeners;
    for (lr = ap_listeners; lr; lr = lr->next, prefork.n++)
        lr->accept_func = NULL;     /* until the MPM sets it */
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    stand_ins = apr_palloc(pchild, sizeof(*stand_ins) * prefork.n);
    if (!make_stand_ins(stand_ins) || !begin_take_over())
        return 0;
    move_listeners(stand_ins);
    return prefork.n;
}
