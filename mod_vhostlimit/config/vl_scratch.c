/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_scratch.h"

#include <apr_strings.h>
#include <http_config.h>
#include <http_core.h>

/* An upper bound of the request notes that modules register
 * (ap_register_request_note()). */
#define NOTES 64

/* Returns the address as text, "" on failure. */
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

/* Adds the record that the httpd core adds to each request (core_create_req() in core.c).
 * Functions such as ap_document_root() and ap_context_prefix() crash without it. */
static void add_core_record(request_rec *r)
{
    core_request_config *record = apr_pcalloc(r->pool, sizeof(*record));

    record->notes = apr_pcalloc(r->pool, sizeof(void *) * NOTES);
    ap_set_core_module_config(r->request_config, record);
}

request_rec *vl_scratch_request(apr_pool_t *p, server_rec *s,
                                apr_sockaddr_t *local, apr_sockaddr_t *remote)
{
    conn_rec *c = scratch_conn(p, s, local, remote);
    request_rec *r = apr_pcalloc(p, sizeof(*r));

    r->pool = p;
    r->connection = c;
    r->server = s;
    r->status = HTTP_OK;
    r->useragent_addr = c->client_addr;
    r->useragent_ip = c->client_ip;
    r->per_dir_config = s->lookup_defaults;
    r->request_config = ap_create_request_config(r->pool);
    add_core_record(r);
    r->headers_in = apr_table_make(r->pool, 16);
    r->headers_out = apr_table_make(r->pool, 1);
    r->err_headers_out = apr_table_make(r->pool, 1);
    r->subprocess_env = apr_table_make(r->pool, 1);
    r->notes = apr_table_make(r->pool, 1);
    r->filename = r->canonical_filename = apr_pstrdup(r->pool, "");
    return r;
}
