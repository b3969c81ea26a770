/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_backends_int.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <apr_strings.h>

/* The children of process 1 are listed this often. */
#define LEFT_US 500000
/* Folders whose site is remembered. */
#define FOLDERS_MOST 4096
/* Children of known processes are looked at this often at most. */
#define CHILDREN_LEAST_US 20000

int vl_backends_find_listens(pid_t pid, int fd, apr_uint64_t listener)
{
    int found = fd >= 0 && vl_proc_inode(pid, fd, NULL) == listener;
    struct dirent *entry;
    char path[64];
    DIR *dir;

    apr_snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = found ? NULL : opendir(path);
    while (dir && !found && (entry = readdir(dir)))
        found = vl_proc_inode(pid, (int)strtol(entry->d_name, NULL, 10), NULL) == listener;
    if (dir)
        (void)closedir(dir);
    return found;
}

void vl_backends_find_check_same(vl_backends_t *b, backend_t *backend)
{
    if (!backend->same_pid || b->now_us < backend->same_us)
        return;
    if (!vl_backends_find_listens(backend->same_pid, -1, backend->listener)
        || !vl_backends_find_listens(backend->same_pid, -1, backend->same->listener)) {
        backend->same = NULL;
        backend->scan_us = 0;
    }
    backend->same_us = b->now_us + (backend->same_wait_us *= 2);
}

static void note_listens(vl_backends_t *b, apr_uint64_t inode, pid_t pid, int fd)
{
    listens_t *listens = apr_array_push(b->listens);

    listens->inode = inode;
    listens->pid = pid;
    listens->fd = fd;
    if (!apr_hash_get(b->known, &pid, sizeof(pid))) {
        listens = apr_pmemdup(b->scan_pool, listens, sizeof(*listens));
        apr_hash_set(b->known, &listens->pid, sizeof(listens->pid), listens);
    }
}

/* A parent, such as FPM's master, has the listening socket at another descriptor. */
static void note_listen_fd(backend_t *backend, pid_t pid, int fd)
{
    int i;

    for (i = 0; i < backend->n_parents; i++) {
        if (backend->parent[i]->pid == pid)
            return;
    }
    if (i)
        backend->listen_fd = fd;
}

/* Adds a process. It may be in another back end so far, because it had that one's listening socket of its parent, or
 * because it was started again as a child of process 1. */
static process_t *add(vl_backends_t *b, backend_t *backend, pid_t pid)
{
    process_t *known = apr_hash_get(b->by_pid, &pid, sizeof(pid)), **at;

    if (known && known->backend != backend
        && (known->backend->is_left
            || (known->listen_fd >= 0
                && !vl_backends_find_listens(pid, known->listen_fd, known->backend->listener)))) {
        for (at = &known->backend->processes; *at != known; at = &(*at)->next)
            ;
        vl_backends_table_remove(b, known->backend, at);
    }
    return vl_backends_table_add(b, backend, pid);
}

/* The same for one that listens there, perhaps only until it has closed what its parent had open. */
static process_t *add_listening(vl_backends_t *b, backend_t *backend, pid_t pid, int fd)
{
    process_t *process = add(b, backend, pid);

    if (process->backend == backend && process->since_us == b->now_us)
        process->listen_fd = fd;
    note_listen_fd(backend, pid, fd);
    return process;
}

/* Adds the processes to the back end that the last scan has found at its listening socket. If
 * none has a parent, its workers are still to be started, as those of FPM's "ondemand". */
void vl_backends_find_adopt(vl_backends_t *b, backend_t *backend)
{
    const process_t *process;
    int i, parents;

    for (parents = 0; parents < 2 && !backend->n_parents && !backend->same; parents++) {
        for (i = 0; i < b->listens->nelts; i++) {
            const listens_t *listens = &APR_ARRAY_IDX(b->listens, i, listens_t);

            if (listens->inode != backend->listener
                || !vl_backends_find_listens(listens->pid, listens->fd, listens->inode))
                continue;
            if (parents) {
                (void)vl_backends_table_parent(b, backend, listens->pid);
                continue;
            }
            process = add_listening(b, backend, listens->pid, listens->fd);
            /* It serves two addresses. FPM's master only listens at those of all pools. */
            if (process->backend != backend && !vl_backends_table_is_parent(process)) {
                backend->same = process->backend;
                backend->same_pid = process->pid;
                backend->same_us = b->now_us + (backend->same_wait_us = INHERITED_US);
            }
        }
    }
    /* FPM's workers of all pools have their connections at the same descriptor. */
    for (i = 0; i < backend->n_parents; i++) {
        if (backend->parent[i]->hint >= 0)
            vl_backends_table_hint(b, backend, backend->parent[i]->hint);
    }
}

/* Returns 1 for a CGI program of mod_cgid: input and output are the same socket. */
static int is_cgi(pid_t pid)
{
    int is_pipe;
    apr_uint64_t in = vl_proc_inode(pid, 0, &is_pipe);

    return in && !is_pipe && in == vl_proc_inode(pid, 1, NULL);
}

/* What makes a process that has a connection one of the back end. */
typedef enum { CONNECTION, LISTENER_TOO, CHILD } check_e;

/* Returns 1 if a descriptor of the process is the connection. here: its inode. is_near: the process is one of the back
 * end, or a child of one. Others are not asked for the ports of their connections. */
static int is_connection(pid_t pid, int fd, apr_uint64_t here, apr_uint64_t inode, int is_near)
{
    if (!(inode & VL_PROC_FROM_PORT))
        return here == inode;
    return is_near && vl_proc_from_port(pid, fd) == inode;
}

/* Adds the process to the back end if it has the listening socket or this connection open.
 * Returns 1 if it has the connection. In a scan it notes all listening sockets. LISTENER_TOO: the
 * connection counts only beside the listening socket, which no program of a CGI has. */
static int check_process(vl_backends_t *b, backend_t *backend, pid_t pid, apr_uint64_t inode,
                         check_e check)
{
    char path[64];
    struct dirent *entry;
    process_t *process;
    int found = 0, has_listener = 0, is_it;
    DIR *dir;

    apr_snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        apr_uint64_t here;

        if (entry->d_name[0] == '.')
            continue;
        here = vl_proc_inode(pid, fd, NULL);
        if (here && b->listeners && apr_hash_get(b->listeners, &here, sizeof(here)))
            note_listens(b, here, pid, fd);
        is_it = here && is_connection(pid, fd, here, inode, has_listener || check == CHILD);
        if (!here || (!is_it && here != backend->listener))
            continue;
        has_listener |= here == backend->listener;
        /* A program has the pipe as input or output. mod_fcgid's daemon has a pipe to Apache too, and so have
         * the processes that it starts until they run their program. */
        if ((check == LISTENER_TOO && !has_listener) || (backend->is_pipe && fd > STDERR_FILENO))
            continue;
        if (here == backend->listener)
            (void)add_listening(b, backend, pid, fd);
        else {
            process = add(b, backend, pid);
            /* It serves two addresses, as Tomcat does (http and ajp). */
            if (process->backend != backend && !backend->processes)
                backend->same = process->backend;
            vl_backends_table_hint(b, process->backend, fd);
            process->inode_epoch = 0;
            /* A scan may see a program before any other look at it. */
            if (fd == 0 && is_cgi(pid))
                process->is_program = backend->forks = 1;
        }
        found |= is_it;
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

static int is_child(const vl_backends_t *b, pid_t pid)
{
    int i;

    for (i = 0; i < b->children; i++) {
        if (b->child[i] == pid)
            return 1;
    }
    return 0;
}

/* Returns 1 for processes of Apache itself, which are no back ends though they may have the
 * sockets of a module's daemons open: the parent, its children, their rescue processes, and
 * this process. */
static int is_server(const vl_backends_t *b, pid_t pid)
{
    apr_uint64_t unused;

    return pid == b->server || pid == getpid() || is_child(b, pid)
           || is_child(b, vl_proc_parent(pid, &unused));
}

static int note_listener(void *data, apr_uint64_t inode, const char *name)
{
    vl_backends_t *b = data;
    const apr_uint64_t *key = apr_pmemdup(b->scan_pool, &inode, sizeof(inode));

    apr_hash_set(b->listeners, key, sizeof(*key), key);
    if (*name)
        apr_hash_set(b->names, apr_pstrdup(b->scan_pool, name), APR_HASH_KEY_STRING, key);
    return 1;
}

/* As vl_proc_listener(), which reads the list of all sockets of the machine. */
apr_uint64_t vl_backends_find_listener(const vl_backends_t *b, const vl_peer_t *peer)
{
    const apr_uint64_t *known = peer->listener ? &peer->listener : peer->port ? NULL
                                : apr_hash_get(b->names, peer->name, APR_HASH_KEY_STRING);

    return known ? *known : vl_proc_listener(peer);
}

/* A database server that was restarted gets a scan at once, others have to wait for the next one. */
static int may_scan_all(const vl_backends_t *b, const backend_t *backend)
{
    return b->now_us >= b->scan_us || (backend->is_lost && backend->listener);
}

/* Looks at all processes of the machine. One scan finds the processes of all listening sockets,
 * because it is too expensive to take place for each back end. */
static int scan_all(vl_backends_t *b, backend_t *backend, apr_uint64_t inode)
{
    apr_int64_t from_us = cpu_us();
    struct dirent *entry;
    DIR *dir;
    int found = 0;

    if (!may_scan_all(b, backend))
        return 0;
    if (backend->listener)
        backend->is_lost = 0;
    apr_pool_clear(b->scan_pool);
    b->listens = apr_array_make(b->scan_pool, 64, sizeof(listens_t));
    b->known = apr_hash_make(b->scan_pool);
    b->names = apr_hash_make(b->scan_pool);
    b->listeners = apr_hash_make(b->scan_pool);
    vl_proc_listeners(note_listener, b);
    dir = opendir("/proc");
    while (dir && (entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid > 0 && !is_server(b, pid))
            found |= check_process(b, backend, pid, inode, CONNECTION);
    }
    if (dir)
        (void)closedir(dir);
    b->listeners = NULL;
    b->scan_us = b->now_us + (cpu_us() - from_us) * SCAN_REST;
    return found;
}

/* Looks at all descriptors of the back end's processes. */
static int scan_own(vl_backends_t *b, backend_t *backend, apr_uint64_t inode)
{
    process_t *process = backend->processes;
    int found = 0;

    for (; process && !found; process = process->next)
        found = check_process(b, backend, process->pid, inode, CHILD);
    return found;
}

/* Looks at the processes that Apache's parent has started, and at theirs: those of mod_fcgid,
 * mod_wsgi and Passenger begin and end often, and are few. */
static int scan_family(vl_backends_t *b, backend_t *backend, apr_uint64_t inode)
{
    pid_t family[FAMILY] = { b->server };
    int i, k, first, n = 1, found = 0;

    for (i = 0; i < n; i++) {
        if (i && is_child(b, family[i]))
            continue;
        first = n;
        n += vl_proc_children(family[i], 0, family + n, FAMILY - n);
        for (k = first; k < n; k++) {
            if (!apr_hash_get(b->by_pid, &family[k], sizeof(family[k])) && !is_server(b, family[k])
                && !is_cgi(family[k]))
                found |= check_process(b, backend, family[k], inode, LISTENER_TOO);
        }
    }
    return found;
}

/* Programs that end sooner than they are found, and addresses of other machines, must not cause scans for ever. */
static void rest_after(const vl_backends_t *b, backend_t *backend, int found, apr_int64_t rest_us)
{
    backend->scan_wait_us = found ? SCAN_LEAST_US
                                  : backend->scan_wait_us < FORGET_US / 2
                                    ? backend->scan_wait_us * 2 : FORGET_US / 2;
    backend->scan_us = b->now_us + (rest_us > backend->scan_wait_us ? rest_us
                                                                    : backend->scan_wait_us);
}

/* Asks one process of each other network namespace, until `peer` is found. */
static int scan_nets(vl_backends_t *b, vl_peer_t *peer)
{
    apr_hash_t *seen = apr_hash_make(b->scratch);
    apr_uint64_t net, own = vl_proc_net(getpid());
    struct dirent *entry;
    DIR *dir = opendir("/proc");
    int found = 0;

    apr_hash_set(seen, &own, sizeof(own), seen);
    while (dir && !found && (entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        net = pid > 0 ? vl_proc_net(pid) : 0;
        if (!net || apr_hash_get(seen, &net, sizeof(net)))
            continue;
        apr_hash_set(seen, apr_pmemdup(b->scratch, &net, sizeof(net)), sizeof(net), seen);
        found = vl_proc_apart(pid, peer);
    }
    if (dir)
        (void)closedir(dir);
    apr_pool_clear(b->scratch);
    return found;
}

int vl_backends_find_apart(vl_backends_t *b, backend_t *backend, vl_peer_t *peer, pid_t in)
{
    apr_int64_t from_us = cpu_us();

    if (!(backend->is_apart && (backend->processes || backend->same)) && b->now_us >= backend->scan_us
        && b->now_us >= b->nets_us) {
        backend->is_apart = in ? vl_proc_apart(in, peer) : scan_nets(b, peer);
        backend->listener = peer->listener;
        backend->port = peer->port;
        b->nets_us = b->now_us + (cpu_us() - from_us) * SCAN_REST;
        if (!backend->is_apart)
            rest_after(b, backend, 0, b->nets_us - b->now_us);
    }
    if (!backend->is_apart) {
        backend->seen_us = b->now_us;
        return 0;
    }
    peer->inode = VL_PROC_FROM_PORT | (apr_uint64_t)peer->from_port;
    peer->listener = backend->listener;
    return 1;
}

int vl_backends_find_scan(vl_backends_t *b, backend_t *backend, apr_uint64_t inode)
{
    apr_int64_t from_us = cpu_us(), rest_us;
    int found;

    if (b->now_us < backend->scan_us)
        return 0;
    found = scan_own(b, backend, inode) || scan_family(b, backend, inode);
    rest_us = (cpu_us() - from_us) * SCAN_REST;
    backend->scan_us = b->now_us + (rest_us > SCAN_LEAST_US ? rest_us : SCAN_LEAST_US);
    if (!found && !may_scan_all(b, backend))
        return 0;
    found = found || scan_all(b, backend, inode);
    rest_after(b, backend, found, rest_us);
    return found;
}

/* Returns 1 if the last scan has seen that the process serves another address only. */
static int is_of_another(const vl_backends_t *b, const backend_t *backend, pid_t pid)
{
    const listens_t *listens = apr_hash_get(b->known, &pid, sizeof(pid));

    return listens && backend->listener && listens->inode != backend->listener;
}

/* Adds the process if it is a CGI program: the connection is one of its standard descriptors, or
 * (mod_cgid) both input and output are the same socket. Returns 1 if it has the connection. */
static int check_program(vl_backends_t *b, backend_t *backend, pid_t pid, apr_uint64_t inode)
{
    apr_uint64_t standard[3];
    process_t *process;
    int i, is_pipe, found = 0;

    for (i = 0; i < 3; i++) {
        standard[i] = vl_proc_inode(pid, i, &is_pipe);
        found |= standard[i] && standard[i] == inode;
    }
    if (!found && (!standard[0] || standard[0] != standard[1] || is_pipe))
        return 0;
    process = vl_backends_table_add(b, backend, pid);
    process->is_program = backend->forks = 1;
    for (i = 0; i < 3; i++)
        vl_backends_table_hint(b, backend, i);
    return found;
}

process_t *vl_backends_find_program(vl_backends_t *b, backend_t *backend, pid_t pid, pid_t tid)
{
    pid_t children[FAMILY];
    int n = vl_proc_children(pid, tid, children, FAMILY);
    process_t *process = n ? vl_backends_table_add(b, backend, children[n - 1]) : NULL;

    if (process)
        process->is_program = 1;
    return process;
}

/* Looks at the new children of one process. starts: these may be programs. */
static int scan_children_of(vl_backends_t *b, backend_t *backend, apr_uint64_t inode, pid_t pid,
                            pid_t tid, int starts)
{
    pid_t children[CHILDREN];
    int i, n = vl_proc_children(pid, tid, children, CHILDREN), found = 0;

    for (i = 0; i < n; i++) {
        if (apr_hash_get(b->by_pid, &children[i], sizeof(children[i]))
            || is_of_another(b, backend, children[i]))
            continue;
        if (backend->listen_fd >= 0
            && vl_proc_inode(children[i], backend->listen_fd, NULL) == backend->listener)
            found |= check_process(b, backend, children[i], inode, CHILD);
        else if (starts && check_program(b, backend, children[i], inode))
            found = 1;
        else if (!tid && backend->listen_fd < 0)
            found |= check_process(b, backend, children[i], inode, CHILD);
    }
    return found;
}

/* Looks at the new children of processes whose children are the back end's, and of its own ones
 * if they may start programs. tid: the thread of Apache that waits for a program which it has
 * started, or 0. */
int vl_backends_find_children(vl_backends_t *b, backend_t *backend, apr_uint64_t inode, pid_t pid,
                         pid_t tid)
{
    process_t *process;
    int i, found = 0;

    if (tid)
        return scan_children_of(b, backend, inode, pid, tid, 1);
    if (b->now_us - backend->children_us < CHILDREN_LEAST_US && backend->children_us)
        return 0;
    backend->children_us = b->now_us;
    for (i = 0; i < backend->n_parents; i++)
        found |= scan_children_of(b, backend, inode, backend->parent[i]->pid, 0, backend->forks);
    if (!found && !backend->n_parents && backend->n_processes <= FEW_PROCESSES) {
        for (process = backend->processes; process && !found; process = process->next)
            found = scan_children_of(b, backend, inode, process->pid, 0, 1);
    }
    return found;
}

/* Reads which sockets the process has at the back end's hints. One that has used no CPU time
 * since the last reading has accepted no connection. */
static void read_inodes(vl_backends_t *b, const backend_t *backend, process_t *process)
{
    apr_uint64_t ns = vl_proc_cpu_ns(process->pid);
    int i;

    process->inode_epoch = b->epoch;
    if (ns == process->inode_ns && process->inode_hints == backend->hint_changes)
        return;
    process->inode_ns = ns;
    process->inode_hints = backend->hint_changes;
    for (i = 0; i < backend->hints; i++)
        process->inode[i] = backend->is_apart ? vl_proc_from_port(process->pid, backend->hint[i])
                                              : vl_proc_inode(process->pid, backend->hint[i], NULL);
}

/* Returns the process that has the connection with this inode, or NULL. */
process_t *vl_backends_find_process(vl_backends_t *b, backend_t *backend, apr_uint64_t inode)
{
    process_t **at, *process;
    int i;

    for (at = &backend->processes; (process = *at); at = &process->next) {
        if (process->inode_epoch != b->epoch)
            read_inodes(b, backend, process);
        for (i = 0; i < backend->hints; i++) {
            if (process->inode[i] != inode)
                continue;
            *at = process->next;
            process->next = backend->processes;
            return backend->processes = process;
        }
    }
    return NULL;
}

int vl_backends_find_serves(vl_backends_t *b, const backend_t *backend, process_t *process)
{
    int i;

    read_inodes(b, backend, process);
    for (i = 0; i < backend->hints && !process->inode[i]; i++)
        ;
    return i < backend->hints;
}

apr_uint32_t vl_backends_find_site(vl_backends_t *b, pid_t pid)
{
    char folder[512];
    apr_uint32_t account, *known;

    if (!b->folder || !vl_proc_folder(pid, folder, sizeof(folder)))
        return VL_NO_ACCOUNT;
    known = apr_hash_get(b->folders, folder, APR_HASH_KEY_STRING);
    if (known)
        return *known;
    if (apr_hash_count(b->folders) >= FOLDERS_MOST) {
        apr_pool_clear(b->folder_pool);
        b->folders = apr_hash_make(b->folder_pool);
    }
    account = b->folder(folder);
    apr_hash_set(b->folders, apr_pstrdup(b->folder_pool, folder), APR_HASH_KEY_STRING,
                 apr_pmemdup(b->folder_pool, &account, sizeof(account)));
    return account;
}

/* Returns 1 if the process has the user and the cgroups of a process that works for the account, or of Apache. */
static int is_beside(vl_backends_t *b, apr_uint32_t account, pid_t pid)
{
    int k, found = b->children && vl_proc_is_alike(pid, b->child[0]);
    apr_hash_index_t *i;
    backend_t *backend;
    void *value;

    for (i = apr_hash_first(NULL, b->by_name); i && !found; i = apr_hash_next(i)) {
        apr_hash_this(i, NULL, NULL, &value);
        backend = value;
        for (k = 0; k < backend->n_shares && backend->shares[k].account != account; k++)
            ;
        found = k < backend->n_shares && backend->processes && vl_proc_is_alike(pid, backend->processes->pid);
    }
    return found;
}

/* A process that has become a child of process 1 works for the site whose virtual host names its working folder,
 * if it has the user and the cgroups of a back end of this site. A backup of the administrator has others, and
 * programs of another site have another user. */
static void adopt_left(vl_backends_t *b, pid_t pid)
{
    apr_uint32_t account = is_server(b, pid) ? VL_NO_ACCOUNT : vl_backends_find_site(b, pid);
    backend_t *backend;
    char name[64];

    if (account == VL_NO_ACCOUNT || !apr_hash_get(b->users, &account, sizeof(account))
        || !is_beside(b, account, pid))
        return;
    apr_snprintf(name, sizeof(name), "background programs %u", account);
    backend = vl_backends_table_get(b, name);
    backend->is_left = backend->has_programs = 1;
    backend->seen_us = b->now_us;
    (void)vl_backends_table_share(backend, account);
    (void)vl_backends_table_add(b, backend, pid);
}

void vl_backends_find_left(vl_backends_t *b)
{
    static pid_t children[CHILDREN];
    apr_hash_t *before = b->reaped;
    apr_pool_t *pool = b->reaped_pool[1];
    process_t *process;
    int i, n;

    if (b->now_us - b->reaped_us < LEFT_US)
        return;
    b->reaped_us = b->now_us;
    b->reaped_pool[1] = b->reaped_pool[0];
    b->reaped_pool[0] = pool;
    apr_pool_clear(pool);
    b->reaped = apr_hash_make(pool);
    n = vl_proc_children(1, 0, children, CHILDREN);
    for (i = 0; i < n; i++) {
        pid_t *key = apr_pmemdup(pool, &children[i], sizeof(*key));

        apr_hash_set(b->reaped, key, sizeof(*key), key);
        process = apr_hash_get(b->by_pid, key, sizeof(*key));
        if (process && process->backend->is_left)
            process->backend->seen_us = b->now_us;
        else if (before && !process && !apr_hash_get(before, key, sizeof(*key)))
            adopt_left(b, *key);
    }
}
