/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_facts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <mntent.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
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

/* Returns the text of the file, which the caller frees; NULL: it cannot be read. */
__attribute__((format(printf, 1, 2)))
static char *read_file(const char *path_format, ...)
{
    va_list args;
    char *path, *text;
    FILE *in;

    va_start(args, path_format);
    path = ctl_vprintf(path_format, args);
    va_end(args);
    in = fopen(path, "re");
    free(path);
    text = in ? ctl_read(in, NULL) : NULL;
    if (in)
        (void)fclose(in);       /* nothing was written */
    return text;
}

/* --- cgroups of a process ------------------------------------------------- */

/* Returns the path of the next line ID:CONTROLLERS:PATH, of which the text is cut; NULL: there is
 * none. */
static char *next_group(char **text, char **ret_controllers)
{
    char *line, *path;

    while ((line = strsep(text, "\n"))) {
        *ret_controllers = strchr(line, ':');
        path = *ret_controllers ? strchr(++*ret_controllers, ':') : NULL;
        if (path) {
            *path = '\0';
            return path + 1;
        }
    }
    return NULL;
}

char *ctl_facts_unit(const char *cgroups)
{
    static const char suffix[] = ".service";
    char *copy = ctl_printf("%s", cgroups), *next = copy, *controllers, *path, *part;
    char *found = NULL;

    while (!found && (path = next_group(&next, &controllers))) {
        while ((part = strsep(&path, "/"))) {
            size_t len = strlen(part);

            if (len >= sizeof(suffix) && !strcmp(part + len - sizeof(suffix) + 1, suffix))
                found = part;
        }
    }
    found = found ? ctl_printf("%s", found) : NULL;
    free(copy);
    return found;
}

char *ctl_facts_cpu_group(const char *cgroups)
{
    char *copy = ctl_printf("%s", cgroups), *next = copy, *controllers, *path, *word;
    char *v1 = NULL, *v2 = NULL;

    while ((path = next_group(&next, &controllers))) {
        if (!*controllers && !v2)
            v2 = path;
        while ((word = strsep(&controllers, ","))) {
            if (!strcmp(word, "cpu") && !v1)
                v1 = path;
        }
    }
    if (v1 || v2)
        v1 = ctl_printf("%s", v1 ? v1 : v2);
    free(copy);
    return v1;
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
    if (in) {
        text = ctl_read(in, NULL);
        (void)fclose(in);
    }
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

char *ctl_facts_unit_of(pid_t pid)
{
    char *cgroups = access(SYSTEMD, F_OK) ? NULL : read_file("/proc/%d/cgroup", (int)pid);
    char *unit = cgroups ? ctl_facts_unit(cgroups) : NULL;

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

/* A controller of cgroup v1 is an option of its mount.  Those of v2 are those of the server's
 * tree, or of the mount if the tree is not there. */
static void gather_controllers(ctl_facts_t *facts)
{
    FILE *mounts = setmntent(MOUNTS, "re");
    const struct mntent *mount;
    int is_v2_seen = 0;
    char *names;

    while (mounts && (mount = getmntent(mounts))) {
        if (!strcmp(mount->mnt_type, "cgroup"))
            ctl_facts_add_controllers(facts, mount->mnt_opts);
        if (strcmp(mount->mnt_type, "cgroup2") != 0 || is_v2_seen)
            continue;
        is_v2_seen = 1;
        names = read_file("%s%s/cgroup.controllers", mount->mnt_dir, facts->status->cgroup.path);
        if (!names)
            names = read_file("%s/cgroup.controllers", mount->mnt_dir);
        if (names)
            ctl_facts_add_controllers(facts, names);
        free(names);
    }
    if (mounts)
        endmntent(mounts);
}

/* --- open files ----------------------------------------------------------- */

static json_int_t files_of(pid_t pid)
{
    static const char key[] = "Max open files";
    char *limits = read_file("/proc/%d/limits", (int)pid);
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
    char *title = read_file("/proc/%d/cmdline", (int)pid), *cgroups = NULL, *group = NULL;

    if (title && !strncmp(title, POOL, strlen(POOL)))
        cgroups = read_file("/proc/%d/cgroup", (int)pid);
    if (cgroups)
        group = ctl_facts_cpu_group(cgroups);
    if (group && strncmp(group, "/../", 4) != 0) {
        if (ctl_facts_is_inside(group, facts->status->cgroup.path)) {
            facts->inside++;
        }
        else {
            const char *name = title + strlen(POOL);
            char *text = ctl_plain(ctl_printf("%.*s in %s", (int)strcspn(name, " "), name, group));

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
    const char *argv[] = { "systemctl", "show", "-p", "Delegate", "--value", "--", NULL, NULL };
    char *said = NULL;

    facts->release = ctl_printf("%s", uname(&kernel) ? "unknown" : kernel.release);
    facts->outside = ctl_json_check(json_object());
    facts->files = files_of(facts->pid);
    facts->logs = logs_of(facts->pid);
    facts->unit = ctl_facts_unit_of(facts->pid);
    if (facts->unit) {
        argv[6] = facts->unit;
        said = ctl_facts_output(argv);
    }
    facts->is_delegated = said ? !strcmp(said, "yes\n") : -1;
    free(said);
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
}
