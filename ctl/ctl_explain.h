/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_EXPLAIN_H
#define CTL_EXPLAIN_H

#include "ctl_status.h"

/* Returns why requests of the site are queued or refused: an object of its name (vhost), its
 * state, the names of the causes, and sentences. */
json_t *ctl_explain_make(const ctl_status_t *status, const ctl_vhost_t *vhost);

#endif
