/* SPDX-License-Identifier: Apache-2.0 */
/* A child is killed after any single instruction of its operations on slots. Whatever it
 * leaves, no request of another child is lost, and none is counted that does not exist. The
 * child is traced step by step. Whenever a step has changed something that others see, the
 * segment is copied. Afterwards each copy is restored, and the surviving processes must cope
 * with it. */
#include <poll.h>
#include <sys/ptrace.h>

#include "segment.h"

/* Two accounts: the victim's requests are in a, and a survivor, this process, has a queued
 * request in b. */
typedef struct scene_t {
    vl_shm_t *shm;
    apr_uint32_t a, b;
    vl_ticket_t held;               /* of the victim */
} scene_t;

#define WAITING 2

static void do_end(scene_t *s)
{
    vl_slot_end(s->shm, &s->held, NULL);
}

static void do_wait(scene_t *s)
{
    queue_one(s->shm, s->a, vl_clock_us());
}

static void do_unwait(scene_t *s)
{
    vl_slot_unwait(s->shm, s->a);
}

static void do_take(scene_t *s)
{
    vl_ticket_t ticket;

    vl_slot_take(s->shm, &ticket);
}

static void do_begin(scene_t *s)
{
    vl_admission_t adm = { .ticket = s->held };

    vl_slot_begin(s->shm, 5000, &adm);
}

static void do_call(scene_t *s)
{
    vl_ticket_t ticket;

    vl_slot_ask_call(s->shm, 0, 2, 0, &ticket);
    end(s->shm, &ticket, 1);
}

static void do_pass_over(scene_t *s)
{
    vl_slot_revoke_stalled(s->shm, vl_clock_us() + 5000000);
}

typedef struct plot_t {
    const char *what;
    apr_uint32_t slots;
    apr_uint32_t waiting;           /* queued by the victim, besides the held one */
    void (*act)(scene_t *s);
} plot_t;

static const plot_t plots[] = {
    { "releases a slot for another child", 1, 0, do_end },
    { "releases a slot for its own next request", 1, 5, do_end },
    { "queues and is granted a slot", 9, 0, do_wait },
    { "waits", 1, 0, do_wait },
    { "leaves the queue", 1, 1, do_unwait },
    { "takes a grant", 2, 1, do_take },
    { "begins a request", 1, 0, do_begin },
    { "runs a call", 1, 0, do_call },
    { "revokes a grant that another child has not picked up", 9, 0, do_pass_over }
};

static void victim(scene_t *s, const plot_t *plot)
{
    apr_uint32_t i;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)
        || vl_shm_child_attach(s->shm, getpid(), 10) != APR_SUCCESS
        || !enter(s->shm, s->a, &s->held))
        _exit(77);
    for (i = 0; i < plot->waiting; i++)
        queue_one(s->shm, s->a, vl_clock_us());
    raise(SIGSTOP);                 /* the survivor joins the queue */
    plot->act(s);
    _exit(0);
}

static int is_awake(vl_shm_t *shm)
{
    struct pollfd pfd = { vl_shm_child_wake_fd(shm), POLLIN, 0 };

    return poll(&pfd, 1, 0) == 1;
}

#define COPIES_MAX 500
#define SEGMENT_MAX (64 * 1024)

/* What others see of the victim's operations. */
static struct {
    char segment[SEGMENT_MAX];
    int awake;                      /* the survivor's descriptor is readable */
} copies[COPIES_MAX];
static apr_size_t ncopies;

static apr_size_t segment_size(const vl_shm_t *shm)
{
    apr_size_t cells = (apr_size_t)shm->head->children * shm->head->capacity;

    return (apr_size_t)((char *)(shm->cells[0] + cells) - (char *)shm->head);
}

static void copy_if_changed(vl_shm_t *shm)
{
    apr_size_t size = segment_size(shm);
    int awake = is_awake(shm);

    if (size > SEGMENT_MAX || ncopies == COPIES_MAX)
        abort();
    if (ncopies && copies[ncopies - 1].awake == awake
        && !memcmp(copies[ncopies - 1].segment, shm->head, size))
        return;
    memcpy(copies[ncopies].segment, shm->head, size);
    copies[ncopies++].awake = awake;
}

/* Restores a copy, except for the lock: its owner is dead. */
static void put_back(vl_shm_t *shm, apr_size_t copy)
{
    pid_t pid;

    vl_segment_lock(shm);
    memcpy((char *)shm->head + sizeof(pthread_mutex_t),
           copies[copy].segment + sizeof(pthread_mutex_t),
           segment_size(shm) - sizeof(pthread_mutex_t));
    vl_segment_unlock(shm);
    pid = fork();
    if (!pid) {
        vl_segment_lock(shm);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void survive(vl_shm_t *shm, apr_uint32_t account)
{
    int i;

    vl_shm_child_attach(shm, getpid(), 10);
    for (i = 0; i < WAITING; i++)
        queue_one(shm, account, vl_clock_us());
}

/* Steps the stopped victim to its end. Returns the number of steps. */
static int trace(scene_t *s, pid_t pid)
{
    int status, steps = 0;

    ncopies = 0;
    do {
        copy_if_changed(s->shm);
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL)
            || waitpid(pid, &status, 0) != pid)
            abort();
    } while (WIFSTOPPED(status) && ++steps < 20000);
    return steps;
}

/* Each queued request of the survivor must get a grant. One grant more is possible after a
 * death in the middle of a grant, and has no waiter. */
static int are_served(vl_shm_t *shm, apr_uint32_t slots)
{
    apr_uint32_t taken = 0, rounds;
    vl_ticket_t ticket;

    for (rounds = 0; rounds < 3; rounds++) {
        vl_slot_set(shm, slots);
        while (taken < 10 && vl_slot_take(shm, &ticket) == APR_SUCCESS) {
            vl_slot_end(shm, &ticket, NULL);
            taken++;
        }
    }
    return taken == WAITING || taken == WAITING + 1;
}

typedef struct outcome_t {
    int broken, lost, asleep;       /* number of copies with this fault */
} outcome_t;

static void inherit(scene_t *s, pid_t pid, const plot_t *plot,
                    outcome_t *outcome)
{
    apr_uint64_t count;
    apr_size_t i;

    for (i = 0; i < ncopies; i++) {
        const char *why;

        while (read(vl_shm_child_wake_fd(s->shm), &count, sizeof(count)) > 0)
            continue;
        put_back(s->shm, i);
        vl_shm_parent_reclaim(s->shm, pid);
        why = validate(s->shm);
        if (why && !outcome->broken)
            printf("# broken, copy %u: %s\n", (unsigned)i, why);
        outcome->asleep += vl_slot_granted(s->shm) && plot->slots == 1
                           && !copies[i].awake && !is_awake(s->shm);
        outcome->lost += !are_served(s->shm, plot->slots);
        outcome->broken += why || !is_empty(s->shm);
    }
}

static void kill_at_any_step(const plot_t *plot)
{
    scene_t s = { .shm = make(2, 2) };
    outcome_t outcome = { 0 };
    int status, steps;
    pid_t pid;

    s.a = account(s.shm, "a", 0);
    s.b = account(s.shm, "b", 0);
    vl_slot_set(s.shm, plot->slots);
    pid = fork();
    if (!pid)
        victim(&s, plot);
    waitpid(pid, &status, 0);
    if (!WIFSTOPPED(status)) {
        ok(1, "%s # SKIP a child cannot be traced here", plot->what);
        return;
    }
    survive(s.shm, s.b);
    steps = trace(&s, pid);
    ok(steps > 100 && ncopies > 3, "a child that %s: %d steps, of which others "
       "see %u", plot->what, steps, (unsigned)ncopies);
    inherit(&s, pid, plot, &outcome);
    ok(!outcome.broken, "the segment is valid after each" " (%d not)", outcome.broken);
    ok(!outcome.lost, "requests in other children are admitted, each once" " (%d not)", outcome.lost);
    ok(!outcome.asleep, "and has been woken" " (%d not)", outcome.asleep);
}

int main(void)
{
    apr_size_t i;

    setvbuf(stdout, NULL, _IOLBF, 0);
    segment_init();
    for (i = 0; i < sizeof(plots) / sizeof(plots[0]); i++)
        kill_at_any_step(&plots[i]);
    return tap_done();
}
