/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONF_H
#define VL_CONF_H

/* The module's configuration of one server_rec.  Before vl_conf_check() a setting
 * may be VL_UNSET.  After it every setting has a value and every server has a struct of its
 * own.  Only the parent writes, while it reads the configuration; there is no lock.  Any
 * thread may read. */

#include <ap_expr.h>

#include "core/vl.h"
#include "cgroup/vl_cgroup_value.h"
#include "config/vl_headtime.h"
#include "core/vl_override.h"
#include "base/vl_private.h"
#include "core/vl_fair.h"
#include "config/vl_settings.h"
#include "config/vl_sites.h"
#include "core/vl_clients.h"
#include "sandbox/vl_sandbox.h"

#define VL_CLASS_NAME_MAX 32
#define VL_DATABASE_USER_MAX 128

typedef struct vl_class_conf_t {
    const char *name;
    int weight;
    const ap_expr_info_t *expr;
    const char *text;                   /* of the expression */
    const ap_directive_t *at;           /* valid until vl_conf_check() returns */
} vl_class_conf_t;

typedef enum { VL_KNOWN_UNSET, VL_KNOWN_OFF, VL_KNOWN_ADDRESS, VL_KNOWN_COOKIE } vl_known_e;

typedef struct vl_sharing_conf_t {
    int clients;                        /* 1: On; 0: Off; VL_UNSET */
    int bits4, bits6;                   /* length of the prefixes of clients */
    apr_array_header_t *classes;        /* of vl_class_conf_t, or NULL */
    vl_known_e known;
    int share;                          /* % of known clients */
    apr_int64_t ttl_us;                 /* how long a client is known at most */
} vl_sharing_conf_t;

typedef enum { VL_ACCOUNTS_UNSET, VL_ACCOUNTS_VHOST, VL_ACCOUNTS_HOST } vl_accounts_e;

typedef struct vl_accounts_conf_t {
    vl_accounts_e by;
    int max;                            /* 0: not written */
} vl_accounts_conf_t;

typedef struct vl_conf_t vl_conf_t;

/* A plan: limits that sites share by name. */
typedef struct vl_plan_t {
    const char *name;
    vl_conf_t *conf;                    /* has what the section sets; conf->set_at tells */
    const char *place;                  /* file:line of the section */
    vl_override_t *state;               /* what it sets now; set by vl_plans_post_config() */
} vl_plan_t;

/* Limits of a site that stand outside of its virtual hosts. */
typedef struct vl_site_conf_t {
    const char *name;                   /* of the site, in lower case */
    vl_conf_t *conf;                    /* has what the section sets; conf->set_at tells */
    const ap_directive_t *at;           /* valid until vl_conf_check() returns */
    int is_used;                        /* 1: there is such a site */
} vl_site_conf_t;

struct vl_conf_t {
#define VL_TYPE_TAKE1 int
#define VL_TYPE_TAKE12 int
#define VL_TYPE_BYTES apr_int64_t
#define X(member, directive, args, def, min, max, unit, words, help) VL_TYPE_##args member;
    VL_SETTINGS(X)
#undef X
    apr_interval_time_t queue_timeout;      /* -1: not configured */
    const char *group;          /* "@" and the name of VhostLimitGroup, or NULL */
    const char *plan_name;      /* of VhostLimitPlan; "": none; NULL: not configured */
    const ap_directive_t *plan_at;      /* valid until vl_conf_check() returns */
    vl_plan_t *plan;            /* set by vl_plans_find(); NULL: none */
    vl_conf_t *unplanned;       /* with a plan: the same without it */
    unsigned own;               /* with a plan: VL_KEY_BIT() of the limits that the site has
                                 * itself */
    apr_array_header_t *plans;  /* vl_plan_t *; main server only; NULL: none */
    apr_array_header_t *site_confs;     /* vl_site_conf_t *; main server only; NULL: none */
    const char *save_file;      /* main server only; NULL: not configured */
    const ap_expr_info_t *exempt;       /* NULL: no request is exempt */
    vl_sharing_conf_t sharing;  /* shares inside the site */
    vl_accounts_conf_t accounts;        /* VhostLimitAccounts */
    apr_array_header_t *sandbox_paths;      /* of vl_rule_t, or NULL */
    apr_array_header_t *connects;       /* of const char *, the words of
                                 * VhostLimitSandboxConnect, or NULL */
    apr_array_header_t *database_users;     /* of const char *, the words of
                                 * VhostLimitDatabaseUser, or NULL */
    const vl_sandbox_t *programs;       /* sandbox of the site's programs, or NULL; set by
                                 * vl_sandboxes_make() */
    const apr_array_header_t *servers;  /* main server only: of server_rec *, the main server, then
                                 * the vhosts in the order of the configuration file. httpd's own
                                 * list has the vhosts in reverse order */
    const apr_array_header_t *sites;    /* main server only: of server_rec *, the first virtual host
                                 * of each site that takes part (not VhostLimit Off); set by
                                 * vl_sites_list() */
#define X(member, directive, args, def, min, max, unit, words, help) int member;
    VL_GLOBALS(X)               /* the values of the main server */
#undef X
    const char *cgroup;         /* main server only: "auto", "off" or a path */
    vl_headtime_t head_time;    /* set by vl_headtime_post_config() */
    const ap_directive_t *section;      /* <VirtualHost>, or NULL; set by vl_conf_check().
                                 * Valid until post_config returns */
    const ap_directive_t *set_at[VL_AT_COUNT];  /* the line of this <VirtualHost> with the
                                 * setting; NULL: inherited or default.  Valid until
                                 * vl_conf_check() returns */
    vl_site_t *site;            /* set by vl_sites_find(), in vl_conf_check() */
    apr_uint32_t account;       /* account number of the site in shared memory; set by
                                 * vl_accounts_post_config(). Requests belong to
                                 * vl_accounts_find() */
    int is_plain;               /* 1: whether a request may run in a dormant server depends on
                                 * nothing but its site. Set by vl_hooks_post_config() */
    int needs_head;             /* 1: a directive looks at the header lines as the client sent them
                                 * (vl_seen.h). Set by vl_conf_check() */
    int refused;                /* 1: the account cannot be entered in shared memory;
                                 * mode is VL_MODE_OFF and all requests are refused */
};

extern const command_rec vl_conf_cmds[];

void *vl_conf_create(apr_pool_t *p, server_rec *s);
void *vl_conf_merge(apr_pool_t *p, void *base, void *add);

/* Returns the module's configuration of the server. */
static inline vl_conf_t *vl_conf_get(const server_rec *s)
{
    return ap_get_module_config(s->module_config, &vhostlimit_module);
}
/* Returns the limits that can change while the server runs, as configured. */
vl_values_t vl_conf_values(const vl_conf_t *conf);
/* Changes the configured value of one of them. */
void vl_conf_put_value(vl_conf_t *conf, vl_key_e key, apr_int64_t value);
/* Returns the index of its directive in vl_conf_t.set_at. */
int vl_conf_at(vl_key_e key);
/* Returns the limits for the vhost's cgroups, as configured.  With Off and DryRun there
 * are none, and the weight is the default. */
vl_cgroup_limits_t vl_conf_cgroup_limits(const vl_conf_t *conf);
/* Returns the same with the values of `now`, which vhostlimitctl may have changed. */
vl_cgroup_limits_t vl_conf_cgroup_limits_with(const vl_conf_t *conf,
                                              const vl_values_t *now);

/* Parses `arg` as the directive of that key does and stores the value in `values`.  Returns
 * NULL or an error message allocated in p. */
const char *vl_conf_read_limit(apr_pool_t *p, vl_key_e key, const char *arg,
                               vl_values_t *values);

/* Returns the arguments of a directive of any module at the top level of the configuration,
 * as written; the last occurrence counts.  NULL: the directive is not used.  Valid while
 * the configuration is read and in post_config. */
const char *vl_conf_argument(const char *name);

/* Returns the Retry-After value for a refused request, in seconds; 0: the response has no
 * such header.  service_us and slots: see vl_slot_retry_after(). */
apr_uint32_t vl_conf_retry_after(const vl_conf_t *conf, apr_uint64_t service_us,
                                 apr_uint32_t slots);

/* Returns 1 with the MPMs event, worker and prefork, else 0.  With any other MPM
 * vl_conf_check() sets the mode of every server to VL_MODE_OFF. */
int vl_conf_knows_mpm(void);

/* Parent, in check_config, which "httpd -t" runs too: finds the sites and fills in defaults.
 * On an error logs the place and the reason, and returns a status other than
 * APR_SUCCESS. */
apr_status_t vl_conf_check(apr_pool_t *p, apr_pool_t *ptemp,
                           server_rec *main_server);

/* Parent, in post_config: logs the warnings of vl_conf_check(), which does so itself in a test
 * of the configuration only. The error log is not open yet when check_config runs at a
 * start. */
void vl_conf_post_config(const server_rec *main_server);

#endif
