/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the hierarchies, creates the tree and moves Apache into it. */
#include "cgroup/vl_cgroup_int.h"

#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <apr_strings.h>

#include "cgroup/vl_cgroup_file.h"
#include "cgroup/vl_cgroup_mount.h"

/* Possible mount points of v2.  They are tried because a v2 tree without controllers, which
 * no search for a controller finds, still counts CPU time. */
static const char *const v2_mounts[] = {
    "/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL
};

/* Weight of the group ".server" (Apache) against the groups of the sites.  It is three
 * times the default weight of a site, because no back end gets work without Apache.  A
 * site still gets a quarter of a processor that Apache alone could use up.  The slots
 * bound the number of sites that run at once to about eight for each processor, so
 * Apache is not starved either.  Measurements: docs/design/004-cgroups.md. */
static const vl_cgroup_limits_t server_limits = { .weight = 300 };

/* Returns the mount point of a v2 tree, or NULL. */
static const char *find_v2_mount(void)
{
    int i;

    for (i = 0; v2_mounts[i]; i++) {
        if (vl_cgroup_mount_is_v2(v2_mounts[i]))
            return v2_mounts[i];
    }
    return NULL;
}

/* Sets version and mount point of the controller; v1 takes precedence.  Both stay unset if
 * the controller is not mounted. */
static void find_controller(apr_pool_t *p, vl_cgroup_controller_e controller,
                            controller_t *ctl)
{
    int version;

    for (version = 1; version <= 2 && !ctl->version; version++) {
        const char *name = vl_cgroup_controller_name(controller, version);

        ctl->mount = *name ? vl_cgroup_mount_find(p, name, version) : NULL;
        if (ctl->mount)
            ctl->version = version;
    }
}

/* Switches all controllers off and records the reason. */
static void turn_off(vl_cgroup_t *cg, const char *reason)
{
    int c;

    cg->backend = "off";
    cg->path = "";
    cg->reason = reason;
    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        cg->controllers[c].version = 0;
        cg->controllers[c].missing = reason;
    }
}

/* Finds all controllers and sets the backend.  If no v1 controller counts CPU time, the v2
 * tree does, because cpu.stat exists in every v2 group. */
static void detect(vl_cgroup_t *cg)
{
    controller_t *cpuacct = &cg->controllers[VL_CG_CPUACCT];
    const char *v2 = find_v2_mount();
    int c, knows_v1 = 0;

    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        find_controller(cg->pool, c, &cg->controllers[c]);
        knows_v1 |= cg->controllers[c].version == 1;
    }
    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        /* If some controller is mounted as v1, this one may exist but be mounted nowhere. */
        if (!cg->controllers[c].version)
            cg->controllers[c].missing = v2 && (!knows_v1 || !strcmp(v2, v2_mounts[0]))
                                         ? "it is not delegated to /" : "it is not mounted";
    }
    if (!cpuacct->version && v2) {
        cpuacct->version = 2;
        cpuacct->mount = v2;
    }
    if (cg->controllers[VL_CG_CPU].version == 1)
        cg->backend = v2 ? "hybrid" : "v1";
    else if (v2)
        cg->backend = "v2";
    else
        turn_off(cg, "no cgroup hierarchy with the cpu controller, and no v2 "
                     "tree, is mounted");
}

/* Returns 1 if an earlier configuration or an earlier server has used the controller in
 * this tree. */
static int was_used(const vl_cgroup_t *cg, vl_cgroup_controller_e controller)
{
    const controller_t *ctl = &cg->controllers[controller];
    const char *dir = apr_pstrcat(cg->pool, ctl->mount, cg->path, NULL);

    if (ctl->version == 1)
        return !access(dir, F_OK);
    return vl_cgroup_lists(vl_cgroup_file_read(cg->pool, apr_pstrcat(
                               cg->pool, dir, "/cgroup.subtree_control", NULL)),
                           vl_cgroup_controller_name(controller, 2));
}

/* Switches off each controller that no limit needs.  A controller that was in use before
 * stays in use, because limits that it still enforces must be lifted. */
static void drop_unneeded(vl_cgroup_t *cg, unsigned needs)
{
    int c;

    for (c = VL_CG_MEMORY; c < VL_CG_CONTROLLERS; c++) {
        if (cg->controllers[c].version && !(needs & 1u << c) && !was_used(cg, c))
            cg->controllers[c].version = 0;
    }
}

/* Moves Apache into the tree, into the group ".server", and sets cg->origin.  Child
 * processes start in the group of their parent.  Reasons for the move:
 *  - v2 lets a thread move only to groups below the group of its process;
 *  - v2 enables controllers only below a group without processes;
 *  - in the tree it has a weight against the groups of the sites.
 * Returns NULL or an error message. */
static const char *enter_tree(vl_cgroup_t *cg, const vl_cgroup_t *old)
{
    const controller_t *cpu = &cg->controllers[VL_CG_CPU];
    const char *server = apr_pstrcat(cg->pool, cg->path, SERVER_NAME, NULL);
    const char *here = vl_cgroup_of(cg, cg->pool, "self");
    const char *failed = vl_cgroup_make_path(cg->pool, cpu->mount, server);

    if (!failed && strcmp(here, server))
        failed = vl_cgroup_move_self(cg, cg->pool, server);
    if (failed)
        return failed;
    if (old && old->origin)
        cg->origin = old->origin;
    else if (strcmp(here, server))
        cg->origin = here;
    else    /* A module version with another layout moved Apache into the tree and its
             * record is lost.  The parent group of the tree is the origin then. */
        cg->origin = apr_pstrndup(cg->pool, cg->path, (apr_size_t)
                                  (strrchr(cg->path, '/') - cg->path));
    return failed;
}

/* v2: enables the controllers for the groups below the tree's root. */
static void enable_controllers(vl_cgroup_t *cg)
{
    int c;

    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        controller_t *ctl = &cg->controllers[c];

        if (ctl->version == 2 && !ctl->missing && c != VL_CG_CPUACCT)
            ctl->missing = vl_cgroup_enable(
                cg->pool, ctl->mount, cg->path,
                vl_cgroup_controller_name(c, 2));
    }
}

/* Sets up the tree after its root group has been created: moves Apache, enables controllers
 * and sets its weight.  A failure disables CPU shares only. */
static void prepare(vl_cgroup_t *cg, const vl_cgroup_t *old)
{
    controller_t *cpu = &cg->controllers[VL_CG_CPU];
    const char *server = apr_pstrcat(cg->pool, cg->path, SERVER_NAME, NULL);

    if (!cpu->missing)
        cpu->missing = enter_tree(cg, old);
    enable_controllers(cg);
    if (!cpu->missing && cpu->version == 2)
        cpu->missing = vl_cgroup_enable(cg->pool, cpu->mount, server, "cpu");
    if (!cpu->missing)
        cpu->missing = vl_cgroup_set(cg, cg->pool, VL_CG_CPU, server,
                                     &server_limits);
    if (cpu->missing)
        cg->reason = apr_pstrcat(cg->pool, "no CPU shares: ", cpu->missing,
                                 NULL);
}

/* Returns the path of the tree for "VhostLimitCgroup auto": below the group of the server,
 * which respects systemd's delegation and the cgroup namespace of a container.  After a
 * restart the server is in the tree already, and the path of the tree is cut off first. */
static const char *auto_path(vl_cgroup_t *cg)
{
    static const char tree[] = ROOT_NAME SERVER_NAME;
    const char *own = vl_cgroup_of(cg, cg->pool, "self");
    apr_size_t len = strlen(own);

    if (len >= sizeof(tree) - 1 && !strcmp(own + len - (sizeof(tree) - 1),
                                           tree))
        own = apr_pstrmemdup(cg->pool, own, len - (sizeof(tree) - 1));
    return apr_pstrcat(cg->pool, own, ROOT_NAME, NULL);
}

/* Finds the hierarchies and the path of the tree.  Without hierarchies the backend is "off"
 * then. */
static void find_tree(vl_cgroup_t *cg, const char *setting, unsigned needs)
{
    if (!strcmp(setting, "off")) {
        turn_off(cg, "VhostLimitCgroup off");
        return;
    }
    vl_cgroup_mount_init();
    detect(cg);
    if (!strcmp(cg->backend, "off"))
        return;
    cg->path = strcmp(setting, "auto") ? apr_pstrdup(cg->pool, setting)
                                       : auto_path(cg);
    drop_unneeded(cg, needs);
    cg->disks = vl_cgroup_disks(cg->pool);
}

/* Switches all controllers off because the root of the tree cannot be created. */
static void turn_off_failed(vl_cgroup_t *cg, const char *failed)
{
    turn_off(cg, apr_psprintf(cg->pool, "group %s cannot be made: %s", cg->path,
                              failed));
}

/* Creates the tree. */
static void make_tree(vl_cgroup_t *cg, const vl_cgroup_t *old)
{
    const char *failed = vl_cgroup_make_group(cg, cg->pool, cg->path);

    if (failed)
        turn_off_failed(cg, failed);
    else
        prepare(cg, old);
}

/* Copies all strings into the tree's pool.  A restart loads the module again, perhaps at
 * another address, and string literals of the previous load are unmapped. */
static void copy_constants(vl_cgroup_t *cg)
{
    int c;

    cg->backend = apr_pstrdup(cg->pool, cg->backend);
    cg->path = apr_pstrdup(cg->pool, cg->path);
    cg->reason = apr_pstrdup(cg->pool, cg->reason);
    cg->origin = apr_pstrdup(cg->pool, cg->origin);
    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        controller_t *ctl = &cg->controllers[c];

        ctl->mount = apr_pstrdup(cg->pool, ctl->mount);
        ctl->missing = apr_pstrdup(cg->pool, ctl->missing);
    }
}

static vl_cgroup_t *make_struct(apr_pool_t *p)
{
    vl_cgroup_t *cg = apr_pcalloc(p, sizeof(*cg));

    cg->pool = p;
    cg->accounts = apr_hash_make(p);
    cg->left = apr_hash_make(p);
    cg->path = "";
    cg->reason = "";
    return cg;
}

/* v2: records which controllers the root of the hierarchy does not have. */
static void probe_controllers(vl_cgroup_t *cg)
{
    int c;

    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        controller_t *ctl = &cg->controllers[c];

        if (ctl->version == 2 && !ctl->missing && c != VL_CG_CPUACCT
            && !vl_cgroup_lists(vl_cgroup_file_read(cg->pool, apr_pstrcat(
                                    cg->pool, ctl->mount,
                                    "/cgroup.controllers", NULL)),
                                vl_cgroup_controller_name(c, 2)))
            ctl->missing = "it is not delegated to /";
    }
}

vl_cgroup_t *vl_cgroup_probe(apr_pool_t *p, const char *setting, unsigned needs)
{
    vl_cgroup_t *cg = make_struct(p);
    const controller_t *ctl;
    const char *failed = NULL;
    int i;

    find_tree(cg, setting, needs);
    for (i = 0; !failed && (ctl = vl_cgroup_hierarchy(cg, i)); i++)
        failed = vl_cgroup_try_path(p, ctl->mount, cg->path);
    if (failed)
        turn_off_failed(cg, failed);
    else
        probe_controllers(cg);
    return cg;
}

static int is_same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* Returns 1 if the trees have the same groups and files, and no group was removed. */
static int are_same(const vl_cgroup_t *old, const vl_cgroup_t *cg)
{
    int i, same = !strcmp(old->path, cg->path) && *cg->path && old->disks && cg->disks;

    for (i = 0; same && i < VL_CG_CONTROLLERS; i++)
        same = old->controllers[i].version == cg->controllers[i].version
               && is_same(old->controllers[i].mount, cg->controllers[i].mount)
               && is_same(old->controllers[i].missing, cg->controllers[i].missing);
    for (i = 0; same && (old->disks[i] || cg->disks[i]); i++)
        same = is_same(old->disks[i], cg->disks[i]);
    return same && old->links == vl_cgroup_links(cg);
}

/* Returns 1 if systemd has given this v2 group, or one above it, to its service. systemd marks
 * such groups (cgroup_xattr_apply() of its core/cgroup.c): user.delegate since 251, and
 * trusted.delegate, which only CAP_SYS_ADMIN shows. */
static int is_delegated(apr_pool_t *p, const char *mount, const char *path)
{
    char *dir = apr_pstrcat(p, mount, path, NULL), value = '0';

    while (strcmp(dir, mount)) {
        if ((getxattr(dir, "user.delegate", &value, 1) == 1
             || getxattr(dir, "trusted.delegate", &value, 1) == 1) && value == '1')
            return 1;
        *strrchr(dir, '/') = '\0';
    }
    return 0;
}

/* v2: gives up the controllers if the tree would be in a group that systemd has not delegated.
 * systemd starts the programs of ExecReload= and ExecStop= in that group, which the kernel
 * refuses once a controller is enabled there: "systemctl reload" fails with status 219. */
static void leave_to_systemd(vl_cgroup_t *cg)
{
    const char *own = apr_pstrmemdup(cg->pool, cg->path, (apr_size_t)
                                     (strrchr(cg->path, '/') - cg->path));
    int c;

    if (!*own || access("/run/systemd/system", F_OK))
        return;
    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        controller_t *ctl = &cg->controllers[c];

        if (ctl->version == 2 && !ctl->missing && c != VL_CG_CPUACCT
            && !is_delegated(cg->pool, ctl->mount, own))
            ctl->missing = apr_psprintf(cg->pool, "systemd has not delegated %s to Apache", own);
    }
}

vl_cgroup_t *vl_cgroup_open(const char *setting, unsigned needs,
                            const vl_cgroup_t *old)
{
    apr_pool_t *p;
    vl_cgroup_t *cg;

    /* The tree needs a pool of its own.  It must exist until the next configuration has
     * been read, and until the server exits.  No pool of httpd has this lifetime. */
    apr_pool_create_unmanaged(&p);
    cg = make_struct(p);
    find_tree(cg, setting, needs);
    if (!strcmp(setting, "auto") && strcmp(cg->backend, "off"))
        leave_to_systemd(cg);
    if (!old)
        vl_cgroup_find_left(cg);
    if (strcmp(cg->backend, "off"))
        make_tree(cg, old);
    copy_constants(cg);
    cg->same = old && are_same(old, cg) ? old : NULL;
    return cg;
}

const char *vl_cgroup_missing(const vl_cgroup_t *cg, apr_pool_t *p,
                              const vl_cgroup_limits_t *limits)
{
    unsigned needs = vl_cgroup_needs(limits);
    int c;

    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        const char *why = cg->controllers[c].missing;

        if (!why && c == VL_CG_IO && !cg->disks[0])
            why = "there is no disk here";
        if (!why && !cg->controllers[c].version)
            why = "no site had such a limit when the server was started; it is used after "
                  "the next restart of the server, graceful or not";
        if (needs & 1u << c && why)
            return apr_psprintf(p, "the %s controller is missing: %s",
                                vl_cgroup_controller_name(
                                    c, cg->controllers[c].version == 1 ? 1 : 2),
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
