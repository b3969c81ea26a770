/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_OVERRIDE_H
#define VL_OVERRIDE_H

/* Overrides: limits changed while the server runs. Records which limits of an account
 * differ from the configuration, and the configured values. Pure. Lock: the caller's (the
 * segment lock). */

#include "core/vl.h"

#define VL_KEYS(X) X(weight) X(concurrency) X(queue) X(cpu)

typedef enum {
#define X(key) VL_KEY_##key,
    VL_KEYS(X)
#undef X
    VL_KEY_COUNT
} vl_key_e;

#define VL_KEY_BIT(key) (1u << (key))
#define VL_KEY_ALL (VL_KEY_BIT(VL_KEY_COUNT) - 1)

typedef struct vl_override_t {
    unsigned keys;              /* VL_KEY_BIT() of the overridden limits */
    vl_limits_t configured;
} vl_override_t;

typedef struct vl_change_t {
    unsigned set, reset;        /* VL_KEY_BIT(); no bit is in both */
    vl_limits_t limits;         /* values for the bits in set */
} vl_change_t;

const char *vl_override_key_name(vl_key_e key);
/* Returns the key of that name, or VL_KEY_COUNT if there is none. */
vl_key_e vl_override_key(const char *name);

apr_uint32_t vl_override_get(const vl_limits_t *limits, vl_key_e key);
void vl_override_put(vl_limits_t *limits, vl_key_e key, apr_uint32_t value);

/* Applies a change to *limits. */
void vl_override_change(vl_override_t *state, const vl_change_t *change,
                        vl_limits_t *limits);
/* Applies a new configuration to *limits. Limits whose configured value has changed are no
 * longer overridden. */
void vl_override_configure(vl_override_t *state,
                           const vl_limits_t *configured, vl_limits_t *limits);

#endif
