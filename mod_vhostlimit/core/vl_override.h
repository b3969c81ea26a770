/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_OVERRIDE_H
#define VL_OVERRIDE_H

/* Overrides: limits changed while the server runs. Records the configured value of each
 * limit, which limits differ from it, and when a change ends. Each site and each plan has
 * such a record. Pure; times are an argument. Lock: the caller's (the segment lock for
 * sites). */

#include "core/vl.h"

/* The first VL_KEYS_ADMITTED are in vl_limits_t too. The kernel enforces the others. */
#define VL_KEYS(X) X(weight) X(concurrency) X(queue) X(cpu) X(memory) X(processes) X(io)

typedef enum {
#define X(key) VL_KEY_##key,
    VL_KEYS(X)
#undef X
    VL_KEY_COUNT
} vl_key_e;

#define VL_KEYS_ADMITTED (VL_KEY_cpu + 1)

#define VL_KEY_BIT(key) (1u << (key))
#define VL_KEY_ALL (VL_KEY_BIT(VL_KEY_COUNT) - 1)

/* A plan does not set this limit. */
#define VL_VALUE_UNSET (-1)

typedef struct vl_values_t {
    apr_int64_t of[VL_KEY_COUNT];
} vl_values_t;

typedef struct vl_override_t {
    unsigned keys;              /* VL_KEY_BIT() of the overridden limits */
    unsigned timed;             /* those of them that end at until_us */
    unsigned earlier_keys;      /* those of `timed` that were overridden before, by `earlier` */
    vl_values_t configured, now, earlier;
    apr_int64_t until_us[VL_KEY_COUNT];     /* monotonic clock; valid for `timed` */
} vl_override_t;

/* A change. No bit is in two of the sets. */
typedef struct vl_change_t {
    unsigned set, reset;        /* VL_KEY_BIT() */
    unsigned configure;         /* limits whose configured value becomes that in `values`;
                                 * overridden ones stay overridden */
    vl_values_t values;         /* for the bits in set and configure */
    apr_int64_t until_us;       /* when limits in `set` end; 0: they last */
    apr_int64_t expire_us;      /* overrides that end until then end now; 0: none */
} vl_change_t;

const char *vl_override_key_name(vl_key_e key);
/* Returns the key of that name, or VL_KEY_COUNT if there is none. */
vl_key_e vl_override_key(const char *name);

/* Returns the limits that admission enforces. */
vl_limits_t vl_override_limits(vl_mode_e mode, const vl_values_t *values);

/* Limits what vhostlimit-fleet leases: a weight that vhostlimitctl has set replaces a leased one, and
 * a lease never raises the weight. */
void vl_override_limit_part(const vl_override_t *state, vl_part_t *part);
/* Applies a change to state->now. */
void vl_override_change(vl_override_t *state, const vl_change_t *change);
/* Applies a new configuration. Limits whose configured value has changed are no longer
 * overridden. */
void vl_override_configure(vl_override_t *state, const vl_values_t *configured);
/* Ends all overrides. */
void vl_override_clear(vl_override_t *state);
/* Returns when the first override ends; 0: all last. */
apr_int64_t vl_override_next_us(const vl_override_t *state);

#endif
