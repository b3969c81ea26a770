/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_backends_int.h"

#include <string.h>

#include <apr_strings.h>

/* Accounts that share a back end. Further ones take the place of the one that was seen
 * longest ago. */
#define SHARES 64
/* What a process that is found has used is charged if it is younger and that is less: it was
 * started for the requests that wait. More would be a debt of seconds after a restart. */
#define YOUNG_US (3 * APR_USEC_PER_SEC)
#define YOUNG_NS 100000000
/* Programs, and those that they have started. */
#define GENERATIONS 3

/* Returns a number that need not be unpredictable (xorshift32, Marsaglia 2003). */
apr_uint32_t vl_backends_table_random(vl_backends_t *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 17;
    b->random ^= b->random << 5;
    return b->random;
}

backend_t *vl_backends_table_get(vl_backends_t *b, const char *name)
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
    found->seen_us = b->now_us;
    apr_hash_set(b->by_name, found->name, APR_HASH_KEY_STRING, found);
    return found;
}

user_t *vl_backends_table_user(vl_backends_t *b, apr_uint32_t account)
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

share_t *vl_backends_table_share(backend_t *backend, apr_uint32_t account)
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

parent_t *vl_backends_table_parent(vl_backends_t *b, backend_t *backend, pid_t pid)
{
    apr_uint64_t children_ns;
    parent_t *parent;
    int i;

    for (i = 0; i < backend->n_parents; i++) {
        if (backend->parent[i]->pid == pid)
            return backend->parent[i];
    }
    /* The CPU time of children of process 1, or of Apache's parent, is not the back end's. All of a
     * database are of its first process. */
    if (pid <= 1 || pid == b->server || backend->n_parents == (backend->database ? 1 : PARENTS)
        || !vl_proc_parent(pid, &children_ns))
        return NULL;
    parent = apr_hash_get(b->parents, &pid, sizeof(pid));
    if (!parent) {
        parent = b->free_parents;
        if (parent)
            b->free_parents = parent->next;
        else
            parent = apr_palloc(b->pool, sizeof(*parent));
        memset(parent, 0, sizeof(*parent));
        parent->pid = pid;
        parent->hint = -1;
        parent->children_ns = children_ns;
        apr_hash_set(b->parents, &parent->pid, sizeof(parent->pid), parent);
    }
    parent->backends++;
    backend->weight[backend->n_parents] = 0;
    backend->most_ns[backend->n_parents] = 0;
    return backend->parent[backend->n_parents++] = parent;
}

/* The i-th parent of the back end is none any more. */
void vl_backends_table_orphan(vl_backends_t *b, backend_t *backend, int i)
{
    parent_t *parent = backend->parent[i];
    const int last = --backend->n_parents;
    process_t *process;

    for (process = backend->processes; process; process = process->next) {
        if (process->parent == parent)
            process->parent = NULL;
    }
    backend->parent[i] = backend->parent[last];
    backend->weight[i] = backend->weight[last];
    backend->most_ns[i] = backend->most_ns[last];
    if (--parent->backends)
        return;
    apr_hash_set(b->parents, &parent->pid, sizeof(parent->pid), NULL);
    parent->next = b->free_parents;
    b->free_parents = parent;
}

process_t *vl_backends_table_add(vl_backends_t *b, backend_t *backend, pid_t pid)
{
    process_t *process = apr_hash_get(b->by_pid, &pid, sizeof(pid));
    edges_t *edges;

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
    process->listen_fd = -1;
    process->since_us = b->now_us;
    process->account = VL_NO_ACCOUNT;
    process->backend = backend;
    process->cpu_ns = vl_proc_cpu_ns(pid);
    if (process->cpu_ns < YOUNG_NS && vl_proc_age_us(pid) < YOUNG_US)
        process->cpu_ns = 0;
    process->next = backend->processes;
    backend->processes = process;
    backend->n_processes++;
    b->processes++;
    apr_hash_set(b->by_pid, &process->pid, sizeof(process->pid), process);
    process->parent = vl_backends_table_parent(b, backend, vl_proc_parent(pid, &process->programs_ns));
    return process;
}

void vl_backends_table_remove(vl_backends_t *b, backend_t *backend, process_t **at)
{
    process_t *process = *at;

    *at = process->next;
    backend->n_processes--;
    apr_hash_set(b->by_pid, &process->pid, sizeof(process->pid), NULL);
    b->processes--;
    process->next = b->free;
    b->free = process;
}

void vl_backends_table_part(vl_backends_t *b, const backend_t *backend, int is_lost)
{
    apr_hash_index_t *i;
    backend_t *other;

    for (i = apr_hash_first(b->scratch, b->by_name); i; i = apr_hash_next(i)) {
        other = apr_hash_this_val(i);
        if (other->same != backend && (!is_lost || other->processes || other->is_remote))
            continue;
        if (other->same)
            other->listener = 0;
        other->same = NULL;
        other->scan_us = 0;
        other->scan_wait_us = SCAN_LEAST_US;
        other->is_lost = is_lost;
    }
}

void vl_backends_table_hint(vl_backends_t *b, backend_t *backend, int fd)
{
    int i;

    for (i = 0; i < backend->n_parents; i++)
        backend->parent[i]->hint = fd;
    for (i = 0; i < backend->hints; i++) {
        if (backend->hint[i] == fd)
            return;
    }
    if (i == HINTS)
        i = (int)(vl_backends_table_random(b) % HINTS);
    else
        backend->hints++;
    backend->hint[i] = fd;
    backend->hint_changes++;
}

int vl_backends_table_is_parent(const process_t *process)
{
    const backend_t *backend = process->backend;
    int i;

    for (i = 0; i < backend->n_parents && backend->parent[i]->pid != process->pid; i++)
        ;
    return i < backend->n_parents || process->is_program != backend->forks;
}

int vl_backends_table_may_start(process_t *process)
{
    process->has_workers |= vl_backends_table_is_parent(process)
                            || apr_hash_get(process->backend->b->parents, &process->pid, sizeof(process->pid));
    return !process->has_workers;
}

apr_uint64_t vl_backends_table_programs(process_t *process, int *ret_run)
{
    *ret_run = 0;
    return vl_backends_table_may_start(process) ? vl_proc_programs_ns(process->pid, GENERATIONS, ret_run) : 0;
}

apr_uint64_t vl_backends_table_ns(process_t *process)
{
    int run;

    return vl_proc_cpu_ns(process->pid)
           + (process->backend->has_programs ? vl_backends_table_programs(process, &run) : 0);
}

void vl_backends_table_use(vl_backends_t *b, backend_t *backend, apr_uint32_t account,
                           vl_cost_by_e by)
{
    share_t *share = vl_backends_table_share(backend, account);
    user_t *user = vl_backends_table_user(b, account);
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

share_t *vl_backends_table_count(const vl_backends_t *b, backend_t *backend, apr_uint32_t account)
{
    share_t *share = vl_backends_table_share(backend, account);

    if (share->round != b->round) {
        share->users_before = share->round + 1 == b->round ? share->users : 0;
        share->users = 0;
        share->round = b->round;
    }
    share->users += !b->is_paused;
    return share;
}
