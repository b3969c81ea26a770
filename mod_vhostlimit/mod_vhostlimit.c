/* SPDX-License-Identifier: Apache-2.0 */
/* The module record, and the work done once per server start, restart or child process:
 * configuration, shared memory, cgroups, child start and child exit.  The hooks that run
 * for each request are in request/vl_hooks.c.  All file-level state belongs to the main
 * thread of the parent, and is read-only in the child processes. */
#include "config.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ap_mpm.h>
#include <http_core.h>
#include <http_main.h>
#include <mpm_common.h>

#include "accept/vl_acceptor.h"
#include "accept/vl_child.h"
#include "accept/vl_listener.h"
#include "accept/vl_prefork.h"
#include "cgroup/vl_cgroup.h"
#include "config/vl_conf.h"
#include "control/vl_control.h"
#include "config/vl_accounts.h"
#include "accept/vl_transfer.h"
#include "config/vl_owners.h"
#include "config/vl_headtime.h"
#include "config/vl_plans.h"
#include "config/vl_sandboxes.h"
#include "config/vl_remoteip.h"
#include "core/vl_charge.h"
#include "core/vl_engage.h"
#include "core/vl_shm_child.h"
#include "request/vl_hooks.h"
#include "request/vl_http2.h"
#include "request/vl_request.h"
#include "vl_layout.h"
#include "lease/vl_lease.h"
#include "cost/vl_meter.h"
#include "log/vl_notice.h"
#include "core/vl_waiters.h"
#include "cgroup/vl_place.h"
#include "base/vl_own.h"
#include "base/vl_private.h"
#include "accept/vl_relay.h"
#include "core/vl_shm.h"
#include "status/vl_modules.h"
#include "status/vl_status.h"
#include "status/vl_workers.h"
#include "cost/vl_kills.h"
#include "cost/vl_sampler_process.h"

/* State that survives a restart.  A restart loads the module again and clears its
 * variables, so this struct is allocated in ap_pglobal and stored there under KEPT_KEY.
 * The key contains the layout stamp: a module version with another layout does not find
 * the struct of the previous version and creates its own. */
#define KEPT_KEY "mod_vhostlimit:" VL_LAYOUT
typedef struct kept_t {
    vl_shm_t *shm;
    apr_uint32_t capacity;          /* number of accounts of sites that shm can hold */
    const int *transfer;            /* socket pair, see vl_transfer.h */
    int relay[2];                   /* socket pair, see vl_relay.h */
    vl_control_kept_t control;
    vl_cgroup_t *cgroup;
    vl_plans_kept_t plans;
    vl_workers_kept_t workers;
    vl_sandbox_kept_t *sandboxes;   /* NULL until a site has one */
} kept_t;

static kept_t *kept;
static vl_place_t *place;
static vl_kills_t *kills;

/* Returns the state of the previous configuration, or NULL at the first start. */
static kept_t *kept_find(void)
{
    void *data = NULL;

    apr_pool_userdata_get(&data, KEPT_KEY, ap_pglobal);
    return data;
}

/* Finds or creates the state that survives restarts.  Returns NULL and logs the reason
 * when the socket pairs cannot be created. */
static kept_t *kept_get(server_rec *main_server)
{
    /* Child processes of all module versions share the socket pair through which they transfer
     * connections, so it has a key of its own, without the layout stamp.  Its type int[2] and its
     * key must never change. */
    static const char key[] = "mod_vhostlimit:handover";
    kept_t *k = kept_find();
    void *pair = NULL;
    apr_status_t rv = APR_SUCCESS;

    if (k)
        return k;
    k = apr_pcalloc(ap_pglobal, sizeof(*k));
    apr_pool_userdata_get(&pair, key, ap_pglobal);
    if (!pair) {
        pair = apr_pcalloc(ap_pglobal, sizeof(int) * 2);
        rv = vl_transfer_create(SOCK_NONBLOCK, pair);
        if (rv == APR_SUCCESS)
            apr_pool_userdata_set(pair, key, apr_pool_cleanup_null, ap_pglobal);
    }
    k->transfer = pair;
    if (rv == APR_SUCCESS)
        rv = vl_transfer_create(0, k->relay);
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_EMERG, rv, main_server, VLOGNO(0035)
                     "the socket pairs between children cannot be made, so the "
                     "server does not start: raise LimitNOFILE");
        return NULL;
    }
    apr_pool_userdata_set(k, KEPT_KEY, apr_pool_cleanup_null, ap_pglobal);
    return k;
}

/* Pool cleanup: removes all groups of the module. */
static apr_status_t remove_cgroups(void *unused)
{
    kept_t *k = kept_find();

    if (k && k->cgroup) {
        vl_cgroup_remove_gone(k->cgroup, NULL);
        k->cgroup = NULL;
    }
    return APR_SUCCESS;
}

/* Cleanup of the configuration pool: removes all groups when the server exits.  httpd
 * clears this pool before every restart too, and then the groups stay.  A later cleanup
 * cannot do it, because httpd unloads the module with the configuration pool. */
static apr_status_t remove_cgroups_at_exit(void *unused)
{
    if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_EXITING)
        remove_cgroups(NULL);
    return APR_SUCCESS;
}

/* Cleanup of the configuration pool, after post_config: ends the sandboxes when the server
 * exits, before the groups that their processes are in are removed. */
static apr_status_t end_sandboxes_at_exit(void *unused)
{
    kept_t *k = kept_find();

    if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_EXITING && k && k->sandboxes)
        vl_sandbox_exit(k->sandboxes);
    return APR_SUCCESS;
}

/* Returns vl_cgroup_needs() of all servers combined, with these limits of each. */
static unsigned all_needs(server_rec *s, vl_cgroup_limits_t limits_of(const vl_conf_t *))
{
    unsigned needs = 0;

    for (; s; s = s->next) {
        vl_cgroup_limits_t limits = limits_of(vl_conf_get(s));

        needs |= vl_cgroup_needs(&limits);
    }
    return needs;
}

/* Sites whose limits cannot be enforced that the log names after one start or restart.  A
 * limit at server level may concern thousands. */
#define UNENFORCED_NAMED 10
static int unenforced;          /* number of such sites so far */

/* Logs that the kernel cannot enforce a limit of the site.  Returns APR_EGENERAL if the
 * server must not start, with "VhostLimitOnError closed".  A restart never fails here,
 * because a failed restart would stop the running server. */
static apr_status_t report_unenforced(server_rec *s, const char *why, int restart)
{
    const vl_conf_t *conf = vl_conf_get(s);
    int is_closed = conf->on_error == VL_ERROR_CLOSED;

    if (++unenforced > UNENFORCED_NAMED)
        return APR_SUCCESS;
    ap_log_error(APLOG_MARK, !is_closed ? APLOG_WARNING
                 : restart ? APLOG_ERR : APLOG_EMERG, 0, s, VLOGNO(0020)
                 "site %s: a limit cannot be enforced: %s. %s. Mount or delegate "
                 "the controller, or remove the limit", conf->site->name, why,
                 !is_closed || restart ? "The site is served without that limit"
                 : "The server does not start (VhostLimitOnError closed)");
    return is_closed && !restart ? APR_EGENERAL : APR_SUCCESS;
}

/* Logs how many sites report_unenforced() did not name, and begins to count again. */
static void report_more_unenforced(const server_rec *main_server)
{
    if (unenforced > UNENFORCED_NAMED)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0025)
                     "limits of %d more sites cannot be enforced; the key "
                     "\"unenforced\" of the status page names each site",
                     unenforced - UNENFORCED_NAMED);
    unenforced = 0;
}

/* Returns the configured cgroup limits of the vhost, with the limits that vhostlimitctl
 * has changed since the server started. */
static vl_cgroup_limits_t limits_now(const vl_conf_t *conf)
{
    if (conf->mode == VL_MODE_OFF)
        return vl_conf_cgroup_limits(conf);
    return vl_conf_cgroup_limits_with(conf, vl_shm_post_config_values(kept->shm, conf->account));
}

/* Tells for "httpd -t" which limits the kernel cannot enforce, as the start does.  Only root
 * can know: without its rights nothing is reported.  Returns APR_EGENERAL if the server
 * would not start. */
static apr_status_t test_limits(apr_pool_t *ptemp, server_rec *main_server)
{
    const apr_array_header_t *servers = vl_conf_get(main_server)->sites;
    vl_cgroup_t *probe = vl_cgroup_probe(ptemp, vl_conf_get(main_server)->cgroup,
                                         all_needs(main_server, vl_conf_cgroup_limits));
    apr_status_t rv = APR_SUCCESS;
    int i;

    for (i = 0; i < servers->nelts && !geteuid() && rv == APR_SUCCESS; i++) {
        server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);
        vl_cgroup_limits_t limits = vl_conf_cgroup_limits(vl_conf_get(s));
        const char *missing = vl_cgroup_missing(probe, ptemp, &limits);

        if (missing)
            rv = report_unenforced(s, missing, 0);
    }
    report_more_unenforced(main_server);
    return rv;
}

/* Creates or updates the groups of the server's account.  Returns APR_EGENERAL if the
 * server must not start. */
static apr_status_t make_cgroup(server_rec *s, apr_pool_t *ptemp, int restart)
{
    const vl_conf_t *conf = vl_conf_get(s);
    vl_cgroup_limits_t limits = limits_now(conf);
    const char *missing = vl_cgroup_missing(kept->cgroup, ptemp, &limits);

    if (missing && report_unenforced(s, missing, restart) != APR_SUCCESS)
        return APR_EGENERAL;
    if (vl_cgroup_add(kept->cgroup, conf->site->name, &limits)
        == APR_SUCCESS)
        return APR_SUCCESS;
    if (vl_cgroup_needs(&limits)) {
        conf->site->unenforced = vl_cgroup_reason(kept->cgroup);
        return report_unenforced(s, conf->site->unenforced, restart);
    }
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, VLOGNO(0004)
                 "site %s has no cgroup: %s. It is served without one", conf->site->name,
                 vl_cgroup_reason(kept->cgroup));
    return APR_SUCCESS;
}

/* Opens the cgroup tree, creates the groups of all accounts, and removes the groups of
 * sites that are no longer configured. */
static apr_status_t make_cgroups(server_rec *main_server, apr_pool_t *ptemp)
{
    vl_cgroup_t *old = kept->cgroup;
    const apr_array_header_t *servers = vl_conf_get(main_server)->sites;
    apr_status_t rv = APR_SUCCESS;
    int i;

    kept->cgroup = vl_cgroup_open(servers->nelts
                                  ? vl_conf_get(main_server)->cgroup : "off",
                                  all_needs(main_server, limits_now), old);
    for (i = 0; i < servers->nelts && rv == APR_SUCCESS; i++)
        rv = make_cgroup(APR_ARRAY_IDX(servers, i, server_rec *), ptemp,
                         old != NULL);
    report_more_unenforced(main_server);
    vl_cgroup_remove_gone(old, kept->cgroup);
    return rv;
}

/* Opens the cgroup files of all accounts.  The parent does this while it is root, because
 * the kernel checks the rights of the process that opened the file. */
static void open_cgroups(apr_pool_t *pconf, server_rec *main_server)
{
    const apr_array_header_t *servers = vl_conf_get(main_server)->sites;
    apr_uint32_t most = APR_UINT32_MAX, without_fds = 0;
    struct rlimit limit;
    int i;

    /* A child process needs the rest for its connections and files. */
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur != RLIM_INFINITY)
        most = (apr_uint32_t)(limit.rlim_cur / 4);
    place = vl_place_post_config_create(pconf, kept->cgroup, kept->capacity, most);
    kills = vl_kills_post_config_create(pconf, kept->cgroup, (apr_uint32_t)servers->nelts);
    for (i = 0; i < servers->nelts; i++) {
        const vl_conf_t *conf = vl_conf_get(APR_ARRAY_IDX(servers, i,
                                                          server_rec *));
        int has_limit = limits_now(conf).memory > 0;

        if (has_limit)
            vl_kills_post_config_add(kills, conf->account, conf->site->name);
        /* Kills before now must not be reported. */
        if (has_limit && !vl_shm_post_config_knows_kills(kept->shm, conf->account))
            vl_shm_post_config_kills(kept->shm, conf->account,
                                     vl_kills_of(kept->cgroup, pconf, conf->site->name));
        if (conf->mode == VL_MODE_ON)
            without_fds += vl_place_post_config_add(place, conf->account,
                                                    conf->site->name)
                           == APR_ENOSPC;
    }
    if (without_fds)
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, main_server, VLOGNO(0021)
                     "no descriptors for the cgroups of the last %u sites: their CGI "
                     "programs and busy threads stay in the server's cgroup. Raise "
                     "LimitNOFILE to %u", without_fds,
                     place->wanted * 4 + 4);
}

/* Returns the argument of the directive, or its default. */
static apr_uint32_t argument(const char *directive, apr_uint32_t otherwise)
{
    const char *text = vl_conf_argument(directive);
    long value = text ? strtol(text, NULL, 10) : 0;

    return value > 0 ? (apr_uint32_t)value : otherwise;
}

/* Runs before post_config, and is the only one of both that "httpd -t" runs. */
static int check_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                        server_rec *main_server)
{
    apr_status_t rv = vl_conf_check(pconf, ptemp, main_server);

    if (rv == APR_SUCCESS)
        rv = vl_sandboxes_check(ptemp, main_server);
    if (rv == APR_SUCCESS)
        rv = vl_owners_check(pconf, main_server);
    if (rv == APR_SUCCESS
        && ap_state_query(AP_SQ_RUN_MODE) == AP_SQ_RM_CONFIG_TEST)
        rv = test_limits(ptemp, main_server);
    if (rv == APR_SUCCESS)
        vl_hooks_check_config(main_server);
    if (rv == APR_SUCCESS && vl_conf_knows_mpm() && vl_conf_get(main_server)->sites->nelts)
        vl_listener_use_one_bucket(pconf);
    return rv == APR_SUCCESS ? OK : HTTP_INTERNAL_SERVER_ERROR;
}

static int post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                       server_rec *main_server)
{
    const apr_array_header_t *servers;
    const char *path, *reason;
    int is_restart, processes = 0, is_threaded = 0;

    /* httpd reads the configuration twice at start.  The first pass only checks it. */
    if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG)
        return OK;
    vl_conf_post_config(main_server);
    vl_remoteip_post_config(pconf);
    vl_headtime_post_config(main_server);
    is_restart = kept_find() != NULL;
    kept = kept_get(main_server);
    if (kept)
        vl_plans_post_config(&kept->plans, main_server);
    if (!kept || vl_accounts_post_config(ptemp, main_server, &kept->shm,
                                          &kept->capacity)
        != APR_SUCCESS)
        return HTTP_INTERNAL_SERVER_ERROR;
    vl_slot_set(kept->shm, vl_conf_get(main_server)->slots);
    /* Without the child_stopping hook a sleeping acceptor would not notice that the child stops. */
    vl_engage_post_config(kept->shm, AP_MODULE_MAGIC_AT_LEAST(20120211, 110)
                                     && vl_listener_will_queue() && !vl_is_one_process());
    ap_mpm_query(AP_MPMQ_MAX_DAEMONS, &processes);
    ap_mpm_query(AP_MPMQ_IS_THREADED, &is_threaded);
    /* The defaults are those of httpd 2.4 (DEFAULT_MIN_FREE_DAEMON of each MPM). */
    vl_slot_set_mpm(kept->shm, (apr_uint32_t)processes,
                    is_threaded ? argument("MinSpareThreads", 75) : argument("MinSpareServers", 5));
    vl_http2_let_wait(pconf, main_server);
    vl_http2_check_workers(main_server);
    if (make_cgroups(main_server, ptemp) != APR_SUCCESS)
        return HTTP_INTERNAL_SERVER_ERROR;
    open_cgroups(pconf, main_server);
    if (vl_sandboxes_make(pconf, main_server, &kept->sandboxes, is_restart)
        != APR_SUCCESS)
        return HTTP_INTERNAL_SERVER_ERROR;
    apr_pool_cleanup_register(pconf, NULL, end_sandboxes_at_exit, apr_pool_cleanup_null);
    vl_hooks_post_config(main_server);
    servers = vl_conf_get(main_server)->sites;
    vl_status_post_config(servers, kept->shm, kept->cgroup);
    vl_workers_post_config(&kept->workers, main_server, servers, kept->shm);
    vl_notice_post_config(main_server, kept->shm);
    path = vl_cgroup_path(kept->cgroup);
    reason = vl_cgroup_reason(kept->cgroup);
    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, main_server, VLOGNO(0010)
                 "%s: %d sites, cgroup backend %s%s%s%s%s", VL_VERSION,
                 servers->nelts, vl_cgroup_backend(kept->cgroup),
                 *path ? " at " : "", path, *reason ? ": " : "", reason);
    vl_modules_post_config(main_server, kept->cgroup);
    vl_sampler_post_config(pconf, main_server, kept->shm, vl_owners_of_folder,
                           vl_owners_of_user);
    return OK;
}

/* Runs after the MPM has opened the listening sockets. */
static int open_logs(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                     server_rec *main_server)
{
    const char *obstacle = vl_listener_obstacle();

    if (vl_listener_will_queue())
        vl_listener_open_logs();
    else if (obstacle && vl_conf_knows_mpm() && vl_conf_get(main_server)->sites->nelts
             && ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_CREATE_PRE_CONFIG)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, VLOGNO(0079)
                     "requests wait with their threads or processes, and sharing is weaker: %s",
                     obstacle);
    return OK;
}

/* Starts the control socket.  Runs last, when all other modules are configured. */
static int start_control(apr_pool_t *pconf, apr_pool_t *plog,
                         apr_pool_t *ptemp, server_rec *main_server)
{
    if (kept)
        vl_control_post_config(pconf, main_server, &kept->control, kept->shm,
                               kept->cgroup, &kept->plans);
    return OK;
}

/* Cleanup of pchild. The pools of some connections live longer than pchild when the
 * process exits. From now on they do not use the shared memory. */
static apr_status_t child_end(void *unused)
{
    vl_child.ended = 1;
    vl_lease_forget();
    return APR_SUCCESS;
}

/* Child process: attaches to shared memory and starts the module's threads. */
static void child_init(apr_pool_t *pchild, server_rec *main_server)
{
    /* ap_log_pid() of httpd 2.4 resolves a relative PidFile against ServerRoot, and not
     * against DefaultRuntimeDir (server/log.c of 2.4.57 to 2.4.62; t/540 tests the
     * installed release). */
    const vl_child_t child = { .pool = pchild, .main_server = main_server,
                               .shm = kept->shm, .place = place, .kills = kills,
                               .pid_file = ap_server_root_relative(pchild, ap_pid_fname),
                               .transfer_pair = kept->transfer,
                               .relay_pair = kept->relay };
    int threads = 1;
    apr_status_t rv;

    vl_control_child_init();
    /* Handlers of fork() run in the order in which they are registered: a new process enters
     * its site's group before others. */
    vl_child_guard_forks();
    vl_place_fork_for(place, VL_PLACE_NONE);
    ap_mpm_query(AP_MPMQ_MAX_THREADS, &threads);
    if (!threads)
        threads = 1;
    rv = vl_shm_child_attach(kept->shm, getpid(), threads);
    if (rv != APR_SUCCESS)
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, main_server, VLOGNO(0008)
                     "this child's requests are %s: there is no place for it in "
                     "shared memory. Report this with your ServerLimit", vl_conf_get(main_server)->on_error
                     == VL_ERROR_CLOSED ? "refused" : "not limited");
    vl_own_child_init(pchild, &vl_duty_sampler(kept->shm)->callers);
    vl_child_init(&child, threads);
    vl_meter_child_init(kept->shm);
    vl_request_child_init();
    apr_pool_cleanup_register(pchild, NULL, child_end, apr_pool_cleanup_null);
    vl_waiters_child_init(pchild, kept->shm, vl_shm_facts(kept->shm).capacity, threads,
                          vl_http2_workers(threads));
    /* The acceptor is a thread of each child, or under prefork one child for all. If the listeners
     * cannot be taken over, nothing is queued in it: the thread handles timers, and the grants of
     * requests that wait with their threads. Prefork has no such thread then. */
    if (vl_shm_child_wake_fd(kept->shm) >= 0 && vl_conf_knows_mpm()) {
        if (vl_listener_is_threaded())
            vl_child.has_sockets = vl_acceptor_child_start();
        else if (!vl_listener_obstacle())
            vl_child.has_sockets = vl_prefork_child_init();
    }
    vl_lease_child_init(pchild, kept->shm, vl_acceptor_is_thread(),
                        vl_shm_facts(kept->shm).capacity, vl_http2_workers(threads));
    if (!vl_acceptor_is_thread() && !vl_child.has_sockets)
        vl_engage_now(kept->shm, VL_ENGAGED_ALWAYS);
    vl_acceptor_child_begin();
    /* "httpd -X" has no parent: its only process exits through the child's pool. */
    if (vl_is_one_process())
        apr_pool_cleanup_register(pchild, NULL, remove_cgroups,
                                  apr_pool_cleanup_null);
}

/* Parent: when a child process has exited, returns the slots that it held and lets the
 * relay check whether the child was the acceptor. */
static void child_status(server_rec *main_server, pid_t pid,
                         ap_generation_t generation, int slot,
                         mpm_child_status state)
{
    apr_uint32_t left;

    if (state != MPM_CHILD_EXITED || !kept)
        return;
    left = vl_shm_parent_reclaim(kept->shm, pid);
    vl_relay_parent_check(kept->shm);
    if (left)
        vl_status_child_lost(left);
    if (left)
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, main_server, VLOGNO(0009)
                     "child %" APR_PID_T_FMT " died with %u requests running or queued: "
                     "their slots are free again, and other child processes serve the "
                     "queued ones", pid, left);
}

static void count_kills(void *data, apr_uint32_t account, apr_uint64_t killed)
{
    (void)data;
    vl_charge_kills(kept->shm, account, killed);
}

/* monitor hook: the parent reads the kills while the server is dormant. A child with an acceptor
 * does that otherwise. */
static int monitor(apr_pool_t *p, server_rec *s)
{
    int i;

    /* One of these calls reads them. */
    for (i = 0; i < VL_KILLS_EVERY && kept && kills && vl_engage_is_dormant(kept->shm); i++)
        vl_kills_child_read(kills, count_kills, NULL);
    return DECLINED;
}

static void register_hooks(apr_pool_t *p)
{
    /* After the MPM's own hook, which opens the listening sockets. */
    ap_hook_open_logs(open_logs, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_check_config(check_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_post_config(post_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_post_config(start_control, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_child_init(child_init, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_monitor(monitor, NULL, NULL, APR_HOOK_FIRST);
    ap_hook_child_status(child_status, NULL, NULL, APR_HOOK_MIDDLE);
    vl_acceptor_register();
    vl_hooks_register();
    vl_notice_register(p);
    vl_status_register(p);
    vl_workers_register();
    apr_pool_cleanup_register(p, NULL, remove_cgroups_at_exit,
                              apr_pool_cleanup_null);
}

module AP_MODULE_DECLARE_DATA vhostlimit_module = {
    STANDARD20_MODULE_STUFF,
    NULL,                       /* no per-directory configuration */
    NULL,
    vl_conf_create,
    vl_conf_merge,
    vl_conf_cmds,
    register_hooks
};
