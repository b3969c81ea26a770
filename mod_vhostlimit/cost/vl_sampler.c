/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_sampler.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/vl_clock.h"
#include "base/vl_pages.h"
#include "core/vl_charge.h"
#include "core/vl_slot.h"
#include "core/vl_duty.h"
#include "core/vl_engage.h"
#include "core/vl_fair.h"
#include "cost/vl_backends.h"
#include "cost/vl_proc.h"

/* Time between two rounds. It is ROUND_REST times the CPU time of a round: half a percent. */
#define ROUND_LEAST_US 20000
#define ROUND_MOST_US 250000
#define ROUND_REST 200
/* Requests that are looked at in one round, beginning with another one each time. */
#define LOOKS_MOST 24
/* ... and of paused ones. */
#define PAUSED_LOOKS_MOST 8
/* A request that was never seen awake for this long is asleep. */
#define ASLEEP_US 500000
/* A duty is the average of this many looks at the account's requests. If STREAK looks in a row
 * found them all awake, or all asleep, their kind has changed: older looks are forgotten. */
#define LOOKS_AVERAGE 128
#define STREAK 16
#define CHARGE_US 100000
#define AVERAGE_US 500000
/* A call is forgotten if it was not seen for this long. */
#define CALL_US (1 * APR_USEC_PER_SEC)
/* While connections of this machine are queued, a round comes this soon, or after so many times the
 * CPU time of a round: fewer times at a site with a concurrency, because its callers may be all
 * that it allows, and then wait for the round. Each round that finds no new call doubles the time. */
#define CALLS_LEAST_US 2000
#define CALLS_REST 100
#define HELD_CALLS_REST 20
#define CALLS_MOST 1024
/* An account whose requests are called by others' is looked at after these for so long, and so many calls
 * deep. */
#define CALLED_US (10 * APR_USEC_PER_SEC)
#define CALLS_DEPTH 3
/* Without a running request the sampler sleeps until one begins, or for this long. In a dormant server
 * without paused requests it sleeps without an end then. */
#define IDLE_US (1 * APR_USEC_PER_SEC)
/* Time between two rounds while the server is dormant and no request waits for a back end. */
#define DORMANT_US (1 * APR_USEC_PER_SEC)

/* What is remembered of an entry of the tables of tasks. */
typedef struct seen_t {
    apr_uint32_t serial;
    apr_uint32_t round;             /* in which it was last valid */
    apr_int64_t asleep_us;          /* since when it was not seen awake; 0: it was */
    int looks;                      /* since then */
    int is_queued;                  /* it waits in the backlog of a pool that other sites use too */
    apr_uint32_t key;               /* of the connection of a client on this machine; 0: not known */
    int knows_key;                  /* it was looked up */
    int is_idle;                    /* it waits for no back end, ... */
    int at_client;                  /* ... but for its client */
} seen_t;

typedef struct account_t {
    apr_uint32_t round;             /* of the numbers that follow */
    apr_uint32_t tasks;             /* its entries, without those that are asleep */
    apr_uint32_t looks, runs;       /* of these: looked at, and the sum of what they want, permille */
    apr_uint32_t queues;            /* ... the part of it that is_queued requests have */
    apr_uint32_t asleep, idle;
    apr_uint32_t calls;             /* calls of callers that were not looked at */
    apr_uint32_t databases;         /* of the looks: found it waiting for a database */
    apr_uint32_t duty, queued;      /* averages ... */
    apr_uint32_t known;             /* ... of this many looks */
    int streak;                     /* of looks that found all awake, < 0: all asleep */
    apr_int64_t served_us, served_at_us;    /* charged in all, and when that was read */
    apr_uint32_t cpu;               /* average part of a processor that each request has, permille, ... */
    apr_uint32_t all_cpu;           /* ... and that all of them have */
    apr_int64_t less_us;            /* since when they have far less than they want; 0: they have not */
    apr_int64_t called_us;          /* when a request of another account last called it */
} account_t;

typedef struct entry_t {
    apr_uint32_t child, i;
    pid_t pid;
    task_t task;
    int is_due;                     /* it has not been sampled in this round */
} entry_t;

typedef struct sampler_t {
    vl_shm_t *shm;
    vl_backends_t *backends;
    vl_backends_name_fn *unfound;
    vl_backends_unread_fn *unread;
    apr_uint32_t round;
    apr_int64_t now_us, charged_us;
    seen_t *seen;                   /* VL_TASKS_MAX of each child */
    account_t *accounts;
    apr_uint32_t *active;           /* accounts with entries in this round */
    apr_uint32_t n_active, *before, n_before;
    apr_uint64_t all_cpu;           /* the sum of these accounts', see account_t */
    entry_t *entries;
    apr_uint32_t n_entries, entries_max, n_paused, first, stride, random;
    pid_t *children;
    int n_children;
    vl_duty_t *duties;
    int sees;                       /* the kernel answers questions about sockets */
    apr_int64_t backend_us;         /* when a request last waited for a back end, or began to */
    int denied;                     /* ... but not about other users' processes */
    struct {
        apr_uint32_t key;
        apr_int64_t seen_us;
    } *calls;
    int n_calls, new_calls;
    vl_calls_t calling[VL_CALLS_MAX];
    apr_uint32_t n_calling;
    apr_int64_t calls_wait_us;
} sampler_t;

static apr_int64_t cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (apr_int64_t)now.tv_sec * APR_USEC_PER_SEC + now.tv_nsec / 1000;
}

/* --- the requests ---------------------------------------------------------------- */

static seen_t *seen_of(sampler_t *s, const entry_t *entry)
{
    return &s->seen[(apr_size_t)entry->child * VL_TASKS_MAX + entry->i];
}

static int is_asleep(const sampler_t *s, const seen_t *seen)
{
    return seen->asleep_us && seen->looks > 1 && s->now_us - seen->asleep_us >= ASLEEP_US;
}

static account_t *account_of(sampler_t *s, apr_uint32_t number)
{
    account_t *account = &s->accounts[number];

    if (account->round != s->round) {
        account->round = s->round;
        account->tasks = account->looks = account->runs = account->asleep = account->idle = 0;
        account->databases = account->queues = account->calls = 0;
        s->active[s->n_active++] = number;
    }
    return account;
}

static void note_child(sampler_t *s, pid_t pid)
{
    if (!s->n_children || s->children[s->n_children - 1] != pid)
        s->children[s->n_children++] = pid;
}

/* vl_duty_see_fn */
static void list(void *data, pid_t pid, apr_uint32_t child, apr_uint32_t i, const task_t *task)
{
    sampler_t *s = data;
    entry_t *entry, *more;
    seen_t *seen;

    note_child(s, pid);
    if (s->n_entries == s->entries_max) {
        more = realloc(s->entries, sizeof(*more) * (s->entries_max * 2 + 64));
        if (!more)
            return;
        s->entries = more;
        s->entries_max = s->entries_max * 2 + 64;
    }
    entry = &s->entries[s->n_entries++];
    entry->child = child;
    entry->i = i;
    entry->pid = pid;
    entry->task = *task;
    entry->is_due = !task->paused;
    s->n_paused += (apr_uint32_t)(task->paused != 0);
    seen = seen_of(s, entry);
    if (seen->serial != task->serial || seen->round + 1 != s->round) {
        memset(seen, 0, sizeof(*seen));
        seen->serial = task->serial;
    }
    seen->round = s->round;
}

/* Returns the key of the connection of a client on this machine, or 0. A dormant server does not note it. */
static apr_uint32_t key_of(const sampler_t *s, const entry_t *entry, seen_t *seen)
{
    const task_t *task = &entry->task;
    vl_peer_t peer = { 0 };
    apr_uint64_t inode;
    int is_pipe;

    if (task->key || !s->n_calls || task->client_fd < 0 || !vl_engage_is_dormant(s->shm))
        return task->key;
    if (!seen->knows_key) {
        seen->knows_key = 1;
        inode = vl_proc_inode(entry->pid, task->client_fd, &is_pipe);
        if (inode && !is_pipe && vl_proc_peer(entry->pid, task->client_fd, inode, &peer) == VL_PEER_HERE && peer.port)
            seen->key = vl_proc_key(&peer.ip, peer.port, peer.from_port);
    }
    return seen->key;
}

/* Returns the account whose request waits for this one, or VL_NO_ACCOUNT. */
static apr_uint32_t caller_of(const sampler_t *s, apr_uint32_t key)
{
    apr_uint32_t call = key ? vl_duty_call(s->shm, key) : 0;

    return call && call != VL_CALL_OF_UNKNOWN ? call - 1 : VL_NO_ACCOUNT;
}

/* Returns the part of a processor that the request wants, permille. seen: of the entry; may be a
 * copy. */
static apr_uint32_t look(sampler_t *s, const entry_t *entry, seen_t *seen)
{
    const task_t *task = &entry->task;
    apr_uint32_t caller = caller_of(s, key_of(s, entry, seen));
    apr_uint32_t payer = caller != VL_NO_ACCOUNT ? caller : task->account;
    apr_uint32_t runs, most = 0;
    vl_waits_t waits;
    vl_wait_for_e waits_for;
    int i, has_backend = 0;

    seen->is_idle = seen->at_client = seen->is_queued = 0;
    switch (vl_proc_look(entry->pid, task->tid, &waits)) {
    case VL_PROC_DENIED:
        s->denied = 1;
        return 1000;
    case VL_PROC_GONE:
    case VL_PROC_RUNS:
        return 1000;
    case VL_PROC_WAITS:
        /* The thread may serve another site's request by now. */
        if (__atomic_load_n(&vl_duty_task(s->shm, entry->child, entry->i)->serial, __ATOMIC_RELAXED)
            != task->serial)
            return 1000;
        break;
    }
    for (i = 0; i < waits.n && most < 1000; i++) {
        if (waits.fd[i] == task->client_fd)
            continue;
        waits_for = vl_backends_look(s->backends, payer, entry->pid, task->tid, waits.fd[i], &runs);
        has_backend |= waits_for != VL_WAIT_NOTHING;
        seen->is_queued |= waits_for == VL_WAIT_QUEUED;
        most = runs > most ? runs : most;
    }
    if (waits.is_for_child)
        has_backend = vl_backends_look_program(s->backends, payer, entry->pid, task->tid, &most)
                      != VL_WAIT_NOTHING;
    for (i = 0; i < waits.n; i++)
        seen->at_client |= waits.fd[i] == task->client_fd;
    seen->is_idle = seen->at_client || !has_backend;
    if (has_backend)
        s->backend_us = s->now_us;
    return seen->is_queued ? 1000 : most;
}

static void count_calls(sampler_t *s, apr_uint32_t caller, apr_uint32_t called, apr_uint32_t running, apr_uint32_t queued)
{
    vl_calls_t *calls = s->calling;

    if (caller == VL_NO_ACCOUNT || called == VL_NO_ACCOUNT)
        return;
    while (calls < s->calling + s->n_calling && (calls->caller != caller || calls->called != called))
        calls++;
    if (calls == s->calling + VL_CALLS_MAX)
        return;
    if (calls == s->calling + s->n_calling) {
        *calls = (vl_calls_t){ .caller = caller, .called = called };
        s->n_calling++;
    }
    calls->running += running;
    calls->queued += queued;
}

static void sample(sampler_t *s, const entry_t *entry, int looks)
{
    account_t *account = account_of(s, entry->task.account);
    seen_t *seen = seen_of(s, entry);
    apr_uint32_t runs;

    if (!looks && is_asleep(s, seen)) {
        account->asleep++;
        account->idle += (apr_uint32_t)seen->is_idle;
        return;
    }
    if (!looks) {
        account->tasks++;
        return;
    }
    runs = look(s, entry, seen);
    count_calls(s, caller_of(s, key_of(s, entry, seen)), entry->task.account, s->stride, 0);
    if (runs) {
        seen->asleep_us = 0;
        seen->looks = 0;
    }
    else {
        if (!seen->asleep_us)
            seen->asleep_us = s->now_us;
        seen->looks++;
    }
    if (is_asleep(s, seen)) {
        account->asleep++;
        account->idle += (apr_uint32_t)seen->is_idle;
        if (seen->at_client)
            vl_engage_disown(s->shm, entry->child, entry->i, entry->task.serial);
        return;
    }
    account->tasks++;
    account->databases += (apr_uint32_t)vl_backends_at_database(s->backends);
    account->looks++;
    account->runs += runs;
    account->queues += seen->is_queued ? runs : 0;
}

/* Counts looks of the same result in a row. now: the average of this round's, permille. */
static void count_streak(account_t *account, apr_uint32_t now)
{
    const int looks = (int)account->looks, is_awake = now >= 900, is_asleep = now <= 100;

    if (is_awake && account->streak >= 0)
        account->streak += looks;
    else if (is_asleep && account->streak <= 0)
        account->streak -= looks;
    else
        account->streak = is_awake ? looks : is_asleep ? -looks : 0;
}

static void move_average(apr_uint32_t *average, apr_int64_t now, apr_int64_t passed_us)
{
    *average = (apr_uint32_t)((*average * (AVERAGE_US - passed_us) + now * passed_us) / AVERAGE_US);
}

/* Averages, over the last AVERAGE_US, the part of a processor that each of n requests has. They want
 * `wants`, permille. The kernel's scheduler may starve them: they want twice the account's part of what all
 * sites get, and have less than a quarter of it. Then they count as if they had it. */
static void count_served(sampler_t *s, apr_uint32_t number, account_t *account, apr_uint64_t n,
                         apr_uint64_t wants)
{
    apr_int64_t served_us = vl_duty_served_us(s->shm, number), now;
    apr_int64_t part = (apr_int64_t)s->all_cpu * vl_duty_part(s->shm, number) / 1000;
    apr_int64_t passed_us = s->now_us - account->served_at_us;

    if (account->served_at_us && passed_us > 0 && n) {
        now = (served_us - account->served_us) * 1000 / passed_us;
        if (passed_us > AVERAGE_US)
            passed_us = AVERAGE_US;
        move_average(&account->all_cpu, now < 0 ? 0 : now, passed_us);
        if (account->all_cpu * 4 >= part || wants < (apr_uint64_t)part * 2 || s->denied)
            account->less_us = 0;
        else if (!account->less_us)
            account->less_us = s->now_us;
        else if (s->now_us - account->less_us >= AVERAGE_US && now < part)
            now = part;
        now /= (apr_int64_t)n;
        move_average(&account->cpu, now < 0 ? 0 : now > 1000 ? 1000 : now, passed_us);
    }
    account->served_us = served_us;
    account->served_at_us = s->now_us;
}

/* Computes the account's duty from this round. A request that holds a slot and has no entry
 * yet waits for a thread or for its connection to be taken up, so it wants a processor. */
static void average(sampler_t *s, apr_uint32_t number, account_t *account)
{
    apr_uint32_t running = vl_duty_running(s->shm, number);
    apr_uint32_t listed = account->tasks + account->asleep;
    apr_uint64_t runs, all, now;

    if (!account->looks)
        return;
    all = account->tasks + (running > listed ? running - listed : 0);
    runs = (apr_uint64_t)account->runs * account->tasks / account->looks
           + (all - account->tasks) * 1000;
    now = runs / all;
    count_served(s, number, account, all, runs);
    count_streak(account, (apr_uint32_t)now);
    if (abs(account->streak) >= STREAK && account->known > account->looks)
        account->known = account->looks;
    account->known += account->looks;
    if (account->known > LOOKS_AVERAGE)
        account->known = account->looks < LOOKS_AVERAGE ? LOOKS_AVERAGE : account->looks;
    account->duty = (apr_uint32_t)((account->duty * (apr_uint64_t)(account->known - account->looks)
                                    + now * account->looks) / account->known);
    now = (apr_uint64_t)account->queues * account->tasks / account->looks / all;
    account->queued = (apr_uint32_t)((account->queued * (apr_uint64_t)(account->known - account->looks)
                                      + now * account->looks) / account->known);
}

/* What waits in a shared backlog counts fully: the requests of other sites wait behind it. */
static apr_uint32_t settled(const account_t *account)
{
    return account->queued
           + (1000 - account->queued) * vl_duty_settled(account->duty, account->cpu) / 1000;
}

/* Returns the part of the time in which its requests were awake, of the time in which they were in no shared
 * backlog, permille: what waits there has not slept. 0 if they were always there. */
static apr_uint32_t awake_of(const account_t *account)
{
    return account->duty > account->queued
           ? (account->duty - account->queued) * 1000 / (1000 - account->queued) : 0;
}

static void publish(sampler_t *s)
{
    apr_uint32_t i, n = 0;
    apr_uint64_t sum = 0, tasks = 0, cpu = 0;

    for (i = 0; i < s->n_active; i++) {
        account_t *account = &s->accounts[s->active[i]];

        average(s, s->active[i], account);
        s->duties[n] = (vl_duty_t){
            .account = s->active[i], .duty = settled(account),
            .asleep = account->asleep, .idle = account->idle,
            .database_waits = account->looks ? account->databases * account->tasks / account->looks : 0,
            .awake = s->denied ? 0 : awake_of(account)
        };
        sum += (apr_uint64_t)s->duties[n++].duty * account->tasks;
        tasks += account->tasks;
        cpu += account->all_cpu;
    }
    s->all_cpu = cpu;
    /* Accounts that have no requests any more. */
    for (i = 0; i < s->n_before; i++) {
        account_t *account = &s->accounts[s->before[i]];

        if (account->round != s->round)
            s->duties[n++] = (vl_duty_t){ .account = s->before[i], .duty = settled(account) };
    }
    vl_duty_publish(s->shm, s->duties, n, tasks ? (apr_uint32_t)(sum / tasks) : 0);
    memcpy(s->before, s->active, sizeof(*s->active) * s->n_active);
    s->n_before = s->n_active;
}

/* --- a round --------------------------------------------------------------------- */

/* vl_backends_charge_fn */
static void charge(void *data, apr_uint32_t account, apr_uint64_t us, apr_uint64_t database_us,
                   vl_cost_by_e by, int idle)
{
    sampler_t *s = data;

    vl_charge_backend(s->shm, account, us, database_us, by);
    if (idle)
        vl_charge_backend_idle(s->shm, account);
}

/* vl_backends_spend_fn */
static void spend(void *data, apr_uint32_t *entry, apr_uint32_t account, const char *address,
                  apr_uint64_t us)
{
    vl_duty_spend(((sampler_t *)data)->shm, entry, account, address, us);
}

/* vl_backends_backlog_fn */
static void tell_backlog(void *data, apr_uint32_t account, const char *address, apr_uint32_t serving,
                         apr_uint32_t waiting)
{
    vl_duty_backlog(((sampler_t *)data)->shm, account, address, serving, waiting);
}

/* vl_backends_call_fn */
static void note_call(void *data, apr_uint32_t key, const vl_ip_t *apart, apr_uint32_t account)
{
    sampler_t *s = data;
    struct in6_addr client;
    int i;

    if (apart) {
        client = vl_proc_ip6(apart);
        vl_own_note(&vl_duty_sampler(s->shm)->callers, &client);
    }
    for (i = 0; i < s->n_calls && s->calls[i].key != key; i++)
        ;
    if (i == CALLS_MOST)
        return;
    if (i == s->n_calls)
        s->calls[s->n_calls++].key = key;
    s->calls[i].seen_us = s->now_us;
    s->new_calls |= vl_duty_note_call(s->shm, key, account);
}

/* Samples the entries that are due: those of accounts that other ones have called lately (is_called), or the
 * other ones; of the called ones, those whose caller is known, or the rest. One of so many callers was looked
 * at, so that all of the known calls are looked at, and some of the rest are calls too. Returns how many
 * there were. */
static apr_uint32_t sample_due(sampler_t *s, int is_called, int is_known)
{
    apr_uint32_t i, n = 0;

    for (i = 0; i < s->n_entries; i++) {
        entry_t *entry = &s->entries[i];
        account_t *account = &s->accounts[entry->task.account];
        int looks = (s->first + i) % s->stride == 0;
        apr_uint32_t key;

        if (!entry->is_due || is_called != (account->called_us && s->now_us - account->called_us < CALLED_US))
            continue;
        if (is_called) {
            key = key_of(s, entry, seen_of(s, entry));
            if (is_known != (caller_of(s, key) != VL_NO_ACCOUNT))
                continue;
            account = account_of(s, entry->task.account);
            if (is_known) {
                looks = 1;
                account->calls += s->stride - 1;
            }
            else if (key && account->calls) {
                looks = 0;
                account->calls--;
            }
        }
        entry->is_due = 0;
        sample(s, entry, looks);
        n++;
    }
    vl_backends_calls(s->backends, note_call, s);
    return n;
}

/* Samples all entries, callers before the requests that they wait for: many calls are seen in one round only, and
 * what is looked at then is charged to the caller. A called request may call in turn. */
static void sample_all(sampler_t *s)
{
    apr_uint32_t i;
    int depth;

    s->new_calls = 0;
    (void)sample_due(s, 0, 0);
    for (depth = 0; depth < CALLS_DEPTH && sample_due(s, 1, 1); depth++)
        ;
    (void)sample_due(s, 1, 0);
    for (i = 0; i < s->n_entries && s->n_calls; i++) {
        const entry_t *entry = &s->entries[i];
        apr_uint32_t key = entry->task.key ? entry->task.key : seen_of(s, entry)->key;
        apr_uint32_t caller = caller_of(s, key);

        if (caller != VL_NO_ACCOUNT && caller != entry->task.account)
            s->accounts[entry->task.account].called_us = s->now_us;
    }
}

static void publish_calls(sampler_t *s)
{
    int i;

    vl_backends_calls(s->backends, note_call, s);
    for (i = 0; i < s->n_calls; i++) {
        if (s->now_us - s->calls[i].seen_us < CALL_US)
            continue;
        vl_duty_forget_call(s->shm, s->calls[i].key);
        s->calls[i--] = s->calls[--s->n_calls];
    }
    for (i = 0; i < s->n_calls; i++)
        count_calls(s, caller_of(s, s->calls[i].key), vl_duty_queued(s->shm, s->calls[i].key), 0, 1);
    memcpy(vl_duty_sampler(s->shm)->calling, s->calling, sizeof(*s->calling) * s->n_calling);
    __atomic_store_n(&vl_duty_sampler(s->shm)->n_calling, s->n_calling, __ATOMIC_RELEASE);
    if (s->new_calls) {
        s->calls_wait_us = (apr_int64_t)vl_duty_sampler(s->shm)->round_us
                           * (vl_duty_was_told(s->shm, VL_UNTIL_HELD_CALLS) ? HELD_CALLS_REST : CALLS_REST);
        if (s->calls_wait_us < CALLS_LEAST_US)
            s->calls_wait_us = CALLS_LEAST_US;
        vl_slot_wake_all(s->shm);
    }
    else if (s->calls_wait_us < ROUND_MOST_US) {
        s->calls_wait_us *= 2;
    }
}

/* vl_duty_see_fn: looks at a request that has begun in this round. */
static void look_at_new(void *data, pid_t pid, apr_uint32_t child, apr_uint32_t i,
                        const task_t *task)
{
    sampler_t *s = data;
    const entry_t entry = { child, i, pid, *task };
    const seen_t *seen = seen_of(s, &entry);
    seen_t copy = *seen;

    if (!task->paused && (seen->round != s->round || seen->serial != task->serial)
        && s->first++ % s->stride == 0)
        (void)look(s, &entry, &copy);
}

/* A paused request holds no slot, but its back end may work: that of a WebSocket for one of its messages. It
 * does not keep the sampler awake. */
static void look_at_paused(sampler_t *s)
{
    const apr_int64_t backend_us = s->backend_us;
    apr_uint32_t stride = 1 + s->n_paused / PAUSED_LOOKS_MOST, i, n = s->first;
    seen_t seen;

    if (!s->n_paused)
        return;
    vl_backends_set_paused(s->backends, 1);
    for (i = 0; i < s->n_entries; i++) {
        if (!s->entries[i].task.paused || n++ % stride)
            continue;
        seen = *seen_of(s, &s->entries[i]);
        (void)look(s, &s->entries[i], &seen);
    }
    vl_backends_set_paused(s->backends, 0);
    s->backend_us = backend_us;
}

static void take_round(sampler_t *s)
{
    vl_sampler_state_t *state = vl_duty_sampler(s->shm);

    s->round++;
    s->now_us = vl_clock_us();
    s->n_entries = s->n_paused = s->n_active = s->n_calling = 0;
    s->n_children = s->denied = 0;
    vl_duty_tasks(s->shm, list, s);
    s->stride = 1 + (s->n_entries - s->n_paused) / LOOKS_MOST;
    vl_backends_begin(s->backends, s->now_us, s->children, s->n_children, s->stride);
    s->first++;
    sample_all(s);
    look_at_paused(s);
    publish(s);
    publish_calls(s);
    if (vl_backends_moment(s->backends)) {
        vl_duty_sleep(s->shm, VL_MOMENT_US, VL_UNTIL_TIME);
        vl_duty_tasks(s->shm, look_at_new, s);
        vl_backends_end(s->backends);
    }
    if (s->now_us - s->charged_us >= CHARGE_US) {
        s->charged_us = s->now_us;
        vl_backends_charge(s->backends, s->now_us, charge, spend, s);
        vl_backends_backlogs(s->backends, tell_backlog, s);
        state->processes = vl_backends_processes(s->backends);
        state->unfound = vl_backends_unfound(s->backends, s->unfound);
        vl_backends_unread(s->backends, s->unread, state->unread, sizeof(state->unread));
    }
    state->state = s->denied || !s->sees ? VL_SAMPLER_BLIND : VL_SAMPLER_RUNS;
    state->round_at = s->now_us;
}

static void allocate(sampler_t *s, apr_pool_t *p)
{
    apr_uint32_t accounts = vl_shm_facts(s->shm).capacity, children = vl_shm_facts(s->shm).columns;

    /* Of large blocks, pages that are never written use no memory. */
    s->seen = vl_pages_make(p, (apr_size_t)children * VL_TASKS_MAX, sizeof(*s->seen));
    s->accounts = vl_pages_make(p, accounts, sizeof(*s->accounts));
    s->active = vl_pages_make(p, accounts, sizeof(*s->active));
    s->before = vl_pages_make(p, accounts, sizeof(*s->before));
    s->duties = vl_pages_make(p, (apr_size_t)accounts * 2, sizeof(*s->duties));
    s->children = vl_pages_make(p, children, sizeof(*s->children));
    s->calls = vl_pages_make(p, CALLS_MOST, sizeof(*s->calls));
}

/* Returns 1 if the server is dormant, and its requests wait for no back end. */
static int rests(sampler_t *s)
{
    if (vl_duty_was_told(s->shm, VL_UNTIL_ENGAGED))
        s->backend_us = vl_clock_us();
    return vl_engage_is_dormant(s->shm) && vl_clock_us() - s->backend_us > DORMANT_US;
}

/* Returns between half and one and a half times as much. Pages that wait for a fixed time must
 * not be seen at the same point of their work in each round. */
static apr_int64_t vary(sampler_t *s, apr_int64_t us)
{
    s->random = s->random * 1103515245 + 12345;     /* C11, 7.22.2.2 */
    return us / 2 + us * (s->random >> 16 & 1023) / 1023;
}

/* Sleeps until calls are wanted, or for this long. */
static void sleep_beside_databases(sampler_t *s, apr_int64_t us)
{
    apr_int64_t now_us = vl_clock_us(), left_us, until_us = now_us + us;

    do {
        left_us = vary(s, vl_backends_databases(s->backends, now_us) - now_us);
        now_us = vl_clock_us();
        if (left_us > until_us - now_us)
            left_us = until_us - now_us;
        if (left_us > 0)
            vl_duty_sleep(s->shm, left_us, VL_UNTIL_CALLS);
        left_us += now_us;
        now_us = vl_clock_us();
    } while (now_us < until_us && now_us >= left_us);
}

static void sleep_between(sampler_t *s, apr_int64_t us)
{
    if (rests(s))
        vl_duty_sleep(s->shm, DORMANT_US, VL_UNTIL_ENGAGED);
    if (s->n_entries == s->n_paused) {
        vl_duty_sleep(s->shm, rests(s) && !s->n_paused ? 0 : IDLE_US, VL_UNTIL_BEGIN);
        us = ROUND_LEAST_US;        /* a request has begun: what it does is seen later */
    }
    else if (rests(s)) {
        return;
    }
    if (us > s->calls_wait_us && vl_duty_was_told(s->shm, VL_UNTIL_CALLS)) {
        vl_duty_sleep(s->shm, s->calls_wait_us, VL_UNTIL_TIME);
        return;
    }
    sleep_beside_databases(s, us);
    if (s->calls_wait_us < us && vl_duty_was_told(s->shm, VL_UNTIL_CALLS))
        vl_duty_sleep(s->shm, s->calls_wait_us, VL_UNTIL_TIME);
}

void vl_sampler_run(apr_pool_t *p, const vl_sampler_conf_t *conf)
{
    sampler_t s = { .shm = conf->shm, .unfound = conf->unfound, .unread = conf->unread,
                    .calls_wait_us = CALLS_LEAST_US };
    vl_sampler_state_t *state = vl_duty_sampler(conf->shm);
    struct pollfd stops = { conf->stop_fd, POLLIN, 0 };
    apr_int64_t from_us, used_us, sleep_us;

    s.sees = vl_proc_open();
    s.backends = vl_backends_create(p, conf->server);
    vl_backends_set_sites(s.backends, conf->folder, conf->user);
    vl_backends_set_own(s.backends, conf->own, conf->n_own);
    allocate(&s, p);
    while (poll(&stops, 1, 0) <= 0) {
        from_us = cpu_us();
        take_round(&s);
        used_us = cpu_us() - from_us;
        state->round_us = vl_average(state->round_us, (apr_uint64_t)used_us);
        sleep_us = used_us * ROUND_REST;
        if (sleep_us < ROUND_LEAST_US)
            sleep_us = ROUND_LEAST_US;
        if (sleep_us > ROUND_MOST_US)
            sleep_us = ROUND_MOST_US;
        sleep_between(&s, vary(&s, sleep_us));
    }
    free(s.entries);
}
