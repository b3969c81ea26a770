/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_cgroup_mount.h"

#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include <linux/magic.h>

#include <apr_strings.h>

#ifdef VL_LIBCGROUP
#include <dlfcn.h>
#include <libcgroup.h>
#endif

#include "cgroup/vl_cgroup_file.h"
#include "cgroup/vl_cgroup_value.h"

static int is_type(const char *path, long type)
{
    struct statfs fs;

    return !statfs(path, &fs) && fs.f_type == type;
}

int vl_cgroup_mount_is_v2(const char *path)
{
    return is_type(path, CGROUP2_SUPER_MAGIC);
}

/* Decodes the path in place: the kernel writes spaces, tabs, newlines and backslashes as
 * \ooo. */
static void unescape(char *path)
{
    char *to = path;

    for (; *path; path++) {
        if (path[0] == '\\' && path[1] >= '0' && path[1] <= '3'
            && path[2] >= '0' && path[2] <= '7'
            && path[3] >= '0' && path[3] <= '7') {
            *to++ = (char)((path[1] - '0') << 6 | (path[2] - '0') << 3
                           | (path[3] - '0'));
            path += 3;
        }
        else {
            *to++ = *path;
        }
    }
    *to = '\0';
}

/* Returns 1 if the comma-separated list has the option.  Modifies the list. */
static int has_option(char *options, const char *option)
{
    char *word, *last;

    if (!*option)
        return 1;
    for (word = apr_strtok(options, ",", &last); word;
         word = apr_strtok(NULL, ",", &last)) {
        if (!strcmp(word, option))
            return 1;
    }
    return 0;
}

const char *vl_cgroup_parse_mounts(apr_pool_t *p, const char *text,
                                   const char *type, const char *option, int i)
{
    char *copy = apr_pstrdup(p, text);
    char *line, *last;

    /* "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu,cpuacct 0 0" */
    for (line = apr_strtok(copy, "\n", &last); line;
         line = apr_strtok(NULL, "\n", &last)) {
        char *rest;
        char *device = apr_strtok(line, " ", &rest);
        char *path = device ? apr_strtok(NULL, " ", &rest) : NULL;
        char *found = path ? apr_strtok(NULL, " ", &rest) : NULL;
        char *options = found ? apr_strtok(NULL, " ", &rest) : NULL;

        if (options && !strcmp(found, type) && has_option(options, option)
            && i-- == 0) {
            unescape(path);
            return path;
        }
    }
    return NULL;
}

#ifdef VL_LIBCGROUP

/* Keeps libcgroup loaded when a restart unloads the module.  Otherwise each restart leaks
 * the memory that libcgroup has allocated (about 30 KB with version 2.0.2). */
static void keep_libcgroup(void)
{
    Dl_info info;

    if (dladdr((void *)cgroup_init, &info))
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void vl_cgroup_mount_init(void)
{
    cgroup_set_logger(NULL, CGROUP_LOG_ERROR, NULL);   /* the default is stdout */
    keep_libcgroup();
    cgroup_init();      /* on failure no controllers are found */
}

const char *vl_cgroup_mount_find(apr_pool_t *p, const char *controller,
                                 int version)
{
    const char *found = NULL;
    char *mount = NULL;

    if (cgroup_get_subsys_mount_point(controller, &mount))
        return NULL;
    if (vl_cgroup_mount_is_v2(mount) == (version == 2))
        found = apr_pstrdup(p, mount);
    free(mount);
    return found;
}

#else

void vl_cgroup_mount_init(void)
{
}

/* The text also lists a mount point that another mount hides, so the type of the file
 * system at the path is checked too. */
const char *vl_cgroup_mount_find(apr_pool_t *p, const char *controller,
                                 int version)
{
    const char *text = vl_cgroup_file_read(p, "/proc/self/mounts");
    const char *mount;
    int i;

    for (i = 0; (mount = vl_cgroup_parse_mounts(
                     p, text, version == 1 ? "cgroup" : "cgroup2",
                     version == 1 ? controller : "", i)); i++) {
        if (version == 1 && is_type(mount, CGROUP_SUPER_MAGIC))
            return mount;
        if (version == 2 && vl_cgroup_mount_is_v2(mount)
            && vl_cgroup_lists(vl_cgroup_file_read(p, apr_pstrcat(
                   p, mount, "/cgroup.controllers", NULL)), controller))
            return mount;
    }
    return NULL;
}

#endif
