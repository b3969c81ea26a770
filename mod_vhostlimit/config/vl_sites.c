/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_sites.h"

#include <stddef.h>

#include <apr_hash.h>
#include <apr_strings.h>
#include <http_main.h>

#include "base/vl_private.h"
#include "cgroup/vl_cgroup.h"
#include "config/vl_conf.h"

/* The virtual hosts of one ServerName before groups join them, or one virtual host without
 * ServerName. */
typedef struct base_t {
    vl_site_t *site;            /* the site of the group, if there is one */
    const char *server_name;    /* in lower case; NULL: not in the configuration */
    const server_rec *first;
} base_t;

/* State of one call of vl_sites_find(). */
typedef struct finder_t {
    apr_pool_t *p, *ptemp;
    apr_hash_t *by_name;        /* base_t *, by server_name */
    apr_hash_t *groups;         /* vl_site_t *, by name of the group */
    apr_hash_t *files;          /* names of cgroups in use */
    apr_array_header_t *bases;  /* base_t * */
    apr_array_header_t *sites;  /* vl_site_t *: the bases without groups, and the groups */
    apr_hash_t *confs;          /* arrays of vl_site_conf_t *, by name; NULL: there are none */
} finder_t;

/* A setting that the virtual hosts of a site share. */
typedef struct shared_t {
    const char *directive;
    apr_size_t offset, size;    /* in vl_conf_t */
} shared_t;

static const shared_t shared[VL_AT_COUNT] = {
    { "VhostLimitPlan", offsetof(vl_conf_t, plan), sizeof(void *) },
#define MEMBER(directive, member) \
    { directive, offsetof(vl_conf_t, member), sizeof(((vl_conf_t *)0)->member) },
#define X(member, directive, args, def, min, max, unit, words, help) \
    MEMBER(directive, member)
    VL_SETTINGS(X)
#undef X
    MEMBER("VhostLimitQueue", queue_timeout)
#undef MEMBER
    /* Neighbors without padding between them, from the first to the last. */
#define MEMBERS(directive, first, last) \
    { directive, offsetof(vl_conf_t, sharing.first), \
      offsetof(vl_conf_t, sharing.last) - offsetof(vl_conf_t, sharing.first) \
      + sizeof(((vl_conf_t *)0)->sharing.last) },
    MEMBERS("VhostLimitClients", clients, bits6)
    MEMBERS("VhostLimitKnown", known, ttl_us)
    { "VhostLimitClass", offsetof(vl_conf_t, sharing.classes), sizeof(void *) },
#undef MEMBERS
    { "VhostLimitAccounts", offsetof(vl_conf_t, accounts), sizeof(vl_accounts_conf_t) },
    { "VhostLimitGroup", offsetof(vl_conf_t, group), sizeof(void *) },
};

static server_rec *vhost_of(const vl_site_t *site, int i)
{
    return APR_ARRAY_IDX(site->vhosts, i, server_rec *);
}

const char *vl_sites_address(apr_pool_t *p, const server_addr_rec *address)
{
    const char *host = address->virthost ? address->virthost : "*";
    const char *form = strchr(host, ':') ? "[%s]" : "%s";

    host = apr_psprintf(p, form, host);
    return address->host_port ? apr_psprintf(p, "%s:%u", host, address->host_port)
                              : host;
}

/* --- ServerName ----------------------------------------------------------- */

/* Returns the ServerName of the configuration in lower case, or NULL.  A server_rec does not
 * tell: httpd gives one without ServerName the name of the main server or of its address. */
static const char *server_name(const finder_t *finder, const server_rec *s)
{
    const ap_directive_t *section = vl_conf_get(s)->section;
    const ap_directive_t *d = s->is_virtual ? section ? section->first_child : NULL
                                            : ap_conftree;
    char *name;

    while (d && ap_cstr_casecmp(d->directive, "ServerName"))
        d = d->next;
    if (!d || !s->server_hostname)
        return NULL;
    name = apr_pstrdup(finder->p, s->server_hostname);
    ap_str_tolower(name);
    return name;
}

/* --- bases and groups ----------------------------------------------------- */

static vl_site_t *make_site(const finder_t *finder)
{
    vl_site_t *site = apr_pcalloc(finder->p, sizeof(*site));

    site->vhosts = apr_array_make(finder->p, 2, sizeof(server_rec *));
    site->confs = apr_array_make(finder->p, 1, sizeof(vl_site_conf_t *));
    return site;
}

/* Adds the sections of that name to the list. */
static void find_confs(const finder_t *finder, const char *name, apr_array_header_t *confs)
{
    const apr_array_header_t *found;
    char *lower;
    int i;

    if (!finder->confs)
        return;
    lower = apr_pstrdup(finder->ptemp, name);
    ap_str_tolower(lower);
    found = apr_hash_get(finder->confs, lower, APR_HASH_KEY_STRING);
    for (i = 0; found && i < found->nelts; i++) {
        vl_site_conf_t *conf = APR_ARRAY_IDX(found, i, vl_site_conf_t *);

        if (!conf->is_used)
            APR_ARRAY_PUSH(confs, vl_site_conf_t *) = conf;
        conf->is_used = 1;
    }
}

/* Finds the base of the server, or creates it. */
static base_t *find_base(finder_t *finder, const server_rec *s)
{
    const char *name = server_name(finder, s);
    base_t *base = name ? apr_hash_get(finder->by_name, name, APR_HASH_KEY_STRING)
                        : NULL;

    if (base)
        return base;
    base = apr_palloc(finder->ptemp, sizeof(*base));
    base->site = make_site(finder);
    base->server_name = name;
    base->first = s;
    if (name)
        find_confs(finder, name, base->site->confs);
    if (name)
        apr_hash_set(finder->by_name, name, APR_HASH_KEY_STRING, base);
    APR_ARRAY_PUSH(finder->bases, base_t *) = base;
    return base;
}

/* --- settings that virtual hosts share ------------------------------------- */

static const void *member_of(const vl_conf_t *conf, int which)
{
    return (const char *)conf + shared[which].offset;
}

/* Returns the i-th class, or the last one if there are fewer.  A virtual host has no two
 * classes of one name, so the last one differs from any later class of another list. */
static const vl_class_conf_t *class_at(const apr_array_header_t *classes, int i)
{
    return &APR_ARRAY_IDX(classes, i < classes->nelts ? i : classes->nelts - 1,
                          vl_class_conf_t);
}

/* Compares a setting of two configurations, which both have it.  *ret_a and *ret_b are the
 * directives; if the values differ, those to name in the message. */
static int is_same(int which, const vl_conf_t *one, const vl_conf_t *other,
                   const ap_directive_t **ret_a, const ap_directive_t **ret_b)
{
    const apr_array_header_t *as = one->sharing.classes, *bs = other->sharing.classes;
    int i;

    *ret_a = one->set_at[which];
    *ret_b = other->set_at[which];
    if (which == VL_AT_group)
        return !strcmp(one->group, other->group);
    if (which != VL_AT_classes)
        return !memcmp(member_of(one, which), member_of(other, which), shared[which].size);
    for (i = 0; i < as->nelts || i < bs->nelts; i++) {
        const vl_class_conf_t *a = class_at(as, i), *b = class_at(bs, i);

        *ret_a = a->at;
        *ret_b = b->at;
        if (a->weight != b->weight || ap_cstr_casecmp(a->name, b->name) || strcmp(a->text, b->text))
            return 0;
    }
    return 1;
}

/* Compares the setting with that of *source, if both have it, and sets *source to the first
 * configuration that has it.  Logs that the values differ, and returns APR_EINVAL then. */
static apr_status_t check_setting(const char *site, int which, const vl_conf_t *conf,
                                  const vl_conf_t **source)
{
    const ap_directive_t *a, *b;

    if (!conf->set_at[which])
        return APR_SUCCESS;
    if (!*source)
        *source = conf;
    if (*source == conf || is_same(which, *source, conf, &a, &b))
        return APR_SUCCESS;
    ap_log_error(APLOG_MARK, APLOG_EMERG, 0, ap_server_conf, VLOGNO(0015)
                 "site %s: %s is %s in %s:%d and %s in %s:%d. The virtual hosts "
                 "of a site share its limits, so the server does not start. "
                 "Write the directive once, or the same value in both places",
                 site, shared[which].directive, a->args, a->filename, a->line_num, b->args,
                 b->filename, b->line_num);
    return APR_EINVAL;
}

/* Finds the configuration that has the setting: that of <VhostLimitSite>, or else of a virtual host.
 * *ret_source is NULL if there is none.  name: of the site, for the message.  Returns APR_EINVAL if
 * two sections, or two virtual hosts, set different values. */
static apr_status_t find_setting(const vl_site_t *site, const char *name, int which,
                                 const vl_conf_t **ret_source)
{
    apr_status_t rv = APR_SUCCESS;
    int i;

    *ret_source = NULL;
    for (i = 0; i < site->confs->nelts && rv == APR_SUCCESS; i++)
        rv = check_setting(name, which, APR_ARRAY_IDX(site->confs, i, vl_site_conf_t *)->conf,
                           ret_source);
    if (!*ret_source) {
        for (i = 0; i < site->vhosts->nelts && rv == APR_SUCCESS; i++)
            rv = check_setting(name, which, vl_conf_get(vhost_of(site, i)), ret_source);
    }
    return rv;
}

/* Moves the virtual hosts of the base to the site of their group, if they have one. */
static apr_status_t join_group(finder_t *finder, base_t *base)
{
    const vl_conf_t *source;
    apr_status_t rv = find_setting(base->site, base->server_name, VL_AT_group, &source);
    const char *group = source ? source->group : NULL;
    vl_site_t *site;

    if (!group) {
        APR_ARRAY_PUSH(finder->sites, vl_site_t *) = base->site;
        return rv;
    }
    site = apr_hash_get(finder->groups, group, APR_HASH_KEY_STRING);
    if (!site) {
        site = make_site(finder);
        apr_hash_set(finder->groups, group, APR_HASH_KEY_STRING, site);
        APR_ARRAY_PUSH(finder->sites, vl_site_t *) = site;
        site->name = group;
    }
    apr_array_cat(site->vhosts, base->site->vhosts);
    apr_array_cat(site->confs, base->site->confs);
    base->site = site;
    return rv;
}

/* --- names ---------------------------------------------------------------- */

/* Returns the name, or name#2, name#3 ... if another site has it.  Names are compared as
 * names of cgroups, so that every site has a cgroup of its own. */
static const char *unique_name(const finder_t *finder, const char *name)
{
    const char *unique = name, *file = vl_cgroup_file_name(finder->ptemp, name);
    unsigned n = 1;

    while (apr_hash_get(finder->files, file, APR_HASH_KEY_STRING)) {
        unique = apr_psprintf(finder->p, "%s#%u", name, ++n);
        file = vl_cgroup_file_name(finder->ptemp, unique);
    }
    apr_hash_set(finder->files, file, APR_HASH_KEY_STRING, unique);
    return unique;
}

/* Returns the name of a base without ServerName. */
static const char *name_by_address(apr_pool_t *p, const server_rec *s)
{
    char *name;

    if (s->is_virtual && s->addrs)
        return vl_sites_address(p, s->addrs);
    name = apr_pstrdup(p, s->server_hostname ? s->server_hostname : "_default_");
    ap_str_tolower(name);
    return name;
}

/* Names the sites.  The names of groups come first, then those that the configuration has,
 * so that a name which httpd has found never takes one of them. */
static void name_sites(finder_t *finder)
{
    int i, with_name;

    for (i = 0; i < finder->sites->nelts; i++) {
        vl_site_t *site = APR_ARRAY_IDX(finder->sites, i, vl_site_t *);

        if (site->name)
            site->name = unique_name(finder, site->name);
    }
    for (with_name = 1; with_name >= 0; with_name--) {
        for (i = 0; i < finder->bases->nelts; i++) {
            base_t *base = APR_ARRAY_IDX(finder->bases, i, base_t *);

            if (base->site->name || (base->server_name != NULL) != with_name)
                continue;
            base->site->name = unique_name(finder, with_name ? base->server_name
                                           : name_by_address(finder->p,
                                                             base->first));
        }
    }
}

/* --- limits --------------------------------------------------------------- */

/* Gives a virtual host the settings of its plan that its site does not set itself. */
static void apply_plan(apr_pool_t *p, vl_conf_t *conf, const int is_set[VL_AT_group])
{
    const vl_conf_t *plan = conf->plan->conf;
    vl_key_e key;
    int which;

    conf->unplanned = apr_pmemdup(p, conf, sizeof(*conf));
    conf->own = 0;
    for (which = 0; which < VL_AT_group; which++) {
        if (!is_set[which] && plan->set_at[which])
            memcpy((char *)conf + shared[which].offset,
                   (const char *)plan + shared[which].offset, shared[which].size);
    }
    for (key = 0; key < VL_KEY_COUNT; key++) {
        if (is_set[vl_conf_at(key)])
            conf->own |= VL_KEY_BIT(key);
    }
}

/* Shares all settings, and applies the plan of the site.  Only the first conflict of a site
 * is logged. */
static apr_status_t share_settings(apr_pool_t *p, const vl_site_t *site)
{
    int is_set[VL_AT_group] = { 0 };
    apr_status_t rv = APR_SUCCESS;
    const vl_conf_t *source;
    int which, i;

    for (which = 0; which < VL_AT_group && rv == APR_SUCCESS; which++) {
        rv = find_setting(site, site->name, which, &source);
        is_set[which] = source != NULL;
        for (i = 0; source && i < site->vhosts->nelts && rv == APR_SUCCESS; i++)
            memmove((char *)vl_conf_get(vhost_of(site, i)) + shared[which].offset,
                    member_of(source, which), shared[which].size);
    }
    for (i = 0; i < site->vhosts->nelts && rv == APR_SUCCESS; i++) {
        vl_conf_t *conf = vl_conf_get(vhost_of(site, i));

        if (conf->plan)
            apply_plan(p, conf, is_set);
    }
    return rv;
}

/* --- all ------------------------------------------------------------------ */

/* Returns the <VhostLimitSite> sections by name. */
static apr_hash_t *confs_by_name(apr_pool_t *ptemp, const apr_array_header_t *confs)
{
    apr_hash_t *by_name = confs ? apr_hash_make(ptemp) : NULL;
    int i;

    for (i = 0; confs && i < confs->nelts; i++) {
        vl_site_conf_t *conf = APR_ARRAY_IDX(confs, i, vl_site_conf_t *);
        apr_array_header_t *same = apr_hash_get(by_name, conf->name, APR_HASH_KEY_STRING);

        if (!same) {
            same = apr_array_make(ptemp, 1, sizeof(vl_site_conf_t *));
            apr_hash_set(by_name, conf->name, APR_HASH_KEY_STRING, same);
        }
        APR_ARRAY_PUSH(same, vl_site_conf_t *) = conf;
    }
    return by_name;
}

void vl_sites_report_unused(const server_rec *main_server)
{
    const apr_array_header_t *confs = vl_conf_get(main_server)->site_confs;
    int i;

    for (i = 0; confs && i < confs->nelts; i++) {
        const vl_site_conf_t *conf = APR_ARRAY_IDX(confs, i, vl_site_conf_t *);

        if (!conf->is_used)
            ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0063)
                         "<VhostLimitSite %s> in %s:%d: there is no such site, so the section "
                         "is ignored. Remove it, or correct the name", conf->name,
                         conf->at->filename, conf->at->line_num);
    }
}

apr_status_t vl_sites_find(apr_pool_t *p, apr_pool_t *ptemp,
                           server_rec *main_server)
{
    const apr_array_header_t *servers = vl_conf_get(main_server)->servers;
    finder_t finder = {
        .p = p, .ptemp = ptemp,
        .confs = confs_by_name(ptemp, vl_conf_get(ap_server_conf)->site_confs),
        .by_name = apr_hash_make(ptemp),
        .groups = apr_hash_make(ptemp),
        .files = apr_hash_make(ptemp),
        .bases = apr_array_make(ptemp, servers->nelts, sizeof(base_t *)),
        .sites = apr_array_make(ptemp, servers->nelts, sizeof(vl_site_t *))
    };
    apr_array_header_t *bases = apr_array_make(ptemp, servers->nelts,
                                               sizeof(base_t *));
    apr_status_t rv = APR_SUCCESS, failed = APR_SUCCESS;
    int i;

    for (i = 0; i < servers->nelts; i++) {
        server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);
        const vl_conf_t *conf = vl_conf_get(s);
        base_t *base = find_base(&finder, s);

        APR_ARRAY_PUSH(bases, base_t *) = base;
        /* The virtual host itself does not say VhostLimit Off. */
        if (!conf->set_at[VL_AT_mode] || conf->mode != VL_MODE_OFF)
            APR_ARRAY_PUSH(base->site->vhosts, server_rec *) = s;
    }
    for (i = 0; i < finder.bases->nelts; i++) {
        rv = join_group(&finder, APR_ARRAY_IDX(finder.bases, i, base_t *));
        failed = rv != APR_SUCCESS ? rv : failed;
    }
    name_sites(&finder);
    for (i = 0; i < finder.sites->nelts; i++) {
        vl_site_t *site = APR_ARRAY_IDX(finder.sites, i, vl_site_t *);

        find_confs(&finder, site->name, site->confs);
        rv = share_settings(p, site);
        failed = rv != APR_SUCCESS ? rv : failed;
    }
    for (i = 0; i < servers->nelts; i++) {
        server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);

        vl_conf_get(s)->site = APR_ARRAY_IDX(bases, i, base_t *)->site;
    }
    return failed;
}

void vl_sites_list(apr_pool_t *p, const server_rec *main_server)
{
    const apr_array_header_t *all = vl_conf_get(main_server)->servers;
    apr_array_header_t *servers = apr_array_make(p, all->nelts,
                                                 sizeof(server_rec *));
    int i;

    for (i = 0; i < all->nelts; i++) {
        server_rec *s = APR_ARRAY_IDX(all, i, server_rec *);
        const vl_conf_t *conf = vl_conf_get(s);

        if (conf->mode != VL_MODE_OFF && vhost_of(conf->site, 0) == s)
            APR_ARRAY_PUSH(servers, server_rec *) = s;
    }
    vl_conf_get(main_server)->sites = servers;
}
