/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_plans.h"

#include <string.h>

#include <apr_strings.h>
#include <http_log.h>
#include <http_main.h>

#include "base/vl_private.h"
#include "config/vl_conf.h"

/* --- in check_config ------------------------------------------------------ */

/* Finds the plan that the configuration struct names.  All virtual hosts inherit the line
 * of the server, so *reported keeps the line that was reported last. */
static void find_plan_of(const apr_array_header_t *plans, vl_conf_t *conf,
                         const ap_directive_t **reported, apr_status_t *rv)
{
    int i;

    if (!conf->plan_name || !*conf->plan_name)
        return;
    for (i = 0; plans && i < plans->nelts; i++) {
        vl_plan_t *plan = APR_ARRAY_IDX(plans, i, vl_plan_t *);

        if (!strcmp(plan->name, conf->plan_name))
            conf->plan = plan;
    }
    if (conf->plan || conf->plan_at == *reported)
        return;
    *reported = conf->plan_at;
    *rv = APR_EINVAL;
    ap_log_error(APLOG_MARK, APLOG_EMERG, 0, ap_server_conf, VLOGNO(0060)
                 "VhostLimitPlan %s in %s:%d: there is no <VhostLimitPlan %s>, so the server "
                 "does not start. Define the plan at server level, or correct the name",
                 conf->plan_name, conf->plan_at->filename, conf->plan_at->line_num,
                 conf->plan_name);
}

apr_status_t vl_plans_find(server_rec *main_server)
{
    const apr_array_header_t *plans = vl_conf_get(main_server)->plans;
    const apr_array_header_t *site_confs = vl_conf_get(main_server)->site_confs;
    const ap_directive_t *reported = NULL;
    apr_status_t rv = APR_SUCCESS;
    server_rec *s;
    int i;

    for (s = main_server; s; s = s->next)
        find_plan_of(plans, vl_conf_get(s), &reported, &rv);
    for (i = 0; site_confs && i < site_confs->nelts; i++)
        find_plan_of(plans, APR_ARRAY_IDX(site_confs, i, vl_site_conf_t *)->conf, &reported,
                     &rv);
    return rv;
}

/* --- in post_config ------------------------------------------------------- */

/* Finds the state of the plan of that name, or makes one. */
static vl_plan_state_t *find_state(vl_plans_kept_t *kept, const char *name)
{
    vl_plan_state_t *state;

    for (state = kept->first; state; state = state->next) {
        if (!strcmp(state->name, name))
            return state;
    }
    state = apr_pcalloc(ap_pglobal, sizeof(*state));
    state->name = apr_pstrdup(ap_pglobal, name);
    state->next = kept->first;
    kept->first = state;
    return state;
}

apr_int64_t vl_plans_value(const server_rec *s, const vl_values_t *plan, vl_key_e key)
{
    const vl_conf_t *conf = vl_conf_get(s);

    if (conf->own & VL_KEY_BIT(key))
        return vl_conf_values(conf).of[key];
    if (plan->of[key] != VL_VALUE_UNSET)
        return plan->of[key];
    return vl_conf_values(conf->unplanned).of[key];
}

void vl_plans_post_config(vl_plans_kept_t *kept, server_rec *main_server)
{
    const apr_array_header_t *plans = vl_conf_get(main_server)->plans;
    vl_plan_state_t *state;
    vl_key_e key;
    server_rec *s;
    int i;

    for (state = kept->first; state; state = state->next)
        state->is_configured = 0;
    for (i = 0; plans && i < plans->nelts; i++) {
        vl_plan_t *plan = APR_ARRAY_IDX(plans, i, vl_plan_t *);
        vl_values_t values = vl_conf_values(plan->conf);

        for (key = 0; key < VL_KEY_COUNT; key++) {
            if (!plan->conf->set_at[vl_conf_at(key)])
                values.of[key] = VL_VALUE_UNSET;
        }
        state = find_state(kept, plan->name);
        state->is_configured = 1;
        vl_override_configure(&state->override, &values);
        plan->state = &state->override;
    }
    /* A plan that the configuration does not have loses what vhostlimitctl has changed in it. */
    for (state = kept->first; state; state = state->next) {
        if (!state->is_configured)
            vl_override_clear(&state->override);
    }
    for (s = main_server; s; s = s->next) {
        vl_conf_t *conf = vl_conf_get(s);

        /* A virtual host with VhostLimit Off is in no site, so no plan was applied. */
        for (key = 0; conf->unplanned && key < VL_KEY_COUNT; key++)
            vl_conf_put_value(conf, key, vl_plans_value(s, &conf->plan->state->now, key));
    }
}
