/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_database_users.h"

#include <string.h>

#include <apr_hash.h>
#include <apr_strings.h>

#include "base/vl_private.h"

static apr_hash_t *names;           /* of vl_conf_t */

apr_status_t vl_database_users_check(apr_pool_t *p, const server_rec *main_server)
{
    const apr_array_header_t *servers = vl_conf_servers(main_server);
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

apr_uint32_t vl_database_users_account(const char *user)
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
    return conf && conf->mode != VL_MODE_OFF && conf->accounts.by != VL_ACCOUNTS_HOST
           ? conf->account : VL_NO_ACCOUNT;
}
