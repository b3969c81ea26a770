/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_backends_int.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <apr_strings.h>

#include "base/vl_clock.h"

/* A back end may wait for another one, such as a database. */
#define DEPTH_MOST 3
/* Threads of a process with more than THREADS of them are listed this often, because a part of them is looked at. */
#define PART_US 100000
#define THREADS_MOST 4096
/* That the sessions of a database cannot be seen is said after this time. */
#define FAULT_US (2 * APR_USEC_PER_SEC)
/* A process of each back end is looked at for work after a response this often. */
#define AFTER_US 250000
/* Addresses that are named at most. */
#define NAMED_MOST 64
/* Processes of a back end that are looked at in one round, about, if each may work for any request. */
#define GROUP_LOOKS 16
/* Programs of a process that are asked whether they call this server, and the time between two such looks, in
 * lengths of a look. */
#define PROGRAMS_MOST 16
#define CALLS_OF_PROGRAMS_REST 100
/* Of a back end with a backlog, so many processes are asked whether they wait for a connection. */
#define IDLE_LOOKS 64

vl_backends_t *vl_backends_create(apr_pool_t *p, pid_t server)
{
    vl_backends_t *b = apr_pcalloc(p, sizeof(*b));
    int i;

    b->pool = p;
    b->random = 1;
    b->pace = 1000;
    apr_pool_create(&b->scratch, p);
    apr_pool_create(&b->scan_pool, p);
    apr_pool_create(&b->connection_pool, p);
    apr_pool_create(&b->folder_pool, p);
    b->folders = apr_hash_make(b->folder_pool);
    b->connections = apr_hash_make(b->connection_pool);
    b->listens = apr_array_make(b->scan_pool, 0, sizeof(listens_t));
    b->known = apr_hash_make(b->scan_pool);
    b->names = apr_hash_make(b->scan_pool);
    b->server = server;
    b->by_name = apr_hash_make(p);
    b->by_pid = apr_hash_make(p);
    b->parents = apr_hash_make(p);
    b->users = apr_hash_make(p);
    b->named = apr_hash_make(p);
    for (i = 0; i < 2; i++)
        apr_pool_create(&b->reaped_pool[i], p);
    return b;
}

void vl_backends_set_sites(vl_backends_t *b, vl_backends_site_fn *folder, vl_backends_site_fn *user)
{
    b->folder = folder;
    b->user = user;
}

void vl_backends_set_own(vl_backends_t *b, const vl_listen_address_t *own, int n)
{
    b->own = own;
    b->n_own = n;
}

static int is_own(const vl_backends_t *b, const vl_peer_t *peer)
{
    int i;

    for (i = 0; i < b->n_own; i++) {
        if (b->own[i].port == peer->port && vl_proc_ip_matches(&b->own[i].ip, &peer->ip))
            return 1;
    }
    return 0;
}

void vl_backends_begin(vl_backends_t *b, apr_int64_t now_us, const pid_t *children, int n,
                       apr_uint32_t stride)
{
    int i, asked;

    b->round++;
    b->epoch++;
    b->since_us = b->now_us;
    b->stride = stride;
    b->is_paused = 0;
    b->now_us = now_us;
    b->child = children;
    b->children = n;
    b->moments = b->old_moments = b->calls = 0;
    for (asked = b->n_asked, b->n_asked = i = 0; i < asked; i++) {
        /* Queries may run on when their requests have ended. */
        b->asked[i]->is_asked = now_us - b->asked[i]->seen_us < USED_US
                                || now_us - b->asked[i]->busy_us < USED_US;
        if (b->asked[i]->is_asked)
            b->asked[b->n_asked++] = b->asked[i];
    }
}

void vl_backends_set_paused(vl_backends_t *b, int is_paused)
{
    b->is_paused = is_paused;
}

/* --- whether a process runs ---------------------------------------------------- */

/* Lists the threads of the process, or one of so many, each time from another one on. */
static void list_threads(vl_backends_t *b, process_t *process)
{
    static pid_t all[THREADS_MOST];
    int i, n = vl_proc_threads(process->pid, all, THREADS_MOST);

    process->threads_us = b->now_us;
    process->threads = 0;
    process->every = n > THREADS ? 1 + (apr_uint32_t)(n - 1) / THREADS : 1;
    for (i = (int)(vl_backends_table_random(b) % process->every); i < n; i += (int)process->every)
        process->thread[process->threads++] = all[i];
}

/* Returns 1 if the threads are not those that were listed, as far as their number shows it. */
static int has_other_threads(const vl_backends_t *b, process_t *process)
{
    apr_uint64_t ns;

    if (process->every > 1)
        return b->now_us - process->threads_us > PART_US;
    /* A process that has not run has started no thread. */
    ns = vl_proc_cpu_ns(process->pid);
    if (process->threads && ns == process->threads_ns)
        return 0;
    process->threads_ns = ns;
    return vl_proc_count_threads(process->pid, THREADS + 1) != process->threads;
}

/* Returns 0 if a thread is gone: another one may have begun. */
static int look_at_threads(process_t *process)
{
    vl_waits_t waits;
    int i, has_all = 1;

    process->runs = 0;
    process->waits.n = process->waits.is_loop = 0;
    for (i = 0; i < process->threads; i++) {
        switch (vl_proc_look(process->pid, process->thread[i], &waits)) {
        case VL_PROC_GONE:
            has_all = process->every > 1;
            break;
        case VL_PROC_RUNS:
            process->runs += process->every;
            break;
        case VL_PROC_WAITS: case VL_PROC_DENIED:
            if (process->threads == 1)
                process->waits = waits;
            break;
        }
    }
    return has_all;
}

static void sample_process(vl_backends_t *b, process_t *process)
{
    if (process->round == b->round)
        return;
    process->round = b->round;
    if (has_other_threads(b, process))
        list_threads(b, process);
    if (!look_at_threads(process)) {
        list_threads(b, process);
        (void)look_at_threads(process);
    }
}

/* Returns 1 if the process has threads or an event loop: it does not show which request waits for what. */
static int waits_for_any(const process_t *process)
{
    return process->threads > 1 || process->waits.is_loop || process->waits.n == VL_PROC_FDS;
}

/* A process behind a back end that several accounts use works for the account whose virtual host names its
 * working folder. Where folders tell this, those in other folders work for none. */
static int may_use(vl_backends_t *b, process_t *process, apr_uint32_t account)
{
    if (process->site_round != b->round) {
        process->site_round = b->round;
        process->site = vl_backends_find_site(b, process->pid);
        process->backend->knows_sites |= process->site != VL_NO_ACCOUNT;
    }
    return process->site == account
           || (process->site == VL_NO_ACCOUNT && !process->backend->knows_sites);
}

/* A process that worked for an account when the moment began is that account's. */
static void note_moment(vl_backends_t *b, backend_t *backend, process_t *process,
                        apr_uint32_t account)
{
    process->account = account;
    if (process->moments_round != b->round)
        process->moments = 0;
    process->moments_round = b->round;
    if ((backend->n_shares < 2 && !backend->estimates) || b->moments == MOMENTS
        || (b->old_moments && process->moments))
        return;
    if (!b->old_moments)
        process->moments++;
    b->moment[b->moments].backend = backend;
    b->moment[b->moments].process = process;
    b->moment[b->moments++].account = account;
}

static void note_call(vl_backends_t *b, const vl_peer_t *peer, apr_uint32_t account)
{
    if (b->calls == CALLS)
        return;
    b->call[b->calls].key = vl_proc_key(&peer->from_ip, peer->from_port, peer->port);
    b->call[b->calls].client = peer->from_ip;
    b->call[b->calls].is_apart = memcmp(&peer->ip, &peer->from_ip, sizeof(peer->ip)) != 0;
    b->call[b->calls++].account = account;
}

/* --- back ends behind back ends -------------------------------------------------- */

static void add_edge(vl_backends_t *b, edges_t *edges, const vl_peer_t *peer)
{
    int i;

    for (i = 0; i < edges->n && strcmp(edges->edge[i].name, peer->name) != 0; i++)
        ;
    if (i == EDGES)
        return;
    if (i == edges->n) {
        /* The peer of a connection that the process has accepted does not listen. */
        apr_uint64_t listener = peer->listener ? peer->listener : vl_proc_listener(peer);

        if (!listener)
            return;
        vl_backends_table_get(b, peer->name)->listener = listener;
    }
    if (i == edges->n)
        apr_cpystrn(edges->edge[edges->n++].name, peer->name, sizeof(edges->edge[i].name));
    edges->edge[i].inode = peer->inode;
    edges->edge[i].seen_us = b->now_us;
}

/* Returns 1 if a process of the back end has opened the connection, and 0 if it has accepted it. */
static int has_opened(const backend_t *backend, pid_t pid, int fd, vl_peer_t *peer)
{
    const char *colon = strrchr(backend->name, ':');

    if (peer->port)
        return !colon || peer->from_port != (backend->port ? backend->port : (int)strtol(colon + 1, NULL, 10));
    vl_proc_name(pid, fd, peer);
    return peer->name[0] == '/' || peer->name[0] == '@';
}

/* Returns 1 if the peer of a process is in another network namespace of this machine. from: the back end of the
 * process, NULL for Apache. */
static int is_apart(vl_backends_t *b, const backend_t *from, pid_t pid, vl_peer_t *peer, vl_peer_e found)
{
    /* Each network namespace has a 127.0.0.1. */
    const int is_beside = found == VL_PEER_HIDDEN && from && from->is_apart;
    const size_t length = strlen(peer->name);
    backend_t *backend;
    int is_there;

    if (found != VL_PEER_REMOTE && found != VL_PEER_HIDDEN)
        return 0;
    if (is_beside)
        apr_snprintf(peer->name + length, sizeof(peer->name) - length, "#%" APR_UINT64_T_FMT, vl_proc_net(pid));
    backend = vl_backends_table_get(b, peer->name);
    is_there = vl_backends_find_apart(b, backend, peer, is_beside ? pid : 0);
    backend->is_remote = found == VL_PEER_REMOTE && !is_there;
    return is_there;
}

/* Lists the connections that the process has opened. backend: its own. */
static void list_edges(vl_backends_t *b, const backend_t *backend, process_t *process)
{
    apr_int64_t from_us = cpu_us();
    edges_t *edges = process->edges;
    struct dirent *entry;
    char path[64];
    DIR *dir;
    int i;

    if (!edges)
        edges = process->edges = apr_pcalloc(b->pool, sizeof(*edges));
    if (b->now_us < edges->next_us)
        return;
    apr_snprintf(path, sizeof(path), "/proc/%d/fd", (int)process->pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        int is_pipe, fd = (int)strtol(entry->d_name, NULL, 10);
        apr_uint64_t inode = vl_proc_inode(process->pid, fd, &is_pipe);
        vl_peer_t peer = { 0 };
        vl_peer_e found = inode && !is_pipe ? vl_proc_peer(process->pid, fd, inode, &peer) : VL_PEER_NONE;

        if (found == VL_PEER_HERE && is_own(b, &peer))
            note_call(b, &peer, backend->n_shares > 1 ? VL_NO_ACCOUNT : backend->shares[0].account);
        else if (found > VL_PEER_QUEUED && has_opened(backend, process->pid, fd, &peer)
                 && (found == VL_PEER_HERE || is_apart(b, backend, process->pid, &peer, found)))
            add_edge(b, edges, &peer);
    }
    if (dir)
        (void)closedir(dir);
    for (i = 0; i < edges->n; i++) {
        if (b->now_us - edges->edge[i].seen_us > EDGE_US)
            edges->edge[i--] = edges->edge[--edges->n];
    }
    edges->next_us = (cpu_us() - from_us) * SCAN_REST;
    edges->next_us = b->now_us + (edges->next_us > EDGES_LEAST_US ? edges->next_us : EDGES_LEAST_US);
}

static apr_uint32_t follow_edges(vl_backends_t *b, const backend_t *from, apr_uint32_t account,
                                 process_t *process, int depth);

/* Returns how many processes of the back end, which is behind another one, want a processor for the account. */
static apr_uint32_t look_at_all(vl_backends_t *b, const backend_t *from, backend_t *backend,
                                apr_uint32_t account, int depth)
{
    apr_uint32_t runs = 0;
    process_t *each;

    for (each = backend->processes; each; each = each->next) {
        if (from->n_shares > 1 && !may_use(b, each, account))
            continue;
        vl_backends_table_use(b, backend, account, VL_COST_PROCESSES);
        sample_process(b, each);
        note_moment(b, backend, each, account);
        runs += each->runs;
        if (!each->runs && waits_for_any(each))
            runs += follow_edges(b, backend, account, each, depth + 1);
    }
    return runs;
}

/* Returns how many processes behind this one want a processor for the account. */
static apr_uint32_t follow_edges(vl_backends_t *b, const backend_t *from, apr_uint32_t account,
                                 process_t *process, int depth)
{
    apr_uint32_t runs = 0, permille;
    int i;

    if (depth >= DEPTH_MOST)
        return 0;
    list_edges(b, from, process);
    for (i = 0; i < process->edges->n; i++) {
        backend_t *backend = vl_backends_table_get(b, process->edges->edge[i].name);
        apr_uint64_t inode = process->edges->edge[i].inode;

        if (backend == from || backend->look == b->looks)
            continue;
        backend->look = b->looks;
        if (!backend->processes)
            vl_backends_find_adopt(b, backend);
        if (!backend->processes && !vl_backends_find_children(b, backend, inode, 0, 0)
            && vl_backends_find_scan(b, backend, inode))
            vl_backends_find_adopt(b, backend);
        if (backend->processes && vl_backends_database_ask(b, backend)) {
            (void)vl_backends_database_look(b, backend, account, 0, &permille);
            runs += permille > 0;
        }
        else {
            runs += look_at_all(b, from, backend, account, depth);
        }
    }
    return runs;
}

/* --- what a request waits for -------------------------------------------------------- */

static vl_wait_for_e look(vl_backends_t *b, const backend_t *from, apr_uint32_t account, pid_t pid,
                          pid_t tid, int fd, int depth, apr_uint32_t *ret_runs);

/* Notes the connections of a process to Apache itself, whichever of its threads waits for them. */
static void note_calls_of(vl_backends_t *b, apr_uint32_t account, pid_t pid)
{
    struct dirent *entry;
    char path[64];
    DIR *dir;

    apr_snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        int is_pipe, fd = (int)strtol(entry->d_name, NULL, 10);
        apr_uint64_t inode = vl_proc_inode(pid, fd, &is_pipe);
        vl_peer_t peer = { 0 };
        vl_peer_e found = inode && !is_pipe ? vl_proc_peer(pid, fd, inode, &peer) : VL_PEER_NONE;

        if ((found == VL_PEER_HERE || found == VL_PEER_QUEUED) && is_own(b, &peer))
            note_call(b, &peer, account);
    }
    if (dir)
        (void)closedir(dir);
}

/* A page may wait for a program that calls its own site, as one that prints pages does. */
static void note_calls_of_programs(vl_backends_t *b, apr_uint32_t account, process_t *process)
{
    apr_int64_t from_us = cpu_us();
    pid_t programs[PROGRAMS_MOST];
    int i, n;

    if (process->threads != 1 || b->now_us < process->calls_us || vl_backends_table_is_parent(process))
        return;
    n = vl_proc_children(process->pid, 0, programs, PROGRAMS_MOST);
    for (i = 0; i < n; i++) {
        note_calls_of(b, account, programs[i]);
        n += vl_proc_children(programs[i], 0, programs + n, PROGRAMS_MOST - n);
    }
    process->calls_us = b->now_us + (cpu_us() - from_us) * CALLS_OF_PROGRAMS_REST;
}

/* Returns how many programs want a processor that the process has started and waits for. What programs of
 * this back end use is known from the first one on that was seen. Those of threads are looked for when it is
 * known that the back end starts programs. */
static int running_programs(backend_t *backend, process_t *process)
{
    process_t *each;
    int run;

    if ((process->threads != 1 && !backend->has_programs) || !vl_backends_table_programs(process, &run))
        return 0;
    for (each = backend->processes; !backend->has_programs && each; each = each->next)
        (void)vl_proc_parent(each->pid, &each->programs_ns);
    backend->has_programs = 1;
    return run;
}

/* Returns how many threads of the back end's processes want a processor. Of many processes one of so many
 * is looked at. */
static apr_uint32_t runs_of_all(vl_backends_t *b, backend_t *backend)
{
    apr_uint32_t every = 1 + (apr_uint32_t)backend->n_processes / GROUP_LOOKS;
    apr_uint32_t i = vl_backends_table_random(b) % every, looks = 0, runs = 0;
    process_t *process;

    if (backend->runs_round == b->round)
        return backend->runs;
    for (process = backend->processes; process; process = process->next, i++) {
        if (i % every)
            continue;
        sample_process(b, process);
        runs += process->runs;
        looks++;
    }
    backend->runs_round = b->round;
    return backend->runs = looks ? runs * (apr_uint32_t)backend->n_processes / looks : 0;
}

/* Returns how many requests of the share's account wait for the back end. One of so many was looked at. */
static apr_uint32_t users_of(const vl_backends_t *b, const share_t *share)
{
    if (share->round != b->round)
        return share->round + 1 == b->round ? share->users * b->stride : 0;
    return (share->users > share->users_before ? share->users : share->users_before) * b->stride;
}

/* Returns the part of what the processes of the back end want that one request has, permille. */
static apr_uint32_t part_of_all(vl_backends_t *b, backend_t *backend)
{
    apr_uint32_t runs = runs_of_all(b, backend), users = 0;
    int i;

    for (i = 0; i < backend->n_shares; i++)
        users += users_of(b, &backend->shares[i]);
    return runs < users ? runs * 1000 / users : 1000;
}

static process_t *any_process(vl_backends_t *b, const backend_t *backend)
{
    int n = (int)(vl_backends_table_random(b) % (apr_uint32_t)backend->n_processes);
    process_t *process = backend->processes;

    for (; n; n--)
        process = process->next;
    return process;
}

/* Returns the part of a processor that a request wants, permille. is_one: the process works for it alone. Otherwise
 * it may be any process of the back end that works for the request. */
static apr_uint32_t runs_of(vl_backends_t *b, backend_t *backend, apr_uint32_t account,
                            process_t *process, int is_one, int depth)
{
    const share_t *share = vl_backends_table_count(b, backend, account);
    apr_uint32_t own, users, programs, runs = 0;
    vl_wait_for_e waits_for = VL_WAIT_NOTHING, found;
    int i, calls;

    sample_process(b, process);
    own = !is_one ? part_of_all(b, backend) : process->runs ? 1000 : 0;
    if (process->runs || depth == DEPTH_MOST)
        return own;
    if (waits_for_any(process)) {
        b->looks++;
        runs = follow_edges(b, backend, account, process, depth);
        users = users_of(b, share);
        runs = runs < users ? runs * 1000 / users : 1000;
    }
    /* It may wait for several calls at once. */
    for (i = calls = 0; !waits_for_any(process) && i < process->waits.n
         && (waits_for == VL_WAIT_NOTHING || b->calls > calls); i++) {
        calls = b->calls;
        found = look(b, process->backend, account, process->pid, 0, process->waits.fd[i], depth + 1, &runs);
        waits_for = found != VL_WAIT_NOTHING ? found : waits_for;
    }
    if (!runs && waits_for == VL_WAIT_NOTHING) {
        note_calls_of_programs(b, account, process);
        programs = (apr_uint32_t)running_programs(process->backend, process);
        /* Other ones have as many. */
        programs *= is_one ? 1 : (apr_uint32_t)process->backend->n_processes;
        users = is_one || process->threads == 1 ? 1 : users_of(b, share);
        runs = programs && programs >= users ? 1000 : programs ? programs * 1000 / users : 0;
    }
    return own + runs < 1000 ? own + runs : 1000;
}

/* A request of the account waits for this process of the back end, NULL if it is not known which. */
static vl_wait_for_e look_at_process(vl_backends_t *b, backend_t *backend, apr_uint32_t account,
                                     process_t *process, int is_one, int depth, apr_uint32_t *ret_runs)
{
    process_t *any = process || backend->forks || !backend->processes ? process : any_process(b, backend);

    *ret_runs = any ? runs_of(b, backend, account, any, is_one, depth) : 1000;
    /* A request at a depth of 1 or more does not make its account's cost unknown. */
    vl_backends_table_use(b, backend, account,
                          backend->processes || depth ? VL_COST_PROCESSES : VL_COST_UNKNOWN);
    if (process)
        note_moment(b, backend, process, account);
    return *ret_runs ? VL_WAIT_RUNS : VL_WAIT_ASLEEP;
}

/* No process of the back end had the connection: one may have accepted it after it was looked at, or the connection has
 * ended. Both are frequent, and would cause scans of all processes. Returns 1 if it is neither. */
static int is_missed(vl_backends_t *b, backend_t *backend, pid_t pid, int fd, apr_uint64_t inode, process_t **ret_process)
{
    vl_peer_t peer;
    process_t *each;

    if (!backend->hints || backend->is_apart || backend->is_pipe)
        return 1;
    if (vl_proc_peer(pid, fd, vl_proc_inode(pid, fd, NULL), &peer) != VL_PEER_HERE || peer.inode != inode)
        return 0;
    for (each = backend->processes; each; each = each->next)
        each->inode_epoch = 0;
    *ret_process = vl_backends_find_process(b, backend, inode);
    return !*ret_process;
}

/* inode: the other end of the descriptor. */
static vl_wait_for_e look_at_backend(vl_backends_t *b, backend_t *backend, apr_uint32_t account,
                                     apr_uint64_t inode, pid_t pid, pid_t tid, int fd, int depth,
                                     apr_uint32_t *ret_runs)
{
    process_t *process;
    int is_one;

    if (backend->same)
        vl_backends_find_check_same(b, backend);
    if (backend->same)
        backend = backend->same;
    if (vl_backends_database_ask(b, backend))
        return vl_backends_database_look(b, backend, account, inode, ret_runs);
    process = vl_backends_find_process(b, backend, inode);
    if (!process && is_missed(b, backend, pid, fd, inode, &process)
        && (vl_backends_find_children(b, backend, inode, pid, tid) || vl_backends_find_scan(b, backend, inode))) {
        backend = backend->same ? backend->same : backend;
        process = vl_backends_find_process(b, backend, inode);
    }
    /* A shell keeps its output at another descriptor while that of its commands goes elsewhere. */
    if (!process && backend->is_pipe && tid)
        process = vl_backends_find_program(b, backend, pid, tid);
    if (process) {
        /* A program of mod_cgi has several pipes to its request. */
        backend->is_group |= !backend->forks && process->served_epoch == b->epoch && process->served != inode;
        process->served_epoch = b->epoch;
        process->served = inode;
    }
    is_one = process && !backend->is_group;
    if (!process && !backend->forks && backend->n_processes <= FEW_PROCESSES && backend->processes)
        process = any_process(b, backend);
    /* It is known by now whether it is a database. */
    if (backend->processes && !backend->knows_database && vl_backends_database_ask(b, backend))
        return vl_backends_database_look(b, backend, account, inode, ret_runs);
    return look_at_process(b, backend, account, process, is_one, depth, ret_runs);
}

/* The back end of the programs that a child process of Apache starts. */
static backend_t *programs_of(vl_backends_t *b, pid_t pid)
{
    char name[64];
    backend_t *backend;

    apr_snprintf(name, sizeof(name), "programs of process %d", (int)pid);
    backend = vl_backends_table_get(b, name);
    backend->forks = backend->is_pipe = 1;
    return backend;
}

/* Finds the socket that listens at the peer's address, and processes that a scan for another back end has found. */
static void find_listening(vl_backends_t *b, backend_t *backend, const vl_peer_t *peer)
{
    /* The last one may be that of a server which was restarted since. */
    if (!backend->processes && b->now_us >= backend->scan_us)
        backend->listener = vl_backends_find_listener(b, peer);
    if (backend->listener && !backend->processes)
        vl_backends_find_adopt(b, backend);
}

/* A request of the account waits in the backlog of the back end. More requests of a site that has processes of its
 * own would only wait there as well. Those of other sites would wait behind them, in order of arrival. */
static vl_wait_for_e look_at_backlog(vl_backends_t *b, apr_uint32_t account, const vl_peer_t *peer)
{
    backend_t *backend = peer->name[0] ? vl_backends_table_get(b, peer->name) : vl_backends_table_user(b, account)->last;
    share_t *share;

    if (!backend)
        return VL_WAIT_ASLEEP;
    find_listening(b, backend, peer);
    if (!backend->processes && !backend->same)
        (void)vl_backends_find_scan(b, backend, 0);
    if (backend->same)
        backend = backend->same;
    share = vl_backends_table_share(backend, account);
    if (share->queued_round != b->round)
        share->waiting = 0;
    share->queued_round = b->round;
    share->waiting++;
    share->queued_us = b->now_us;
    if (b->now_us - backend->queued_us > VL_BACKLOG_US)
        backend->queued_since_us = b->now_us;
    backend->queued_us = backend->seen_us = b->now_us;
    return backend->n_shares > 1 ? VL_WAIT_QUEUED : VL_WAIT_ASLEEP;
}

/* from: the back end of the process, NULL for Apache. */
static vl_wait_for_e look(vl_backends_t *b, const backend_t *from, apr_uint32_t account, pid_t pid,
                          pid_t tid, int fd, int depth, apr_uint32_t *ret_runs)
{
    int is_pipe;
    apr_uint64_t inode = vl_proc_inode(pid, fd, &is_pipe);
    vl_peer_t peer = { 0 };
    vl_peer_e found;
    backend_t *backend;
    user_t *user;

    *ret_runs = 0;
    if (!inode || (is_pipe && depth))
        return VL_WAIT_NOTHING;
    if (is_pipe)
        return look_at_backend(b, programs_of(b, pid), account, inode, pid, tid, fd, depth, ret_runs);
    found = vl_proc_peer(pid, fd, inode, &peer);
    /* An event loop waits for its clients too. */
    if (found > VL_PEER_QUEUED && from && !has_opened(from, pid, fd, &peer))
        return VL_WAIT_NOTHING;
    switch (found) {
    case VL_PEER_NONE:
        return VL_WAIT_NOTHING;
    case VL_PEER_QUEUED:
        if (is_own(b, &peer)) {
            note_call(b, &peer, account);
            return VL_WAIT_ASLEEP;
        }
        if (depth)
            return VL_WAIT_ASLEEP;
        vl_proc_name(pid, fd, &peer);
        return look_at_backlog(b, account, &peer);
    case VL_PEER_HERE:
    case VL_PEER_HIDDEN:
        if ((found == VL_PEER_HIDDEN && from && from->is_apart) || !is_own(b, &peer))
            break;
        note_call(b, &peer, account);
        return VL_WAIT_ASLEEP;
    case VL_PEER_REMOTE:
        break;
    }
    if (!is_apart(b, from, pid, &peer, found) && found == VL_PEER_REMOTE) {
        if (!depth)
            vl_backends_table_use(b, vl_backends_table_get(b, peer.name), account, VL_COST_REMOTE);
        return VL_WAIT_ASLEEP;
    }
    user = vl_backends_table_user(b, account);
    if (user->last && vl_backends_find_process(b, user->last, peer.inode))
        return look_at_backend(b, user->last, account, peer.inode, pid, 0, fd, depth, ret_runs);
    vl_proc_name(pid, fd, &peer);
    backend = vl_backends_table_get(b, peer.name);
    vl_backends_database_check(b, backend->same ? backend->same : backend);
    find_listening(b, backend, &peer);
    if (!peer.port)
        vl_backends_database_find(b, backend, pid, fd);
    return look_at_backend(b, backend, account, peer.inode, pid, 0, fd, depth, ret_runs);
}

vl_wait_for_e vl_backends_look(vl_backends_t *b, apr_uint32_t account, pid_t pid, pid_t tid,
                               int fd, apr_uint32_t *ret_runs)
{
    b->at_database = 0;
    return look(b, NULL, account, pid, tid, fd, 0, ret_runs);
}

vl_wait_for_e vl_backends_look_program(vl_backends_t *b, apr_uint32_t account, pid_t pid, pid_t tid,
                                       apr_uint32_t *ret_runs)
{
    backend_t *backend = programs_of(b, pid);
    process_t *process = vl_backends_find_program(b, backend, pid, tid);

    b->at_database = 0;
    return process ? look_at_process(b, backend, account, process, 1, 0, ret_runs) : VL_WAIT_NOTHING;
}

int vl_backends_at_database(const vl_backends_t *b)
{
    return b->at_database;
}

/* A process that has run and serves no request does what it has left for after its response
 * (fastcgi_finish_request() of PHP). Returns the account that it works for then, or VL_NO_ACCOUNT. PHP-FPM is
 * in the folder of the page meanwhile. */
static apr_uint32_t works_after(vl_backends_t *b, backend_t *backend, process_t *process)
{
    apr_uint32_t site;

    if (process->threads > 1 || vl_backends_find_serves(b, backend, process))
        return VL_NO_ACCOUNT;
    site = vl_backends_find_site(b, process->pid);
    if (site == VL_NO_ACCOUNT)
        site = process->account;
    if (site != VL_NO_ACCOUNT)
        vl_backends_table_share(backend, site)->seen_us = b->now_us;
    return site;
}

void vl_backends_look_after(vl_backends_t *b, backend_t *backend, process_t *process)
{
    if (backend->forks || backend->database || b->now_us - backend->after_us < AFTER_US)
        return;
    backend->after_us = b->now_us;
    (void)works_after(b, backend, process);
}

/* Reads the CPU times of the back end's processes. */
static void begin_moment(vl_backends_t *b, backend_t *backend)
{
    process_t *process;

    for (process = backend->processes; process; process = process->next) {
        apr_uint64_t before_ns = process->moment_ns;
        apr_uint32_t site;

        process->moment_ns = vl_backends_table_ns(process);
        if (process->moments_round == b->round || process->moment_ns == before_ns || backend->forks)
            continue;
        site = works_after(b, backend, process);
        if (site != VL_NO_ACCOUNT)
            note_moment(b, backend, process, site);
    }
}

int vl_backends_moment(vl_backends_t *b)
{
    int i, looks = b->moments;

    for (i = 0; i < looks; i++) {
        if (b->moment[i].backend->moment_round == b->round)
            continue;
        b->moment[i].backend->moment_round = b->round;
        begin_moment(b, b->moment[i].backend);
    }
    b->moment_us = vl_clock_us();
    b->epoch++;
    b->old_moments = b->moments;
    return b->old_moments;
}

void vl_backends_end(vl_backends_t *b)
{
    apr_int64_t moment_us = vl_clock_us() - b->moment_us;
    apr_int64_t round_us = b->now_us - b->since_us;
    vl_waits_t waits;
    int i;

    for (i = b->old_moments; i < b->moments; i++)
        b->moment[i].process->moments++;
    for (i = 0; i < b->moments; i++) {
        process_t *process = b->moment[i].process;
        backend_t *backend = b->moment[i].backend;
        apr_uint64_t ns = vl_backends_table_ns(process);

        /* For a program that has ended since the sample, with the one that may have begun after it:
         * what those that compute on have had of a processor, which is little on a busy machine. */
        if (!ns && backend->estimates && process->is_program && process->runs)
            ns = process->moment_ns + (apr_uint64_t)(moment_us * b->pace);
        else if (moment_us > 0 && process->moment_ns && ns >= process->moment_ns && process->is_program
                 && process->runs
                 && vl_proc_look(process->pid, process->pid, &waits) == VL_PROC_RUNS)
            b->pace += ((apr_int64_t)(ns - process->moment_ns) / moment_us - b->pace) / 8;
        /* A program that has begun in the moment has used all in it. */
        if (ns <= process->moment_ns
            || (!process->moment_ns && (!process->is_program || backend->estimates)))
            continue;
        ns = (ns - process->moment_ns) / process->moments;
        vl_backends_table_share(backend, b->moment[i].account)->ns += ns;
        if (backend->estimates && process->is_program && round_us < APR_USEC_PER_SEC)
            backend->owed_ns += (apr_int64_t)(ns * b->stride * (apr_uint64_t)round_us
                                              / (apr_uint64_t)moment_us);
    }
}

void vl_backends_calls(const vl_backends_t *b, vl_backends_call_fn *call, void *data)
{
    int i;

    for (i = 0; i < b->calls; i++)
        call(data, b->call[i].key, b->call[i].is_apart ? &b->call[i].client : NULL, b->call[i].account);
}

/* Returns 1 if a process of the back end waits for a connection: the backlog is not longer than it takes the
 * process to wake up. */
static int has_idle(vl_backends_t *b, const backend_t *backend)
{
    process_t *process;
    int i, looks = 0;

    for (process = backend->processes; process && looks < IDLE_LOOKS; process = process->next) {
        if (vl_backends_table_is_parent(process))
            continue;
        looks++;
        sample_process(b, process);
        for (i = 0; i < process->waits.n; i++) {
            if (vl_proc_inode(process->pid, process->waits.fd[i], NULL) == backend->listener)
                return 1;
        }
    }
    return 0;
}

void vl_backends_backlogs(vl_backends_t *b, vl_backends_backlog_fn *tell, void *data)
{
    apr_hash_index_t *i;
    const share_t *share;
    backend_t *backend;
    void *value;
    int k;

    for (i = apr_hash_first(NULL, b->by_name); i; i = apr_hash_next(i)) {
        apr_hash_this(i, NULL, NULL, &value);
        backend = value;
        if (b->now_us - backend->queued_us > VL_BACKLOG_US || backend->queued_us - backend->queued_since_us < VL_BACKLOG_US
            || has_idle(b, backend))
            continue;
        for (k = 0; k < backend->n_shares; k++) {
            share = &backend->shares[k];
            if (share->account != VL_NO_ACCOUNT)
                tell(data, share->account, backend->name, users_of(b, share),
                     b->now_us - share->queued_us > VL_BACKLOG_US ? 0 : share->waiting * b->stride);
        }
    }
}

apr_uint32_t vl_backends_processes(const vl_backends_t *b)
{
    return b->processes;
}

static void name_once(vl_backends_t *b, const backend_t *backend, vl_backends_name_fn *name)
{
    const char *address = backend->name;

    if (b->now_us - backend->unfound_us < VL_UNFOUND_US || apr_hash_count(b->named) == NAMED_MOST
        || apr_hash_get(b->named, address, APR_HASH_KEY_STRING))
        return;
    address = apr_pstrdup(b->pool, address);
    apr_hash_set(b->named, address, APR_HASH_KEY_STRING, address);
    name(address);
}

apr_uint32_t vl_backends_unfound(vl_backends_t *b, vl_backends_name_fn *name)
{
    apr_hash_index_t *i;
    apr_uint32_t n = 0;
    backend_t *backend;
    void *value;

    for (i = apr_hash_first(NULL, b->by_name); i; i = apr_hash_next(i)) {
        apr_hash_this(i, NULL, NULL, &value);
        backend = value;
        if (backend->processes || backend->same || backend->is_remote || backend->forks || backend->is_left
            || b->now_us - backend->seen_us >= USED_US) {
            backend->unfound_us = 0;
            continue;
        }
        n++;
        if (!backend->unfound_us)
            backend->unfound_us = b->now_us;
        name_once(b, backend, name);
    }
    return n;
}

void vl_backends_unread(vl_backends_t *b, vl_backends_unread_fn *say, char *ret_text, size_t size)
{
    apr_hash_index_t *i;
    const char *why = NULL;
    backend_t *backend;
    void *value;

    ret_text[0] = '\0';
    for (i = apr_hash_first(NULL, b->by_name); i && !why; i = apr_hash_next(i)) {
        apr_hash_this(i, NULL, NULL, &value);
        backend = value;
        why = backend->database && b->now_us - backend->seen_us < USED_US
              ? vl_database_fault(backend->database) : NULL;
        if (!why)
            backend->fault_us = 0;
        else if (!backend->fault_us)
            backend->fault_us = b->now_us;
        /* In a restart it passes soon. */
        if (!why || b->now_us - backend->fault_us < FAULT_US) {
            why = NULL;
            continue;
        }
        apr_snprintf(ret_text, size, "%s: %s", backend->name, why);
        if (why != b->said)
            say(backend->name, why);
    }
    if (why)
        b->said = why;
}
