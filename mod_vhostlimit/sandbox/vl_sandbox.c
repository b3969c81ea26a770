/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/vl_sandbox.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <apr_strings.h>

#include "sandbox/vl_landlock.h"
#include "sandbox/vl_namespace.h"
#include "sandbox/vl_rule.h"
#include "sandbox/vl_seccomp.h"

#ifndef __NR_close_range
#define __NR_close_range 436
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif
#define CLOSE_ON_EXEC 4

struct vl_sandbox_t {
    vl_sandbox_e mode;
    int landlock;               /* ruleset, or -1 */
    vl_namespace_t ns;          /* FULL; owned by vl_sandbox_kept_t */
    const vl_seccomp_t *filter; /* or NULL */
};

/* Namespaces, found again by their recipe: all that they are made from.  malloc() is used
 * because a pool that outlives restarts would grow with each of them. */
typedef struct kept_namespace_t kept_namespace_t;
struct kept_namespace_t {
    kept_namespace_t *next;
    char *recipe;
    vl_namespace_t ns;
    int is_used;                /* by the new configuration */
};

/* Filters differ by what a list of connections has: ports, UDP, Unix sockets, and whether there
 * is one. */
#define FILTERS 16

struct vl_sandbox_kept_t {
    kept_namespace_t *first;
    const vl_seccomp_t *filters[FILTERS];   /* of this configuration; NULL: not made yet */
    int sockets;                /* Landlock ruleset of FULL without a list, or -1 */
    apr_status_t error;         /* of that ruleset */
};

const char *vl_sandbox_mode_name(vl_sandbox_e mode)
{
    return mode == VL_SANDBOX_FULL ? "full" : mode == VL_SANDBOX_FILES ? "files" : "off";
}

const char *vl_sandbox_lacks(vl_sandbox_e mode)
{
    if (mode == VL_SANDBOX_FULL)
        return vl_namespace_lacks();
    return mode == VL_SANDBOX_OFF || vl_landlock_version() ? NULL
           : "the kernel has no Landlock (Linux 5.13, CONFIG_SECURITY_LANDLOCK and "
             "\"landlock\" in the kernel's parameter lsm=)";
}

const char *vl_sandbox_weakness(vl_sandbox_e mode)
{
    if (mode == VL_SANDBOX_OFF)
        return NULL;
    if (!vl_seccomp_built())
        return "the module is built without libseccomp, so no system calls are refused";
    if (vl_landlock_version() < VL_LANDLOCK_SCOPES)
        return mode == VL_SANDBOX_FULL
               ? "the kernel cannot refuse abstract sockets of other processes (Linux 6.12 "
                 "with Landlock can)"
               : "the kernel cannot refuse signals to other processes and their abstract "
                 "sockets (Linux 6.12 with Landlock can)";
    return NULL;
}

const char *vl_sandbox_cannot_connect(vl_sandbox_e mode, const vl_connect_t *connect)
{
    if (!connect->is_limited)
        return NULL;
    if (!vl_seccomp_built())
        return "the module is built without libseccomp, which VhostLimitSandboxConnect needs";
    if (connect->ports->nelts && vl_landlock_version() < VL_LANDLOCK_PORTS)
        return "the kernel cannot limit TCP to the ports of VhostLimitSandboxConnect (Linux 6.7 "
               "with Landlock can)";
    if (mode == VL_SANDBOX_FILES && connect->has_unix && vl_landlock_version() < VL_LANDLOCK_UNIX)
        return "the kernel cannot limit Unix sockets to the paths of VhostLimitSandboxConnect "
               "(Linux 7.1 with Landlock can, and VhostLimitSandbox Full on any kernel)";
    return NULL;
}

/* --- the parent ------------------------------------------------------------ */

void vl_sandbox_begin(apr_pool_t *p, apr_pool_t *p_kept, vl_sandbox_kept_t **kept)
{
    static const vl_connect_t everything = { 0 };
    kept_namespace_t *each;
    const char *unused;

    if (!*kept)
        *kept = apr_pcalloc(p_kept, sizeof(**kept));
    for (each = (*kept)->first; each; each = each->next)
        each->is_used = 0;
    memset((*kept)->filters, 0, sizeof((*kept)->filters));
    (*kept)->error = vl_landlock_make(p, NULL, &everything, &(*kept)->sockets, &unused);
}

/* The recipe has the inodes of the paths: a folder that was removed and made again has
 * another one, and the mount of the old one shows what no longer exists. */
static const char *recipe_of(apr_pool_t *p, const char *name, const apr_array_header_t *rules,
                             uid_t user, gid_t group)
{
    const char *recipe = apr_psprintf(p, "%s %lu %lu", name, (unsigned long)user,
                                      (unsigned long)group);
    apr_array_header_t *parts = apr_array_make(p, rules->nelts + 1, sizeof(char *));
    int i;

    APR_ARRAY_PUSH(parts, const char *) = recipe;
    for (i = 0; i < rules->nelts; i++) {
        const vl_rule_t *rule = &APR_ARRAY_IDX(rules, i, vl_rule_t);
        struct stat file = { 0 };

        if (stat(rule->real ? rule->real : rule->path, &file))
            memset(&file, 0, sizeof(file));
        APR_ARRAY_PUSH(parts, const char *) =
            apr_psprintf(p, "\n%d %lx:%lx %s %s", rule->access, (unsigned long)file.st_dev,
                         (unsigned long)file.st_ino, rule->path, rule->real ? rule->real : "");
    }
    return apr_array_pstrcat(p, parts, 0);
}

static const char *get_namespace(apr_pool_t *p, vl_sandbox_kept_t *kept, const char *name,
                                 const apr_array_header_t *rules, uid_t user, gid_t group,
                                 vl_namespace_t *ret_namespace)
{
    const char *recipe = recipe_of(p, name, rules, user, group), *error;
    kept_namespace_t *found = kept->first;

    while (found && strcmp(found->recipe, recipe))
        found = found->next;
    /* A keeper that was killed from outside cannot be joined: it is replaced. */
    if (found && !vl_namespace_has_ended(&found->ns, 0)) {
        found->is_used = 1;
        *ret_namespace = found->ns;
        return NULL;
    }
    error = vl_namespace_make(p, name, rules, user, group, ret_namespace);
    if (error)
        return error;
    if (found)
        vl_namespace_close(&found->ns);
    else {
        found = calloc(1, sizeof(*found));
        if (found)
            found->recipe = strdup(recipe);
        if (!found || !found->recipe) {
            free(found);
            vl_namespace_close(ret_namespace);
            return "no memory";
        }
        found->next = kept->first;
        kept->first = found;
    }
    found->ns = *ret_namespace;
    found->is_used = 1;
    return NULL;
}

const char *vl_sandbox_make(apr_pool_t *p, vl_sandbox_kept_t *kept, const char *name,
                            vl_sandbox_e mode, const apr_array_header_t *rules,
                            const vl_connect_t *connect, uid_t user, gid_t group,
                            vl_sandbox_t **ret_sandbox)
{
    vl_sandbox_t *sandbox = apr_pcalloc(p, sizeof(*sandbox));
    int filter = !connect->is_limited ? 0 : 1 | connect->has_unix << 1 | connect->has_udp << 2
                                            | (connect->ports->nelts > 0) << 3;
    const char *path = "", *error = NULL;
    apr_status_t rv = kept->filters[filter] ? APR_SUCCESS
                                            : vl_seccomp_make(p, connect, &kept->filters[filter]);

    sandbox->mode = mode;
    sandbox->filter = kept->filters[filter];
    sandbox->landlock = kept->sockets;
    if (rv != APR_SUCCESS)
        return apr_psprintf(p, "the filter of system calls: %s", strerror(rv));
    rv = kept->error;
    if (mode == VL_SANDBOX_FILES || connect->is_limited)
        rv = vl_landlock_make(p, mode == VL_SANDBOX_FILES ? rules : NULL, connect, &sandbox->landlock, &path);
    if (rv != APR_SUCCESS)
        error = apr_psprintf(p, "Landlock%s%s: %s", *path ? " for " : "", path, strerror(rv));
    else if (mode == VL_SANDBOX_FULL)
        error = get_namespace(p, kept, name, rules, user, group, &sandbox->ns);
    if (!error)
        *ret_sandbox = sandbox;
    return error;
}

vl_sandbox_t *vl_sandbox_refusing(apr_pool_t *p)
{
    return apr_pcalloc(p, sizeof(vl_sandbox_t));        /* VL_SANDBOX_OFF */
}

void vl_sandbox_end(vl_sandbox_kept_t *kept)
{
    kept_namespace_t **link = &kept->first;

    while (*link) {
        kept_namespace_t *each = *link;

        if (each->is_used) {
            link = &each->next;
            continue;
        }
        vl_namespace_close(&each->ns);
        *link = each->next;
        free(each->recipe);
        free(each);
    }
}

void vl_sandbox_exit(vl_sandbox_kept_t *kept)
{
    kept_namespace_t *each;
    int waits = 1;

    /* All keepers end at the same time. */
    for (each = kept->first; each; each = each->next)
        vl_namespace_release(&each->ns);
    for (each = kept->first; each; each = each->next) {
        /* Child processes that still run have the pipes: one wait tells. */
        waits = waits && vl_namespace_has_ended(&each->ns, 1000);
        each->is_used = 0;
    }
    vl_sandbox_end(kept);
}

/* --- in a process that executes a program ----------------------------------- */

static __thread const vl_sandbox_t *fork_sandbox;
/* Shared with the forked process, which writes its pid there; or NULL. */
static __thread pid_t *fork_pid;

/* Memory that is shared with forked processes. It is mapped once: a mapping for each request
 * would wait for the forks of other threads, which hold the lock of the memory map. 4096 requests
 * at a time have a place in its 16 KiB; the end of further ones is not awaited. */
#define PIDS_MAX 4096
static struct {
    pthread_mutex_t lock;       /* of free and n_free */
    pid_t *pids;                /* PIDS_MAX, or NULL */
    unsigned short free[PIDS_MAX];
    unsigned int n_free;
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void map_shared(void)
{
    void *memory = mmap(NULL, PIDS_MAX * sizeof(*shared.pids), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return;
    shared.pids = memory;
    for (shared.n_free = 0; shared.n_free < PIDS_MAX; shared.n_free++)
        shared.free[shared.n_free] = (unsigned short)shared.n_free;
}

/* The program must not run outside of its sandbox.  The error log of the server is still
 * standard error here. */
static void refuse(const char *what)
{
    static const char begin[] = "vhost limits: a program was not started, because its process "
                                "cannot enter the sandbox of its site (", end[] =
                                "). Restart Apache if this persists.\n";

    if (write(2, begin, sizeof(begin) - 1) < 0 || write(2, what, strlen(what)) < 0
        || write(2, end, sizeof(end) - 1) < 0)
        _exit(125);
    _exit(126);
}

/* Handler of pthread_atfork(): runs in the new process, in its only thread. */
static void enter_in_child(void)
{
    const vl_sandbox_t *sandbox = fork_sandbox;
    const struct rlimit none = { 0, 0 };

    if (!sandbox)
        return;
    if (fork_pid)
        *fork_pid = getpid();
    fork_sandbox = NULL;
    if (sandbox->mode == VL_SANDBOX_OFF)
        refuse("it could not be made");
    /* Before the guardian of the namespaces divides off: it leaves no core file either. */
    setrlimit(RLIMIT_CORE, &none);
    if (sandbox->mode == VL_SANDBOX_FULL && vl_namespace_enter(&sandbox->ns))
        refuse("setns");
    syscall(__NR_close_range, 3, ~0U, CLOSE_ON_EXEC);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        refuse("PR_SET_NO_NEW_PRIVS");
    if (sandbox->landlock >= 0 && vl_landlock_enter(sandbox->landlock))
        refuse("Landlock");
    if (sandbox->filter && vl_seccomp_enter(sandbox->filter))
        refuse("seccomp");
}

static void register_handler(void)
{
    pthread_atfork(NULL, NULL, enter_in_child);
}

void vl_sandbox_fork_for(const vl_sandbox_t *sandbox)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (sandbox)
        pthread_once(&once, register_handler);
    fork_sandbox = sandbox;
    fork_pid = NULL;
}

/* Cleanup of a request's pool: APR kills the pool's processes after the cleanups. */
static apr_status_t await_end(void *data)
{
    pid_t *pid = data;
    struct pollfd process = { .fd = -1, .events = POLLIN };

    if (*pid)
        process.fd = (int)syscall(__NR_pidfd_open, *pid, 0);
    if (process.fd >= 0) {
        poll(&process, 1, 5);
        close(process.fd);
    }
    if (fork_pid == pid)
        fork_pid = NULL;
    pthread_mutex_lock(&shared.lock);
    shared.free[shared.n_free++] = (unsigned short)(pid - shared.pids);
    pthread_mutex_unlock(&shared.lock);
    return APR_SUCCESS;
}

void vl_sandbox_await_end(apr_pool_t *p)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, map_shared);
    pthread_mutex_lock(&shared.lock);
    fork_pid = shared.n_free ? &shared.pids[shared.free[--shared.n_free]] : NULL;
    pthread_mutex_unlock(&shared.lock);
    if (!fork_pid)              /* the request ends later, that is all */
        return;
    *fork_pid = 0;
    apr_pool_cleanup_register(p, fork_pid, await_end, apr_pool_cleanup_null);
}
