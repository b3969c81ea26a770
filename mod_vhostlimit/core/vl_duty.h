/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_DUTY_H
#define VL_DUTY_H

/* What the children and the sampler (cost/vl_sampler.h) tell each other about running
 * requests.
 *
 * Each child lists its running requests in a table of tasks: which thread runs which
 * account's request for which client. The sampler is another process. It reads the tables a
 * few times in a second, looks what each thread waits for, and publishes the duty of each
 * account: the part of their time in which its requests want a processor.
 *
 * This file owns, in the segment, the tables and the sampler's state. Only the child writes
 * its table. An entry is valid while its account is not 0; its serial number tells two
 * requests apart. Lock: none for the tables (entries are atomic). vl_duty_publish() takes
 * the segment lock. */

#include <sys/types.h>

#include <apr_errno.h>

#include "base/vl_own.h"

typedef struct vl_shm_t vl_shm_t;

/* Running requests of one child that the sampler can see. Further ones count with the duty
 * of their account. */
#define VL_TASKS_MAX 2048

typedef struct task_t {
    apr_uint32_t account;           /* 1 + the account, and a TASK_ flag; 0: the entry is free */
    apr_uint32_t key;               /* of the connection of a client on this machine (vl_own.h); else 0 */
    apr_uint32_t serial;            /* changes with each request */
    pid_t tid;                      /* the thread */
    int client_fd;                  /* socket of its client, or -1 */
    int paused;                     /* it holds no slot: its thread waits for the client */
    apr_uint32_t load;              /* what a listed request counts, permille of a slot */
    apr_uint32_t charged;           /* ... and what its slot was charged in advance */
} task_t;

/* The request is listed (vl_engage.h); it was, and has been given a slot. */
#define TASK_LISTED 0x40000000u
#define TASK_ADOPTED 0x80000000u
/* ... and it uses no thread of the MPM; it has lost its slot, and its thread is counted. */
#define TASK_STREAM 0x20000000u
#define TASK_DISOWNED 0x10000000u

/* Returns the account of task_t.account. */
static inline apr_uint32_t vl_duty_account(apr_uint32_t word)
{
    return (word & ~(TASK_LISTED | TASK_ADOPTED | TASK_STREAM | TASK_DISOWNED)) - 1;
}

/* What an account was charged for one back end, and its requests there, for the status page. */
#define VL_SPENT_MAX 2048
#define VL_ADDRESS_SIZE 80
typedef struct vl_spent_t {
    apr_uint32_t account;           /* 1 + the account; 0: the entry is free; atomic */
    apr_uint64_t us;                /* atomic */
    apr_int64_t at_us;              /* when it was last charged */
    apr_int64_t queued_us;          /* when the next two were last true: requests wait in its backlog */
    apr_uint32_t serving, waiting;  /* the account's requests that its processes serve; in its backlog */
    char address[VL_ADDRESS_SIZE];
} vl_spent_t;

/* States of the sampler, for the status page. */
typedef enum {
    VL_SAMPLER_NONE,                /* it has not run */
    VL_SAMPLER_RUNS,
    VL_SAMPLER_BLIND                /* it may not read /proc of other processes */
} vl_sampler_e;

/* What the sampler sleeps for besides its time: a request begins; calls are to be looked for; the
 * server becomes engaged, or a listed request begins that may wait for a back end. It does not sleep for
 * VL_UNTIL_HELD_CALLS: a connection that may be a call is queued at a site with a limit of requests. */
typedef enum {
    VL_UNTIL_TIME, VL_UNTIL_BEGIN, VL_UNTIL_CALLS, VL_UNTIL_ENGAGED, VL_UNTIL_HELD_CALLS, VL_UNTIL_COUNT
} vl_until_e;

/* Calls are found by the upper half of their key, which depends on all of the connection. Of two with the same one,
 * the last is known. */
#define VL_CALL_KEYS 65536
/* Calls of one account to one, which may be the same. They are estimated if the server has many requests. */
#define VL_CALLS_MAX 64
typedef struct vl_calls_t {
    apr_uint32_t caller, called;
    apr_uint32_t running, queued;   /* of the called requests */
} vl_calls_t;

typedef struct vl_sampler_state_t {
    vl_sampler_e state;
    apr_int64_t round_at;           /* when it last completed a round, us */
    apr_int64_t woken_at;           /* when a request or the server last woke it, us */
    apr_uint32_t round_us;          /* CPU time of a round, average */
    apr_uint32_t processes;         /* back-end processes that it watches */
    apr_uint32_t unfound;           /* back ends on this machine that no process was found for */
    char unread[VL_ADDRESS_SIZE + 64];  /* a database whose sessions are not seen, and why, or "" */
    apr_uint32_t sleeps;            /* futex: the vl_until_e that it sleeps for, 0 while it works */
    int told[VL_UNTIL_COUNT];       /* see vl_duty_tell(); atomic */
    vl_spent_t spent[VL_SPENT_MAX];
    vl_calls_t calling[VL_CALLS_MAX];   /* in the last round, for the status page */
    apr_uint32_t n_calling;             /* atomic */
    vl_own_more_t callers;          /* addresses of other network namespaces that calls came from */
    apr_uint32_t known_calls;       /* in `calls`; atomic */
    apr_uint64_t calls[VL_CALL_KEYS];   /* by a part of the key: the key, and see vl_duty_call(); atomic */
    apr_uint32_t queued[VL_CALL_KEYS];  /* 1 + account of a queued request of a client on this machine; atomic */
} vl_sampler_state_t;

/* Enters a request that the calling thread runs into entry i of this child's table, or frees
 * the entry. */
void vl_duty_enter(vl_shm_t *shm, apr_uint32_t i, apr_uint32_t account, int client_fd,
                   apr_uint32_t key);
void vl_duty_leave(vl_shm_t *shm, apr_uint32_t i);
/* Entry i is for requests of the calling thread from now on. Returns it, or NULL if there is none. The
 * caller serializes the calls of its child. */
task_t *vl_duty_take(vl_shm_t *shm, apr_uint32_t i);
/* Returns the number of an entry of this child. */
apr_uint32_t vl_duty_number(const vl_shm_t *shm, const task_t *task);
/* Ends the sampler's sleep. */
void vl_duty_wake_sampler(vl_shm_t *shm);
/* Core: entry i of a child, and filling in one of this child. word: task_t.account. Inline, as what
 * each request of a dormant server runs. */
task_t *vl_duty_task(const vl_shm_t *shm, apr_uint32_t child, apr_uint32_t i);
static inline void vl_duty_fill(vl_shm_t *shm, const vl_sampler_state_t *sampler, task_t *task,
                                apr_uint32_t word, int client_fd, apr_uint32_t key)
{
    task->client_fd = client_fd;
    task->key = key;
    __atomic_store_n(&task->paused, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&task->serial, task->serial + 1, __ATOMIC_RELAXED);
    /* These two are ordered. See must_not_sleep(). */
    __atomic_store_n(&task->account, word, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&sampler->sleeps, __ATOMIC_SEQ_CST) == VL_UNTIL_BEGIN)
        vl_duty_wake_sampler(shm);
}
/* Tells the sampler that this has happened, and ends its sleep if it sleeps for it. */
void vl_duty_tell(vl_shm_t *shm, vl_until_e what);
/* The same, of a connection of this machine that is queued at this account. */
void vl_duty_tell_call(vl_shm_t *shm, apr_uint32_t account);
/* Sampler: returns 1 if it was told this since the last call. */
int vl_duty_was_told(vl_shm_t *shm, vl_until_e what);
/* paused: the request of entry i has given its slot back. */
void vl_duty_pause(vl_shm_t *shm, apr_uint32_t i, int paused);

/* The calling thread goes on with a request that was listed, in this entry of its own: it is paused. */
void vl_duty_show_paused(vl_shm_t *shm, task_t *task, apr_uint32_t account, int client_fd);

/* Sampler: calls `see` with a copy of each valid entry. child: its number, i: the entry's. */
typedef void vl_duty_see_fn(void *data, pid_t pid, apr_uint32_t child, apr_uint32_t i,
                            const task_t *task);
void vl_duty_tasks(const vl_shm_t *shm, vl_duty_see_fn *see, void *data);

/* What the sampler knows of one account. */
typedef struct vl_duty_t {
    apr_uint32_t account;
    apr_uint32_t duty;              /* see vl_fair_set_duty() */
    apr_uint32_t asleep, idle;
    apr_uint32_t database_waits;    /* its requests that wait for a database */
    apr_uint32_t awake;             /* see vl_fair_account_t */
} vl_duty_t;

/* Sampler: returns the number of running requests of the account. Takes no lock. */
apr_uint32_t vl_duty_running(const vl_shm_t *shm, apr_uint32_t account);
/* Returns the duty of requests that were seen awake for a part of their time and had a part of a
 * processor each; all in permille. On a crowded processor they are awake for long without having
 * it, and a limit of what is awake would let fewer of them run than can use their share. So what
 * counts is how long they would be awake if VL_AUTO_PER_CPU requests shared the processor. */
apr_uint32_t vl_duty_settled(apr_uint32_t awake, apr_uint32_t cpu);
/* Sampler: returns the CPU time that the account was charged since the start, us. Takes no lock. */
apr_int64_t vl_duty_served_us(const vl_shm_t *shm, apr_uint32_t account);
/* Sampler: returns the account's part by its weight, permille of what all active ones get. Takes no lock. */
apr_uint32_t vl_duty_part(const vl_shm_t *shm, apr_uint32_t account);
/* Sampler: publishes the duties, and the average of all accounts, permille. Dispatches. */
void vl_duty_publish(vl_shm_t *shm, const vl_duty_t *duties, apr_size_t n, apr_uint32_t average);
/* Calls: a running request waits for this server itself, directly or in its back end. The
 * sampler sees it, and notes the key of the connection (vl_own.h) and the caller's account. A call must
 * not wait behind its callers (VL_ASK_CALL), and is charged to the caller.
 * The sampler is told when a connection of this machine is queued (VL_UNTIL_CALLS), and looks soon.
 * vl_duty_note_call(): the sampler has seen one with this key; returns 1 if it is new. caller:
 * the account, or VL_NO_ACCOUNT if several may have called.
 * vl_duty_forget_call(): it does not see it any more.
 * vl_duty_knows_calls(): returns 0 if there is none.
 * vl_duty_call(): returns 0 if no call has this key, VL_CALL_OF_UNKNOWN, or 1 + the caller.
 * vl_duty_note_queued(): a request with this key is queued; VL_NO_ACCOUNT: it is no longer.
 * vl_duty_queued(): returns its account, or VL_NO_ACCOUNT.
 * None takes a lock. */
int vl_duty_note_call(vl_shm_t *shm, apr_uint32_t key, apr_uint32_t caller);
void vl_duty_forget_call(vl_shm_t *shm, apr_uint32_t key);
int vl_duty_knows_calls(const vl_shm_t *shm);
#define VL_CALL_OF_UNKNOWN ((apr_uint32_t)-1)
apr_uint32_t vl_duty_call(const vl_shm_t *shm, apr_uint32_t key);
void vl_duty_note_queued(vl_shm_t *shm, apr_uint32_t key, apr_uint32_t account);
apr_uint32_t vl_duty_queued(const vl_shm_t *shm, apr_uint32_t key);
/* Sampler: adds to what the account was charged for the back end at this address. *entry: where,
 * 0 at first. If there are too many, the oldest is forgotten. */
void vl_duty_spend(vl_shm_t *shm, apr_uint32_t *entry, apr_uint32_t account, const char *address,
                   apr_uint64_t us);
/* Sampler: requests wait in the backlog of this back end: that many of the account, and its processes serve
 * others of it. To be repeated. */
void vl_duty_backlog(vl_shm_t *shm, apr_uint32_t account, const char *address, apr_uint32_t serving,
                     apr_uint32_t waiting);
/* Copies the next entry of the account from *i on, and moves *i behind it. Returns 0 if there is
 * none. */
int vl_duty_spent(const vl_shm_t *shm, apr_uint32_t account, apr_uint32_t *i,
                  vl_spent_t *ret_spent);
/* Sampler: its state, which it writes. Others read it. */
vl_sampler_state_t *vl_duty_sampler(const vl_shm_t *shm);
/* Sampler: sleeps for up to timeout_us (0: without an end). */
void vl_duty_sleep(vl_shm_t *shm, apr_int64_t timeout_us, vl_until_e until);

#endif
