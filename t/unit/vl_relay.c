/* SPDX-License-Identifier: Apache-2.0 */
/* With prefork one child accepts for all. Here one process is all children (segment.h). */
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include "segment.h"
#include "accept/vl_relay.h"
#include "core/vl_engage.h"
#include "core/vl_slot.h"

#define CHILDREN 4

/* Children of a dormant server do not ask. */
static vl_shm_t *make_engaged(void)
{
    vl_shm_t *shm = make(4, CHILDREN);

    vl_engage_post_config(shm, 0);
    return shm;
}

static int fd_open(void)
{
    return open("/dev/null", O_RDONLY);
}

/* The acceptor takes a slot of the account and sends it. */
static apr_status_t send_slot(vl_shm_t *acceptor, const int pair[2],
                              apr_uint32_t a, vl_ticket_t *ret_ticket)
{
    vl_item_t item = { .grant = { .holds = 1 } };
    apr_status_t rv = vl_slot_ask(acceptor, a, VL_ASK_NEW, 0, &item.grant.ticket);
    int fd = fd_open();

    if (rv == APR_SUCCESS)
        rv = vl_relay_acceptor_send(acceptor, pair, &item, fd);
    *ret_ticket = item.grant.ticket;
    close(fd);
    return rv;
}

/* A child claims to be the acceptor, another one asks, and the slot of the account is sent to it.
 * Returns the account. */
static apr_uint32_t one_sent_to_two(vl_shm_t *shm, vl_shm_t *one, vl_shm_t *two, int pair[2],
                                    vl_ticket_t *ret_ticket)
{
    apr_uint32_t a = account(shm, "a", 0);

    vl_slot_set(shm, 1);
    vl_transfer_create(0, pair);
    vl_relay_claim(one);
    vl_relay_child_ask(two);
    send_slot(one, pair, a, ret_ticket);
    return a;
}

static void one_claims(void)
{
    vl_shm_t *shm = make_engaged(), one = view(shm, 0, 1), two = view(shm, 1, 1);

    ok(!vl_relay_has_acceptor(shm) && vl_relay_claim(&one)
       && vl_relay_has_acceptor(shm), "a child that finds no acceptor becomes it");
    ok(!vl_relay_claim(&two), "another child does not become it");
    vl_relay_acceptor_resign(&one);
    ok(vl_relay_claim(&two), "another child becomes it after it resigned");
    kill_sleeper(1);
    vl_shm_parent_reclaim(shm, two.children[two.self].pid);
    ok(!vl_relay_has_acceptor(shm) && vl_relay_claim(&one),
       "another child becomes it after it died");
    ok(!validate(shm), "the segment is valid");
}

static void grants_only_to_asking_children(void)
{
    vl_shm_t *shm = make_engaged(), one = view(shm, 0, 1), two = view(shm, 1, 1);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket;
    vl_item_t item;
    int pair[2], fd = -1;

    vl_slot_set(shm, 2);
    vl_transfer_create(0, pair);
    vl_relay_claim(&one);
    ok(send_slot(&one, pair, a, &ticket) == APR_EAGAIN,
       "no slot is sent while no child asks");
    queue_one(&one, a, vl_clock_us());
    ok(!vl_slot_granted(&one), "no slot is granted while no child asks");
    vl_relay_child_ask(&two);
    ok(vl_slot_granted(&one) && vl_slot_take(&one, &ticket) == APR_SUCCESS,
       "a slot is granted when a child asks");
    vl_slot_end(&one, &ticket, NULL);
    ok(send_slot(&one, pair, a, &ticket) == APR_SUCCESS, "the slot is sent");
    ok(vl_relay_child_receive(&two, pair, 1, &item, &fd) == APR_SUCCESS
       && item.grant.holds && fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC,
       "the child receives it with its descriptor");
    ok(one.children[one.self].running == 0
       && two.children[two.self].running == 1 && !validate(shm),
       "the child holds the slot");
    ok(send_slot(&one, pair, a, &ticket) == APR_EAGAIN, "the child no longer asks");
    vl_slot_end(&two, &item.grant.ticket, NULL);
    ok(is_empty(shm), "the segment is empty");
    close(fd);
}

static void lost_slots_are_released(void)
{
    vl_shm_t *shm = make_engaged(), one = view(shm, 0, 1), two = view(shm, 1, 1);
    apr_int64_t later = vl_clock_us() + 10 * APR_USEC_PER_SEC;
    vl_ticket_t ticket;
    vl_passed_t passed;
    vl_item_t item;
    int pair[2], fd = -1;
    apr_uint32_t a = one_sent_to_two(shm, &one, &two, pair, &ticket);

    vl_relay_acceptor_tidy(&one, pair, later);
    ok(one.children[one.self].running == 1, "an unread item is kept");
    vl_relay_acceptor_recall(pair, &passed, &fd);        /* the child dies after this */
    close(fd);
    vl_relay_acceptor_tidy(&one, pair, vl_clock_us());
    ok(one.children[one.self].running == 1, "the slot of an item that was just read is kept");
    vl_relay_acceptor_tidy(&one, pair, later);
    ok(is_empty(shm), "it is released after a second");
    send_slot(&one, pair, a, &ticket);
    vl_relay_acceptor_resign(&one);
    ok(is_empty(shm), "an acceptor that resigns releases the slots of unread items");
    ok(vl_relay_child_receive(&two, pair, 1, &item, &fd) == APR_SUCCESS
       && !item.grant.holds && is_empty(shm), "its connection arrives without the slot");
    close(fd);
}

static void processes_are_short(void)
{
    vl_shm_t *shm = make_engaged(), one = view(shm, 0, 1), two = view(shm, 1, 1);
    apr_uint32_t a = account(shm, "a", 0);

    vl_relay_claim(&one);
    vl_slot_set_mpm(shm, 3, 0);
    ok(!vl_slot_threads_are_short(&two), "not short: nothing is queued, and more children may start");
    vl_slot_set_mpm(shm, 2, 0);
    ok(vl_slot_threads_are_short(&two), "short: no more children may start");
    vl_slot_set_mpm(shm, 3, 0);
    queue_one(&one, a, 1);
    ok(vl_slot_threads_are_short(&two), "short: a connection is queued, and no child asks");
    vl_slot_unwait(&one, a);
    vl_relay_child_ask(&two);
    vl_slot_set_mpm(shm, 2, 0);
    ok(!vl_slot_threads_are_short(&two), "not short: a child asks");
}

/* Prevents further open descriptors; returns the former limit. */
static struct rlimit use_all_descriptors(void)
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

static void full_children_leave_items(void)
{
    vl_shm_t *shm = make_engaged(), one = view(shm, 0, 1), two = view(shm, 1, 1);
    struct rlimit limit;
    vl_ticket_t ticket;
    vl_item_t item;
    int pair[2], fd;

    one_sent_to_two(shm, &one, &two, pair, &ticket);
    limit = use_all_descriptors();
    ok(vl_relay_child_receive(&two, pair, 1, &item, &fd) == APR_EMFILE
       && vl_relay_pending(pair), "a child without descriptors leaves the item");
    setrlimit(RLIMIT_NOFILE, &limit);
    ok(vl_relay_child_receive(&two, pair, 1, &item, &fd) == APR_SUCCESS
       && item.grant.holds, "it receives the item when it has a descriptor");
    close(fd);
    vl_slot_end(&two, &item.grant.ticket, NULL);
    ok(is_empty(shm), "the segment is empty");
}

static void parent_wakes_children(void)
{
    vl_shm_t *shm = make_engaged(), one = view(shm, 0, 1), two = view(shm, 1, 1);
    vl_item_t item;
    int pair[2], fd;

    vl_transfer_create(0, pair);
    vl_relay_parent_check(shm);
    ok(!shm->head->unclaimed, "the parent wakes no child if there never was an acceptor");
    vl_relay_claim(&one);
    vl_relay_acceptor_resign(&one);
    vl_relay_child_ask(&two);
    vl_relay_parent_check(shm);
    ok(shm->head->unclaimed == 1
       && vl_relay_child_receive(&two, pair, 1, &item, &fd) == APR_EAGAIN
       && !shm->head->unclaimed, "the parent wakes a child when the acceptor has ended");
    ok(vl_relay_claim(&two) && !validate(shm), "the child becomes the acceptor");
}

/* --- children that sleep --------------------------------------------------- */

/* A process with the child's column: serves connections, and writes its name for each. */
static pid_t start_serving(vl_shm_t *child, const int pair[2], int to, char name)
{
    pid_t pid = fork();
    vl_item_t item;
    int fd;

    while (!pid) {
        vl_relay_child_ask(child);
        while (vl_relay_child_receive(child, pair, 1, &item, &fd) != APR_SUCCESS)
            ;
        close(fd);
        vl_slot_end(child, &item.grant.ticket, NULL);
        if (write(to, &name, 1) != 1)
            _exit(1);
    }
    return pid;
}

/* Returns 1 if the kernel says that the process sleeps. */
static int is_sleeping(pid_t pid)
{
    char path[64], state = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file && fscanf(file, "%*d %*s %c", &state) != 1)
        state = 0;
    if (file)
        fclose(file);
    return state == 'S';
}

static void await_sleep(const vl_shm_t *child, pid_t pid)
{
    int tries = 10000;

    while (tries-- && !(__atomic_load_n(&child->sleeping[child->self], __ATOMIC_SEQ_CST)
                        && is_sleeping(pid)))
        poll(NULL, 0, 1);
}

/* Returns the name of the child that served, or '?' after ten seconds. */
static char served_by(int from)
{
    struct pollfd pfd = { from, POLLIN, 0 };
    char name = '?';

    if (poll(&pfd, 1, 10000) == 1 && read(from, &name, 1) != 1)
        name = '?';
    return name;
}

static void the_first_child_serves(void)
{
    vl_shm_t *shm = make_engaged(), one = view(shm, 0, 1), two = view(shm, 1, 1),
             three = view(shm, 2, 1);
    apr_uint32_t a = account(shm, "a", 0);
    char names[7] = "";
    vl_ticket_t ticket;
    int pair[2], names_pipe[2], i;
    pid_t pids[2];

    vl_slot_set(shm, 2);
    if (vl_transfer_create(0, pair) != APR_SUCCESS || pipe(names_pipe))
        abort();
    vl_relay_claim(&one);
    pids[0] = start_serving(&two, pair, names_pipe[1], '2');
    pids[1] = start_serving(&three, pair, names_pipe[1], '3');
    for (i = 0; i < 5; i++) {
        await_sleep(&two, pids[0]);
        await_sleep(&three, pids[1]);
        send_slot(&one, pair, a, &ticket);
        names[i] = served_by(names_pipe[0]);
    }
    await_sleep(&two, pids[0]);
    kill(pids[0], SIGKILL);
    waitpid(pids[0], NULL, 0);
    send_slot(&one, pair, a, &ticket);
    names[i] = served_by(names_pipe[0]);
    ok(!strcmp(names, "222223"), "the first child that sleeps serves, the next one when it has "
       "died (%s)", names);
    kill(pids[1], SIGKILL);
    waitpid(pids[1], NULL, 0);
    close(names_pipe[0]);
    close(names_pipe[1]);
}

static void a_woken_child_dies(void)
{
    vl_shm_t *shm = make_engaged(), one = view(shm, 0, 1), two = view(shm, 1, 1);
    vl_ticket_t ticket;
    vl_item_t item;
    int pair[2], fd = -1;

    one_sent_to_two(shm, &one, &two, pair, &ticket);
    shm->head->unclaimed = 0;       /* a child has taken it, and died */
    vl_relay_acceptor_tidy(&one, pair, vl_clock_us());
    ok(vl_relay_child_receive(&two, pair, 1, &item, &fd) == APR_SUCCESS && item.grant.holds,
       "another child receives the connection for which a child was woken that died");
    close(fd);
    vl_slot_end(&two, &item.grant.ticket, NULL);
    ok(is_empty(shm), "the segment is empty");
}

static void a_signal_handler_does_not_hang(void)
{
    vl_shm_t *shm = make_engaged(), one = view(shm, 0, 1);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket;

    enter(&one, a, &ticket);
    vl_segment_lock(&one);
    vl_slot_end(&one, &ticket, NULL);
    vl_segment_unlock(&one);
    ok(metrics(shm, a).running == 1, "a call by a signal handler while the lock "
       "is held has no effect");
    vl_shm_parent_reclaim(shm, one.children[one.self].pid);
    ok(is_empty(shm), "the parent releases the slot");
}

int main(void)
{
    segment_init();
    one_claims();
    grants_only_to_asking_children();
    lost_slots_are_released();
    processes_are_short();
    full_children_leave_items();
    parent_wakes_children();
    the_first_child_serves();
    a_woken_child_dies();
    a_signal_handler_does_not_hang();
    end_sleepers();
    return tap_done();
}
