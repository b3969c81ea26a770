/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_cgroup_int.h"

#include <string.h>

#include <apr_lib.h>
#include <apr_strings.h>

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

const place_t *vl_cgroup_hierarchy(const vl_cgroup_t *cg, int i)
{
    int c, other;

    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        const place_t *place = &cg->places[c];

        for (other = 0; other < c; other++) {
            if (cg->places[other].version && place->version
                && !strcmp(cg->places[other].mount, place->mount))
                break;
        }
        if (place->version && other == c && i-- == 0)
            return place;
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
    if (cg->places[VL_CG_CPU].version == 1)
        return apr_pstrcat(p, cg->path, "/", name, THREADS_NAME, NULL);
    return apr_pstrcat(p, cg->path, SERVER_NAME "/", name, NULL);
}

const char *vl_cgroup_thread_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                  const char *account)
{
    const place_t *cpu = &cg->places[VL_CG_CPU];
    const char *path;

    if (!cg->origin || cpu->missing)
        return NULL;
    path = account ? vl_cgroup_threads_path(cg, p, vl_cgroup_file_name(p, account))
                   : apr_pstrcat(p, cg->path, SERVER_NAME, NULL);
    return apr_pstrcat(p, cpu->mount, path, cpu->version == 1
                       ? "/tasks" : "/cgroup.threads", NULL);
}

/* In v1 "tasks" does for a process of one thread, and does not wait for all
 * other processes' forks and exits as "cgroup.procs" does. */
const char *vl_cgroup_process_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                   const char *account, int i)
{
    const place_t *place = *cg->path ? vl_cgroup_hierarchy(cg, i) : NULL;

    if (!place)
        return NULL;
    return apr_pstrcat(p, place->mount, vl_cgroup_account_path(cg, p, account),
                       place->version == 1 ? "/tasks" : "/cgroup.procs", NULL);
}

const char *vl_cgroup_usage_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                 const char *account, const char **ret_less)
{
    const place_t *cpu = &cg->places[VL_CG_CPU];
    const place_t *place = &cg->places[VL_CG_CPUACCT];
    const char *file = place->version == 1 ? "/cpuacct.usage" : "/cpu.stat";

    *ret_less = NULL;
    if (!place->version)
        return NULL;
    if (cpu->version == 1 && !cpu->missing && place->version == 1
        && !strcmp(cpu->mount, place->mount))
        *ret_less = apr_pstrcat(p, place->mount, vl_cgroup_threads_path(
                                cg, p, vl_cgroup_file_name(p, account)), file,
                                NULL);
    return apr_pstrcat(p, place->mount, vl_cgroup_account_path(cg, p, account),
                       file, NULL);
}

const char *vl_cgroup_kills_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                 const char *account)
{
    const place_t *memory = &cg->places[VL_CG_MEMORY];

    if (!memory->version || memory->missing)
        return NULL;
    return apr_pstrcat(p, memory->mount, vl_cgroup_account_path(cg, p, account),
                       memory->version == 1 ? "/memory.oom_control"
                                            : "/memory.events", NULL);
}
