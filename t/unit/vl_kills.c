/* SPDX-License-Identifier: Apache-2.0 */
/* Reading kills, and placing threads and forked programs. In a tree of its own if the kernel and the
 * user's rights allow, else only the pure functions. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apr_general.h>
#include <apr_strings.h>

#include "tap.h"
#include "cgroup/vl_place.h"
#include "cost/vl_kills.h"

static apr_pool_t *pool;
static const vl_cgroup_limits_t none = { .weight = 100 };

static void parses_kills(void)
{
    ok(vl_kills_parse("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
       == 3, "v1: three were ended");
    ok(vl_kills_parse("low 0\nmax 9\noom 4\noom_kill 12\n"
                            "oom_group_kill 1\n") == 12, "v2: twelve");
    ok(vl_kills_parse("") == 0, "no file");
}

static void opens_descriptors(vl_cgroup_t *cg)
{
    vl_place_t *place = vl_place_post_config_create(pool, cg, 4, 1000);
    apr_uint32_t open;

    ok(vl_place_post_config_add(place, 1, "a:80") == APR_SUCCESS,
       "descriptors for a");
    open = place->open;
    ok(open > 1 && open - (place->server_fd >= 0)
       == place->wanted, "all of them are open");
}

/* The calls of `killed`. */
static struct {
    int calls;
    apr_uint32_t account;
    apr_uint64_t kills;
} heard;

static void killed(void *data, apr_uint32_t account, apr_uint64_t kills)
{
    heard.calls++;
    heard.account = account;
    heard.kills = kills;
}

static void reads_kills(vl_cgroup_t *cg)
{
    vl_kills_t *kills = vl_kills_post_config_create(pool, cg, 1);
    int i;

    vl_kills_post_config_add(kills, 2, "b:80");
    vl_kills_post_config_add(kills, 1, "a:80");
    vl_kills_child_read(kills, killed, NULL);
    ok(heard.calls == 1 && heard.account == 2 && !heard.kills,
       "the first reading is reported, of as many accounts as there is room for");
    for (i = 0; i < 2 * VL_KILLS_EVERY; i++)
        vl_kills_child_read(kills, killed, NULL);
    ok(heard.calls == 1, "a reading that is the same is not");
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

static int enter(int fd)
{
    return write(fd, "0", 1) == 1;
}

static void threads_enter_and_leave(vl_cgroup_t *cg)
{
    vl_place_t *place = vl_place_post_config_create(pool, cg, 4, 1000);
    int fd;

    vl_place_post_config_add(place, 1, "a:80");
    fd = place->fds[1][0];
    ok(fd >= 0 && place->server_fd >= 0, "a thread has a group to enter");
    ok(enter(fd) && is_in("/a:80"), "in");
    ok(enter(place->server_fd)
       && !is_in("/a:80"), "the thread returns to its own group");
    ok(place->fds[2][0] == -1, "b has no descriptor");
}

static void descriptors_are_bounded(vl_cgroup_t *cg)
{
    vl_place_t *place = vl_place_post_config_create(pool, cg, 4, 4);
    int i, without = 0;

    for (i = 0; i < 4; i++)
        without += vl_place_post_config_add(place, i, "a:80") == APR_ENOSPC;
    ok(without >= 2 && place->open <= 4,
       "no more descriptors are open than allowed");
}

static void a_group_that_is_gone(vl_cgroup_t *cg)
{
    vl_cgroup_t *same = vl_cgroup_open(vl_cgroup_path(cg), 0, cg);
    vl_place_t *place = vl_place_post_config_create(pool, cg, 4, 1000);
    pid_t pid;

    vl_place_post_config_add(place, 1, "a:80");
    vl_cgroup_add(same, "a:80", &none);
    vl_cgroup_add(same, "b:80", &none);
    vl_cgroup_remove_gone(same, NULL);
    ok(!enter(place->fds[1][0]),
       "a removed group accepts no thread");
    vl_place_fork_for(place, 1);
    pid = fork();
    if (!pid)
        _exit(0);
    vl_place_fork_for(place, VL_PLACE_NONE);
    ok(waitpid(pid, NULL, 0) == pid, "a process that is forked for a removed group runs");
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
    opens_descriptors(cg);
    reads_kills(cg);
    threads_enter_and_leave(cg);
    descriptors_are_bounded(cg);
    a_group_that_is_gone(cg);
    vl_cgroup_remove_gone(cg, NULL);
}

int main(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    parses_kills();
    with_a_tree();
    return tap_done();
}
