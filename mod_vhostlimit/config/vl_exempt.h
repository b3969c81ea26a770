/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_EXEMPT_H
#define VL_EXEMPT_H

/* VhostLimitExempt: requests that are never queued and never refused, such as the
 * requests of a health check.  The functions keep no state and need no lock; any thread
 * of a child process may call them. */

#include <httpd.h>

/* Evaluates the expression of the request's vhost.  Returns 1 if the request is exempt.  An
 * expression that fails exempts no request.  sent: see vl_seen.h. */
int vl_exempt(request_rec *r, apr_table_t *sent);

#endif
