/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_relay.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>

#include "base/vl_clock.h"
#include "accept/vl_transfer.h"
#include "core/vl_shm_int.h"

/* A signal that comes right before the child waits is noticed after so long. */
#define LOOK_S 5
/* What nobody has taken by then, and is not in the pair, is lost. */
#define LOST_US (1 * APR_USEC_PER_SEC)

/* The acceptor's: slots on their way.  One is where its number says. */
static struct {
    apr_int64_t epoch;
    apr_uint32_t number;            /* of the last item */
    struct sent_t {
        apr_uint32_t number;        /* 0: none */
        vl_ticket_t ticket;
        apr_int64_t at_us;
    } sent[RELAY_SIZE];
} mine;

apr_status_t vl_relay_create(int ret_pair[2])
{
    struct timeval timeout = { LOOK_S, 0 };

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_pair)
        || setsockopt(ret_pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout,
                      sizeof(timeout)))
        return errno;
    return APR_SUCCESS;
}

int vl_relay_has_acceptor(const vl_shm_t *shm)
{
    return __atomic_load_n(&shm->head->acceptor, __ATOMIC_RELAXED) != 0;
}

void vl_relay_parent_look(vl_shm_t *shm, const int pair[2])
{
    if (shm->head->epoch && !vl_relay_has_acceptor(shm))
        vl_transfer_write(pair[1], "", 1, NULL, 0);
}

static void ask_locked(vl_shm_t *shm, int asks)
{
    child_t *child = &shm->children[shm->self];

    __atomic_fetch_add(&shm->head->asking, (apr_uint32_t)(asks - child->asks),
                       __ATOMIC_RELAXED);
    child->asks = asks;
}

void vl_relay_child_ask(vl_shm_t *shm)
{
    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    ask_locked(shm, 1);
    vl_slot_dispatch_and_unlock(shm);
}

void vl_relay_child_unask(vl_shm_t *shm)
{
    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    ask_locked(shm, 0);
    vl_shm_unlock(shm);
}

int vl_relay_claim(vl_shm_t *shm)
{
    head_t *head = shm->head;
    int free;

    if (vl_slot_lock(shm) != APR_SUCCESS)
        return 0;
    free = !head->acceptor;
    if (free) {
        ask_locked(shm, 0);
        vl_shm_set_acceptor_locked(shm, shm->self + 1);
        head->epoch = vl_clock_us();
        memset(head->taken, 0, sizeof(head->taken));
        memset(&mine, 0, sizeof(mine));
        mine.epoch = head->epoch;
    }
    vl_shm_unlock(shm);
    return free;
}

static int is_taken_locked(const vl_shm_t *shm, apr_uint32_t number)
{
    return shm->head->taken[number % RELAY_SIZE] == number;
}

static void set_taken_locked(vl_shm_t *shm, apr_uint32_t number)
{
    __atomic_store_n(&shm->head->taken[number % RELAY_SIZE], number,
                     __ATOMIC_RELAXED);
}

/* Nobody takes it any more. */
static void forget_locked(vl_shm_t *shm, struct sent_t *sent)
{
    if (!is_taken_locked(shm, sent->number)) {
        set_taken_locked(shm, sent->number);
        vl_slot_cancel_locked(shm, &sent->ticket);
    }
    sent->number = 0;
}

static void forget_older(vl_shm_t *shm, apr_int64_t than_us)
{
    int i;

    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    for (i = 0; i < RELAY_SIZE; i++) {
        if (mine.sent[i].number && mine.sent[i].at_us < than_us)
            forget_locked(shm, &mine.sent[i]);
    }
    vl_slot_dispatch_and_unlock(shm);
}

void vl_relay_acceptor_resign(vl_shm_t *shm)
{
    forget_older(shm, INT64_MAX);
    if (vl_slot_lock(shm) != APR_SUCCESS)
        return;
    if (shm->head->acceptor == shm->self + 1)
        vl_shm_set_acceptor_locked(shm, 0);
    vl_slot_dispatch_and_unlock(shm);
}

int vl_relay_pending(const int pair[2])
{
    struct pollfd pfd = { pair[0], POLLIN, 0 };

    return poll(&pfd, 1, 0) > 0;
}

void vl_relay_acceptor_tidy(vl_shm_t *shm, const int pair[2],
                            apr_int64_t now_us)
{
    if (!vl_relay_pending(pair))
        forget_older(shm, now_us - LOST_US);
}

/* Whether there was one long ago that is on its way still. */
static int is_free(const vl_shm_t *shm, const struct sent_t *sent)
{
    return !sent->number
           || __atomic_load_n(&shm->head->taken[sent->number % RELAY_SIZE],
                              __ATOMIC_RELAXED) == sent->number;
}

apr_status_t vl_relay_acceptor_send(vl_shm_t *shm, const int pair[2],
                                    vl_item_t *item, int fd)
{
    apr_uint32_t number = mine.number + 1 ? mine.number + 1 : 1;
    struct sent_t *sent = &mine.sent[number % RELAY_SIZE];
    apr_status_t rv;

    if (!is_free(shm, sent))
        return APR_EAGAIN;
    item->epoch = mine.epoch;
    item->number = number;
    rv = vl_transfer_write(pair[1], item, sizeof(*item), &fd, 1);
    if (rv != APR_SUCCESS)
        return rv;
    mine.number = number;
    sent->number = item->grant.holds ? number : 0;
    sent->ticket = item->grant.ticket;
    sent->at_us = vl_clock_us();
    return APR_SUCCESS;
}

/* Who does not wait passes over what is no item. */
static apr_status_t read_item(int from, int flags, vl_item_t *ret_item,
                              int *ret_fd)
{
    apr_size_t n;
    apr_status_t rv;

    do {
        if (!vl_transfer_has_room(from))
            return APR_EMFILE;
        rv = vl_transfer_read(from, flags, ret_item, sizeof(*ret_item), ret_fd,
                              1, &n);
    } while (rv == APR_EOF && flags);
    return rv == APR_SUCCESS && !n ? APR_EAGAIN : rv;
}

apr_status_t vl_relay_acceptor_recall(const int pair[2],
                                      vl_passed_t *ret_passed, int *ret_fd)
{
    vl_item_t item;
    apr_status_t rv = read_item(pair[0], MSG_DONTWAIT, &item, ret_fd);

    memset(ret_passed, 0, sizeof(*ret_passed));
    if (rv != APR_SUCCESS)
        return rv;
    if (item.grant.waited_us)
        ret_passed->since_us = vl_clock_us() - item.grant.waited_us;
    return APR_SUCCESS;
}

/* The slot is this child's from now on, unless it has been given up. */
static void take_locked(vl_shm_t *shm, vl_item_t *item)
{
    head_t *head = shm->head;
    apr_uint32_t account = item->grant.ticket.account, from;

    if (!head->acceptor || item->epoch != head->epoch
        || is_taken_locked(shm, item->number)) {
        item->grant.holds = 0;
        return;
    }
    from = head->acceptor - 1;
    vl_shm_cell(shm, shm->self, account)->running++;
    shm->children[shm->self].running++;
    set_taken_locked(shm, item->number);
    vl_shm_cell(shm, from, account)->running--;
    shm->children[from].running--;
}

apr_status_t vl_relay_child_receive(vl_shm_t *shm, const int pair[2],
                                    vl_item_t *ret_item, int *ret_fd)
{
    apr_status_t rv = read_item(pair[0], 0, ret_item, ret_fd);

    if (rv != APR_SUCCESS)
        return rv == APR_EMFILE ? rv : APR_EAGAIN;
    if (vl_slot_lock(shm) != APR_SUCCESS) {
        ret_item->grant.holds = 0;
        return APR_SUCCESS;
    }
    ask_locked(shm, 0);
    if (ret_item->grant.holds)
        take_locked(shm, ret_item);
    vl_shm_unlock(shm);
    return APR_SUCCESS;
}
