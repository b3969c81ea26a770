/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONTROL_CLIENTS_H
#define VL_CONTROL_CLIENTS_H

/* The answer to the command "clients" of the control socket: the classes of a site, and its
 * clients that used most CPU time while requests waited, and how much of the queue one of them
 * has.  Addresses are personal data; only
 * root can read the control socket, and the module writes them nowhere else.  No lock: the
 * numbers need not be consistent. */

#include <httpd.h>

#include "base/vl_out.h"
#include "core/vl_shm.h"

/* Most clients in an answer. */
#define VL_CONTROL_CLIENTS_MAX 50

/* host: one host of the site (VhostLimitAccounts Host), or NULL. */
void vl_control_clients_json(vl_out_t *out, const vl_shm_t *shm, const server_rec *s,
                             const char *host);

#endif
