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

void vl_control_fleet_json(vl_out_t *out, int all)
{
    vl_fleet_reading_t readings[VL_FLEET_READINGS];
    const vl_fleet_reading_t *reading;
    const char *before = "\n[";
    apr_uint32_t account = 0;
    apr_size_t n;

    vl_out_number(out, "{\"generation\":", vl_fleet_generation(vl_control_shm));
    vl_out_number(out, ",\"clock_us\":", (apr_uint64_t)vl_clock_us());
    vl_out_number(out, ",\"processors\":", vl_shm_facts(vl_control_shm).processors);
    vl_out_text(out, ",\"sites\":[");
    do {
        n = vl_fleet_read(vl_control_shm, all, &account, readings);
        for (reading = readings; reading < readings + n; reading++) {
            vl_out_json(out, before, reading->name);
            vl_out_number(out, ",", reading->account);
            vl_out_number(out, ",", reading->limits.weight);
            vl_out_number(out, ",", reading->limits.cpu);
            vl_out_number(out, ",", reading->limits.concurrency);
            vl_out_number(out, ",", reading->charged_us);
            vl_out_number(out, ",", reading->backlog_us);
            vl_out_number(out, ",", reading->requests);
            vl_out_text(out, "]");
            before = ",\n[";
        }
    } while (account);
    vl_out_text(out, "\n]}\n");
}

/* --- clients ------------------------------------------------------------------ */

static void put_address(vl_out_t *out, const vl_sharing_conf_t *conf,
                        const vl_client_entry_t *client)
{
    static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    int is_v4 = !memcmp(client->prefix, mapped, sizeof(mapped));
    char text[INET6_ADDRSTRLEN] = "";

    inet_ntop(is_v4 ? AF_INET : AF_INET6, client->prefix + (is_v4 ? 12 : 0), text,
              sizeof(text));
    vl_out_printf(out, "{\"address\":\"%s/%d\"", text, is_v4 ? conf->bits4 : conf->bits6);
    vl_out_json(out, ",\"class\":", vl_sharing_class_name(conf, client->class_no));
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

void vl_control_clients_json(vl_out_t *out, const server_rec *s, const char *host)
{
    static const char *const known_names[] = { "off", "off", "address", "cookie" };    /* vl_known_e */
    const vl_shm_t *shm = vl_control_shm;
    const vl_conf_t *conf = vl_conf_get(s);
    const vl_sharing_conf_t *sharing = &conf->sharing;
    vl_client_entry_t *clients = apr_palloc(out->pool, sizeof(*clients) * CLIENTS_MAX), *client;
    apr_uint32_t account, n;
    unsigned c = 0;
    apr_int64_t now_us = vl_clock_us();
    vl_inside_t inside;

    if (!host || !vl_hosts_lookup(shm, conf->account, host, &account))
        account = conf->account;
    n = vl_fair_top_clients(vl_shm_clients(shm), vl_hosts_identity(shm, account), clients,
                            CLIENTS_MAX);
    vl_fair_read_clients(shm, account, &inside);
    vl_out_json(out, "{\"site\":", host ? host : conf->site->name);
    vl_out_printf(out, ",\"clients_share\":%s,\"known\":\"%s\",\"contended\":%s,"
                  "\"waiting\":%u,\"clients_waiting\":%u",
                  sharing->clients ? "true" : "false", known_names[sharing->known],
                  vl_shm_is_contended(shm, account) ? "true" : "false",
                  inside.waiting, inside.clients);
    put_most(out, conf, account);
    vl_out_text(out, ",\"classes\":[");
    do {
        const vl_inside_class_t *counts = &inside.classes[c];

        vl_out_json(out, c ? ",\n{\"name\":" : "\n{\"name\":", vl_sharing_class_name(sharing, c));
        vl_out_printf(out, ",\"weight\":%u,\"waiting\":%u,\"requests\":%" APR_UINT64_T_FMT
                      ",\"cpu_us\":%" APR_UINT64_T_FMT ",\"known_requests\":%" APR_UINT64_T_FMT
                      ",\"known_cpu_us\":%" APR_UINT64_T_FMT "}",
                      counts->weight ? counts->weight : VL_CLASS_WEIGHT, counts->waiting,
                      counts->requests, counts->cpu_us, counts->known_requests,
                      counts->known_cpu_us);
    } while ((int)++c < vl_sharing_classes(sharing));
    vl_out_text(out, "],\"clients\":[");
    for (client = clients; client < clients + n; client++) {
        vl_out_text(out, client == clients ? "\n" : ",\n");
        put_address(out, sharing, client);
        vl_out_printf(out, ",\"known\":%s,\"requests\":%u,\"cpu_us\":%" APR_UINT64_T_FMT
                      ",\"idle_s\":%" APR_INT64_T_FMT "}",
                      client->band == VL_BAND_KNOWN ? "true" : "false", client->requests,
                      client->cpu_us, vl_fair_client_idle(client, now_us) / APR_USEC_PER_SEC);
    }
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

    vl_out_json(out, "{\"site\":", site->name);
    vl_out_printf(out, ",\"mode\":\"%s\",\"user\":%lu,\"rules\":[",
                  vl_sandbox_mode_name(mode), (unsigned long)ap_unixd_config.user_id);
    for (i = 0; i < rules->nelts; i++) {
        const vl_rule_t *rule = &APR_ARRAY_IDX(rules, i, vl_rule_t);

        vl_out_printf(out, "%s{\"access\":\"%s\",\"configured\":%s", before,
                      access_names[rule->access], rule->is_configured ? "true" : "false");
        vl_out_json(out, ",\"path\":", rule->path);
        vl_out_text(out, "}");
        before = ",\n";
    }
    vl_out_text(out, "\n]}\n");
}
