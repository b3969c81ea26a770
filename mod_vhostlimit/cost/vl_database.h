/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_DATABASE_H
#define VL_DATABASE_H

/*
 * Database servers that sites share: MariaDB and MySQL, a thread for each connection, and PostgreSQL,
 * a process for each. A session is such a thread or process. This file knows which account each
 * session works for:
 *
 *   - The server says which user each session belongs to: MariaDB in its list of processes
 *     (vl_mysql.h), PostgreSQL in the titles of its processes.
 *   - VhostLimitDatabaseUser names the account of a user. The rest is for users that it does not name.
 *   - A session that waits for its client shows the descriptor of its connection, and the kernel
 *     says which process is at the other end. Many short connections are never seen waiting, but
 *     their users are those of other sessions: one session shows which account the user is of.
 *   - Sessions of a user that is not known yet, or that several accounts have, are divided between
 *     the accounts that wait for the server. If the users of all of these are known, or the user is a
 *     superuser, the session is no account's: a backup, for example.
 *
 * A session that two lists in a row have is charged what it has used in between. Short ones end before the
 * next list. What no list shows is divided between the sessions that are new in a list, each with the
 * average of what sessions of its user use in the moment of a list.
 *
 * Background work of the server is charged to no account.
 *
 * Only the sampler's thread calls these functions, for vl_backends.c. No lock.
 */

#include <sys/types.h>

#include <apr_pools.h>
#include <apr_time.h>

typedef struct vl_database_t vl_database_t;

/* What the caller knows of the server's clients. */
typedef struct vl_database_clients_t {
    void *data;
    /* Returns the account that the configuration gives the user, or VL_NO_ACCOUNT. */
    apr_uint32_t (*owner)(void *data, const char *user);
    /* Returns the account that the process works for, or VL_NO_ACCOUNT. pid: of the client, 0 if it is
     * unknown. inode: of the server's end. */
    apr_uint32_t (*whose)(void *data, pid_t pid, apr_uint64_t inode);
    /* The n-th account that waits for the server in this round, and how many of its requests do.
     * Returns 0 behind the last one. */
    int (*waits)(void *data, int n, apr_uint32_t *ret_account, apr_uint32_t *ret_requests);
    /* A process of the server. */
    void (*found)(void *data, pid_t pid, int is_background);
    /* The account's sessions, or those of no account (VL_NO_ACCOUNT), have used ns of CPU time. is_kept:
     * since the list before. Else it is a part of what new sessions have used. */
    void (*used)(void *data, apr_uint32_t account, apr_uint64_t ns, int is_kept);
} vl_database_clients_t;

/* Returns the server's process if this is one of a database server that is known here, else 0. */
pid_t vl_database_server(pid_t pid, int *ret_is_mariadb);
/* Returns NULL if the process is none of a database server that is known here. The object must be
 * closed. `clients` must live as long. before: the server was restarted, and this was its object, which
 * is closed or returned: accounts of users are kept. Else NULL. */
vl_database_t *vl_database_open(apr_pool_t *p, pid_t pid, const vl_database_clients_t *clients,
                                vl_database_t *before);
void vl_database_close(vl_database_t *d);
/* The server is gone: forgets all but the accounts of users. */
void vl_database_lose(vl_database_t *d);
/* The server's process, or the parent of its processes. Returns 0 if it is gone. */
pid_t vl_database_pid(const vl_database_t *d);
/* Returns NULL if sessions can be seen, or what prevents it. */
const char *vl_database_fault(const vl_database_t *d);

/* A request of this round waits for the server. */
void vl_database_ask(vl_database_t *d);
/* Reads the list of sessions and what they have used, if that is due. Returns when it is due again. It
 * takes some milliseconds. */
apr_int64_t vl_database_look(vl_database_t *d, apr_int64_t now_us);
/* Returns how many of the account's sessions wanted a processor when they were last listed, or -1
 * if that is not known. */
int vl_database_runs(vl_database_t *d, apr_uint32_t account);
/* Returns what background threads have used since the last call, ns; 0 while the sessions cannot be
 * seen. It reads that once a second. */
apr_uint64_t vl_database_background(vl_database_t *d, apr_int64_t now_us);

/* Pure; exported for its test. Copies the user in the title of a process of PostgreSQL. Returns 0
 * if it serves no client. */
int vl_database_title_user(const char *title, char *ret_user, size_t size);

#endif
