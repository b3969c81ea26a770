/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, changes and removes the groups of the accounts. */
#include "cgroup/vl_cgroup_int.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <apr_strings.h>
#include <apr_tables.h>

#include "cgroup/vl_cgroup_file.h"

const char *vl_cgroup_make_group(const vl_cgroup_t *cg, apr_pool_t *p,
                                 const char *path)
{
    const controller_t *ctl;
    const char *failed = NULL;
    int i;

    for (i = 0; !failed && (ctl = vl_cgroup_hierarchy(cg, i)); i++)
        failed = vl_cgroup_make_path(p, ctl->mount, path);
    return failed;
}

/* Removes the group from every hierarchy in use. A group with members or child groups
 * stays, because rmdir() fails then. The delete function of libcgroup is not used: it moves
 * the members to another group. */
static void remove_group(const vl_cgroup_t *cg, const char *path)
{
    const controller_t *ctl;
    int i;

    for (i = 0; (ctl = vl_cgroup_hierarchy(cg, i)); i++)
        rmdir(apr_pstrcat(cg->pool, ctl->mount, path, NULL));
}

const char *vl_cgroup_set(const vl_cgroup_t *cg, apr_pool_t *p,
                          vl_cgroup_controller_e controller, const char *path,
                          const vl_cgroup_limits_t *limits)
{
    const controller_t *ctl = &cg->controllers[controller];
    const vl_cgroup_value_t *value;

    if (!ctl->version || ctl->missing)
        return NULL;
    value = vl_cgroup_values(p, controller, ctl->version, limits, cg->disks);
    for (; value->file; value++) {
        const char *file = apr_pstrcat(p, ctl->mount, path, "/", value->file, NULL);
        const char *text = vl_cgroup_file_read(p, file), *failed;
        apr_size_t n = strlen(value->value);

        /* The kernel needs 0.9 ms to set an unchanged quota (cpu.cfs_quota_us, cpu.max), and a restart of thousands of
         * sites sets all of them.  cpu.max has its period after "max".  A file with a line for each disk counts as
         * different. */
        if (!strncmp(text, value->value, n)
            && (!strcmp(text + n, "\n") || (!strcmp(value->value, "max") && text[n] == ' ')))
            continue;
        failed = vl_cgroup_file_write(file, value->value);
        if (failed && !value->optional)
            return apr_psprintf(p, "%s cannot be set to %s: %s", value->file,
                                value->value, failed);
    }
    return NULL;
}

/* Adds the pids that the file has to the list, and returns how many the list has then. */
static int add_pids(apr_array_header_t *pids, const char *file)
{
    char *text = apr_pstrdup(pids->pool, vl_cgroup_file_read(pids->pool, file)), *pid, *last;

    for (pid = apr_strtok(text, " \n", &last); pid; pid = apr_strtok(NULL, " \n", &last))
        APR_ARRAY_PUSH(pids, char *) = pid;
    return pids->nelts;
}

/* Adds the processes that the threads of the process have forked. */
static void add_children(apr_array_header_t *pids, const char *pid)
{
    const char *tasks = apr_pstrcat(pids->pool, "/proc/", pid, "/task/", NULL);
    DIR *dir = opendir(tasks);
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        if (*entry->d_name != '.')
            add_pids(pids, apr_pstrcat(pids->pool, tasks, entry->d_name, "/children", NULL));
    }
    if (dir)
        closedir(dir);
}

/* Returns 1 if /proc/<pid>/<name> has the text. */
static int proc_has(apr_pool_t *p, const char *pid, const char *name, const char *text)
{
    return strstr(vl_cgroup_file_read(p, apr_pstrcat(p, "/proc/", pid, "/", name, NULL)),
                  text) != NULL;
}

/* Moves the processes that descend from the server, with all their threads, from the group
 * `from` to the group `to`: child processes of older generations, programs of piped logs and
 * what their shells have started, other modules' daemons. A child of the server moves from any
 * group, because its main thread may be in a site's group for threads, and so does a rescue
 * process. Other processes in groups of sites stay, and so does what they have forked. Returns
 * how many processes it has moved. */
static int move_descendants(const vl_cgroup_t *cg, apr_pool_t *p, const char *file,
                            const char *from, const char *to)
{
    apr_array_header_t *pids = apr_array_make(p, 64, sizeof(char *));
    int children, i, moved = 0;

    add_children(pids, apr_itoa(p, (int)getpid()));
    children = pids->nelts;
    for (i = 0; i < pids->nelts; i++) {
        const char *pid = APR_ARRAY_IDX(pids, i, const char *);
        const char *here = vl_cgroup_of(cg, p, pid);
        int is_there = !strcmp(here, to), is_server = i < children || !strcmp(here, from);

        if (!is_there && (is_server || proc_has(p, pid, "comm", VL_RESCUE_NAME "\n")))
            moved += !vl_cgroup_file_write(file, pid);
        if (is_there || is_server)
            add_children(pids, pid);
    }
    return moved;
}

/* How often the processes are searched at most: what forks meanwhile is found the next time. */
#define MOVE_TRIES 5

const char *vl_cgroup_move_self(const vl_cgroup_t *cg, apr_pool_t *p,
                                const char *path)
{
    const char *file = apr_pstrcat(p, cg->controllers[VL_CG_CPU].mount, path,
                                   "/cgroup.procs", NULL);
    const char *from = vl_cgroup_of(cg, p, "self");
    const char *failed = vl_cgroup_file_write(file,
                                              apr_itoa(p, (int)getpid()));
    int tries = MOVE_TRIES, moved = !failed;
    apr_pool_t *temporary;

    while (moved && tries--) {
        apr_pool_create(&temporary, p);
        moved = move_descendants(cg, temporary, file, from, path);
        apr_pool_destroy(temporary);
    }
    return failed;
}

/* Creates the groups of the account and sets their limits.  In v1 the group for its server threads
 * is below that for its back ends, and the limits of that one apply to it.  In v2 it must be below
 * the server's group, so it gets the CPU limits itself.  Returns NULL or an error message. */
static const char *make_groups(const vl_cgroup_t *cg, apr_pool_t *p, const group_t *group)
{
    const controller_t *cpu = &cg->controllers[VL_CG_CPU];
    const char *path = apr_pstrcat(p, cg->path, "/", group->name, NULL);
    const char *threads = vl_cgroup_threads_path(cg, p, group->name);
    const char *failed = vl_cgroup_make_group(cg, p, path), *file;
    int c;

    if (failed)
        return apr_psprintf(p, "group %s cannot be made: %s", path, failed);
    if (!cpu->missing)
        failed = vl_cgroup_make_path(p, cpu->mount, threads);
    if (!failed && !cpu->missing && cpu->version == 2) {
        /* It has to be threaded to hold threads of a process that is in another group. */
        file = apr_pstrcat(p, cpu->mount, threads, "/cgroup.type", NULL);
        if (strcmp(vl_cgroup_file_read(p, file), "threaded\n") != 0)
            failed = vl_cgroup_file_write(file, "threaded");
        if (!failed)
            failed = vl_cgroup_set(cg, p, VL_CG_CPU, threads, &group->limits);
    }
    for (c = 0; !failed && c < VL_CG_CONTROLLERS; c++)
        failed = vl_cgroup_set(cg, p, c, path, &group->limits);
    return failed;
}

/* Returns the controllers for which the limits differ, as a set of bits 1 << controller. */
static unsigned differences(const vl_cgroup_limits_t *a, const vl_cgroup_limits_t *b)
{
    return (a->weight != b->weight || a->cpu != b->cpu ? 1u << VL_CG_CPU : 0)
           | (a->memory != b->memory ? 1u << VL_CG_MEMORY : 0)
           | (a->processes != b->processes ? 1u << VL_CG_PIDS : 0)
           | (a->io != b->io ? 1u << VL_CG_IO : 0);
}

apr_status_t vl_cgroup_add(vl_cgroup_t *cg, const char *account,
                           const vl_cgroup_limits_t *limits)
{
    group_t *group, *old;
    const char *failed;
    apr_pool_t *p;

    if (!*cg->path)
        return APR_SUCCESS;
    group = apr_pcalloc(cg->pool, sizeof(*group));
    group->name = vl_cgroup_file_name(cg->pool, account);
    group->limits = *limits;
    apr_hash_set(cg->accounts, group->name, APR_HASH_KEY_STRING, group);
    old = cg->same ? apr_hash_get(cg->same->accounts, group->name, APR_HASH_KEY_STRING) : NULL;
    if (old) {
        group->n_fds = old->n_fds;
        memcpy(group->fds, old->fds, sizeof(group->fds));
        old->n_fds = 0;
        group->is_set = old->is_set && !differences(&old->limits, limits);
    }
    if (group->is_set)
        return APR_SUCCESS;
    apr_pool_create(&p, cg->pool);
    failed = make_groups(cg, p, group);
    group->is_set = !failed;
    if (failed)
        cg->reason = apr_pstrdup(cg->pool, failed);
    apr_pool_destroy(p);
    return failed ? APR_EGENERAL : APR_SUCCESS;
}

group_t *vl_cgroup_group(const vl_cgroup_t *cg, apr_pool_t *p, const char *account)
{
    return apr_hash_get(cg->accounts, vl_cgroup_file_name(p, account), APR_HASH_KEY_STRING);
}

/* A directory of a cgroup hierarchy has a link for each of its folders (kernfs_refresh_inode()
 * in fs/kernfs/inode.c). */
apr_uint64_t vl_cgroup_links(const vl_cgroup_t *cg)
{
    static const char *const below[] = { "", SERVER_NAME };
    const controller_t *ctl;
    apr_uint64_t links = 0;
    struct stat info;
    int i, k;

    for (i = 0; (ctl = vl_cgroup_hierarchy(cg, i)); i++) {
        for (k = 0; k < 2; k++) {
            if (!stat(apr_pstrcat(cg->pool, ctl->mount, cg->path, below[k], NULL), &info))
                links += info.st_nlink;
        }
    }
    return links;
}

const char *vl_cgroup_change(const vl_cgroup_t *cg, apr_pool_t *p,
                             const char *account,
                             const vl_cgroup_limits_t *before,
                             const vl_cgroup_limits_t *limits)
{
    unsigned changed = differences(before, limits);
    const char *path = vl_cgroup_account_path(cg, p, account), *failed = NULL;
    group_t *group = vl_cgroup_group(cg, p, account);
    int c;

    if (!*cg->path)
        return NULL;
    /* The next restart looks what the files have. */
    if (group)
        group->is_set = 0;
    for (c = 0; c < VL_CG_CONTROLLERS && !failed; c++) {
        if (changed & 1u << c)
            failed = vl_cgroup_set(cg, p, c, path, limits);
    }
    if (failed || !(changed & 1u << VL_CG_CPU) || cg->controllers[VL_CG_CPU].version != 2)
        return failed;
    return vl_cgroup_set(cg, p, VL_CG_CPU,
                         vl_cgroup_threads_path(cg, p, vl_cgroup_file_name(p, account)),
                         limits);
}

/* Returns 1 if the group exists in a hierarchy. */
static int exists(const vl_cgroup_t *cg, const char *path)
{
    const controller_t *ctl;
    int i;

    for (i = 0; (ctl = vl_cgroup_hierarchy(cg, i)); i++) {
        if (!access(apr_pstrcat(cg->pool, ctl->mount, path, NULL), F_OK))
            return 1;
    }
    return 0;
}

/* Removes the groups of `old` that are in `names` and that cg does not use.  cg->left gets
 * the groups that cannot be removed.  cg may be NULL. */
static void remove_names(const vl_cgroup_t *old, apr_hash_t *names,
                         vl_cgroup_t *cg)
{
    const controller_t *cpu = &old->controllers[VL_CG_CPU];
    apr_pool_t *p = old->pool;
    apr_hash_index_t *i;

    for (i = apr_hash_first(p, names); i; i = apr_hash_next(i)) {
        const char *name = apr_hash_this_key(i);
        const char *path = apr_pstrcat(p, old->path, "/", name, NULL);
        const char *threads = vl_cgroup_threads_path(old, p, name);

        if (cg && apr_hash_get(cg->accounts, name, APR_HASH_KEY_STRING))
            continue;
        if (cpu->version)
            rmdir(apr_pstrcat(p, cpu->mount, threads, NULL));
        remove_group(old, path);
        if (!exists(old, path) && !exists(old, threads))
            continue;
        if (cg) {
            name = apr_pstrdup(cg->pool, name);
            apr_hash_set(cg->left, name, APR_HASH_KEY_STRING, name);
        }
        else if (cpu->version)  /* shows the next server that the group is the module's */
            vl_cgroup_make_path(p, cpu->mount, threads);
    }
}

/* Adds the processes in the server's group to the list.  Returns their number, -1 if a server
 * is among them: it has mapped this module, and uses the tree. */
static int find_orphans(const vl_cgroup_t *cg, apr_pool_t *p, apr_array_header_t *pids)
{
    int n = add_pids(pids, apr_pstrcat(p, cg->controllers[VL_CG_CPU].mount, cg->path,
                                       SERVER_NAME "/cgroup.procs", NULL)), i;

    for (i = 0; i < n; i++) {
        if (proc_has(p, APR_ARRAY_IDX(pids, i, const char *), "maps", "/mod_vhostlimit.so"))
            return -1;
    }
    return n;
}

/* A group of another program has no group for threads. */
void vl_cgroup_find_left(vl_cgroup_t *cg)
{
    const controller_t *cpu = &cg->controllers[VL_CG_CPU];
    apr_pool_t *p = cg->pool;
    DIR *dir = *cg->path && cpu->version
               && find_orphans(cg, p, apr_array_make(p, 64, sizeof(char *))) >= 0
               ? opendir(apr_pstrcat(p, cpu->mount, cg->path, NULL)) : NULL;
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        const char *name = apr_pstrdup(p, entry->d_name);

        if (*name != '.' && !access(apr_pstrcat(p, cpu->mount, vl_cgroup_threads_path(
                                                    cg, p, name), NULL), F_OK))
            apr_hash_set(cg->left, name, APR_HASH_KEY_STRING, name);
    }
    if (dir)
        closedir(dir);
}

/* Moves the processes that are left in the group of the server that ends to the group `to`: their
 * parents have ended, as those of Passenger's processes. Returns how many it has moved. */
static int move_orphans(const vl_cgroup_t *cg, apr_pool_t *p, const char *to)
{
    const char *file = apr_pstrcat(p, cg->controllers[VL_CG_CPU].mount, to, "/cgroup.procs", NULL);
    apr_array_header_t *pids = apr_array_make(p, 64, sizeof(char *));
    int i, moved = 0;

    for (i = find_orphans(cg, p, pids); i-- > 0;)
        moved += !vl_cgroup_file_write(file, APR_ARRAY_IDX(pids, i, const char *));
    return moved;
}

/* Removes the tree's root and the server's group.  Apache moves back to its original group
 * unless the next tree has moved it already. */
static void remove_tree(const vl_cgroup_t *cg, const vl_cgroup_t *next)
{
    const char *server = apr_pstrcat(cg->pool, cg->path, SERVER_NAME, NULL);
    int is_moved = next && next->origin, tries = MOVE_TRIES;

    if (cg->origin && !is_moved)
        vl_cgroup_move_self(cg, cg->pool, cg->origin);
    while (cg->origin && tries--
           && move_orphans(cg, cg->pool, !is_moved ? cg->origin : apr_pstrcat(
                               cg->pool, next->path, SERVER_NAME, NULL)) > 0)
        ;
    remove_group(cg, server);
    remove_group(cg, cg->path);
}

/* Closes the descriptors that no later tree has taken. */
static void close_fds(const vl_cgroup_t *cg)
{
    apr_hash_index_t *i;

    for (i = apr_hash_first(cg->pool, cg->accounts); i; i = apr_hash_next(i)) {
        group_t *group = apr_hash_this_val(i);
        int f;

        for (f = 0; group->n_fds && f <= VL_CG_CONTROLLERS; f++) {
            if (group->fds[f] >= 0)
                close(group->fds[f]);
        }
        group->n_fds = 0;
    }
}

void vl_cgroup_remove_gone(vl_cgroup_t *old, vl_cgroup_t *cg)
{
    vl_cgroup_t *earlier, *same;

    if (!old && cg)
        remove_names(cg, cg->left, cg);
    for (; old; old = earlier) {
        earlier = old->earlier;
        same = cg && !strcmp(old->path, cg->path) ? cg : NULL;
        close_fds(old);
        if (*old->path) {
            remove_names(old, old->accounts, same);
            remove_names(old, old->left, same);
            if (!same)
                remove_tree(old, cg);
        }
        if (!*old->path || !cg || same || !exists(old, old->path)) {
            apr_pool_destroy(old->pool);
            continue;
        }
        /* Groups of it could not be removed. */
        old->earlier = cg->earlier;
        cg->earlier = old;
    }
    if (cg) {
        cg->same = NULL;
        cg->links = vl_cgroup_links(cg);
    }
}
