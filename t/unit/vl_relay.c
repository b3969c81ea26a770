/* SPDX-License-Identifier: Apache-2.0 */
/* One child accepts for all.  One process is all of them: each is a view of the
 * segment with a column of its own, lent by a process that sleeps. */
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include "segment.h"
#include "accept/vl_relay.h"
#include "core/vl_thread.h"

#define CHILDREN 4

static pid_t sleepers[CHILDREN];

static vl_shm_t view(const vl_shm_t *shm, int i)
{
    vl_shm_t child = *shm;

    if (!sleepers[i]) {
        sleepers[i] = fork();
        if (!sleepers[i]) {
            poll(NULL, 0, -1);
            _exit(0);
        }
    }
    vl_shm_child_attach(&child, sleepers[i], 1);
    return child;
}

static void kill_sleeper(int i)
{
    kill(sleepers[i], SIGKILL);
    waitpid(sleepers[i], NULL, 0);
    sleepers[i] = 0;
}

static void end_sleepers(void)
{
    int i;

    for (i = 0; i < CHILDREN; i++) {
        if (sleepers[i])
            kill_sleeper(i);
    }
}

static int fd_open(void)
{
    return open("/dev/null", O_RDONLY);
}

/* The acceptor has a slot of the account's and sends it. */
static apr_status_t send_slot(vl_shm_t *acceptor, const int pair[2],
                              apr_uint32_t a, vl_ticket_t *ret_ticket)
{
    vl_item_t item = { .grant = { .holds = 1 } };
    apr_status_t rv = vl_slot_try(acceptor, a, &item.grant.ticket);
    int fd = fd_open();

    if (rv == APR_SUCCESS)
        rv = vl_relay_acceptor_send(acceptor, pair, &item, fd);
    *ret_ticket = item.grant.ticket;
    close(fd);
    return rv;
}

static void one_claims(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one = view(shm, 0), two = view(shm, 1);

    ok(!vl_relay_has_acceptor(shm) && vl_relay_claim(&one)
       && vl_relay_has_acceptor(shm), "a child that finds no acceptor becomes it");
    ok(!vl_relay_claim(&two), "and no other");
    vl_relay_acceptor_resign(&one);
    ok(vl_relay_claim(&two), "until it resigns,");
    kill_sleeper(1);
    vl_shm_parent_reclaim(shm, two.children[two.self].pid);
    ok(!vl_relay_has_acceptor(shm) && vl_relay_claim(&one), "or dies");
    ok(!vl_shm_validate(shm), "the numbers are right");
}

static void grants_for_who_asks(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one = view(shm, 0), two = view(shm, 1);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket;
    vl_item_t item;
    int pair[2], fd = -1;

    vl_slot_set(shm, 2);
    vl_relay_create(pair);
    vl_relay_claim(&one);
    ok(send_slot(&one, pair, a, &ticket) == APR_EAGAIN,
       "no slot while no child asks");
    vl_slot_wait(&one, a, vl_clock_us());
    ok(!vl_slot_granted(&one), "whoever waits,");
    vl_relay_child_ask(&two);
    ok(vl_slot_granted(&one) && vl_slot_take(&one, &ticket) == APR_SUCCESS,
       "until one asks");
    vl_slot_end(&one, &ticket, NULL);
    ok(send_slot(&one, pair, a, &ticket) == APR_SUCCESS, "it is sent,");
    ok(vl_relay_child_receive(&two, pair, &item, &fd) == APR_SUCCESS
       && item.grant.holds && fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC,
       "and is with the child, with its descriptor");
    ok(one.children[one.self].running == 0
       && two.children[two.self].running == 1 && !vl_shm_validate(shm), "which has the slot from now on");
    ok(send_slot(&one, pair, a, &ticket) == APR_EAGAIN, "it no longer asks");
    vl_slot_end(&two, &item.grant.ticket, NULL);
    ok(is_empty(shm), "nothing is left");
    close(fd);
}

static void lost_slots_come_back(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one = view(shm, 0), two = view(shm, 1);
    apr_uint32_t a = account(shm, "a", 0);
    apr_int64_t later = vl_clock_us() + 10 * APR_USEC_PER_SEC;
    vl_ticket_t ticket;
    vl_passed_t passed;
    vl_item_t item;
    int pair[2], fd = -1;

    vl_slot_set(shm, 1);
    vl_relay_create(pair);
    vl_relay_claim(&one);
    vl_relay_child_ask(&two);
    send_slot(&one, pair, a, &ticket);
    vl_relay_acceptor_tidy(&one, pair, later);
    ok(one.children[one.self].running == 1, "an item that no child has read is not lost");
    vl_relay_acceptor_recall(pair, &passed, &fd);        /* by a child that dies then */
    close(fd);
    vl_relay_acceptor_tidy(&one, pair, vl_clock_us());
    ok(one.children[one.self].running == 1, "nor is what was just read,");
    vl_relay_acceptor_tidy(&one, pair, later);
    ok(is_empty(shm), "but after a second it is");
    send_slot(&one, pair, a, &ticket);
    vl_relay_acceptor_resign(&one);
    ok(is_empty(shm), "an acceptor that resigns leaves no slot on its way");
    ok(vl_relay_child_receive(&two, pair, &item, &fd) == APR_SUCCESS
       && !item.grant.holds && is_empty(shm), "its connection arrives without the slot");
    close(fd);
}

static void processes_are_short(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one = view(shm, 0), two = view(shm, 1);
    apr_uint32_t a = account(shm, "a", 0);

    vl_relay_claim(&one);
    ok(!vl_thread_is_short(&two, 3), "nothing waits, and there may be more");
    ok(vl_thread_is_short(&two, 2), "there may be no more");
    vl_slot_wait(&one, a, 1);
    ok(vl_thread_is_short(&two, 3), "a connection waits, and no child asks");
    vl_slot_unwait(&one, a);
    vl_relay_child_ask(&two);
    ok(!vl_thread_is_short(&two, 2), "one does");
}

/* Nothing can be opened any more; returns the limit that was. */
static struct rlimit take_all_room(void)
{
    struct rlimit limit, none;
    int lowest = fd_open();

    close(lowest);
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    none.rlim_cur = (rlim_t)lowest;
    setrlimit(RLIMIT_NOFILE, &none);
    return limit;
}

static void who_has_no_room_leaves_it(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one = view(shm, 0), two = view(shm, 1);
    apr_uint32_t a = account(shm, "a", 0);
    struct rlimit limit;
    vl_ticket_t ticket;
    vl_item_t item;
    int pair[2], fd;

    vl_slot_set(shm, 1);
    vl_relay_create(pair);
    vl_relay_claim(&one);
    vl_relay_child_ask(&two);
    send_slot(&one, pair, a, &ticket);
    limit = take_all_room();
    ok(vl_relay_child_receive(&two, pair, &item, &fd) == APR_EMFILE
       && vl_relay_pending(pair), "a child without descriptors takes nothing,");
    setrlimit(RLIMIT_NOFILE, &limit);
    ok(vl_relay_child_receive(&two, pair, &item, &fd) == APR_SUCCESS
       && item.grant.holds, "and gets it when there is one");
    close(fd);
    vl_slot_end(&two, &item.grant.ticket, NULL);
    ok(is_empty(shm), "nothing is left");
}

static void children_are_told(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one = view(shm, 0), two = view(shm, 1);
    vl_item_t item;
    int pair[2], fd;

    vl_relay_create(pair);
    vl_relay_parent_check(shm, pair);
    ok(!vl_relay_pending(pair), "where there never was an acceptor no child is told");
    vl_relay_claim(&one);
    vl_relay_acceptor_resign(&one);
    vl_relay_child_ask(&two);
    vl_relay_parent_check(shm, pair);
    ok(vl_relay_pending(pair)
       && vl_relay_child_receive(&two, pair, &item, &fd) == APR_EAGAIN,
       "a child looks when the acceptor is gone,");
    ok(vl_relay_claim(&two) && !vl_shm_validate(shm), "and is it");
}

static void a_signal_handler_does_not_hang(void)
{
    vl_shm_t *shm = make(4, CHILDREN), one = view(shm, 0);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket;

    enter(&one, a, &ticket);
    vl_segment_lock(&one);
    vl_slot_end(&one, &ticket, NULL);
    vl_segment_unlock(&one);
    ok(metrics(shm, a).running == 1, "what comes in while the lock is held "
       "here is not done,");
    vl_shm_parent_reclaim(shm, one.children[one.self].pid);
    ok(is_empty(shm), "and the parent makes good for it");
}

int main(void)
{
    segment_init();
    one_claims();
    grants_for_who_asks();
    lost_slots_come_back();
    processes_are_short();
    who_has_no_room_leaves_it();
    children_are_told();
    a_signal_handler_does_not_hang();
    end_sleepers();
    return tap_done();
}
