/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_BACKENDS_H
#define VL_BACKENDS_H

/*
 * Back ends: what Apache's threads wait for besides their clients. A back end is an address
 * on this machine, or a pipe to programs of a child process, and the processes behind it. It
 * is found by what a thread waits for, so it needs no configuration and no list of handlers.
 *
 *   - The kernel says which socket is at the other end of the one that a thread waits for,
 *     at which address it was accepted, and which socket listens there. The processes that
 *     have one of the two open are the back end's (vl_proc.h).
 *   - All CPU time that these processes use is charged. If several accounts use the back
 *     end, it is divided in proportion to what processes used in the moment after a sample
 *     (VL_MOMENT_US) while they served each account. The sum is exact. Samples of processes
 *     that run or wait for a processor would favor short requests, which wait before a
 *     process takes them up.
 *   - Where a process serves several requests at once, or it is not known which process serves a
 *     request, each request wants an equal part of what all processes of the back end want.
 *   - A process that waits itself, for a database or a second server, is followed to the
 *     other end in the same way. One with threads or an event loop (Passenger's core, Varnish,
 *     node) does not show which request waits for what: all processes that it is connected to
 *     are its accounts', divided as above, except those whose working folder the virtual host
 *     of one account names.
 *
 * Only the sampler's thread calls these functions. No lock.
 */

#include <sys/types.h>

#include <apr_pools.h>
#include <apr_time.h>

#include "core/vl_fair.h"
#include "cost/vl_proc.h"

typedef struct vl_backends_t vl_backends_t;

/* server: Apache's parent process, whose own sockets are no back ends. */
vl_backends_t *vl_backends_create(apr_pool_t *p, pid_t server);

/* Return the account whose virtual host names the folder, or the user of a database, or VL_NO_ACCOUNT. */
typedef apr_uint32_t vl_backends_site_fn(const char *name);
void vl_backends_set_sites(vl_backends_t *b, vl_backends_site_fn *folder, vl_backends_site_fn *user);

/* Where Apache itself listens: a request that waits for it waits for another request, which counts by
 * itself. The array must live as long. */
typedef struct vl_listen_address_t {
    vl_ip_t ip;
    int port;
} vl_listen_address_t;
void vl_backends_set_own(vl_backends_t *b, const vl_listen_address_t *own, int n);

/* Begins a round of samples. children: Apache's child processes, which are no back ends; the
 * array must live until the next round. stride: one request of so many is looked at. */
void vl_backends_begin(vl_backends_t *b, apr_int64_t now_us, const pid_t *children, int n,
                       apr_uint32_t stride);

/* The requests of the next looks in this round hold no slot: what they wait for is charged, but they do not
 * count as requests of it. */
void vl_backends_set_paused(vl_backends_t *b, int is_paused);

/* What a request waits for. */
typedef enum {
    VL_WAIT_NOTHING,                /* no socket and no pipe */
    VL_WAIT_ASLEEP,                 /* a back end that waits itself, or a remote one */
    VL_WAIT_QUEUED,                 /* a process of a pool that other sites use too */
    VL_WAIT_RUNS                    /* a back end that wants a processor, or whose processes
                                     * are unknown */
} vl_wait_for_e;

/* A request of the account waits for this descriptor of the process pid, in its thread tid.
 * *ret_runs is the part of a processor that its back end wants, permille. */
vl_wait_for_e vl_backends_look(vl_backends_t *b, apr_uint32_t account, pid_t pid, pid_t tid,
                               int fd, apr_uint32_t *ret_runs);

/* The same for a thread that waits for the end of a program that it has started. */
vl_wait_for_e vl_backends_look_program(vl_backends_t *b, apr_uint32_t account, pid_t pid, pid_t tid,
                                       apr_uint32_t *ret_runs);

/* Returns 1 if the last look ended at a database whose sessions are known. */
int vl_backends_at_database(const vl_backends_t *b);

/* Division of back ends that accounts share: vl_backends_moment() reads the CPU times of their
 * processes, and returns 0 if this round has looked at none, nor at programs of which the kernel
 * keeps no count. Otherwise the caller sleeps for VL_MOMENT_US, looks at the requests that have
 * begun since, and calls vl_backends_end(). The moment is longer than a few time slices: the
 * kernel first runs a process that wakes up. */
#define VL_MOMENT_US 5000
int vl_backends_moment(vl_backends_t *b);
void vl_backends_end(vl_backends_t *b);

/* Between two rounds: reads what sessions of databases use. Returns when to call it again. */
apr_int64_t vl_backends_databases(vl_backends_t *b, apr_int64_t now_us);

/* Calls `charge` for each account that has used back ends recently, about ten times a second:
 * us of CPU time since the last call, may be 0. database_us: the part of databases. idle: it is the
 * last call for the account. */
typedef void vl_backends_charge_fn(void *data, apr_uint32_t account, apr_uint64_t us,
                                   apr_uint64_t database_us, vl_cost_by_e by, int idle);
/* `spend` is called for each account and back end: us since the last call. *entry is the
 * callee's, 0 at first. */
typedef void vl_backends_spend_fn(void *data, apr_uint32_t *entry, apr_uint32_t account,
                                  const char *address, apr_uint64_t us);
void vl_backends_charge(vl_backends_t *b, apr_int64_t now_us, vl_backends_charge_fn *charge,
                        vl_backends_spend_fn *spend, void *data);

/* Calls `tell` for each account that uses a back end whose processes are all busy, and in whose backlog requests have
 * been seen for VL_BACKLOG_US. serving: requests of the account that the processes serve; waiting: in the backlog. */
#define VL_BACKLOG_US 500000
typedef void vl_backends_backlog_fn(void *data, apr_uint32_t account, const char *address, apr_uint32_t serving,
                                    apr_uint32_t waiting);
void vl_backends_backlogs(vl_backends_t *b, vl_backends_backlog_fn *tell, void *data);

/* Calls `call` for each connection to Apache itself that a request was seen to wait for in
 * this round. key: of the connection (vl_own.h). apart: address of a client that has another one than the server, or
 * NULL. account: the request's, VL_NO_ACCOUNT if it may be one
 * of several. */
typedef void vl_backends_call_fn(void *data, apr_uint32_t key, const vl_ip_t *apart, apr_uint32_t account);
void vl_backends_calls(const vl_backends_t *b, vl_backends_call_fn *call, void *data);
/* Returns the number of processes that are watched. */
apr_uint32_t vl_backends_processes(const vl_backends_t *b);
/* Returns the number of back ends on this machine without a process that was found. Calls `name`
 * once for each address that is in use and not found for VL_UNFOUND_US. */
#define VL_UNFOUND_US (5 * APR_USEC_PER_SEC)
typedef void vl_backends_name_fn(const char *address);
apr_uint32_t vl_backends_unfound(vl_backends_t *b, vl_backends_name_fn *name);
/* Copies the address of a database in use whose sessions cannot be seen, and the reason, or "".
 * Calls `say` when it begins and when the reason changes. */
typedef void vl_backends_unread_fn(const char *address, const char *why);
void vl_backends_unread(vl_backends_t *b, vl_backends_unread_fn *say, char *ret_text, size_t size);

#endif
