/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_database.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <apr_hash.h>
#include <apr_strings.h>

#include "core/vl_fair.h"
#include "cost/vl_meter.h"
#include "cost/vl_mysql.h"
#include "cost/vl_proc.h"

#define SESSIONS 4096
#define THREADS 8192
/* Users, connections and threads that are remembered. Behind that all are forgotten, and found
 * again. */
#define REMEMBERED 16384
/* Accounts of one user. */
#define VOTES 4
/* A user has an account after so many votes. One alone may be wrong, and would hold for long. */
#define VOTES_LEAST 2
/* Votes count half when a user has so many. So an account that is given another user is found. */
#define VOTES_MOST 32
/* A user's votes are taken again once in so many lists. */
#define AGAIN 16
/* The list is read about this many times its own cost later: half a percent of one processor. */
#define REST 200
#define LIST_LEAST_US 20000
/* What sessions have used since a list before this was charged. */
#define PAUSE_US (1 * APR_USEC_PER_SEC)
/* The sampler waits at most this long for the list. */
#define ANSWER_MS 30
/* CPU time is read this long before a list and after it. In a longer time only after it more short sessions
 * would end and begin, which the list does not have. */
#define BESIDE_MS 2
/* What a session of a user uses in that time is an average of so many. */
#define AVERAGE 64
/* MariaDB is connected to again this long after it was not there, or has denied the connection. It
 * writes a line into its log for each one that it denies, so this takes longer after some minutes. */
#define AGAIN_US (1 * APR_USEC_PER_SEC)
#define DENIED_SOON_US (3 * APR_USEC_PER_SEC)
#define DENIED_AGAIN_US (30 * APR_USEC_PER_SEC)
#define DENIED_US (300 * APR_USEC_PER_SEC)
#define BACKGROUND_US (1 * APR_USEC_PER_SEC)

typedef struct duser_t {            /* a user of the database */
    const char *name;
    int is_named;                   /* the configuration names its account */
    int is_none;                    /* the name of a session that has no user yet, or never */
    int is_admin;                   /* the name of a superuser: it may make backups */
    apr_uint32_t account;           /* VL_NO_ACCOUNT: not known, or several */
    apr_uint64_t ns, n;             /* CPU time beside lists of so many sessions */
    struct {
        apr_uint32_t account, n;
    } vote[VOTES];
} duser_t;

typedef struct session_t {
    apr_uint64_t id;                /* of the connection */
    pid_t tid;
    duser_t *user;
    apr_uint32_t account;           /* VL_NO_ACCOUNT: not known */
    int sleeps;                     /* MariaDB says that it waits for its client */
    int runs;                       /* it wants a processor */
} session_t;

typedef struct client_t {           /* of a session */
    apr_uint64_t id;                /* of its connection */
    pid_t pid;
    apr_uint64_t inode;             /* of the server's end */
} client_t;

typedef struct worker_t {           /* a thread of MariaDB, a process of PostgreSQL */
    struct worker_t *next;          /* of the free ones */
    pid_t tid;
    apr_uint64_t id;                /* of the connection that it served last, 0: none so far */
    duser_t *user;                  /* of PostgreSQL. NULL: a background process */
    int is_known;                   /* it has a title: `user` is valid */
    apr_uint64_t ns;                /* CPU time when it was last read, ... */
    apr_uint64_t before_ns;         /* ... and before this list */
    apr_uint32_t seen;              /* it was in the listing of this number */
} worker_t;

struct vl_database_t {
    vl_database_t *next;            /* of the free ones */
    const vl_database_clients_t *clients;
    apr_pool_t *users_pool;
    apr_hash_t *users;              /* name -> duser_t */
    apr_hash_t *known;              /* account -> a duser_t of it */
    apr_pool_t *pool;               /* of what is remembered of this process of the server: */
    apr_hash_t *clients_of;         /* id of a connection -> client_t */
    apr_hash_t *workers;            /* tid -> worker_t */
    worker_t *free;
    pid_t pid;
    int is_mariadb;
    vl_mysql_t *mysql;
    char path[96];                  /* of its Unix socket */
    const char *fault;
    apr_int64_t now_us, list_us, next_us, connect_us, background_us;
    apr_int64_t denied_us;          /* since when it has denied each connection; 0: it has not */
    apr_uint64_t own_ns;            /* CPU time of the own connection's thread */
    apr_uint32_t list;              /* its number */
    apr_uint32_t seen;              /* number of the last listing of workers */
    int is_asked;                   /* in this round of the caller, and no list has come since */
    session_t session[SESSIONS];
    int sessions;
};

static vl_database_t *free_ones;

static void forget_users(vl_database_t *d)
{
    apr_pool_clear(d->users_pool);
    d->users = apr_hash_make(d->users_pool);
    d->known = apr_hash_make(d->users_pool);
}

static void forget(vl_database_t *d)
{
    apr_pool_clear(d->pool);
    d->clients_of = apr_hash_make(d->pool);
    d->workers = apr_hash_make(d->pool);
    d->free = NULL;
    d->sessions = 0;
}

pid_t vl_database_server(pid_t pid, int *ret_is_mariadb)
{
    char name[32], parent_name[32];
    apr_uint64_t unused;
    pid_t parent = vl_proc_parent(pid, &unused);

    (void)vl_proc_read(pid, "comm", name, sizeof(name));
    *ret_is_mariadb = !strcmp(name, "mariadbd\n") || !strcmp(name, "mysqld\n");
    if (*ret_is_mariadb)
        return pid;
    if (strcmp(name, "postgres\n") != 0)
        return 0;
    (void)vl_proc_read(parent, "comm", parent_name, sizeof(parent_name));
    return strcmp(name, parent_name) ? pid : parent;
}

vl_database_t *vl_database_open(apr_pool_t *p, pid_t pid, const vl_database_clients_t *clients,
                                vl_database_t *before)
{
    int is_mariadb;
    pid_t server = vl_database_server(pid, &is_mariadb);
    vl_database_t *d = before;

    if (before && !server)
        vl_database_close(before);
    if (!server)
        return NULL;
    if (!d && free_ones) {
        d = free_ones;
        free_ones = d->next;
    }
    if (!d) {
        d = apr_pcalloc(p, sizeof(*d));
        apr_pool_create(&d->pool, p);
        apr_pool_create(&d->users_pool, p);
        d->mysql = vl_mysql_create(p);
    }
    if (d != before)
        forget_users(d);
    vl_database_lose(d);
    d->clients = clients;
    d->pid = server;
    d->is_mariadb = is_mariadb;
    return d;
}

void vl_database_lose(vl_database_t *d)
{
    vl_mysql_close(d->mysql);
    forget(d);
    d->pid = 0;
    d->fault = NULL;
    d->next_us = d->connect_us = d->background_us = d->denied_us = 0;
    d->own_ns = 0;
}

void vl_database_close(vl_database_t *d)
{
    vl_mysql_close(d->mysql);
    d->next = free_ones;
    free_ones = d;
}

pid_t vl_database_pid(const vl_database_t *d)
{
    return vl_proc_cpu_ns(d->pid) ? d->pid : 0;
}

const char *vl_database_fault(const vl_database_t *d)
{
    return d->fault;
}

/* --- users ------------------------------------------------------------------------ */

static duser_t *user_get(vl_database_t *d, const char *name)
{
    duser_t *user = apr_hash_get(d->users, name, APR_HASH_KEY_STRING);

    if (!user) {
        user = apr_pcalloc(d->users_pool, sizeof(*user));
        user->name = apr_pstrdup(d->users_pool, name);
        user->is_none = !strcmp(name, "unauthenticated user") || !strcmp(name, "system user");
        user->is_admin = !strcmp(name, "root") || !strcmp(name, "postgres");
        user->account = d->clients->owner(d->clients->data, name);
        user->is_named = user->account != VL_NO_ACCOUNT;
        if (user->is_named)
            apr_hash_set(d->known, &user->account, sizeof(user->account), user);
        apr_hash_set(d->users, user->name, APR_HASH_KEY_STRING, user);
    }
    return user;
}

/* One of the user's sessions was seen to work for the account. The user is an account's if seven in
 * eight are. */
static void vote(vl_database_t *d, duser_t *user, apr_uint32_t account)
{
    apr_uint32_t all = 0;
    int i, least = 0, most = 0;

    if (user->is_named)
        return;
    for (i = 0; i < VOTES; i++) {
        if (user->vote[i].n && user->vote[i].account == account)
            break;
        if (user->vote[i].n < user->vote[least].n)
            least = i;
    }
    if (i == VOTES) {
        i = least;
        user->vote[i].account = account;
        user->vote[i].n = 0;
    }
    user->vote[i].n++;
    for (i = 0; i < VOTES; i++) {
        all += user->vote[i].n;
        if (user->vote[i].n > user->vote[most].n)
            most = i;
    }
    user->account = all >= VOTES_LEAST && user->vote[most].n * 8 >= all * 7 ? user->vote[most].account : VL_NO_ACCOUNT;
    if (user->account != VL_NO_ACCOUNT)
        apr_hash_set(d->known, &user->account, sizeof(user->account), user);
    for (i = 0; all >= VOTES_MOST && i < VOTES; i++)
        user->vote[i].n /= 2;
}

/* Looks which process is at the other end of a session that waits for its client. A session without a user
 * is the account's for this list only: short ones spend much of their time so. */
static void find_client(vl_database_t *d, session_t *session, const vl_waits_t *waits)
{
    const pid_t pid = d->is_mariadb ? d->pid : session->tid;
    const client_t *known = apr_hash_get(d->clients_of, &session->id, sizeof(session->id));
    client_t client = known ? *known : (client_t){ .id = session->id };
    apr_uint32_t account = known ? d->clients->whose(d->clients->data, client.pid, client.inode)
                                 : VL_NO_ACCOUNT;
    int i;

    for (i = 0; !known && account == VL_NO_ACCOUNT && i < waits->n; i++) {
        client.inode = vl_proc_inode(pid, waits->fd[i], NULL);
        if (!client.inode)
            continue;
        client.pid = vl_proc_client(pid, waits->fd[i]);
        account = d->clients->whose(d->clients->data, client.pid, client.inode);
    }
    if (session->user->is_none || account == VL_NO_ACCOUNT) {
        session->account = account;
        return;
    }
    if (!known) {
        known = apr_pmemdup(d->pool, &client, sizeof(client));
        apr_hash_set(d->clients_of, &known->id, sizeof(known->id), known);
    }
    vote(d, session->user, account);
}

/* --- the list of sessions ----------------------------------------------------------- */

static session_t *add_session(vl_database_t *d, apr_uint64_t id, pid_t tid, duser_t *user)
{
    session_t *session;

    if (d->sessions == SESSIONS)
        d->sessions--;
    session = &d->session[d->sessions++];
    memset(session, 0, sizeof(*session));
    session->id = id;
    session->tid = tid;
    session->user = user;
    session->account = VL_NO_ACCOUNT;
    return session;
}

static int keep_path(void *data, apr_uint64_t inode, const char *name)
{
    vl_database_t *d = data;
    int fd;

    for (fd = 0; *name == '/' && fd < 128; fd++) {
        if (vl_proc_inode(d->pid, fd, NULL) != inode)
            continue;
        /* As the server sees it: it may have a /tmp of its own. */
        apr_snprintf(d->path, sizeof(d->path), "/proc/%d/root%s", (int)d->pid, name);
        return 0;
    }
    return 1;
}

static apr_uint64_t since(apr_uint64_t now, apr_uint64_t before)
{
    return now > before ? now - before : 0;
}

static worker_t *worker_get(vl_database_t *d, pid_t tid)
{
    worker_t *worker = apr_hash_get(d->workers, &tid, sizeof(tid));

    if (!worker) {
        worker = d->free;
        if (worker)
            d->free = worker->next;
        else
            worker = apr_palloc(d->pool, sizeof(*worker));
        memset(worker, 0, sizeof(*worker));
        worker->tid = tid;
        apr_hash_set(d->workers, &worker->tid, sizeof(worker->tid), worker);
    }
    worker->seen = d->seen;
    return worker;
}

/* Forgets workers that the last listing has not seen. */
static void forget_gone(vl_database_t *d)
{
    apr_hash_index_t *at;
    worker_t *gone;

    for (at = apr_hash_first(NULL, d->workers); at; at = apr_hash_next(at)) {
        gone = apr_hash_this_val(at);
        if (gone->seen == d->seen)
            continue;
        apr_hash_set(d->workers, &gone->tid, sizeof(gone->tid), NULL);
        gone->next = d->free;
        d->free = gone;
    }
}

static apr_uint64_t cpu_of(const vl_database_t *d, pid_t tid)
{
    return d->is_mariadb ? vl_proc_thread_ns(d->pid, tid) : vl_proc_cpu_ns(tid);
}

/* Reads the CPU time before a list. */
static void begin(vl_database_t *d)
{
    static pid_t pids[SESSIONS];
    int i, n = d->is_mariadb ? 0 : vl_proc_children(d->pid, 0, pids, SESSIONS);
    apr_hash_index_t *at;
    worker_t *worker;

    for (i = 0; i < n; i++)
        (void)worker_get(d, pids[i]);
    for (at = apr_hash_first(NULL, d->workers); at; at = apr_hash_next(at)) {
        worker = apr_hash_this_val(at);
        if (worker->id || n)
            worker->before_ns = cpu_of(d, worker->tid);
    }
    (void)poll(NULL, 0, BESIDE_MS);
}

/* Connects to MariaDB if that is due, asks for its list, and copies it. Returns 0 if it has not come: on a crowded
 * machine it may come before the next call. */
static int list_mariadb(vl_database_t *d)
{
    vl_mysql_e state = vl_mysql_state(d->mysql);
    const vl_mysql_row_t *rows;
    int i, n;

    if (state != VL_MYSQL_READY && state != VL_MYSQL_WAITS && d->now_us >= d->connect_us) {
        d->connect_us = d->now_us + AGAIN_US;
        d->path[0] = '\0';
        vl_proc_listeners(keep_path, d);
        if (!*d->path || !vl_mysql_open(d->mysql, d->path, "root"))
            d->fault = "it has no Unix socket that can be reached";
    }
    if (vl_mysql_state(d->mysql) == VL_MYSQL_READY) {
        begin(d);
        vl_mysql_ask(d->mysql);
    }
    n = vl_mysql_answer(d->mysql, ANSWER_MS, &rows);
    if (vl_mysql_state(d->mysql) == VL_MYSQL_DENIED) {
        vl_mysql_close(d->mysql);
        if (!d->denied_us)
            d->denied_us = d->now_us;
        d->connect_us = d->now_us + (d->now_us - d->denied_us < DENIED_US ? DENIED_SOON_US
                                                                          : DENIED_AGAIN_US);
        d->fault = "it does not let root in without a password";
    }
    if (n < 0)
        return 0;
    /* MariaDB's thread pool; MySQL without performance_schema. */
    if (!vl_mysql_own(d->mysql)) {
        d->fault = "it does not show which thread works for which session";
        d->next_us = d->now_us + AGAIN_US;
        return 0;
    }
    d->fault = NULL;
    d->denied_us = 0;
    d->sessions = 0;
    for (i = 0; i < n; i++)
        add_session(d, rows[i].id, rows[i].tid, user_get(d, rows[i].user))->sleeps = rows[i].sleeps;
    return 1;
}

int vl_database_title_user(const char *title, char *ret_user, size_t size)
{
    char *word, *last, *user = NULL, *database = NULL;
    char text[256];

    /* "postgres: [cluster: ]user database [local] activity", or host(port) for "[local]" */
    apr_cpystrn(text, title, sizeof(text));
    for (word = apr_strtok(text, " ", &last); word; word = apr_strtok(NULL, " ", &last)) {
        if (user && (!strcmp(word, "[local]")
                     || (strchr(word, '(') && word[strlen(word) - 1] == ')'))) {
            apr_cpystrn(ret_user, user, size);
            return 1;
        }
        user = database;
        database = word;
    }
    return 0;
}

/* Finds whose process of PostgreSQL this is, if it has a title yet. */
static void know_process(vl_database_t *d, worker_t *process)
{
    static const char parallel[] = "parallel worker for PID ";
    char title[256], name[128];
    const char *leader;

    if (!vl_proc_read(process->tid, "cmdline", title, sizeof(title)) || strncmp(title, "postgres: ", 10) != 0)
        return;
    leader = strstr(title, parallel);
    if (leader) {
        pid_t pid = (pid_t)strtol(leader + sizeof(parallel) - 1, NULL, 10);
        const worker_t *found = apr_hash_get(d->workers, &pid, sizeof(pid));

        process->user = found ? found->user : NULL;
        process->is_known = found && found->is_known;
        return;
    }
    process->user = vl_database_title_user(title, name, sizeof(name)) ? user_get(d, name) : NULL;
    process->is_known = 1;
}

/* PostgreSQL's sessions are the child processes of its first one. */
static void list_postgres(vl_database_t *d)
{
    static pid_t pids[SESSIONS];
    int i, n;

    begin(d);
    n = vl_proc_children(d->pid, 0, pids, SESSIONS);
    d->sessions = 0;
    d->seen++;
    for (i = 0; i < n; i++) {
        worker_t *process = worker_get(d, pids[i]);

        if (!process->is_known) {
            know_process(d, process);
            if (process->is_known)
                d->clients->found(d->clients->data, pids[i], !process->user);
        }
        if (process->user)
            add_session(d, (apr_uint64_t)pids[i], pids[i], process->user);
    }
    forget_gone(d);
}

/* --- CPU time ------------------------------------------------------------------------ */

/* Returns 1 if a user of the database is this account's. */
static int is_known(const vl_database_t *d, apr_uint32_t account)
{
    const duser_t *user = apr_hash_get(d->known, &account, sizeof(account));

    return user && user->account == account;
}

/* If one account without a user waits, and sessions of one user run, the user is the account's. */
static void exclude(vl_database_t *d)
{
    apr_uint32_t account, requests, only = VL_NO_ACCOUNT;
    duser_t *user = NULL;
    int i;

    /* Requests of an earlier round do not wait any more. */
    if (!d->is_asked)
        return;
    for (i = 0; d->clients->waits(d->clients->data, i, &account, &requests); i++) {
        if (requests && only != VL_NO_ACCOUNT)
            return;
        if (requests)
            only = account;
    }
    for (i = 0; i < d->sessions; i++) {
        const session_t *session = &d->session[i];

        if (session->sleeps || session->user->is_none || session->user->is_admin || session->user == user)
            continue;
        if (user)
            return;
        user = session->user;
    }
    if (user && only != VL_NO_ACCOUNT && user->account == VL_NO_ACCOUNT && !is_known(d, only))
        vote(d, user, only);
}

/* Learns whose the sessions of the list are, and which of them want a processor. */
static void learn(vl_database_t *d)
{
    const client_t *client;
    vl_waits_t waits;
    int i;

    for (i = 0; i < d->sessions; i++) {
        session_t *session = &d->session[i];
        const int wanted = !session->user->is_named
                           && (session->user->account == VL_NO_ACCOUNT
                               || d->list % AGAIN == (apr_uint32_t)i % AGAIN);

        waits.n = 0;
        session->runs = (!session->sleeps || wanted)
                        && vl_proc_look(d->is_mariadb ? d->pid : session->tid, session->tid, &waits)
                           == VL_PROC_RUNS;
        if (waits.n && wanted)
            find_client(d, session, &waits);
    }
    exclude(d);
    for (i = 0; i < d->sessions; i++) {
        session_t *session = &d->session[i];

        if (session->user->is_none)
            continue;
        session->account = session->user->account;
        client = apr_hash_get(d->clients_of, &session->id, sizeof(session->id));
        if (session->account == VL_NO_ACCOUNT && client)
            session->account = d->clients->whose(d->clients->data, client->pid, client->inode);
    }
}

/* Divides what sessions without an account have used. */
static void divide_rest(vl_database_t *d, apr_uint64_t ns, int is_kept)
{
    apr_uint32_t account, requests, all = 0;
    int i, pass, is_backup = 1;

    for (pass = 0; pass < 2; pass++) {
        for (i = 0; d->clients->waits(d->clients->data, i, &account, &requests); i++) {
            if (account == VL_NO_ACCOUNT || is_known(d, account))
                continue;
            is_backup = 0;
            if (!pass)
                all += requests;
            else
                d->clients->used(d->clients->data, account, ns * requests / all, is_kept);
        }
        if (!all)
            break;
    }
    if (is_backup && ns)
        d->clients->used(d->clients->data, VL_NO_ACCOUNT, ns, is_kept);
}

/* A session that the list before had too is charged what it has used since then. The others share the rest,
 * each with what sessions of its user use on average. */
static void measure(vl_database_t *d)
{
    apr_uint64_t ns, used, rest[2] = { 0, 0 };
    int i;

    (void)poll(NULL, 0, BESIDE_MS);
    for (i = 0; i < d->sessions; i++) {
        const session_t *session = &d->session[i];
        duser_t *user = session->user;
        worker_t *worker = worker_get(d, session->tid);
        const int is_old = worker->id == session->id;
        const int is_kept = is_old && d->now_us - d->list_us < PAUSE_US;

        /* The next list shows which user it is. */
        if (user->is_none && session->account == VL_NO_ACCOUNT)
            continue;
        ns = cpu_of(d, session->tid);
        if (user->n >= AVERAGE) {
            user->n /= 2;
            user->ns /= 2;
        }
        if (!is_old && (worker->before_ns || !d->is_mariadb)) {
            user->n++;
            user->ns += since(ns, worker->before_ns);
        }
        used = is_kept ? since(ns, worker->ns) : is_old ? 0 : user->ns / (user->n + !user->n);
        worker->id = session->id;
        worker->ns = ns;
        if (!used)
            continue;
        if (session->account != VL_NO_ACCOUNT || user->is_admin)
            d->clients->used(d->clients->data, session->account, used, is_kept);
        else
            rest[is_kept] += used;
    }
    d->list_us = d->now_us;
    for (i = 0; i < 2; i++)
        divide_rest(d, rest[i], i);
}

void vl_database_ask(vl_database_t *d)
{
    d->is_asked = 1;
}

apr_int64_t vl_database_look(vl_database_t *d, apr_int64_t now_us)
{
    apr_int64_t cost_us = vl_meter_thread_us();
    apr_uint64_t own_ns;

    if (!d->pid || now_us < d->next_us)
        return d->next_us;
    d->now_us = now_us;
    d->next_us = now_us + LIST_LEAST_US;
    /* Sessions point to users, so all is forgotten only between two lists. */
    if (apr_hash_count(d->users) + apr_hash_count(d->clients_of) + apr_hash_count(d->workers) > REMEMBERED) {
        forget_users(d);
        forget(d);
    }
    if (d->is_mariadb && !list_mariadb(d))
        return d->next_us;
    if (!d->is_mariadb)
        list_postgres(d);
    d->list++;
    learn(d);
    d->is_asked = 0;
    measure(d);
    own_ns = d->is_mariadb ? vl_proc_thread_ns(d->pid, vl_mysql_own(d->mysql)) : 0;
    cost_us = vl_meter_thread_us() - cost_us;
    /* The thread has served other connections before. */
    if (d->own_ns)
        cost_us += (apr_int64_t)(since(own_ns, d->own_ns) / 1000);
    d->own_ns = own_ns;
    d->next_us = d->now_us + cost_us * REST;
    if (d->next_us < now_us + LIST_LEAST_US)
        d->next_us = now_us + LIST_LEAST_US;
    return d->next_us;
}

int vl_database_runs(vl_database_t *d, apr_uint32_t account)
{
    int i, known = 0, runs = 0, rest = 0;

    for (i = 0; i < d->sessions; i++) {
        const session_t *session = &d->session[i];

        known |= session->account == account;
        runs += session->account == account && session->runs;
        rest += session->account == VL_NO_ACCOUNT && session->runs;
    }
    return known ? runs : rest ? -1 : is_known(d, account) ? 0 : -1;
}

apr_uint64_t vl_database_background(vl_database_t *d, apr_int64_t now_us)
{
    static pid_t tids[THREADS];
    apr_uint64_t used = 0, ns;
    int i, n;

    if (!d->is_mariadb || now_us - d->background_us < BACKGROUND_US)
        return 0;
    d->background_us = now_us;
    n = vl_proc_threads(d->pid, tids, THREADS);
    d->seen++;
    for (i = 0; i < n; i++) {
        worker_t *thread = worker_get(d, tids[i]);

        if (thread->id)
            continue;
        ns = vl_proc_thread_ns(d->pid, tids[i]);
        /* Without a list any thread may have a session. */
        if (thread->ns && !d->fault)
            used += since(ns, thread->ns);
        thread->ns = ns;
    }
    forget_gone(d);
    return used;
}
