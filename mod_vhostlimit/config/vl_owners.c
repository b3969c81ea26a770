/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_owners.h"

#include <string.h>

#include <apr_hash.h>
#include <apr_strings.h>
#include <http_config.h>
#include <http_main.h>

#include "base/vl_private.h"
#include "core/vl_fair.h"

/* Returns VL_NO_ACCOUNT also if accounts of the site belong to hosts. */
static apr_uint32_t account_of(const vl_conf_t *conf)
{
    return conf && conf->mode != VL_MODE_OFF && conf->accounts.by != VL_ACCOUNTS_HOST
           ? conf->account : VL_NO_ACCOUNT;
}

/* --- folders ---------------------------------------------------------------- */

typedef struct search_t {
    const char *folder;
    size_t length;
    size_t best;                    /* rank of `conf` */
    const ap_directive_t *section;  /* that has it */
    int tied;                       /* another site's path fits as well */
} search_t;

/* Returns how well a path of a directive fits: 0 not at all, else the more the longer. */
static size_t rank(const search_t *search, const char *path, size_t length)
{
    const char *slash;

    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length <= search->length)
        return !strncmp(path, search->folder, length)
               && (length == search->length || search->folder[length] == '/') ? 2 * length : 0;
    slash = memrchr(path, '/', length);
    return (size_t)(slash - path) == search->length
           && !strncmp(path, search->folder, search->length) ? 2 * search->length + 1 : 0;
}

static const vl_conf_t *conf_of(const ap_directive_t *section)
{
    const server_rec *s;

    for (s = ap_server_conf; s && section; s = s->next) {
        if (vl_conf_get(s)->section == section)
            return vl_conf_get(s);
    }
    return NULL;
}

static int are_one_site(const search_t *search, const ap_directive_t *section)
{
    const vl_conf_t *one = conf_of(search->section);
    const vl_conf_t *other = conf_of(section);

    return one && other && one->account == other->account;
}

static void see(search_t *search, const ap_directive_t *section, const ap_directive_t *d)
{
    for (; d; d = d->next) {
        const char *at = d->args;

        while (at && (at = strchr(at, '/'))) {
            size_t length = strcspn(at, "\"' \t>|"), fits = 0;

            if (length > 1 && (at == d->args || strchr("\"' \t:", at[-1])))
                fits = rank(search, at, length);
            if (fits > search->best) {
                search->best = fits;
                search->section = section;
                search->tied = 0;
            }
            else if (fits && fits == search->best && !search->tied) {
                search->tied = section != search->section && !are_one_site(search, section);
            }
            at += length;
        }
        see(search, section, d->first_child);
    }
}

apr_uint32_t vl_owners_of_folder(const char *folder)
{
    search_t search = { .folder = folder, .length = strlen(folder) };
    const vl_conf_t *conf;
    const ap_directive_t *d;

    for (d = ap_conftree; d; d = d->next) {
        if (!ap_cstr_casecmp(d->directive, "<VirtualHost"))
            see(&search, d, d->first_child);
    }
    conf = search.tied ? NULL : conf_of(search.section);
    return account_of(conf);
}

/* --- users of databases ------------------------------------------------------- */

static apr_hash_t *names;           /* of vl_conf_t */

apr_status_t vl_owners_check(apr_pool_t *p, const server_rec *main_server)
{
    const apr_array_header_t *servers = vl_conf_get(main_server)->servers;
    int i, k;

    names = apr_hash_make(p);
    for (i = 0; i < servers->nelts; i++) {
        const vl_conf_t *conf = vl_conf_get(APR_ARRAY_IDX(servers, i, server_rec *)), *other;

        for (k = 0; conf->database_users && k < conf->database_users->nelts; k++) {
            const char *name = APR_ARRAY_IDX(conf->database_users, k, const char *);

            other = apr_hash_get(names, name, APR_HASH_KEY_STRING);
            if (other && other->site != conf->site) {
                ap_log_error(APLOG_MARK, APLOG_EMERG, 0, main_server, VLOGNO(0083)
                             "VhostLimitDatabaseUser %s: sites %s and %s both have it. The server "
                             "does not start. Remove one of them", name, other->site->name,
                             conf->site->name);
                return APR_EINVAL;
            }
            apr_hash_set(names, name, APR_HASH_KEY_STRING, conf);
        }
    }
    return APR_SUCCESS;
}

apr_uint32_t vl_owners_of_user(const char *user)
{
    char name[VL_DATABASE_USER_MAX + 2];
    size_t length = strlen(user);
    const vl_conf_t *conf;

    if (!names || !apr_hash_count(names) || length > VL_DATABASE_USER_MAX)
        return VL_NO_ACCOUNT;
    conf = apr_hash_get(names, user, APR_HASH_KEY_STRING);
    for (; !conf && length; length--) {
        apr_cpystrn(name, user, length + 1);
        name[length] = '*';
        name[length + 1] = '\0';
        conf = apr_hash_get(names, name, APR_HASH_KEY_STRING);
    }
    return account_of(conf);
}
