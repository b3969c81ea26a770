/* SPDX-License-Identifier: Apache-2.0 */
/* Changes limits of sites and of plans while the server runs, and shows plans.  A change of a plan
 * is what an edit of its section and a restart would be: it gives other configured values to the
 * sites whose limits come from the plan.  A limit that is overridden at the site stays so. */
#include <apr_strings.h>

#include "base/vl_clock.h"
#include "config/vl_conf.h"
#include "control/vl_control_int.h"

/* When the kernel refuses to take a change back, the next attempt follows after this
 * time. */
#define RETRY_US (60 * APR_USEC_PER_SEC)

/* When the first timed change ends, or an earlier time; 0: there is none.  Searching all
 * accounts holds the vl_control_shm lock, so that is done only when it may have changed. */
static apr_int64_t next_us;
static vl_plans_kept_t *plans;

void vl_control_change_post_config(vl_plans_kept_t *kept)
{
    plans = kept;
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

/* --- plans ---------------------------------------------------------------- */

static vl_plan_state_t *find_state(const char *name)
{
    vl_plan_state_t *state;

    for (state = plans->first; state; state = state->next) {
        if (state->is_configured && !strcmp(state->name, name))
            return state;
    }
    return NULL;
}

/* Returns 1 if the limits of the site come from the plan. */
static int has_plan(const server_rec *s, const vl_plan_state_t *state)
{
    return vl_conf_get(s)->unplanned && !strcmp(vl_conf_get(s)->plan->name, state->name);
}

/* Returns the changes of the plan's sites. */
static vl_job_t *site_jobs(apr_pool_t *p, const vl_plan_state_t *state,
                           const vl_override_t *after, int *ret_n)
{
    const apr_array_header_t *servers = vl_conf_get(vl_control_server)->sites;
    vl_job_t *jobs = apr_pcalloc(p, (apr_size_t)(servers->nelts + 1) * sizeof(*jobs));
    vl_key_e key;
    int i, n = 0;

    for (i = 0; i < servers->nelts; i++) {
        const server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);
        vl_change_t *change = &jobs[n].change;

        if (!has_plan(s, state))
            continue;
        for (key = 0; key < VL_KEY_COUNT; key++) {
            if (after->now.of[key] == state->override.now.of[key]
                || vl_conf_get(s)->own & VL_KEY_BIT(key))
                continue;
            change->configure |= VL_KEY_BIT(key);
            change->values.of[key] = vl_plans_value(s, &after->now, key);
        }
        jobs[n].s = s;
        n += change->configure != 0;
    }
    *ret_n = n;
    return jobs;
}

static const char *change_state(apr_pool_t *p, vl_plan_state_t *state,
                                const vl_change_t *change, const char *why)
{
    vl_override_t after = state->override;
    const char *failed;
    vl_job_t *jobs;
    int n;

    vl_override_change(&after, change);
    jobs = site_jobs(p, state, &after, &n);
    failed = vl_control_change(p, jobs, n, apr_psprintf(p, " by plan %s%s", state->name,
                                                        why));
    if (!failed)
        state->override = after;
    return failed;
}

const char *vl_control_plans_change(apr_pool_t *p, const char *name,
                                    const vl_change_t *change, const char *why)
{
    vl_plan_state_t *state = find_state(name);

    if (!state)
        return apr_psprintf(p, "there is no <VhostLimitPlan %s>", name);
    return change_state(p, state, change, why);
}

/* Takes back what has ended at plans. Returns when the next change of one ends; 0: all last. */
static apr_int64_t expire_plans(apr_pool_t *p, apr_int64_t now_us)
{
    vl_change_t change = { .expire_us = now_us };
    apr_int64_t next = 0, own;
    vl_plan_state_t *state;
    const char *failed;

    for (state = plans->first; state; state = state->next) {
        own = vl_override_next_us(&state->override);
        if (own && own <= now_us) {
            failed = change_state(p, state, &change, ": the time of the change is over");
            if (failed && vl_control_fork_may_log())
                ap_log_error(APLOG_MARK, APLOG_WARNING, 0, vl_control_server, VLOGNO(0062)
                             "plan %s: the time of a change is over, but the kernel refuses the "
                             "former value: %s. The next attempt follows in a minute", state->name,
                             failed);
            own = failed ? now_us + RETRY_US
                         : vl_override_next_us(&state->override);
        }
        if (own && (!next || own < next))
            next = own;
    }
    return next;
}

apr_int64_t vl_control_expire(apr_pool_t *p, apr_int64_t now_us)
{
    const apr_array_header_t *servers = vl_conf_get(vl_control_server)->sites;
    apr_int64_t next = expire_plans(p, now_us);
    int i, all_done = 1;

    if (next_us && next_us <= now_us) {
        for (i = 0; i < servers->nelts; i++)
            all_done &= expire_site(p, APR_ARRAY_IDX(servers, i, server_rec *), now_us);
        next_us = all_done ? vl_shm_parent_next_us(vl_control_shm) : now_us + RETRY_US;
    }
    return next && (!next_us || next < next_us) ? next : next_us;
}

/* --- JSON ----------------------------------------------------------------- */

/* Writes the members of an object for the keys in the set. */
static void put_keys(vl_out_t *out, unsigned keys, const vl_values_t *values)
{
    const char *before = "";
    vl_key_e key;

    for (key = 0; key < VL_KEY_COUNT; key++) {
        if (!(keys & VL_KEY_BIT(key)))
            continue;
        vl_out_printf(out, "%s\"%s\":", before, vl_override_key_name(key));
        if (values->of[key] == VL_VALUE_UNSET)
            vl_out_text(out, "null");
        else
            vl_out_number(out, "", (apr_uint64_t)values->of[key]);
        before = ",";
    }
}

static void put_plan(vl_out_t *out, const vl_plan_t *plan)
{
    const vl_plan_state_t *state = find_state(plan->name);
    const vl_override_t *override = &state->override;
    const apr_array_header_t *servers = vl_conf_get(vl_control_server)->sites;
    const char *before = "";
    vl_values_t left;
    vl_key_e key;
    int i;

    for (key = 0; key < VL_KEY_COUNT; key++)
        left.of[key] = (override->until_us[key] - vl_clock_us()) / APR_USEC_PER_SEC + 1;
    vl_out_json(out, "{\"name\":", plan->name);
    vl_out_json(out, ",\"place\":", plan->place);
    vl_out_text(out, ",\"limits\":{");
    put_keys(out, VL_KEY_ALL, &override->now);
    vl_out_text(out, "},\"overridden\":{");
    put_keys(out, override->keys, &override->configured);
    vl_out_text(out, "},\"expires_s\":{");
    put_keys(out, override->timed, &left);
    vl_out_text(out, "},\"sites\":[");
    for (i = 0; i < servers->nelts; i++) {
        const server_rec *s = APR_ARRAY_IDX(servers, i, server_rec *);

        if (!has_plan(s, state))
            continue;
        vl_out_json(out, before, vl_conf_get(s)->site->name);
        before = ",";
    }
    vl_out_text(out, "]}");
}

void vl_control_plans_json(vl_out_t *out, const char *name)
{
    const apr_array_header_t *all = vl_conf_get(vl_control_server)->plans;
    const char *before = "\n";
    int i;

    vl_out_text(out, "{\"plans\":[");
    for (i = 0; all && i < all->nelts; i++) {
        const vl_plan_t *plan = APR_ARRAY_IDX(all, i, vl_plan_t *);

        if (name && strcmp(plan->name, name))
            continue;
        vl_out_text(out, before);
        put_plan(out, plan);
        before = ",\n";
    }
    vl_out_text(out, "\n]}\n");
}
