/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_headtime.h"

#include <stdlib.h>
#include <string.h>

#include <http_config.h>
#include <http_core.h>
#include <http_protocol.h>

#include "config/vl_conf.h"

#define TLS_UNSET (-1)
/* What the RequestReadTimeout lines of one level set. */
#define HAS_LINE 1
#define HAS_HEADER 2
#define HAS_HANDSHAKE 4

static const vl_headtime_t unlimited = { .tls = TLS_UNSET };
/* Defaults of mod_reqtimeout (MRT_DEFAULT_header_* in mod_reqtimeout.c). */
static const vl_headtime_t defaults = {
    .header = { 20 * APR_USEC_PER_SEC, 40 * APR_USEC_PER_SEC,
                APR_USEC_PER_SEC / 500 },
    .tls = TLS_UNSET
};

/* Parses "20", "20,MinRate=500" or "20-40,MinRate=500", which is all of text.  mod_reqtimeout
 * has checked the syntax, and keeps an int of each number. */
static void read_stage(vl_stage_t *stage, const char *text)
{
    const char *rate = ap_strcasestr(text, ",minrate=");
    char *end;

    stage->initial_us = (int)strtol(text, &end, 10) * APR_USEC_PER_SEC;
    stage->max_us = *end == '-' ? (int)strtol(end + 1, NULL, 10) * APR_USEC_PER_SEC
                                : 0;
    stage->us_per_byte = rate ? APR_USEC_PER_SEC
                                / (int)strtol(rate + strlen(",minrate="), NULL, 10)
                              : 0;
}

/* Parses the arguments of one RequestReadTimeout directive, as set_reqtimeouts() does in
 * mod_reqtimeout.c (httpd 2.4.57 to 2.4.62; t/525 compares it with the installed release): each
 * argument replaces its whole stage.  Returns the flags of the stages. */
static int read_line(apr_pool_t *p, vl_headtime_t *time, const char *args)
{
    int set = HAS_LINE;

    while (*args) {
        const char *word = ap_getword_conf(p, &args);

        if (!strncasecmp(word, "header=", 7)) {
            read_stage(&time->header, word + 7);
            set |= HAS_HEADER;
        }
        else if (!strncasecmp(word, "handshake=", 10)) {
            read_stage(&time->handshake, word + 10);
            set |= HAS_HANDSHAKE;
        }
    }
    return set;
}

/* Reads the directives of one level of the configuration tree in their order; the last
 * occurrence counts.  loaded: mod_reqtimeout is loaded.  Returns the flags of read_line(). */
static int read_level(apr_pool_t *p, vl_headtime_t *time, const ap_directive_t *d,
                      int loaded)
{
    int set = 0;

    for (; d; d = d->next) {
        if (loaded && !ap_cstr_casecmp(d->directive, "RequestReadTimeout"))
            set |= read_line(p, time, d->args);
        if (!ap_cstr_casecmp(d->directive, "SSLEngine")
            || !ap_cstr_casecmp(d->directive, "GnuTLSEnable"))
            time->tls = !ap_cstr_casecmp(d->args, "on");
    }
    return set;
}

void vl_headtime_post_config(server_rec *main_server)
{
    int loaded = ap_find_linked_module("mod_reqtimeout.c") != NULL;
    vl_headtime_t base = loaded ? defaults : unlimited;
    apr_pool_t *p;
    server_rec *s;
    int in_main, in_vhost;

    apr_pool_create(&p, main_server->process->pool);
    in_main = read_level(p, &base, ap_conftree, loaded);
    for (s = main_server; s; s = s->next) {
        vl_headtime_t *time = &vl_conf_get(s)->head_time;
        const ap_directive_t *section = vl_conf_get(s)->section;

        *time = base;
        in_vhost = section ? read_level(p, time, section->first_child, loaded) : 0;
        /* mod_reqtimeout loses the rate of a stage that a virtual host inherits from the main server
         * if the virtual host has a RequestReadTimeout for other stages (MERGE_STAGE in
         * mod_reqtimeout.c). The deadline here must be the same. */
        if (in_vhost && (in_main & ~in_vhost) & HAS_HEADER)
            time->header.us_per_byte = 0;
        if (in_vhost && (in_main & ~in_vhost) & HAS_HANDSHAKE)
            time->handshake.us_per_byte = 0;
        /* mod_ssl treats "Listen 443 https" as SSLEngine on. */
        if (time->tls == TLS_UNSET)
            time->tls = ap_get_server_protocol(s)
                        && !strcmp(ap_get_server_protocol(s), "https");
    }
    apr_pool_destroy(p);
}

apr_int64_t vl_headtime_deadline(const server_rec *s, int tls,
                                 apr_int64_t began_us, apr_int64_t last_byte_us,
                                 apr_size_t bytes)
{
    const vl_headtime_t *time = &vl_conf_get(s)->head_time;
    const vl_stage_t *stage = tls ? &time->handshake : &time->header;
    apr_int64_t idle_until_us = last_byte_us + s->timeout, until_us;

    if (!stage->initial_us)
        return idle_until_us;
    until_us = began_us + stage->initial_us
               + (apr_int64_t)bytes * stage->us_per_byte;
    if (stage->max_us && until_us > began_us + stage->max_us)
        until_us = began_us + stage->max_us;
    return until_us < idle_until_us ? until_us : idle_until_us;
}
