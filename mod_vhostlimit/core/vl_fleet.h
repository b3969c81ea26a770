/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_FLEET_H
#define VL_FLEET_H

/* Leases of vhostlimit-fleet: the weight of a site on this server, and its parts of limits
 * over many servers (docs/design/016-fleet.md). The daemon renews all leases together. If it
 * does not, they end together, and the configured limits hold again.
 *
 * This file owns head.fleet. A weight that vhostlimitctl has set replaces a leased one.
 * The hosts of a site (vl_hosts.h) have its leases.
 * Lock: the segment lock, which the functions take themselves. The control thread of the
 * parent calls them. */

#include "core/vl_shm.h"

/* The most that a lease lasts, us. */
#define VL_FLEET_LEASE_MAX_US 10000000

/* What the daemon has to know about a site. */
typedef struct vl_fleet_reading_t {
    const char *name;               /* in the segment */
    apr_uint32_t account;
    vl_limits_t limits;             /* as configured or set, without leases */
    apr_uint64_t charged_us;        /* counter: CPU time */
    apr_uint64_t backlog_us;        /* counter: time in which a request waited */
    apr_uint32_t requests;          /* that run or wait */
    int has_hosts;                  /* the numbers include those of its hosts (vl_hosts.h) */
    int is_active;                  /* it had requests in the last seconds */
} vl_fleet_reading_t;

typedef struct vl_fleet_lease_t {
    apr_uint32_t account;
    vl_part_t part;
} vl_fleet_lease_t;

typedef struct vl_fleet_state_t {
    apr_int64_t until_us;           /* end of the leases; 0: there are none */
    apr_uint64_t renewed;           /* how often they were made or renewed */
    apr_uint64_t lapsed;            /* how often they have ended for want of a renewal */
} vl_fleet_state_t;

/* Number of the configuration. Accounts keep their numbers until it changes. */
apr_uint32_t vl_fleet_generation(const vl_shm_t *shm);

/* Reads sites with VhostLimit On from account *number on and advances *number; it is 0 again when
 * all have been read. all 0: only those with requests in the last seconds. Returns how
 * many, at most VL_FLEET_READINGS. */
#define VL_FLEET_READINGS 64
apr_size_t vl_fleet_read(vl_shm_t *shm, int all, apr_uint32_t *number,
                         vl_fleet_reading_t ret_readings[VL_FLEET_READINGS]);

/* Makes n leases and renews all others until until_us. A weight above the site's own is
 * reduced to it. Returns APR_EMISMATCH if the generation is not the current one, APR_EINVAL
 * if there is no such account. */
apr_status_t vl_fleet_lease(vl_shm_t *shm, apr_uint32_t generation, apr_int64_t until_us,
                            const vl_fleet_lease_t leases[], apr_size_t n);

/* Ends all leases if they are due. Returns 1 if it has done so. */
int vl_fleet_expire(vl_shm_t *shm, apr_int64_t now_us);

/* Copies the state. */
vl_fleet_state_t vl_fleet_state(vl_shm_t *shm);

#endif
