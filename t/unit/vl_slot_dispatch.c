/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of the dispatcher: acquisitions of the segment lock for a queued request, the time
 * under it, and the time of a grant with one process and with one for each processor, queued and not. The
 * counts are asserted, the times are printed only. */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include "segment.h"
#include "core/vl_slot.h"

#define RUN_US 300000
#define ACCOUNTS 50
#define QUEUED 8                    /* requests of a process that are always queued */

/* Linked with --wrap: every lock call of the code under test comes here. */
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

static apr_uint64_t locks, under_ns;
static int is_timed;
static struct timespec since;

static apr_uint64_t ns_since(const struct timespec *from)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (apr_uint64_t)(now.tv_sec - from->tv_sec) * 1000000000
           + (apr_uint64_t)now.tv_nsec - (apr_uint64_t)from->tv_nsec;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int err = __real_pthread_mutex_lock(mutex);

    locks++;
    if (is_timed)
        clock_gettime(CLOCK_MONOTONIC, &since);
    return err;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (is_timed)
        under_ns += ns_since(&since);
    return __real_pthread_mutex_unlock(mutex);
}

static void enqueue(vl_shm_t *shm, apr_uint32_t n)
{
    vl_ticket_t ticket;

    if (vl_slot_take_or_wait(shm, n % ACCOUNTS, vl_clock_us(), VL_WAIT_ASK, &ticket) == APR_SUCCESS)
        vl_slot_end(shm, &ticket, NULL);
}

/* A request with a slot ends, another one is queued, and the next one is granted a slot, as
 * vl_waiters_end() does it. Returns whether there was a grant. */
static int serve(vl_shm_t *shm, apr_uint32_t n, vl_ticket_t *next, int *has_next)
{
    vl_admission_t adm = { .entered = 1 };
    vl_cost_t cost = { .busy_us = 100, .cpu_us = 100 };
    apr_uint64_t charged;

    if (!*has_next && vl_slot_take(shm, next) != APR_SUCCESS)
        return 0;
    adm.ticket = *next;
    shm->cells[shm->self][adm.ticket.account].first
        = (vl_first_t){ .since_us = vl_clock_us() };
    vl_slot_begin(shm, 10, &adm);
    enqueue(shm, n);
    *has_next = vl_slot_end_and_take(shm, &adm.ticket, &cost, &charged, next, 1)
                > 0;
    return 1;
}

static apr_uint64_t serve_for_a_while(vl_shm_t *shm)
{
    apr_int64_t until = vl_clock_us() + RUN_US;
    apr_uint64_t n = 0;
    vl_ticket_t next;
    int has_next = 0;

    while (vl_clock_us() < until)
        n += (apr_uint64_t)serve(shm, (apr_uint32_t)n, &next, &has_next);
    if (has_next)
        vl_slot_end(shm, &next, NULL);
    return n;
}

static vl_shm_t *busy_segment(apr_uint32_t children)
{
    vl_shm_t *shm = make(ACCOUNTS, children);
    char name[16];
    apr_uint32_t i;

    for (i = 0; i < ACCOUNTS; i++) {
        snprintf(name, sizeof(name), "site%u", i);
        account(shm, name, 0);
    }
    vl_slot_set(shm, children);
    return shm;
}

static void attach(vl_shm_t *shm, pid_t pid)
{
    apr_uint32_t i;

    if (vl_shm_child_attach(shm, pid, 1000) != APR_SUCCESS)
        abort();
    for (i = 0; i <= QUEUED; i++)
        queue_one(shm, i % ACCOUNTS, vl_clock_us());
}

static void one_process(void)
{
    vl_shm_t *shm = busy_segment(1);
    apr_uint64_t n, before;

    attach(shm, getpid());
    before = locks;
    n = serve_for_a_while(shm);
    before = locks - before;
    ok(n > 100 && before <= 2 * n + 4, "a queued request takes the lock twice: when it is "
       "queued, and when another one ends (%.2f)", (double)before / (double)n);
    printf("# one process: %.0f grants/s\n", (double)n * 1e6 / RUN_US);
    is_timed = 1;
    n = serve_for_a_while(shm);
    is_timed = 0;
    printf("# under the lock: %.0f ns for each grant, reading the clock included\n",
           (double)under_ns / (double)n);
}

/* What processes of a scene tell their parent. */
typedef struct told_t {
    apr_uint64_t served, locks;
} told_t;

/* A request of a site that is below its share, as long as none is queued. */
static apr_uint64_t admit_for_a_while(vl_shm_t *shm, apr_uint32_t account)
{
    apr_int64_t until = vl_clock_us() + RUN_US;
    vl_cost_t cost = { .busy_us = 100, .cpu_us = 100 };
    apr_uint64_t n = 0;
    vl_ticket_t ticket;

    while (vl_clock_us() < until) {
        n += vl_slot_ask(shm, account, VL_ASK_NEW, 0, &ticket) == APR_SUCCESS;
        vl_slot_end(shm, &ticket, &cost);
    }
    return n;
}

/* Runs so many processes at the same time, with queued requests of all sites, or with one of a site of
 * its own in each. Returns the sums of what they tell. */
static told_t run(apr_uint32_t processes, int queued)
{
    vl_shm_t *shm = busy_segment(processes);
    told_t *told = mmap(NULL, processes * sizeof(told_t), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0), all = { 0, 0 };
    apr_uint32_t i;
    int status;

    if (!queued)
        vl_slot_set(shm, processes * 10);
    for (i = 0; i < processes; i++) {
        if (fork())
            continue;
        if (queued)
            attach(shm, getpid());
        else
            vl_shm_child_attach(shm, getpid(), 1000);
        locks = 0;
        told[i].served = queued ? serve_for_a_while(shm) : admit_for_a_while(shm, i % ACCOUNTS);
        told[i].locks = locks;
        _exit(0);
    }
    while (wait(&status) > 0)
        all.served = status ? 0 : all.served;
    for (i = 0; i < processes; i++) {
        all.served += told[i].served;
        all.locks += told[i].locks;
    }
    printf("# %u %s, %s: %.2f locks and %.0f ns for each grant\n", processes,
           processes == 1 ? "process" : "processes", queued ? "50 sites queued" : "a site of its own, not queued",
           (double)all.locks / (double)all.served,
           RUN_US * 1e3 * processes / (double)all.served);
    return all;
}

static void all_processors(void)
{
    cpu_set_t set;
    apr_uint32_t n = sched_getaffinity(0, sizeof(set), &set) ? 2 : (apr_uint32_t)CPU_COUNT(&set);
    told_t one, all;

    n = n < 2 ? 2 : n;
    /* On a busy machine some may hardly run. */
    ok(run(n, 1).served, "a process for each processor serves");
    one = run(1, 0);
    all = run(n, 0);
    ok(one.locks <= 2 * one.served + 4 && all.locks <= 2 * all.served + 4 * n,
       "a request that is not queued takes the lock twice");
}

/* --- the lines of the cache that a request of each of two processes writes --------- */

typedef struct lines_t {
    unsigned char *before, *is_written[2];
    apr_size_t size;
} lines_t;

static void mark_lines(const vl_shm_t *shm, lines_t *lines, int child)
{
    const unsigned char *now = (const unsigned char *)shm->head;
    apr_size_t i;

    for (i = 0; i < lines->size; i += CACHE_LINE)
        lines->is_written[child][i / CACHE_LINE] |= memcmp(lines->before + i, now + i, CACHE_LINE) != 0;
    memcpy(lines->before, now, lines->size);
}

/* The first two lines are the lock and the queue. A word that gets its old value again is not seen. */
static void lines_of_both(void)
{
    vl_shm_t *shm = busy_segment(2), child[2];
    lines_t lines = { .size = (apr_size_t)((char *)shm->hosts - (char *)shm->head) };
    vl_cost_t cost = { .busy_us = 100, .cpu_us = 100 };
    apr_size_t i, both = 0;
    vl_ticket_t ticket;
    int c;

    vl_slot_set(shm, 100);
    lines.before = malloc(lines.size);
    for (c = 0; c < 2; c++) {
        child[c] = view(shm, c, 1000);
        lines.is_written[c] = calloc(1, lines.size / CACHE_LINE);
    }
    for (c = 0; c < 10; c++) {
        memcpy(lines.before, shm->head, lines.size);
        vl_slot_ask(&child[c % 2], (apr_uint32_t)(c % 2) * 10, VL_ASK_NEW, 0, &ticket);
        mark_lines(shm, &lines, c % 2);
        vl_slot_end(&child[c % 2], &ticket, &cost);
        mark_lines(shm, &lines, c % 2);
    }
    for (i = 2; i < lines.size / CACHE_LINE; i++)
        both += lines.is_written[0][i] && lines.is_written[1][i];
    ok(lines.is_written[0][1] && lines.is_written[1][1] && !both && !((apr_uintptr_t)shm->head % CACHE_LINE),
       "requests of two sites in two processes write no same lines but those of the lock (%u)", (unsigned)both);
    end_sleepers();
}

/* As the rescue process of the first child does after the death of that child. */
static void wake_all(void)
{
    vl_shm_t *shm = busy_segment(3);
    apr_uint64_t before, count[3] = { 0 };
    int i, n;

    attach(shm, getpid());
    shm->head->columns = 3;
    for (i = 0; i < 3; i++)
        while (read(shm->wake_fds[i], &count[i], sizeof(count[i])) > 0)
            continue;
    memset(count, 0, sizeof(count));
    before = locks;
    vl_slot_wake_all(shm);
    ok(locks == before, "all other children are woken without a lock");
    for (i = n = 0; i < 3; i++)
        n += read(shm->wake_fds[i], &count[i], sizeof(count[i])) > 0;
    ok(n == 2 && !count[shm->self], "the others are woken, with free capacity or without");
}

/* Each is done for each grant, or for each request of a queued connection. */
static void decisions_without_the_lock(void)
{
    vl_shm_t *shm = busy_segment(1);
    vl_ticket_t held[2], ticket;
    apr_uint64_t before;

    attach(shm, getpid());
    vl_slot_ask(shm, 0, VL_ASK_FORCED, 0, &held[0]);
    vl_slot_ask(shm, 0, VL_ASK_FORCED, 0, &held[1]);
    before = locks;
    ok(!vl_slot_only_in_mpm(shm) && locks == before, "which waiter gets a grant is decided without the lock");
    ok(APR_STATUS_IS_EAGAIN(vl_slot_ask(shm, 0, VL_ASK_LEASE, 0, &ticket)) && locks == before,
       "a lease that has to wait asks without the lock");
}

int main(void)
{
    segment_init();
    one_process();
    decisions_without_the_lock();
    all_processors();
    lines_of_both();
    wake_all();
    return tap_done();
}
