/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_facts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <mntent.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOUNTS "/proc/self/mounts"
/* Exists where systemd is the first process. */
#define SYSTEMD "/run/systemd/system"
#define POOL "php-fpm: pool "

extern char **environ;

const char *const ctl_controller_names[CTL_CONTROLLERS] = { "cpu", "memory", "pids", "io" };

/* --- files ---------------------------------------------------------------- */

/* Returns what the stream still has, with a zero byte behind it.  Zero bytes within become
 * line breaks. */
static char *read_rest(FILE *in)
{
    char part[4096], *text = ctl_printf("%s", "");
    size_t n, i;

    while ((n = fread(part, 1, sizeof(part), in))) {
        char *before = text;

        for (i = 0; i < n; i++) {
            if (!part[i])
                part[i] = '\n';
        }
        text = ctl_printf("%s%.*s", before, (int)n, part);
        free(before);
    }
    return text;
}

/* Returns the text of the file, which the caller frees; NULL: it cannot be read. */
static char *read_file(const char *path)
{
    FILE *in = fopen(path, "re");
    char *text;

    if (!in)
        return NULL;
    text = read_rest(in);
    (void)fclose(in);           /* nothing was written */
    return text;
}

/* The same for /proc/PID/NAME. */
static char *read_process(pid_t pid, const char *name)
{
    char *path = ctl_printf("/proc/%d/%s", (int)pid, name);
    char *text = read_file(path);

    free(path);
    return text;
}

/* --- cgroups of a process ------------------------------------------------- */

/* Calls fn for each line ID:CONTROLLERS:PATH, until it returns a result. */
static char *search_groups(const char *cgroups,
                           char *(*fn)(const char *controllers, const char *path))
{
    char *copy = ctl_printf("%s", cgroups), *next = copy, *line, *found = NULL;

    while (!found && (line = strsep(&next, "\n"))) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!path)
            continue;
        *path++ = '\0';
        found = fn(controllers + 1, path);
    }
    free(copy);
    return found;
}

/* Returns the last component of the path that is a service. */
static char *service_of_path(const char *controllers, const char *path)
{
    const char *at, *found = NULL;
    size_t len, found_len = 0, suffix = strlen(".service");

    (void)controllers;
    for (at = strchr(path, '/'); at; at = strchr(at, '/')) {
        len = strcspn(++at, "/");
        if (len > suffix && !memcmp(at + len - suffix, ".service", suffix)) {
            found = at;
            found_len = len;
        }
    }
    return found ? ctl_printf("%.*s", (int)found_len, found) : NULL;
}

char *ctl_facts_unit(const char *cgroups)
{
    return search_groups(cgroups, service_of_path);
}

/* Returns 1 if the list, with commas between its words, has the word. */
static int has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    while (*list) {
        size_t n = strcspn(list, ",");

        if (n == len && !memcmp(list, word, len))
            return 1;
        list += n + (list[n] == ',');
    }
    return 0;
}

static char *v1_path(const char *controllers, const char *path)
{
    return has_word(controllers, "cpu") ? ctl_printf("%s", path) : NULL;
}

static char *v2_path(const char *controllers, const char *path)
{
    return *controllers ? NULL : ctl_printf("%s", path);
}

char *ctl_facts_cpu_group(const char *cgroups)
{
    char *group = search_groups(cgroups, v1_path);

    return group ? group : search_groups(cgroups, v2_path);
}

/* --- systemd -------------------------------------------------------------- */

/* Returns what the program writes to stdout, which the caller frees, and sets *ret_status to what
 * waitpid() says.  NULL: it cannot be run. */
static char *run(const char *const argv[], int *ret_status)
{
    posix_spawn_file_actions_t actions;
    int fds[2], failed;
    char *text = NULL;
    pid_t pid;
    FILE *in;

    *ret_status = -1;
    if (pipe(fds))
        return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, fds[0]);
    posix_spawn_file_actions_addclose(&actions, fds[1]);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
    failed = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    in = failed ? NULL : fdopen(fds[0], "r");
    if (in)
        text = read_rest(in);
    if (in)
        (void)fclose(in);
    else
        close(fds[0]);
    while (!failed && waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    return text;
}

char *ctl_facts_output(const char *const argv[])
{
    int status;
    char *text = run(argv, &status);

    if (!status)
        return text;
    free(text);
    return NULL;
}

/* Returns 1 or 0; -1: systemd does not tell. */
static int unit_is_delegated(const char *unit)
{
    const char *const argv[] = { "systemctl", "show", "-p", "Delegate", "--value", "--",
                                 unit, NULL };
    char *text = ctl_facts_output(argv);
    int is_delegated = text ? !strcmp(text, "yes\n") : -1;

    free(text);
    return is_delegated;
}

char *ctl_facts_unit_of(pid_t pid)
{
    char *cgroups = NULL, *unit = NULL;
    struct stat st;

    if (!stat(SYSTEMD, &st))
        cgroups = read_process(pid, "cgroup");
    if (cgroups)
        unit = ctl_facts_unit(cgroups);
    free(cgroups);
    return unit;
}

/* --- controllers ---------------------------------------------------------- */

void ctl_facts_add_controllers(ctl_facts_t *facts, const char *names)
{
    char *copy = ctl_printf("%s", names), *next = copy, *name;
    int i;

    while ((name = strsep(&next, ", \n"))) {
        for (i = 0; i < CTL_CONTROLLERS; i++) {
            if (!strcmp(name, ctl_controller_names[i]))
                facts->has_controller[i] = 1;
        }
        if (!strcmp(name, "blkio"))
            facts->has_controller[CTL_CONTROLLER_IO] = 1;
    }
    free(copy);
}

/* Adds the controllers that the server's tree in this mount of cgroup v2 has, or those of
 * the mount if the tree is not there. */
static void add_v2_controllers(ctl_facts_t *facts, const char *mount)
{
    char *path = ctl_printf("%s%s/cgroup.controllers", mount,
                            facts->status->cgroup.path);
    char *names = read_file(path);

    free(path);
    if (!names) {
        path = ctl_printf("%s/cgroup.controllers", mount);
        names = read_file(path);
        free(path);
    }
    if (names)
        ctl_facts_add_controllers(facts, names);
    free(names);
}

/* A controller of cgroup v1 is an option of its mount. */
static void gather_controllers(ctl_facts_t *facts)
{
    FILE *mounts = setmntent(MOUNTS, "re");
    const struct mntent *mount;
    int is_v2_seen = 0;

    while (mounts && (mount = getmntent(mounts))) {
        if (!strcmp(mount->mnt_type, "cgroup")) {
            ctl_facts_add_controllers(facts, mount->mnt_opts);
        }
        else if (!strcmp(mount->mnt_type, "cgroup2") && !is_v2_seen) {
            is_v2_seen = 1;
            add_v2_controllers(facts, mount->mnt_dir);
        }
    }
    if (mounts)
        endmntent(mounts);
}

/* --- open files ----------------------------------------------------------- */

static json_int_t files_of(pid_t pid)
{
    static const char key[] = "Max open files";
    char *limits = read_process(pid, "limits");
    const char *line = limits ? strstr(limits, key) : NULL;
    json_int_t files = CTL_FILES_UNKNOWN;
    char *end;

    if (line) {
        line += sizeof(key) - 1;
        line += strspn(line, " ");
        files = strtoll(line, &end, 10);
        if (end == line)
            files = CTL_FILES_UNLIMITED;
    }
    free(limits);
    return files;
}

/* Nearly all are logs.  The files of cgroups are counted by their sites. */
static json_int_t logs_of(pid_t pid)
{
    char *path = ctl_printf("/proc/%ld/fd", (long)pid), target[64];
    DIR *dir = opendir(path);
    struct dirent *entry;
    json_int_t logs = 0;
    ssize_t n;

    while (dir && (entry = readdir(dir))) {
        n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        logs += !strncmp(target, "pipe:", 5) || (*target == '/' && strncmp(target, "/sys/", 5) != 0);
    }
    if (dir)
        closedir(dir);
    free(path);
    return logs;
}

/* --- PHP-FPM -------------------------------------------------------------- */

int ctl_facts_is_inside(const char *group, const char *tree)
{
    size_t len = strlen(tree);

    return !strncmp(group, tree, len) && group[len] == '/'
           && strncmp(group + len, "/.server", strlen("/.server")) != 0;
}

/* Counts the process if it belongs to a pool.  The cgroup of a process in another container
 * begins with "/..". */
static void look_at_process(ctl_facts_t *facts, pid_t pid)
{
    char *title = read_process(pid, "cmdline"), *cgroups = NULL, *group = NULL;

    if (title && !strncmp(title, POOL, strlen(POOL)))
        cgroups = read_process(pid, "cgroup");
    if (cgroups)
        group = ctl_facts_cpu_group(cgroups);
    if (group && strncmp(group, "/../", 4) != 0) {
        if (ctl_facts_is_inside(group, facts->status->cgroup.path)) {
            facts->inside++;
        }
        else {
            const char *name = title + strlen(POOL);
            char *text = ctl_plain(ctl_printf("%.*s in %s", (int)strcspn(name, " \n"), name,
                                              group));

            json_object_set_new(facts->outside, text, json_true());
            free(text);
        }
    }
    free(group);
    free(cgroups);
    free(title);
}

static void gather_pools(ctl_facts_t *facts)
{
    DIR *dir = *facts->status->cgroup.path ? opendir("/proc") : NULL;
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        if (isdigit((unsigned char)entry->d_name[0]))
            look_at_process(facts, (pid_t)strtol(entry->d_name, NULL, 10));
    }
    if (dir)
        closedir(dir);
}

/* --- the status page ------------------------------------------------------ */

/* The check is in PATH, or among the examples that "make install" copies. */
static void gather_page(ctl_facts_t *facts)
{
    static const char *const programs[] = { "check_vhostlimit", CTL_EXAMPLES "/check_vhostlimit" };
    const char *argv[] = { NULL, "--page", "--timeout", "3", facts->page_url ? "--url" : NULL,
                           facts->page_url, NULL };
    size_t i;
    int status = 0;

    for (i = 0; i < sizeof(programs) / sizeof(programs[0]) && !facts->page; i++) {
        argv[0] = programs[i];
        facts->page = run(argv, &status);
    }
    if (!facts->page)
        return;
    facts->page_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    facts->page[strcspn(facts->page, "\n")] = '\0';
}

/* --- all ------------------------------------------------------------------ */

void ctl_facts_gather(ctl_facts_t *facts)
{
    struct utsname kernel;

    if (!uname(&kernel))
        facts->release = ctl_printf("%s", kernel.release);
    else
        facts->release = ctl_printf("unknown");
    facts->is_delegated = -1;
    facts->outside = ctl_json_check(json_object());
    facts->files = files_of(facts->pid);
    facts->logs = logs_of(facts->pid);
    facts->unit = ctl_facts_unit_of(facts->pid);
    if (facts->unit)
        facts->is_delegated = unit_is_delegated(facts->unit);
    gather_controllers(facts);
    gather_pools(facts);
    gather_page(facts);
}

void ctl_facts_free(ctl_facts_t *facts)
{
    free(facts->release);
    free(facts->unit);
    free(facts->page);
    json_decref(facts->outside);
    facts->release = facts->unit = facts->page = NULL;
    facts->outside = NULL;
}
