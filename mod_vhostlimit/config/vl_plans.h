/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PLANS_H
#define VL_PLANS_H

/* Plans (VhostLimitPlan): limits that sites share by name.  A limit of the site itself goes
 * before that of its plan, and the plan before the defaults of the server.
 * vhostlimitctl may change a plan while the server runs, as it may change a site; what it
 * has changed survives restarts in vl_plans_kept_t.  docs/design/014 has the reasons.
 * Parent only: its main thread while it reads the configuration, the control thread after
 * that.  There is no lock, because both never run at the same time. */

#include <apr_errno.h>
#include <httpd.h>

#include "core/vl_override.h"

/* What a plan sets now, and what it sets in the configuration.  VL_VALUE_UNSET: it leaves
 * that limit alone. */
typedef struct vl_plan_state_t {
    const char *name;
    vl_override_t override;
    int is_configured;          /* 1: the configuration that was read last has the plan */
    struct vl_plan_state_t *next;
} vl_plan_state_t;

/* State that survives restarts, initially all zero. */
typedef struct vl_plans_kept_t {
    vl_plan_state_t *first;
} vl_plans_kept_t;

/* Parent, in check_config: finds the plan of each server.  On an error logs the place and
 * returns APR_EINVAL. */
apr_status_t vl_plans_find(server_rec *main_server);

/* Parent: applies what vhostlimitctl has changed in plans to the configured limits of their
 * sites.  Must run before the accounts are entered. */
void vl_plans_post_config(vl_plans_kept_t *kept, server_rec *main_server);

/* Returns the value that a site of a plan has in the configuration when the plan has these
 * values. */
apr_int64_t vl_plans_value(const server_rec *s, const vl_values_t *plan, vl_key_e key);

#endif
