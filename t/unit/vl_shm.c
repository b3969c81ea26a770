/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts found by name, restarts, and dead children. */
#include "segment.h"
#include "core/vl_slot.h"

#define ACCOUNTS 4
#define CHILDREN 3

static void counts_and_refuses(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account(shm, "a", 2), b = account(shm, "b", 0);
    vl_ticket_t one, two, other;
    vl_cost_t cost = { 800, 80, 0, NULL };
    vl_admission_t adm;

    ok(vl_slot_enter(shm, a, &adm) == APR_EINIT
       && vl_shm_child_wake_fd(shm) == -1, "a child without a column cannot enter");
    vl_shm_child_attach(shm, getpid(), 10);
    ok(enter(shm, a, &one) && enter(shm, a, &two), "two requests enter");
    ok(!enter(shm, a, &other), "the third request is refused");
    ok(enter(shm, b, &other), "another account is not affected");
    ok(metrics(shm, a).running == 2 && metrics(shm, a).refused == 1
       && metrics(shm, a).requests == 2, "counted");
    vl_slot_end(shm, &one, &cost);
    ok(enter(shm, a, &one), "a released slot is free");
    ok(metrics(shm, a).busy_us == 800 && metrics(shm, a).cpu_us == 80,
       "costs are added up");
    ok(valid(shm), "the segment is valid");
}

static void dry_run_admits(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account_with(shm, "a", limits_of(VL_MODE_DRYRUN, 1, 0));
    vl_ticket_t ticket;
    vl_admission_t adm;

    vl_shm_child_attach(shm, getpid(), 10);
    enter(shm, a, &ticket);
    ok(vl_slot_enter(shm, a, &adm) == APR_SUCCESS && adm.entered
       && adm.refused,
       "DryRun: the verdict is to refuse, and the request enters");
    ok(metrics(shm, a).would_refuse == 1 && metrics(shm, a).refused == 0
       && metrics(shm, a).running == 2,
       "DryRun: the request is counted as running and as would-refuse");
    ok(valid(shm), "the segment is valid");
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
    ok(c != a && c != b && d != a && d != b, "new names get new accounts");
    ok(account(shm, "e", 0) == a, "without a free account a new name gets an unused one");
    ok(account(shm, "f", 0) == NONE,
       "an account with a running request is kept");
    ok(valid(shm), "the segment is valid with it");
    end(shm, &ticket, 0);
    vl_shm_post_config_begin(shm);
    account(shm, "c", 0);
    account(shm, "d", 0);
    account(shm, "e", 0);
    ok(account(shm, "f", 0) == b, "an account without requests is reused");
    ok(metrics(shm, b).requests == 0 && snapshot(shm, b).service_us == 0,
       "a reused account starts at 0");
    ok(valid(shm), "the segment is valid");
}

static void waiting_keeps_an_account(void)
{
    vl_shm_t *shm = make(1, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);

    vl_slot_set(shm, 1);
    vl_shm_child_attach(shm, getpid(), 0);
    queue_one(shm, a, vl_clock_us());
    vl_shm_post_config_begin(shm);
    ok(account(shm, "b", 0) == NONE, "an account with a queued request is kept");
    vl_slot_unwait(shm, a);
    vl_shm_post_config_begin(shm);
    ok(account(shm, "b", 0) == a, "an account without queued requests is reused");
    ok(valid(shm), "the segment is valid");
}

static void a_thread_keeps_an_account(void)
{
    vl_shm_t *shm = make(1, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);

    vl_shm_child_attach(shm, getpid(), 8);
    vl_slot_occupy(shm, a, VL_OCCUPY);
    vl_shm_post_config_begin(shm);
    ok(account(shm, "b", 0) == NONE, "an account that occupies a thread is kept");
    vl_slot_unoccupy(shm, a);
    vl_shm_post_config_begin(shm);
    ok(account(shm, "b", 0) == a && valid(shm), "an account without threads is reused");
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
    ok(shm->queue.accounts[a].limits.weight == 250
       && shm->queue.accounts[a].limits.concurrency == 3, "the queue has the newest limits");
    ok(valid(shm), "the segment is valid");
}

/* A child that enters and then waits for its death. */
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

static void dead_children_release(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);
    pid_t one = child(shm, a, 3);

    ok(metrics(shm, a).running == 3 && vl_shm_child_count(shm) == 1,
       "a dead child's requests are still counted");
    ok(valid(shm), "the segment is valid with them");
    ok(vl_shm_parent_reclaim(shm, one) == 3,
       "the parent reclaims them");
    ok(metrics(shm, a).running == 0 && vl_shm_child_count(shm) == 0,
       "none of them is counted any more");
    ok(vl_shm_parent_reclaim(shm, one) == 0, "they are reclaimed once");
    ok(valid(shm), "the segment is valid without them");
    child(shm, a, 1);
    child(shm, a, 1);
    child(shm, a, 1);
    ok(vl_shm_child_attach(shm, getpid(), 10) == APR_SUCCESS,
       "a new child gets a column before the parent has reclaimed one");
    ok(metrics(shm, a).running < 3, "the column was that of a dead child");
    ok(valid(shm), "the segment is valid");
}

static void another_child_frees_the_slots(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN), dead;
    apr_uint32_t a = account(shm, "a", 0);
    pid_t one = child(shm, a, 3);

    dead = *shm;
    dead.self = 0;
    vl_shm_child_died(&dead, one + 1);
    vl_shm_child_reclaim_dead(shm);
    ok(metrics(shm, a).running == 3,
       "the death of a child that had the column before frees nothing of the child that has it");
    vl_shm_child_died(&dead, one);
    vl_shm_child_reclaim_dead(shm);
    ok(metrics(shm, a).running == 0, "another child frees the slots of a dead child");
    ok(valid(shm), "the segment is valid without them");
    ok(vl_shm_child_count(shm) == 1 && vl_shm_parent_reclaim(shm, one) == 3,
       "the parent reclaims the column and learns what the child held");
    ok(vl_shm_child_count(shm) == 0, "the column is free");
}

static void a_pid_is_reused(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);
    vl_ticket_t ticket;

    vl_shm_child_attach(shm, getpid(), 10);
    enter(shm, a, &ticket);
    vl_shm_child_attach(shm, getpid(), 10);
    ok(metrics(shm, a).running == 0 && vl_shm_child_count(shm) == 1,
       "a process with the pid of a dead child does not have its requests");
    ok(valid(shm), "the segment is valid");
}

static void too_many_children(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    apr_uint32_t a = account(shm, "a", 0);
    vl_admission_t adm;
    int i;

    for (i = 0; i < CHILDREN; i++)
        view(shm, i, 10);
    ok(vl_shm_child_attach(shm, getpid(), 10) == APR_ENOSPC
       && vl_shm_child_count(shm) == CHILDREN,
       "a child without a free column is refused");
    ok(vl_slot_enter(shm, a, &adm) == APR_EINIT
       && vl_shm_child_wake_fd(shm) == -1, "a child without a column cannot enter");
    end_sleepers();
    ok(vl_shm_child_attach(shm, getpid(), 10) == APR_SUCCESS,
       "the column of a dead child is free");
    ok(valid(shm), "the segment is valid");
}

/* All children are views of the segment in this process. */
static void children_stand_by(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN), child[CHILDREN];
    apr_int64_t now_us = vl_clock_us();
    pid_t pid = fork();
    int i;

    if (!pid)
        _exit(0);
    waitpid(pid, NULL, 0);
    for (i = 0; i < CHILDREN; i++) {
        child[i] = *shm;
        child[i].self = (apr_uint32_t)i;
    }
    shm->head->processors = 1;
    ok(!vl_shm_child_is_standby(shm, now_us) && !vl_shm_child_is_standby(&child[2], now_us),
       "no child accepts: none stands by");
    vl_shm_child_set_accepting(&child[1], now_us);
    ok(vl_shm_child_is_standby(&child[0], now_us)
       && !vl_shm_child_is_standby(&child[1], now_us)
       && vl_shm_child_is_standby(&child[2], now_us),
       "one accepts: the others stand by");
    ok(vl_shm_child_is_standby(&child[2], now_us + 299000)
       && !vl_shm_child_is_standby(&child[2], now_us + 300000),
       "a child that has not said so for 0.3 s does not count");
    shm->head->processors = 2;
    ok(!vl_shm_child_is_standby(&child[2], now_us), "two processors: two accept");
    vl_shm_child_set_accepting(&child[0], now_us);
    ok(vl_shm_child_is_standby(&child[2], now_us), "... and a third one stands by");
    vl_shm_child_set_accepting(&child[2], now_us);
    ok(!vl_shm_child_is_standby(&child[0], now_us) && !vl_shm_child_is_standby(&child[1], now_us)
       && vl_shm_child_is_standby(&child[2], now_us), "... the last one, if all three accept");
    vl_shm_child_set_accepting(&child[2], 0);
    ok(vl_shm_child_set_accepting(&child[0], 0) && !vl_shm_child_set_accepting(&child[0], 0),
       "only the call that ends it says that it took connections");
    ok(!vl_shm_child_is_standby(&child[2], now_us), "until one of them stops");
    shm->head->processors = 1;
    shm->children[1].pid = pid;
    shm->head->columns = CHILDREN;
    vl_shm_parent_reclaim(shm, pid);
    ok(!vl_shm_child_is_standby(&child[2], now_us), "or dies");
}

static void names_have_a_bound(void)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    char name[VL_NAME_SIZE + 1];

    memset(name, 'x', VL_NAME_SIZE);
    name[VL_NAME_SIZE] = '\0';
    ok(account(shm, name, 0) == NONE, "a name that is too long is refused");
    name[VL_NAME_SIZE - 1] = '\0';
    ok(account(shm, name, 0) == 0, "the longest name is accepted");
    ok(valid(shm), "the segment is valid");
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);   /* it forks */
    segment_init();
    counts_and_refuses();
    dry_run_admits();
    restarts_keep_names();
    waiting_keeps_an_account();
    a_thread_keeps_an_account();
    limits_follow_the_configuration();
    dead_children_release();
    another_child_frees_the_slots();
    a_pid_is_reused();
    too_many_children();
    children_stand_by();
    names_have_a_bound();
    return tap_done();
}
