/* SPDX-License-Identifier: Apache-2.0 */
/* The handler, and the page in HTML, which is the same for all requests but for its nonce. */
#include "config.h"

#include "status/vl_status.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <httpd.h>
#include <http_config.h>
#include <http_protocol.h>

#include "status/vl_status_int.h"
#include "vl_status_page.h"

/* Sets the Content-Security-Policy: the browser runs only the style and the script of this
 * page, which carry a random nonce.  Returns the nonce. */
static const char *set_policy(request_rec *r)
{
    unsigned char random[16];
    char *nonce = apr_palloc(r->pool, sizeof(random) * 2 + 1);

    if (apr_generate_random_bytes(random, sizeof(random)) != APR_SUCCESS)
        ap_random_insecure_bytes(random, sizeof(random));
    ap_bin2hex(random, sizeof(random), nonce);
    apr_table_setn(r->headers_out, "Content-Security-Policy",
                   apr_psprintf(r->pool, "default-src 'none'; script-src "
                                "'nonce-%s'; style-src 'nonce-%s'; "
                                "connect-src 'self'; img-src data:; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'self'",
                                nonce, nonce));
    apr_table_setn(r->headers_out, "Referrer-Policy", "no-referrer");
    return nonce;
}

static void put_html(vl_out_t *out, const char *nonce)
{
    vl_out_printf(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                  "<title>vhostlimit</title>\n"
                  "<meta name=\"viewport\" content=\"width=device-width\">\n"
                  "<link rel=\"icon\" href=\"data:,\">\n<style nonce=\"%s\">\n", nonce);
    vl_out_text(out, page_style);
    vl_out_text(out, "</style></head>\n<body>\n");
    vl_out_text(out, page_body);
    vl_out_printf(out, "<script nonce=\"%s\">\n", nonce);
    vl_out_text(out, page_script);
    vl_out_text(out, "</script></body></html>\n");
}

static const struct format_t {
    const char *word, *content_type;
    vl_status_format_fn write;
} formats[] = {
    { "json", "application/json", vl_status_json },
    { "prometheus", "text/plain; version=0.0.4; charset=utf-8",
      vl_status_prom },
    { NULL, "text/html; charset=utf-8", NULL }
};

/* Returns 1 if the query string has the keyword.  Keywords are separated by '&'.  A '=' may
 * follow: Prometheus appends it to a parameter without a value. */
static int has_keyword(request_rec *r, const char *word)
{
    const char *at = r->args;
    apr_size_t len = strlen(word);

    for (; at; at = ap_strchr_c(at, '&')) {
        at += *at == '&';
        if (!strncmp(at, word, len)
            && (!at[len] || at[len] == '&' || at[len] == '='))
            return 1;
    }
    return 0;
}

static __attribute__((noinline)) int answer(request_rec *r)
{
    const struct format_t *format = formats;
    const char *nonce;
    int is_me;
    vl_out_t *out;

    r->allowed = AP_METHOD_BIT << M_GET;
    if (r->method_number != M_GET)
        return DECLINED;
    is_me = has_keyword(r, "me");
    while (format->word && !has_keyword(r, format->word))
        format++;
    nonce = format->write ? NULL : set_policy(r);
    ap_set_content_type(r, format->content_type);
    apr_table_setn(r->headers_out, "Cache-Control", "no-store");
    apr_table_setn(r->headers_out, "X-Content-Type-Options", "nosniff");
    if (r->header_only)
        return OK;
    out = vl_out_to_request(r);
    if (format->write)
        format->write(out, vl_status_gather(r->pool, is_me ? r->server : NULL,
                                            is_me ? r->hostname : NULL));
    else
        put_html(out, nonce);
    vl_out_flush(out);
    return OK;
}

static int status_handler(request_rec *r)
{
    return r->handler && *r->handler == 'v' && !strcmp(r->handler, "vhostlimit-status")
           ? answer(r) : DECLINED;
}

void vl_status_register(apr_pool_t *p)
{
    ap_hook_handler(status_handler, NULL, NULL, APR_HOOK_MIDDLE);
}
