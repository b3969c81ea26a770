/* SPDX-License-Identifier: Apache-2.0 */
/* Reading usage, and placing forked programs. In a tree of its own if the kernel and the
 * user's rights allow, else only the pure functions. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <apr_general.h>
#include <apr_strings.h>

#include "tap.h"
#include "cgroup/vl_place.h"
#include "cost/vl_usage.h"

static apr_pool_t *pool;
static const vl_cgroup_limits_t none = { .weight = 100 };

static int parses_to(const char *text, apr_uint64_t want)
{
    apr_uint64_t us = 12345;

    return vl_usage_parse(text, &us) == APR_SUCCESS && us == want;
}

static int is_refused(const char *text)
{
    apr_uint64_t us;

    return vl_usage_parse(text, &us) == APR_EINVAL;
}

static void parses(void)
{
    ok(parses_to("0\n", 0), "v1: no usage");
    ok(parses_to("123456789\n", 123456), "v1: nanoseconds");
    ok(parses_to("18446744073709551615", 18446744073709551ULL), "v1: the greatest value");
    ok(parses_to("usage_usec 4711\nuser_usec 4000\n", 4711), "v2: cpu.stat");
    ok(is_refused(""), "nothing");
    ok(is_refused("nr_periods 0\n"), "v1's cpu.stat");
    ok(is_refused("-5"), "a sign");
    ok(is_refused("12x"), "a number with trailing text");
    ok(is_refused("usage_usec \n"), "a key without a number");
}

static void parses_kills(void)
{
    ok(vl_usage_parse_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
       == 3, "v1: three were ended");
    ok(vl_usage_parse_kills("low 0\nmax 9\noom 4\noom_kill 12\n"
                            "oom_group_kill 1\n") == 12, "v2: twelve");
    ok(vl_usage_parse_kills("") == 0, "no file");
}

/* The last arguments of `grown`, by account. */
static struct {
    int calls;
    apr_uint64_t us[4];
} heard;

static void grown(void *data, apr_uint32_t account, apr_uint64_t us,
                  int resident)
{
    heard.calls++;
    heard.us[account] = us;
}

static void killed(void *data, apr_uint32_t account, apr_uint64_t kills)
{
    ok(0, "account %u has no limit of its memory", account);
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void burn(void)
{
    double until = cpu_seconds() + 0.06;

    while (cpu_seconds() < until)
        ;
}

/* A process of the account that burns CPU time for 60 ms. */
static void burn_for(const vl_place_t *place, apr_uint32_t account)
{
    pid_t pid;

    vl_place_fork_for(place, account);
    pid = fork();
    if (!pid) {
        burn();
        _exit(0);
    }
    vl_place_fork_for(place, VL_PLACE_NONE);
    waitpid(pid, NULL, 0);
}

static void reads_usage_of_back_ends(vl_cgroup_t *cg)
{
    vl_place_t *place = vl_place_post_config_create(pool, cg, 4, 1000);
    vl_usage_t *usage = vl_usage_post_config_create(pool, cg, 4);
    apr_uint32_t open;

    vl_usage_post_config_add(usage, 1, "a:80", 0);
    vl_usage_post_config_add(usage, 2, "b:80", 0);
    ok(vl_place_post_config_add(place, 1, "a:80") == APR_SUCCESS,
       "descriptors for a");
    open = vl_place_open_count(place);
    ok(open > 1 && open - (vl_place_home_fd(place) >= 0)
       == vl_place_wanted_count(place), "all of them are open");
    vl_usage_child_read(usage, grown, killed, NULL);
    ok(heard.calls == 0, "groups without usage are not reported");
    burn_for(place, 1);
    vl_usage_child_read(usage, grown, killed, NULL);
    ok(heard.us[1] >= 50000 && heard.us[1] < 1000000,
       "the usage of a is that of its process: %d us", (int)heard.us[1]);
    ok(heard.us[2] == 0 && heard.calls == 1, "b used nothing");
    burn_for(place, VL_PLACE_NONE);
    vl_usage_child_read(usage, grown, killed, NULL);
    ok(heard.calls == 1, "CPU time outside of the groups is not reported");
    burn_for(place, 1);
    vl_usage_child_read(usage, grown, killed, NULL);
    ok(heard.calls == 2 && heard.us[1] >= 100000, "further usage is reported");
    vl_usage_child_close(usage);
}

/* Is the calling thread in the account's group, in some hierarchy? */
static int is_in(const char *account)
{
    char text[4096] = "";
    FILE *file = fopen("/proc/thread-self/cgroup", "r");

    if (file) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
    }
    return strstr(text, account) != NULL;
}

static void threads_enter_and_leave(vl_cgroup_t *cg)
{
    vl_place_t *place = vl_place_post_config_create(pool, cg, 4, 1000);
    vl_usage_t *usage = vl_usage_post_config_create(pool, cg, 4);
    apr_uint64_t before = heard.us[1];
    int fd;

    vl_place_post_config_add(place, 1, "a:80");
    fd = vl_place_thread_fd(place, 1);
    ok(fd >= 0 && vl_place_home_fd(place) >= 0, "a thread has a group to enter");
    ok(vl_place_enter(fd) == APR_SUCCESS && is_in("/a:80"), "in");
    burn();
    ok(vl_place_enter(vl_place_home_fd(place)) == APR_SUCCESS
       && !is_in("/a:80"), "the thread returns to its own group");
    vl_usage_post_config_add(usage, 1, "a:80", 0);
    vl_usage_child_read(usage, grown, killed, NULL);
    ok(heard.us[1] < before + 30000,
       "usage of the thread is not that of back ends: %d us",
       (int)(heard.us[1] - before));
    vl_usage_child_close(usage);
    ok(vl_place_thread_fd(place, 2) == -1, "b has no descriptor");
}

static void descriptors_are_bounded(vl_cgroup_t *cg)
{
    vl_place_t *place = vl_place_post_config_create(pool, cg, 4, 4);
    int i, without = 0;

    for (i = 0; i < 4; i++)
        without += vl_place_post_config_add(place, i, "a:80") == APR_ENOSPC;
    ok(without >= 2 && vl_place_open_count(place) <= 4,
       "no more descriptors are open than allowed");
}

static void a_group_that_is_gone(vl_cgroup_t *cg)
{
    vl_cgroup_t *same = vl_cgroup_open(vl_cgroup_path(cg), 0, cg);
    vl_place_t *place = vl_place_post_config_create(pool, cg, 4, 1000);
    vl_usage_t *usage = vl_usage_post_config_create(pool, cg, 4);

    vl_place_post_config_add(place, 1, "a:80");
    vl_usage_post_config_add(usage, 1, "a:80", 0);
    vl_usage_child_read(usage, grown, killed, NULL);
    vl_cgroup_add(same, "a:80", &none);
    vl_cgroup_add(same, "b:80", &none);
    vl_cgroup_remove_gone(same, NULL);
    ok(vl_place_enter(vl_place_thread_fd(place, 1)) != APR_SUCCESS,
       "a removed group accepts no thread");
    burn_for(place, 1);
    ok(1, "a process that is forked for a removed group runs");
    heard.calls = 0;
    vl_usage_child_read(usage, grown, killed, NULL);
    vl_usage_child_read(usage, grown, killed, NULL);
    ok(heard.calls == 0, "a removed group reports nothing");
}

static void with_a_tree(void)
{
    const char *path = apr_psprintf(pool, "/vl-unit-%d", (int)getpid());
    vl_cgroup_t *cg = vl_cgroup_open(path, 0, NULL);

    if (!vl_cgroup_thread_file(cg, pool, NULL)) {
        printf("# no tree: %s\n", vl_cgroup_reason(cg));
        vl_cgroup_remove_gone(cg, NULL);
        return;
    }
    printf("# %s\n", vl_cgroup_backend(cg));
    ok(vl_cgroup_add(cg, "a:80", &none) == APR_SUCCESS
       && vl_cgroup_add(cg, "b:80", &none) == APR_SUCCESS, "two groups");
    reads_usage_of_back_ends(cg);
    threads_enter_and_leave(cg);
    descriptors_are_bounded(cg);
    a_group_that_is_gone(cg);
    vl_cgroup_remove_gone(cg, NULL);
}

int main(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    parses();
    parses_kills();
    with_a_tree();
    return tap_done();
}
