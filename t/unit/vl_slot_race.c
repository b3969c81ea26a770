/* SPDX-License-Identifier: Apache-2.0 */
/* Children as threads of one process, each a view of the segment with a column of its own,
 * so that a race checker sees both sides of every access. Each child queues requests, sleeps
 * until it is woken, and ends its grants, in an order made from a seed. No child sleeps
 * forever: no wake-up is lost. No more requests run than there are slots: nothing is granted
 * twice. */
#include <poll.h>
#include <pthread.h>

#include "segment.h"

#define CHILDREN 6
#define ACCOUNTS 5
#define SLOTS 4
#define MOST 8                  /* queued in one child */
#define TURNS 3000
#define LATER_US 5000000        /* as if no child had run for so long */

typedef struct actor_t {
    pthread_t thread;
    vl_shm_t shm;
    unsigned seed;
    apr_uint32_t waiting[ACCOUNTS];
    apr_uint32_t taken, slept, lost, wrong;
} actor_t;

static apr_uint32_t running, most_running;
static apr_uint32_t done;               /* children without queued requests */

static void count_running(int by)
{
    apr_uint32_t now = __atomic_add_fetch(&running, by, __ATOMIC_SEQ_CST);
    apr_uint32_t most = __atomic_load_n(&most_running, __ATOMIC_SEQ_CST);

    while (now > most && now < 1u << 31
           && !__atomic_compare_exchange_n(&most_running, &most, now, 0,
                                           __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST))
        continue;
}

static apr_uint32_t waits(const actor_t *me)
{
    apr_uint32_t a, n = 0;

    for (a = 0; a < ACCOUNTS; a++)
        n += me->waiting[a];
    return n;
}

/* As vl_waiters_take_locked(): a grant whose waiter has left goes back. */
static int take(actor_t *me)
{
    vl_ticket_t ticket;
    vl_cost_t cost = { 5, 5, 0, NULL };
    int n = 0;

    while (vl_slot_take(&me->shm, &ticket) == APR_SUCCESS) {
        n++;
        if (!me->waiting[ticket.account]) {
            vl_slot_end(&me->shm, &ticket, NULL);
            continue;
        }
        me->waiting[ticket.account]--;
        me->taken++;
        count_running(1);
        if (rand_r(&me->seed) % 4 == 0)
            sched_yield();
        count_running(-1);
        vl_slot_end(&me->shm, &ticket, &cost);
    }
    return n;
}

/* All other children work or sleep, so ten seconds without a wake-up are forever. */
static void sleep_until_woken(actor_t *me)
{
    struct pollfd pfd = { vl_shm_child_wake_fd(&me->shm), POLLIN, 0 };
    apr_uint64_t count;

    me->slept++;
    if (poll(&pfd, 1, 10000) != 1)
        me->lost++;
    else if (read(pfd.fd, &count, sizeof(count)) < 0)
        me->wrong++;
}

static void take_or_sleep(actor_t *me)
{
    if (!take(me) && waits(me) && !vl_slot_granted(&me->shm))
        sleep_until_woken(me);
}

static void one_turn(actor_t *me)
{
    apr_uint32_t a = (apr_uint32_t)rand_r(&me->seed) % ACCOUNTS;

    if (!(rand_r(&me->seed) % 16))
        vl_slot_revoke_stalled(&me->shm, vl_clock_us() + LATER_US);
    switch (rand_r(&me->seed) % 6) {
    case 0:
    case 1:
    case 2:
        if (waits(me) == MOST)
            take_or_sleep(me);
        else if (queue_one(&me->shm, a, vl_clock_us()) == APR_SUCCESS)
            me->waiting[a]++;
        break;
    case 3:
        if (me->waiting[a]) {
            me->waiting[a]--;
            vl_slot_unwait(&me->shm, a);
        }
        break;
    default:
        take(me);
        break;
    }
}

static void *act(void *data)
{
    actor_t *me = data;
    int turn;

    for (turn = 0; turn < TURNS && !me->lost; turn++)
        one_turn(me);
    while (waits(me) && !me->lost)
        take_or_sleep(me);
    /* A grant that was revoked after its waiter had left arrives once more. A child that
     * did not take it would keep the slot. */
    __atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < CHILDREN) {
        take(me);
        usleep(1000);
    }
    take(me);
    return NULL;
}

static void play(unsigned seed, const pid_t *pids)
{
    vl_shm_t *shm = make(ACCOUNTS, CHILDREN);
    actor_t actors[CHILDREN];
    apr_uint32_t i, taken = 0, slept = 0, lost = 0, wrong = 0;

    memset(actors, 0, sizeof(actors));
    for (i = 0; i < ACCOUNTS; i++) {
        char name[2] = { (char)('a' + i), '\0' };

        account_with(shm, name, limits_of(VL_MODE_ON, i % 3, 1000));
    }
    vl_slot_set(shm, SLOTS);
    running = most_running = done = 0;
    for (i = 0; i < CHILDREN; i++) {
        actors[i].shm = *shm;
        actors[i].seed = seed * 100 + i;
        vl_shm_child_attach(&actors[i].shm, pids[i], 8);
    }
    for (i = 0; i < CHILDREN; i++)
        pthread_create(&actors[i].thread, NULL, act, &actors[i]);
    for (i = 0; i < CHILDREN; i++)
        pthread_join(actors[i].thread, NULL);
    for (i = 0; i < CHILDREN; i++) {
        take(&actors[i]);
        taken += actors[i].taken;
        slept += actors[i].slept;
        lost += actors[i].lost;
        wrong += actors[i].wrong;
    }
    ok(!lost && !wrong, "seed %u: no child sleeps forever (%u slept)", seed,
       slept);
    ok(taken > 100 && most_running <= SLOTS, "%u of %u slots at most, by %u "
       "requests", most_running, SLOTS, taken);
    ok(is_empty(shm), "the segment is empty");
}

int main(void)
{
    pid_t pids[CHILDREN];
    const char *seeds = getenv("VL_LONG");
    unsigned seed;
    int i;

    setvbuf(stdout, NULL, _IOLBF, 0);
    segment_init();
    for (i = 0; i < CHILDREN; i++) {
        pids[i] = fork();
        if (!pids[i]) {
            poll(NULL, 0, -1);
            _exit(0);
        }
    }
    for (seed = 1; seed <= (seeds && atoi(seeds) ? 300 : 6); seed++)
        play(seed, pids);
    for (i = 0; i < CHILDREN; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    return tap_done();
}
