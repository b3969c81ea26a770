/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SEEN_H
#define VL_SEEN_H

/* What VhostLimitExempt, VhostLimitClass and VhostLimitKnown see of a request, in the
 * acceptor's queue and at admission: the request line and the header lines as the client sent
 * them, the path that <Location> compares (decoded and normalized), the address that
 * mod_remoteip finds, and no file, handler, variables or notes. The functions keep no state and need no lock;
 * any thread of a child process may call them. */

#include <httpd.h>

typedef struct vl_seen_t {
    char *uri, *filename;
    const char *handler;
    apr_table_t *headers_in, *headers_out, *err_headers_out, *subprocess_env, *notes;
} vl_seen_t;

/* Makes *r what the directives see, until vl_seen_end(). sent: the header lines as the client
 * sent them. */
void vl_seen_begin(request_rec *r, apr_table_t *sent, vl_seen_t *ret_saved);
void vl_seen_end(request_rec *r, const vl_seen_t *saved);

/* Evaluates VhostLimitExempt of the request's vhost.  Returns 1 if the request is exempt: it is never
 * queued and never refused.  An expression that fails exempts no request. */
int vl_seen_is_exempt(request_rec *r, apr_table_t *sent);

#endif
