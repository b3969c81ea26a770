/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apr_general.h>
#include <apr_strings.h>

#include "tap.h"
#include "vl_shm.h"

#define ACCOUNTS 4
#define CHILDREN 3

static apr_pool_t *pool;

static vl_shm_t *make(void)
{
    vl_shm_t *shm = NULL;

    if (vl_shm_post_config_create(pool, ACCOUNTS, CHILDREN, &shm)
        != APR_SUCCESS)
        abort();
    vl_shm_post_config_begin(shm);
    return shm;
}

static apr_uint32_t account(vl_shm_t *shm, const char *name,
                            apr_uint32_t concurrency)
{
    vl_limits_t limits = { VL_MODE_ON, concurrency };
    apr_uint32_t number = 0;

    if (vl_shm_post_config_account(shm, name, &limits, &number)
        != APR_SUCCESS)
        return (apr_uint32_t)-1;
    return number;
}

static vl_metrics_t metrics(vl_shm_t *shm, apr_uint32_t a)
{
    vl_account_snapshot_t snapshot;

    if (vl_shm_snapshot(shm, a, &snapshot) != APR_SUCCESS)
        abort();
    return snapshot.metrics;
}

static int enter(vl_shm_t *shm, apr_uint32_t a)
{
    vl_admission_t admission;

    return vl_shm_req_enter(shm, a, &admission) == APR_SUCCESS
           && admission.entered;
}

static int valid(vl_shm_t *shm)
{
    const char *why = vl_shm_validate(shm);

    if (why)
        printf("# broken: %s\n", why);
    return !why;
}

static void counts_and_refuses(void)
{
    vl_shm_t *shm = make();
    apr_uint32_t a = account(shm, "a", 2), b = account(shm, "b", 0);
    vl_admission_t adm;

    ok(vl_shm_req_enter(shm, a, &adm) == APR_EINIT,
       "who has no column cannot enter");
    vl_shm_child_attach(shm, getpid());
    ok(enter(shm, a) && enter(shm, a), "two enter");
    ok(!enter(shm, a), "the third is refused");
    ok(enter(shm, b), "another account is not concerned");
    ok(metrics(shm, a).running == 2 && metrics(shm, a).refused == 1
       && metrics(shm, a).requests == 2, "counted");
    vl_shm_req_leave(shm, a, 800, 80);
    ok(enter(shm, a), "a place was given back");
    ok(metrics(shm, a).busy_us == 800 && metrics(shm, a).cpu_us == 80,
       "costs are added up");
    ok(valid(shm), "state holds");
}

static void dry_run_lets_in(void)
{
    vl_shm_t *shm = make();
    vl_limits_t limits = { VL_MODE_DRYRUN, 1 };
    vl_admission_t adm;
    apr_uint32_t a;

    vl_shm_post_config_account(shm, "a", &limits, &a);
    vl_shm_child_attach(shm, getpid());
    enter(shm, a);
    ok(vl_shm_req_enter(shm, a, &adm) == APR_SUCCESS && adm.entered
       && adm.decision.verdict == VL_REFUSE,
       "DryRun: the verdict is to refuse, yet it enters");
    ok(metrics(shm, a).would_refuse == 1 && metrics(shm, a).refused == 0
       && metrics(shm, a).running == 2, "and is counted so");
}

static void restarts_keep_names(void)
{
    vl_shm_t *shm = make();
    apr_uint32_t a = account(shm, "a", 5), b = account(shm, "b", 0), c, d;

    vl_shm_child_attach(shm, getpid());
    enter(shm, b);
    vl_shm_post_config_begin(shm);
    ok(account(shm, "b", 1) == b, "an account is found by name");
    ok(!enter(shm, b), "its running request counts against the new limit");
    vl_shm_post_config_begin(shm);
    c = account(shm, "c", 0);
    d = account(shm, "d", 0);
    ok(c != a && c != b && d != a && d != b, "new names get new numbers");
    ok(account(shm, "e", 0) == a, "then the room of an unused one");
    ok(account(shm, "f", 0) == (apr_uint32_t)-1,
       "never that of one in which something runs");
    vl_shm_req_leave(shm, b, 0, 0);
    vl_shm_post_config_begin(shm);
    account(shm, "c", 0);
    account(shm, "d", 0);
    account(shm, "e", 0);
    ok(account(shm, "f", 0) == b, "once it has ended, it may go");
    ok(metrics(shm, b).requests == 0, "a new name starts from nothing");
    ok(valid(shm), "state holds");
}

/* A child that enters and then does as it is told. */
static pid_t child(vl_shm_t *shm, apr_uint32_t a, int requests)
{
    pid_t pid = fork();

    if (!pid) {
        vl_shm_child_attach(shm, getpid());
        while (requests--)
            enter(shm, a);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    return pid;
}

static void the_dead_give_back(void)
{
    vl_shm_t *shm = make();
    apr_uint32_t a = account(shm, "a", 0);
    pid_t one = child(shm, a, 3);

    ok(metrics(shm, a).running == 3 && vl_shm_children(shm) == 1,
       "a dead child's requests are still counted");
    ok(vl_shm_parent_reclaim(shm, one) == 3, "until the parent takes them back");
    ok(metrics(shm, a).running == 0 && vl_shm_children(shm) == 0, "all of them");
    ok(vl_shm_parent_reclaim(shm, one) == 0, "once");
    child(shm, a, 1);
    child(shm, a, 1);
    child(shm, a, 1);
    ok(vl_shm_child_attach(shm, getpid()) == APR_SUCCESS,
       "a newcomer finds room although the parent has heard of no death");
    ok(metrics(shm, a).running < 3, "by taking it from the dead");
    ok(valid(shm), "state holds");
}

static void too_many_children(void)
{
    vl_shm_t *shm = make();
    int i;

    for (i = 0; i < CHILDREN; i++) {
        /* pid 1 and our own parent are alive; so are we */
        pid_t alive[] = { 1, getppid(), getpid() };

        vl_shm_child_attach(shm, alive[i]);
    }
    ok(vl_shm_child_attach(shm, getpgrp() == getpid() ? 2 : getpgrp())
       != APR_SUCCESS || vl_shm_children(shm) <= CHILDREN,
       "never more columns than there are");
    ok(valid(shm), "state holds");
}

/* Many processes enter and leave; some are killed at any instruction. */
static void kills_leave_nothing(void)
{
    vl_shm_t *shm = make();
    apr_uint32_t a = account(shm, "a", 7);
    int round;

    for (round = 0; round < 200; round++) {
        pid_t pid = fork();

        if (!pid) {
            vl_shm_child_attach(shm, getpid());
            for (;;) {
                if (enter(shm, a))
                    vl_shm_req_leave(shm, a, 1, 1);
            }
        }
        usleep(200 + (useconds_t)(rand() % 800));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        vl_shm_parent_reclaim(shm, pid);
    }
    ok(metrics(shm, a).running == 0, "200 killed children hold nothing");
    ok(metrics(shm, a).requests > 200, "though they worked");
    ok(valid(shm), "state holds");
}

static void names_have_a_bound(void)
{
    vl_shm_t *shm = make();
    char name[VL_NAME_SIZE + 1];

    memset(name, 'x', VL_NAME_SIZE);
    name[VL_NAME_SIZE] = '\0';
    ok(account(shm, name, 0) == (apr_uint32_t)-1, "too long a name is refused");
    name[VL_NAME_SIZE - 1] = '\0';
    ok(account(shm, name, 0) == 0, "the longest fits");
}

int main(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    counts_and_refuses();
    dry_run_lets_in();
    restarts_keep_names();
    the_dead_give_back();
    too_many_children();
    kills_leave_nothing();
    names_have_a_bound();
    return tap_done();
}
