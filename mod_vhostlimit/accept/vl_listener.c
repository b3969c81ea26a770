/* SPDX-License-Identifier: Apache-2.0 */
/* The event MPM's listener thread polls an epoll set in place of each listening socket. While the
 * server is dormant (vl_engage.h) the socket is in it, and accept_passed() accepts. Otherwise
 * accept_passed() returns the next connection of the acceptor. While the MPM does not poll,
 * because its threads or connections are at their limit, new connections are still
 * classified. The worker MPM does not poll when there is one listener, and lets one
 * child at a time accept when there are more. So it is given one listener, and accept_blocking()
 * polls one epoll set for all. */
#include "accept/vl_listener.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <ap_mpm.h>
#include <apr_portable.h>
#include <http_core.h>
#include <http_log.h>
#include <unixd.h>

#include "accept/vl_newconn.h"
#include "accept/vl_child.h"
#include "base/vl_pages.h"
#include "base/vl_private.h"
#include "config/vl_conf.h"
#include "core/vl_engage.h"

/* A connection with a descriptor from here on is not recognized as one that the MPM has
 * accepted. */
#define MOST_DESCRIPTORS (1 << 20)
/* Data of an event: pass_fd. Another number is the index of a listener. */
#define PASSED UINT32_MAX

static struct {
    int pass_fd;                    /* see vl_newconn_child_init() */
    int blocks;                     /* the accept function blocks: the worker MPM */
    /* Event: the epoll sets that the MPM polls. Each has pass_fd, and while the server is
     * dormant its listening socket. Worker: one set, with all sockets. */
    pthread_mutex_t lock;
    int has_sockets;                /* the sockets are in the sets; atomic, changes under lock */
    int n;
    int *sets;                      /* descriptors of this file for them */
    int *fds;                       /* the listening sockets */
    ap_listen_rec *real;            /* what the MPM had ... */
    const void **given;             /* ... and has now */
    unsigned char *direct;          /* 1: accept_direct() has accepted this descriptor */
    apr_size_t descriptors;         /* length of direct */
} mpm = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* --- what there is -------------------------------------------------------- */

static int is_http(const ap_listen_rec *lr)
{
    return lr->active && (!lr->protocol || !strcmp(lr->protocol, "http")
                          || !strcmp(lr->protocol, "https"));
}

static int is_async(void)
{
    int async = 0;

    return ap_mpm_query(AP_MPMQ_IS_ASYNC, &async) == APR_SUCCESS && async;
}

int vl_listener_is_threaded(void)
{
    int threaded = 0;

    return ap_mpm_query(AP_MPMQ_IS_THREADED, &threaded) == APR_SUCCESS
           && threaded != AP_MPMQ_NOT_SUPPORTED;
}

const char *vl_listener_obstacle(void)
{
    const ap_listen_rec *lr;
    int http = 0, others = 0, daemons = 1;

    for (lr = ap_listeners; lr; lr = lr->next) {
        http += is_http(lr);
        others += !is_http(lr);
    }
    if (ap_num_listen_buckets > 1)
        return "the MPM keeps the listeners that ListenCoresBucketsRatio made before this "
               "module was loaded. Stop and start Apache";
    /* Worker and prefork have one listener left, so all must be replaced. */
    if (!http || (others && !is_async()))
        return "a listener has another protocol than http and https. Use the event MPM, or "
               "remove the listener";
    /* Under prefork one child process is the acceptor only (vl_prefork.h). */
    ap_mpm_query(AP_MPMQ_MAX_DAEMONS, &daemons);
    if (!vl_listener_is_threaded() && (daemons <= 1 || vl_is_one_process()))
        return "the server has one process only. Raise MaxRequestWorkers";
    return NULL;
}

int vl_listener_will_queue(void)
{
    return vl_conf_knows_mpm() && !vl_listener_obstacle();
}

/* Pool cleanup. The next configuration may be without this module. */
static apr_status_t allow_buckets(void *unused)
{
    ap_have_so_reuseport = -1;          /* ap_listen_pre_config() looks again */
    return APR_SUCCESS;
}

/* A graceful restart keeps the number of buckets, and makes their sockets again. */
void vl_listener_use_one_bucket(apr_pool_t *pconf)
{
    const ap_unixd_mpm_retained_data *mpm_data = ap_unixd_mpm_get_retained_data();

    if (mpm_data->was_graceful && mpm_data->num_buckets > 1)
        return;
    ap_have_so_reuseport = 0;
    apr_pool_cleanup_register(pconf, NULL, allow_buckets, apr_pool_cleanup_null);
}

void vl_listener_open_logs(void)
{
    const ap_listen_rec *lr;

    for (lr = ap_listeners; lr; lr = lr->next) {
        if (is_http(lr))
            apr_socket_opt_set(lr->sd, APR_SO_NONBLOCK, 1);
    }
}

/* --- the MPM's listener thread -------------------------------------------- */

static int set_of(int i)
{
    return mpm.sets[mpm.blocks ? 0 : i];
}

int vl_listener_child_let_mpm(int accept)
{
    struct epoll_event ev = { .events = EPOLLIN | (mpm.blocks ? EPOLLEXCLUSIVE : 0) };
    int i, fails = 0;

    pthread_mutex_lock(&mpm.lock);
    for (i = 0; mpm.has_sockets != accept && i < mpm.n; i++) {
        ev.data.u32 = (apr_uint32_t)i;
        fails |= epoll_ctl(set_of(i), accept ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, mpm.fds[i], &ev);
    }
    /* The kernel limits the sets that hold one socket. */
    for (i = 0; accept && fails && i < mpm.n; i++)
        epoll_ctl(set_of(i), EPOLL_CTL_DEL, mpm.fds[i], &ev);
    if (mpm.n && !(accept && fails))
        __atomic_store_n(&mpm.has_sockets, accept, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&mpm.lock);
    return mpm.n && !fails;
}

int vl_listener_was_direct(int fd)
{
    int was;

    if (fd < 0 || (apr_size_t)fd >= mpm.descriptors)
        return 0;
    was = mpm.direct[fd];
    mpm.direct[fd] = 0;
    return was;
}

/* The server is dormant: accepts as the MPM would, from its i-th listener. */
static apr_status_t accept_direct(void **csd, int i, apr_pool_t *ptrans)
{
    apr_status_t rv = ap_unixd_accept(csd, &mpm.real[i], ptrans);
    int fd = -1;

    if (rv != APR_SUCCESS || !*csd)
        return rv;
    apr_os_sock_get(&fd, *csd);
    if (fd < 0 || (apr_size_t)fd >= mpm.descriptors)
        return rv;
    mpm.direct[fd] = 1;
    vl_engage_accepted(vl_child.shm, 1);
    return rv;
}

static int has_sockets(void)
{
    return __atomic_load_n(&mpm.has_sockets, __ATOMIC_ACQUIRE);
}

/* Returns 1 if the MPM accepts. The connection that is next then crosses no line. */
static int accepts_directly(void)
{
    if (!has_sockets())
        return 0;
    if (vl_engage_has_room(vl_child.shm, 0))
        return 1;
    vl_listener_child_let_mpm(0);
    return 0;
}

static apr_status_t accept_passed(void **csd, ap_listen_rec *lr,
                                apr_pool_t *ptrans)
{
    int i;

    if (!accepts_directly() || vl_newconn_for_mpm())
        return vl_newconn_next(ptrans, csd);
    for (i = 0; i < mpm.n - 1 && mpm.given[i] != lr; i++)
        ;
    return accept_direct(csd, i, ptrans);
}

/* The worker MPM stops its listener thread with a signal. It drops the pool when there is no
 * connection. */
static apr_status_t accept_blocking(void **csd, ap_listen_rec *lr, apr_pool_t *ptrans)
{
    struct epoll_event ev = { .data.u32 = PASSED };
    apr_status_t rv = APR_EAGAIN;

    (void)lr;
    *csd = NULL;
    do {
        if (ev.data.u32 != PASSED && accepts_directly())
            rv = accept_direct(csd, (int)ev.data.u32, ptrans);
        else if (!has_sockets() || vl_newconn_for_mpm())
            rv = vl_newconn_next(ptrans, csd);
    } while (!*csd && rv != APR_EGENERAL && epoll_wait(mpm.sets[0], &ev, 1, -1) == 1);
    if (*csd)
        return rv;
    apr_pool_destroy(ptrans);
    return rv == APR_EGENERAL ? rv : APR_EINTR;
}

/* --- set-up --------------------------------------------------------------- */

int vl_listener_empty_fd(void)
{
    struct sockaddr_un unnamed = { .sun_family = AF_UNIX };
    struct timeval timeout = { 0, 10000 };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && (bind(fd, (struct sockaddr *)&unnamed, sizeof(sa_family_t))
                    || listen(fd, 1)
                    || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout,
                                  sizeof(timeout)))) {
        close(fd);
        return -1;
    }
    return fd;
}

static int real_fd(const ap_listen_rec *lr)
{
    int fd = -1;

    apr_os_sock_get(&fd, lr->sd);
    return fd;
}

static int is_wildcard(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *in = (const void *)address;
    const struct sockaddr_in6 *in6 = (const void *)address;

    if (address->ss_family == AF_INET)
        return in->sin_addr.s_addr == htonl(INADDR_ANY);
    return address->ss_family != AF_INET6
           || IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

static void get_local_address(int fd, vl_local_t *ret_local)
{
    ret_local->length = sizeof(ret_local->address);
    if (getsockname(fd, (struct sockaddr *)&ret_local->address,
                    &ret_local->length)
        || is_wildcard(&ret_local->address))
        ret_local->length = 0;
}

static int count_all(void)
{
    const ap_listen_rec *lr;
    int n = 0;

    for (lr = ap_listeners; lr; lr = lr->next)
        n += is_http(lr);
    return n;
}

static void close_all(const int *fds, int n)
{
    while (n--)
        close(fds[n]);
}

static void close_placeholders(const int *fds, int n)
{
    close_all(fds, n);
    close_all(mpm.sets, mpm.blocks && n ? 1 : n);
}

/* Makes an epoll set with pass_fd. Returns the MPM's descriptor for it, or -1. */
static int make_set(int *ret_own)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u32 = PASSED };
    int fd;

    *ret_own = epoll_create1(EPOLL_CLOEXEC);
    if (*ret_own < 0)
        return -1;
    fd = mpm.blocks ? vl_listener_empty_fd() : fcntl(*ret_own, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0 && !epoll_ctl(*ret_own, EPOLL_CTL_ADD, mpm.pass_fd, &ev))
        return fd;
    if (fd >= 0)
        close(fd);
    close(*ret_own);
    return -1;
}

/* The worker MPM gets a listening socket, which it does not poll, for each of its listeners. The
 * event MPM polls an epoll set for each. */
int *vl_listener_child_placeholders(int pass_fd)
{
    int i, n = count_all();
    int *fds = apr_palloc(vl_child.pool, sizeof(*fds) * (n + 1));
    struct rlimit limit;

    mpm.pass_fd = pass_fd;
    mpm.blocks = !is_async();
    mpm.sets = apr_pcalloc(vl_child.pool, sizeof(int) * (apr_size_t)(n + 1));
    mpm.real = apr_pcalloc(vl_child.pool, sizeof(*mpm.real) * (apr_size_t)(n + 1));
    mpm.given = apr_pcalloc(vl_child.pool, sizeof(void *) * (apr_size_t)(n + 1));
    mpm.descriptors = !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < MOST_DESCRIPTORS
                      ? limit.rlim_cur : MOST_DESCRIPTORS;
    mpm.direct = vl_pages_make(vl_child.pool, mpm.descriptors, 1);
    for (i = 0; i < n; i++) {
        fds[i] = mpm.blocks && i ? vl_listener_empty_fd() : make_set(&mpm.sets[i]);
        if (fds[i] < 0) {
            close_placeholders(fds, i);
            return NULL;
        }
    }
    return fds;
}

void vl_listener_child_discard(const int *placeholders)
{
    close_placeholders(placeholders, count_all());
}

/* Allocates the arrays of n listeners. */
static void alloc_listeners(int n, vl_listeners_t *ret_listeners)
{
    ret_listeners->fds = apr_pcalloc(vl_child.pool, sizeof(int) * (n + 1));
    ret_listeners->local = apr_pcalloc(vl_child.pool,
                                       sizeof(*ret_listeners->local) * (n + 1));
}

void vl_listener_child_replace(const int *placeholders, vl_listeners_t *ret_listeners)
{
    apr_socket_t *sd;
    ap_listen_rec *lr;
    int fd, n = 0;

    alloc_listeners(count_all(), ret_listeners);
    for (lr = ap_listeners; lr; lr = lr->next) {
        if (!is_http(lr))
            continue;
        ret_listeners->fds[n] = real_fd(lr);
        get_local_address(ret_listeners->fds[n], &ret_listeners->local[n]);
        mpm.real[n] = *lr;
        mpm.given[n] = lr;
        fd = placeholders[n++];
        sd = NULL;
        apr_os_sock_put(&sd, &fd, vl_child.pool);
        lr->sd = sd;
        if (!ret_listeners->first)
            ret_listeners->first = lr;
    }
    mpm.fds = ret_listeners->fds;
    mpm.n = ret_listeners->n = n;
    if (mpm.blocks) {
        /* Changes this child only. blocks is set only if there is a listener. */
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        ap_listeners->next = NULL;
    }
}

int vl_listener_child_take_over(const vl_listeners_t *listeners)
{
    accept_function function = mpm.blocks ? accept_blocking : accept_passed;
    ap_listen_rec *lr;

    for (lr = ap_listeners; lr && listeners->first; lr = lr->next) {
        if (!is_http(lr) || lr->accept_func == function)
            continue;
        if (lr->accept_func != ap_unixd_accept)
            return 0;
        lr->accept_func = function;
    }
    return 1;
}

void vl_listener_report_wait(void)
{
    ap_log_error(APLOG_MARK, APLOG_ERR, 0, vl_child.main_server, VLOGNO(0047)
                 "the MPM has not set its accept functions for %d s, so this child process "
                 "accepts no connections. It goes on waiting. If the message repeats, another "
                 "module has set accept functions of its own: unload it, or this module",
                 VL_LISTENER_TRIES / 1000);
}

int vl_listener_child_copy(const ap_listen_rec *real, int n,
                           vl_listeners_t *ret_listeners)
{
    int i;

    alloc_listeners(n, ret_listeners);
    ret_listeners->n = n;
    for (i = 0; real; real = real->next, i++) {
        ret_listeners->fds[i] = fcntl(real_fd(real), F_DUPFD_CLOEXEC, 0);
        if (ret_listeners->fds[i] < 0) {
            close_all(ret_listeners->fds, i);
            return 0;
        }
        get_local_address(ret_listeners->fds[i], &ret_listeners->local[i]);
    }
    return 1;
}

void vl_listener_child_close(const vl_listeners_t *listeners)
{
    close_all(listeners->fds, listeners->n);
}
