/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_cgroup_int.h"

#include <string.h>
#include <unistd.h>

#include <apr_strings.h>

#include "cgroup/vl_cgroup_file.h"
#include "cgroup/vl_cgroup_mount.h"

/* Where v2 may be mounted when it is not found through a controller (a v2 tree
 * without controllers still counts CPU time). */
static const char *const v2_mounts[] = {
    "/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL
};

/* The tree beside what runs outside of it: the most that both versions take, and as
 * any other group (vl_yield.h). */
static const vl_cgroup_limits_t heavy = { .weight = 10000 }, light = { .weight = 100 };
/* In the tree Apache, without which no back end gets work, beside a site's back ends.
 * As many groups of sites as run at once have no more than that together, and one
 * of them still gets a quarter of a processor that Apache could use up. */
static const vl_cgroup_limits_t server_limits = { .weight = 300 };

const char *vl_cgroup_parse_self(apr_pool_t *p, const char *text,
                                 const char *controller)
{
    char *copy = apr_pstrdup(p, text);
    char *line, *last;

    for (line = apr_strtok(copy, "\n", &last); line;
         line = apr_strtok(NULL, "\n", &last)) {
        char *names = strchr(line, ':');    /* "4:cpu,cpuacct:/path" */
        char *path = names ? strchr(names + 1, ':') : NULL;
        char *name, *rest;

        if (!path)
            continue;
        *path++ = '\0';
        names++;
        if (!*names && !*controller)
            return path;
        for (name = apr_strtok(names, ",", &rest); name;
             name = apr_strtok(NULL, ",", &rest)) {
            if (!strcmp(name, controller))
                return path;
        }
    }
    return NULL;
}

static const char *find_v2_mount(void)
{
    int i;

    for (i = 0; v2_mounts[i]; i++) {
        if (vl_cgroup_mount_is_v2(v2_mounts[i]))
            return v2_mounts[i];
    }
    return NULL;
}

static void find_controller(apr_pool_t *p, vl_cgroup_controller_e controller,
                            place_t *place)
{
    int version;

    for (version = 1; version <= 2 && !place->version; version++) {
        const char *name = vl_cgroup_controller_name(controller, version);

        place->mount = *name ? vl_cgroup_mount_find(p, name, version) : NULL;
        if (place->mount)
            place->version = version;
    }
}

/* knows_v1: controllers may be in hierarchies of their own. */
static const char *why_missing(const char *v2, int knows_v1)
{
    return v2 && (!knows_v1 || !strcmp(v2, v2_mounts[0]))
           ? "it is not delegated to /" : "it is not mounted";
}

static void turn_off(vl_cgroup_t *cg, const char *reason)
{
    int c;

    cg->backend = "off";
    cg->path = "";
    cg->reason = reason;
    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        cg->places[c].version = 0;
        cg->places[c].missing = reason;
    }
}

/* CPU time is known to any v2 group, if no controller of v1 tells it. */
static void detect(vl_cgroup_t *cg)
{
    place_t *cpuacct = &cg->places[VL_CG_CPUACCT];
    const char *v2 = find_v2_mount();
    int c, knows_v1 = 0;

    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        find_controller(cg->pool, c, &cg->places[c]);
        knows_v1 |= cg->places[c].version == 1;
    }
    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        if (!cg->places[c].version)
            cg->places[c].missing = why_missing(v2, knows_v1);
    }
    if (!cpuacct->version && v2) {
        cpuacct->version = 2;
        cpuacct->mount = v2;
    }
    if (cg->places[VL_CG_CPU].version == 1)
        cg->backend = v2 ? "hybrid" : "v1";
    else if (v2)
        cg->backend = "v2";
    else
        turn_off(cg, "no cgroup hierarchy with the cpu controller, and no v2 "
                     "tree, is mounted");
}

/* An earlier configuration, or server, has made use of it in this tree. */
static int was_used(const vl_cgroup_t *cg, vl_cgroup_controller_e controller)
{
    const place_t *place = &cg->places[controller];
    const char *dir = apr_pstrcat(cg->pool, place->mount, cg->path, NULL);

    if (place->version == 1)
        return !access(dir, F_OK);
    return vl_cgroup_lists(vl_cgroup_file_read(cg->pool, apr_pstrcat(
                               cg->pool, dir, "/cgroup.subtree_control", NULL)),
                           vl_cgroup_controller_name(controller, 2));
}

/* Controllers that no limit needs, and none has to be lifted of, are left
 * alone. */
static void drop_unneeded(vl_cgroup_t *cg, unsigned needs)
{
    int c;

    for (c = VL_CG_MEMORY; c < VL_CG_CONTROLLERS; c++) {
        if (cg->places[c].version && !(needs & 1u << c) && !was_used(cg, c))
            cg->places[c].version = 0;
    }
}

static const char *self_path(const vl_cgroup_t *cg)
{
    const char *text = vl_cgroup_file_read(cg->pool, "/proc/self/cgroup");
    const char *path = vl_cgroup_parse_self(
        cg->pool, text, cg->places[VL_CG_CPU].version == 1 ? "cpu" : "");

    return path && strcmp(path, "/") ? path : "";
}

/* Apache's processes begin where their parent is.  v2 lets threads work in another
 * group only if that is below their process's, and controllers be enabled only
 * where no processes are; and in the tree Apache has a fair place beside what
 * runs outside. */
static const char *enter_tree(vl_cgroup_t *cg, const vl_cgroup_t *old)
{
    const place_t *cpu = &cg->places[VL_CG_CPU];
    const char *server = apr_pstrcat(cg->pool, cg->path, SERVER_NAME, NULL);
    const char *here = self_path(cg);
    const char *failed = vl_cgroup_make_path(cg->pool, cpu->mount, server);

    if (!failed && strcmp(here, server))
        failed = vl_cgroup_move_self(cg, cg->pool, server);
    if (failed)
        return failed;
    if (old && old->origin)
        cg->origin = old->origin;
    else if (strcmp(here, server))
        cg->origin = here;
    else    /* a module of another layout has moved it: back above the tree */
        cg->origin = apr_pstrndup(cg->pool, cg->path, (apr_size_t)
                                  (strrchr(cg->path, '/') - cg->path));
    return failed;
}

static void enable_controllers(vl_cgroup_t *cg)
{
    int c;

    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        place_t *place = &cg->places[c];

        if (place->version == 2 && !place->missing && c != VL_CG_CPUACCT)
            place->missing = vl_cgroup_enable(
                cg->pool, place->mount, cg->path,
                vl_cgroup_controller_name(c, 2));
    }
}

/* The tree itself, once its root is there. */
static void prepare(vl_cgroup_t *cg, const vl_cgroup_t *old)
{
    place_t *cpu = &cg->places[VL_CG_CPU];
    const char *server = apr_pstrcat(cg->pool, cg->path, SERVER_NAME, NULL);

    if (!cpu->missing)
        cpu->missing = enter_tree(cg, old);
    enable_controllers(cg);
    if (!cpu->missing && cpu->version == 2)
        cpu->missing = vl_cgroup_enable(cg->pool, cpu->mount, server, "cpu");
    if (!cpu->missing)
        cpu->missing = vl_cgroup_set(cg, cg->pool, VL_CG_CPU, cg->path,
                                     &heavy);
    if (!cpu->missing)
        cpu->missing = vl_cgroup_set(cg, cg->pool, VL_CG_CPU, server,
                                     &server_limits);
    if (cpu->missing)
        cg->reason = apr_pstrcat(cg->pool, "no CPU shares: ", cpu->missing,
                                 NULL);
}

/* "auto": below our own group, so that systemd's delegation and a container's
 * view hold.  After a restart we are in the tree already. */
static const char *auto_path(vl_cgroup_t *cg)
{
    static const char tree[] = ROOT_NAME SERVER_NAME;
    const char *own = self_path(cg);
    apr_size_t len = strlen(own);

    if (len >= sizeof(tree) - 1 && !strcmp(own + len - (sizeof(tree) - 1),
                                           tree))
        own = apr_pstrmemdup(cg->pool, own, len - (sizeof(tree) - 1));
    return apr_pstrcat(cg->pool, own, ROOT_NAME, NULL);
}

static void open_tree(vl_cgroup_t *cg, const char *setting, unsigned needs,
                      const vl_cgroup_t *old)
{
    apr_pool_t *p = cg->pool;
    const char *failed;

    vl_cgroup_mount_init();
    detect(cg);
    if (!strcmp(cg->backend, "off"))
        return;
    cg->path = strcmp(setting, "auto") ? apr_pstrdup(p, setting)
                                       : auto_path(cg);
    drop_unneeded(cg, needs);
    cg->disks = vl_cgroup_disks(p);
    failed = vl_cgroup_make_group(cg, p, cg->path);
    if (failed)
        turn_off(cg, apr_psprintf(p, "group %s cannot be made: %s", cg->path,
                                  failed));
    else
        prepare(cg, old);
}

/* The module is another one after a restart, and may be elsewhere: its constants
 * are gone then. */
static void copy_constants(vl_cgroup_t *cg)
{
    int c;

    cg->backend = apr_pstrdup(cg->pool, cg->backend);
    cg->path = apr_pstrdup(cg->pool, cg->path);
    cg->reason = apr_pstrdup(cg->pool, cg->reason);
    cg->origin = apr_pstrdup(cg->pool, cg->origin);
    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        place_t *place = &cg->places[c];

        place->mount = apr_pstrdup(cg->pool, place->mount);
        place->missing = apr_pstrdup(cg->pool, place->missing);
    }
}

vl_cgroup_t *vl_cgroup_open(const char *setting, unsigned needs,
                            const vl_cgroup_t *old)
{
    apr_pool_t *p;
    vl_cgroup_t *cg;

    /* No pool of httpd's lives exactly as long: it must outlast the reading of
     * the next configuration, and be there when the server ends. */
    apr_pool_create_unmanaged(&p);
    cg = apr_pcalloc(p, sizeof(*cg));
    cg->pool = p;
    cg->accounts = apr_hash_make(p);
    cg->left = apr_hash_make(p);
    cg->reason = "";
    if (strcmp(setting, "off"))
        open_tree(cg, setting, needs, old);
    else
        turn_off(cg, "VhostLimitCgroup off");
    copy_constants(cg);
    return cg;
}

const char *vl_cgroup_missing(const vl_cgroup_t *cg, apr_pool_t *p,
                              const vl_cgroup_limits_t *limits)
{
    unsigned needs = vl_cgroup_needs(limits);
    int c;

    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        const char *why = cg->places[c].missing;

        if (!why && c == VL_CG_IO && !cg->disks[0])
            why = "there is no disk here";
        if (needs & 1u << c && why)
            return apr_psprintf(p, "the %s controller is missing: %s",
                                vl_cgroup_controller_name(
                                    c, cg->places[c].version == 1 ? 1 : 2),
                                why);
    }
    return NULL;
}

const char *vl_cgroup_backend(const vl_cgroup_t *cg)
{
    return cg->backend;
}

const char *vl_cgroup_path(const vl_cgroup_t *cg)
{
    return cg->path;
}

const char *vl_cgroup_reason(const vl_cgroup_t *cg)
{
    return cg->reason;
}

const char *vl_cgroup_weight_file(const vl_cgroup_t *cg, apr_pool_t *p,
                                  const char **ret_heavy, const char **ret_light)
{
    const place_t *cpu = &cg->places[VL_CG_CPU];
    const vl_cgroup_value_t *value;

    if (!*cg->path || !cpu->version || cpu->missing)
        return NULL;
    value = vl_cgroup_values(p, VL_CG_CPU, cpu->version, &light, cg->disks);
    *ret_light = value->value;
    value = vl_cgroup_values(p, VL_CG_CPU, cpu->version, &heavy, cg->disks);
    *ret_heavy = value->value;
    return apr_pstrcat(p, cpu->mount, cg->path, "/", value->file, NULL);
}
