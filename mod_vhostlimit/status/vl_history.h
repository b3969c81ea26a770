/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HISTORY_H
#define VL_HISTORY_H

/* Reads the history file (base/vl_history_format.h), which another process writes at the same
 * time.  Any thread may open it, each for itself; there is no lock. */

#include <apr_pools.h>

#include "base/vl_history_format.h"

typedef struct vl_history_t vl_history_t;

/* Opens the file for the figures of one site, until p is cleared.  name NULL: those of the
 * whole server.  Returns NULL if there is no file, if this process may not read it, if it is
 * not a history of this version, or if it does not have the site. */
vl_history_t *vl_history_open(apr_pool_t *p, const char *path, const char *name);

/* Reads a minute.  Returns the seconds that its figures were counted; 0: there are none. */
uint32_t vl_history_read(const vl_history_t *history, uint32_t minute,
                         uint64_t figures[VL_HISTORY_FIGURE_COUNT]);

#endif
