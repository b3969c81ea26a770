/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_MODULES_H
#define VL_MODULES_H

/* Lists the loaded modules and the order of their hooks, for "vhostlimitctl doctor".  Reads
 * data of httpd that does not change after post_config, so it needs no lock. */

#include "base/vl_out.h"

/* Writes {"modules":[...],"hooks":{"post_read_request":[...],...}}.  A module is named by
 * its source file.  The modules of a hook are in the order of the calls. */
void vl_modules_json(vl_out_t *out);

#endif
