/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONF_H
#define VL_CONF_H

/* Configuration of one server_rec.  Until vl_conf_post_config() its settings
 * may be VL_UNSET; after it they are plain values, and each server has a struct
 * of its own. */

#include <ap_expr.h>

#include "core/vl.h"
#include "cgroup/vl_cgroup_value.h"
#include "config/vl_headtime.h"
#include "core/vl_override.h"
#include "base/vl_private.h"
#include "core/vl_queue.h"
#include "config/vl_settings.h"

typedef struct vl_conf_t {
#define X(member, directive, args, def, min, max, unit, words, help) int member;
    VL_SETTINGS(X)
#undef X
#define X(member, directive, least, help) apr_int64_t member;
    VL_SIZES(X)
#undef X
    apr_interval_time_t queue_timeout;      /* -1: unset */
    const char *group;          /* NULL: an account of its own */
    const ap_expr_info_t *exempt;       /* NULL: nobody */
    int slots;                  /* main server only */
    int on_error;               /* VL_ERROR_*, each server has the main's */
    const char *cgroup;         /* main server only: "auto", "off" or a path */
    vl_headtime_t head_time;    /* set by vl_headtime_post_config() */
    const char *account_name;   /* set by vl_conf_post_config() */
    apr_uint32_t account;       /* its number in shared memory; set by the
                                 * module once it is entered there ... */
    int refused;                /* ... or there was no room: it is Off, and its
                                 * requests are refused */
} vl_conf_t;

extern const command_rec vl_conf_cmds[];

void *vl_conf_create(apr_pool_t *p, server_rec *s);
void *vl_conf_merge(apr_pool_t *p, void *base, void *add);

vl_conf_t *vl_conf_get(const server_rec *s);
/* server_rec *: the main server, then the vhosts in the order they are written
 * in; httpd's own list is the other way round. */
apr_array_header_t *vl_conf_servers(apr_pool_t *p, server_rec *main_server);
vl_limits_t vl_conf_limits(const vl_conf_t *conf);
/* What its groups are to have; nothing while it is DryRun. */
vl_cgroup_limits_t vl_conf_cgroup_limits(const vl_conf_t *conf);
/* The same while its limits are others than configured. */
vl_cgroup_limits_t vl_conf_cgroup_limits_with(const vl_conf_t *conf,
                                              const vl_limits_t *limits);
const char *vl_conf_mode_name(int mode);

/* A value as the directive of that name takes it.  NULL, or what is wrong. */
const char *vl_conf_read_limit(apr_pool_t *p, vl_key_e key, const char *arg,
                               vl_limits_t *limits);

/* Of a directive of whatever module, at server level, as it was written; NULL:
 * there is none.  While the configuration is read, and in post_config. */
const char *vl_conf_argument(const char *name);

/* What a refused client is told in Retry-After, seconds; 0: nothing.  service_us and
 * places: see vl_admit_retry_after(). */
apr_uint32_t vl_conf_retry_after(const vl_conf_t *conf, apr_uint64_t service_us,
                                 apr_uint32_t places);

/* False with an MPM other than event, worker and prefork.  Then every server's
 * mode is VL_MODE_OFF after vl_conf_post_config(). */
int vl_conf_knows_mpm(void);

/* Parent, after the vhosts are known: fills in defaults and names accounts.
 * An error is logged with the vhost it is about and returned. */
apr_status_t vl_conf_post_config(apr_pool_t *p, apr_pool_t *ptemp,
                                 server_rec *main_server);

#endif
