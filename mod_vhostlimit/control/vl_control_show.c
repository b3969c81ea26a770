/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the control socket that are in no other format of the module: what vhostlimit-fleet
 * asks for once a second, the clients of a site, and its sandbox. */
#include "control/vl_control_int.h"

#include <arpa/inet.h>

#include <unixd.h>

#include "base/vl_clock.h"
#include "config/vl_conf.h"
#include "config/vl_sandboxes.h"
#include "config/vl_sharing.h"
#include "core/vl_fair.h"
#include "core/vl_fleet.h"
#include "core/vl_hosts.h"

/* Most clients in an answer. */
#define CLIENTS_MAX 50

/* --- vhostlimit-fleet ------------------------------------------------------- */

static void put_number(vl_out_t *out, apr_uint64_t n)
{
    vl_out_text(out, ",");
    vl_out_number(out, n);
}

static void put_reading(vl_out_t *out, const vl_fleet_reading_t *reading, int is_first)
{
    vl_out_text(out, is_first ? "\n[" : ",\n[");
    vl_out_json(out, reading->name);
    put_number(out, reading->account);
    put_number(out, reading->limits.weight);
    put_number(out, reading->limits.cpu);
    put_number(out, reading->limits.concurrency);
    put_number(out, reading->charged_us);
    put_number(out, reading->backlog_us);
    put_number(out, reading->requests);
    vl_out_text(out, "]");
}

void vl_control_fleet_json(vl_out_t *out, int all)
{
    vl_fleet_reading_t readings[VL_FLEET_READINGS];
    apr_uint32_t account = 0;
    apr_size_t i, n;
    int is_first = 1;

    vl_out_text(out, "{\"generation\":");
    vl_out_number(out, vl_fleet_generation(vl_control_shm));
    vl_out_text(out, ",\"clock_us\":");
    vl_out_number(out, (apr_uint64_t)vl_clock_us());
    vl_out_text(out, ",\"processors\":");
    vl_out_number(out, vl_shm_facts(vl_control_shm).processors);
    vl_out_text(out, ",\"sites\":[");
    do {
        n = vl_fleet_read(vl_control_shm, all, &account, readings);
        for (i = 0; i < n; i++, is_first = 0)
            put_reading(out, &readings[i], is_first);
    } while (account);
    vl_out_text(out, "\n]}\n");
}

/* --- clients ------------------------------------------------------------------ */

static const char *known_name(vl_known_e known)
{
    return known == VL_KNOWN_ADDRESS ? "address" : known == VL_KNOWN_COOKIE ? "cookie" : "off";
}

static void put_class(vl_out_t *out, const vl_sharing_conf_t *conf,
                      const vl_inside_class_t *c, unsigned class_no)
{
    vl_out_text(out, class_no ? ",\n{\"name\":" : "\n{\"name\":");
    vl_out_json(out, vl_sharing_class_name(conf, class_no));
    vl_out_printf(out, ",\"weight\":%u,\"waiting\":%u,\"requests\":%" APR_UINT64_T_FMT
                  ",\"cpu_us\":%" APR_UINT64_T_FMT ",\"known_requests\":%" APR_UINT64_T_FMT
                  ",\"known_cpu_us\":%" APR_UINT64_T_FMT "}",
                  c->weight ? c->weight : VL_CLASS_WEIGHT, c->waiting, c->requests, c->cpu_us,
                  c->known_requests, c->known_cpu_us);
}

static void put_address(vl_out_t *out, const vl_sharing_conf_t *conf,
                        const vl_client_entry_t *client)
{
    static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    int is_v4 = !memcmp(client->prefix, mapped, sizeof(mapped));
    char text[INET6_ADDRSTRLEN] = "";

    inet_ntop(is_v4 ? AF_INET : AF_INET6, client->prefix + (is_v4 ? 12 : 0), text,
              sizeof(text));
    vl_out_printf(out, "{\"address\":\"%s/%d\",\"class\":", text,
                  is_v4 ? conf->bits4 : conf->bits6);
    vl_out_json(out, vl_sharing_class_name(conf, client->class_no));
}

static void put_client(vl_out_t *out, const vl_sharing_conf_t *conf,
                       const vl_client_entry_t *client, apr_int64_t now_us, int is_first)
{
    vl_out_text(out, is_first ? "\n" : ",\n");
    put_address(out, conf, client);
    vl_out_printf(out, ",\"known\":%s,\"requests\":%u,\"cpu_us\":%" APR_UINT64_T_FMT
                  ",\"idle_s\":%" APR_INT64_T_FMT "}",
                  client->band == VL_BAND_KNOWN ? "true" : "false", client->requests,
                  client->cpu_us,
                  vl_fair_client_idle(client, now_us) / APR_USEC_PER_SEC);
}

/* Writes how much of the queue the client has that has most of it. Its address is known if it
 * was granted a slot before. */
static void put_most(vl_out_t *out, const vl_conf_t *conf, apr_uint32_t account)
{
    vl_client_entry_t client;
    apr_uint64_t key;
    apr_uint32_t n = vl_fair_most_waiters(vl_control_shm, account, &key);

    if (!n)
        vl_out_text(out, ",\"most\":null");
    else if (vl_fair_find_client(vl_shm_clients(vl_control_shm), key, &client)) {
        vl_out_text(out, ",\"most\":");
        put_address(out, &conf->sharing, &client);
        vl_out_printf(out, ",\"waiting\":%u}", n);
    }
    else
        vl_out_printf(out, ",\"most\":{\"address\":null,\"class\":null,\"waiting\":%u}", n);
}

/* Returns the account of the host, or of the site if host is NULL or has none. */
static apr_uint32_t account_of(const vl_conf_t *conf, const char *host)
{
    apr_uint32_t account;

    return host && vl_hosts_lookup(vl_control_shm, conf->account, host, &account)
           ? account : conf->account;
}

void vl_control_clients_json(vl_out_t *out, const server_rec *s, const char *host)
{
    const vl_shm_t *shm = vl_control_shm;
    const vl_conf_t *conf = vl_conf_get(s);
    const vl_sharing_conf_t *sharing = &conf->sharing;
    apr_uint32_t account = account_of(conf, host);
    vl_client_entry_t *clients = apr_palloc(out->pool, sizeof(*clients)
                                                       * CLIENTS_MAX);
    apr_uint32_t n = vl_fair_top_clients(vl_shm_clients(shm), vl_hosts_identity(shm, account),
                                    clients, CLIENTS_MAX), i;
    int c = 0;
    apr_int64_t now_us = vl_clock_us();
    vl_inside_t inside;

    vl_fair_read_clients(shm, account, &inside);
    vl_out_text(out, "{\"site\":");
    vl_out_json(out, host ? host : conf->site->name);
    vl_out_printf(out, ",\"clients_share\":%s,\"known\":\"%s\",\"contended\":%s,"
                  "\"waiting\":%u,\"clients_waiting\":%u",
                  sharing->clients ? "true" : "false", known_name(sharing->known),
                  vl_shm_is_contended(shm, account) ? "true" : "false",
                  inside.waiting, inside.clients);
    put_most(out, conf, account);
    vl_out_text(out, ",\"classes\":[");
    do
        put_class(out, sharing, &inside.classes[c], (unsigned)c);
    while (++c < vl_sharing_classes(sharing));
    vl_out_text(out, "],\"clients\":[");
    for (i = 0; i < n; i++)
        put_client(out, sharing, &clients[i], now_us, !i);
    vl_out_text(out, "]}\n");
}

/* --- the sandbox ---------------------------------------------------------------- */

static const char *const access_names[] = {
    [VL_RULE_HIDE] = "hide", [VL_RULE_TMP] = "tmp", [VL_RULE_RO] = "ro",
    [VL_RULE_RW] = "rw", [VL_RULE_DEVICE] = "device", [VL_RULE_PROC] = "proc"
};

void vl_control_sandbox_json(vl_out_t *out, const server_rec *s)
{
    const vl_site_t *site = vl_conf_get(s)->site;
    const char *before = "\n";
    vl_sandbox_e mode;
    const apr_array_header_t *rules = vl_sandboxes_rules(out->pool, vl_control_server, site,
                                                         &mode);
    int i;

    vl_out_text(out, "{\"site\":");
    vl_out_json(out, site->name);
    vl_out_printf(out, ",\"mode\":\"%s\",\"user\":%lu,\"rules\":[",
                  vl_sandbox_mode_name(mode), (unsigned long)ap_unixd_config.user_id);
    for (i = 0; i < rules->nelts; i++) {
        const vl_rule_t *rule = &APR_ARRAY_IDX(rules, i, vl_rule_t);

        vl_out_printf(out, "%s{\"access\":\"%s\",\"configured\":%s,\"path\":", before,
                      access_names[rule->access], rule->is_configured ? "true" : "false");
        vl_out_json(out, rule->path);
        vl_out_text(out, "}");
        before = ",\n";
    }
    vl_out_text(out, "\n]}\n");
}
