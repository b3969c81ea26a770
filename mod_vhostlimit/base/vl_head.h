/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HEAD_H
#define VL_HEAD_H

/* Parses a request head in place, before httpd reads it, in order to find the site and the
 * exemption of a connection.  httpd checks the syntax later; this parser must only be safe
 * for any input.  The functions keep no state and need no lock. */

#include <apr_pools.h>

typedef struct vl_head_t {
    char *method, *target, *protocol;
} vl_head_t;

/* Returns a copy of the head: the bytes up to the empty line or a zero byte, allocated in
 * p. */
char *vl_head_copy(apr_pool_t *p, const char *bytes, apr_size_t len);

/* Called for each header field. */
typedef void vl_head_field_fn(void *data, const char *name, char *value);

/* Parses a request line such as "GET /path?args HTTP/1.1" and calls `field` for each
 * following line that has a colon.  Modifies `head`.  Returns 0 if the first line is not a
 * request line with a target that begins with "/". */
int vl_head_parse(char *head, vl_head_t *ret_head, vl_head_field_fn *field,
                  void *data);

#endif
