/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_cgroup_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <apr_strings.h>
#include <apr_tables.h>

#include "cgroup/vl_cgroup_value.h"

const char *vl_cgroup_file_read(apr_pool_t *p, const char *file)
{
    char buf[4096];
    char *text = apr_pstrdup(p, "");
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t len;

    while (fd >= 0 && (len = read(fd, buf, sizeof(buf) - 1)) > 0) {
        buf[len] = '\0';
        text = apr_pstrcat(p, text, buf, NULL);
    }
    if (fd >= 0)
        close(fd);
    return text;
}

__thread void (*vl_cgroup_write_hook)(int fd);

const char *vl_cgroup_file_write(const char *file, const char *value)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC), err;
    ssize_t len;

    if (fd >= 0 && vl_cgroup_write_hook)
        vl_cgroup_write_hook(fd);
    len = fd < 0 ? -1 : write(fd, value, strlen(value));
    err = errno;
    if (fd >= 0 && vl_cgroup_write_hook)
        vl_cgroup_write_hook(-1);
    if (fd >= 0)
        close(fd);
    errno = err;
    return len < 0 ? strerror(err) : NULL;
}

/* Returns the first n components of the path; NULL: it has fewer. */
static const char *prefix(apr_pool_t *p, const char *path, int n)
{
    const char *end = path;

    while (n-- > 0 && *end)
        end += 1 + strcspn(end + 1, "/");
    return n >= 0 ? NULL : apr_pstrmemdup(p, path, end - path);
}

const char *vl_cgroup_make_path(apr_pool_t *p, const char *mount,
                                const char *path)
{
    struct stat info;
    const char *part, *all = apr_pstrcat(p, mount, path, NULL);
    int n;

    if ((!stat(all, &info) && S_ISDIR(info.st_mode)) || !mkdir(all, 0755))
        return NULL;
    for (n = 1; (part = prefix(p, path, n)); n++) {
        const char *dir = apr_pstrcat(p, mount, part, NULL);

        if (mkdir(dir, 0755) && errno != EEXIST)
            return strerror(errno);
        if (stat(dir, &info) || !S_ISDIR(info.st_mode))
            return strerror(ENOTDIR);
    }
    return NULL;
}

const char *vl_cgroup_try_path(apr_pool_t *p, const char *mount,
                               const char *path)
{
    const char *part, *dir = mount, *above;
    struct stat info;
    int n;

    for (n = 1; (part = prefix(p, path, n)); n++) {
        above = dir;
        dir = apr_pstrcat(p, mount, part, NULL);
        if (!stat(dir, &info) && !S_ISDIR(info.st_mode))
            return strerror(ENOTDIR);
        if (access(dir, F_OK))
            return errno != ENOENT || access(above, W_OK) ? strerror(errno) : NULL;
    }
    return NULL;
}

/* v2: enables the controller in one group, for its child groups.  Returns NULL or an error
 * message. */
static const char *enable_in(apr_pool_t *p, const char *mount,
                             const char *path, const char *controller)
{
    static const struct timespec delay = { 0, 20000000 };
    const char *dir = apr_pstrcat(p, mount, path, "/", NULL);
    const char *file = apr_pstrcat(p, dir, "cgroup.subtree_control", NULL);
    const char *failed, *value = apr_pstrcat(p, "+", controller, NULL);
    int tries = 25;

    if (vl_cgroup_lists(vl_cgroup_file_read(p, file), controller))
        return NULL;
    if (!vl_cgroup_lists(vl_cgroup_file_read(p, apr_pstrcat(
                         p, dir, "cgroup.controllers", NULL)), controller))
        return apr_psprintf(p, "it is not delegated to %s",
                            *path ? path : "/");
    /* While it is EBUSY: the program that started Apache may need a moment to leave the group. */
    while ((failed = vl_cgroup_file_write(file, value)) && errno == EBUSY && --tries)
        nanosleep(&delay, NULL);
    if (failed && errno == EBUSY)
        return apr_psprintf(p, "it cannot be enabled in %s: there are processes "
                            "in that group itself", path);
    return failed ? apr_psprintf(p, "it cannot be enabled in %s: %s",
                                 *path ? path : "/", failed) : NULL;
}

const char *vl_cgroup_enable(apr_pool_t *p, const char *mount,
                             const char *path, const char *controller)
{
    const char *part, *failed = NULL;
    int n;

    for (n = 0; !failed && (part = prefix(p, path, n)); n++)
        failed = enable_in(p, mount, part, controller);
    return failed;
}

const char *const *vl_cgroup_disks(apr_pool_t *p)
{
    static const char *const in_memory[] = { "ram", "loop", "zram", NULL };
    apr_array_header_t *disks = apr_array_make(p, 4, sizeof(char *));
    DIR *dir = opendir("/sys/block");
    struct dirent *entry;
    int i;

    while (dir && (entry = readdir(dir))) {
        const char *name = entry->d_name, *number;

        for (i = 0; in_memory[i] && strncmp(name, in_memory[i], strlen(in_memory[i])) != 0; i++)
            ;
        if (in_memory[i] || *name == '.'
            || strtoll(vl_cgroup_file_read(p, apr_pstrcat(p, "/sys/block/", name, "/size", NULL)), NULL, 10) <= 0)
            continue;
        number = vl_cgroup_file_read(p, apr_pstrcat(p, "/sys/block/", name, "/dev", NULL));
        APR_ARRAY_PUSH(disks, const char *) = apr_pstrmemdup(p, number, strcspn(number, "\n"));
    }
    if (dir)
        closedir(dir);
    APR_ARRAY_PUSH(disks, const char *) = NULL;
    return (const char *const *)disks->elts;
}
