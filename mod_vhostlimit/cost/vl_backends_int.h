/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_BACKENDS_INT_H
#define VL_BACKENDS_INT_H

/* Private to the files cost/vl_backends*.c: vl_backends.c looks what requests wait for,
 * vl_backends_charge.c divides CPU time between accounts. There is no lock: see vl_backends.h. */

#include <time.h>

#include <apr_hash.h>
#include <apr_tables.h>

#include "cost/vl_backends.h"
#include "cost/vl_database.h"
#include "cost/vl_proc.h"

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
/* Threads of a process that are looked at in one round. */
#define THREADS 64
#define CHILDREN 8192
#define FAMILY 2048
/* A back end is in use until this long after its last request, and forgotten later. */
#define USED_US (2 * APR_USEC_PER_SEC)
#define FORGET_US (60 * APR_USEC_PER_SEC)
/* Each time that CPU time is divided, what samples have found before counts an eighth less. */
#define KEEP 8
/* After a pause of this length it counts nothing. */
#define PAUSE_US (1 * APR_USEC_PER_SEC)
/* Looks at shared back ends that one round remembers. */
#define MOMENTS 256
#define CALLS 256
/* A scan of all processes takes place this many times its own CPU time later, at the
 * earliest: a third of a percent of a processor. */
#define SCAN_REST 300
#define SCAN_LEAST_US 200000
/* A new process may have the listening sockets of its parent for so long, as FPM's workers those of all pools. */
#define INHERITED_US (1 * APR_USEC_PER_SEC)

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
    apr_uint64_t own_ns;            /* of a database: used by sessions that it had all the time */
    apr_int64_t seen_us;
    apr_uint32_t queued_round, waiting;     /* its requests in the backlog in this round ... */
    apr_int64_t queued_us;          /* ... and when one was last seen there */
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

/* A parent of processes, such as FPM's master. Its count of what ended children have used, in clock
 * ticks, has the end of each that no reading has. */
typedef struct parent_t {
    struct parent_t *next;          /* of the free ones */
    pid_t pid;
    int backends;                   /* that have it */
    int is_gone;
    int hint;                       /* its children were last seen to have a connection here, or -1 */
    apr_uint64_t children_ns;       /* CPU time of the children that it waited for */
    apr_uint64_t more_ns;           /* what the last reading added ... */
    apr_uint64_t gone_ns;           /* CPU time, as read, of processes that are gone ... */
    apr_uint64_t weights;           /* ... the sum of weights of back ends, whose processes they are */
} parent_t;

typedef struct process_t {
    struct process_t *next;         /* of the same back end */
    backend_t *backend;
    parent_t *parent;               /* NULL: not watched */
    pid_t pid;
    int listen_fd;                  /* it was found by its listening socket here, or -1 ... */
    apr_int64_t since_us;           /* ... at this time; 0: that was checked later */
    int is_background;              /* of a database: it is not charged */
    int is_program;                 /* it lives for one request */
    apr_uint64_t inode[HINTS];      /* at the back end's hints ... */
    apr_uint32_t inode_epoch;       /* ... in this epoch */
    apr_uint64_t inode_ns;          /* CPU time when they were read */
    apr_uint32_t inode_hints;       /* the back end's hint_changes then */
    apr_uint64_t cpu_ns;            /* last reading */
    int has_workers;                /* its children are, or were, processes of a back end */
    int programs_live;              /* it had programs at the last reading */
    apr_int64_t calls_us;           /* when these may be asked again whether they call this server */
    apr_uint64_t programs_ns;       /* last reading of these, with those that have ended */
    int threads;                    /* in `thread`; 0: not read yet */
    apr_uint32_t every;             /* one of so many is in it */
    pid_t thread[THREADS];
    apr_int64_t threads_us;         /* when they were listed, ... */
    apr_uint64_t threads_ns;        /* ... and the process's CPU time when they were last counted */
    apr_uint32_t round;             /* when `runs` was sampled */
    apr_uint32_t runs;              /* threads that want a processor */
    vl_waits_t waits;               /* of its only thread, if it waits */
    apr_uint32_t served_epoch;      /* it had a connection in this epoch, ... */
    apr_uint64_t served;            /* ... with this inode */
    apr_uint64_t moment_ns;         /* CPU time at the beginning of the moment */
    apr_uint32_t moments, moments_round;    /* entries of `moment` that the process has in this round */
    apr_uint32_t account;           /* that it was last seen to work for */
    apr_uint32_t site, site_round;  /* of its working folder in this round */
    edges_t *edges;                 /* NULL: not needed so far */
} process_t;

struct backend_t {
    backend_t *next;                /* of the free ones */
    vl_backends_t *b;
    char name[128];
    backend_t *same;                /* another address of the same processes, or NULL ... */
    pid_t same_pid;                 /* ... because this one listens at both; or 0 */
    apr_int64_t same_us;            /* when this is looked at again ... */
    apr_int64_t same_wait_us;       /* ... so long after the last time */
    vl_database_t *database;        /* NULL: it is none, or not known to be one */
    vl_database_clients_t clients;
    int knows_database;
    apr_int64_t fault_us;           /* since when its sessions cannot be seen; 0: they can */
    apr_uint64_t background_ns;     /* of its CPU time, not yet subtracted */
    int is_asked;                   /* it is in `asked` */
    apr_int64_t busy_us;            /* of a database: when it was last read to have used CPU time */
    apr_uint64_t listener;          /* inode of the listening socket, 0: unknown */
    int listen_fd;                  /* at which children of its parents have it; -1: unknown */
    int forks;                      /* its processes are programs */
    int has_programs;               /* its processes were seen to wait for programs */
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
    parent_t *parent[PARENTS];      /* of its processes */
    apr_uint64_t weight[PARENTS];   /* see settle() */
    apr_uint64_t most_ns[PARENTS];  /* processes that are gone can have used so much unread */
    int has_gone;
    apr_uint32_t pace;              /* the part of a processor that one of its processes uses, permille */
    apr_uint64_t used_ns;           /* in the last reading */
    apr_int64_t passed_us;          /* between the last two readings, 0: there was one */
    apr_int64_t owed_ns;            /* CPU time that no account was charged yet; < 0: charged before
                                     * it was read */
    apr_int64_t owed_since_us;
    apr_int64_t seen_us;            /* when a request last waited for it */
    apr_int64_t unfound_us;         /* since when requests wait for it and no process of it is known, or 0 */
    apr_int64_t queued_us;          /* when one was last seen in its backlog ... */
    apr_int64_t queued_since_us;    /* ... and since when in all rounds */
    apr_int64_t read_us;            /* when its CPU time was last read */
    apr_int64_t after_us;           /* see vl_backends_look_after() */
    apr_int64_t children_us;        /* when the children of its parents were last read */
    apr_int64_t scan_us;            /* the next scan for it may take place */
    apr_int64_t scan_wait_us;
    int is_lost;                    /* its database server was restarted: see scan_all() */
    int is_remote, is_pipe;
    int is_apart;                   /* in another network namespace of this machine: VL_PROC_FROM_PORT stands
                                     * for the inodes of its connections */
    int port;                       /* ... at which it listens there */
    int is_left;                    /* its processes have outlived their parents */
    int is_group;                   /* its processes serve several requests each */
    apr_uint32_t runs_round, runs;  /* see runs_of_all(), and the round of it */
    int knows_sites;                /* one of its processes was in a site's folder */
    apr_uint32_t look;              /* that has followed it last, see follow_edges() */
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
    apr_hash_t *by_name;            /* name -> backend_t */
    apr_hash_t *by_pid;             /* pid -> process_t */
    apr_hash_t *parents;            /* pid -> parent_t */
    apr_hash_t *users;              /* account -> user_t */
    process_t *free;
    parent_t *free_parents;
    backend_t *free_backends;
    user_t *free_users;
    apr_uint32_t round, looks;
    apr_uint32_t epoch;             /* changes where processes may have other connections */
    apr_int64_t now_us, scan_us, nets_us;
    apr_int64_t since_us;           /* the round before */
    apr_uint32_t stride;            /* one request of so many is looked at */
    int is_paused;                  /* see vl_backends_set_paused() */
    apr_uint32_t processes;
    const vl_listen_address_t *own;
    int n_own;
    const pid_t *child;             /* Apache's child processes */
    int children;
    struct {                        /* which account a process works for in the moment */
        backend_t *backend;
        process_t *process;
        apr_uint32_t account;
    } moment[MOMENTS];
    int moments, old_moments;       /* old: found before the moment began */
    apr_int64_t moment_us;          /* when it began */
    apr_int64_t pace;               /* ns of CPU time in 1 us of a program that wants a processor */
    struct {
        apr_uint32_t key;
        vl_ip_t client;
        int is_apart;
        apr_uint32_t account;
    } call[CALLS];                  /* see vl_backends_calls() */
    int calls;
    vl_backends_site_fn *folder, *user;
    apr_pool_t *folder_pool;
    apr_hash_t *folders;            /* folder -> account, see site_of_folder() */
    apr_hash_t *named;              /* see vl_backends_unfound() */
    apr_pool_t *connection_pool;
    apr_hash_t *connections;        /* inode -> connection_t */
    backend_t *asked[DATABASES];    /* database servers in use */
    int n_asked;
    int at_database;                /* see vl_backends_at_database() */
    const char *said;               /* see vl_backends_unread() */
    apr_pool_t *reaped_pool[2];     /* of `reaped`, in turn */
    apr_hash_t *reaped;             /* the children of process 1 at reaped_us, NULL: not listed yet */
    apr_int64_t reaped_us;
};

/* vl_backends.c: the process has run. Finds an account whose requests are too short to be seen, though the
 * process works for them after the response. */
void vl_backends_look_after(vl_backends_t *b, backend_t *backend, process_t *process);

/* vl_backends_table.c: back ends, accounts, their shares and processes. */
backend_t *vl_backends_table_get(vl_backends_t *b, const char *name);
user_t *vl_backends_table_user(vl_backends_t *b, apr_uint32_t account);
share_t *vl_backends_table_share(backend_t *backend, apr_uint32_t account);
process_t *vl_backends_table_add(vl_backends_t *b, backend_t *backend, pid_t pid);
void vl_backends_table_remove(vl_backends_t *b, backend_t *backend, process_t **at);
/* Other addresses of the same database server find it anew. is_lost: it may have been restarted, so
 * those that were not found yet look for it too. */
void vl_backends_table_part(vl_backends_t *b, const backend_t *backend, int is_lost);
/* Returns the parent, NULL if it is not watched. */
parent_t *vl_backends_table_parent(vl_backends_t *b, backend_t *backend, pid_t pid);
void vl_backends_table_orphan(vl_backends_t *b, backend_t *backend, int i);
/* A process of the back end had a connection at this descriptor. */
void vl_backends_table_hint(vl_backends_t *b, backend_t *backend, int fd);
/* Notes that the account uses the back end. */
void vl_backends_table_use(vl_backends_t *b, backend_t *backend, apr_uint32_t account,
                           vl_cost_by_e by);
/* Counts a request of the account that waits for the back end. Returns the account's share. */
share_t *vl_backends_table_count(const vl_backends_t *b, backend_t *backend, apr_uint32_t account);
apr_uint32_t vl_backends_table_random(vl_backends_t *b);

/* Returns 1 if children of the process are processes of the back end, as those of mod_cgid's daemon. */
int vl_backends_table_is_parent(const process_t *process);
/* Returns 1 if children of the process are programs that it waits for. */
int vl_backends_table_may_start(process_t *process);
/* Returns the CPU time that living programs of the process have used, and in *ret_run how many of them
 * want a processor. */
apr_uint64_t vl_backends_table_programs(process_t *process, int *ret_run);
/* The CPU time of the process and of its living programs. */
apr_uint64_t vl_backends_table_ns(process_t *process);

/* vl_backends_find.c: which processes are behind an address. inode: of a connection. */
void vl_backends_find_adopt(vl_backends_t *b, backend_t *backend);
apr_uint64_t vl_backends_find_listener(const vl_backends_t *b, const vl_peer_t *peer);
/* Returns 1 if the other end of this TCP connection is in another network namespace of this machine, as in that of
 * a container, and fills in the inodes. in: a process in the namespace, 0 if that is not known. */
int vl_backends_find_apart(vl_backends_t *b, backend_t *backend, vl_peer_t *peer, pid_t in);
int vl_backends_find_scan(vl_backends_t *b, backend_t *backend, apr_uint64_t inode);
/* Returns the newest program that the thread has started, or NULL. */
process_t *vl_backends_find_program(vl_backends_t *b, backend_t *backend, pid_t pid, pid_t tid);
int vl_backends_find_children(vl_backends_t *b, backend_t *backend, apr_uint64_t inode, pid_t pid,
                              pid_t tid);
process_t *vl_backends_find_process(vl_backends_t *b, backend_t *backend, apr_uint64_t inode);
/* Returns 1 if the process has this listening socket, most likely at fd (-1: not known). */
int vl_backends_find_listens(pid_t pid, int fd, apr_uint64_t listener);
/* Ends that the back end is the same as another one if the process that showed it does not listen at both. */
void vl_backends_find_check_same(vl_backends_t *b, backend_t *backend);
/* Returns 1 if the process has a connection at a descriptor at which the back end's processes have them. */
int vl_backends_find_serves(vl_backends_t *b, const backend_t *backend, process_t *process);

/* Returns the account whose virtual host names the working folder of the process, or VL_NO_ACCOUNT. */
apr_uint32_t vl_backends_find_site(vl_backends_t *b, pid_t pid);
/* Finds new processes that have outlived the page that has started them. */
void vl_backends_find_left(vl_backends_t *b);

/* vl_backends_database.c: back ends that are database servers (vl_database.h). */
/* Finds the server by the other end of a Unix socket, as after a restart, without a scan. */
void vl_backends_database_find(vl_backends_t *b, backend_t *backend, pid_t pid, int fd);
/* Forgets the processes of a server that is gone, as in a restart. */
void vl_backends_database_check(vl_backends_t *b, backend_t *backend);
int vl_backends_database_ask(vl_backends_t *b, backend_t *backend);
vl_wait_for_e vl_backends_database_look(vl_backends_t *b, backend_t *backend, apr_uint32_t account,
                                        apr_uint64_t inode, apr_uint32_t *ret_runs);

static inline apr_int64_t cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (apr_int64_t)now.tv_sec * APR_USEC_PER_SEC + now.tv_nsec / 1000;
}

#endif
