/* SPDX-License-Identifier: Apache-2.0 */
/* A model for spin of how children share slots (vl_slot.c) and wake waiters
 * (vl_waiters.c). It has every order of their operations, and one child that may die at any step.
 *
 * An operation under the lock of the shared memory is one step. Operations between (a wake-up
 * that is still to be written, a read of ring_len) are one step each. Not modeled: time
 * (LOOK_US and ticks would hide a lost wake-up), the choice between eligible accounts, thread
 * waiters, stalls, the relay of prefork, and a death while the lock is held, which
 * t/unit/vl_slot_kill.t tests.
 *
 * -DFAULT breaks a rule, and the search must find it: 1 wake-ups are not written, 2 woken stays
 * set, 3 ring_len is not read after queueing, 4 the parent wakes no child after a death. */

#ifndef CHILDREN
#define CHILDREN  2
#endif
#ifndef ACCOUNTS
#define ACCOUNTS  2
#endif
#ifndef SLOTS
#define SLOTS     1
#endif
#ifndef ROOM
#define ROOM      2             /* vl_capacity_most() */
#endif
#ifndef REQUESTS
#define REQUESTS  2             /* that come to each child */
#endif
#ifndef DEATHS
#define DEATHS    0             /* 1: child 0 */
#endif
#ifndef FAULT
#define FAULT     0
#endif
#define RING_SIZE 1
#define WAKES_MAX 1
#define PARENT    CHILDREN

#define CELL(c, a)     ((c) * ACCOUNTS + (a))
#define ring_len(c)    len(ring[c])
#define room_of(c)     (alive[c] && child_running[c] < ROOM && ring_len(c) < RING_SIZE)
#define may_grant(c, a) (queue_running < SLOTS && waiting[CELL(c, a)] && room_of(c))

/* Shared: guarded by head.lock, except for wake_fd and reads of ring_len. */
byte queue_running;
byte waiting[CHILDREN * ACCOUNTS];      /* cell_t */
byte child_running[CHILDREN];           /* slots held and tickets in the ring */
bool woken[CHILDREN];
chan ring[CHILDREN] = [RING_SIZE] of { byte };
bool wake_fd[CHILDREN];                 /* eventfd: readable */

/* Private to each child. */
bool alive[CHILDREN] = true;
bool park[CHILDREN];                    /* vl_waiters_lock() */
byte queued[CHILDREN * ACCOUNTS];         /* vl_wait.c */
chan granted[CHILDREN] = [REQUESTS] of { byte };   /* done(), with a ticket */

/* What the assertions use. */
byte arrived[CHILDREN], ended[CHILDREN], left[CHILDREN];
byte working;                           /* tickets of running requests */

inline vl_waiters_lock(c)   { atomic { !park[c] -> park[c] = true } }
inline vl_waiters_unlock(c) { park[c] = false }

/* One store makes the grant. Another child is woken, unless it has been. */
inline grant(by, to, account)
{
    ring[to]!account;
    queue_running++;
    waiting[CELL(to, account)]--;
    child_running[to]++;
    if
    :: to != by && !woken[to] ->
        woken[to] = true;
#if FAULT != 1
        to_wake = to;
        wakes_n++
#endif
    :: else
    fi
}

/* Free slots are granted to any eligible account, as long as wakes has room. */
inline grant_free(self)
{
    wakes_n = 0;
    do
    :: wakes_n < WAKES_MAX && may_grant(0, 0) -> grant(self, 0, 0)
    :: wakes_n < WAKES_MAX && may_grant(1, 0) -> grant(self, 1, 0)
#if ACCOUNTS > 1
    :: wakes_n < WAKES_MAX && may_grant(0, 1) -> grant(self, 0, 1)
    :: wakes_n < WAKES_MAX && may_grant(1, 1) -> grant(self, 1, 1)
#endif
#if CHILDREN > 2
    :: wakes_n < WAKES_MAX && may_grant(2, 0) -> grant(self, 2, 0)
#if ACCOUNTS > 1
    :: wakes_n < WAKES_MAX && may_grant(2, 1) -> grant(self, 2, 1)
#endif
#endif
    :: else -> break
    od;
    assert(queue_running <= SLOTS)
}

/* The end of vl_slot_dispatch_and_unlock(): wake-ups are written without the lock, and grants
 * that found no room among them follow. */
inline write_wake_ups(self)
{
    do
    :: wakes_n == 0 -> break
    :: else ->
        wake_fd[to_wake] = true;
        atomic { grant_free(self) }
    od
}

inline vl_slot_take_or_wait(c, a)
{
    atomic { waiting[CELL(c, a)]++; grant_free(c) };
    write_wake_ups(c)
}

/* Without a queued request the grant is already in the ring. */
inline vl_slot_unwait(c, a)
{
    atomic {
        if
        :: waiting[CELL(c, a)] -> waiting[CELL(c, a)]--
        :: else
        fi
    }
}

inline vl_slot_end(c)
{
    atomic {
        assert(queue_running > 0 && child_running[c] > 0);
        child_running[c]--;
        queue_running--;
        grant_free(c)
    };
    write_wake_ups(c)
}

/* got: there was a ticket, of account a. */
inline vl_slot_take(c, got, a)
{
    atomic {
        wakes_n = 0;
        if
        :: ring_len(c) == 0 ->
            got = false;
#if FAULT != 2
            woken[c] = false
#endif
        :: else ->
            got = true;
            ring[c]?a;
            if
            :: ring_len(c) == RING_SIZE - 1 -> grant_free(c)    /* it was full */
            :: else
            fi
        fi
    };
    write_wake_ups(c)
}

/* A ticket without a waiter is returned. Queued requests of the account stay queued. */
inline vl_waiters_take_locked(c)
{
    do
    :: vl_slot_take(c, got, ticket);
        if
        :: !got -> break
        :: got && queued[CELL(c, ticket)] ->
            atomic {
                queued[CELL(c, ticket)]--;
                working++;
                granted[c]!ticket
            }
        :: else -> vl_slot_end(c)
        fi
    od
}

inline take_if_granted(c)       /* vl_slot_granted() */
{
    if
    :: ring_len(c) && FAULT != 3 -> vl_waiters_take_locked(c)
    :: else
    fi
}

/* look_round() of the acceptor: read() clears what poll() has reported. */
proctype acceptor(byte c)
{
    byte ticket, wakes_n, to_wake;
    bool got;

    {
end:    do
        :: wake_fd[c] ->
            wake_fd[c] = false;
            vl_waiters_lock(c);
            vl_waiters_take_locked(c);
            vl_waiters_unlock(c)
        od
    } unless { !alive[c] }
}

/* Connections that arrive, and those that leave while queued: the client closes, or the
 * timeout expires. */
proctype arrivals(byte c)
{
    byte a, ticket, wakes_n, to_wake, n;
    bool got;

    {
        do
        :: n < REQUESTS ->
            if
            :: a = 0
            :: a = ACCOUNTS - 1
            fi;
            n++;
            vl_waiters_lock(c);
            arrived[c]++;
            queued[CELL(c, a)]++;         /* vl_waiters_take_or_queue_locked() */
            vl_slot_take_or_wait(c, a);
            take_if_granted(c);
            vl_waiters_unlock(c)
        :: n > 0 && queued[CELL(c, a)] ->
            vl_waiters_lock(c);
            if
            :: queued[CELL(c, a)] ->      /* vl_waiters_remove_locked() */
                queued[CELL(c, a)]--;
                left[c]++;
                vl_slot_unwait(c, a)
            :: else
            fi;
            vl_waiters_unlock(c)
        :: n == REQUESTS -> break
        od
    } unless { !alive[c] }
}

/* Running requests, which end in any order. */
proctype worker(byte c)
{
    byte ticket, wakes_n, to_wake;
    bool got;

    {
end:    do
        :: atomic { granted[c]?ticket -> assert(working <= SLOTS); working--; ended[c]++ };
            vl_slot_end(c);             /* vl_waiters_end() */
            if
            :: ring_len(c) ->
                vl_waiters_lock(c);
                vl_waiters_take_locked(c);
                vl_waiters_unlock(c)
            :: else
            fi
        od
    } unless { !alive[c] }
}

/* vl_shm_parent_reclaim() of a dead child's column, and vl_slot_dispatch(). */
proctype reaper(byte c)
{
    byte a, wakes_n, to_wake;

    atomic { alive[c] = false };
    atomic {
        queue_running = queue_running - child_running[c];
        child_running[c] = 0;
        do
        :: ring_len(c) -> ring[c]?_
        :: else -> break
        od;
        do
        :: len(granted[c]) -> granted[c]?_; working--
        :: else -> break
        od;
        a = 0;
        do
        :: a < ACCOUNTS -> waiting[CELL(c, a)] = 0; queued[CELL(c, a)] = 0; a++
        :: else -> break
        od;
        woken[c] = false
    };
    atomic { grant_free(PARENT) };
    write_wake_ups(PARENT);
#if FAULT != 4
    a = 0;
    do
    :: a < CHILDREN ->          /* the dead child may have been about to */
        if
        :: ring_len(a) -> wake_fd[a] = true
        :: else
        fi;
        a++
    :: else -> break
    od;
#else
    skip
#endif
}

init
{
    byte c;

    atomic {
        do
        :: c < CHILDREN -> run acceptor(c); run arrivals(c); run worker(c); c++
        :: else -> break
        od;
#if DEATHS
        run reaper(0)
#endif
    };
    /* No process can take a step, so no request may be queued or granted. */
    timeout ->
        assert(queue_running == 0 && working == 0);
        c = 0;
        do
        :: c < CHILDREN ->
            if
            :: alive[c] ->
                assert(ring_len(c) == 0 && child_running[c] == 0);
                assert(!queued[CELL(c, 0)] && !queued[CELL(c, ACCOUNTS - 1)]);
                assert(!waiting[CELL(c, 0)] && !waiting[CELL(c, ACCOUNTS - 1)]);
                assert(arrived[c] == REQUESTS && arrived[c] == ended[c] + left[c])
            :: else
            fi;
            c++
        :: else -> break
        od
}
