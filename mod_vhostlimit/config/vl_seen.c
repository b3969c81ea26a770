/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_seen.h"

#include <ap_expr.h>
#include <apr_strings.h>
#include <http_config.h>
#include <http_core.h>

#include "config/vl_conf.h"

/* Returns the path as ap_parse_uri() (protocol.c) finds it, and ap_process_request_internal()
 * (request.c) makes it before <Location> is compared. A path that httpd refuses there has some
 * result, which is the same each time. Requests to a forward proxy have another r->uri. */
static char *decoded_path(const request_rec *r)
{
    const core_dir_config *dir = ap_get_core_module_config(r->server->lookup_defaults);
    char *path = apr_pstrdup(r->pool, r->parsed_uri.path ? r->parsed_uri.path
                                      : r->method_number == M_OPTIONS ? "*" : "/");

#if AP_MODULE_MAGIC_AT_LEAST(20120211, 118)
    const core_server_config *server = ap_get_core_module_config(r->server->module_config);
    unsigned flags = AP_NORMALIZE_NOT_ABOVE_ROOT
                     | (server->merge_slashes != AP_CORE_CONFIG_OFF
                        ? AP_NORMALIZE_MERGE_SLASHES : 0);

    ap_normalize_path(path, flags | AP_NORMALIZE_DECODE_UNRESERVED);
    ap_unescape_url_ex(path, AP_UNESCAPE_URL_KEEP_UNRESERVED
                             | (!dir->allow_encoded_slashes ? AP_UNESCAPE_URL_FORBID_SLASHES
                                : !dir->decode_encoded_slashes ? AP_UNESCAPE_URL_KEEP_SLASHES
                                : 0));
    if (dir->allow_encoded_slashes && dir->decode_encoded_slashes)
        ap_normalize_path(path, flags);
#else
    if (dir->allow_encoded_slashes)
        ap_unescape_url_keep2f(path, dir->decode_encoded_slashes);
    else
        ap_unescape_url(path);
    ap_getparents(path);
#endif
    return path;
}

void vl_seen_begin(request_rec *r, apr_table_t *sent, vl_seen_t *ret_saved)
{
    ret_saved->uri = r->uri;
    ret_saved->filename = r->filename;
    ret_saved->handler = r->handler;
    ret_saved->headers_in = r->headers_in;
    ret_saved->headers_out = r->headers_out;
    ret_saved->err_headers_out = r->err_headers_out;
    ret_saved->subprocess_env = r->subprocess_env;
    ret_saved->notes = r->notes;
    r->uri = decoded_path(r);
    r->filename = apr_pstrdup(r->pool, "");
    r->handler = NULL;
    r->headers_in = sent;
    /* ap_expr_exec() adds Vary here. */
    r->headers_out = apr_table_make(r->pool, 1);
    r->err_headers_out = apr_table_make(r->pool, 1);
    r->subprocess_env = apr_table_make(r->pool, 1);
    r->notes = apr_table_make(r->pool, 1);
}

void vl_seen_end(request_rec *r, const vl_seen_t *saved)
{
    r->uri = saved->uri;
    r->filename = saved->filename;
    r->handler = saved->handler;
    r->headers_in = saved->headers_in;
    r->headers_out = saved->headers_out;
    r->err_headers_out = saved->err_headers_out;
    r->subprocess_env = saved->subprocess_env;
    r->notes = saved->notes;
}

int vl_seen_is_exempt(request_rec *r, apr_table_t *sent)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    const char *failed = NULL;
    vl_seen_t saved;
    int yes;

    if (!conf->exempt)
        return 0;
    vl_seen_begin(r, sent, &saved);
    yes = ap_expr_exec(r, conf->exempt, &failed);
    vl_seen_end(r, &saved);
    if (failed)
        ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, VLOGNO(0014)
                      "VhostLimitExempt of site %s: %s; the request is not exempt",
                      conf->site->name, failed);
    return yes > 0 && !failed;
}
