/* SPDX-License-Identifier: Apache-2.0 */
/* The ways of a new connection out of this child: to its MPM, to another child, or answered with 503
 * because there is no other child.
 *
 * The descriptor of a connection that is passed to the MPM belongs to the MPM. The record stays until a
 * worker begins with the connection, because a child that stops may have to transfer connections that
 * no worker has begun. */
#include "accept/vl_newconn_int.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <apr_portable.h>
#include <apr_strings.h>

#include "accept/vl_rescue.h"
#include "base/vl_clock.h"
#include "core/vl_dispatch.h"
#include "core/vl_shm_child.h"

static const char conninfo_key[] = "vhostlimit";

/* --- the MPM's listener --------------------------------------------------- */

/* The MPM asks for connections. */
static void mpm_asks_locked(void)
{
    vl_newconns->mpm_polled_us = vl_clock_us();
    if (vl_newconns->mpm_stalled)
        vl_newconn_set_mpm_stalled_locked(0);
}

int vl_newconn_for_mpm(void)
{
    return __atomic_load_n(&vl_newconns->signalled, __ATOMIC_RELAXED);
}

/* The MPM takes one socket per call, so pass_fd stays readable until the list is
 * empty. */
vl_newconn_t *vl_newconn_next(void)
{
    vl_newconn_t *newconn;
    apr_uint64_t count;

    vl_waiters_lock();
    mpm_asks_locked();
    newconn = vl_newconn_first_for_mpm_locked();
    if (newconn)
        vl_newconn_move_locked(newconn, IN_MPM);
    else if (vl_newconns->signalled
             && read(vl_newconns->pass_fd, &count, sizeof(count)) == sizeof(count))
        vl_newconns->signalled = 0;
    vl_waiters_unlock();
    return newconn;
}

/* Releases the record, once a worker has begun with the connection or its pool is
 * destroyed. */
static void release_record(vl_conninfo_t *conninfo)
{
    vl_waiters_lock();
    if (conninfo->newconn)
        vl_newconn_release_locked(conninfo->newconn);
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

static vl_conninfo_t *conninfo_make(apr_pool_t *p, const vl_grant_t *grant,
                                    int ready)
{
    vl_conninfo_t *conninfo = apr_pcalloc(p, sizeof(*conninfo));

    conninfo->grant = *grant;
    conninfo->ready = ready;
    apr_pool_cleanup_register(p, conninfo, cleanup_conninfo,
                              apr_pool_cleanup_null);
    return conninfo;
}

static apr_status_t make_socket(int fd, struct sockaddr_storage *local,
                                struct sockaddr_storage *remote, apr_pool_t *p,
                                apr_socket_t **ret_sock)
{
    apr_os_sock_info_t info = {
        &fd, (struct sockaddr *)local, (struct sockaddr *)remote,
        local->ss_family, SOCK_STREAM, APR_PROTO_TCP
    };
    apr_status_t rv = apr_os_sock_make(ret_sock, &info, p);

    if (rv != APR_SUCCESS)
        close(fd);
    return rv;
}

apr_status_t vl_newconn_socket(vl_newconn_t *newconn, apr_pool_t *p,
                               apr_socket_t **ret_sock)
{
    apr_status_t rv = make_socket(newconn->fd, &newconn->local,
                                  &newconn->remote, p, ret_sock);
    vl_conninfo_t *conninfo = conninfo_make(p, &newconn->grant, newconn->ready);

    if (newconn->was_queued)
        conninfo->grant.waited_us = vl_clock_us() - newconn->waiter.since_us;
    conninfo->http2 = newconn->http2;
    conninfo->hello_us = newconn->head_us;
    vl_waiters_lock();
    conninfo->newconn = newconn;
    newconn->conninfo = conninfo;
    vl_waiters_unlock();
    if (rv == APR_SUCCESS)
        apr_socket_data_set(*ret_sock, conninfo, conninfo_key, NULL);
    else
        release_record(conninfo);
    return rv;
}

/* --- the MPM in another process ------------------------------------------- */

static apr_status_t relay_one_locked(vl_newconn_t *newconn)
{
    vl_item_t item = { .grant = newconn->grant, .ready = newconn->ready,
                       .addr_len = newconn->addr_len,
                       .local = newconn->local, .remote = newconn->remote };
    apr_status_t rv;

    if (newconn->was_queued)
        item.grant.waited_us = vl_clock_us() - newconn->waiter.since_us;
    rv = vl_relay_acceptor_send(vl_child.shm, vl_child.relay_pair, &item,
                                newconn->fd);
    if (rv == APR_SUCCESS)
        vl_newconn_close_locked(newconn);
    return rv;
}

void vl_newconn_relay(void)
{
    vl_newconn_t *newconn;
    apr_status_t rv = APR_SUCCESS;

    vl_waiters_lock();
    while (rv == APR_SUCCESS && (newconn = vl_newconn_first_for_mpm_locked()))
        rv = relay_one_locked(newconn);
    if (rv == APR_SUCCESS)
        mpm_asks_locked();
    vl_waiters_unlock();
}

apr_status_t vl_newconn_relayed_socket(const vl_item_t *item, int fd, apr_pool_t *p,
                                       apr_socket_t **ret_sock)
{
    vl_item_t *copy = apr_pmemdup(p, item, sizeof(*item));
    apr_status_t rv = make_socket(fd, &copy->local, &copy->remote, p,
                                  ret_sock);
    vl_conninfo_t *conninfo = conninfo_make(p, &item->grant, item->ready);

    if (rv == APR_SUCCESS)
        apr_socket_data_set(*ret_sock, conninfo, conninfo_key, NULL);
    return rv;
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

int vl_newconn_return(int fd)
{
    const vl_passed_t new = { 0 };
    int sent;

    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    sent = vl_transfer_send(vl_child.transfer_pair, &fd, &new, 1) == APR_SUCCESS;
    close(fd);
    if (sent)
        vl_dispatch_wake_self(vl_child.shm);
    return sent;
}

/* --- other children ---------------------------------------------------------- */

/* Returns a connection that waits here, without a grant, or NULL. */
static vl_newconn_t *find_waiting_locked(void)
{
    vl_newconn_t *newconn = vl_newconn_first_locked(INCOMPLETE_HEAD);

    if (!newconn)
        newconn = vl_newconn_first_locked(TRANSFER_FAILED);
    if (!newconn && (newconn = vl_newconn_first_locked(FOR_MPM)))
        vl_newconn_return_grant_locked(&newconn->grant);
    return newconn ? newconn : vl_newconn_unqueue_locked(0);
}

/* The descriptor is the MPM's, so the transfer gets a duplicate.  Without a free descriptor the
 * connection stays where it is, and the batch ends: the next one has the descriptors of this
 * one. */
static vl_newconn_t *find_unbegun_locked(void)
{
    vl_newconn_t *newconn = vl_newconn_first_locked(IN_MPM);
    int fd = newconn ? fcntl(newconn->fd, F_DUPFD_CLOEXEC, 0) : -1;

    if (fd < 0)
        return NULL;
    vl_newconn_return_grant_locked(&newconn->grant);
    vl_rescue_forget(newconn->fd);
    newconn->fd = fd;
    return newconn;
}

/* Returns a connection that the MPM has not taken yet and that has been passed without being admitted (the
 * site is not limited or is in DryRun, the request is exempt, or the head is not complete), or NULL. More of
 * them can wait than this child has threads. */
static vl_newconn_t *find_ungranted_locked(void)
{
    vl_newconn_t *newconn;

    APR_RING_FOREACH(newconn, &vl_newconns->ring[FOR_MPM], vl_newconn_t, link) {
        if (!newconn->grant.holds && !newconn->grant.occupies && !newconn->grant.refused)
            return newconn;
    }
    return NULL;
}

static vl_newconn_t *find_locked(vl_take_e which)
{
    vl_newconn_t *newconn;

    switch (which) {
    case VL_TAKE_WAITING:
        return find_waiting_locked();
    case VL_TAKE_QUEUED:
        newconn = find_ungranted_locked();
        return newconn ? newconn : vl_newconn_unqueue_locked(1);
    case VL_TAKE_UNBEGUN:
        break;
    }
    return find_unbegun_locked();
}

void vl_newconn_take(vl_take_e which, apr_size_t max, vl_batch_t *ret_batch)
{
    vl_newconn_t *newconn;
    apr_size_t n;

    vl_waiters_lock();
    if (which == VL_TAKE_WAITING)
        vl_newconn_set_mpm_stalled_locked(1);
    for (n = 0; n < max && (newconn = find_locked(which)); n++) {
        ret_batch->fds[n] = newconn->fd;
        ret_batch->passed[n] = vl_newconn_known(newconn);
        vl_newconn_release_locked(newconn);
    }
    ret_batch->n = n;
    vl_waiters_unlock();
}

/* Answers a request that was read with 503, because no other child is left. */
static void answer_503_locked(vl_newconn_t *newconn)
{
    static const char answer[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n";

    if (newconn->ready
        && send(newconn->fd, answer, sizeof(answer) - 1,
                MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        vl_newconn_close_locked(newconn);
    else
        vl_newconn_linger_locked(newconn, SHORT_LINGER_US);
}

void vl_newconn_answer_all(void)
{
    vl_newconn_t *newconn;

    vl_waiters_lock();
    while ((newconn = find_waiting_locked()))
        answer_503_locked(newconn);
    vl_waiters_unlock();
}

apr_uint32_t vl_newconn_count(void)
{
    apr_uint32_t n;

    vl_waiters_lock();
    n = vl_newconns->count[INCOMPLETE_HEAD] + vl_newconns->count[QUEUED]
        + vl_newconns->count[FOR_MPM] + vl_newconns->count[TRANSFER_FAILED]
        + vl_newconns->count[LINGERING];
    vl_waiters_unlock();
    return n;
}
