/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_visitor.h"

#include <apr_lib.h>
#include <apr_siphash.h>
#include <apr_strings.h>
#include <http_log.h>
#include <http_protocol.h>
#include <util_cookies.h>

#include "base/vl_clock.h"
#include "base/vl_private.h"
#include "base/vl_value.h"
#include "config/vl_conf.h"
#include "config/vl_exempt.h"

#define BITS4 32
#define BITS6 64
#define SHARE 80
#define TTL_US (30 * 60 * (apr_int64_t)APR_USEC_PER_SEC)
#define TTL_MIN_US ((apr_int64_t)APR_USEC_PER_SEC)
#define TTL_MAX_US (30 * 24 * 3600 * (apr_int64_t)APR_USEC_PER_SEC)

#define COOKIE "vhostlimit-known"

void vl_visitor_conf_init(vl_visitor_conf_t *conf)
{
    conf->clients = VL_UNSET;
}

void vl_visitor_conf_merge(vl_visitor_conf_t *conf, const vl_visitor_conf_t *base,
                           const vl_visitor_conf_t *add)
{
    const vl_visitor_conf_t *from = add->clients != VL_UNSET ? add : base;

    conf->clients = from->clients;
    conf->bits4 = from->bits4;
    conf->bits6 = from->bits6;
    from = add->known != VL_KNOWN_UNSET ? add : base;
    conf->known = from->known;
    conf->share = from->share;
    conf->ttl_us = from->ttl_us;
    conf->classes = add->classes ? add->classes : base->classes;
}

void vl_visitor_conf_finish(vl_visitor_conf_t *conf)
{
    if (conf->clients == VL_UNSET) {
        conf->clients = 1;
        conf->bits4 = BITS4;
        conf->bits6 = BITS6;
    }
    if (conf->known == VL_KNOWN_UNSET)
        conf->known = VL_KNOWN_OFF;
}

/* --- directives ------------------------------------------------------------ */

/* Directive handler of VhostLimitClients: On or Off, and the lengths of the prefixes. */
const char *vl_visitor_set_clients(cmd_parms *cmd, void *dconf, const char *mode,
                                   const char *bits4, const char *bits6)
{
    vl_visitor_conf_t *conf = &vl_conf_get(cmd->server)->visitors;
    const char *error = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);
    apr_int64_t n4 = BITS4, n6 = BITS6;

    (void)dconf;
    if (error)
        return error;
    if (ap_cstr_casecmp(mode, "On") && ap_cstr_casecmp(mode, "Off"))
        return apr_psprintf(cmd->pool, "VhostLimitClients: '%s' is not one of On, Off", mode);
    if (bits4 && !vl_value_number(bits4, '\0', 8, 32, &n4))
        return apr_psprintf(cmd->pool, "VhostLimitClients: '%s' is not the length of an IPv4 "
                            "prefix, a whole number from 8 to 32", bits4);
    if (bits6 && !vl_value_number(bits6, '\0', 16, 128, &n6))
        return apr_psprintf(cmd->pool, "VhostLimitClients: '%s' is not the length of an IPv6 "
                            "prefix, a whole number from 16 to 128", bits6);
    conf->clients = !ap_cstr_casecmp(mode, "On");
    conf->bits4 = (int)n4;
    conf->bits6 = (int)n6;
    return NULL;
}

/* Directive handler of VhostLimitClass. */
const char *vl_visitor_set_class(cmd_parms *cmd, void *dconf, const char *name,
                                 const char *weight, const char *expr)
{
    vl_visitor_conf_t *conf = &vl_conf_get(cmd->server)->visitors;
    const char *error = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);
    const vl_class_conf_t *other;
    vl_class_conf_t *class_conf;
    const ap_expr_info_t *parsed;
    apr_int64_t n;
    int i;

    (void)dconf;
    if (error)
        return error;
    if (!vl_value_is_name(name, VL_CLASS_NAME_MAX) || !ap_cstr_casecmp(name, "other"))
        return apr_psprintf(cmd->pool, "VhostLimitClass: '%s' is not a name of up to %d "
                            "letters, digits and . _ - (\"other\" is the class of all other "
                            "requests)", name, VL_CLASS_NAME_MAX);
    if (strncmp(weight, "weight=", 7)
        || !vl_value_number(weight + 7, '\0', 1, VL_WEIGHT_MAX, &n))
        return apr_psprintf(cmd->pool, "VhostLimitClass %s: '%s' is not weight= and a whole "
                            "number from 1 to %d", name, weight, VL_WEIGHT_MAX);
    if (!conf->classes)
        conf->classes = apr_array_make(cmd->pool, VL_CLASSES_MAX, sizeof(vl_class_conf_t));
    if (conf->classes->nelts == VL_CLASSES_MAX - 1)
        return apr_psprintf(cmd->pool, "VhostLimitClass %s: a site has at most %d classes",
                            name, VL_CLASSES_MAX - 1);
    for (i = 0; i < conf->classes->nelts; i++) {
        other = &APR_ARRAY_IDX(conf->classes, i, vl_class_conf_t);
        if (!ap_cstr_casecmp(other->name, name))
            return apr_psprintf(cmd->pool, "VhostLimitClass %s is defined twice", name);
    }
    error = vl_exempt_wrong(cmd->temp_pool, expr);
    parsed = error ? NULL : ap_expr_parse_cmd(cmd, expr, 0, &error, NULL);
    if (error)
        return apr_psprintf(cmd->pool, "VhostLimitClass %s: '%s': %s", name, expr, error);
    class_conf = &APR_ARRAY_PUSH(conf->classes, vl_class_conf_t);
    class_conf->name = name;
    class_conf->weight = (int)n;
    class_conf->expr = parsed;
    return NULL;
}

/* Parses share=N or ttl=TIME. Returns NULL or an error. */
static const char *set_known_option(cmd_parms *cmd, vl_visitor_conf_t *conf,
                                    const char *option)
{
    apr_int64_t n;
    apr_interval_time_t time;

    if (!strncmp(option, "share=", 6)
        && vl_value_number(option + 6, '\0', 1, 99, &n)) {
        conf->share = (int)n;
        return NULL;
    }
    if (!strncmp(option, "ttl=", 4)
        && ap_timeout_parameter_parse(option + 4, &time, "s") == APR_SUCCESS
        && time >= TTL_MIN_US && time <= TTL_MAX_US) {
        conf->ttl_us = time;
        return NULL;
    }
    return apr_psprintf(cmd->pool, "VhostLimitKnown: '%s' is neither share= and a percentage "
                        "from 1 to 99 nor ttl= and a time from 1s to 720h", option);
}

/* Directive handler of VhostLimitKnown. */
const char *vl_visitor_set_known(cmd_parms *cmd, void *dconf, const char *mode,
                                 const char *first, const char *second)
{
    vl_visitor_conf_t *conf = &vl_conf_get(cmd->server)->visitors;
    const char *error = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);

    (void)dconf;
    if (error)
        return error;
    if (!ap_cstr_casecmp(mode, "Off"))
        conf->known = VL_KNOWN_OFF;
    else if (!ap_cstr_casecmp(mode, "Address"))
        conf->known = VL_KNOWN_ADDRESS;
    else if (!ap_cstr_casecmp(mode, "Cookie"))
        conf->known = VL_KNOWN_COOKIE;
    else
        return apr_psprintf(cmd->pool, "VhostLimitKnown: '%s' is not one of Off, Address, "
                            "Cookie", mode);
    conf->share = SHARE;
    conf->ttl_us = TTL_US;
    if (first)
        error = set_known_option(cmd, conf, first);
    if (!error && second)
        error = set_known_option(cmd, conf, second);
    return error;
}

void vl_visitor_post_config(const server_rec *s, vl_shm_t *shm)
{
    const vl_conf_t *conf = vl_conf_get(s);
    const apr_array_header_t *classes = conf->visitors.classes;
    apr_uint32_t weights[VL_CLASSES_MAX] = { VL_CLASS_WEIGHT_DEFAULT };
    int i;

    for (i = 0; classes && i < classes->nelts; i++)
        weights[i + 1] = (apr_uint32_t)APR_ARRAY_IDX(classes, i, vl_class_conf_t).weight;
    vl_shm_post_config_classes(shm, conf->account,
                               classes || conf->visitors.known > VL_KNOWN_OFF ? weights : NULL,
                               conf->visitors.known > VL_KNOWN_OFF
                               ? (apr_uint32_t)conf->visitors.share : 0);
}

/* --- cookies --------------------------------------------------------------- */

/* The cookie is "E.M": E is when it expires, seconds of the monotonic clock, M a message authentication
 * code of E and the site's name (SipHash-2-4 with a key that the server chooses when it
 * starts; Aumasson, Bernstein 2012). It says nothing about the client but that it was served
 * once, is the same for all clients of a site that are served in the same second, and only
 * changes the order of a queue. */
static char *make_cookie(apr_pool_t *p, const vl_shm_t *shm, const char *site,
                         apr_int64_t expires_s)
{
    const char *text = apr_psprintf(p, "%" APR_INT64_T_FMT " %s", expires_s, site);
    apr_uint64_t code = apr_siphash24(text, strlen(text), vl_shm_known(shm)->secret);

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

static int has_cookie(request_rec *r, const vl_shm_t *shm, const vl_conf_t *conf)
{
    const char *value = NULL;
    apr_int64_t expires_s;

    if (ap_cookie_read(r, COOKIE, &value, 0) != APR_SUCCESS || !value)
        return 0;
    expires_s = apr_atoi64(value);
    return expires_s > vl_clock_us() / APR_USEC_PER_SEC
           && is_same(value, make_cookie(r->pool, shm, conf->account_name, expires_s));
}

void vl_visitor_cookie(vl_shm_t *shm, request_rec *r, const vl_client_id_t *id)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    apr_int64_t ttl_s = conf->visitors.ttl_us / APR_USEC_PER_SEC;
    const char *value = NULL;

    if (conf->visitors.known != VL_KNOWN_COOKIE)
        return;
    /* Removes the cookie from the request, also a wrong one. */
    ap_cookie_read(r, COOKIE, &value, 1);
    if (id->band == VL_BAND_KNOWN
        || vl_clients_contended(vl_shm_inner(shm, conf->account), vl_clock_us()))
        return;
    ap_cookie_write(r, COOKIE, make_cookie(r->pool, shm, conf->account_name,
                                           vl_clock_us() / APR_USEC_PER_SEC + ttl_s),
                    apr_pstrcat(r->pool, "Path=/;HttpOnly;SameSite=Lax",
                                !strcmp(ap_run_http_scheme(r), "https") ? ";Secure" : "", NULL),
                    (long)ttl_s, r->headers_out, NULL);
}

/* --- requests -------------------------------------------------------------- */

static unsigned class_of(request_rec *r, const vl_visitor_conf_t *conf)
{
    const char *failed = NULL;
    int i;

    for (i = 0; r && conf->classes && i < conf->classes->nelts; i++) {
        const vl_class_conf_t *class_conf = &APR_ARRAY_IDX(conf->classes, i,
                                                           vl_class_conf_t);

        if (ap_expr_exec(r, class_conf->expr, &failed) > 0 && !failed)
            return (unsigned)i + 1;
        if (failed)
            ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, VLOGNO(0038)
                          "VhostLimitClass %s: %s; the request belongs to another class",
                          class_conf->name, failed);
        failed = NULL;
    }
    return 0;
}

int vl_visitor_needs_request(const vl_visitor_conf_t *conf)
{
    return conf->classes || conf->known == VL_KNOWN_COOKIE;
}

void vl_visitor_identify(vl_shm_t *shm, const server_rec *s, request_rec *r,
                         const apr_sockaddr_t *address, vl_client_id_t *ret_id)
{
    const vl_conf_t *conf = vl_conf_get(s);
    const vl_visitor_conf_t *visitors = &conf->visitors;
    unsigned class_no = class_of(r, visitors);
    vl_band_e band = VL_BAND_STRANGERS;

    if (r)
        address = r->useragent_addr;
    vl_clients_identify(vl_shm_clients(shm), conf->account, class_no, band,
                        address->ipaddr_ptr, (apr_size_t)address->ipaddr_len,
                        (unsigned)visitors->bits4, (unsigned)visitors->bits6, ret_id);
    if ((visitors->known == VL_KNOWN_ADDRESS
         && vl_known_has(vl_shm_known(shm), conf->account, ret_id->prefix, vl_clock_us(),
                         visitors->ttl_us))
        || (visitors->known == VL_KNOWN_COOKIE && r && has_cookie(r, shm, conf)))
        vl_clients_identify(vl_shm_clients(shm), conf->account, class_no, VL_BAND_KNOWN,
                            address->ipaddr_ptr, (apr_size_t)address->ipaddr_len,
                            (unsigned)visitors->bits4, (unsigned)visitors->bits6, ret_id);
    if (!visitors->clients)
        ret_id->key = 0;
}

void vl_visitor_served(vl_shm_t *shm, const request_rec *r, const vl_client_id_t *id)
{
    const vl_conf_t *conf = vl_conf_get(r->server);
    apr_int64_t now_us;

    if (conf->visitors.known != VL_KNOWN_ADDRESS || r->status >= 400)
        return;
    now_us = vl_clock_us();
    if (!vl_clients_contended(vl_shm_inner(shm, conf->account), now_us))
        vl_known_add(vl_shm_known(shm), conf->account, id->prefix, now_us,
                     conf->visitors.ttl_us);
}
