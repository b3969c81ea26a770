/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_sharing.h"

#include <apr_siphash.h>
#include <apr_strings.h>
#include <http_log.h>
#include <http_protocol.h>
#include <http_request.h>
#include <util_cookies.h>
#include <util_filter.h>

#include "base/vl_clock.h"
#include "base/vl_private.h"
#include "config/vl_seen.h"
#include "core/vl_hosts.h"

#define COOKIE "vhostlimit-known"

static ap_filter_rec_t *cookie_filter;

void vl_sharing_post_config(const server_rec *s, vl_shm_t *shm)
{
    const vl_conf_t *conf = vl_conf_get(s);
    const apr_array_header_t *classes = conf->sharing.classes;
    apr_uint32_t weights[VL_CLASSES_MAX];
    int i;

    for (i = 0; i < VL_CLASSES_MAX; i++)
        weights[i] = i && classes && i <= classes->nelts
                     ? (apr_uint32_t)APR_ARRAY_IDX(classes, i - 1, vl_class_conf_t).weight
                     : VL_CLASS_WEIGHT;
    vl_shm_post_config_classes(shm, conf->account, classes || conf->sharing.known > VL_KNOWN_OFF,
                               weights, (apr_uint32_t)conf->sharing.share);
}

int vl_sharing_classes(const vl_sharing_conf_t *conf)
{
    return conf->classes ? conf->classes->nelts + 1 : 0;
}

const char *vl_sharing_class_name(const vl_sharing_conf_t *conf, unsigned class_no)
{
    if (!class_no)
        return "other";
    if ((int)class_no >= vl_sharing_classes(conf))
        return "removed";
    return APR_ARRAY_IDX(conf->classes, class_no - 1, vl_class_conf_t).name;
}

/* --- cookies --------------------------------------------------------------- */

/* The cookie is "E.M": E is when it expires, seconds of the monotonic clock, M a message
 * authentication code of E and the site's name (SipHash-2-4 with a key that the server
 * chooses when it starts; Aumasson, Bernstein 2012). It says nothing about the client but
 * that it was served once, is the same for all clients of a site that are served in the same
 * second, and only changes the order of a queue. */
static char *make_cookie(apr_pool_t *p, const vl_shm_t *shm, const char *site,
                         apr_int64_t expires_s)
{
    const char *text = apr_psprintf(p, "%" APR_INT64_T_FMT " %s", expires_s, site);
    apr_uint64_t code = apr_siphash24(text, strlen(text), vl_shm_clients(shm)->known.secret);

    return apr_psprintf(p, "%" APR_INT64_T_FMT ".%016" APR_UINT64_T_HEX_FMT, expires_s,
                        code);
}

/* Compares without telling by its duration where two texts of the same length differ. */
static int is_same(const char *a, const char *b)
{
    unsigned char different = 0;
    apr_size_t i, length = strlen(a);

    if (length != strlen(b))
        return 0;
    for (i = 0; i < length; i++)
        different |= (unsigned char)(a[i] ^ b[i]);
    return !different;
}

/* Returns the name for which a cookie is valid: the site, or one host of it. */
static const char *cookie_scope(const request_rec *r, const vl_conf_t *conf)
{
    char name[VL_HOST_SIZE];

    if (conf->accounts.by != VL_ACCOUNTS_HOST || !vl_hosts_normalize(r->hostname, name))
        return conf->site->name;
    return apr_pstrcat(r->pool, conf->site->name, "/", name, NULL);
}

static int has_cookie(request_rec *r, const vl_shm_t *shm, const vl_conf_t *conf)
{
    const char *value = NULL;
    apr_int64_t expires_s;

    if (ap_cookie_read(r, COOKIE, &value, 0) != APR_SUCCESS || !value)
        return 0;
    expires_s = apr_atoi64(value);
    return expires_s > vl_clock_us() / APR_USEC_PER_SEC
           && is_same(value, make_cookie(r->pool, shm, cookie_scope(r, conf), expires_s));
}

void vl_sharing_cookie(vl_shm_t *shm, apr_uint32_t account, request_rec *r,
                       const vl_client_id_t *id)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    apr_int64_t ttl_s = conf->sharing.ttl_us / APR_USEC_PER_SEC;
    const char *value = NULL;

    if (conf->sharing.known != VL_KNOWN_COOKIE)
        return;
    /* Removes the cookie from the request, also a wrong one. */
    ap_cookie_read(r, COOKIE, &value, 1);
    if (id->band == VL_BAND_KNOWN
        || vl_shm_is_contended(shm, account))
        return;
    apr_table_setn(r->notes, COOKIE, make_cookie(r->pool, shm, cookie_scope(r, conf),
                                                 vl_clock_us() / APR_USEC_PER_SEC + ttl_s));
}

static int has_token(request_rec *r, const apr_table_t *fields, const char *token)
{
    const char *value = apr_table_get(fields, "Cache-Control");

    return value && ap_find_token(r->pool, value, token);
}

/* Returns 1 if a shared cache may store the response (RFC 9111, section 3), and would do so but for
 * a Set-Cookie. The cache would give the cookie to strangers, or never have the page. */
static int may_be_shared(request_rec *r)
{
    const apr_table_t *all[2] = { r->headers_out, r->err_headers_out };
    int i;

    for (i = 0; i < 2; i++) {
        if (has_token(r, all[i], "private") || has_token(r, all[i], "no-store")
            || apr_table_get(all[i], "Set-Cookie"))
            return 0;
    }
    return r->method_number == M_GET;
}

/* Output filter between those of mod_cache and the one that writes the header lines: gives the
 * client its cookie. */
static apr_status_t give_cookie(ap_filter_t *f, apr_bucket_brigade *bb)
{
    request_rec *r = f->r;
    const vl_conf_t *conf = vl_conf_get(r->server);

    if (!may_be_shared(r))
        ap_cookie_write(r, COOKIE, f->ctx,
                        apr_pstrcat(r->pool, "Path=/;HttpOnly;SameSite=Lax",
                                    !strcmp(ap_run_http_scheme(r), "https") ? ";Secure" : "", NULL),
                        (long)(conf->sharing.ttl_us / APR_USEC_PER_SEC), r->headers_out, NULL);
    ap_remove_output_filter(f);
    return ap_pass_brigade(f->next, bb);
}

/* insert_filter hook, also for the request of an internal redirect. */
static void insert_filter(request_rec *r)
{
    const request_rec *first = r;
    const char *cookie;

    while (first->prev)
        first = first->prev;
    cookie = r->main ? NULL : apr_table_get(first->notes, COOKIE);
    if (cookie)
        ap_add_output_filter_handle(cookie_filter, (void *)cookie, r, r->connection);
}

void vl_sharing_register(void)
{
    cookie_filter = ap_register_output_filter("VHOSTLIMIT_COOKIE", give_cookie, NULL,
                                              AP_FTYPE_PROTOCOL - 1);
    ap_hook_insert_filter(insert_filter, NULL, NULL, APR_HOOK_MIDDLE);
}

/* --- requests -------------------------------------------------------------- */

static unsigned class_of(request_rec *r, const vl_sharing_conf_t *conf)
{
    const char *failed = NULL;
    int i;

    for (i = 0; conf->classes && i < conf->classes->nelts; i++) {
        const vl_class_conf_t *class_conf = &APR_ARRAY_IDX(conf->classes, i,
                                                           vl_class_conf_t);

        if (ap_expr_exec(r, class_conf->expr, &failed) > 0 && !failed)
            return (unsigned)i + 1;
        if (failed)
            ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, VLOGNO(0038)
                          "VhostLimitClass %s: %s; other classes are tried",
                          class_conf->name, failed);
        failed = NULL;
    }
    return 0;
}

void vl_sharing_identify(vl_shm_t *shm, apr_uint32_t account, const server_rec *s,
                         request_rec *r, apr_table_t *sent, const apr_sockaddr_t *address,
                         vl_client_id_t *ret_id)
{
    const vl_conf_t *conf = vl_conf_get(s);
    const vl_sharing_conf_t *sharing = &conf->sharing;
    vl_seen_t saved;
    int is_known = 0;

    if (r)
        address = r->useragent_addr;
    vl_clients_prefix(address->ipaddr_ptr, (apr_size_t)address->ipaddr_len,
                      (unsigned)sharing->bits4, (unsigned)sharing->bits6, ret_id);
    if (r && (sharing->classes || sharing->known == VL_KNOWN_COOKIE)) {
        vl_seen_begin(r, sent, &saved);
        ret_id->class_no = (unsigned char)class_of(r, sharing);
        is_known = sharing->known == VL_KNOWN_COOKIE && has_cookie(r, shm, conf);
        vl_seen_end(r, &saved);
    }
    if (is_known || (sharing->known == VL_KNOWN_ADDRESS
                     && vl_clients_is_known(shm, account, ret_id->prefix, sharing->ttl_us)))
        ret_id->band = VL_BAND_KNOWN;
    if (sharing->clients)
        vl_clients_key(shm, account, ret_id);
}

void vl_sharing_served(vl_shm_t *shm, apr_uint32_t account, const request_rec *r,
                       const vl_client_id_t *id)
{
    const vl_conf_t *conf = vl_conf_get(r->server);

    if (conf->sharing.known == VL_KNOWN_ADDRESS && r->status < 400
        && !vl_shm_is_contended(shm, account))
        vl_clients_serve(shm, account, id->prefix, conf->sharing.ttl_us);
}
