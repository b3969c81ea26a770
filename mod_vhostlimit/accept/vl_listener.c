/* SPDX-License-Identifier: Apache-2.0 */
/* The event MPM's listener thread polls an eventfd in place of each listening
 * socket and takes from accept_fair() whoever may pass.  When it does not,
 * because its threads or connections are at their limit, newcomers go on being
 * sorted.  The worker MPM's does not poll when there is one listener, and lets
 * one child at a time accept when there are more: it is given one, and waits in
 * accept_fair(). */
#include "accept/vl_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <ap_mpm.h>
#include <apr_portable.h>
#include <unixd.h>

#include "accept/vl_arrival.h"

static struct {
    int pass_fd;                    /* see vl_arrival_child_init() */
    int waits;                      /* in accept_fair(): the worker MPM */
} mpm;

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

int vl_listener_may_replace(void)
{
    const ap_listen_rec *lr;

    if (ap_num_listen_buckets > 1)
        return 0;
    /* The worker MPM's only listener must be ours. */
    for (lr = ap_listeners; lr && !is_async(); lr = lr->next) {
        if (!is_http(lr))
            return 0;
    }
    return 1;
}

int vl_listener_is_there(void)
{
    const ap_listen_rec *lr = ap_listeners;

    while (lr && !is_http(lr))
        lr = lr->next;
    return lr != NULL;
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

/* NULL: a signal has come, by which the MPM stops its listener thread. */
static vl_arrival_t *wait_for_next(void)
{
    struct pollfd pfd = { mpm.pass_fd, POLLIN, 0 };
    vl_arrival_t *arrival;

    while (!(arrival = vl_arrival_next())) {
        if (poll(&pfd, 1, -1) < 0)
            return NULL;
    }
    return arrival;
}

static apr_status_t accept_fair(void **csd, ap_listen_rec *lr,
                                apr_pool_t *ptrans)
{
    vl_arrival_t *arrival = mpm.waits ? wait_for_next() : vl_arrival_next();
    apr_socket_t *sock = NULL;
    apr_status_t rv;

    *csd = NULL;
    if (!arrival) {
        /* The worker MPM forgets the pool when there is no connection. */
        if (mpm.waits)
            apr_pool_destroy(ptrans);
        return mpm.waits ? APR_EINTR : APR_EAGAIN;
    }
    rv = vl_arrival_socket(arrival, ptrans, &sock);
    *csd = sock;
    return rv;
}

/* --- set-up --------------------------------------------------------------- */

/* What the event MPM polls for a listener.  Each has its own, because a poll
 * set takes a descriptor once. */
static int polled_fd(void)
{
    return fcntl(mpm.pass_fd, F_DUPFD_CLOEXEC, 0);
}

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

static int is_any(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *in = (const void *)address;
    const struct sockaddr_in6 *in6 = (const void *)address;

    if (address->ss_family == AF_INET)
        return in->sin_addr.s_addr == htonl(INADDR_ANY);
    return address->ss_family != AF_INET6
           || IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

static void find_local(int fd, vl_local_t *ret_local)
{
    ret_local->length = sizeof(ret_local->address);
    if (getsockname(fd, (struct sockaddr *)&ret_local->address,
                    &ret_local->length)
        || is_any(&ret_local->address))
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

int *vl_listener_child_stand_ins(apr_pool_t *pchild, int pass_fd)
{
    int i, n = count_all();
    int *fds = apr_palloc(pchild, sizeof(*fds) * (n + 1));

    mpm.pass_fd = pass_fd;
    mpm.waits = !is_async();
    for (i = 0; i < n; i++) {
        fds[i] = mpm.waits ? vl_listener_empty_fd() : polled_fd();
        if (fds[i] < 0) {
            close_all(fds, i);
            return NULL;
        }
    }
    return fds;
}

void vl_listener_child_discard(const int *stand_ins)
{
    if (stand_ins)
        close_all(stand_ins, count_all());
}

static void replace(ap_listen_rec *lr, int fd, apr_pool_t *pchild,
                    vl_listeners_t *listeners)
{
    apr_socket_t *sd = NULL;

    listeners->fds[listeners->n] = real_fd(lr);
    find_local(listeners->fds[listeners->n], &listeners->local[listeners->n]);
    listeners->n++;
    apr_os_sock_put(&sd, &fd, pchild);
    lr->sd = sd;
    if (!listeners->first)
        listeners->first = lr;
}

void vl_listener_child_replace(apr_pool_t *pchild, const int *stand_ins,
                               vl_listeners_t *ret_listeners)
{
    ap_listen_rec *lr;

    ret_listeners->fds = apr_pcalloc(pchild, sizeof(int) * (count_all() + 1));
    ret_listeners->local = apr_pcalloc(pchild, sizeof(*ret_listeners->local)
                                               * (count_all() + 1));
    for (lr = ap_listeners; lr; lr = lr->next) {
        if (is_http(lr))
            replace(lr, *stand_ins++, pchild, ret_listeners);
    }
    if (mpm.waits) {
        /* In this child only; who waits has a listener. */
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        ap_listeners->next = NULL;
    }
}

void vl_listener_child_take_over(const vl_listeners_t *listeners,
                                 int (*ending)(void))
{
    ap_listen_rec *lr;

    for (lr = ap_listeners; lr && listeners->first; lr = lr->next) {
        if (!is_http(lr))
            continue;
        while (lr->accept_func != ap_unixd_accept && !ending())
            apr_sleep(1000);
        lr->accept_func = accept_fair;
    }
}

int vl_listener_child_copy(apr_pool_t *pchild, const ap_listen_rec *real,
                           vl_listeners_t *listeners)
{
    int i;

    listeners->fds = apr_pcalloc(pchild, sizeof(int) * listeners->n);
    listeners->local = apr_pcalloc(pchild,
                                   sizeof(*listeners->local) * listeners->n);
    for (i = 0; real; real = real->next, i++) {
        listeners->fds[i] = fcntl(real_fd(real), F_DUPFD_CLOEXEC, 0);
        if (listeners->fds[i] < 0) {
            close_all(listeners->fds, i);
            return 0;
        }
        find_local(listeners->fds[i], &listeners->local[i]);
    }
    return 1;
}

void vl_listener_child_close(const vl_listeners_t *listeners)
{
    close_all(listeners->fds, listeners->n);
}
