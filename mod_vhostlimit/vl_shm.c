/* SPDX-License-Identifier: Apache-2.0 */
/* [ head | account 0 … capacity-1 | child 0 … children-1 | cells ]
 *
 * cells[child][account] is how many requests of the account run in the child;
 * only that child writes it, and the parent once the child is dead.
 *  - metrics.running of an account is the sum of its cells;
 *  - a child with pid 0 has no cell above 0;
 *  - accounts 0 … used-1 have a name, no two the same; the others have none;
 *  - an account is configured if it carries the head's generation.  Others are
 *    kept, and their room is used again when it is short and nothing runs in
 *    them.
 * All of it is guarded by head.lock, a robust mutex: whoever finds its owner
 * dead computes the sums again, because the cells are the truth.  Nothing on
 * the request path makes a system call while it holds the lock. */
#include "vl_shm.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include <apr_hash.h>
#include <apr_shm.h>
#include <apr_strings.h>
#include <apr_time.h>

/* The moving average of a vhost's service time forgets by 1/8 a request, as
 * TCP's smoothed round-trip time does (RFC 6298, alpha). */
#define SERVICE_SHIFT 3

typedef struct account_t {
    char name[VL_NAME_SIZE];
    apr_uint32_t generation;
    vl_limits_t limits;
    vl_metrics_t metrics;
    apr_uint64_t service_us;
} account_t;

typedef struct child_t {
    pid_t pid;                  /* 0: column is free */
} child_t;

typedef struct head_t {
    pthread_mutex_t lock;
    apr_time_t created;
    apr_uint32_t capacity;      /* accounts */
    apr_uint32_t children;
    apr_uint32_t used;          /* accounts with a name */
    apr_uint32_t generation;    /* of the configuration, from 1 */
} head_t;

#define NO_CHILD ((apr_uint32_t)-1)

struct vl_shm_t {
    head_t *head;
    account_t *accounts;
    child_t *children;
    apr_uint32_t *cells;
    apr_uint32_t self;          /* this process's column, or NO_CHILD */
    apr_hash_t *by_name;        /* the parent's; name -> account_t */
    apr_uint32_t spare;         /* the parent's; search for room starts here */
};

static apr_uint32_t *cell_of(vl_shm_t *shm, apr_uint32_t child,
                             apr_uint32_t account)
{
    return &shm->cells[(apr_size_t)child * shm->head->capacity + account];
}

static void sum_cells_locked(vl_shm_t *shm)
{
    apr_uint32_t a, c;

    for (a = 0; a < shm->head->used; a++) {
        apr_uint64_t sum = 0;

        for (c = 0; c < shm->head->children; c++)
            sum += *cell_of(shm, c, a);
        shm->accounts[a].metrics.running = sum;
    }
}

static apr_status_t lock(vl_shm_t *shm)
{
    int err = pthread_mutex_lock(&shm->head->lock);

    if (err == EOWNERDEAD) {
        sum_cells_locked(shm);
        err = pthread_mutex_consistent(&shm->head->lock);
    }
    return err;
}

static void unlock(vl_shm_t *shm)
{
    pthread_mutex_unlock(&shm->head->lock);
}

static apr_status_t lock_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;
    int err = pthread_mutexattr_init(&attr);

    if (err)
        return err;
    err = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (!err)
        err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (!err)
        err = pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return err;
}

apr_status_t vl_shm_post_config_create(apr_pool_t *p, apr_uint32_t accounts,
                                       apr_uint32_t children,
                                       vl_shm_t **ret_shm)
{
    vl_shm_t *shm = apr_palloc(p, sizeof(*shm));
    apr_size_t head_size = APR_ALIGN_DEFAULT(sizeof(head_t));
    apr_size_t accounts_size =
        APR_ALIGN_DEFAULT(sizeof(account_t) * (apr_size_t)accounts);
    apr_size_t children_size =
        APR_ALIGN_DEFAULT(sizeof(child_t) * (apr_size_t)children);
    apr_size_t cells_size =
        sizeof(apr_uint32_t) * (apr_size_t)children * accounts;
    apr_shm_t *segment;
    apr_status_t rv;
    char *base;

    /* Anonymous: pages nobody writes cost nothing, and it cannot be left
     * behind.  The kernel hands it out zeroed. */
    rv = apr_shm_create(&segment, head_size + accounts_size + children_size
                        + cells_size, NULL, p);
    if (rv != APR_SUCCESS)
        return rv;
    base = apr_shm_baseaddr_get(segment);
    shm->head = (head_t *)base;
    shm->accounts = (account_t *)(base + head_size);
    shm->children = (child_t *)(base + head_size + accounts_size);
    shm->cells = (apr_uint32_t *)(base + head_size + accounts_size
                                  + children_size);
    shm->self = NO_CHILD;
    shm->by_name = apr_hash_make(p);
    shm->spare = 0;
    shm->head->capacity = accounts;
    shm->head->children = children;
    shm->head->created = apr_time_now();
    rv = lock_init(&shm->head->lock);
    if (rv != APR_SUCCESS)
        return rv;
    *ret_shm = shm;
    return APR_SUCCESS;
}

void vl_shm_post_config_begin(vl_shm_t *shm)
{
    if (lock(shm) != APR_SUCCESS)
        return;
    shm->head->generation++;
    shm->spare = 0;
    unlock(shm);
}

/* An account that nobody needs any more, or NULL. */
static account_t *account_spare_locked(vl_shm_t *shm)
{
    for (; shm->spare < shm->head->used; shm->spare++) {
        account_t *account = &shm->accounts[shm->spare];

        if (account->generation != shm->head->generation
            && !account->metrics.running) {
            apr_hash_set(shm->by_name, account->name, APR_HASH_KEY_STRING,
                         NULL);
            return account;
        }
    }
    return NULL;
}

static account_t *account_place_locked(vl_shm_t *shm, const char *name)
{
    account_t *account = apr_hash_get(shm->by_name, name, APR_HASH_KEY_STRING);

    if (account)
        return account;
    if (shm->head->used < shm->head->capacity)
        account = &shm->accounts[shm->head->used++];
    else
        account = account_spare_locked(shm);
    if (account) {
        memset(account, 0, sizeof(*account));
        apr_cpystrn(account->name, name, VL_NAME_SIZE);
        apr_hash_set(shm->by_name, account->name, APR_HASH_KEY_STRING,
                     account);
    }
    return account;
}

apr_status_t vl_shm_post_config_account(vl_shm_t *shm, const char *name,
                                        const vl_limits_t *limits,
                                        apr_uint32_t *ret_account)
{
    account_t *account;
    apr_status_t rv;

    if (strlen(name) >= VL_NAME_SIZE)
        return APR_ENAMETOOLONG;
    rv = lock(shm);
    if (rv != APR_SUCCESS)
        return rv;
    account = account_place_locked(shm, name);
    if (account) {
        account->generation = shm->head->generation;
        account->limits = *limits;
        *ret_account = (apr_uint32_t)(account - shm->accounts);
    }
    unlock(shm);
    return account ? APR_SUCCESS : APR_ENOSPC;
}

static apr_uint32_t reclaim_locked(vl_shm_t *shm, apr_uint32_t child)
{
    apr_uint32_t a, left = 0;

    for (a = 0; a < shm->head->used; a++) {
        apr_uint32_t *cell = cell_of(shm, child, a);

        left += *cell;
        shm->accounts[a].metrics.running -= *cell;
        *cell = 0;
    }
    shm->children[child].pid = 0;
    return left;
}

apr_status_t vl_shm_child_attach(vl_shm_t *shm, pid_t pid)
{
    apr_status_t rv = lock(shm);
    apr_uint32_t c, found = NO_CHILD;

    if (rv != APR_SUCCESS)
        return rv;
    for (c = 0; c < shm->head->children && found == NO_CHILD; c++) {
        pid_t owner = shm->children[c].pid;

        /* A child may be replaced before the parent has heard of its death,
         * and its number may be ours now. */
        if (owner && (owner == pid || (kill(owner, 0) && errno == ESRCH)))
            reclaim_locked(shm, c);
        if (!shm->children[c].pid)
            found = c;
    }
    if (found != NO_CHILD)
        shm->children[found].pid = pid;
    shm->self = found;
    unlock(shm);
    return found == NO_CHILD ? APR_ENOSPC : APR_SUCCESS;
}

apr_uint32_t vl_shm_parent_reclaim(vl_shm_t *shm, pid_t pid)
{
    apr_uint32_t c, left = 0;

    if (lock(shm) != APR_SUCCESS)
        return 0;
    for (c = 0; c < shm->head->children; c++) {
        if (shm->children[c].pid == pid)
            left += reclaim_locked(shm, c);
    }
    unlock(shm);
    return left;
}

apr_status_t vl_shm_req_enter(vl_shm_t *shm, apr_uint32_t account,
                              vl_admission_t *ret_admission)
{
    account_t *a = &shm->accounts[account];
    vl_admission_t adm;
    apr_status_t rv;

    if (shm->self == NO_CHILD)
        return APR_EINIT;
    rv = lock(shm);
    if (rv != APR_SUCCESS)
        return rv;
    adm.decision = vl_admit_decide(&a->limits, a->metrics.running);
    adm.entered = 1;
    adm.concurrency = a->limits.concurrency;
    adm.service_us = a->service_us;
    if (adm.decision.verdict == VL_REFUSE) {
        if (a->limits.mode == VL_MODE_DRYRUN) {
            a->metrics.would_refuse++;
        }
        else {
            a->metrics.refused++;
            adm.entered = 0;
        }
    }
    if (adm.entered) {
        ++*cell_of(shm, shm->self, account);
        a->metrics.running++;
        a->metrics.requests++;
    }
    unlock(shm);
    *ret_admission = adm;
    return APR_SUCCESS;
}

void vl_shm_req_leave(vl_shm_t *shm, apr_uint32_t account,
                      apr_uint64_t busy_us, apr_uint64_t cpu_us)
{
    account_t *a = &shm->accounts[account];

    if (lock(shm) != APR_SUCCESS)
        return;
    --*cell_of(shm, shm->self, account);
    a->metrics.running--;
    a->metrics.busy_us += busy_us;
    a->metrics.cpu_us += cpu_us;
    a->service_us += (busy_us >> SERVICE_SHIFT)
                     - (a->service_us >> SERVICE_SHIFT);
    unlock(shm);
}

apr_status_t vl_shm_snapshot(vl_shm_t *shm, apr_uint32_t account,
                             vl_account_snapshot_t *ret_snapshot)
{
    account_t *a = &shm->accounts[account];
    apr_status_t rv = lock(shm);

    if (rv != APR_SUCCESS)
        return rv;
    memcpy(ret_snapshot->name, a->name, VL_NAME_SIZE);
    ret_snapshot->limits = a->limits;
    ret_snapshot->metrics = a->metrics;
    ret_snapshot->service_us = a->service_us;
    unlock(shm);
    return APR_SUCCESS;
}

apr_uint32_t vl_shm_children(vl_shm_t *shm)
{
    apr_uint32_t c, alive = 0;

    if (lock(shm) != APR_SUCCESS)
        return 0;
    for (c = 0; c < shm->head->children; c++)
        alive += shm->children[c].pid != 0;
    unlock(shm);
    return alive;
}

apr_int64_t vl_shm_created_us(const vl_shm_t *shm)
{
    return shm->head->created;
}

static const char *validate_locked(const vl_shm_t *shm)
{
    const head_t *head = shm->head;
    apr_uint32_t a, b, c;

    if (head->used > head->capacity)
        return "more accounts used than there are";
    for (a = 0; a < head->capacity; a++) {
        const account_t *account = &shm->accounts[a];
        apr_uint64_t sum = 0;

        if ((a < head->used) != (account->name[0] != '\0'))
            return "accounts 0 to used-1 have a name, the others none";
        for (b = 0; b < a && a < head->used; b++) {
            if (!strcmp(shm->accounts[b].name, account->name))
                return "no two accounts of one name";
        }
        for (c = 0; c < head->children; c++) {
            apr_uint32_t cell = shm->cells[(apr_size_t)c * head->capacity + a];

            if (cell && !shm->children[c].pid)
                return "a free column has no cell above 0";
            sum += cell;
        }
        if (sum != account->metrics.running)
            return "running is the sum of the cells";
    }
    return NULL;
}

const char *vl_shm_validate(vl_shm_t *shm)
{
    const char *why;

    if (lock(shm) != APR_SUCCESS)
        return "the lock cannot be taken";
    why = validate_locked(shm);
    unlock(shm);
    return why;
}
