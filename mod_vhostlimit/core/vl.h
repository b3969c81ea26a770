/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_H
#define VL_H

/* Types shared by all layers: modes, reasons, limits. The core (libvlcore in
 * Makefile.am) depends on APR and the kernel, never on httpd. No state, no lock. */

#include <apr.h>

#include "core/vl_clients.h"

typedef enum {
    VL_MODE_OFF,
    VL_MODE_ON,
    VL_MODE_DRYRUN          /* decide and count, but refuse and delay nothing */
} vl_mode_e;

typedef enum {
    VL_REASON_NONE,         /* it is not refused */
    VL_REASON_CONCURRENCY,  /* VhostLimitConcurrency is reached */
    VL_REASON_QUEUE,        /* VhostLimitQueue is reached */
    VL_REASON_TIMEOUT,      /* the queue timeout of VhostLimitQueue has passed */
    VL_REASON_ERROR,        /* could not be counted, VhostLimitOnError closed */
    VL_REASON_GONE          /* the client closed the connection while it was queued */
} vl_reason_e;

/* How the CPU time of an account's back ends is found, beyond that of Apache's threads. */
typedef enum {
    VL_COST_THREAD,         /* no back end so far */
    VL_COST_PROCESSES,      /* the sampler measures its processes */
    VL_COST_UNKNOWN,        /* a back end on this machine was not found: it is not charged */
    VL_COST_REMOTE          /* its back ends are on other machines */
} vl_cost_by_e;

/* The limits of one account. In shared memory, so that a change reaches every child,
 * including those of old generations. */
typedef struct vl_limits_t {
    vl_mode_e mode;
    apr_uint32_t weight;            /* 1 to 10000 */
    apr_uint32_t concurrency;       /* most requests running, 0 = no limit */
    apr_uint32_t queue;             /* most requests queued */
    apr_uint32_t cpu;               /* % of one processor, 0 = no cap */
} vl_limits_t;

/* What vhostlimit-fleet leases to a site (vl_fleet.h): its weight on this server, and its
 * parts of limits over many servers. 0: none; the limits above hold alone. */
typedef struct vl_part_t {
    apr_uint32_t weight_milli;      /* thousandths; replaces the weight */
    apr_uint32_t cpu_permille;      /* of one processor; the smaller cap holds */
    apr_uint32_t concurrency;       /* the smaller limit holds */
} vl_part_t;

/* A slot that is held. Release it once with vl_slot_end(). */
typedef struct vl_ticket_t {
    apr_uint32_t account;
    apr_uint32_t charged;       /* estimated cost charged at the start, us */
    int stream;                 /* 1: an HTTP/2 stream, see vl_slot_is_stream() */
    int call;                   /* 1: see VL_ASK_CALL */
    apr_uint32_t caller;        /* 1 + the account whose request waits for this one, and which is
                                 * charged for it; 0: none that is known */
    vl_client_id_t client;      /* the client that was charged client_us in
                                 * advance */
    apr_uint32_t client_us;
} vl_ticket_t;

/* Returns the account that is charged for the request. */
static inline apr_uint32_t vl_ticket_payer(const vl_ticket_t *ticket)
{
    return ticket->caller ? ticket->caller - 1 : ticket->account;
}

/* Returns a moving average with a factor of 1/8 per sample, like TCP's smoothed round-trip
 * time (RFC 6298, alpha). */
static inline apr_uint32_t vl_average(apr_uint32_t average,
                                      apr_uint64_t sample)
{
    if (sample > APR_UINT32_MAX)
        sample = APR_UINT32_MAX;
    return (apr_uint32_t)(((apr_uint64_t)average * 7 + sample) / 8);
}

/* Size of the longest account name with its terminating NUL: a DNS name (253), a port if the
 * name is an address, and "#n" for sites of the same name. */
#define VL_NAME_SIZE 280

#endif
