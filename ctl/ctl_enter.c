/* SPDX-License-Identifier: Apache-2.0 */
/* The command enter: moves a process and its children into the cgroup of a site.  A unit that
 * "unit" makes runs it when the pool has started. */
#include "ctl_facts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define CGROUPS "/sys/fs/cgroup"

/* Apache makes the groups while it starts, which may be now. */
#define TRIES 50
#define TRY_NS 100000000L

/* Descriptors of cgroup.procs in one hierarchy or several. */
#define GROUPS_MAX 32

typedef struct groups_t {
    int fds[GROUPS_MAX];
    size_t n;
} groups_t;

/* --- the group ------------------------------------------------------------ */

/* Opens the file cgroup.procs of the group if it is the kernel's: the path is from the server. */
static void open_group(const char *mount, const char *group, groups_t *groups)
{
    char *path = ctl_printf(CGROUPS "/%s%s/cgroup.procs", mount, group);
    int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    struct statfs fs;

    free(path);
    if (fd >= 0 && groups->n < GROUPS_MAX && !fstatfs(fd, &fs)
        && (fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC))
        groups->fds[groups->n++] = fd;
    else if (fd >= 0)
        close(fd);
}

/* Opens the group in the hierarchy of v2, or in those of v1 that have it. */
static void open_groups(const char *group, groups_t *groups)
{
    DIR *mounts = opendir(CGROUPS);
    const struct dirent *mount;

    open_group("", group, groups);
    while (mounts && (mount = readdir(mounts))) {
        if (*mount->d_name != '.')
            open_group(mount->d_name, group, groups);
    }
    if (mounts)
        closedir(mounts);
}

/* --- the processes -------------------------------------------------------- */

/* The processes that are to be moved, in the order in which they were found. */
typedef struct pids_t {
    pid_t *list;
    size_t n;
} pids_t;

static void add_pid(pids_t *pids, pid_t pid)
{
    pids->list = ctl_grow(pids->list, pids->n * sizeof(pid), (pids->n + 1) * sizeof(pid));
    pids->list[pids->n++] = pid;
}

/* Adds the processes that the threads of the process have forked. */
static void add_children(pid_t pid, pids_t *pids)
{
    char *pattern = ctl_printf("/proc/%d/task/*/children", (int)pid), *word = NULL;
    glob_t files = { 0 };
    size_t i, size = 0;
    FILE *children;
    long child;

    if (glob(pattern, 0, NULL, &files))
        files.gl_pathc = 0;
    for (i = 0; i < files.gl_pathc; i++) {
        children = fopen(files.gl_pathv[i], "re");
        while (children && getdelim(&word, &size, ' ', children) > 0) {
            child = strtol(word, NULL, 10);
            if (child > 0)
                add_pid(pids, (pid_t)child);
        }
        if (children)
            (void)fclose(children); /* nothing was written */
    }
    globfree(&files);
    free(word);
    free(pattern);
}

/* Moves the process, its children, and theirs.  A process that one of them forks later is
 * where its parent is, so the parent goes first. */
static void move_tree(const groups_t *groups, pid_t pid, ctl_error_t *error)
{
    pids_t pids = { .n = 0 };
    size_t i, k;

    add_pid(&pids, pid);
    for (i = 0; i < pids.n; i++) {
        for (k = 0; k < groups->n; k++) {
            /* A process that has ended needs no move. */
            if (dprintf(groups->fds[k], "%d", (int)pids.list[i]) < 0 && errno != ESRCH)
                ctl_error_set(error, CTL_REFUSED, "process %d cannot be moved: %s",
                              (int)pids.list[i], strerror(errno));
        }
        add_children(pids.list[i], &pids);
    }
    free(pids.list);
}

/* --- the command ---------------------------------------------------------- */

/* Opens the group of the site.  Returns 1; 0: it is not there yet, or *error is set. */
static int find_groups(const ctl_call_t *call, groups_t *groups, ctl_error_t *error)
{
    ctl_state_t state;
    const char *group;

    error->status = CTL_DONE;
    if (ctl_state_ask(call, call->args[0], &state, error) != CTL_DONE)
        return 0;
    group = ctl_text_of(state.status.vhosts[0].json, "cgroup");
    if (!state.answer.pid || state.answer.uid != geteuid())
        ctl_error_set(error, CTL_REFUSED, "the server runs as another user, so its cgroups are "
                      "not used");
    else if (*group != '/' || strstr(group, ".."))
        ctl_error_set(error, CTL_REFUSED, "site %s has no cgroup: see VhostLimitCgroup",
                      call->args[0]);
    else
        open_groups(group, groups);
    ctl_state_free(&state);
    return groups->n > 0;
}

/* Returns the number of the process, or of the main process of the service of systemd; 0: there
 * is none, and *error is set. */
static pid_t find_process(const char *name, ctl_error_t *error)
{
    const char *const argv[] = { "systemctl", "show", "-p", "MainPID", "--value", "--", name,
                                 NULL };
    const char *suffix = strrchr(name, '.');
    int is_unit = suffix && !strcmp(suffix, ".service");
    char *text = is_unit ? ctl_facts_output(argv) : ctl_printf("%s", name), *end = NULL;
    long pid = text ? strtol(text, &end, 10) : 0;

    if (is_unit && (!text || pid < 1))
        ctl_error_set(error, CTL_REFUSED, "the service %s does not run", name);
    else if (pid < 1 || pid > 0x7fffffff || (end && *end && *end != '\n'))
        ctl_error_set(error, CTL_USAGE, "enter: '%s' is neither the number of a process nor the "
                      "name of a service", name);
    free(text);
    return error->status == CTL_DONE ? (pid_t)pid : 0;
}

ctl_exit_e ctl_enter(const ctl_call_t *call, ctl_error_t *error)
{
    const struct timespec pause = { 0, TRY_NS };
    groups_t groups = { .n = 0 };
    pid_t pid = find_process(call->args[1], error);
    int tries;

    if (!pid)
        return error->status;
    for (tries = 1; !find_groups(call, &groups, error) && tries < TRIES
                    && (error->status == CTL_DONE || error->status == CTL_UNAVAILABLE); tries++)
        nanosleep(&pause, NULL);
    if (groups.n)
        move_tree(&groups, pid, error);
    else if (error->status == CTL_DONE)
        ctl_error_set(error, CTL_REFUSED, "the cgroup of site %s is not there", call->args[0]);
    while (groups.n)
        close(groups.fds[--groups.n]);
    return error->status;
}
