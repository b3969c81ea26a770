/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vl_out.h"

#include <stdarg.h>

#include <apr_strings.h>
#include <http_protocol.h>

vl_out_t *vl_out_to_memory(apr_pool_t *p)
{
    vl_out_t *out = apr_palloc(p, sizeof(*out));

    memset(out, 0, APR_OFFSETOF(vl_out_t, buf));
    out->pool = p;
    return out;
}

vl_out_t *vl_out_to_request(request_rec *r)
{
    vl_out_t *out = vl_out_to_memory(r->pool);

    out->r = r;
    return out;
}

static void write_through(vl_out_t *out, const char *bytes, apr_size_t len)
{
    if (out->r) {
        ap_rwrite(bytes, (int)len, out->r);
        return;
    }
    /* At least doubles the size of the memory when it is full. */
    if (out->memory_len + len > out->memory_size) {
        char *more;

        out->memory_size = 2 * (out->memory_len + len);
        more = apr_palloc(out->pool, out->memory_size);
        if (out->memory_len)
            memcpy(more, out->memory, out->memory_len);
        out->memory = more;
    }
    memcpy(out->memory + out->memory_len, bytes, len);
    out->memory_len += len;
}

void vl_out_flush(vl_out_t *out)
{
    if (out->len)
        write_through(out, out->buf, out->len);
    out->len = 0;
}

const char *vl_out_memory(vl_out_t *out, apr_size_t *ret_len)
{
    vl_out_flush(out);
    *ret_len = out->memory_len;
    return out->memory;
}

static void put(vl_out_t *out, char c)
{
    if (out->len == sizeof(out->buf))
        vl_out_flush(out);
    out->buf[out->len++] = c;
}

void vl_out_text(vl_out_t *out, const char *text)
{
    apr_size_t len = strlen(text);

    if (len > sizeof(out->buf) - out->len)
        vl_out_flush(out);
    if (len > sizeof(out->buf)) {
        write_through(out, text, len);
        return;
    }
    memcpy(out->buf + out->len, text, len);
    out->len += len;
}

void vl_out_printf(vl_out_t *out, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    apr_vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    vl_out_text(out, text);
}

void vl_out_fixed(vl_out_t *out, apr_uint64_t n, int decimals)
{
    char digits[32], *at = digits + sizeof(digits);
    int i;

    *--at = '\0';
    for (i = 0; n || i <= decimals; i++) {
        if (decimals && i == decimals)
            *--at = '.';
        *--at = (char)('0' + n % 10);
        n /= 10;
    }
    vl_out_text(out, at);
}

void vl_out_number(vl_out_t *out, const char *before, apr_uint64_t n)
{
    vl_out_text(out, before);
    vl_out_fixed(out, n, 0);
}

void vl_out_json(vl_out_t *out, const char *before, const char *text)
{
    vl_out_text(out, before);
    put(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x20 || c > 0x7e || c == '<' || c == '>' || c == '&')
            vl_out_printf(out, "\\u%04x", c);
        else {
            if (c == '"' || c == '\\')
                put(out, '\\');
            put(out, (char)c);
        }
    }
    put(out, '"');
}

void vl_out_label(vl_out_t *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            put(out, '\\');
        if (c == '\n')
            vl_out_text(out, "\\n");
        else if (c < 0x80)
            put(out, (char)c);
        else {                      /* two bytes of UTF-8 */
            put(out, (char)(0xc0 | c >> 6));
            put(out, (char)(0x80 | (c & 0x3f)));
        }
    }
}
