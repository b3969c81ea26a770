/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the hierarchies, creates the tree and moves Apache into it. */
#include "cgroup/vl_cgroup_int.h"

#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <apr_strings.h>

#include "cgroup/vl_cgroup_file.h"

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

/* Finds all controllers and sets the backend; v1 takes precedence.  If no v1 controller counts
 * CPU time, the v2 tree does, because cpu.stat exists in every v2 group. */
static void detect(vl_cgroup_t *cg)
{
    controller_t *cpuacct = &cg->controllers[VL_CG_CPUACCT];
    const char *v2 = NULL;
    int c, i, knows_v1 = 0;

    for (i = 0; v2_mounts[i] && !v2; i++) {
        if (vl_cgroup_mount_version(v2_mounts[i]) == 2)
            v2 = v2_mounts[i];
    }
    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        controller_t *ctl = &cg->controllers[c];

        for (i = 1; i <= 2 && !ctl->version; i++) {
            const char *name = vl_cgroup_controller_name(c, i);

            ctl->mount = *name ? vl_cgroup_mount_find(cg->pool, name, i) : NULL;
            ctl->version = ctl->mount ? i : 0;
        }
        knows_v1 |= ctl->version == 1;
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

/* Returns 1 if the v2 groups of the tree have to be given the controller. */
static int has_v2(const controller_t *ctl, vl_cgroup_controller_e controller)
{
    return ctl->version == 2 && !ctl->missing && controller != VL_CG_CPUACCT;
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

/* Sets up the tree after its root group has been created: moves Apache, enables controllers
 * and sets its weight.  A failure disables CPU shares only. */
static void prepare(vl_cgroup_t *cg, const vl_cgroup_t *old)
{
    controller_t *cpu = &cg->controllers[VL_CG_CPU];
    const char *server = apr_pstrcat(cg->pool, cg->path, SERVER_NAME, NULL);
    int c;

    if (!cpu->missing)
        cpu->missing = enter_tree(cg, old);
    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        controller_t *ctl = &cg->controllers[c];

        if (has_v2(ctl, c))
            ctl->missing = vl_cgroup_enable(cg->pool, ctl->mount, cg->path, vl_cgroup_controller_name(c, 2));
    }
    if (!cpu->missing && cpu->version == 2)
        cpu->missing = vl_cgroup_enable(cg->pool, cpu->mount, server, "cpu");
    if (!cpu->missing)
        cpu->missing = vl_cgroup_set(cg, cg->pool, VL_CG_CPU, server,
                                     &server_limits);
    if (cpu->missing)
        cg->reason = apr_pstrcat(cg->pool, "no CPU shares: ", cpu->missing,
                                 NULL);
}

/* Finds the hierarchies and the path of the tree.  Without hierarchies the backend is "off"
 * then. */
static void find_tree(vl_cgroup_t *cg, const char *setting, unsigned needs)
{
    static const char tree[] = ROOT_NAME SERVER_NAME;
    const char *own;
    apr_size_t len;
    int c;

    if (!strcmp(setting, "off")) {
        turn_off(cg, "VhostLimitCgroup off");
        return;
    }
    vl_cgroup_mount_init();
    detect(cg);
    if (!strcmp(cg->backend, "off"))
        return;
    cg->path = apr_pstrdup(cg->pool, setting);
    if (!strcmp(setting, "auto")) {
        /* Below the group of the server, which respects systemd's delegation and the cgroup namespace of a
         * container.  After a restart the server is in the tree already, whose path is cut off then. */
        own = vl_cgroup_of(cg, cg->pool, "self");
        len = strlen(own);
        if (len >= sizeof(tree) - 1 && !strcmp(own + len - (sizeof(tree) - 1), tree))
            len -= sizeof(tree) - 1;
        cg->path = apr_pstrcat(cg->pool, apr_pstrmemdup(cg->pool, own, len), ROOT_NAME, NULL);
    }
    /* A controller that no limit needs is off, unless an earlier configuration or an earlier server has used it in
     * this tree: limits that it still enforces must be lifted. */
    for (c = VL_CG_MEMORY; c < VL_CG_CONTROLLERS; c++) {
        controller_t *ctl = &cg->controllers[c];
        const char *dir = apr_pstrcat(cg->pool, ctl->mount, cg->path, NULL);

        if (needs & 1u << c || (ctl->version == 1 && !access(dir, F_OK))
            || (ctl->version == 2 && vl_cgroup_lists(
                    vl_cgroup_file_read(cg->pool, apr_pstrcat(cg->pool, dir, "/cgroup.subtree_control", NULL)),
                    vl_cgroup_controller_name(c, 2))))
            continue;
        ctl->version = 0;
    }
    cg->disks = vl_cgroup_disks(cg->pool);
}

/* Switches all controllers off because the root of the tree cannot be created. */
static void turn_off_failed(vl_cgroup_t *cg, const char *failed)
{
    turn_off(cg, apr_psprintf(cg->pool, "group %s cannot be made: %s", cg->path,
                              failed));
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

vl_cgroup_t *vl_cgroup_probe(apr_pool_t *p, const char *setting, unsigned needs)
{
    vl_cgroup_t *cg = make_struct(p);
    const controller_t *hierarchy;
    const char *failed = NULL;
    int i;

    find_tree(cg, setting, needs);
    for (i = 0; !failed && (hierarchy = vl_cgroup_hierarchy(cg, i)); i++)
        failed = vl_cgroup_try_path(p, hierarchy->mount, cg->path);
    if (failed)
        turn_off_failed(cg, failed);
    for (i = 0; !failed && i < VL_CG_CONTROLLERS; i++) {
        controller_t *ctl = &cg->controllers[i];

        if (has_v2(ctl, i)
            && !vl_cgroup_lists(vl_cgroup_file_read(p, apr_pstrcat(p, ctl->mount, "/cgroup.controllers", NULL)),
                                vl_cgroup_controller_name(i, 2)))
            ctl->missing = "it is not delegated to /";
    }
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

        if (has_v2(ctl, c) && !is_delegated(cg->pool, ctl->mount, own))
            ctl->missing = apr_psprintf(cg->pool, "systemd has not delegated %s to Apache", own);
    }
}

vl_cgroup_t *vl_cgroup_open(const char *setting, unsigned needs,
                            const vl_cgroup_t *old)
{
    const char *failed;
    apr_pool_t *p;
    vl_cgroup_t *cg;
    int c;

    /* The tree needs a pool of its own.  It must exist until the next configuration has
     * been read, and until the server exits.  No pool of httpd has this lifetime. */
    apr_pool_create_unmanaged(&p);
    cg = make_struct(p);
    find_tree(cg, setting, needs);
    if (!strcmp(setting, "auto") && strcmp(cg->backend, "off"))
        leave_to_systemd(cg);
    if (!old)
        vl_cgroup_find_left(cg);
    if (strcmp(cg->backend, "off")) {
        failed = vl_cgroup_make_group(cg, p, cg->path);
        if (failed)
            turn_off_failed(cg, failed);
        else
            prepare(cg, old);
    }
    /* A restart loads the module again, perhaps at another address, and string literals of the previous load are
     * unmapped: all strings are copied. */
    cg->backend = apr_pstrdup(p, cg->backend);
    cg->path = apr_pstrdup(p, cg->path);
    cg->reason = apr_pstrdup(p, cg->reason);
    cg->origin = apr_pstrdup(p, cg->origin);
    for (c = 0; c < VL_CG_CONTROLLERS; c++) {
        cg->controllers[c].mount = apr_pstrdup(p, cg->controllers[c].mount);
        cg->controllers[c].missing = apr_pstrdup(p, cg->controllers[c].missing);
    }
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
