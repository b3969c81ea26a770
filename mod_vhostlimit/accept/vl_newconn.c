/* SPDX-License-Identifier: Apache-2.0 */
/* Classification of new connections by the acceptor. */
#include "accept/vl_newconn_table.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "accept/vl_newconn_answer.h"
#include "accept/vl_newconn_queue.h"
#include "accept/vl_classify.h"
#include "base/vl_clock.h"
#include "config/vl_headtime.h"
#include "core/vl_thread.h"

static void pass(vl_arrival_t *arrival)
{
    vl_park_lock();
    vl_arrival_pass_locked(arrival);
    vl_park_unlock();
}

/* Waits for more of the head, outside of the queues and for as long as Apache would
 * wait. If epoll fails the connection is passed to the MPM. */
static void wait_for_head(vl_arrival_t *arrival, const vl_classified_t *found)
{
    apr_int64_t now_us = vl_clock_us();

    if (!arrival->head_since_us)
        arrival->head_since_us = now_us;
    arrival->client.tls = found->tls;
    vl_park_lock();
    if (vl_arrival_watch_locked(arrival, EPOLLET)) {
        vl_arrival_move_until_locked(arrival, INCOMPLETE_HEAD,
                                     vl_headtime_deadline(
                                         found->server, found->tls,
                                         arrival->head_since_us, now_us,
                                         found->bytes));
    }
    else {
        vl_arrival_pass_locked(arrival);
    }
    vl_park_unlock();
}

static void close_connection(vl_arrival_t *arrival)
{
    vl_park_lock();
    vl_arrival_close_locked(arrival);
    vl_park_unlock();
}

/* The first stream of cleartext HTTP/2 tells the site of its connection. Until then
 * the connection counts for the default server of its address. It needs no slot. It is
 * queued only if that server has too many threads of this child. Returns 1 if the
 * connection was passed. */
static int try_pass_with_thread(vl_arrival_t *arrival, const vl_classified_t *found)
{
    if (vl_conf_get(found->server)->mode != VL_MODE_ON
        || vl_thread_try_occupy(vl_child.shm, found->account) != APR_SUCCESS)
        return 0;
    arrival->grant.occupies = 1;
    arrival->grant.ticket.account = found->account;
    pass(arrival);
    return 1;
}

/* Decides what a classified connection needs: a slot, only a thread, or nothing
 * because its site is not limited or the request is exempt. */
static void admit(vl_arrival_t *arrival, const vl_classified_t *found)
{
    const vl_conf_t *conf = vl_conf_get(found->server);

    arrival->head_since_us = 0;
    arrival->http2 = found->http2;
    if (found->http2 && try_pass_with_thread(arrival, found))
        return;
    if (conf->mode != VL_MODE_ON || found->exempt
        || !vl_slot_queue(vl_child.shm, found->account)) {
        pass(arrival);
        return;
    }
    arrival->ready = !found->tls && !found->http2;
    arrival->client.tls = found->tls;
    arrival->is_head = found->head;
    arrival->client.http11 = found->http11 && !found->http2;
    arrival->client.probed = 0;
    vl_arrival_request_slot(arrival, conf, found->account, &found->client);
}

/* Reads the first bytes of a connection in CLASSIFYING, and moves it to its next state.
 * at_end: the client sends nothing more. */
static void classify(vl_arrival_t *arrival, int at_end)
{
    vl_classified_t found;
    vl_classify_e result = vl_classify(arrival->fd, &arrival->local,
                                       &arrival->remote, arrival->addr_len,
                                       &found);

    vl_arrival_clear_grant(arrival);
    switch (result) {
    case VL_CLASSIFY_ALL:
        admit(arrival, &found);
        break;
    case VL_CLASSIFY_SOME:
        if (at_end)
            pass(arrival);              /* Apache answers an incomplete request */
        else
            wait_for_head(arrival, &found);
        break;
    case VL_CLASSIFY_NOTHING:
        if (at_end)
            close_connection(arrival);
        else
            wait_for_head(arrival, &found);
        break;
    case VL_CLASSIFY_CLOSED:
        close_connection(arrival);
        break;
    }
}

static void find_local(vl_arrival_t *arrival)
{
    arrival->addr_len = sizeof(arrival->local);
    getsockname(arrival->fd, (struct sockaddr *)&arrival->local,
                &arrival->addr_len);
}

/* Returns the record of a connection that another child transferred, or NULL without
 * memory. */
static vl_arrival_t *make_received(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = vl_arrival_create(fd);
    socklen_t length = sizeof(arrival->remote);

    if (!arrival)
        return NULL;
    find_local(arrival);
    getpeername(fd, (struct sockaddr *)&arrival->remote, &length);
    arrival->head_since_us = passed->began_us;
    arrival->queued_since_us = passed->since_us;
    return arrival;
}

static void add(vl_arrival_t *arrival, state_e state)
{
    vl_park_lock();
    if (state == CLASSIFYING) {
        vl_arrival_limit_descriptors_locked();
        vl_arrivals->accepted++;
    }
    vl_arrival_enter_locked(arrival, state);
    vl_park_unlock();
}

void vl_arrival_accepted(int fd, const struct sockaddr_storage *remote,
                         const struct sockaddr_storage *local, socklen_t local_length)
{
    vl_arrival_t *arrival = vl_arrival_create(fd);

    if (!arrival)
        return;
    arrival->remote = *remote;
    arrival->local = *local;
    arrival->addr_len = local_length;
    if (!local_length)
        find_local(arrival);
    add(arrival, CLASSIFYING);
    classify(arrival, 0);
}

void vl_arrival_received(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = make_received(fd, passed);

    if (!arrival)
        return;
    add(arrival, CLASSIFYING);
    classify(arrival, 0);
}

void vl_arrival_not_sent(int fd, const vl_passed_t *passed)
{
    vl_arrival_t *arrival = make_received(fd, passed);

    if (arrival)
        add(arrival, TRANSFER_FAILED);
}

void vl_arrival_handle_event(vl_arrival_t *arrival, apr_uint32_t events)
{
    int classify_again = 0;

    vl_park_lock();
    switch (arrival->state) {
    case INCOMPLETE_HEAD:
        vl_arrival_move_locked(arrival, CLASSIFYING);
        classify_again = 1;
        break;
    case LINGERING:
        if (!vl_arrival_drain(arrival->fd))
            vl_arrival_close_locked(arrival);
        break;
    case QUEUED:
        if (vl_client_is_gone(&arrival->client, arrival->fd, events))
            vl_arrival_drop_gone_locked(arrival);
        break;
    default:
        break;
    }
    vl_park_unlock();
    if (classify_again)
        classify(arrival, !!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)));
}

static vl_arrival_t *next_failed_transfer(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    arrival = vl_arrival_first_locked(TRANSFER_FAILED);
    if (arrival)
        vl_arrival_move_locked(arrival, CLASSIFYING);
    vl_park_unlock();
    return arrival;
}

void vl_arrival_after_events(void)
{
    vl_arrival_t *arrival;

    while ((arrival = next_failed_transfer()))
        classify(arrival, 0);
    vl_park_lock();
    vl_arrival_free_released_locked();
    vl_park_unlock();
}
