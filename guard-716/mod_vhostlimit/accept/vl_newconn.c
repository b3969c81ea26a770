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
#include "core/vl_slot.h"

static void pass(vl_newconn_t *newconn)
{
    vl_waiters_lock();
    vl_newconn_pass_locked(newconn);
    vl_waiters_unlock();
}

/* Waits for more of the head, outside of the queues and for as long as Apache would
 * wait. If epoll fails the connection is passed to the MPM.
 * With MinRate mod_reqtimeout begins to wait for the rest of a line before it counts the bytes
 * that have just arrived of it (reqtimeout_filter()). */
static void wait_for_head(vl_newconn_t *newconn, const vl_classified_t *found)
{
    apr_int64_t now_us = vl_clock_us();

    if (!newconn->head_since_us)
        newconn->head_since_us = now_us;
    newconn->client.tls = found->tls;
    if (found->bytes > newconn->head_bytes) {
        newconn->head_counted = found->in_lines > newconn->head_bytes ? found->in_lines
                                                                      : newconn->head_bytes;
        newconn->head_bytes = found->bytes;
    }
    vl_waiters_lock();
    if (vl_newconn_watch_locked(newconn, EPOLLET)) {
        vl_newconn_move_until_locked(newconn, INCOMPLETE_HEAD,
                                     vl_headtime_deadline(
                                         found->server, found->tls,
                                         newconn->head_since_us, now_us,
                                         newconn->head_counted));
    }
    else {
        vl_newconn_pass_locked(newconn);
    }
    vl_waiters_unlock();
}

static void close_connection(vl_newconn_t *newconn)
{
    vl_waiters_lock();
    vl_newconn_close_locked(newconn);
    vl_waiters_unlock();
}

/* The first stream of cleartext HTTP/2 tells the site of its connection. Until then
 * the connection counts for the default server of its address. It needs no slot. It is
 * queued only if that server has too many threads of this child. Returns 1 if the
 * connection was passed. */
static int try_pass_with_thread(vl_newconn_t *newconn, const vl_classified_t *found)
{
    if (vl_conf_get(found->server)->mode != VL_MODE_ON
        || vl_slot_try_occupy(vl_child.shm, found->account) != APR_SUCCESS)
        return 0;
    newconn->grant.occupies = 1;
    newconn->grant.ticket.account = found->account;
    pass(newconn);
    return 1;
}

/* Decides what a classified connection needs: a slot, only a thread, or nothing
 * because its site is not limited or the request is exempt. */
static void admit(vl_newconn_t *newconn, const vl_classified_t *found)
{
    const vl_conf_t *conf = vl_conf_get(found->server);

    newconn->head_us = newconn->head_since_us ? vl_clock_us() - newconn->head_since_us : 0;
    newconn->head_since_us = 0;
    newconn->head_bytes = newconn->head_counted = 0;
    newconn->http2 = found->http2;
    if (found->http2 && try_pass_with_thread(newconn, found))
        return;
    if (conf->mode != VL_MODE_ON || found->exempt
        || !vl_slot_queue(vl_child.shm, found->account)) {
        pass(newconn);
        return;
    }
    newconn->ready = !found->tls && !found->http2;
    newconn->client.tls = found->tls;
    newconn->client.http11 = found->http11 && !found->http2;
    newconn->client.probed = 0;
    vl_newconn_request_slot(newconn, conf, found);
}

/* Reads the first bytes of a connection in CLASSIFYING, and moves it to its next state.
 * at_end: the client sends nothing more. */
static void classify(vl_newconn_t *newconn, int at_end)
{
    vl_classified_t found;
    vl_classify_e result = vl_classify(newconn->fd, &newconn->local,
                                       &newconn->remote, newconn->addr_len,
                                       &found);

    vl_newconn_clear_grant(newconn);
    switch (result) {
    case VL_CLASSIFY_ALL:
        admit(newconn, &found);
        break;
    case VL_CLASSIFY_SOME:
        if (at_end)
            pass(newconn);              /* Apache answers an incomplete request */
        else
            wait_for_head(newconn, &found);
        break;
    case VL_CLASSIFY_NOTHING:
        if (at_end)
            close_connection(newconn);
        else
            wait_for_head(newconn, &found);
        break;
    case VL_CLASSIFY_CLOSED:
        close_connection(newconn);
        break;
    }
}

static void find_local(vl_newconn_t *newconn)
{
    newconn->addr_len = sizeof(newconn->local);
    getsockname(newconn->fd, (struct sockaddr *)&newconn->local,
                &newconn->addr_len);
}

/* Returns the record of a connection that another child transferred, or NULL without
 * memory. */
static vl_newconn_t *make_received(int fd, const vl_passed_t *passed)
{
    vl_newconn_t *newconn = vl_newconn_create(fd);
    socklen_t length = sizeof(newconn->remote);

    if (!newconn)
        return NULL;
    find_local(newconn);
    getpeername(fd, (struct sockaddr *)&newconn->remote, &length);
    newconn->head_since_us = passed->began_us;
    newconn->queued_since_us = passed->since_us;
    return newconn;
}

static void add(vl_newconn_t *newconn, state_e state)
{
    vl_waiters_lock();
    if (state == CLASSIFYING) {
        vl_newconn_limit_descriptors_locked();
        vl_newconns->accepted++;
    }
    vl_newconn_enter_locked(newconn, state);
    vl_waiters_unlock();
}

void vl_newconn_accepted(int fd, const struct sockaddr_storage *remote,
                         const struct sockaddr_storage *local, socklen_t local_length)
{
    vl_newconn_t *newconn = vl_newconn_create(fd);

    if (!newconn)
        return;
    newconn->remote = *remote;
    newconn->local = *local;
    newconn->addr_len = local_length;
    if (!local_length)
        find_local(newconn);
    add(newconn, CLASSIFYING);
    classify(newconn, 0);
}

void vl_newconn_received(int fd, const vl_passed_t *passed)
{
    vl_newconn_t *newconn = make_received(fd, passed);

    if (!newconn)
        return;
    add(newconn, CLASSIFYING);
    classify(newconn, 0);
}

void vl_newconn_not_sent(int fd, const vl_passed_t *passed)
{
    vl_newconn_t *newconn = make_received(fd, passed);

    if (newconn)
        add(newconn, TRANSFER_FAILED);
}

void vl_newconn_handle_event(vl_newconn_t *newconn, apr_uint32_t events)
{
    int classify_again = 0;

    vl_waiters_lock();
    switch (newconn->state) {
    case INCOMPLETE_HEAD:
        vl_newconn_move_locked(newconn, CLASSIFYING);
        classify_again = 1;
        break;
    case LINGERING:
        if (!vl_newconn_discard_input(newconn->fd))
            vl_newconn_close_locked(newconn);
        break;
    case QUEUED:
        if (vl_client_is_gone(&newconn->client, newconn->fd, events))
            vl_newconn_drop_gone_locked(newconn);
        break;
    default:
        break;
    }
    vl_waiters_unlock();
    if (classify_again)
        classify(newconn, !!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)));
}

static vl_newconn_t *next_failed_transfer(void)
{
    vl_newconn_t *newconn;

    vl_waiters_lock();
    newconn = vl_newconn_first_locked(TRANSFER_FAILED);
    if (newconn)
        vl_newconn_move_locked(newconn, CLASSIFYING);
    vl_waiters_unlock();
    return newconn;
}

void vl_newconn_after_events(void)
{
    vl_newconn_t *newconn;

    while ((newconn = next_failed_transfer()))
        classify(newconn, 0);
    vl_waiters_lock();
    vl_newconn_free_released_locked();
    vl_waiters_unlock();
}
