/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_cgroup.h"

#include <errno.h>
#include <libcgroup.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include <apr_file_io.h>
#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>

/* Tree name below the server's own group, and where v2 may be mounted when it
 * is not found through a controller (a v2 tree without controllers still
 * counts CPU time). */
#define ROOT_NAME "vhostlimit"
static const char *const v2_mounts[] = {
    "/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL
};

struct vl_cgroup_t {
    apr_pool_t *pool;
    const char *backend;
    const char *path;               /* from the hierarchy's root; "" when off */
    const char *reason;
    const char *controllers[3];     /* to make groups in, NULL-terminated */
    const char *v2_mount;           /* for a v2 tree that has no controller */
    apr_hash_t *accounts;           /* file name -> itself: what was added */
};

const char *vl_cgroup_parse_self(apr_pool_t *p, const char *text,
                                 const char *controller)
{
    char *copy = apr_pstrdup(p, text);
    char *line, *last;

    for (line = apr_strtok(copy, "\n", &last); line;
         line = apr_strtok(NULL, "\n", &last)) {
        char *names = strchr(line, ':');    /* "4:cpu,cpuacct:/path" */
        char *path = names ? strchr(names + 1, ':') : NULL;
        char *name, *rest;

        if (!path)
            continue;
        *path++ = '\0';
        names++;
        if (!*names && !*controller)
            return path;
        for (name = apr_strtok(names, ",", &rest); name;
             name = apr_strtok(NULL, ",", &rest)) {
            if (!strcmp(name, controller))
                return path;
        }
    }
    return NULL;
}

const char *vl_cgroup_file_name(apr_pool_t *p, const char *account)
{
    char *name = apr_pstrdup(p, account);
    char *c;

    for (c = name; *c; c++) {
        if (!apr_isalnum(*c) && !strchr("._:-", *c))
            *c = '_';
    }
    if (*name == '.')
        *name = '_';
    return name;
}

static int is_v2_mount(const char *path)
{
    struct statfs fs;

    return !statfs(path, &fs) && fs.f_type == CGROUP2_SUPER_MAGIC;
}

static const char *find_v2_mount(void)
{
    int i;

    for (i = 0; v2_mounts[i]; i++) {
        if (is_v2_mount(v2_mounts[i]))
            return v2_mounts[i];
    }
    return NULL;
}

/* 0: not mounted; 1 or 2: in a hierarchy of that version. */
static int controller_version(const char *controller)
{
    char *mount = NULL;
    int version = 0;

    if (!cgroup_get_subsys_mount_point(controller, &mount)) {
        version = is_v2_mount(mount) ? 2 : 1;
        free(mount);
    }
    return version;
}

static const char *read_self(apr_pool_t *p)
{
    char buf[4096];
    apr_size_t len = sizeof(buf) - 1;
    apr_file_t *file;

    if (apr_file_open(&file, "/proc/self/cgroup", APR_READ, 0, p)
        != APR_SUCCESS)
        return "";
    if (apr_file_read_full(file, buf, len, &len) != APR_SUCCESS && !len)
        buf[0] = '\0';
    buf[len] = '\0';
    apr_file_close(file);
    return apr_pstrdup(p, buf);
}

static void turn_off(vl_cgroup_t *cg, const char *reason)
{
    cg->backend = "off";
    cg->path = "";
    cg->reason = reason;
}

/* Which hierarchies there are decides the backend and the controllers. */
static void detect(vl_cgroup_t *cg)
{
    int cpu = controller_version("cpu");
    int n = 0;

    cg->v2_mount = find_v2_mount();
    if (cpu == 1) {
        cg->backend = cg->v2_mount ? "hybrid" : "v1";
        cg->controllers[n++] = "cpu";
        if (controller_version("cpuacct") == 1)
            cg->controllers[n++] = "cpuacct";
    }
    else if (cg->v2_mount) {
        cg->backend = "v2";
        if (cpu == 2)
            cg->controllers[n++] = "cpu";
    }
    else {
        turn_off(cg, "no cgroup hierarchy with the cpu controller, and no v2 "
                     "tree, is mounted");
    }
}

static const char *make_group(const vl_cgroup_t *cg, const char *path)
{
    struct cgroup *group;
    const char *failed = NULL;
    int i, err;

    if (!cg->controllers[0]) {
        const char *dir = apr_pstrcat(cg->pool, cg->v2_mount, path, NULL);

        if (mkdir(dir, 0755) && errno != EEXIST)
            failed = strerror(errno);
        return failed;
    }
    group = cgroup_new_cgroup(path);
    if (!group)
        return "out of memory";
    for (i = 0; cg->controllers[i]; i++) {
        if (!cgroup_add_controller(group, cg->controllers[i]))
            failed = apr_pstrcat(cg->pool, "no controller ",
                                 cg->controllers[i], NULL);
    }
    if (!failed) {
        err = cgroup_create_cgroup(group, 1);
        if (err == ECGOTHER)
            failed = strerror(cgroup_get_last_errno());
        else if (err)
            failed = cgroup_strerror(err);
    }
    cgroup_free(&group);
    return failed;
}

/* Removes the one group; fails, as it should, while it has members or groups
 * below it: rmdir() and not libcgroup, whose delete moves members elsewhere. */
static void remove_group(const vl_cgroup_t *cg, const char *path)
{
    char *mount;
    int i;

    if (!cg->controllers[0])
        rmdir(apr_pstrcat(cg->pool, cg->v2_mount, path, NULL));
    for (i = 0; cg->controllers[i]; i++) {
        if (!cgroup_get_subsys_mount_point(cg->controllers[i], &mount)) {
            rmdir(apr_pstrcat(cg->pool, mount, path, NULL));
            free(mount);
        }
    }
}

/* "auto": below our own group, so that systemd's delegation and a container's
 * view hold. */
static const char *auto_path(vl_cgroup_t *cg)
{
    const char *controller = strcmp(cg->backend, "v2") ? "cpu" : "";
    const char *own = vl_cgroup_parse_self(cg->pool, read_self(cg->pool),
                                           controller);

    if (!own || !strcmp(own, "/"))
        own = "";
    return apr_pstrcat(cg->pool, own, "/" ROOT_NAME, NULL);
}

vl_cgroup_t *vl_cgroup_open(apr_pool_t *p, const char *setting)
{
    vl_cgroup_t *cg = apr_pcalloc(p, sizeof(*cg));
    const char *failed;

    cg->pool = p;
    cg->accounts = apr_hash_make(p);
    cg->reason = "";
    if (!strcmp(setting, "off")) {
        turn_off(cg, "VhostLimitCgroup off");
        return cg;
    }
    cgroup_set_logger(NULL, CGROUP_LOG_ERROR, NULL);   /* else: to stdout */
    if (cgroup_init()) {
        turn_off(cg, "libcgroup finds no mounted hierarchy");
        return cg;
    }
    detect(cg);
    if (!strcmp(cg->backend, "off"))
        return cg;
    cg->path = strcmp(setting, "auto") ? apr_pstrdup(p, setting)
                                       : auto_path(cg);
    failed = make_group(cg, cg->path);
    if (failed)
        turn_off(cg, apr_psprintf(p, "group %s cannot be made: %s", cg->path,
                                  failed));
    return cg;
}

const char *vl_cgroup_account_path(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *account)
{
    if (!*cg->path)
        return "";
    return apr_pstrcat(p, cg->path, "/", vl_cgroup_file_name(p, account),
                       NULL);
}

apr_status_t vl_cgroup_add(vl_cgroup_t *cg, const char *account)
{
    const char *name = vl_cgroup_file_name(cg->pool, account);
    const char *path, *failed;

    if (!*cg->path)
        return APR_SUCCESS;
    path = apr_pstrcat(cg->pool, cg->path, "/", name, NULL);
    failed = make_group(cg, path);
    if (failed) {
        cg->reason = apr_psprintf(cg->pool, "group %s cannot be made: %s",
                                  path, failed);
        return APR_EGENERAL;
    }
    apr_hash_set(cg->accounts, name, APR_HASH_KEY_STRING, name);
    return APR_SUCCESS;
}

static int still_there(const vl_cgroup_t *old, const vl_cgroup_t *cg,
                       const char *name)
{
    return cg && !strcmp(old->path, cg->path)
           && apr_hash_get(cg->accounts, name, APR_HASH_KEY_STRING);
}

void vl_cgroup_remove_gone(vl_cgroup_t *old, const vl_cgroup_t *cg)
{
    apr_hash_index_t *i;

    if (!*old->path)
        return;
    for (i = apr_hash_first(old->pool, old->accounts); i;
         i = apr_hash_next(i)) {
        const char *name = apr_hash_this_key(i);

        if (!still_there(old, cg, name))
            remove_group(old, apr_pstrcat(old->pool, old->path, "/", name,
                                          NULL));
    }
    if (!cg || strcmp(old->path, cg->path))
        remove_group(old, old->path);
}

const char *vl_cgroup_backend(const vl_cgroup_t *cg)
{
    return cg->backend;
}

const char *vl_cgroup_path(const vl_cgroup_t *cg)
{
    return cg->path;
}

const char *vl_cgroup_reason(const vl_cgroup_t *cg)
{
    return cg->reason;
}
