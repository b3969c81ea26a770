/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_headtime.h"

#include <stdlib.h>
#include <string.h>

#include <http_config.h>
#include <http_core.h>
#include <http_protocol.h>

#include "config/vl_conf.h"

#define TLS_UNSET (-1)

static const vl_headtime_t unlimited = { .tls = TLS_UNSET };
/* Defaults of mod_reqtimeout (MRT_DEFAULT_header_* in mod_reqtimeout.c). */
static const vl_headtime_t defaults = {
    .header = { 20 * APR_USEC_PER_SEC, 40 * APR_USEC_PER_SEC,
                APR_USEC_PER_SEC / 500 },
    .tls = TLS_UNSET
};

/* Parses "20", "20,MinRate=500" or "20-40,MinRate=500".  mod_reqtimeout has checked the
 * syntax. */
static void read_stage(vl_stage_t *stage, const char *text)
{
    const char *rate = ap_strcasestr(text, ",minrate=");
    char *end;

    stage->initial_us = strtol(text, &end, 10) * APR_USEC_PER_SEC;
    stage->max_us = *end == '-' ? strtol(end + 1, NULL, 10) * APR_USEC_PER_SEC
                                : 0;
    stage->us_per_byte = rate ? APR_USEC_PER_SEC
                                / strtol(rate + strlen(",minrate="), NULL, 10)
                              : 0;
}

/* Parses the arguments of one RequestReadTimeout directive. */
static void read_line(vl_headtime_t *time, const char *args)
{
    const char *word;

    for (word = args; *word; word += strcspn(word, " \t\"")) {
        word += strspn(word, " \t\"");
        if (!strncasecmp(word, "header=", 7))
            read_stage(&time->header, word + 7);
        else if (!strncasecmp(word, "handshake=", 10))
            read_stage(&time->handshake, word + 10);
    }
}

/* Reads the directives of one level of the configuration tree in their order; the last
 * occurrence counts.  loaded: mod_reqtimeout is loaded. */
static void read_level(vl_headtime_t *time, const ap_directive_t *d, int loaded)
{
    for (; d; d = d->next) {
        if (loaded && !ap_cstr_casecmp(d->directive, "RequestReadTimeout"))
            read_line(time, d->args);
        if (!ap_cstr_casecmp(d->directive, "SSLEngine")
            || !ap_cstr_casecmp(d->directive, "GnuTLSEnable"))
            time->tls = !ap_cstr_casecmp(d->args, "on");
    }
}

/* Returns the <VirtualHost> section of the server; NULL for the main server. */
static const ap_directive_t *section_of(const server_rec *s)
{
    const ap_directive_t *d;

    for (d = s->is_virtual ? ap_conftree : NULL; d; d = d->next) {
        if (!ap_cstr_casecmp(d->directive, "<VirtualHost")
            && (unsigned)d->line_num == s->defn_line_number && s->defn_name
            && !strcmp(d->filename, s->defn_name))
            return d;
    }
    return NULL;
}

void vl_headtime_post_config(server_rec *main_server)
{
    int loaded = ap_find_linked_module("mod_reqtimeout.c") != NULL;
    vl_headtime_t base = loaded ? defaults : unlimited;
    const ap_directive_t *section;
    server_rec *s;

    read_level(&base, ap_conftree, loaded);
    for (s = main_server; s; s = s->next) {
        vl_headtime_t *time = &vl_conf_get(s)->head_time;

        *time = base;
        section = section_of(s);
        if (section)
            read_level(time, section->first_child, loaded);
        /* mod_ssl treats "Listen 443 https" as SSLEngine on. */
        if (time->tls == TLS_UNSET)
            time->tls = ap_get_server_protocol(s)
                        && !strcmp(ap_get_server_protocol(s), "https");
    }
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
