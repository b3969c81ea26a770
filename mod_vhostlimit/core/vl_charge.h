/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CHARGE_H
#define VL_CHARGE_H

/* What requests are charged: the CPU time of their threads; of work done by
 * back ends what their group has burned, where that is measured, and otherwise
 * what a clock says. */

#include "core/vl_shm.h"

typedef struct vl_cost_t {
    apr_uint64_t busy_us;       /* from being let in to being done */
    apr_uint64_t cpu_us;        /* of Apache's thread */
    int elsewhere;              /* worked on elsewhere since ... */
    apr_uint64_t elsewhere_from;    /* ... this reading of the clock */
    apr_uint64_t paid_us;       /* of all that: vl_charge_pay() had it */
    int grouped;                /* elsewhere: surely in the account's group */
} vl_cost_t;

/* The request is handed to a back end (PHP-FPM, CGI, a proxied server), which
 * burns CPU that its thread's clock does not see.  Returns the reading of the
 * clock to be given to vl_slot_end(). */
apr_uint64_t vl_charge_elsewhere(vl_shm_t *shm, apr_int64_t now_us);

/* The back end waits for the client as well, and goes on. pause returns what go_on
 * takes, and go_on a new reading of the clock in place of `from`. */
apr_uint64_t vl_charge_elsewhere_pause(vl_shm_t *shm, apr_int64_t now_us,
                                       apr_uint64_t from);
apr_uint64_t vl_charge_elsewhere_go_on(vl_shm_t *shm, apr_int64_t now_us,
                                       apr_uint64_t done);

/* What has been done elsewhere since that reading; 0 for an account whose back
 * ends are measured: they are charged by vl_charge_usage(). */
apr_uint64_t vl_charge_so_far(vl_shm_t *shm, apr_uint32_t account,
                              apr_uint64_t from);
/* Charges a request of the account for a part of its work. */
void vl_charge_pay(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us);

/* Some ten times a second, in every child.  1: the caller is the one that reads
 * what back ends have used, for now.  Accounts with a cap get their credit. */
int vl_charge_reads_usage(vl_shm_t *shm, apr_int64_t now_us);
/* The processes in the account's group have used so much CPU in all: measured,
 * not estimated.  It is charged.  resident: its back ends are among them, so
 * that their requests need not be charged by the clock. */
void vl_charge_usage(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t us,
                     int resident);

/* Requests have lately been worked on by back ends that no group measures: they are
 * outside of the tree. */
int vl_charge_has_outside(const vl_shm_t *shm, apr_int64_t now_us);

/* The kernel has killed so many of them for memory in all, since the group was
 * made.  vl_watch.h tells of those that are new. */
void vl_charge_kills(vl_shm_t *shm, apr_uint32_t account, apr_uint64_t kills);

#endif
