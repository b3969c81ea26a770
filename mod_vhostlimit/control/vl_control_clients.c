/* SPDX-License-Identifier: Apache-2.0 */
#include "control/vl_control_clients.h"

#include <arpa/inet.h>

#include "base/vl_clock.h"
#include "config/vl_conf.h"
#include "core/vl_hosts.h"

static const char *known_name(vl_known_e known)
{
    return known == VL_KNOWN_ADDRESS ? "address" : known == VL_KNOWN_COOKIE ? "cookie" : "off";
}

static const char *class_name(const vl_visitor_conf_t *conf, unsigned class_no)
{
    if (!class_no)
        return "other";
    if (!conf->classes || (int)class_no > conf->classes->nelts)
        return "removed";           /* by a graceful restart */
    return APR_ARRAY_IDX(conf->classes, class_no - 1, vl_class_conf_t).name;
}

static void put_class(vl_out_t *out, const vl_visitor_conf_t *conf,
                      const struct vl_class_t *c, unsigned class_no)
{
    const struct vl_band_t *known = &c->band[VL_BAND_KNOWN];

    vl_out_text(out, class_no ? ",\n{\"name\":" : "\n{\"name\":");
    vl_out_json(out, class_name(conf, class_no));
    vl_out_printf(out, ",\"weight\":%u,\"requests\":%" APR_UINT64_T_FMT ",\"cpu_us\":%"
                  APR_UINT64_T_FMT ",\"known_requests\":%" APR_UINT64_T_FMT
                  ",\"known_cpu_us\":%" APR_UINT64_T_FMT "}",
                  c->weight ? c->weight : VL_CLASS_WEIGHT_DEFAULT, c->requests, c->cpu_us,
                  known->requests, known->cpu_us);
}

static void put_client(vl_out_t *out, const vl_visitor_conf_t *conf,
                       const vl_client_entry_t *client, apr_int64_t now_us, int is_first)
{
    static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    int is_v4 = !memcmp(client->prefix, mapped, sizeof(mapped));
    char text[INET6_ADDRSTRLEN] = "";

    inet_ntop(is_v4 ? AF_INET : AF_INET6, client->prefix + (is_v4 ? 12 : 0), text,
              sizeof(text));
    vl_out_printf(out, "%s{\"address\":\"%s/%d\",\"class\":", is_first ? "\n" : ",\n", text,
                  is_v4 ? conf->bits4 : conf->bits6);
    vl_out_json(out, class_name(conf, client->class_no));
    vl_out_printf(out, ",\"known\":%s,\"requests\":%u,\"cpu_us\":%" APR_UINT64_T_FMT
                  ",\"idle_s\":%" APR_INT64_T_FMT "}",
                  client->band == VL_BAND_KNOWN ? "true" : "false", client->requests,
                  client->cpu_us,
                  now_us / APR_USEC_PER_SEC - (apr_int64_t)client->last_s);
}

/* Returns the account of the host, or of the site if host is NULL or has none. */
static apr_uint32_t account_of(const vl_shm_t *shm, const vl_conf_t *conf, const char *host)
{
    apr_uint32_t account;

    return host && vl_hosts_lookup(shm, conf->account, host, &account) ? account
                                                                       : conf->account;
}

void vl_control_clients_json(vl_out_t *out, const vl_shm_t *shm, const server_rec *s,
                             const char *host)
{
    const vl_conf_t *conf = vl_conf_get(s);
    const vl_visitor_conf_t *visitors = &conf->visitors;
    apr_uint32_t account = account_of(shm, conf, host);
    const vl_inner_t *inner = vl_shm_inner(shm, account);
    vl_client_entry_t *clients = apr_palloc(out->pool, sizeof(*clients)
                                                       * VL_CONTROL_CLIENTS_MAX);
    apr_uint32_t n = vl_clients_top(vl_shm_clients(shm), vl_hosts_identity(shm, account),
                                    clients, VL_CONTROL_CLIENTS_MAX), i;
    int classes = 1 + (visitors->classes ? visitors->classes->nelts : 0), c;
    apr_int64_t now_us = vl_clock_us();

    vl_out_text(out, "{\"site\":");
    vl_out_json(out, host ? host : conf->site->name);
    vl_out_printf(out, ",\"clients_share\":%s,\"known\":\"%s\",\"contended\":%s,"
                  "\"classes\":[", visitors->clients ? "true" : "false",
                  known_name(visitors->known),
                  vl_clients_contended(inner, now_us) ? "true" : "false");
    for (c = 0; c < classes; c++)
        put_class(out, visitors, &inner->classes[c], (unsigned)c);
    vl_out_text(out, "],\"clients\":[");
    for (i = 0; i < n; i++)
        put_client(out, visitors, &clients[i], now_us, !i);
    vl_out_text(out, "]}\n");
}
