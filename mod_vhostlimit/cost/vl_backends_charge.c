/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_backends_int.h"

/* CPU time of back ends that no request was seen to wait for lately is read less often. */
#define READ_US 300000
#define UNUSED_READ_US (1 * APR_USEC_PER_SEC)
/* What a database has used in a longer time without a reading is no account's: it may be a backup. */
#define PAUSED_US (2 * UNUSED_READ_US)
/* A database that has used this part of a processor works. */
#define BUSY_PART 20
/* An account is charged until this long after its last use of a back end. */
#define ACCOUNT_US (10 * APR_USEC_PER_SEC)
/* One of so many readings of a process with threads looks whether a program of it has ended. */
#define SEES_END 8
/* CPU time is kept for this long if no sample says whose it is. */
#define OWED_MOST_US (2 * APR_USEC_PER_SEC)

/* Returns 1 if a parent has waited for processes, which may be the back end's. */
static int has_ended_children(const backend_t *backend)
{
    int i;

    for (i = 0; i < backend->n_parents && !backend->parent[i]->more_ns; i++)
        ;
    return i < backend->n_parents;
}

/* A process of the back end is gone. */
static void note_gone(backend_t *backend, const process_t *process)
{
    parent_t *parent = process->parent;
    int i;

    backend->has_gone = 1;
    if (!parent || backend->estimates)
        return;
    for (i = 0; backend->parent[i] != parent; i++)
        ;
    backend->most_ns[i] += (apr_uint64_t)backend->passed_us * 1000
                           * (apr_uint64_t)(process->threads > 1 ? process->threads : 1);
    backend->weight[i] += backend->pace + 1;
    parent->weights += backend->pace + 1;
    parent->gone_ns += process->cpu_ns + (process->is_program ? 0 : process->programs_ns);
}

/* Returns what programs of the process have used since the last reading. Their end makes the process
 * run, so one that has not run and had no program has nothing new. ns: its own CPU time. The kernel
 * counts in clock ticks what ended ones have used, so the sum may become less for a moment. */
static apr_uint64_t read_programs(process_t *process, apr_uint64_t ns)
{
    apr_uint64_t ended_ns, live_ns, used;
    int run;

    if (ns == process->cpu_ns && !process->programs_live)
        return 0;
    if (!process->backend->has_programs) {
        /* Which thread waits for a program is not always seen, but that one has ended. */
        if (process->threads < 2 || vl_backends_table_random(process->backend->b) % SEES_END
            || !vl_backends_table_may_start(process))
            return 0;
        (void)vl_proc_parent(process->pid, &ended_ns);
        if (ended_ns == process->programs_ns)
            return 0;
        process->backend->has_programs = 1;
    }
    if (!vl_backends_table_may_start(process))
        return 0;
    live_ns = vl_backends_table_programs(process, &run);
    process->programs_live = live_ns > 0;
    (void)vl_proc_parent(process->pid, &ended_ns);
    used = ended_ns + live_ns;
    used = used > process->programs_ns ? used - process->programs_ns : 0;
    process->programs_ns += used;
    return used;
}

/* Returns 1 if the process was found by a listening socket of its parent, which it has closed since. */
static int has_left(const vl_backends_t *b, process_t *process)
{
    if (process->listen_fd < 0 || !process->since_us || b->now_us - process->since_us < INHERITED_US)
        return 0;
    process->since_us = 0;
    return !vl_backends_find_listens(process->pid, process->listen_fd, process->backend->listener);
}

/* Reads what the back end's processes have used since the last reading. */
static void read_cpu(vl_backends_t *b, backend_t *backend)
{
    process_t **at = &backend->processes, *ran = NULL;
    apr_uint64_t ns;
    const int n = backend->n_processes;

    backend->passed_us = backend->read_us ? b->now_us - backend->read_us : 0;
    backend->read_us = b->now_us;
    backend->used_ns = 0;
    while (*at) {
        process_t *process = *at;

        ns = vl_proc_cpu_ns(process->pid);
        if (!ns)
            note_gone(backend, process);
        if (!ns || has_left(b, process)) {
            vl_backends_table_remove(b, backend, at);
            continue;
        }
        if (!process->is_program)
            backend->used_ns += read_programs(process, ns);
        if (ns > process->cpu_ns && !(backend->estimates && process->is_program)
            && !process->is_background)
            backend->used_ns += ns - process->cpu_ns;
        if (ns > process->cpu_ns && (!ran || vl_backends_table_random(b) % 4 == 0))
            ran = process;
        process->cpu_ns = ns;
        at = &process->next;
    }
    if (ran)
        vl_backends_look_after(b, backend, ran);
    if (n && backend->passed_us > 0)
        backend->pace = vl_average(backend->pace, backend->used_ns
                                                  / (apr_uint64_t)(backend->passed_us * n));
}

/* Adds what processes have used between the last reading and their end: the parent's count, less what
 * was read. Back ends of one parent divide it as the number of these processes, and as what theirs use. The
 * parent may have further children, so it is at most what the processes can have used. */
static void settle(vl_backends_t *b, backend_t *backend)
{
    apr_uint64_t ns, waited_ns = 0, used = backend->used_ns;
    int i;

    for (i = 0; i < backend->n_parents; i++) {
        const parent_t *parent = backend->parent[i];

        if (parent->is_gone) {
            vl_backends_table_orphan(b, backend, i--);
            continue;
        }
        waited_ns += parent->children_ns;
        if (parent->more_ns < parent->gone_ns)
            continue;
        ns = parent->more_ns - parent->gone_ns;
        if (!backend->forks && !backend->database) {
            ns = parent->weights ? ns * backend->weight[i] / parent->weights : 0;
            ns = ns < backend->most_ns[i] ? ns : backend->most_ns[i];
        }
        used += ns;
        backend->weight[i] = backend->most_ns[i] = 0;
    }
    backend->estimates = backend->forks && (backend->has_gone || backend->estimates) && !waited_ns;
    backend->has_gone = 0;
    if (backend->database) {
        backend->background_ns += vl_database_background(backend->database, b->now_us);
        ns = backend->background_ns < used ? backend->background_ns : used;
        backend->background_ns -= ns;
        used -= ns;
        if (backend->passed_us > PAUSED_US)
            used = 0;
        if (used / 1000 * BUSY_PART > (apr_uint64_t)backend->passed_us)
            backend->busy_us = b->now_us;
    }
    if (backend->owed_ns <= 0)
        backend->owed_since_us = b->now_us;
    backend->owed_ns += (apr_int64_t)used;
}

/* Divides the CPU time between the accounts, and forgets those that do not use the back end any more. */
static void divide(vl_backends_t *b, backend_t *backend, vl_backends_spend_fn *spend, void *data)
{
    const char *name = backend->is_pipe ? "CGI programs" : backend->is_left ? "background programs" : backend->name;
    apr_uint64_t sum = 0, rest = 0, part;
    share_t *last = backend->shares;
    user_t *user;
    /* No request waits for the database: what its sessions do not show is no account's. */
    const int is_left = backend->database && b->now_us - backend->seen_us > USED_US;
    int i;

    for (i = 0; i < backend->n_shares; i++) {
        if (is_left && b->now_us - backend->shares[i].seen_us > USED_US)
            backend->shares[i].ns = 0;
        sum += backend->shares[i].ns;
        backend->owed_ns -= (apr_int64_t)backend->shares[i].own_ns;
        if (backend->shares[i].account != VL_NO_ACCOUNT
            && (last->account == VL_NO_ACCOUNT || backend->shares[i].seen_us > last->seen_us))
            last = &backend->shares[i];
    }
    if (backend->owed_ns > 0 && (backend->n_shares < 2 || sum || is_left
                                 || b->now_us - backend->owed_since_us >= OWED_MOST_US)) {
        rest = is_left && !sum ? 0 : (apr_uint64_t)backend->owed_ns;
        backend->owed_ns = 0;
    }
    for (i = 0; i < backend->n_shares; i++) {
        share_t *share = &backend->shares[i];

        part = sum ? (apr_uint64_t)((double)rest * (double)share->ns / (double)sum)
                   : share == last ? rest : 0;
        part += share->own_ns;
        share->own_ns = 0;
        if (part && share->account != VL_NO_ACCOUNT) {
            user = vl_backends_table_user(b, share->account);
            user->ns += part;
            user->database_ns += backend->database ? part : 0;
            share->spent_ns += part;
            if (user->seen_us < backend->seen_us)
                user->seen_us = backend->seen_us;
            if (share->spent_ns >= 1000)
                spend(data, &share->entry, share->account, name, share->spent_ns / 1000);
            share->spent_ns %= 1000;
        }
        share->ns -= rest ? share->ns / KEEP : 0;
    }
    for (i = 0; i < backend->n_shares; i++) {
        if (b->now_us - backend->shares[i].seen_us > FORGET_US
            && b->now_us - backend->shares[i].queued_us > FORGET_US && backend->n_shares > 1)
            backend->shares[i--] = backend->shares[--backend->n_shares];
    }
}

static void forget_backend(vl_backends_t *b, backend_t *backend)
{
    apr_hash_index_t *i;
    user_t *user;

    for (i = apr_hash_first(b->scratch, b->users); i; i = apr_hash_next(i)) {
        user = apr_hash_this_val(i);
        if (user->last == backend)
            user->last = NULL;
    }
    vl_backends_table_part(b, backend, 0);
    if (backend->database)
        vl_database_close(backend->database);
    apr_pool_clear(b->scratch);
    while (backend->n_parents)
        vl_backends_table_orphan(b, backend, 0);
    while (backend->processes)
        vl_backends_table_remove(b, backend, &backend->processes);
    apr_hash_set(b->by_name, backend->name, APR_HASH_KEY_STRING, NULL);
    backend->next = b->free_backends;
    b->free_backends = backend;
}

void vl_backends_charge(vl_backends_t *b, apr_int64_t now_us, vl_backends_charge_fn *charge,
                        vl_backends_spend_fn *spend, void *data)
{
    apr_hash_index_t *i;
    backend_t *backend;
    parent_t *parent;
    apr_uint64_t ns;
    user_t *user;
    int idle;

    b->now_us = now_us;
    vl_backends_find_left(b);
    /* What ended children of all parents have used. */
    for (i = apr_hash_first(NULL, b->parents); i; i = apr_hash_next(i)) {
        parent = apr_hash_this_val(i);
        parent->is_gone = !vl_proc_parent(parent->pid, &ns);
        parent->more_ns = ns > parent->children_ns ? ns - parent->children_ns : 0;
        parent->children_ns = ns;
    }
    for (i = apr_hash_first(NULL, b->by_name); i; i = apr_hash_next(i)) {
        backend = apr_hash_this_val(i);
        if (now_us - backend->seen_us <= READ_US || now_us - backend->read_us >= UNUSED_READ_US
            || has_ended_children(backend))
            read_cpu(b, backend);
    }
    for (i = apr_hash_first(NULL, b->by_name); i; i = apr_hash_next(i)) {
        backend = apr_hash_this_val(i);
        if (backend->read_us != now_us)
            continue;
        settle(b, backend);
        vl_backends_database_check(b, backend);
        divide(b, backend, spend, data);
        if (now_us - backend->seen_us > FORGET_US)
            forget_backend(b, backend);
    }
    /* What the parents have told is given to back ends by now. */
    for (i = apr_hash_first(NULL, b->parents); i; i = apr_hash_next(i)) {
        parent = apr_hash_this_val(i);
        parent->gone_ns -= parent->more_ns < parent->gone_ns ? parent->more_ns : parent->gone_ns;
        if (!parent->gone_ns)
            parent->weights = 0;
    }
    for (i = apr_hash_first(NULL, b->users); i; i = apr_hash_next(i)) {
        user = apr_hash_this_val(i);
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
