/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_OUT_H
#define VL_OUT_H

/* Output of a page that may have a hundred thousand lines: one buffer, numbers
 * without printf, and the escapes of each format.  Names need not be UTF-8:
 * bytes above 126 come out as the character of the same number. */

#include <httpd.h>

typedef struct vl_out_t {
    apr_pool_t *pool;
    request_rec *r;             /* NULL: it goes into memory */
    char *memory;
    apr_size_t memory_len, memory_size;
    apr_size_t len;
    char buf[16384];
} vl_out_t;

vl_out_t *vl_out_to_request(request_rec *r);
/* All of it stays in p; vl_out_memory() ends it. */
vl_out_t *vl_out_to_memory(apr_pool_t *p);
const char *vl_out_memory(vl_out_t *out, apr_size_t *ret_len);

void vl_out_flush(vl_out_t *out);
void vl_out_text(vl_out_t *out, const char *text);
/* For a few hundred bytes at most, escapes done. */
void vl_out_printf(vl_out_t *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void vl_out_number(vl_out_t *out, apr_uint64_t n);
/* n / 10^decimals: vl_out_fixed(out, 1234, 3) is 1.234. */
void vl_out_fixed(vl_out_t *out, apr_uint64_t n, int decimals);

/* In element content or in an attribute's double quotes. */
void vl_out_html(vl_out_t *out, const char *text);
/* With its quotes (RFC 8259); fit for a script element as well. */
void vl_out_json(vl_out_t *out, const char *text);
/* The value of a label, without its quotes. */
void vl_out_label(vl_out_t *out, const char *text);

#endif
