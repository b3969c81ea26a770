/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_exempt.h"

#include <ap_expr.h>
#include <apr_strings.h>
#include <http_config.h>

#include "vl_conf.h"
#include "vl_head.h"

const char *vl_exempt_wrong(apr_pool_t *p, const char *text)
{
    ap_regex_t *lookup = ap_pregcomp(p, "(^|[^[:alnum:]_])-[UF][[:space:]]",
                                     AP_REG_EXTENDED | AP_REG_NOSUB);

    return !ap_regexec(lookup, text, 0, NULL, 0)
           ? "the operators -U and -F cannot be used here" : NULL;
}

int vl_exempt(request_rec *r)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    const char *failed = NULL;
    int yes = conf->exempt ? ap_expr_exec(r, conf->exempt, &failed) : 0;

    if (failed)
        ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, VLOGNO(0014)
                      "VhostLimitExempt of vhost %s: %s", conf->account_name,
                      failed);
    return yes > 0 && !failed;
}

static char *ip_of(apr_pool_t *p, apr_sockaddr_t *address)
{
    char *ip = NULL;

    address->pool = p;
    return apr_sockaddr_ip_get(&ip, address) == APR_SUCCESS
           ? ip : apr_pstrdup(p, "");
}

static conn_rec *scratch_conn(apr_pool_t *p, server_rec *s,
                              apr_sockaddr_t *local, apr_sockaddr_t *remote)
{
    conn_rec *c = apr_pcalloc(p, sizeof(*c));

    c->pool = p;
    c->base_server = s;
    c->local_addr = local;
    c->local_ip = ip_of(p, local);
    c->client_addr = remote;
    c->client_ip = ip_of(p, remote);
    c->conn_config = ap_create_conn_config(p);
    c->notes = apr_table_make(p, 1);
    return c;
}

static request_rec *scratch_request(conn_rec *c, server_rec *s)
{
    request_rec *r = apr_pcalloc(c->pool, sizeof(*r));

    r->pool = c->pool;
    r->connection = c;
    r->server = s;
    r->status = HTTP_OK;
    r->useragent_addr = c->client_addr;
    r->useragent_ip = c->client_ip;
    r->per_dir_config = s->lookup_defaults;
    r->request_config = ap_create_request_config(r->pool);
    r->headers_in = apr_table_make(r->pool, 16);
    r->headers_out = apr_table_make(r->pool, 1);
    r->err_headers_out = apr_table_make(r->pool, 1);
    r->subprocess_env = apr_table_make(r->pool, 1);
    r->notes = apr_table_make(r->pool, 1);
    r->filename = r->canonical_filename = apr_pstrdup(r->pool, "");
    return r;
}

/* 0: its path cannot be one. */
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

static void set_field(void *data, const char *name, char *value)
{
    request_rec *r = data;

    apr_table_mergen(r->headers_in, name, value);
    if (!ap_cstr_casecmp(name, "Host"))
        r->hostname = value;
}

int vl_exempt_early(apr_pool_t *p, server_rec *s, const char *bytes,
                    apr_size_t len, apr_sockaddr_t *local,
                    apr_sockaddr_t *remote)
{
    request_rec *r = scratch_request(scratch_conn(p, s, local, remote), s);
    vl_head_t head;

    return vl_head_parse(vl_head_copy(p, bytes, len), &head, set_field, r)
           && set_target(r, &head) && vl_exempt(r);
}
