/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HEAD_H
#define VL_HEAD_H

/* A request head taken apart in place, for what has to be told of it before
 * Apache has read it.  Apache judges it; here it only has to be safe. */

#include <apr_pools.h>

typedef struct vl_head_t {
    char *method, *target, *protocol;
} vl_head_t;

/* Of the bytes, the head, up to the empty line or a zero byte: a copy. */
char *vl_head_copy(apr_pool_t *p, const char *bytes, apr_size_t len);

typedef void vl_head_field_fn(void *data, const char *name, char *value);

/* "GET /path?args HTTP/1.1", and `field` is called for each line that has a
 * colon.  0: the first line is not such a one; its target begins with "/". */
int vl_head_parse(char *head, vl_head_t *ret_head, vl_head_field_fn *field,
                  void *data);

#endif
