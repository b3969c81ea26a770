/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_OUT_H
#define VL_OUT_H

/* Fast output of a page that may have a hundred thousand lines: one buffer, numbers without
 * printf(), and the escape functions of each format.  Names need not be valid UTF-8: a byte
 * above 126 is written as the character with that number.  There is no lock: only one
 * thread may use a vl_out_t. */

#include <httpd.h>

typedef struct vl_out_t {
    apr_pool_t *pool;
    request_rec *r;             /* NULL: output to memory */
    char *memory;
    apr_size_t memory_len, memory_size;
    apr_size_t len;
    char buf[16384];
} vl_out_t;

/* Output to the client of the request.  vl_out_flush() must follow at the end. */
vl_out_t *vl_out_to_request(request_rec *r);
/* Output to memory in p; vl_out_memory() must follow at the end and returns it. */
vl_out_t *vl_out_to_memory(apr_pool_t *p);
const char *vl_out_memory(vl_out_t *out, apr_size_t *ret_len);

/* Writes the content of the buffer. */
void vl_out_flush(vl_out_t *out);
void vl_out_text(vl_out_t *out, const char *text);
/* For at most 1023 bytes of output; a longer output is truncated.  Does not escape. */
void vl_out_printf(vl_out_t *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Writes `before`, then the number. */
void vl_out_number(vl_out_t *out, const char *before, apr_uint64_t n);
/* Writes n / 10^decimals: vl_out_fixed(out, 1234, 3) is 1.234. */
void vl_out_fixed(vl_out_t *out, apr_uint64_t n, int decimals);

/* Writes `before`, then a JSON string with its quotes (RFC 8259), which is safe in a script element
 * too. */
void vl_out_json(vl_out_t *out, const char *before, const char *text);
/* Writes the value of a Prometheus label without its quotes, as UTF-8. */
void vl_out_label(vl_out_t *out, const char *text);

#endif
