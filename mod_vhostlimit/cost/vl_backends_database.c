/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_backends_int.h"

#include <string.h>

/* The same for a database server. Many servers have one for all sites. */
#define DATABASE_SHARES 2048

/* vl_database_clients_t */
static apr_uint32_t owner(void *data, const char *user)
{
    const vl_backends_t *b = ((backend_t *)data)->b;

    return b->user ? b->user(user) : VL_NO_ACCOUNT;
}

static apr_uint32_t whose(void *data, pid_t pid, apr_uint64_t inode)
{
    vl_backends_t *b = ((backend_t *)data)->b;
    const connection_t *connection = apr_hash_get(b->connections, &inode, sizeof(inode));
    const process_t *process;

    if (connection)
        return connection->account;
    process = apr_hash_get(b->by_pid, &pid, sizeof(pid));
    return process && process->backend->n_shares == 1 ? process->backend->shares[0].account
                                                      : VL_NO_ACCOUNT;
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

    vl_backends_table_add(backend->b, backend, pid)->is_background = is_background;
}

static void note_used(void *data, apr_uint32_t account, apr_uint64_t ns, int is_kept)
{
    backend_t *backend = data;
    share_t *share = vl_backends_table_share(backend, account);

    *(is_kept ? &share->own_ns : &share->ns) += ns;
    share->seen_us = backend->b->now_us;
}

/* Looks whether the back end's processes are those of a database server. */
static void know_database(vl_backends_t *b, backend_t *backend)
{
    const vl_database_clients_t clients = { backend, owner, whose, requests_of, note_found, note_used };
    pid_t server;

    if (backend->knows_database || !backend->processes || !vl_proc_cpu_ns(backend->processes->pid))
        return;
    backend->knows_database = 1;
    backend->clients = clients;
    backend->database = vl_database_open(b->pool, backend->processes->pid, &backend->clients,
                                         backend->database);
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
    while (backend->n_parents)
        vl_backends_table_orphan(b, backend, 0);
    (void)vl_backends_table_parent(b, backend, server);
    vl_backends_table_add(b, backend, server);
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

/* A request waits for a database server whose sessions can be seen. inode: of the server's end of its
 * connection, 0 if that is not known. */
vl_wait_for_e vl_backends_database_look(vl_backends_t *b, backend_t *backend, apr_uint32_t account,
                                        apr_uint64_t inode, apr_uint32_t *ret_runs)
{
    share_t *share = vl_backends_table_count(b, backend, account);
    apr_uint32_t users = (share->users > share->users_before ? share->users : share->users_before)
                         * b->stride;
    int runs = vl_database_runs(backend->database, account);

    b->at_database = 1;
    vl_backends_table_use(b, backend, account, VL_COST_PROCESSES);
    if (inode)
        note_connection(b, inode, account);
    *ret_runs = runs < 0 || (apr_uint32_t)runs >= users ? 1000 : (apr_uint32_t)runs * 1000 / users;
    return *ret_runs ? VL_WAIT_RUNS : VL_WAIT_ASLEEP;
}

void vl_backends_database_check(vl_backends_t *b, backend_t *backend)
{
    if (!backend->database || !backend->knows_database || vl_database_pid(backend->database))
        return;
    vl_database_lose(backend->database);
    while (backend->processes)
        vl_backends_table_remove(b, backend, &backend->processes);
    vl_backends_table_part(b, backend, 1);
    while (backend->n_parents)
        vl_backends_table_orphan(b, backend, 0);
    backend->knows_database = 0;
    backend->listener = 0;
}

void vl_backends_database_find(vl_backends_t *b, backend_t *backend, pid_t pid, int fd)
{
    pid_t server;
    int unused;

    if (backend->same)
        backend = backend->same;
    if (backend->processes)
        return;
    /* The process that has called listen(). */
    server = vl_proc_client(pid, fd);
    if (server > 0 && vl_database_server(server, &unused))
        vl_backends_table_add(b, backend, server);
}

/* Notes that a request waits for a database server. Returns 1 if its sessions can be seen. */
int vl_backends_database_ask(vl_backends_t *b, backend_t *backend)
{
    know_database(b, backend);
    if (!backend->database || !backend->knows_database)
        return 0;
    if (!backend->is_asked && b->n_asked < DATABASES) {
        backend->is_asked = 1;
        b->asked[b->n_asked++] = backend;
    }
    vl_database_ask(backend->database);
    return !vl_database_fault(backend->database);
}

apr_int64_t vl_backends_databases(vl_backends_t *b, apr_int64_t now_us)
{
    apr_int64_t at_us, first_us = now_us + APR_USEC_PER_SEC;
    int i;

    for (i = 0; i < b->n_asked; i++) {
        if (!b->asked[i]->knows_database || !b->asked[i]->database)
            continue;
        at_us = vl_database_look(b->asked[i]->database, now_us);
        if (at_us < first_us)
            first_us = at_us;
    }
    return first_us;
}
