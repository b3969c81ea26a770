/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are passed to the MPM. The descriptor belongs to the MPM from then
 * on. The record stays until a worker begins with the connection, because a child that
 * stops may have to transfer connections that no worker has begun. */
#include "accept/vl_newconn_table.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <apr_portable.h>
#include <apr_strings.h>

#include "accept/vl_newconn_queue.h"
#include "base/vl_clock.h"
#include "core/vl_shm_child.h"
#include "core/vl_thread.h"

static const char passport_key[] = "vhostlimit";

/* --- the MPM's listener --------------------------------------------------- */

/* The MPM asks for connections. */
static void mpm_asks_locked(void)
{
    vl_arrivals->mpm_polled_us = vl_clock_us();
    if (vl_arrivals->mpm_stalled)
        vl_arrival_set_mpm_stalled_locked(0);
}

static void clear_pass_fd_locked(void)
{
    apr_uint64_t count;

    if (vl_arrivals->signalled
        && read(vl_arrivals->pass_fd, &count, sizeof(count)) == sizeof(count))
        vl_arrivals->signalled = 0;
}

/* The MPM takes one socket per call, so pass_fd stays readable until the list is
 * empty. */
vl_arrival_t *vl_arrival_next(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    mpm_asks_locked();
    arrival = vl_arrival_first_for_mpm_locked();
    if (arrival) {
        vl_arrival_move_locked(arrival, IN_MPM);
    }
    else {
        clear_pass_fd_locked();
    }
    vl_park_unlock();
    return arrival;
}

/* Releases the record, once a worker has begun with the connection or its pool is
 * destroyed. */
static void release_record(vl_passport_t *passport)
{
    vl_park_lock();
    if (passport->arrival)
        vl_arrival_release_locked(passport->arrival);
    vl_park_unlock();
}

/* Pool cleanup. The MPM closes the connection. The function returns a slot or a thread that
 * the connection still holds. When the child process exits, pools of connections outlive
 * the child's pool; what the child held has been returned by then. */
static apr_status_t cleanup_passport(void *data)
{
    vl_passport_t *passport = data;

    if (vl_child.ended)
        return APR_SUCCESS;
    if (passport->grant.holds)
        vl_park_end(&passport->grant.ticket, NULL);
    if (passport->grant.occupies)
        vl_thread_free(vl_child.shm, passport->grant.ticket.account);
    passport->grant.holds = passport->grant.occupies = 0;
    release_record(passport);
    return APR_SUCCESS;
}

static vl_passport_t *passport_make(apr_pool_t *p, const vl_grant_t *grant,
                                    int ready)
{
    vl_passport_t *passport = apr_pcalloc(p, sizeof(*passport));

    passport->grant = *grant;
    passport->ready = ready;
    apr_pool_cleanup_register(p, passport, cleanup_passport,
                              apr_pool_cleanup_null);
    return passport;
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

apr_status_t vl_arrival_socket(vl_arrival_t *arrival, apr_pool_t *p,
                               apr_socket_t **ret_sock)
{
    apr_status_t rv = make_socket(arrival->fd, &arrival->local,
                                  &arrival->remote, p, ret_sock);
    vl_passport_t *passport = passport_make(p, &arrival->grant, arrival->ready);

    if (arrival->was_queued)
        passport->grant.waited_us = vl_clock_us() - arrival->waiter.since_us;
    passport->http2 = arrival->http2;
    vl_park_lock();
    passport->arrival = arrival;
    arrival->passport = passport;
    vl_park_unlock();
    if (rv == APR_SUCCESS)
        apr_socket_data_set(*ret_sock, passport, passport_key, NULL);
    else
        release_record(passport);
    return rv;
}

/* --- the MPM in another process ------------------------------------------- */

static apr_status_t relay_one_locked(vl_arrival_t *arrival)
{
    vl_item_t item = { .grant = arrival->grant, .ready = arrival->ready,
                       .addr_len = arrival->addr_len,
                       .local = arrival->local, .remote = arrival->remote };
    apr_status_t rv;

    if (arrival->was_queued)
        item.grant.waited_us = vl_clock_us() - arrival->waiter.since_us;
    rv = vl_relay_acceptor_send(vl_child.shm, vl_child.relay_pair, &item,
                                arrival->fd);
    if (rv == APR_SUCCESS)
        vl_arrival_close_locked(arrival);
    return rv;
}

void vl_arrival_relay(void)
{
    vl_arrival_t *arrival;
    apr_status_t rv = APR_SUCCESS;

    vl_park_lock();
    while (rv == APR_SUCCESS && (arrival = vl_arrival_first_for_mpm_locked()))
        rv = relay_one_locked(arrival);
    if (rv == APR_SUCCESS)
        mpm_asks_locked();
    vl_park_unlock();
}

apr_status_t vl_arrival_relayed_socket(const vl_item_t *item, int fd, apr_pool_t *p,
                                       apr_socket_t **ret_sock)
{
    vl_item_t *copy = apr_pmemdup(p, item, sizeof(*item));
    apr_status_t rv = make_socket(fd, &copy->local, &copy->remote, p,
                                  ret_sock);
    vl_passport_t *passport = passport_make(p, &item->grant, item->ready);

    if (rv == APR_SUCCESS)
        apr_socket_data_set(*ret_sock, passport, passport_key, NULL);
    return rv;
}

/* --- its workers ---------------------------------------------------------- */

vl_passport_t *vl_arrival_begin(apr_socket_t *sock)
{
    void *data = NULL;

    if (apr_socket_data_get(&data, passport_key, sock) != APR_SUCCESS || !data)
        return NULL;
    release_record(data);
    return data;
}

int vl_arrival_linger(int fd, apr_int64_t linger_us)
{
    vl_arrival_t *arrival;
    int copy_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy_fd < 0)
        return 0;
    arrival = vl_arrival_create(copy_fd);
    if (!arrival)
        return 0;
    vl_park_lock();
    vl_arrival_limit_lingering_locked();
    vl_arrival_enter_locked(arrival, CLASSIFYING);
    vl_arrival_linger_locked(arrival, linger_us);
    vl_park_unlock();
    return 1;
}
