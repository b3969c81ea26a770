/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_exempt.h"

#include <ap_expr.h>
#include <apr_strings.h>
#include <http_config.h>

#include "config/vl_conf.h"
#include "base/vl_head.h"
#include "config/vl_scratch.h"

int vl_exempt(request_rec *r)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    const char *failed = NULL;
    int yes = conf->exempt ? ap_expr_exec(r, conf->exempt, &failed) : 0;

    if (failed)
        ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, VLOGNO(0014)
                      "VhostLimitExempt of site %s: %s; the request is not exempt",
                      conf->site->name, failed);
    return yes > 0 && !failed;
}

/* Sets the request line of the scratch request.  Returns 0 if the path cannot be
 * decoded. */
static int set_target(request_rec *r, const vl_head_t *head)
{
    char *uri = head->target;

    r->the_request = apr_pstrcat(r->pool, head->method, " ", uri, " ",
                                 head->protocol, NULL);
    r->method = head->method;
    r->protocol = head->protocol;
    r->unparsed_uri = apr_pstrdup(r->pool, uri);
    r->args = strchr(uri, '?');
    if (r->args)
        *r->args++ = '\0';
    if (ap_unescape_url(uri) != OK)
        return 0;
    r->uri = uri;
    ap_getparents(r->uri);
    return 1;
}

/* Callback of vl_head_parse(): adds one header field. */
static void set_field(void *data, const char *name, char *value)
{
    request_rec *r = data;

    apr_table_mergen(r->headers_in, name, value);
    if (!ap_cstr_casecmp(name, "Host"))
        r->hostname = value;
}

request_rec *vl_exempt_scratch(apr_pool_t *p, server_rec *s, const char *bytes,
                               apr_size_t len, apr_sockaddr_t *local,
                               apr_sockaddr_t *remote)
{
    request_rec *r = vl_scratch_request(p, s, local, remote);
    vl_head_t head;

    return vl_head_parse(vl_head_copy(p, bytes, len), &head, set_field, r)
           && set_target(r, &head) ? r : NULL;
}
