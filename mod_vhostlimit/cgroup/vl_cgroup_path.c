/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the path names of groups and of their files, and finds the group of a process.
 * Functions of this file only read the struct; any process may call them. */
#include "cgroup/vl_cgroup_int.h"

#include <string.h>

#include <apr_lib.h>
#include <apr_strings.h>

#include "cgroup/vl_cgroup_file.h"

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

const char *vl_cgroup_parse_self(apr_pool_t *p, const char *text,
                                 const char *controller)
{
    char *copy = apr_pstrdup(p, text);
    char *line, *last;

    for (line = apr_strtok(copy, "\n", &last); line;
         line = apr_strtok(NULL, "\n", &last)) {
        char *names = strchr(line, ':');    /* "4:cpu,cpuacct:/path" */
        char *path = names ? strchr(names + 1, ':') : NULL;

        if (!path)
            continue;
        *path = '\0';
        if (*controller ? vl_cgroup_lists(names + 1, controller) : !names[1])
            return path + 1;
    }
    return NULL;
}

const char *vl_cgroup_of(const vl_cgroup_t *cg, apr_pool_t *p, const char *pid)
{
    const char *text = vl_cgroup_file_read(p, apr_pstrcat(p, "/proc/", pid, "/cgroup", NULL));
    const char *path = vl_cgroup_parse_self(
        p, text, cg->controllers[VL_CG_CPU].version == 1 ? "cpu" : "");

    return path && strcmp(path, "/") ? path : "";
}

const controller_t *vl_cgroup_hierarchy(const vl_cgroup_t *cg, int i)
{
    int c, other;

    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        const controller_t *ctl = &cg->controllers[c];

        for (other = 0; other < c; other++) {
            if (cg->controllers[other].version && ctl->version
                && !strcmp(cg->controllers[other].mount, ctl->mount))
                break;
        }
        if (ctl->version && other == c && i-- == 0)
            return ctl;
    }
    return NULL;
}

const char *vl_cgroup_account_path(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *account)
{
    if (!*cg->path)
        return "";
    return apr_pstrcat(p, cg->path, "/", vl_cgroup_file_name(p, account),
                       NULL);
}

const char *vl_cgroup_threads_path(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *name)
{
    if (cg->controllers[VL_CG_CPU].version == 1)
        return apr_pstrcat(p, cg->path, "/", name, THREADS_NAME, NULL);
    return apr_pstrcat(p, cg->path, SERVER_NAME "/", name, NULL);
}

const char *vl_cgroup_thread_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                  const char *account)
{
    const controller_t *cpu = &cg->controllers[VL_CG_CPU];
    const char *path;

    if (!cg->origin || cpu->missing)
        return NULL;
    path = account ? vl_cgroup_threads_path(cg, p, vl_cgroup_file_name(p, account))
                   : apr_pstrcat(p, cg->path, SERVER_NAME, NULL);
    return apr_pstrcat(p, cpu->mount, path, cpu->version == 1
                       ? "/tasks" : "/cgroup.threads", NULL);
}

/* In v1 the file is "tasks", which is enough for a process with one thread.  A write to
 * "cgroup.procs" would wait for all forks and exits under way in other processes. */
const char *vl_cgroup_process_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *account, int i)
{
    const controller_t *ctl = *cg->path ? vl_cgroup_hierarchy(cg, i) : NULL;

    if (!ctl)
        return NULL;
    return apr_pstrcat(p, ctl->mount, vl_cgroup_account_path(cg, p, account),
                       ctl->version == 1 ? "/tasks" : "/cgroup.procs", NULL);
}

const char *vl_cgroup_kills_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                 const char *account)
{
    const controller_t *memory = &cg->controllers[VL_CG_MEMORY];

    if (!memory->version || memory->missing)
        return NULL;
    return apr_pstrcat(p, memory->mount, vl_cgroup_account_path(cg, p, account),
                       memory->version == 1 ? "/memory.oom_control"
                                            : "/memory.events", NULL);
}
