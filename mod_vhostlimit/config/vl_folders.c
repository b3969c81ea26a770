/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_folders.h"

#include <string.h>

#include <http_config.h>
#include <http_main.h>

#include "core/vl_fair.h"

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

apr_uint32_t vl_folders_account(const char *folder)
{
    search_t search = { .folder = folder, .length = strlen(folder) };
    const vl_conf_t *conf;
    const ap_directive_t *d;

    for (d = ap_conftree; d; d = d->next) {
        if (!ap_cstr_casecmp(d->directive, "<VirtualHost"))
            see(&search, d, d->first_child);
    }
    conf = search.tied ? NULL : conf_of(search.section);
    return conf && conf->mode != VL_MODE_OFF && conf->accounts.by != VL_ACCOUNTS_HOST
           ? conf->account : VL_NO_ACCOUNT;
}
