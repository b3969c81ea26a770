/* SPDX-License-Identifier: Apache-2.0 */
/* Changes limits of sites while the server runs. */
#include <apr_strings.h>

#include "config/vl_conf.h"
#include "control/vl_control_int.h"

/* When the kernel refuses to take a change back, the next attempt follows after this
 * time. */
#define RETRY_US (60 * APR_USEC_PER_SEC)

/* When the first timed change ends, or an earlier time; 0: there is none.  Searching all
 * accounts holds the vl_control_shm lock, so that is done only when it may have changed. */
static apr_int64_t next_us;

void vl_control_change_post_config(void)
{
    next_us = vl_shm_parent_next_us(vl_control_shm);
}

/* Sets the limits of the site's cgroups.  With "VhostLimitOnError closed" it fails if the
 * kernel cannot enforce a limit, as the start of the server does.  Returns NULL or an
 * error message. */
static const char *change_group(apr_pool_t *p, const vl_conf_t *conf,
                                const vl_override_t *from, const vl_override_t *to)
{
    vl_cgroup_limits_t before = vl_conf_cgroup_limits_with(conf, &from->now);
    vl_cgroup_limits_t after = vl_conf_cgroup_limits_with(conf, &to->now);
    const char *missing = vl_cgroup_missing(vl_control_cgroup, p, &after);

    if (missing && conf->on_error == VL_ERROR_CLOSED)
        return missing;
    return vl_cgroup_change(vl_control_cgroup, p, conf->site->name, &before, &after);
}

/* Returns the limits as text for the log. */
static const char *values_text(apr_pool_t *p, const vl_values_t *values)
{
    const char *cpu = values->of[VL_KEY_cpu]
        ? apr_psprintf(p, "%d%%", (int)values->of[VL_KEY_cpu]) : "none";
    const char *text = apr_psprintf(p, "weight %d, concurrency %d, queue %d, CPU %s",
                                    (int)values->of[VL_KEY_weight],
                                    (int)values->of[VL_KEY_concurrency],
                                    (int)values->of[VL_KEY_queue], cpu);
    vl_key_e key;

    for (key = VL_KEYS_ADMITTED; key < VL_KEY_COUNT; key++) {
        if (values->of[key])
            text = apr_psprintf(p, "%s, %s %" APR_INT64_T_FMT, text,
                                vl_override_key_name(key), values->of[key]);
    }
    return text;
}

static void log_change(apr_pool_t *p, const vl_job_t *job, const char *why)
{
    const vl_conf_t *conf = vl_conf_get(job->s);
    vl_cgroup_limits_t group = vl_conf_cgroup_limits_with(conf, &job->after.now);
    const char *missing = vl_cgroup_missing(vl_control_cgroup, p, &group);

    if (!vl_control_fork_may_log())
        return;
    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, vl_control_server, VLOGNO(0031)
                 "site %s: limits changed from %s to %s%s%s%s",
                 conf->site->name, values_text(p, &job->before.now),
                 values_text(p, &job->after.now), why,
                 missing ? ", but the kernel does not enforce all of them: " : "",
                 missing ? missing : "");
}

/* Makes the changes in the cgroups.  If the kernel refuses one, it takes the earlier ones
 * back. */
static const char *change_groups(apr_pool_t *p, vl_job_t *jobs, int n)
{
    const char *failed = NULL;
    int i;

    for (i = 0; i < n && !failed; i++) {
        failed = change_group(p, vl_conf_get(jobs[i].s), &jobs[i].before, &jobs[i].after);
        if (failed)
            failed = apr_psprintf(p, "site %s: the limit cannot be enforced: %s",
                                  vl_conf_get(jobs[i].s)->site->name, failed);
    }
    while (failed && i--)
        change_group(p, vl_conf_get(jobs[i].s), &jobs[i].after, &jobs[i].before);
    return failed;
}

const char *vl_control_change(apr_pool_t *p, vl_job_t *jobs, int n, const char *why)
{
    vl_account_snapshot_t now;
    apr_int64_t end_us;
    const char *failed;
    int i;

    for (i = 0; i < n; i++) {
        if (vl_shm_snapshot(vl_control_shm, vl_conf_get(jobs[i].s)->account, &now) != APR_SUCCESS)
            return "shared memory cannot be read";
        jobs[i].before = jobs[i].after = now.override;
        vl_override_change(&jobs[i].after, &jobs[i].change);
    }
    failed = change_groups(p, jobs, n);
    if (failed)
        return failed;
    for (i = 0; i < n; i++) {
        if (vl_shm_parent_change(vl_control_shm, vl_conf_get(jobs[i].s)->account,
                                 &jobs[i].change) != APR_SUCCESS)
            return "shared memory cannot be written";
        log_change(p, &jobs[i], why);
        end_us = vl_override_next_us(&jobs[i].after);
        if (end_us && (!next_us || end_us < next_us))       /* 0: it lasts */
            next_us = end_us;
    }
    return NULL;
}

/* Takes back what has ended at one site.  Returns 0 if the kernel refuses. */
static int expire_site(apr_pool_t *p, const server_rec *s, apr_int64_t now_us)
{
    vl_job_t job = { .s = s, .change = { .expire_us = now_us } };
    vl_account_snapshot_t now;
    apr_int64_t next = vl_shm_snapshot(vl_control_shm, vl_conf_get(s)->account, &now)
                       == APR_SUCCESS ? vl_override_next_us(&now.override) : 0;
    const char *failed;

    if (!next || next > now_us)
        return 1;
    failed = vl_control_change(p, &job, 1, ": the time of the change is over");
    if (failed && vl_control_fork_may_log())
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, vl_control_server, VLOGNO(0061)
                     "the time of a change is over, but the kernel refuses the former "
                     "value: %s. The next attempt follows in a minute", failed);
    return !failed;
}

apr_int64_t vl_control_expire(apr_pool_t *p, apr_int64_t now_us)
{
    const apr_array_header_t *servers;
    int i, all_done = 1;

    if (!next_us || next_us > now_us)
        return next_us;
    servers = vl_sites_servers(vl_control_server);
    for (i = 0; i < servers->nelts; i++)
        all_done &= expire_site(p, APR_ARRAY_IDX(servers, i, server_rec *), now_us);
    next_us = vl_shm_parent_next_us(vl_control_shm);
    if (!all_done)
        next_us = now_us + RETRY_US;
    return next_us;
}
