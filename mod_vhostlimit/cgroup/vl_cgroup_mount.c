/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_cgroup_int.h"

#include <mntent.h>
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

int vl_cgroup_mount_version(const char *path)
{
    struct statfs fs;

    if (statfs(path, &fs))
        return 0;
    return fs.f_type == CGROUP2_SUPER_MAGIC ? 2 : fs.f_type == CGROUP_SUPER_MAGIC;
}

const char *vl_cgroup_mount_next(apr_pool_t *p, FILE *mounts, const char *type, const char *option)
{
    struct mntent entry;
    char line[4096];

    /* "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu,cpuacct 0 0" */
    while (mounts && getmntent_r(mounts, &entry, line, sizeof(line))) {
        if (!strcmp(entry.mnt_type, type) && (!*option || vl_cgroup_lists(entry.mnt_opts, option)))
            return apr_pstrdup(p, entry.mnt_dir);
    }
    return NULL;
}

#ifdef VL_LIBCGROUP

void vl_cgroup_mount_init(void)
{
    Dl_info info;

    cgroup_set_logger(NULL, CGROUP_LOG_ERROR, NULL);   /* the default is stdout */
    /* Keeps libcgroup loaded when a restart unloads the module.  Otherwise each restart leaks
     * the memory that libcgroup has allocated (about 30 KB with version 2.0.2). */
    if (dladdr((void *)cgroup_init, &info))
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    cgroup_init();      /* on failure no controllers are found */
}

const char *vl_cgroup_mount_find(apr_pool_t *p, const char *controller,
                                 int version)
{
    const char *found = NULL;
    char *mount = NULL;

    if (cgroup_get_subsys_mount_point(controller, &mount))
        return NULL;
    if (vl_cgroup_mount_version(mount) == version)
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
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    const char *mount;

    while ((mount = vl_cgroup_mount_next(p, mounts, version == 1 ? "cgroup" : "cgroup2",
                                         version == 1 ? controller : ""))) {
        if (vl_cgroup_mount_version(mount) == version
            && (version == 1 || vl_cgroup_lists(vl_cgroup_file_read(p, apr_pstrcat(
                                    p, mount, "/cgroup.controllers", NULL)), controller)))
            break;
    }
    if (mounts)
        endmntent(mounts);
    return mount;
}

#endif
