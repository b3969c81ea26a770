/* SPDX-License-Identifier: Apache-2.0 */
/* Visits to the MPM.  Those that may come back from it keep their descriptor
 * and lend it a duplicate: it closes that one, told that the client has gone
 * (c->aborted) so that it shuts nothing down, and the connection is open as
 * before. */
#include "vl_arrival_int.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <apr_portable.h>
#include <apr_strings.h>

#include "vl_clock.h"

static const char visit_key[] = "vhostlimit";

/* --- the MPM's listener --------------------------------------------------- */

static void go_on_locked(void)
{
    vl_arrivals->asked_us = vl_clock_us();
    if (vl_arrivals->stuck) {
        vl_arrivals->stuck = 0;
        vl_shm_child_pause(vl_arrivals->shm, 0);
        vl_park_take_locked();
    }
}

static void quiet_locked(void)
{
    apr_uint64_t count;

    if (vl_arrivals->signalled
        && read(vl_arrivals->pass_fd, &count, sizeof(count)) == sizeof(count))
        vl_arrivals->signalled = 0;
}

/* One socket a call is all the MPM takes, so pass_fd stays readable as long as
 * there are more. */
vl_arrival_t *vl_arrival_next(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    go_on_locked();
    arrival = vl_arrival_first_passing_locked();
    if (arrival) {
        arrival->news = arrival->begun = 0;
        vl_arrival_move_locked(arrival, VISIT);
    }
    else {
        quiet_locked();
    }
    vl_park_unlock();
    return arrival;
}

/* The MPM has done with the connection, and it has not come back. */
static apr_status_t end_visit(void *data)
{
    vl_visit_t *visit = data;

    if (visit->turn.holds)
        vl_park_end(&visit->turn.ticket, NULL);
    visit->turn.holds = 0;
    if (visit->arrival) {
        vl_park_lock();
        vl_arrival_close_locked(visit->arrival);
        vl_park_unlock();
    }
    visit->arrival = NULL;
    return APR_SUCCESS;
}

/* The descriptor for the MPM.  One that is not to come back leaves now. */
static int lend(vl_arrival_t *arrival)
{
    int fd = arrival->fd, lent = -1;

    if (arrival->returns)
        lent = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (lent >= 0)
        return lent;
    arrival->returns = 0;
    return fd;
}

static vl_visit_t *begin_visit(vl_arrival_t *arrival, apr_pool_t *p)
{
    vl_visit_t *visit = apr_pcalloc(p, sizeof(*visit));

    visit->turn = arrival->turn;
    if (arrival->waited)
        visit->turn.waited_us = vl_clock_us() - arrival->waiter.since_us;
    visit->keepalives = arrival->keepalives;
    visit->ready = arrival->returns;
    if (arrival->returns) {
        visit->arrival = arrival;
    }
    else {
        vl_park_lock();
        vl_arrival_bury_locked(arrival);
        vl_park_unlock();
    }
    apr_pool_cleanup_register(p, visit, end_visit, apr_pool_cleanup_null);
    return visit;
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
    apr_status_t rv = make_socket(lend(arrival), &arrival->local,
                                  &arrival->remote, p, ret_sock);
    vl_visit_t *visit = begin_visit(arrival, p);

    if (rv == APR_SUCCESS)
        apr_socket_data_set(*ret_sock, visit, visit_key, NULL);
    return rv;
}

/* --- the MPM in another process ------------------------------------------- */

static apr_status_t relay_one_locked(vl_arrival_t *arrival,
                                     vl_arrival_send_fn *send_one)
{
    vl_item_t item = { .turn = arrival->turn, .ready = arrival->returns,
                       .keepalives = arrival->keepalives,
                       .addr_len = arrival->addr_len,
                       .local = arrival->local, .remote = arrival->remote };
    apr_status_t rv;

    if (arrival->waited)
        item.turn.waited_us = vl_clock_us() - arrival->waiter.since_us;
    rv = send_one(&item, arrival->fd);
    if (rv == APR_SUCCESS)
        vl_arrival_close_locked(arrival);
    return rv;
}

void vl_arrival_relay(vl_arrival_send_fn *send_one)
{
    vl_arrival_t *arrival;
    apr_status_t rv = APR_SUCCESS;

    vl_park_lock();
    while (rv == APR_SUCCESS && (arrival = vl_arrival_first_passing_locked()))
        rv = relay_one_locked(arrival, send_one);
    if (rv == APR_SUCCESS)
        go_on_locked();
    vl_park_unlock();
}

apr_status_t vl_arrival_from(const vl_item_t *item, int fd,
                             vl_arrival_send_fn *back, apr_pool_t *p,
                             apr_socket_t **ret_sock)
{
    vl_visit_t *visit = apr_pcalloc(p, sizeof(*visit));
    vl_item_t *copy = apr_pmemdup(p, item, sizeof(*item));
    apr_status_t rv = make_socket(fd, &copy->local, &copy->remote, p,
                                  ret_sock);

    visit->turn = item->turn;
    visit->ready = item->ready;
    visit->keepalives = item->keepalives;
    visit->item = item->ready ? copy : NULL;
    visit->fd = fd;
    visit->back = back;
    apr_pool_cleanup_register(p, visit, end_visit, apr_pool_cleanup_null);
    if (rv == APR_SUCCESS)
        apr_socket_data_set(*ret_sock, visit, visit_key, NULL);
    return rv;
}

/* --- its workers ---------------------------------------------------------- */

vl_visit_t *vl_arrival_begin(apr_socket_t *sock)
{
    void *data = NULL;
    vl_visit_t *visit;

    if (apr_socket_data_get(&data, visit_key, sock) != APR_SUCCESS || !data)
        return NULL;
    visit = data;
    if (visit->arrival)
        visit->arrival->begun = 1;
    return visit;
}

static void wake_acceptor(void)
{
    apr_uint64_t one = 1;

    /* Fails only when it is readable already. */
    if (write(vl_shm_child_wake_fd(vl_arrivals->shm), &one, sizeof(one)) < 0)
        return;
}

int vl_arrival_returns(const vl_visit_t *visit)
{
    return visit && (visit->arrival || visit->item);
}

static int send_back(vl_visit_t *visit, int lingers, apr_int64_t for_us)
{
    vl_item_t *item = visit->item;

    memset(&item->turn, 0, sizeof(item->turn));
    item->lingers = lingers;
    item->until_us = vl_clock_us() + for_us;
    return visit->back(item, visit->fd) == APR_SUCCESS;
}

int vl_arrival_return(vl_visit_t *visit, apr_uint32_t keepalives,
                      apr_int64_t idle_us)
{
    vl_arrival_t *arrival = visit->arrival;
    int back, fresh = 0;

    if (!arrival) {
        visit->item->keepalives = keepalives;
        return send_back(visit, 0, idle_us);
    }
    vl_park_lock();
    back = !vl_arrivals->leaving && vl_arrival_watch_locked(arrival, EPOLLET);
    if (back) {
        visit->arrival = NULL;
        fresh = arrival->news;
        arrival->keepalives = keepalives;
        arrival->began_us = arrival->asked_us = 0;
        arrival->idle_us = vl_clock_us() + idle_us;
        vl_arrival_make_room_locked();
        if (fresh)
            vl_arrival_move_locked(arrival, FRESH);
        else
            vl_arrival_idle_locked(arrival);
    }
    vl_park_unlock();
    if (fresh)
        wake_acceptor();
    return back;
}

int vl_arrival_linger(vl_visit_t *visit, apr_int64_t linger_us)
{
    vl_arrival_t *arrival = visit->arrival;
    int back;

    if (!arrival) {
        shutdown(visit->fd, SHUT_WR);
        return send_back(visit, 1, linger_us);
    }
    vl_park_lock();
    back = !vl_arrivals->leaving && vl_arrival_watch_locked(arrival, 0);
    if (back) {
        visit->arrival = NULL;
        shutdown(arrival->fd, SHUT_WR);
        vl_arrival_make_room_locked();
        vl_arrival_linger_locked(arrival, vl_clock_us() + linger_us);
    }
    vl_park_unlock();
    return back;
}
