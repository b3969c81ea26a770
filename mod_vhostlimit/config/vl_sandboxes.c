/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_sandboxes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <apr_strings.h>
#include <http_core.h>
#include <http_main.h>
#include <unixd.h>

#include "base/vl_private.h"
#include "config/vl_conf.h"
#include "sandbox/vl_path.h"
#include "sandbox/vl_rule.h"

/* What a program finds besides its site.  Paths that do not exist are left out.  In the folders
 * of sockets are those of MySQL, PostgreSQL, systemd-resolved and nscd. */
#define SOCKETS(path) { VL_RULE_RO, path, .has_sockets = 1 }
static const vl_rule_t defaults[] = {
    { VL_RULE_RO, "/usr" }, { VL_RULE_RO, "/bin" }, { VL_RULE_RO, "/sbin" },
    { VL_RULE_RO, "/lib" }, { VL_RULE_RO, "/lib32" }, { VL_RULE_RO, "/lib64" },
    { VL_RULE_RO, "/libx32" }, { VL_RULE_RO, "/opt" }, { VL_RULE_RO, "/etc" },
    SOCKETS("/run/mysqld"), SOCKETS("/var/run/mysqld"),
    SOCKETS("/var/lib/mysql/mysql.sock"),
    SOCKETS("/run/postgresql"), SOCKETS("/var/run/postgresql"),
    SOCKETS("/run/systemd/resolve"), SOCKETS("/run/nscd"),
    SOCKETS("/var/run/nscd"), { VL_RULE_RO, "/var/cache/fontconfig" },
    { VL_RULE_RO, "/sys/devices/system/cpu/online" },
    { VL_RULE_DEVICE, "/dev/null" }, { VL_RULE_DEVICE, "/dev/zero" },
    { VL_RULE_DEVICE, "/dev/full" }, { VL_RULE_DEVICE, "/dev/random" },
    { VL_RULE_DEVICE, "/dev/urandom" },
    { VL_RULE_PROC, "/proc" }, { VL_RULE_TMP, "/tmp" }, { VL_RULE_TMP, "/var/tmp" }
};

/* Folders that FULL makes a site's own, and that FILES does not open, because all sites
 * would share them. */
static const vl_rule_t own[] = {
    { VL_RULE_TMP, "/dev/shm" }, { VL_RULE_TMP, "/var/lib/php/sessions" }
};

/* The virtual hosts of one site that have a sandbox together. */
typedef struct box_t {
    const vl_site_t *site;
    server_rec *server;         /* the first one with the directive, for messages */
    apr_array_header_t *servers;        /* server_rec *: all of the site */
    vl_sandbox_e mode;          /* the strictest */
    apr_array_header_t *rules;  /* of vl_rule_t */
    vl_connect_t connect;
    apr_array_header_t *refused;        /* of const char *: reasons why folders have no rule.
                                         * NULL: links are not looked for, and the tree of
                                         * directives is gone */
} box_t;

/* A DocumentRoot of a site, as it is configured or without links. */
typedef struct root_t {
    const char *path;
    const vl_site_t *site;
} root_t;

/* --- rules ----------------------------------------------------------------- */

static const char *without_slash(apr_pool_t *p, const char *path)
{
    apr_size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    return apr_pstrndup(p, path, n);
}

/* Returns the rule for the path, or NULL. */
static vl_rule_t *find_rule(const apr_array_header_t *rules, const char *path)
{
    int i;

    for (i = 0; i < rules->nelts; i++) {
        if (!strcmp(APR_ARRAY_IDX(rules, i, vl_rule_t).path, path))
            return &APR_ARRAY_IDX(rules, i, vl_rule_t);
    }
    return NULL;
}

/* Adds a rule, in the place of an earlier one for the same path. */
static void put_rule(apr_array_header_t *rules, vl_rule_e access, const char *path,
                     const char *real, int is_configured)
{
    vl_rule_t *rule = find_rule(rules, path);

    if (!rule)
        rule = apr_array_push(rules);
    *rule = (vl_rule_t){ .access = access, .path = path, .real = real,
                         .is_configured = is_configured };
}

/* Returns the root of another site that is the path, lies below it or contains it, or NULL. */
static const root_t *find_other(const box_t *box, const apr_array_header_t *roots,
                                const char *path)
{
    int i;

    for (i = 0; i < roots->nelts; i++) {
        const root_t *root = &APR_ARRAY_IDX(roots, i, root_t);

        if (root->site != box->site && (!strcmp(path, "/")
                                         || vl_path_is_below(root->path, path)
                                         || vl_path_is_below(path, root->path)))
            return root;
    }
    return NULL;
}

/* Returns 1 if the programs may have what the path leads to.  The owner of the folder above it
 * may have replaced it by a link to files of another site.  Then records the reason. */
static int may_follow(apr_pool_t *p, const box_t *box, const apr_array_header_t *roots,
                      const char *path, const vl_path_t *found)
{
    const root_t *other = found->leaves ? find_other(box, roots, found->real) : NULL;

    if (!other && !found->is_foreign)
        return 1;
    APR_ARRAY_PUSH(box->refused, const char *) =
        apr_psprintf(p, "%s leads to %s, which %s", path, found->real,
                     other ? "has the documents of another site" : "may belong to another "
                     "site: the link's owner is not that of its target, or is Apache's user");
    return 0;
}

/* Adds the path as it is configured, and as it is without symbolic links: programs use both.
 * The rules of both open the path without links. */
static void put_folder(apr_pool_t *p, const box_t *box, const apr_array_header_t *roots,
                       vl_rule_e access, const char *path, int is_configured)
{
    vl_path_t found = { .real = NULL };

    path = without_slash(p, path);
    if (box->refused)
        vl_path_resolve(p, path, ap_unixd_config.user_id, &found);
    if (found.real && access != VL_RULE_HIDE && access != VL_RULE_TMP
        && !may_follow(p, box, roots, path, &found))
        return;
    if (!found.real)
        found.real = path;
    if (strcmp(found.real, "/") == 0)
        return;
    put_rule(box->rules, access, path, found.real, is_configured);
    if (strcmp(found.real, path) != 0)
        put_rule(box->rules, access, found.real, found.real, is_configured);
}

static const char *document_root(const server_rec *s)
{
    const core_server_config *core = ap_get_core_module_config(s->module_config);

    return core->ap_document_root;
}

/* Adds the folders of programs that the directives name, and of those in sections of them.
 * <VirtualHost> is not entered. */
static void put_script_folders(apr_pool_t *p, const box_t *box,
                               const apr_array_header_t *roots, const ap_directive_t *first)
{
    const ap_directive_t *d;

    for (d = first; d; d = d->next) {
        const char *args = d->args;
        char *path;

        if (d->first_child && ap_cstr_casecmp(d->directive, "<VirtualHost"))
            put_script_folders(p, box, roots, d->first_child);
        if (ap_cstr_casecmp(d->directive, "ScriptAlias"))
            continue;
        path = ap_getword_conf(p, &args);
        if (*args)              /* in <Location> the only argument is the file */
            path = ap_getword_conf(p, &args);
        path = ap_server_root_relative(p, path);
        if (path)
            put_folder(p, box, roots, VL_RULE_RO, path, 0);
    }
}

/* Returns the directives of <VirtualHost>. */
static const ap_directive_t *directives_of(const server_rec *s)
{
    const ap_directive_t *section = vl_conf_get(s)->section;

    return section ? section->first_child : NULL;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const vl_rule_t *)a)->path, ((const vl_rule_t *)b)->path);
}

static int by_root(const void *a, const void *b)
{
    return strcmp(((const root_t *)a)->path, ((const root_t *)b)->path);
}

/* Returns an array of root_t, sorted by path.  What a root leads to is in it too, unless it may
 * belong to another site.  looks: 0: links are not looked for. */
static apr_array_header_t *find_roots(apr_pool_t *p, const apr_array_header_t *servers,
                                      int looks)
{
    apr_array_header_t *roots = apr_array_make(p, servers->nelts, sizeof(root_t));
    int i;

    for (i = 0; i < servers->nelts; i++) {
        const server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);
        root_t root = { .site = vl_conf_get(s)->site };
        vl_path_t found = { .real = NULL };

        if (!document_root(s))
            continue;
        root.path = without_slash(p, document_root(s));
        APR_ARRAY_PUSH(roots, root_t) = root;
        if (looks)
            vl_path_resolve(p, root.path, ap_unixd_config.user_id, &found);
        if (found.real && !found.is_foreign && strcmp(found.real, root.path) != 0) {
            root.path = found.real;
            APR_ARRAY_PUSH(roots, root_t) = root;
        }
    }
    qsort(roots->elts, (size_t)roots->nelts, sizeof(root_t), by_root);
    return roots;
}

/* Returns the index of the first root that is not before the path. */
static int first_root(const apr_array_header_t *roots, const char *path)
{
    int low = 0, high = roots->nelts;

    while (low < high) {
        int middle = (low + high) / 2;

        if (strcmp(APR_ARRAY_IDX(roots, middle, root_t).path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Hides the documents of other sites in the folders that this one may write to. */
static void hide_others(apr_pool_t *p, const box_t *box, const apr_array_header_t *roots)
{
    int i, j, n = box->rules->nelts;

    for (i = 0; i < n; i++) {
        const vl_rule_t rule = APR_ARRAY_IDX(box->rules, i, vl_rule_t);
        const char *below = apr_pstrcat(p, rule.path, "/", NULL);

        if (rule.access != VL_RULE_RW)
            continue;
        for (j = first_root(roots, below); j < roots->nelts; j++) {
            const root_t *root = &APR_ARRAY_IDX(roots, j, root_t);

            if (strncmp(root->path, below, strlen(below)) != 0)
                break;
            if (root->site != box->site && !find_rule(box->rules, root->path))
                put_rule(box->rules, VL_RULE_HIDE, root->path, NULL, 0);
        }
    }
}

static int has_word(const apr_array_header_t *words, const char *word)
{
    int i;

    for (i = 0; i < words->nelts; i++) {
        if (!strcmp(APR_ARRAY_IDX(words, i, const char *), word))
            return 1;
    }
    return 0;
}

/* Adds a path with sockets to the rules.  One that the programs have anyway keeps its access. */
static void put_sockets(apr_pool_t *p, const box_t *box, const apr_array_header_t *roots,
                        const char *path)
{
    int i, n = box->rules->nelts;

    path = without_slash(p, path);
    if (!find_rule(box->rules, path))
        put_folder(p, box, roots, VL_RULE_RO, path, 0);
    for (i = 0; i < box->rules->nelts; i++) {
        vl_rule_t *rule = &APR_ARRAY_IDX(box->rules, i, vl_rule_t);

        rule->has_sockets |= i >= n || !strcmp(rule->path, path);
    }
}

/* Fills in box->connect. */
static void put_connects(apr_pool_t *p, box_t *box, const apr_array_header_t *roots,
                         const apr_array_header_t *words)
{
    apr_array_header_t *ports = apr_array_make(p, 2, sizeof(int));
    int i;

    box->connect.is_limited = words->nelts > 0;
    box->connect.has_udp = has_word(words, "udp");
    box->connect.ports = ports;
    for (i = 0; i < words->nelts; i++) {
        const char *word = APR_ARRAY_IDX(words, i, const char *);

        if (*word == '/') {
            box->connect.has_unix = 1;
            put_sockets(p, box, roots, word);
        }
        else if (*word >= '0' && *word <= '9')
            APR_ARRAY_PUSH(ports, int) = (int)strtol(word, NULL, 10);
    }
}

/* Returns the rules of every sandbox, an array of vl_rule_t.  tree: of directives, or NULL.
 * refused: as in box_t. */
static apr_array_header_t *common_rules(apr_pool_t *p, const apr_array_header_t *roots,
                                        apr_array_header_t *refused, const ap_directive_t *tree)
{
    const box_t all = { .rules = apr_array_make(p, 40, sizeof(vl_rule_t)),
                         .refused = refused };
    unsigned n;

    for (n = 0; n < sizeof(defaults) / sizeof(defaults[0]); n++)
        APR_ARRAY_PUSH(all.rules, vl_rule_t) = defaults[n];
    put_script_folders(p, &all, roots, tree);
    return all.rules;
}

/* Fills in box->rules: the common ones, then what httpd's configuration says of the site,
 * then VhostLimitSandboxPath. */
static void make_rules(apr_pool_t *p, box_t *box, const apr_array_header_t *common,
                       const apr_array_header_t *roots)
{
    /* Of VhostLimitSandboxConnect of the site; none: connections are not limited. */
    apr_array_header_t *words = apr_array_make(p, 4, sizeof(const char *));
    struct stat file;
    unsigned n;
    int i, j;

    for (i = 0; i < box->servers->nelts; i++) {
        const vl_conf_t *conf = vl_conf_get(APR_ARRAY_IDX(box->servers, i, server_rec *));

        if (conf->connects)
            apr_array_cat(words, conf->connects);
    }
    if (has_word(words, "any"))
        apr_array_clear(words);
    box->rules = apr_array_make(p, common->nelts, sizeof(vl_rule_t));
    for (i = 0; i < common->nelts; i++) {
        if (!words->nelts || !APR_ARRAY_IDX(common, i, vl_rule_t).has_sockets)
            APR_ARRAY_PUSH(box->rules, vl_rule_t) = APR_ARRAY_IDX(common, i, vl_rule_t);
    }
    for (n = 0; n < sizeof(own) / sizeof(own[0]) && box->mode == VL_SANDBOX_FULL; n++) {
        if (!stat(own[n].path, &file))
            put_rule(box->rules, own[n].access, own[n].path, NULL, 0);
    }
    for (i = 0; i < box->servers->nelts; i++) {
        const server_rec *s = APR_ARRAY_IDX(box->servers, i, server_rec *);

        if (document_root(s))
            put_folder(p, box, roots, VL_RULE_RW, document_root(s), 0);
        if (box->refused)
            put_script_folders(p, box, roots, directives_of(s));
    }
    hide_others(p, box, roots);
    for (i = 0; i < box->servers->nelts; i++) {
        const server_rec *s = APR_ARRAY_IDX(box->servers, i, server_rec *);
        const apr_array_header_t *paths = vl_conf_get(s)->sandbox_paths;

        for (j = 0; paths && j < paths->nelts; j++) {
            const vl_rule_t *rule = &APR_ARRAY_IDX(paths, j, vl_rule_t);

            put_folder(p, box, roots, rule->access, rule->path, 1);
        }
    }
    put_connects(p, box, roots, words);
    qsort(box->rules->elts, (size_t)box->rules->nelts, sizeof(vl_rule_t), by_path);
}

/* Returns an array of box_t: the sites with a sandbox. */
static apr_array_header_t *find_cells(apr_pool_t *p, const apr_array_header_t *servers)
{
    apr_array_header_t *boxes = apr_array_make(p, 8, sizeof(box_t)), *common, *roots;
    apr_hash_t *by_site = apr_hash_make(p);
    box_t *box;
    int i, *index;

    for (i = 0; i < servers->nelts; i++) {
        server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);
        const vl_conf_t *conf = vl_conf_get(s);

        if (conf->sandbox == VL_SANDBOX_OFF)
            continue;
        index = apr_hash_get(by_site, conf->site->name, APR_HASH_KEY_STRING);
        if (!index) {
            index = apr_palloc(p, sizeof(*index));
            *index = boxes->nelts;
            apr_hash_set(by_site, conf->site->name, APR_HASH_KEY_STRING, index);
            box = apr_array_push(boxes);
            box->site = conf->site;
            box->server = s;
            box->servers = apr_array_make(p, 2, sizeof(server_rec *));
            box->refused = apr_array_make(p, 1, sizeof(const char *));
        }
        box = &APR_ARRAY_IDX(boxes, *index, box_t);
        if ((vl_sandbox_e)conf->sandbox > box->mode)
            box->mode = (vl_sandbox_e)conf->sandbox;
    }
    if (!boxes->nelts)
        return boxes;
    for (i = 0; i < servers->nelts; i++) {
        server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);

        index = apr_hash_get(by_site, vl_conf_get(s)->site->name, APR_HASH_KEY_STRING);
        if (index)
            APR_ARRAY_PUSH(APR_ARRAY_IDX(boxes, *index, box_t).servers, server_rec *) = s;
    }
    roots = find_roots(p, servers, 1);
    common = common_rules(p, roots, apr_array_make(p, 1, sizeof(const char *)), ap_conftree);
    for (i = 0; i < boxes->nelts; i++)
        make_rules(p, &APR_ARRAY_IDX(boxes, i, box_t), common, roots);
    return boxes;
}

/* --- what cannot be together ------------------------------------------------ */

/* Programs of these modules start in a process that does not know their site, or run in
 * httpd itself. */
static const char *modules_outside(void)
{
    static const struct {
        const char *file, *why;
    } outside[] = {
        { "mod_cgid.c", "mod_cgid starts programs from its daemon, outside of the sandbox: "
                        "load mod_cgi in its place" },
        { "mod_fcgid.c", "mod_fcgid starts programs from its process manager, outside of the "
                         "sandbox: use PHP-FPM or mod_cgi" },
        { "mod_php.c", "mod_php runs scripts inside Apache, outside of the sandbox: use "
                       "PHP-FPM" },
        { "mod_php7.c", "mod_php runs scripts inside Apache, outside of the sandbox: use "
                        "PHP-FPM" },
        { "mod_perl.c", "mod_perl runs scripts inside Apache, outside of the sandbox" },
        { "mod_wsgi.c", "mod_wsgi runs programs in its own processes, outside of the sandbox" }
    };
    unsigned i;

    for (i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        if (ap_find_linked_module(outside[i].file))
            return outside[i].why;
    }
    return NULL;
}

/* Landlock gives rights, and takes none away below a folder that has them. */
static const char *files_cannot(apr_pool_t *p, const box_t *box)
{
    int i, j;

    for (i = 0; i < box->rules->nelts; i++) {
        const vl_rule_t *rule = &APR_ARRAY_IDX(box->rules, i, vl_rule_t);

        if (rule->access != VL_RULE_HIDE
            && !(rule->access == VL_RULE_RO && rule->is_configured))
            continue;
        for (j = 0; j < i; j++) {
            const vl_rule_t *above = &APR_ARRAY_IDX(box->rules, j, vl_rule_t);

            if (!vl_path_is_below(rule->path, above->path) || above->access == VL_RULE_HIDE
                || above->access == rule->access)
                continue;
            return apr_psprintf(p, "Files cannot take away rights to %s below %s: write "
                                "VhostLimitSandbox Full, or move the folder", rule->path,
                                above->path);
        }
    }
    return NULL;
}

/* Returns NULL, or what keeps the programs of the site outside of their sandbox. */
static const char *cannot_enforce(apr_pool_t *p, const box_t *box)
{
    const char *why = vl_sandbox_lacks(box->mode);

    if (!why)
        why = modules_outside();
    if (!why && box->mode == VL_SANDBOX_FILES)
        why = files_cannot(p, box);
    if (!why)
        why = vl_sandbox_cannot_connect(box->mode, &box->connect);
    return why;
}

/* Returns 1 if a directive of that name is used in the list, in sections too but not in
 * <VirtualHost>. */
static int has_directive(const ap_directive_t *first, const char *name)
{
    const ap_directive_t *d;

    for (d = first; d; d = d->next) {
        if (!ap_cstr_casecmp(d->directive, name))
            return 1;
        if (d->first_child && ap_cstr_casecmp(d->directive, "<VirtualHost")
            && has_directive(d->first_child, name))
            return 1;
    }
    return 0;
}

/* The program suexec is setuid, which a sandbox does not allow: no program would start. */
static int uses_suexec(const ap_directive_t *directives)
{
    return ap_find_linked_module("mod_suexec.c") && ap_unixd_config.suexec_enabled
           && has_directive(directives, "SuexecUserGroup");
}

/* Returns NULL, or an error in the configuration of the virtual host.  inherits_suexec: the
 * main server uses suexec. */
static const char *config_error(apr_pool_t *p, const server_rec *s, int inherits_suexec)
{
    const apr_array_header_t *paths = vl_conf_get(s)->sandbox_paths;
    struct stat file;
    int i;

    if (inherits_suexec || uses_suexec(directives_of(s)))
        return "suexec is a setuid program, which cannot run in a sandbox: remove "
               "SuexecUserGroup, or write VhostLimitSandbox Off";
    if (ap_find_linked_module("mpm_itk.c"))
        return "mpm_itk changes the user of a process that serves a request, which has no "
               "right to the sandbox then: unload mpm_itk, or write VhostLimitSandbox Off";
    for (i = 0; paths && i < paths->nelts; i++) {
        const vl_rule_t *rule = &APR_ARRAY_IDX(paths, i, vl_rule_t);

        if (vl_conf_get(s)->sandbox == VL_SANDBOX_FILES && rule->access == VL_RULE_TMP)
            return apr_psprintf(p, "VhostLimitSandboxPath tmp %s needs VhostLimitSandbox Full",
                                rule->path);
        if (rule->access != VL_RULE_HIDE && rule->access != VL_RULE_TMP
            && stat(rule->path, &file))
            return apr_psprintf(p, "VhostLimitSandboxPath: %s does not exist", rule->path);
    }
    return NULL;
}

/* --- at the start ----------------------------------------------------------- */

/* Sites without their sandbox that the log names after one start or restart. */
#define NAMED 10

/* Logs why the site has not the sandbox that is configured.  Returns APR_EGENERAL if the server
 * must not start. */
static apr_status_t report(const box_t *box, const char *why, int is_restart, int *count)
{
    const vl_conf_t *conf = vl_conf_get(box->server);
    int is_closed = conf->on_error == VL_ERROR_CLOSED;

    conf->site->unenforced = apr_pstrcat(box->rules->pool, "VhostLimitSandbox ",
                                         vl_sandbox_mode_name(box->mode), ": ", why, NULL);
    if (++*count <= NAMED)
        ap_log_error(APLOG_MARK, !is_closed ? APLOG_WARNING
                     : is_restart ? APLOG_ERR : APLOG_EMERG, 0, box->server, VLOGNO(0070)
                     "site %s has no complete sandbox (VhostLimitSandbox %s): %s. %s",
                     box->site->name, vl_sandbox_mode_name(box->mode), why,
                     !is_closed ? "Its programs run without what is missing (VhostLimitOnError open)"
                     : is_restart ? "Programs that would start outside of it do not start"
                     : "The server does not start (VhostLimitOnError closed)");
    return is_closed && !is_restart ? APR_EGENERAL : APR_SUCCESS;
}

/* Logs how many sites report() did not name, the folders that the programs of each site do not get,
 * and once what the sandboxes of each kind do not refuse here.  count: calls of report(). */
static void report_rest(const server_rec *main_server, const apr_array_header_t *boxes, int count)
{
    vl_sandbox_e mode;
    int i, j, refused = 0;

    if (count > NAMED)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0071)
                     "%d more sites have no complete sandbox; the key \"unenforced\" of the "
                     "status page names each site", count - NAMED);
    /* The owner of a site can cause this, so it never keeps the server from starting. */
    for (i = 0; i < boxes->nelts; i++) {
        const box_t *box = &APR_ARRAY_IDX(boxes, i, box_t);

        for (j = 0; j < box->refused->nelts && refused < NAMED; j++, refused++)
            ap_log_error(APLOG_MARK, APLOG_WARNING, 0, box->server, VLOGNO(0074)
                         "site %s: %s. Programs in its sandbox do not get that folder. Write the "
                         "real path in the configuration, or remove the link", box->site->name,
                         APR_ARRAY_IDX(box->refused, j, const char *));
    }
    for (mode = VL_SANDBOX_FILES; mode <= VL_SANDBOX_FULL; mode++) {
        const char *weakness = vl_sandbox_weakness(mode);

        for (i = 0; weakness && i < boxes->nelts; i++) {
            if (APR_ARRAY_IDX(boxes, i, box_t).mode != mode)
                continue;
            ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0073)
                         "VhostLimitSandbox %s: %s", vl_sandbox_mode_name(mode), weakness);
            break;
        }
    }
}

apr_status_t vl_sandboxes_check(apr_pool_t *ptemp, server_rec *main_server)
{
    const apr_array_header_t *servers = vl_conf_get(main_server)->servers;
    int is_test = ap_state_query(AP_SQ_RUN_MODE) == AP_SQ_RM_CONFIG_TEST;
    apr_array_header_t *boxes;
    apr_status_t rv = APR_SUCCESS;
    int i, count = 0, inherits_suexec = uses_suexec(ap_conftree);

    for (i = 0; i < servers->nelts; i++) {
        server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);
        const char *error = vl_conf_get(s)->sandbox == VL_SANDBOX_OFF
                            ? NULL : config_error(ptemp, s, inherits_suexec);

        if (!error)
            continue;
        ap_log_error(APLOG_MARK, APLOG_EMERG, 0, s, VLOGNO(0072)
                     "site %s: %s. The server does not start",
                     vl_conf_get(s)->site->name, error);
        return APR_EINVAL;
    }
    if (!is_test)
        return APR_SUCCESS;
    boxes = find_cells(ptemp, servers);
    for (i = 0; i < boxes->nelts && rv == APR_SUCCESS; i++) {
        const box_t *box = &APR_ARRAY_IDX(boxes, i, box_t);
        const char *why = cannot_enforce(ptemp, box);

        /* Only root can know what root can do. */
        if (why && !geteuid())
            rv = report(box, why, 0, &count);
    }
    report_rest(main_server, boxes, count);
    return rv;
}

/* Parent: array of box_t, the sites of this configuration with a sandbox. */
static const apr_array_header_t *made;

apr_status_t vl_sandboxes_make(apr_pool_t *p, server_rec *main_server,
                               vl_sandbox_kept_t **kept, int is_restart)
{
    apr_array_header_t *boxes = find_cells(p, vl_conf_get(main_server)->servers);
    apr_status_t rv = APR_SUCCESS;
    int i, j, count = 0;

    made = boxes;
    if (!boxes->nelts && !*kept)
        return APR_SUCCESS;
    vl_sandbox_begin(p, ap_pglobal, kept);
    for (i = 0; i < boxes->nelts && rv == APR_SUCCESS; i++) {
        const box_t *box = &APR_ARRAY_IDX(boxes, i, box_t);
        const char *why = cannot_enforce(p, box), *error = vl_sandbox_lacks(box->mode);
        vl_sandbox_t *sandbox = NULL;

        if (!error)
            error = vl_sandbox_make(p, *kept, box->site->name, box->mode, box->rules,
                                    &box->connect, ap_unixd_config.user_id, ap_unixd_config.group_id,
                                    &sandbox);
        if (error || why)
            rv = report(box, error ? error : why, is_restart, &count);
        if (!sandbox && vl_conf_get(main_server)->on_error == VL_ERROR_CLOSED)
            sandbox = vl_sandbox_refusing(p);
        for (j = 0; j < box->servers->nelts; j++)
            vl_conf_get(APR_ARRAY_IDX(box->servers, j, server_rec *))->programs = sandbox;
    }
    vl_sandbox_end(*kept);
    report_rest(main_server, boxes, count);
    return rv;
}

const apr_array_header_t *vl_sandboxes_rules(apr_pool_t *p, server_rec *main_server,
                                             const vl_site_t *site, vl_sandbox_e *ret_mode)
{
    const apr_array_header_t *servers = vl_conf_get(main_server)->servers, *roots;
    box_t box = { .site = site, .mode = VL_SANDBOX_FULL };
    int i;

    for (i = 0; i < made->nelts; i++) {
        const box_t *found = &APR_ARRAY_IDX(made, i, box_t);

        *ret_mode = found->mode;
        if (!strcmp(found->site->name, site->name))
            return found->rules;
    }
    /* The rules that Full would have.  The tree of directives is gone, so the folders of ScriptAlias
     * are left out.  Looks at no file of the site: a thread that waits for a file system would keep
     * the server from restarting.  vhostlimitctl looks for links. */
    *ret_mode = VL_SANDBOX_OFF;
    box.servers = apr_array_make(p, 2, sizeof(server_rec *));
    for (i = 0; i < servers->nelts; i++) {
        server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);

        if (!strcmp(vl_conf_get(s)->site->name, site->name))
            APR_ARRAY_PUSH(box.servers, server_rec *) = s;
    }
    roots = find_roots(p, servers, 0);
    make_rules(p, &box, common_rules(p, roots, NULL, NULL), roots);
    return box.rules;
}
