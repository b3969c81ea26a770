/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts found by name, restarts, and children that die. */
#include <sys/poll.h>

#include "segment.h"
#include "core/vl_thread.h"

#define ACCOUNTS 4
#define CHILDREN 3

static void counts_and_refuses(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account(shm, "a", 2), b = account(shm, "b", 0);
    vl_ticket_t one, two, other;
    vl_cost_t cost = { 800, 80, 0, 0 };
    vl_admission_t adm;

    ok(vl_slot_enter(shm, a, &adm) == APR_EINIT
       && vl_shm_child_wake_fd(shm) == -1, "a child without a column cannot enter");
    vl_shm_child_attach(shm, getpid(), 10);
    ok(enter(shm, a, &one) && enter(shm, a, &two), "two enter");
    ok(!enter(shm, a, &other), "the third is refused");
    ok(enter(shm, b, &other), "another account is not concerned");
    ok(metrics(shm, a).running == 2 && metrics(shm, a).refused == 1
       && metrics(shm, a).requests == 2, "counted");
    vl_slot_end(shm, &one, &cost);
    ok(enter(shm, a, &one), "a place was given back");
    ok(metrics(shm, a).busy_us == 800 && metrics(shm, a).cpu_us == 80,
       "costs are added up");
    ok(valid(shm), "state holds");
}

static void dry_run_lets_in(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account_with(shm, "a", limits_of(VL_MODE_DRYRUN, 1, 0));
    vl_ticket_t ticket;
    vl_admission_t adm;

    vl_shm_child_attach(shm, getpid(), 10);
    enter(shm, a, &ticket);
    ok(vl_slot_enter(shm, a, &adm) == APR_SUCCESS && adm.entered
       && adm.decision.verdict == VL_REFUSE,
       "DryRun: the verdict is to refuse, yet it enters");
    ok(metrics(shm, a).would_refuse == 1 && metrics(shm, a).refused == 0
       && metrics(shm, a).running == 2, "and is counted so");
    ok(valid(shm), "state holds");
}

static void restarts_keep_names(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account(shm, "a", 5), b = account(shm, "b", 0), c, d;
    vl_ticket_t ticket, other;

    vl_shm_child_attach(shm, getpid(), 10);
    enter(shm, b, &ticket);
    vl_shm_post_config_begin(shm);
    ok(account(shm, "b", 1) == b, "an account is found by name");
    ok(!enter(shm, b, &other),
       "its running request counts against the new limit");
    vl_shm_post_config_begin(shm);
    c = account(shm, "c", 0);
    d = account(shm, "d", 0);
    ok(c != a && c != b && d != a && d != b, "new names get new numbers");
    ok(account(shm, "e", 0) == a, "then the room of an unused one");
    ok(account(shm, "f", 0) == NONE,
       "never that of one in which something runs");
    ok(valid(shm), "state holds with it");
    end(shm, &ticket, 0);
    vl_shm_post_config_begin(shm);
    account(shm, "c", 0);
    account(shm, "d", 0);
    account(shm, "e", 0);
    ok(account(shm, "f", 0) == b, "once it has ended, it may go");
    ok(metrics(shm, b).requests == 0 && snapshot(shm, b).service_us == 0,
       "a new name starts from nothing");
    ok(valid(shm), "state holds");
}

static void waiting_keeps_an_account(void)
{
    vl_shm_t *shm = make(1, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);

    vl_slot_set(shm, 1);
    vl_shm_child_attach(shm, getpid(), 0);
    vl_slot_wait(shm, a, vl_clock_us());
    vl_shm_post_config_begin(shm);
    ok(account(shm, "b", 0) == NONE, "nor that of an account with a queued request");
    vl_slot_unwait(shm, a);
    vl_shm_post_config_begin(shm);
    ok(account(shm, "b", 0) == a, "until that has gone");
    ok(valid(shm), "state holds");
}

static void a_thread_keeps_an_account(void)
{
    vl_shm_t *shm = make(1, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);

    vl_shm_child_attach(shm, getpid(), 8);
    vl_thread_occupy(shm, a);
    vl_shm_post_config_begin(shm);
    ok(account(shm, "b", 0) == NONE, "nor that of one that occupies a thread");
    vl_thread_free(shm, a);
    vl_shm_post_config_begin(shm);
    ok(account(shm, "b", 0) == a && valid(shm), "until that is free");
}

static void limits_follow_the_configuration(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    vl_limits_t limits = { VL_MODE_ON, 250, 3, 7 };
    apr_uint32_t a = account(shm, "a", 1);
    vl_account_snapshot_t snap;

    vl_shm_post_config_begin(shm);
    account_with(shm, "a", limits);
    snap = snapshot(shm, a);
    ok(!strcmp(snap.name, "a") && !memcmp(&snap.limits, &limits,
                                          sizeof(limits)),
       "a snapshot shows the name and the newest limits");
    ok(shm->queue.flows[a].limits.weight == 250
       && shm->queue.flows[a].limits.concurrency == 3, "the queue has them too");
    ok(valid(shm), "state holds");
}

/* A child that enters and then does as it is told. */
static pid_t child(vl_shm_t *shm, apr_uint32_t a, int requests)
{
    pid_t pid = fork();
    vl_ticket_t ticket;

    if (!pid) {
        vl_shm_child_attach(shm, getpid(), 10);
        while (requests--)
            enter(shm, a, &ticket);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    return pid;
}

static void the_dead_give_back(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);
    pid_t one = child(shm, a, 3);

    ok(metrics(shm, a).running == 3 && vl_shm_child_count(shm) == 1,
       "a dead child's requests are still counted");
    ok(valid(shm), "state holds with them");
    ok(vl_shm_parent_reclaim(shm, one) == 3,
       "until the parent takes them back");
    ok(metrics(shm, a).running == 0 && vl_shm_child_count(shm) == 0,
       "all of them");
    ok(vl_shm_parent_reclaim(shm, one) == 0, "once");
    ok(valid(shm), "state holds without");
    child(shm, a, 1);
    child(shm, a, 1);
    child(shm, a, 1);
    ok(vl_shm_child_attach(shm, getpid(), 10) == APR_SUCCESS,
       "a newcomer finds room although the parent has heard of no death");
    ok(metrics(shm, a).running < 3, "by taking it from the dead");
    ok(valid(shm), "state holds");
}

static void a_number_comes_again(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket;

    vl_shm_child_attach(shm, getpid(), 10);
    enter(shm, a, &ticket);
    vl_shm_child_attach(shm, getpid(), 10);
    ok(metrics(shm, a).running == 0 && vl_shm_child_count(shm) == 1,
       "a process with the number of a dead child does not have its requests");
    ok(valid(shm), "state holds");
}

static void too_many_children(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);
    pid_t pid[CHILDREN + 1];
    vl_admission_t adm;
    int i;

    for (i = 0; i <= CHILDREN; i++) {
        pid[i] = fork();
        if (!pid[i]) {
            poll(NULL, 0, -1);
            _exit(0);
        }
    }
    for (i = 0; i < CHILDREN; i++)
        vl_shm_child_attach(shm, pid[i], 10);
    ok(vl_shm_child_attach(shm, pid[CHILDREN], 10) == APR_ENOSPC
       && vl_shm_child_count(shm) == CHILDREN,
       "never more columns than there are");
    ok(vl_slot_enter(shm, a, &adm) == APR_EINIT
       && vl_shm_child_wake_fd(shm) == -1, "a child that got no column can do nothing");
    for (i = 0; i <= CHILDREN; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    ok(vl_shm_child_attach(shm, getpid(), 10) == APR_SUCCESS,
       "a death makes room");
    ok(valid(shm), "state holds");
}

static void work(vl_shm_t *shm, apr_uint32_t a)
{
    vl_ticket_t ticket;

    vl_shm_child_attach(shm, getpid(), 10);
    for (;;) {
        if (enter(shm, a, &ticket))
            end(shm, &ticket, 1);
    }
}

/* Many processes enter and leave; some are killed at any instruction. */
static void kills_leave_nothing(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account(shm, "a", 7), broken = 0;
    int round;

    for (round = 0; round < 200; round++) {
        pid_t pid = fork();

        if (!pid)
            work(shm, a);
        usleep(200 + (useconds_t)(rand() % 800));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        vl_shm_parent_reclaim(shm, pid);
        broken += !valid(shm);
    }
    ok(is_empty(shm), "200 killed children hold nothing");
    ok(metrics(shm, a).requests > 200, "though they worked");
    ok(!broken, "state held after each");
}

static void names_have_a_bound(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    char name[VL_NAME_SIZE + 1];

    memset(name, 'x', VL_NAME_SIZE);
    name[VL_NAME_SIZE] = '\0';
    ok(account(shm, name, 0) == NONE, "too long a name is refused");
    name[VL_NAME_SIZE - 1] = '\0';
    ok(account(shm, name, 0) == 0, "the longest fits");
    ok(valid(shm), "state holds");
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);   /* it forks */
    segment_init();
    counts_and_refuses();
    dry_run_lets_in();
    restarts_keep_names();
    waiting_keeps_an_account();
    a_thread_keeps_an_account();
    limits_follow_the_configuration();
    the_dead_give_back();
    a_number_comes_again();
    too_many_children();
    kills_leave_nothing();
    names_have_a_bound();
    return tap_done();
}
