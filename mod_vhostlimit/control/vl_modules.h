/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_MODULES_H
#define VL_MODULES_H

/* Who else is in this server, and when they have their say: for vhostlimitctl
 * doctor. */

#include "base/vl_out.h"

/* {"modules":[...],"hooks":{"post_read_request":[...],...}}: names of their
 * source files; those of a hook in the order in which they are called. */
void vl_modules_json(vl_out_t *out);

#endif
