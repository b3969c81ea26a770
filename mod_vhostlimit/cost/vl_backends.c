/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_backends.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <apr_hash.h>
#include <apr_tables.h>
#include <apr_strings.h>

#include "base/vl_clock.h"
#include "cost/vl_database.h"
#include "cost/vl_proc.h"

/* A back end may wait for another one, such as a database. */
#define DEPTH_MOST 3
/* Accounts that share a back end. Further ones take the place of the one that was seen
 * longest ago. */
#define SHARES 64
/* The same for a database server. Many servers have one for all sites. */
#define DATABASE_SHARES 2048
/* Database servers that one round looks at, and connections to them that are remembered. */
#define DATABASES 16
#define CONNECTIONS 16384
/* Descriptors at which the processes of a back end had their connections. A worker that serves
 * one connection at a time has always the same one. */
#define HINTS 8
/* A back end with so few processes serves several connections in each. If a connection is
 * at none of the known descriptors, any of the processes may have it. */
#define FEW_PROCESSES 8
#define PARENTS 4
#define THREADS 64
#define CHILDREN 2048
#define FAMILY 512
/* The threads of a process are listed this often, those of one that had a single thread
 * less often. */
#define THREADS_US (1 * APR_USEC_PER_SEC)
#define SINGLE_US (10 * APR_USEC_PER_SEC)
/* A back end is in use until this long after its last request, and forgotten later. */
#define USED_US (2 * APR_USEC_PER_SEC)
#define FORGET_US (60 * APR_USEC_PER_SEC)
/* Addresses that are named at most. */
#define NAMED_MOST 64
/* CPU time of back ends that no request was seen to wait for lately is read less often. */
#define READ_US 300000
#define UNUSED_READ_US (1 * APR_USEC_PER_SEC)
/* An account is charged until this long after its last use of a back end. */
#define ACCOUNT_US (10 * APR_USEC_PER_SEC)
/* What a process can have used since it was last read, if it is gone. */
#define GONE_MOST_NS 200000000
/* CPU time is kept for this long if no sample says whose it is. */
#define OWED_MOST_US (2 * APR_USEC_PER_SEC)
/* Each time that CPU time is divided, what samples have found before counts an eighth less. */
#define KEEP 8
#define PAUSE_US (1 * APR_USEC_PER_SEC)
/* Looks at shared back ends that one round remembers. */
#define MOMENTS 256
#define CALLS 256
/* A scan of all processes takes place this many times its own CPU time later, at the
 * earliest: a third of a percent of a processor. */
#define SCAN_REST 300
#define SCAN_LEAST_US 200000
/* The same for processes that are children of known ones. */
#define CHILDREN_LEAST_US 20000
/* What a process that is found has used is charged if it is younger and that is less: it was
 * started for the requests that wait. More would be a debt of seconds after a restart. */
#define YOUNG_US (3 * APR_USEC_PER_SEC)
#define YOUNG_NS 100000000

/* Connections of a process to other back ends that are remembered, and how often they are listed
 * at most. A connection is forgotten if it was not listed for this long. */
#define EDGES 64
#define EDGES_LEAST_US 50000
#define EDGE_US (10 * APR_USEC_PER_SEC)

typedef struct share_t {
    apr_uint32_t account;
    apr_uint32_t round, users, users_before;    /* its requests that wait in this and the last
                                                 * round */
    apr_uint64_t ns;                /* used for it in moments after samples; an older ns counts
                                     * less */
    apr_int64_t seen_us;
    apr_uint64_t spent_ns;          /* charged, and not told yet */
    apr_uint32_t entry;             /* see vl_backends_spend_fn */
} share_t;

/* Where a process with threads or an event loop is connected to. It does not show which of its
 * requests waits for which of these. */
typedef struct edges_t {
    int n;
    apr_int64_t next_us;            /* when they may be listed again */
    struct {
        char name[128];             /* of the back end */
        apr_uint64_t inode;         /* of the other end */
        apr_int64_t seen_us;
    } edge[EDGES];
} edges_t;

typedef struct backend_t backend_t;

typedef struct process_t {
    struct process_t *next;         /* of the same back end */
    backend_t *backend;
    pid_t pid;
    int is_background;              /* of a database: it is not charged */
    int is_outside;                 /* of the cgroup tree */
    int is_program;                 /* it lives for one request */
    apr_uint64_t inode[HINTS];      /* at the back end's hints ... */
    apr_uint32_t inode_epoch;       /* ... in this epoch */
    apr_uint64_t inode_ns;          /* CPU time when they were read */
    apr_uint32_t inode_hints;       /* the back end's hint_changes then */
    apr_uint64_t cpu_ns;            /* last reading */
    int threads;                    /* in `thread`; 0: to be read again */
    pid_t thread[THREADS];
    apr_int64_t threads_us;
    apr_uint32_t round;             /* when `runs` was sampled */
    apr_uint32_t runs;              /* threads that want a processor */
    vl_waits_t waits;               /* of its only thread, if it waits */
    apr_uint32_t users, users_before;   /* requests that wait for it in this and the last round */
    apr_uint64_t moment_ns;         /* CPU time at the beginning of the moment */
    apr_uint32_t moments;           /* entries of `moment` that the process has */
    edges_t *edges;                 /* NULL: not needed so far */
} process_t;

struct backend_t {
    backend_t *next;                /* of the free ones */
    vl_backends_t *b;
    char name[128];
    backend_t *same;                /* another address of the same database server, or NULL */
    vl_database_t *database;        /* NULL: it is none, or not known to be one */
    vl_database_clients_t clients;
    int knows_database;
    apr_uint64_t background_ns;     /* of its CPU time, not yet subtracted */
    apr_uint32_t asked_round;       /* see vl_database_ask() */
    apr_uint64_t listener;          /* inode of the listening socket, 0: unknown */
    int listen_fd;                  /* at which children of its parents have it; -1: unknown */
    int forks;                      /* it has programs */
    int estimates;                  /* no process waits for these, so the kernel keeps no count of
                                     * ended ones: their CPU time is extrapolated from moments */
    process_t *processes;           /* the last one that was found comes first */
    int n_processes;
    int hints, hint[HINTS];
    apr_uint32_t hint_changes;
    apr_uint32_t moment_round;      /* in which moment_ns of its processes was read */
    int n_shares, most_shares;
    share_t *shares;
    int n_parents;
    pid_t parent[PARENTS];          /* of its processes */
    apr_uint64_t parent_ns[PARENTS];    /* CPU time of the children that they waited for */
    apr_uint64_t gone_ns;           /* CPU time, as read, of processes that are gone */
    apr_uint32_t gone;              /* the number of these processes */
    apr_uint64_t owed_ns;           /* CPU time that no account was charged yet */
    apr_int64_t owed_since_us;
    apr_int64_t first_us, seen_us;  /* when a request first and last waited for it */
    apr_int64_t read_us;            /* when its CPU time was last read */
    apr_int64_t children_us;        /* when the children of its parents were last read */
    apr_int64_t scan_us;            /* the next scan for it may take place */
    apr_int64_t scan_wait_us;
    int is_remote, is_pipe;
    int knows_owner;                /* see owner_of() */
    apr_uint32_t owner;
};

typedef struct user_t {             /* an account */
    struct user_t *next;            /* of the free ones */
    apr_uint32_t account;
    backend_t *last;                /* that it used, or NULL */
    apr_int64_t seen_us;
    apr_uint64_t ns;                /* to be charged */
    apr_uint64_t database_ns;       /* the part of databases */
    vl_cost_by_e by;
} user_t;

typedef struct connection_t {       /* to a database server */
    apr_uint64_t inode;             /* of the server's end */
    apr_uint32_t account;           /* whose request waited for it last */
} connection_t;

typedef struct listens_t {          /* a process that has a listening socket open */
    apr_uint64_t inode;
    pid_t pid;
    int fd;
} listens_t;

struct vl_backends_t {
    apr_pool_t *pool, *scratch;
    apr_pool_t *scan_pool;          /* of what the last scan found: */
    apr_array_header_t *listens;    /* of listens_t */
    apr_hash_t *known;              /* pid -> its first listens_t */
    apr_hash_t *listeners;          /* inode -> listening socket; NULL outside of scans */
    apr_hash_t *names;              /* path of a listening Unix socket -> inode */
    apr_uint32_t random;
    pid_t server;
    const char *cgroup;
    apr_hash_t *by_name;            /* name -> backend_t */
    apr_hash_t *by_pid;             /* pid -> process_t */
    apr_hash_t *users;              /* account -> user_t */
    process_t *free;
    backend_t *free_backends;
    user_t *free_users;
    apr_uint32_t round;
    apr_uint32_t epoch;             /* changes where processes may have other connections */
    apr_int64_t now_us, scan_us;
    pid_t parent;                   /* read last by children_of() ... */
    apr_int64_t parent_us;          /* ... at this time */
    apr_uint64_t parent_ns;
    apr_int64_t since_us;           /* the round before */
    apr_uint32_t stride;            /* one request of so many is looked at */
    apr_uint32_t processes;
    int had_outside;
    int own[64], n_own;
    const pid_t *child;             /* Apache's child processes */
    int children;
    struct {                        /* which account a process works for in the moment */
        backend_t *backend;
        process_t *process;
        apr_uint32_t account;
    } moment[MOMENTS];
    int moments, old_moments;       /* old: found before the moment began */
    apr_int64_t moment_us;          /* when it began */
    struct {
        int port;
        apr_uint32_t account;
    } call[CALLS];                  /* see vl_backends_calls() */
    int calls;
    vl_backends_folder_fn *folder;
    apr_hash_t *named;              /* see vl_backends_unfound() */
    apr_pool_t *connection_pool;
    apr_hash_t *connections;        /* inode -> connection_t */
    backend_t *asked[DATABASES];    /* database servers that this round looks at */
    int n_asked;
    int at_database;                /* see vl_backends_at_database() */
    const char *said;               /* see vl_backends_unread() */
};

vl_backends_t *vl_backends_create(apr_pool_t *p, pid_t server, const char *cgroup)
{
    vl_backends_t *b = apr_pcalloc(p, sizeof(*b));

    b->pool = p;
    b->random = 1;
    apr_pool_create(&b->scratch, p);
    apr_pool_create(&b->scan_pool, p);
    apr_pool_create(&b->connection_pool, p);
    b->connections = apr_hash_make(b->connection_pool);
    b->listens = apr_array_make(b->scan_pool, 0, sizeof(listens_t));
    b->known = apr_hash_make(b->scan_pool);
    b->names = apr_hash_make(b->scan_pool);
    b->server = server;
    b->cgroup = cgroup;
    b->by_name = apr_hash_make(p);
    b->by_pid = apr_hash_make(p);
    b->users = apr_hash_make(p);
    b->named = apr_hash_make(p);
    return b;
}

void vl_backends_set_folder(vl_backends_t *b, vl_backends_folder_fn *folder)
{
    b->folder = folder;
}

void vl_backends_add_own(vl_backends_t *b, int port)
{
    if (b->n_own < (int)(sizeof(b->own) / sizeof(b->own[0])))
        b->own[b->n_own++] = port;
}

static int is_own(const vl_backends_t *b, int port)
{
    int i;

    for (i = 0; i < b->n_own; i++) {
        if (b->own[i] == port)
            return 1;
    }
    return 0;
}

void vl_backends_begin(vl_backends_t *b, apr_int64_t now_us, const pid_t *children, int n,
                       apr_uint32_t stride)
{
    b->round++;
    b->epoch++;
    b->since_us = b->now_us;
    b->stride = stride;
    b->now_us = now_us;
    b->child = children;
    b->children = n;
    b->moments = b->old_moments = b->calls = b->n_asked = 0;
}

/* Returns a number that need not be unpredictable (xorshift32, Marsaglia 2003). */
static apr_uint32_t next_random(vl_backends_t *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 17;
    b->random ^= b->random << 5;
    return b->random;
}

/* --- tables ------------------------------------------------------------------- */

static backend_t *backend_get(vl_backends_t *b, const char *name)
{
    backend_t *found = apr_hash_get(b->by_name, name, APR_HASH_KEY_STRING);
    share_t *shares;
    int most;

    if (found)
        return found;
    found = b->free_backends;
    if (found) {
        b->free_backends = found->next;
    }
    else {
        found = apr_palloc(b->pool, sizeof(*found));
        found->most_shares = SHARES;
        found->shares = apr_palloc(b->pool, SHARES * sizeof(*found->shares));
    }
    shares = found->shares;
    most = found->most_shares;
    memset(found, 0, sizeof(*found));
    found->b = b;
    found->shares = shares;
    found->most_shares = most;
    apr_cpystrn(found->name, name, sizeof(found->name));
    found->listen_fd = -1;
    found->scan_wait_us = SCAN_LEAST_US;
    found->first_us = found->seen_us = b->now_us;
    apr_hash_set(b->by_name, found->name, APR_HASH_KEY_STRING, found);
    return found;
}

static user_t *user_get(vl_backends_t *b, apr_uint32_t account)
{
    user_t *user = apr_hash_get(b->users, &account, sizeof(account));

    if (!user) {
        user = b->free_users;
        if (user)
            b->free_users = user->next;
        else
            user = apr_palloc(b->pool, sizeof(*user));
        memset(user, 0, sizeof(*user));
        user->account = account;
        apr_hash_set(b->users, &user->account, sizeof(user->account), user);
    }
    return user;
}

static share_t *share_get(backend_t *backend, apr_uint32_t account)
{
    share_t *oldest = backend->shares;
    int i;

    for (i = 0; i < backend->n_shares; i++) {
        if (backend->shares[i].account == account)
            return &backend->shares[i];
        if (backend->shares[i].seen_us < oldest->seen_us)
            oldest = &backend->shares[i];
    }
    if (backend->n_shares < backend->most_shares)
        oldest = &backend->shares[backend->n_shares++];
    memset(oldest, 0, sizeof(*oldest));
    oldest->account = account;
    return oldest;
}

static void add_parent(const vl_backends_t *b, backend_t *backend, pid_t parent)
{
    apr_uint64_t children_ns;
    int i;

    for (i = 0; i < backend->n_parents; i++) {
        if (backend->parent[i] == parent)
            return;
    }
    /* The CPU time of children of process 1, or of Apache's parent, is not the back end's. */
    if (parent <= 1 || parent == b->server || backend->n_parents == PARENTS || backend->database
        || !vl_proc_parent(parent, &children_ns))
        return;
    backend->parent[backend->n_parents] = parent;
    backend->parent_ns[backend->n_parents++] = children_ns;
}

static process_t *add_process(vl_backends_t *b, backend_t *backend, pid_t pid)
{
    process_t *process = apr_hash_get(b->by_pid, &pid, sizeof(pid));
    edges_t *edges;
    apr_uint64_t unused;

    if (process) {
        if (process->backend != backend && process->backend->database)
            backend->same = process->backend;
        return process;
    }
    process = b->free;
    if (process)
        b->free = process->next;
    else
        process = apr_pcalloc(b->pool, sizeof(*process));
    edges = process->edges;
    memset(process, 0, sizeof(*process));
    process->edges = edges;
    if (edges)
        memset(edges, 0, sizeof(*edges));
    process->pid = pid;
    process->backend = backend;
    process->cpu_ns = vl_proc_cpu_ns(pid);
    if (process->cpu_ns < YOUNG_NS && vl_proc_age_us(pid) < YOUNG_US)
        process->cpu_ns = 0;
    process->is_outside = !vl_proc_is_in_cgroup(pid, b->cgroup);
    process->next = backend->processes;
    backend->processes = process;
    backend->n_processes++;
    b->processes++;
    apr_hash_set(b->by_pid, &process->pid, sizeof(process->pid), process);
    add_parent(b, backend, vl_proc_parent(pid, &unused));
    return process;
}

static void remove_process(vl_backends_t *b, backend_t *backend, process_t **at)
{
    process_t *process = *at;

    *at = process->next;
    backend->n_processes--;
    apr_hash_set(b->by_pid, &process->pid, sizeof(process->pid), NULL);
    b->processes--;
    process->next = b->free;
    b->free = process;
}

static void add_hint(vl_backends_t *b, backend_t *backend, int fd)
{
    int i;

    for (i = 0; i < backend->hints; i++) {
        if (backend->hint[i] == fd)
            return;
    }
    if (i == HINTS)
        i = (int)(next_random(b) % HINTS);
    else
        backend->hints++;
    backend->hint[i] = fd;
    backend->hint_changes++;
}

/* --- which processes are behind an address ------------------------------------ */

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
        if (backend->parent[i] == pid)
            return;
    }
    if (i)
        backend->listen_fd = fd;
}

/* Adds the processes to the back end that the last scan has found at its listening socket. If
 * none has a parent, its workers are still to be started, as those of FPM's "ondemand". */
static void adopt(vl_backends_t *b, backend_t *backend)
{
    int i, parents;

    for (parents = 0; parents < 2 && !backend->n_parents; parents++) {
        for (i = 0; i < b->listens->nelts; i++) {
            const listens_t *listens = &APR_ARRAY_IDX(b->listens, i, listens_t);

            if (listens->inode != backend->listener)
                continue;
            if (parents) {
                add_parent(b, backend, listens->pid);
                continue;
            }
            add_process(b, backend, listens->pid);
            note_listen_fd(backend, listens->pid, listens->fd);
        }
    }
}

/* Adds the process to the back end if it has the listening socket or this connection open.
 * Returns 1 if it has the connection. In a scan it notes all listening sockets. listens: the
 * connection counts only beside the listening socket, which no program of a CGI has. */
static int check_process(vl_backends_t *b, backend_t *backend, pid_t pid, apr_uint64_t inode,
                         int listens)
{
    char path[64];
    struct dirent *entry;
    process_t *process;
    int found = 0;
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
        if (!here || (here != inode && here != backend->listener))
            continue;
        if (here == backend->listener)
            listens = 0;
        if (listens)
            continue;
        process = add_process(b, backend, pid);
        if (here == backend->listener)
            note_listen_fd(backend, pid, fd);
        else {
            add_hint(b, backend, fd);
            process->inode_epoch = 0;
        }
        found |= here == inode;
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

static apr_int64_t cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (apr_int64_t)now.tv_sec * APR_USEC_PER_SEC + now.tv_nsec / 1000;
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
static apr_uint64_t listener_of(const vl_backends_t *b, const vl_peer_t *peer)
{
    const apr_uint64_t *known = peer->port ? NULL
                                           : apr_hash_get(b->names, peer->name, APR_HASH_KEY_STRING);

    return known ? *known : vl_proc_listener(peer);
}

/* Looks at all processes of the machine. One scan finds the processes of all listening sockets,
 * because it is too expensive to take place for each back end. */
static int scan_all(vl_backends_t *b, backend_t *backend, apr_uint64_t inode)
{
    apr_int64_t from_us = cpu_us();
    struct dirent *entry;
    DIR *dir;
    int found = 0;

    if (b->now_us < b->scan_us)
        return 0;
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
            found |= check_process(b, backend, pid, inode, 0);
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
        found = check_process(b, backend, process->pid, inode, 0);
    return found;
}

/* Returns 1 for a CGI program of mod_cgid: input and output are the same socket. */
static int is_cgi(pid_t pid)
{
    int is_pipe;
    apr_uint64_t in = vl_proc_inode(pid, 0, &is_pipe);

    return in && !is_pipe && in == vl_proc_inode(pid, 1, NULL);
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
            if (!is_server(b, family[k]) && !is_cgi(family[k])
                && !apr_hash_get(b->by_pid, &family[k], sizeof(family[k])))
                found |= check_process(b, backend, family[k], inode, 1);
        }
    }
    return found;
}

static int scan(vl_backends_t *b, backend_t *backend, apr_uint64_t inode)
{
    apr_int64_t from_us = cpu_us(), rest_us;
    int found;

    if (b->now_us < backend->scan_us)
        return 0;
    found = scan_own(b, backend, inode) || scan_family(b, backend, inode);
    rest_us = (cpu_us() - from_us) * SCAN_REST;
    backend->scan_us = b->now_us + (rest_us > SCAN_LEAST_US ? rest_us : SCAN_LEAST_US);
    if (!found && b->now_us < b->scan_us)
        return 0;
    found = found || scan_all(b, backend, inode);
    /* Programs that end sooner than they are found must not cause scans for ever. */
    backend->scan_wait_us = found ? SCAN_LEAST_US
                                  : backend->scan_wait_us < FORGET_US / 2
                                    ? backend->scan_wait_us * 2 : FORGET_US / 2;
    backend->scan_us = b->now_us + (rest_us > backend->scan_wait_us ? rest_us
                                                                    : backend->scan_wait_us);
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
    process = add_process(b, backend, pid);
    process->is_program = backend->forks = 1;
    for (i = 0; i < 3; i++)
        add_hint(b, backend, i);
    return found;
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
            found |= check_process(b, backend, children[i], inode, 0);
        else if (starts && check_program(b, backend, children[i], inode))
            found = 1;
        else if (!tid && backend->listen_fd < 0)
            found |= check_process(b, backend, children[i], inode, 0);
    }
    return found;
}

/* Looks at the new children of processes whose children are the back end's, and of its own ones
 * if they may start programs. tid: the thread of Apache that waits for a program which it has
 * started, or 0. */
static int scan_children(vl_backends_t *b, backend_t *backend, apr_uint64_t inode, pid_t pid,
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
        found |= scan_children_of(b, backend, inode, backend->parent[i], 0, backend->forks);
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
        process->inode[i] = vl_proc_inode(process->pid, backend->hint[i], NULL);
}

/* Returns the process that has the connection with this inode, or NULL. */
static process_t *find_process(vl_backends_t *b, backend_t *backend, apr_uint64_t inode)
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

/* --- whether a process runs ---------------------------------------------------- */

static void sample_process(vl_backends_t *b, process_t *process)
{
    vl_waits_t waits;
    int i;

    if (process->round == b->round)
        return;
    process->users_before = process->round + 1 == b->round ? process->users : 0;
    process->users = 0;
    process->round = b->round;
    process->runs = 0;
    process->waits.n = 0;
    if (!process->threads || b->now_us - process->threads_us
                             > (process->threads > 1 ? THREADS_US : SINGLE_US)) {
        process->threads = vl_proc_threads(process->pid, process->thread, THREADS);
        process->threads_us = b->now_us;
    }
    for (i = 0; i < process->threads; i++) {
        if (vl_proc_look(process->pid, process->thread[i], &waits) == VL_PROC_RUNS)
            process->runs++;
        else if (process->threads == 1)
            process->waits = waits;
    }
}

/* Notes that the account uses the back end. */
static void note_use(vl_backends_t *b, backend_t *backend, apr_uint32_t account, vl_cost_by_e by)
{
    share_t *share = share_get(backend, account);
    user_t *user = user_get(b, account);
    int i;

    /* What samples have found before a pause says nothing. */
    for (i = 0; b->now_us - backend->seen_us > PAUSE_US && i < backend->n_shares; i++)
        backend->shares[i].ns = 0;
    share->seen_us = backend->seen_us = b->now_us;
    user->seen_us = b->now_us;
    user->by = by;
    if (!backend->database)
        user->last = backend;
}

/* Counts a request of the account that waits for the back end. Returns the account's share. */
static share_t *count_request(const vl_backends_t *b, backend_t *backend, apr_uint32_t account)
{
    share_t *share = share_get(backend, account);

    if (share->round != b->round) {
        share->users_before = share->round + 1 == b->round ? share->users : 0;
        share->users = 0;
        share->round = b->round;
    }
    share->users++;
    return share;
}

/* A back end behind one that several accounts use belongs to the account whose virtual host names
 * its working folder. Returns 0 if it is another account's. */
static int may_use(vl_backends_t *b, backend_t *backend, apr_uint32_t account)
{
    char folder[512];

    if (!backend->knows_owner) {
        backend->knows_owner = 1;
        backend->owner = VL_NO_FLOW;
        if (b->folder && vl_proc_folder(backend->processes->pid, folder, sizeof(folder)))
            backend->owner = b->folder(folder);
    }
    return backend->owner == VL_NO_FLOW || backend->owner == account;
}

/* A process that worked for an account when the moment began is that account's. */
static void note_moment(vl_backends_t *b, backend_t *backend, process_t *process,
                        apr_uint32_t account)
{
    if ((backend->n_shares < 2 && !backend->estimates) || b->moments == MOMENTS
        || (b->old_moments && process->moments))
        return;
    b->moment[b->moments].backend = backend;
    b->moment[b->moments].process = process;
    b->moment[b->moments++].account = account;
}

static void note_call(vl_backends_t *b, const vl_peer_t *peer, apr_uint32_t account)
{
    if (b->calls == CALLS)
        return;
    b->call[b->calls].port = peer->from_port;
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
        apr_uint64_t listener = vl_proc_listener(peer);

        if (!listener)
            return;
        backend_get(b, peer->name)->listener = listener;
    }
    if (i == edges->n)
        apr_cpystrn(edges->edge[edges->n++].name, peer->name, sizeof(edges->edge[i].name));
    edges->edge[i].inode = peer->inode;
    edges->edge[i].seen_us = b->now_us;
}

/* Lists the connections that the process has opened. backend: its own. */
static void list_edges(vl_backends_t *b, const backend_t *backend, process_t *process)
{
    const char *colon = strrchr(backend->name, ':');
    int port = colon ? (int)strtol(colon + 1, NULL, 10) : 0, i;
    apr_int64_t from_us = cpu_us();
    edges_t *edges = process->edges;
    struct dirent *entry;
    char path[64];
    DIR *dir;

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

        if (!inode || is_pipe || vl_proc_peer(process->pid, fd, inode, &peer) != VL_PEER_HERE)
            continue;
        if (!peer.port)
            vl_proc_name(&peer);
        if (peer.port && is_own(b, peer.port))
            note_call(b, &peer, backend->n_shares > 1 ? VL_NO_FLOW : backend->shares[0].account);
        else if (peer.port ? peer.from_port != port : peer.name[0] == '/' || peer.name[0] == '@')
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

/* Returns how many processes behind this one want a processor for the account. */
static apr_uint32_t follow_edges(vl_backends_t *b, backend_t *from, apr_uint32_t account,
                                 process_t *process)
{
    apr_uint32_t runs = 0;
    int i;

    list_edges(b, from, process);
    for (i = 0; i < process->edges->n; i++) {
        backend_t *backend = backend_get(b, process->edges->edge[i].name);
        apr_uint64_t inode = process->edges->edge[i].inode;
        process_t *each;

        if (backend == from)
            continue;
        if (!backend->processes)
            adopt(b, backend);
        if (!backend->processes && !scan_children(b, backend, inode, 0, 0) && scan(b, backend, inode))
            adopt(b, backend);
        if (!backend->processes || (from->n_shares > 1 && !may_use(b, backend, account)))
            continue;
        note_use(b, backend, account, VL_COST_PROCESSES);
        for (each = backend->processes; each; each = each->next) {
            sample_process(b, each);
            each->users++;
            note_moment(b, backend, each, account);
            runs += each->runs;
        }
    }
    return runs;
}

/* --- databases --------------------------------------------------------------------- */

/* vl_database_clients_t */
static apr_uint32_t whose(void *data, pid_t pid, apr_uint64_t inode)
{
    vl_backends_t *b = ((backend_t *)data)->b;
    const connection_t *connection = apr_hash_get(b->connections, &inode, sizeof(inode));
    const process_t *process;

    if (connection)
        return connection->account;
    process = apr_hash_get(b->by_pid, &pid, sizeof(pid));
    return process && process->backend->n_shares == 1 ? process->backend->shares[0].account
                                                      : VL_NO_FLOW;
}

static int requests_of(void *data, int n, apr_uint32_t *ret_account, apr_uint32_t *ret_requests)
{
    const backend_t *backend = data;

    if (n >= backend->n_shares)
        return 0;
    *ret_account = backend->shares[n].account;
    *ret_requests = backend->shares[n].round == backend->b->round ? backend->shares[n].users : 0;
    return 1;
}

static void note_found(void *data, pid_t pid, int is_background)
{
    backend_t *backend = data;

    add_process(backend->b, backend, pid)->is_background = is_background;
}

static void note_used(void *data, apr_uint32_t account, apr_uint64_t ns)
{
    backend_t *backend = data;
    share_t *share = share_get(backend, account);

    share->ns += ns;
    share->seen_us = backend->b->now_us;
}

/* Looks whether the back end's processes are those of a database server. */
static void know_database(vl_backends_t *b, backend_t *backend)
{
    const vl_database_clients_t clients = { backend, whose, requests_of, note_found, note_used };
    pid_t server;

    if (backend->knows_database || !backend->processes)
        return;
    backend->knows_database = 1;
    backend->clients = clients;
    backend->database = vl_database_open(b->pool, backend->processes->pid, &backend->clients);
    if (!backend->database)
        return;
    if (backend->most_shares < DATABASE_SHARES) {
        share_t *more = apr_palloc(b->pool, DATABASE_SHARES * sizeof(*more));

        memcpy(more, backend->shares, (size_t)backend->n_shares * sizeof(*more));
        backend->shares = more;
        backend->most_shares = DATABASE_SHARES;
    }
    /* Processes of PostgreSQL are children of the first one, MariaDB has none. */
    server = vl_database_pid(backend->database);
    backend->n_parents = 1;
    backend->parent[0] = server;
    (void)vl_proc_parent(server, &backend->parent_ns[0]);
    add_process(b, backend, server);
}

static void note_connection(vl_backends_t *b, apr_uint64_t inode, apr_uint32_t account)
{
    connection_t *connection = apr_hash_get(b->connections, &inode, sizeof(inode));

    if (!connection) {
        if (apr_hash_count(b->connections) == CONNECTIONS) {
            apr_pool_clear(b->connection_pool);
            b->connections = apr_hash_make(b->connection_pool);
        }
        connection = apr_pcalloc(b->connection_pool, sizeof(*connection));
        connection->inode = inode;
        apr_hash_set(b->connections, &connection->inode, sizeof(connection->inode), connection);
    }
    connection->account = account;
}

/* A request waits for a database server whose sessions can be seen. */
static vl_wait_for_e look_at_database(vl_backends_t *b, backend_t *backend, apr_uint32_t account,
                                      apr_uint64_t inode, apr_uint32_t *ret_runs)
{
    share_t *share = count_request(b, backend, account);
    apr_uint32_t users = (share->users > share->users_before ? share->users : share->users_before)
                         * b->stride;
    int runs = vl_database_runs(backend->database, account);

    b->at_database = 1;
    note_use(b, backend, account, VL_COST_PROCESSES);
    note_connection(b, inode, account);
    *ret_runs = runs < 0 || (apr_uint32_t)runs >= users ? 1000 : (apr_uint32_t)runs * 1000 / users;
    return *ret_runs ? VL_WAIT_RUNS : VL_WAIT_ASLEEP;
}

/* Asks a database server for its sessions, once in a round. Returns 1 if they can be seen. */
static int ask_database(vl_backends_t *b, backend_t *backend)
{
    know_database(b, backend);
    if (!backend->database)
        return 0;
    if (backend->asked_round != b->round && b->n_asked < DATABASES) {
        backend->asked_round = b->round;
        b->asked[b->n_asked++] = backend;
        vl_database_ask(backend->database, b->now_us);
    }
    return !vl_database_fault(backend->database);
}

/* --- what a request waits for -------------------------------------------------------- */

static vl_wait_for_e look(vl_backends_t *b, apr_uint32_t account, pid_t pid, pid_t tid, int fd,
                          int depth, apr_uint32_t *ret_runs);

/* Returns the part of a processor that the process wants for one of its requests, permille. */
static apr_uint32_t runs_of(vl_backends_t *b, backend_t *backend, apr_uint32_t account,
                            process_t *process, int depth)
{
    share_t *share = count_request(b, backend, account);
    apr_uint32_t users, runs;
    int i;

    sample_process(b, process);
    users = ++process->users > process->users_before ? process->users : process->users_before;
    runs = process->runs;
    if (!runs && depth < DEPTH_MOST
        && (process->threads > 1 || process->waits.n == VL_PROC_FDS)) {
        runs = follow_edges(b, backend, account, process);
        users = share->users > share->users_before ? share->users : share->users_before;
    }
    if (runs)
        return runs < users ? runs * 1000 / users : 1000;
    for (i = 0; depth < DEPTH_MOST && i < process->waits.n; i++) {
        if (look(b, account, process->pid, 0, process->waits.fd[i], depth + 1, &runs)
            == VL_WAIT_RUNS)
            return runs;
    }
    return 0;
}

static vl_wait_for_e look_at_backend(vl_backends_t *b, backend_t *backend, apr_uint32_t account,
                                     apr_uint64_t inode, pid_t pid, pid_t tid, int depth,
                                     apr_uint32_t *ret_runs)
{
    process_t *process;

    if (backend->same)
        backend = backend->same;
    if (ask_database(b, backend))
        return look_at_database(b, backend, account, inode, ret_runs);
    process = find_process(b, backend, inode);
    if (!process && (scan_children(b, backend, inode, pid, tid)
                     || scan(b, backend, inode)))
        process = find_process(b, backend, inode);
    if (!process && !backend->forks && backend->n_processes <= FEW_PROCESSES && backend->processes) {
        int n = (int)(next_random(b) % (apr_uint32_t)backend->n_processes);

        for (process = backend->processes; n; n--)
            process = process->next;
    }
    /* It is known by now whether it is a database. */
    if (backend->processes && !backend->knows_database && ask_database(b, backend))
        return look_at_database(b, backend, account, inode, ret_runs);
    *ret_runs = process ? runs_of(b, backend, account, process, depth) : 1000;
    /* A request at a depth of 1 or more does not make its account's cost unknown. */
    note_use(b, backend, account,
             backend->processes || depth ? VL_COST_PROCESSES : VL_COST_UNKNOWN);
    if (process)
        note_moment(b, backend, process, account);
    return *ret_runs ? VL_WAIT_RUNS : VL_WAIT_ASLEEP;
}

static vl_wait_for_e look(vl_backends_t *b, apr_uint32_t account, pid_t pid, pid_t tid, int fd,
                          int depth, apr_uint32_t *ret_runs)
{
    int is_pipe;
    apr_uint64_t inode = vl_proc_inode(pid, fd, &is_pipe);
    vl_peer_t peer = { 0 };
    backend_t *backend;
    user_t *user;

    *ret_runs = 0;
    if (!inode || (is_pipe && depth))
        return VL_WAIT_NOTHING;
    if (is_pipe) {
        apr_snprintf(peer.name, sizeof(peer.name), "programs of process %d", (int)pid);
        backend = backend_get(b, peer.name);
        backend->forks = backend->is_pipe = 1;
        return look_at_backend(b, backend, account, inode, pid, tid, depth, ret_runs);
    }
    switch (vl_proc_peer(pid, fd, inode, &peer)) {
    case VL_PEER_NONE:
        return VL_WAIT_NOTHING;
    case VL_PEER_QUEUED:
        /* The processes are busy. More requests would only wait there, unordered. */
        *ret_runs = is_own(b, peer.port) ? 0 : 1000;
        if (!*ret_runs)
            note_call(b, &peer, account);
        return *ret_runs ? VL_WAIT_RUNS : VL_WAIT_ASLEEP;
    case VL_PEER_REMOTE:
        backend = backend_get(b, peer.name);
        backend->is_remote = 1;
        if (!depth)
            note_use(b, backend, account, VL_COST_REMOTE);
        return VL_WAIT_ASLEEP;
    case VL_PEER_HERE:
    case VL_PEER_HIDDEN:
        break;
    }
    if (peer.port && is_own(b, peer.port)) {
        note_call(b, &peer, account);
        return VL_WAIT_ASLEEP;
    }
    user = user_get(b, account);
    if (user->last && find_process(b, user->last, peer.inode))
        return look_at_backend(b, user->last, account, peer.inode, pid, 0, depth, ret_runs);
    vl_proc_name(&peer);
    backend = backend_get(b, peer.name);
    if (!backend->listener && !backend->processes && b->now_us >= backend->scan_us)
        backend->listener = listener_of(b, &peer);
    /* A scan for another back end may have found its processes. */
    if (backend->listener && !backend->processes)
        adopt(b, backend);
    return look_at_backend(b, backend, account, peer.inode, pid, 0, depth, ret_runs);
}

vl_wait_for_e vl_backends_look(vl_backends_t *b, apr_uint32_t account, pid_t pid, pid_t tid,
                               int fd, apr_uint32_t *ret_runs)
{
    b->at_database = 0;
    return look(b, account, pid, tid, fd, 0, ret_runs);
}

int vl_backends_at_database(const vl_backends_t *b)
{
    return b->at_database;
}

int vl_backends_moment(vl_backends_t *b)
{
    backend_t *backend;
    process_t *process;
    int i, databases = 0;

    for (i = 0; i < b->moments; i++) {
        backend = b->moment[i].backend;
        if (backend->moment_round == b->round)
            continue;
        backend->moment_round = b->round;
        for (process = backend->processes; process; process = process->next) {
            process->moment_ns = vl_proc_cpu_ns(process->pid);
            process->moments = 0;
        }
    }
    b->moment_us = vl_clock_us();
    for (i = 0; i < b->moments; i++)
        b->moment[i].process->moments++;
    b->epoch++;
    b->old_moments = b->moments;
    for (i = 0; i < b->n_asked; i++)
        databases += vl_database_begin(b->asked[i]->database);
    return b->old_moments || databases;
}

void vl_backends_end(vl_backends_t *b)
{
    apr_int64_t moment_us = vl_clock_us() - b->moment_us;
    apr_int64_t round_us = b->now_us - b->since_us;
    int i;

    for (i = 0; i < b->n_asked; i++)
        vl_database_end(b->asked[i]->database);
    for (i = b->old_moments; i < b->moments; i++)
        b->moment[i].process->moments++;
    for (i = 0; i < b->moments; i++) {
        process_t *process = b->moment[i].process;
        backend_t *backend = b->moment[i].backend;
        apr_uint64_t ns = vl_proc_cpu_ns(process->pid);

        /* A program that has ended since the sample has run for half of the moment. */
        if (!ns && backend->estimates && process->is_program && process->runs)
            ns = process->moment_ns + (apr_uint64_t)moment_us * 500;
        if (!process->moment_ns || ns <= process->moment_ns)
            continue;
        ns = (ns - process->moment_ns) / process->moments;
        share_get(backend, b->moment[i].account)->ns += ns;
        if (backend->estimates && process->is_program && round_us < APR_USEC_PER_SEC)
            backend->owed_ns += ns * b->stride * (apr_uint64_t)round_us / (apr_uint64_t)moment_us;
    }
}

/* --- CPU time ------------------------------------------------------------------- */

/* As vl_proc_parent(). Many back ends have one parent, so its file is read once in a round. */
static int children_of(vl_backends_t *b, pid_t parent, apr_uint64_t *ret_ns)
{
    if (b->parent != parent || b->parent_us != b->now_us) {
        if (!vl_proc_parent(parent, &b->parent_ns))
            return 0;
        b->parent = parent;
        b->parent_us = b->now_us;
    }
    *ret_ns = b->parent_ns;
    return 1;
}

/* Adds what the back end's processes have used since the last reading. */
static void read_cpu(vl_backends_t *b, backend_t *backend)
{
    process_t **at = &backend->processes;
    apr_uint64_t ns, most, children_ns, used = 0, gone_ns = 0, waited_ns = 0;
    int i;

    while (*at) {
        process_t *process = *at;

        ns = vl_proc_cpu_ns(process->pid);
        if (!ns) {
            gone_ns += process->cpu_ns;
            backend->gone++;
            remove_process(b, backend, at);
            continue;
        }
        if (ns > process->cpu_ns && !(backend->estimates && process->is_program)
            && !process->is_background) {
            used += ns - process->cpu_ns;
            b->had_outside |= process->is_outside;
        }
        process->cpu_ns = ns;
        at = &process->next;
    }
    /* What processes have used between the last reading and their end: their parent's count
     * of it, in clock ticks, less what was read. The parent may have other back ends' processes
     * too, so it is at most what the processes can have used since then. */
    backend->gone_ns += gone_ns;
    most = (apr_uint64_t)backend->gone * GONE_MOST_NS;
    for (i = 0; i < backend->n_parents; i++) {
        if (!children_of(b, backend->parent[i], &children_ns)) {
            backend->parent[i] = backend->parent[--backend->n_parents];
            backend->parent_ns[i] = backend->parent_ns[backend->n_parents];
            i--;
            continue;
        }
        if (children_ns > backend->parent_ns[i]
            && (backend->gone || backend->forks || backend->database)) {
            ns = children_ns - backend->parent_ns[i];
            if (ns > backend->gone_ns)
                used += backend->forks || backend->database || ns - backend->gone_ns < most ? ns - backend->gone_ns
                                                                       : most;
            backend->gone_ns -= ns > backend->gone_ns ? backend->gone_ns : ns;
        }
        backend->parent_ns[i] = children_ns;
        waited_ns += children_ns;
    }
    backend->estimates = backend->forks && (backend->gone || backend->estimates) && !waited_ns;
    if (backend->estimates)
        backend->gone_ns = 0;
    if (!backend->gone_ns)
        backend->gone = 0;
    if (backend->database) {
        backend->background_ns += vl_database_background(backend->database, b->now_us);
        ns = backend->background_ns < used ? backend->background_ns : used;
        backend->background_ns -= ns;
        used -= ns;
    }
    if (used && !backend->owed_ns)
        backend->owed_since_us = b->now_us;
    backend->owed_ns += used;
    backend->read_us = b->now_us;
}

/* Divides the CPU time between the accounts. */
static void divide(vl_backends_t *b, backend_t *backend)
{
    apr_uint64_t sum = 0, part;
    share_t *last = backend->shares;
    user_t *user;
    int i;

    if (!backend->owed_ns || !backend->n_shares)
        return;
    for (i = 0; i < backend->n_shares; i++) {
        sum += backend->shares[i].ns;
        if (backend->shares[i].account != VL_NO_FLOW
            && (last->account == VL_NO_FLOW || backend->shares[i].seen_us > last->seen_us))
            last = &backend->shares[i];
    }
    if (backend->n_shares > 1 && !sum && b->now_us - backend->owed_since_us < OWED_MOST_US)
        return;
    for (i = 0; i < backend->n_shares; i++) {
        share_t *share = &backend->shares[i];

        part = sum ? (apr_uint64_t)((double)backend->owed_ns * (double)share->ns / (double)sum)
                   : share == last ? backend->owed_ns : 0;
        if (part && share->account != VL_NO_FLOW) {
            user = user_get(b, share->account);
            user->ns += part;
            user->database_ns += backend->database ? part : 0;
            share->spent_ns += part;
            if (user->seen_us < backend->seen_us)
                user->seen_us = backend->seen_us;
        }
        share->ns -= share->ns / KEEP;
    }
    backend->owed_ns = 0;
}

static void tell_spent(backend_t *backend, vl_backends_spend_fn *spend, void *data)
{
    int i;

    for (i = 0; i < backend->n_shares; i++) {
        share_t *share = &backend->shares[i];

        if (share->spent_ns >= 1000)
            spend(data, &share->entry, share->account,
                  backend->is_pipe ? "CGI programs" : backend->name, share->spent_ns / 1000);
        share->spent_ns %= 1000;
    }
}

static void forget_shares(vl_backends_t *b, backend_t *backend)
{
    int i;

    for (i = 0; i < backend->n_shares; i++) {
        if (b->now_us - backend->shares[i].seen_us > FORGET_US && backend->n_shares > 1)
            backend->shares[i--] = backend->shares[--backend->n_shares];
    }
}

static void forget_backend(vl_backends_t *b, backend_t *backend)
{
    apr_hash_index_t *i;
    void *user;

    for (i = apr_hash_first(b->scratch, b->users); i; i = apr_hash_next(i)) {
        apr_hash_this(i, NULL, NULL, &user);
        if (((user_t *)user)->last == backend)
            ((user_t *)user)->last = NULL;
    }
    for (i = apr_hash_first(b->scratch, b->by_name); i; i = apr_hash_next(i)) {
        apr_hash_this(i, NULL, NULL, &user);
        if (((backend_t *)user)->same == backend)
            ((backend_t *)user)->same = NULL;
    }
    if (backend->database)
        vl_database_close(backend->database);
    apr_pool_clear(b->scratch);
    while (backend->processes)
        remove_process(b, backend, &backend->processes);
    apr_hash_set(b->by_name, backend->name, APR_HASH_KEY_STRING, NULL);
    backend->next = b->free_backends;
    b->free_backends = backend;
}

void vl_backends_charge(vl_backends_t *b, apr_int64_t now_us, vl_backends_charge_fn *charge,
                        vl_backends_spend_fn *spend, void *data)
{
    apr_hash_index_t *i;
    backend_t *backend;
    user_t *user;
    void *value;
    int idle;

    b->now_us = now_us;
    for (i = apr_hash_first(NULL, b->by_name); i; i = apr_hash_next(i)) {
        apr_hash_this(i, NULL, NULL, &value);
        backend = value;
        if (now_us - backend->seen_us > READ_US && now_us - backend->read_us < UNUSED_READ_US)
            continue;
        read_cpu(b, backend);
        if (backend->database && !vl_database_pid(backend->database)) {
            vl_database_close(backend->database);
            backend->database = NULL;
            backend->knows_database = backend->n_parents = 0;
            backend->listener = 0;
        }
        divide(b, backend);
        tell_spent(backend, spend, data);
        forget_shares(b, backend);
        if (now_us - backend->seen_us > FORGET_US)
            forget_backend(b, backend);
    }
    for (i = apr_hash_first(NULL, b->users); i; i = apr_hash_next(i)) {
        apr_hash_this(i, NULL, NULL, &value);
        user = value;
        idle = now_us - user->seen_us > ACCOUNT_US;
        charge(data, user->account, user->ns / 1000, user->database_ns / 1000, user->by, idle);
        user->ns %= 1000;
        user->database_ns %= 1000;
        if (idle) {
            apr_hash_set(b->users, &user->account, sizeof(user->account), NULL);
            user->next = b->free_users;
            b->free_users = user;
        }
    }
}

void vl_backends_calls(const vl_backends_t *b, vl_backends_call_fn *call, void *data)
{
    int i;

    for (i = 0; i < b->calls; i++)
        call(data, b->call[i].port, b->call[i].account);
}

int vl_backends_had_outside(vl_backends_t *b)
{
    int had = b->had_outside;

    b->had_outside = 0;
    return had;
}

apr_uint32_t vl_backends_processes(const vl_backends_t *b)
{
    return b->processes;
}

static void name_once(vl_backends_t *b, const backend_t *backend, vl_backends_name_fn *name)
{
    const char *address = backend->name;

    if (b->now_us - backend->first_us < VL_UNFOUND_US || apr_hash_count(b->named) == NAMED_MOST
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
        if (backend->processes || backend->is_remote || backend->forks
            || b->now_us - backend->seen_us >= USED_US)
            continue;
        n++;
        name_once(b, backend, name);
    }
    return n;
}

void vl_backends_unread(vl_backends_t *b, vl_backends_unread_fn *say, char *ret_text, size_t size)
{
    apr_hash_index_t *i;
    const char *why = NULL;
    const backend_t *backend;
    void *value;

    ret_text[0] = '\0';
    for (i = apr_hash_first(NULL, b->by_name); i && !why; i = apr_hash_next(i)) {
        apr_hash_this(i, NULL, NULL, &value);
        backend = value;
        if (backend->database && b->now_us - backend->seen_us < USED_US)
            why = vl_database_fault(backend->database);
        if (!why)
            continue;
        apr_snprintf(ret_text, size, "%s: %s", backend->name, why);
        if (why != b->said)
            say(backend->name, why);
    }
    if (why)
        b->said = why;
}
