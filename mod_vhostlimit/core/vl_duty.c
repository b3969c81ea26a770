/* SPDX-License-Identifier: Apache-2.0 */
#include "core/vl_duty.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <apr_strings.h>

#include "base/vl_clock.h"
#include "core/vl_slot.h"
#include "core/vl_segment.h"

/* That requests wait in a backlog is true for this long. The sampler rests less while they do. */
#define BACKLOG_US (1 * APR_USEC_PER_SEC)

task_t *vl_duty_task(const vl_shm_t *shm, apr_uint32_t child, apr_uint32_t i)
{
    return &shm->tasks[(apr_size_t)child * VL_TASKS_MAX + i];
}

static long futex(apr_uint32_t *word, int op, apr_uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

void vl_duty_wake_sampler(vl_shm_t *shm)
{
    apr_uint32_t *sleeps = &shm->sampler->sleeps;

    if (!__atomic_load_n(sleeps, __ATOMIC_RELAXED))
        return;
    shm->sampler->woken_at = vl_clock_us();
    if (__atomic_exchange_n(sleeps, 0, __ATOMIC_ACQ_REL))
        futex(sleeps, FUTEX_WAKE, 1, NULL);
}

void vl_duty_enter(vl_shm_t *shm, apr_uint32_t i, apr_uint32_t account, int client_fd,
                   apr_uint32_t key)
{
    task_t *task = vl_duty_take(shm, i);

    if (task)
        vl_duty_fill(shm, shm->sampler, task, account + 1, client_fd, key);
}

task_t *vl_duty_take(vl_shm_t *shm, apr_uint32_t i)
{
    static __thread pid_t tid;
    task_t *task;

    if (shm->self == NO_CHILD || i >= VL_TASKS_MAX)
        return NULL;
    if (!tid)
        tid = (pid_t)syscall(SYS_gettid);
    task = vl_duty_task(shm, shm->self, i);
    task->tid = tid;
    if (i >= shm->children[shm->self].tasks)
        __atomic_store_n(&shm->children[shm->self].tasks, i + 1, __ATOMIC_RELEASE);
    return task;
}

apr_uint32_t vl_duty_number(const vl_shm_t *shm, const task_t *task)
{
    return (apr_uint32_t)(task - vl_duty_task(shm, shm->self, 0));
}

void vl_duty_leave(vl_shm_t *shm, apr_uint32_t i)
{
    if (shm->self != NO_CHILD && i < VL_TASKS_MAX)
        __atomic_store_n(&vl_duty_task(shm, shm->self, i)->account, 0, __ATOMIC_RELEASE);
}

void vl_duty_pause(vl_shm_t *shm, apr_uint32_t i, int paused)
{
    if (shm->self != NO_CHILD && i < VL_TASKS_MAX)
        __atomic_store_n(&vl_duty_task(shm, shm->self, i)->paused, paused, __ATOMIC_RELAXED);
}

void vl_duty_show_paused(vl_shm_t *shm, task_t *task, apr_uint32_t account, int client_fd)
{
    vl_duty_fill(shm, shm->sampler, task, account + 1, client_fd, 0);
    __atomic_store_n(&task->paused, 1, __ATOMIC_RELAXED);
}

void vl_duty_tasks(const vl_shm_t *shm, vl_duty_see_fn *see, void *data)
{
    apr_uint32_t c, i;

    for (c = 0; c < shm->head->columns; c++) {
        pid_t pid = __atomic_load_n(&shm->children[c].pid, __ATOMIC_RELAXED);
        apr_uint32_t n = __atomic_load_n(&shm->children[c].tasks, __ATOMIC_ACQUIRE);

        for (i = 0; pid && i < n; i++) {
            const task_t *task = vl_duty_task(shm, c, i);
            task_t copy = { .account = __atomic_load_n(&task->account, __ATOMIC_ACQUIRE) };

            if (!copy.account)
                continue;
            copy.paused = __atomic_load_n(&task->paused, __ATOMIC_RELAXED);
            copy.account = vl_duty_account(copy.account);
            copy.serial = __atomic_load_n(&task->serial, __ATOMIC_RELAXED);
            copy.tid = task->tid;
            copy.client_fd = task->client_fd;
            copy.key = task->key;
            see(data, pid, c, i, &copy);
        }
    }
}

apr_uint32_t vl_duty_running(const vl_shm_t *shm, apr_uint32_t account)
{
    return __atomic_load_n(&shm->queue.accounts[account].running, __ATOMIC_RELAXED);
}

apr_uint32_t vl_duty_settled(apr_uint32_t awake, apr_uint32_t cpu)
{
    apr_uint32_t wants = cpu * VL_AUTO_PER_CPU, duty;

    if (awake >= 1000)
        return 1000;
    duty = wants * 1000 / (wants + 1000 - awake);
    if (duty > awake)
        duty = awake;
    return duty > VL_DUTY_MIN ? duty : VL_DUTY_MIN;
}

apr_int64_t vl_duty_served_us(const vl_shm_t *shm, apr_uint32_t account)
{
    return __atomic_load_n(&shm->queue.accounts[account].served_us, __ATOMIC_RELAXED);
}

apr_uint32_t vl_duty_part(const vl_shm_t *shm, apr_uint32_t account)
{
    apr_uint64_t all = __atomic_load_n(&shm->head->queue.active_milli, __ATOMIC_RELAXED);
    apr_uint32_t milli = __atomic_load_n(&shm->queue.accounts[account].active_milli, __ATOMIC_RELAXED);

    return all > milli ? (apr_uint32_t)(milli * 1000ULL / all) : 1000;
}

void vl_duty_publish(vl_shm_t *shm, const vl_duty_t *duties, apr_size_t n, apr_uint32_t average)
{
    apr_size_t i;

    if (vl_segment_lock(shm) != APR_SUCCESS)
        return;
    shm->head->queue.duty = average;
    for (i = 0; i < n; i++) {
        vl_fair_set_duty(&shm->queue, duties[i].account, duties[i].duty, duties[i].asleep,
                          duties[i].idle);
        shm->queue.accounts[duties[i].account].awake = duties[i].awake;
        shm->accounts[duties[i].account].database_waits = duties[i].database_waits;
    }
    vl_slot_dispatch_and_unlock(shm);
}

vl_sampler_state_t *vl_duty_sampler(const vl_shm_t *shm)
{
    return shm->sampler;
}

void vl_duty_tell(vl_shm_t *shm, vl_until_e what)
{
    int *told = &shm->sampler->told[what];

    if (!__atomic_load_n(told, __ATOMIC_RELAXED))
        __atomic_store_n(told, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&shm->sampler->sleeps, __ATOMIC_SEQ_CST) == what)
        vl_duty_wake_sampler(shm);
}

void vl_duty_tell_call(vl_shm_t *shm, apr_uint32_t account)
{
    vl_duty_tell(shm, VL_UNTIL_CALLS);
    if (vl_fair_limits(&shm->queue, account).concurrency)
        vl_duty_tell(shm, VL_UNTIL_HELD_CALLS);
}

int vl_duty_was_told(vl_shm_t *shm, vl_until_e what)
{
    return __atomic_exchange_n(&shm->sampler->told[what], 0, __ATOMIC_ACQ_REL);
}

static int is_spent_at(const vl_spent_t *spent, apr_uint32_t account, const char *address)
{
    return spent->account == account + 1
           && !strncmp(spent->address, address, sizeof(spent->address) - 1);
}

/* Returns the entry for the account and the address: this one, another one, a free one, or the oldest. */
static vl_spent_t *spent_at(vl_spent_t *spent, vl_spent_t *all, apr_uint32_t account, const char *address)
{
    vl_spent_t *oldest = all;

    if (!is_spent_at(spent, account, address)) {
        for (spent = all; spent < all + VL_SPENT_MAX && spent->account
                          && !is_spent_at(spent, account, address); spent++) {
            if (spent->at_us < oldest->at_us)
                oldest = spent;
        }
        if (spent == all + VL_SPENT_MAX)
            spent = oldest;
    }
    if (!is_spent_at(spent, account, address)) {
        __atomic_store_n(&spent->us, 0, __ATOMIC_RELAXED);
        spent->queued_us = 0;
        apr_cpystrn(spent->address, address, sizeof(spent->address));
        __atomic_store_n(&spent->account, account + 1, __ATOMIC_RELEASE);
    }
    spent->at_us = vl_clock_us();
    return spent;
}

void vl_duty_spend(vl_shm_t *shm, apr_uint32_t *entry, apr_uint32_t account, const char *address,
                   apr_uint64_t us)
{
    vl_spent_t *all = shm->sampler->spent, *spent = spent_at(&all[*entry], all, account, address);

    *entry = (apr_uint32_t)(spent - all);
    __atomic_add_fetch(&spent->us, us, __ATOMIC_RELAXED);
}

void vl_duty_backlog(vl_shm_t *shm, apr_uint32_t account, const char *address, apr_uint32_t serving,
                     apr_uint32_t waiting)
{
    vl_spent_t *all = shm->sampler->spent, *spent = spent_at(all, all, account, address);

    __atomic_store_n(&spent->serving, serving, __ATOMIC_RELAXED);
    __atomic_store_n(&spent->waiting, waiting, __ATOMIC_RELAXED);
    __atomic_store_n(&spent->queued_us, spent->at_us, __ATOMIC_RELEASE);
}

int vl_duty_spent(const vl_shm_t *shm, apr_uint32_t account, apr_uint32_t *i,
                  vl_spent_t *ret_spent)
{
    const vl_spent_t *spent = shm->sampler->spent;
    apr_uint32_t whose = 1;

    for (; *i < VL_SPENT_MAX && whose; ++*i) {
        whose = __atomic_load_n(&spent[*i].account, __ATOMIC_ACQUIRE);
        if (whose != account + 1)
            continue;
        *ret_spent = spent[(*i)++];
        if (vl_clock_us() - ret_spent->queued_us > BACKLOG_US)
            ret_spent->serving = ret_spent->waiting = 0;
        return 1;
    }
    return 0;
}

static apr_uint64_t *call_at(const vl_shm_t *shm, apr_uint32_t key)
{
    return &shm->sampler->calls[key >> 16];
}

int vl_duty_note_call(vl_shm_t *shm, apr_uint32_t key, apr_uint32_t caller)
{
    const apr_uint32_t call = caller == VL_NO_ACCOUNT ? VL_CALL_OF_UNKNOWN : caller + 1;
    const apr_uint64_t now = (apr_uint64_t)key << 32 | call, before = __atomic_exchange_n(call_at(shm, key), now, __ATOMIC_ACQ_REL);

    __atomic_add_fetch(&shm->sampler->known_calls, (apr_uint32_t)!before, __ATOMIC_RELEASE);
    return before >> 32 != key;
}

void vl_duty_forget_call(vl_shm_t *shm, apr_uint32_t key)
{
    if (vl_duty_call(shm, key) && __atomic_exchange_n(call_at(shm, key), 0, __ATOMIC_ACQ_REL))
        __atomic_sub_fetch(&shm->sampler->known_calls, 1, __ATOMIC_RELEASE);
}

int vl_duty_knows_calls(const vl_shm_t *shm)
{
    return __atomic_load_n(&shm->sampler->known_calls, __ATOMIC_ACQUIRE) > 0;
}

apr_uint32_t vl_duty_call(const vl_shm_t *shm, apr_uint32_t key)
{
    const apr_uint64_t call = __atomic_load_n(call_at(shm, key), __ATOMIC_ACQUIRE);

    return call >> 32 == key ? (apr_uint32_t)call : 0;
}

void vl_duty_note_queued(vl_shm_t *shm, apr_uint32_t key, apr_uint32_t account)
{
    __atomic_store_n(&shm->sampler->queued[key >> 16], account == VL_NO_ACCOUNT ? 0 : account + 1, __ATOMIC_RELAXED);
}

apr_uint32_t vl_duty_queued(const vl_shm_t *shm, apr_uint32_t key)
{
    return __atomic_load_n(&shm->sampler->queued[key >> 16], __ATOMIC_RELAXED) - 1;
}

/* vl_duty_see_fn */
static void note_any(void *data, pid_t pid, apr_uint32_t child, apr_uint32_t i,
                     const task_t *task)
{
    *(int *)data |= !task->paused;
}

/* Returns 1 if the sampler would miss what it sleeps for: it has happened since it last looked,
 * before the child could see that it sleeps. */
static int must_not_sleep(vl_shm_t *shm, vl_until_e until)
{
    int any = 0;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (until == VL_UNTIL_ENGAGED)
        return __atomic_load_n(&shm->head->engage.engaged, __ATOMIC_ACQUIRE)
               || __atomic_load_n(&shm->sampler->told[until], __ATOMIC_ACQUIRE);
    if (until == VL_UNTIL_BEGIN)
        vl_duty_tasks(shm, note_any, &any);
    return any;
}

void vl_duty_sleep(vl_shm_t *shm, apr_int64_t timeout_us, vl_until_e until)
{
    const struct timespec timeout = { timeout_us / APR_USEC_PER_SEC,
                                      timeout_us % APR_USEC_PER_SEC * 1000 };
    apr_uint32_t *sleeps = &shm->sampler->sleeps;

    __atomic_store_n(sleeps, until, __ATOMIC_RELEASE);
    if (!must_not_sleep(shm, until))
        futex(sleeps, FUTEX_WAIT, until, timeout_us ? &timeout : NULL);
    __atomic_store_n(sleeps, 0, __ATOMIC_RELEASE);
}
