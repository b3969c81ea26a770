/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_scratch.h"

#include <apr_strings.h>
#include <http_config.h>
#include <http_core.h>             /* before http_vhost.h */
#include <http_protocol.h>
#include <http_vhost.h>
#include <util_filter.h>

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

request_rec *vl_scratch_request(apr_pool_t *p, server_rec *s,
                                apr_sockaddr_t *local, apr_sockaddr_t *remote)
{
    conn_rec *c = apr_pcalloc(p, sizeof(*c));
    request_rec *r = apr_pcalloc(p, sizeof(*r));
    core_request_config *record = apr_pcalloc(p, sizeof(*record));

    c->pool = p;
    c->base_server = s;
    c->local_addr = local;
    c->local_ip = ip_of(p, local);
    c->client_addr = remote;
    c->client_ip = ip_of(p, remote);
    c->conn_config = ap_create_conn_config(p);
    c->notes = apr_table_make(p, 1);
    r->pool = p;
    r->connection = c;
    r->server = s;
    r->status = HTTP_OK;
    r->used_path_info = AP_REQ_DEFAULT_PATH_INFO;
    r->useragent_addr = c->client_addr;
    r->useragent_ip = c->client_ip;
    r->per_dir_config = s->lookup_defaults;
    r->request_config = ap_create_request_config(r->pool);
    /* The record that the httpd core adds to each request (core_create_req() in core.c). Functions
     * such as ap_document_root() and ap_context_prefix() crash without it. */
    record->notes = apr_pcalloc(p, sizeof(void *) * NOTES);
    ap_set_core_module_config(r->request_config, record);
    r->headers_in = apr_table_make(r->pool, 16);
    r->headers_out = apr_table_make(r->pool, 1);
    r->err_headers_out = apr_table_make(r->pool, 1);
    r->subprocess_env = apr_table_make(r->pool, 1);
    r->notes = apr_table_make(r->pool, 1);
    r->filename = r->canonical_filename = apr_pstrdup(r->pool, "");
    return r;
}

/* --- a head that httpd has not read yet ------------------------------------ */

typedef struct head_t {
    const char *at, *end;
} head_t;

/* Input filter: returns the next line, as the core's filter does. */
static apr_status_t next_line(ap_filter_t *f, apr_bucket_brigade *bb, ap_input_mode_t mode,
                              apr_read_type_e block, apr_off_t readbytes)
{
    head_t *head = f->ctx;
    const char *line = head->at, *end = memchr(line, '\n', (apr_size_t)(head->end - line));

    (void)mode;
    (void)block;
    (void)readbytes;
    if (!end)
        return APR_EOF;
    head->at = end + 1;
    APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_immortal_create(line, (apr_size_t)(head->at - line),
                                                           f->c->bucket_alloc));
    return APR_SUCCESS;
}

#if AP_MODULE_MAGIC_AT_LEAST(20120211, 107)
#define parse_request_line ap_parse_request_line
#else
/* httpd before 2.4.49 does not export its function. */
static int parse_request_line(request_rec *r)
{
    char *line = apr_pstrdup(r->pool, r->the_request);
    char *target = strchr(line, ' '), *protocol = target ? strchr(target + 1, ' ') : NULL;

    if (!protocol || strlen(protocol) != sizeof(" HTTP/1.1") - 1
        || strncmp(protocol, " HTTP/1.", sizeof(" HTTP/1.") - 1))
        return 0;
    *target++ = *protocol++ = '\0';
    r->method = line;
    r->method_number = ap_method_number_of(r->method);
    r->protocol = protocol;
    r->proto_num = HTTP_VERSION(1, protocol[sizeof("HTTP/1.") - 1] - '0');
    ap_parse_uri(r, target);
    return r->status == HTTP_OK;
}
#endif

static int read_request_line(request_rec *r, apr_bucket_brigade *bb)
{
    const core_server_config *core = ap_get_core_module_config(r->server->module_config);
    int flags = core->http_conformance != AP_HTTP_CONFORMANCE_UNSAFE ? AP_GETLINE_CRLF : 0;
    int blank_lines = DEFAULT_LIMIT_BLANK_LINES;
    apr_size_t length;

    do {
        r->the_request = NULL;
        if (ap_rgetline(&r->the_request, (apr_size_t)(r->server->limit_req_line + 2), &length, r,
                        flags, bb) != APR_SUCCESS)
            return 0;
    } while (!length && --blank_lines >= 0);
    return parse_request_line(r);
}

int vl_scratch_read(request_rec *r, server_rec *server, const char *bytes, apr_size_t len,
                    apr_bucket_alloc_t *alloc)
{
    static ap_filter_rec_t record = { .name = "VHOSTLIMIT_HEAD",
                                      .filter_func = { .in_func = next_line },
                                      .ftype = AP_FTYPE_NETWORK };
    head_t head = { bytes, bytes + len };
    ap_filter_t filter = { .frec = &record, .ctx = &head, .r = r, .c = r->connection };
    apr_bucket_brigade *bb;
    int is_read;

    ap_update_vhost_given_ip(r->connection);
    r->server = r->connection->base_server;
    r->per_dir_config = r->server->lookup_defaults;
    r->connection->bucket_alloc = alloc;
    r->input_filters = r->proto_input_filters = r->connection->input_filters = &filter;
    bb = apr_brigade_create(r->pool, alloc);
    is_read = read_request_line(r, bb);
    if (is_read && !r->assbackwards)
        ap_get_mime_headers_core(r, bb);
    apr_brigade_destroy(bb);
    r->input_filters = r->proto_input_filters = r->connection->input_filters = NULL;
    if (!is_read || r->status != HTTP_OK)
        return 0;
    if (server)
        r->connection->vhost_lookup_data = NULL;    /* of httpd's search, which is slow */
    ap_update_vhost_from_headers(r);
    if (server)
        r->server = server;
    r->per_dir_config = r->server->lookup_defaults;
    return r->status == HTTP_OK;
}
