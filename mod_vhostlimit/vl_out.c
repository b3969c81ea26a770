/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_out.h"

#include <stdarg.h>

#include <apr_strings.h>
#include <http_protocol.h>

void vl_out_flush(vl_out_t *out)
{
    if (out->len)
        ap_rwrite(out->buf, (int)out->len, out->r);
    out->len = 0;
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
        ap_rwrite(text, (int)len, out->r);
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

void vl_out_number(vl_out_t *out, apr_uint64_t n)
{
    vl_out_fixed(out, n, 0);
}

static int is_plain(unsigned char c)
{
    return c >= 0x20 && c <= 0x7e;
}

void vl_out_html(vl_out_t *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (!is_plain(c) || c == '<' || c == '>' || c == '&' || c == '"'
            || c == '\'')
            vl_out_printf(out, "&#%u;", c);
        else
            put(out, (char)c);
    }
}

void vl_out_json(vl_out_t *out, const char *text)
{
    put(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (!is_plain(c) || c == '<' || c == '>' || c == '&')
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
        else {                      /* UTF-8 */
            put(out, (char)(0xc0 | c >> 6));
            put(out, (char)(0x80 | (c & 0x3f)));
        }
    }
}
