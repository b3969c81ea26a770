/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_relay.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/vl_clock.h"
#include "accept/vl_transfer.h"
#include "core/vl_slot.h"
#include "core/vl_segment.h"

/* A signal that arrives right before the child sleeps is noticed after this time. */
#define SLEEP_S 5
/* A slot that was sent so long ago, was not taken and is not in the pair is lost. */
#define LOST_US (1 * APR_USEC_PER_SEC)

/* Slots that the acceptor has sent. The index is the number modulo RELAY_SIZE. */
static struct {
    apr_int64_t epoch;
    apr_uint32_t number;            /* of the last item */
    struct sent_t {
        apr_uint32_t number;        /* 0: none */
        vl_ticket_t ticket;
        apr_int64_t at_us;
    } sent[RELAY_SIZE];
} acceptor;

/* --- sleep and wake-up ---------------------------------------------------- */

/* A child that asks for a connection sleeps on its futex until the acceptor wakes it. In
 * recvmsg() the kernel would wake the children in turn. The first one that sleeps is woken
 * here: so the same few children serve as long as they are enough, and find their memory in
 * the processor's caches.
 *
 * Each connection in the pair has a child that was woken for it, or is counted in `unclaimed`.
 * A child takes one of these before it sleeps. A child that dies leaves its connection to
 * vl_relay_acceptor_tidy(). A child that was woken and finds none sleeps again. */

static long futex(apr_uint32_t *word, int operation, apr_uint32_t value,
                  const struct timespec *timeout)
{
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

/* Returns 0 if no child was woken. A child that has not fallen asleep yet is not counted. */
static int wake_first(vl_shm_t *shm)
{
    apr_uint32_t c;

    for (c = 0; c < shm->head->columns; c++) {
        apr_uint32_t asleep = 1;

        if (__atomic_load_n(&shm->sleeping[c], __ATOMIC_SEQ_CST)
            && __atomic_compare_exchange_n(&shm->sleeping[c], &asleep, 0, 0, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST)
            && futex(&shm->sleeping[c], FUTEX_WAKE, 1, NULL) > 0)
            return 1;
    }
    return 0;
}

/* Wakes a child for a connection in the pair. If none sleeps, one may be about to: it sees the
 * count, or is seen by the second search. */
static void wake_one(vl_shm_t *shm)
{
    if (wake_first(shm))
        return;
    __atomic_add_fetch(&shm->head->unclaimed, 1, __ATOMIC_SEQ_CST);
    wake_first(shm);
}

static int take_unclaimed(vl_shm_t *shm)
{
    apr_uint32_t n = __atomic_load_n(&shm->head->unclaimed, __ATOMIC_SEQ_CST);

    while (n) {
        if (__atomic_compare_exchange_n(&shm->head->unclaimed, &n, n - 1, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return 1;
    }
    return 0;
}

void vl_relay_wake_all(vl_shm_t *shm)
{
    apr_uint32_t c;

    for (c = 0; c < shm->head->columns; c++) {
        if (__atomic_exchange_n(&shm->sleeping[c], 0, __ATOMIC_SEQ_CST))
            futex(&shm->sleeping[c], FUTEX_WAKE, 1, NULL);
    }
}

/* Returns 1 if there may be a connection for this child. */
static int sleep_until_woken(vl_shm_t *shm)
{
    const struct timespec timeout = { SLEEP_S, 0 };
    apr_uint32_t *sleeping = &shm->sleeping[shm->self];
    int has_taken, was_woken;

    __atomic_store_n(sleeping, 1, __ATOMIC_SEQ_CST);
    has_taken = take_unclaimed(shm);
    if (!has_taken && !vl_engage_is_dormant(shm))
        futex(sleeping, FUTEX_WAIT, 1, &timeout);
    was_woken = !__atomic_exchange_n(sleeping, 0, __ATOMIC_SEQ_CST);
    if (has_taken && was_woken)
        wake_one(shm);              /* this child takes one of the two */
    return has_taken || was_woken;
}

/* --- the acceptor's slots ------------------------------------------------- */

int vl_relay_has_acceptor(const vl_shm_t *shm)
{
    return __atomic_load_n(&shm->head->acceptor, __ATOMIC_RELAXED) != 0;
}

void vl_relay_parent_check(vl_shm_t *shm)
{
    if (shm->head->epoch && !vl_engage_is_dormant(shm) && !vl_relay_has_acceptor(shm))
        wake_one(shm);
}

static void set_asking_locked(vl_shm_t *shm, int asks)
{
    child_t *child = &shm->children[shm->self];

    __atomic_fetch_add(&shm->head->asking, (apr_uint32_t)(asks - child->asks),
                       __ATOMIC_RELAXED);
    child->asks = asks;
}

void vl_relay_child_ask(vl_shm_t *shm)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    set_asking_locked(shm, 1);
    vl_slot_dispatch_and_unlock(shm);
}

void vl_relay_child_stop_asking(vl_shm_t *shm)
{
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    set_asking_locked(shm, 0);
    vl_segment_unlock(shm);
}

int vl_relay_claim(vl_shm_t *shm)
{
    head_t *head = shm->head;
    int claimed;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return 0;
    claimed = !head->acceptor;
    if (claimed) {
        set_asking_locked(shm, 0);
        vl_segment_set_acceptor_locked(shm, shm->self + 1);
        head->epoch = vl_clock_us();
        memset(head->taken, 0, sizeof(head->taken));
        memset(&acceptor, 0, sizeof(acceptor));
        acceptor.epoch = head->epoch;
    }
    vl_segment_unlock(shm);
    return claimed;
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

/* Cancels slots that no child will take any more. */
static void cancel_sent_before(vl_shm_t *shm, apr_int64_t before_us)
{
    struct sent_t *sent;

    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    for (sent = acceptor.sent; sent < acceptor.sent + RELAY_SIZE; sent++) {
        if (!sent->number || sent->at_us >= before_us)
            continue;
        if (!is_taken_locked(shm, sent->number)) {
            set_taken_locked(shm, sent->number);
            vl_slot_cancel_locked(shm, &sent->ticket);
        }
        sent->number = 0;
    }
    vl_slot_dispatch_and_unlock(shm);
}

void vl_relay_acceptor_resign(vl_shm_t *shm)
{
    cancel_sent_before(shm, INT64_MAX);
    if (vl_segment_lock_child(shm) != APR_SUCCESS)
        return;
    if (shm->head->acceptor == shm->self + 1)
        vl_segment_set_acceptor_locked(shm, 0);
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
        cancel_sent_before(shm, now_us - LOST_US);
    else if (!__atomic_load_n(&shm->head->unclaimed, __ATOMIC_SEQ_CST))
        wake_one(shm);
}

apr_status_t vl_relay_acceptor_send(vl_shm_t *shm, const int pair[2],
                                    vl_item_t *item, int fd)
{
    apr_uint32_t number = acceptor.number + 1 ? acceptor.number + 1 : 1;
    struct sent_t *sent = &acceptor.sent[number % RELAY_SIZE];
    apr_status_t rv;

    /* An earlier slot in this entry has not been taken yet. */
    if (sent->number && __atomic_load_n(&shm->head->taken[sent->number % RELAY_SIZE], __ATOMIC_RELAXED)
                        != sent->number)
        return APR_EAGAIN;
    item->epoch = acceptor.epoch;
    item->number = number;
    rv = vl_transfer_write(pair[1], item, sizeof(*item), &fd, 1);
    if (rv != APR_SUCCESS)
        return rv;
    acceptor.number = number;
    sent->number = item->grant.holds ? number : 0;
    sent->ticket = item->grant.ticket;
    sent->at_us = vl_clock_us();
    /* The thread is that of the child which receives the connection. */
    if (item->grant.occupies)
        vl_slot_unoccupy(shm, item->grant.ticket.account);
    wake_one(shm);
    return APR_SUCCESS;
}

static apr_status_t read_item(int from, vl_item_t *ret_item, int *ret_fd)
{
    apr_size_t n;
    apr_status_t rv = vl_transfer_read(from, ret_item, sizeof(*ret_item), ret_fd, 1, &n);

    return rv == APR_SUCCESS && !n ? APR_EAGAIN : rv;
}

apr_status_t vl_relay_acceptor_recall(const int pair[2],
                                      vl_passed_t *ret_passed, int *ret_fd)
{
    vl_item_t item;
    apr_status_t rv = vl_transfer_has_descriptor(pair[0])
                      ? read_item(pair[0], &item, ret_fd) : APR_EMFILE;

    memset(ret_passed, 0, sizeof(*ret_passed));
    if (rv != APR_SUCCESS)
        return rv;
    if (item.grant.waited_us)
        ret_passed->since_us = vl_clock_us() - item.grant.waited_us;
    return APR_SUCCESS;
}

/* Moves the slot from the acceptor to this child, unless it has been canceled. */
static void take_slot_locked(vl_shm_t *shm, vl_item_t *item)
{
    head_t *head = shm->head;
    apr_uint32_t account = item->grant.ticket.account, from;

    if (!head->acceptor || item->epoch != head->epoch
        || is_taken_locked(shm, item->number)) {
        item->grant.holds = 0;
        return;
    }
    from = head->acceptor - 1;
    vl_slot_hold_locked(shm, shm->self, account, 0, 1);
    set_taken_locked(shm, item->number);
    vl_slot_hold_locked(shm, from, account, 0, -1);
    /* The child process counts the request as any other. */
    vl_slot_hold_call_locked(shm, from, &item->grant.ticket, -1);
    item->grant.ticket.call = 0;
    item->grant.ticket.caller = 0;
}

apr_status_t vl_relay_child_receive(vl_shm_t *shm, const int pair[2], int sleeps,
                                    vl_item_t *ret_item, int *ret_fd)
{
    if (!vl_transfer_has_descriptor(pair[0]))
        return APR_EMFILE;
    if ((sleeps && !sleep_until_woken(shm)) || read_item(pair[0], ret_item, ret_fd) != APR_SUCCESS)
        return APR_EAGAIN;
    if (vl_segment_lock_child(shm) != APR_SUCCESS) {
        ret_item->grant.holds = ret_item->grant.occupies = 0;
        return APR_SUCCESS;
    }
    set_asking_locked(shm, 0);
    if (ret_item->grant.holds)
        take_slot_locked(shm, ret_item);
    if (ret_item->grant.occupies)
        vl_slot_occupy_locked(shm, shm->self, ret_item->grant.ticket.account, 1);
    vl_segment_unlock(shm);
    return APR_SUCCESS;
}
