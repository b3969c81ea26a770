/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a user of the machine the sites that the user owns: those of which the DocumentRoots
 * of all virtual hosts belong to the user.  Root and Apache's user own none: programs of all
 * sites run as the latter. */
#include <sys/stat.h>

#include <apr_strings.h>
#include <http_core.h>
#include <unixd.h>

#include "config/vl_conf.h"
#include "control/vl_command.h"
#include "control/vl_control_int.h"
#include "status/vl_status_int.h"

typedef struct owned_t {
    server_rec *s;                  /* a virtual host of the site */
    uid_t uid;
} owned_t;

static apr_array_header_t *owned;   /* of owned_t */

/* Returns 0 if the site has no owner. */
static uid_t find_owner(const vl_site_t *site)
{
    uid_t uid = 0;
    int i;

    for (i = 0; i < site->vhosts->nelts; i++) {
        const server_rec *s = APR_ARRAY_IDX(site->vhosts, i, server_rec *);
        const core_server_config *core = ap_get_core_module_config(s->module_config);
        struct stat root;

        if (!core->ap_document_root || stat(core->ap_document_root, &root)
            || (i && root.st_uid != uid))
            return 0;
        uid = root.st_uid;
    }
    return uid == ap_unixd_config.user_id ? 0 : uid;
}

int vl_control_owner_post_config(void)
{
    const apr_array_header_t *servers = vl_conf_get(vl_control_server)->sites;
    int i, has_owners = 0;

    owned = apr_array_make(vl_control_server->process->pconf, 1, sizeof(owned_t));
    for (i = 0; i < servers->nelts; i++) {
        owned_t site = { .s = APR_ARRAY_IDX(servers, i, server_rec *) };
        const vl_conf_t *conf = vl_conf_get(site.s);

        if (conf->owner != VL_OWNER_SANDBOX)
            vl_shm_parent_unconfine(vl_control_shm, conf->account, 0);
        if (conf->owner == VL_OWNER_OFF)
            continue;
        has_owners = 1;
        site.uid = find_owner(conf->site);
        if (site.uid)
            APR_ARRAY_PUSH(owned, owned_t) = site;
    }
    return has_owners;
}

/* Switches the sandbox of a site that the user owns.  Returns NULL or an error message. */
static const char *change(apr_pool_t *p, const vl_command_t *command, uid_t uid)
{
    int i;

    for (i = 0; i < owned->nelts; i++) {
        const owned_t *site = &APR_ARRAY_IDX(owned, i, owned_t);
        const vl_conf_t *conf = vl_conf_get(site->s);

        if (site->uid != uid || ap_cstr_casecmp(conf->site->name, command->vhost))
            continue;
        if (conf->owner != VL_OWNER_SANDBOX || conf->sandbox == VL_SANDBOX_OFF)
            return apr_psprintf(p, "the administrator has not left the sandbox of site %s to its "
                                "owner", conf->site->name);
        vl_shm_parent_unconfine(vl_control_shm, conf->account, !command->is_on);
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, vl_control_server, VLOGNO(0082)
                     "site %s: its owner (user %lu) has switched its sandbox %s",
                     conf->site->name, (unsigned long)uid, command->is_on ? "on" : "off");
        return NULL;
    }
    /* The message does not tell whether another user has such a site. */
    return apr_psprintf(p, "you own no site '%s'", command->vhost);
}

static void put_site(vl_out_t *out, const server_rec *s)
{
    const vl_conf_t *conf = vl_conf_get(s);
    int is_off = vl_shm_is_unconfined(vl_control_shm, conf->account);

    vl_out_printf(out, "{\"sandbox\":\"%s\",\"switched\":%s,\"may_switch\":%s,"
                  "\"held_permille\":%" APR_UINT64_T_FMT ",\"status\":",
                  vl_sandbox_mode_name(is_off ? VL_SANDBOX_OFF : (vl_sandbox_e)conf->sandbox),
                  is_off ? "true" : "false",
                  conf->owner == VL_OWNER_SANDBOX && conf->sandbox != VL_SANDBOX_OFF ? "true"
                  : "false", vl_shm_facts(vl_control_shm).held);
    vl_status_json(out, vl_status_gather(out->pool, s, NULL));
    vl_out_text(out, "}");
}

int vl_control_owner_answer(const char *line, apr_size_t len, uid_t uid, vl_out_t *out)
{
    vl_command_t *command = apr_palloc(out->pool, sizeof(*command));
    const char *wrong = vl_command_parse(line, len, command), *before = "\n";
    int i;

    if (wrong || command->verb != VL_COMMAND_MINE)
        return 0;
    if (command->vhost)
        wrong = change(out->pool, command, uid);
    if (wrong) {
        vl_out_json(out, "{\"error\":", wrong);
        vl_out_text(out, "}\n");
        return 1;
    }
    vl_out_text(out, "{\"mine\":[");
    for (i = 0; i < owned->nelts; i++) {
        const owned_t *site = &APR_ARRAY_IDX(owned, i, owned_t);

        if (site->uid != uid)
            continue;
        vl_out_text(out, before);
        put_site(out, site->s);
        before = ",\n";
    }
    vl_out_text(out, "\n]}\n");
    return 1;
}
