/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_conf.h"

#include <stddef.h>

#include <apr_file_info.h>
#include <apr_strings.h>
#include <http_core.h>
#include <http_main.h>

#include "core/vl_slot.h"
#include "core/vl_hosts.h"
#include "base/vl_value.h"
#include "sandbox/vl_rule.h"

/* A keyword that a directive accepts, and its value.  Lists end with a NULL word. */
typedef struct word_t {
    const char *word;
    int value;
} word_t;

static const word_t mode_words[] = {
    { "On", VL_MODE_ON },
    { "Off", VL_MODE_OFF },
    { "DryRun", VL_MODE_DRYRUN },
    { NULL }
};

static const word_t status_words[] = {
    { "503", 503 },
    { "429", 429 },
    { "508", 508 },
    { NULL }
};

static const word_t retry_words[] = {
    { "auto", VL_RETRY_AUTO },
    { "off", VL_RETRY_OFF },
    { NULL }
};

static const word_t sandbox_words[] = {
    { "Off", VL_SANDBOX_OFF },
    { "Files", VL_SANDBOX_FILES },
    { "Full", VL_SANDBOX_FULL },
    { NULL }
};

static const word_t owner_words[] = {
    { "Off", VL_OWNER_OFF },
    { "Show", VL_OWNER_SHOW },
    { "Sandbox", VL_OWNER_SANDBOX },
    { NULL }
};

static const word_t access_words[] = {
    { "ro", VL_RULE_RO },
    { "rw", VL_RULE_RW },
    { "tmp", VL_RULE_TMP },
    { "hide", VL_RULE_HIDE },
    { NULL }
};

static const word_t none_words[] = {
    { "none", 0 },
    { "0", 0 },
    { NULL }
};

static const word_t error_words[] = {
    { "open", VL_ERROR_OPEN },
    { "closed", VL_ERROR_CLOSED },
    { NULL }
};

static const word_t slots_words[] = {
    { "auto", VL_SLOTS_AUTO },
    { NULL }
};

/* A row of VL_SETTINGS or VL_GLOBALS.  max < min: the directive accepts keywords only, no number. */
typedef struct setting_t {
    const char *directive;
    apr_size_t offset, size;    /* of the member of vl_conf_t */
    apr_int64_t min, max;
    const char *unit;           /* "of seconds " or "", for error messages; "%": the
                                 * value ends with a percent sign; "bytes": it may end
                                 * with K, M or G, and 0 means no limit */
    const word_t *words;
    int at;                     /* VL_AT_*, or -1: main server only */
} setting_t;

enum {
#define X(member, directive, args, def, min, max, unit, words, help) SETTING_##member,
    VL_SETTINGS(X)
#undef X
    SETTINGS
};

static const setting_t settings[SETTINGS] = {
#define X(member, directive, args, def, min, max, unit, words, help) \
    { directive, offsetof(vl_conf_t, member), sizeof(((vl_conf_t *)0)->member), min, max, unit, \
      words, VL_AT_##member },
    VL_SETTINGS(X)
#undef X
};

enum {
#define X(member, directive, args, def, min, max, unit, words, help) GLOBAL_##member,
    VL_GLOBALS(X)
#undef X
    GLOBALS
};

static const setting_t globals[GLOBALS] = {
#define X(member, directive, args, def, min, max, unit, words, help) \
    { directive, offsetof(vl_conf_t, member), sizeof(int), min, max, unit, words, -1 },
    VL_GLOBALS(X)
#undef X
};

/* The limits that can change while the server runs. */
static const setting_t *const setting_of[VL_KEY_COUNT] = {
#define LIMIT(key) [VL_KEY_##key] = &settings[SETTING_##key],
    LIMIT(weight)
    LIMIT(concurrency)
    LIMIT(queue)
    LIMIT(cpu)
    LIMIT(processes)
    LIMIT(memory)
    LIMIT(io)
#undef LIMIT
};

vl_values_t vl_conf_values(const vl_conf_t *conf)
{
    vl_values_t values;
    vl_key_e key;

    for (key = 0; key < VL_KEY_COUNT; key++) {
        const char *member = (const char *)conf + setting_of[key]->offset;

        values.of[key] = setting_of[key]->size == sizeof(int) ? *(const int *)member
                         : *(const apr_int64_t *)member;
    }
    return values;
}

static void put_value(vl_conf_t *conf, const setting_t *setting, apr_int64_t value)
{
    char *member = (char *)conf + setting->offset;

    if (setting->size == sizeof(int))
        *(int *)member = (int)value;
    else
        *(apr_int64_t *)member = value;
}

void vl_conf_put_value(vl_conf_t *conf, vl_key_e key, apr_int64_t value)
{
    put_value(conf, setting_of[key], value);
}

int vl_conf_at(vl_key_e key)
{
    return setting_of[key]->at;
}

vl_cgroup_limits_t vl_conf_cgroup_limits(const vl_conf_t *conf)
{
    vl_values_t values = vl_conf_values(conf);

    return vl_conf_cgroup_limits_with(conf, &values);
}

vl_cgroup_limits_t vl_conf_cgroup_limits_with(const vl_conf_t *conf,
                                              const vl_values_t *now)
{
    vl_cgroup_limits_t limits = { .weight = VL_WEIGHT };

    if (conf->mode != VL_MODE_ON)
        return limits;
    limits.weight = (apr_uint32_t)now->of[VL_KEY_weight];
    limits.cpu = (apr_uint32_t)now->of[VL_KEY_cpu];
    limits.memory = now->of[VL_KEY_memory];
    limits.processes = (apr_uint32_t)now->of[VL_KEY_processes];
    limits.io = now->of[VL_KEY_io];
    return limits;
}

void *vl_conf_create(apr_pool_t *p, server_rec *s)
{
    vl_conf_t *conf = apr_pcalloc(p, sizeof(*conf));

#define X(member, directive, args, def, min, max, unit, words, help) \
    conf->member = VL_UNSET;
    VL_SETTINGS(X)
#undef X
    conf->queue_timeout = -1;
    conf->sharing.clients = VL_UNSET;
#define X(member, directive, args, def, min, max, unit, words, help) conf->member = def;
    VL_GLOBALS(X)
#undef X
    return conf;
}

/* Sets what `add` does not configure from `base`.  Classes are inherited together. */
static void merge_sharing(vl_sharing_conf_t *conf, const vl_sharing_conf_t *base,
                          const vl_sharing_conf_t *add)
{
    const vl_sharing_conf_t *from = add->clients != VL_UNSET ? add : base;

    conf->clients = from->clients;
    conf->bits4 = from->bits4;
    conf->bits6 = from->bits6;
    from = add->known != VL_KNOWN_UNSET ? add : base;
    conf->known = from->known;
    conf->share = from->share;
    conf->ttl_us = from->ttl_us;
    conf->classes = add->classes ? add->classes : base->classes;
}

/* Appends an array of the virtual host to that of the main server; NULL: it is empty. */
static apr_array_header_t *append(apr_pool_t *p, apr_array_header_t *base,
                                  apr_array_header_t *add)
{
    return !base ? add : !add ? base : apr_array_append(p, base, add);
}

void *vl_conf_merge(apr_pool_t *p, void *base_conf, void *add_conf)
{
    const vl_conf_t *base = base_conf, *add = add_conf;
    vl_conf_t *conf = apr_pcalloc(p, sizeof(*conf));

#define X(member, directive, args, def, min, max, unit, words, help) \
    conf->member = add->member != VL_UNSET ? add->member : base->member;
    VL_SETTINGS(X)
#undef X
#define X(member, directive, args, def, min, max, unit, words, help) conf->member = base->member;
    VL_GLOBALS(X)
#undef X
    conf->queue_timeout = add->queue_timeout >= 0 ? add->queue_timeout
                                                  : base->queue_timeout;
    conf->group = add->group;
    conf->plan_name = add->plan_name ? add->plan_name : base->plan_name;
    conf->plan_at = add->plan_name ? add->plan_at : base->plan_at;
    conf->exempt = add->exempt ? add->exempt : base->exempt;
    conf->sandbox_paths = append(p, base->sandbox_paths, add->sandbox_paths);
    conf->connects = append(p, base->connects, add->connects);
    conf->database_users = add->database_users;
    merge_sharing(&conf->sharing, &base->sharing, &add->sharing);
    conf->accounts = add->accounts.by != VL_ACCOUNTS_UNSET ? add->accounts
                                                           : base->accounts;
    memcpy(conf->set_at, add->set_at, sizeof(conf->set_at));
    return conf;
}

/* Returns the error message for a value that the directive does not accept. */
static const char *value_error(apr_pool_t *p, const setting_t *setting,
                               const char *arg)
{
    const char *words = "";     /* the keywords, such as "On, Off, DryRun" */
    const word_t *word;

    for (word = setting->words; word && word->word; word++)
        words = apr_pstrcat(p, words, *words ? ", " : "", word->word, NULL);
    if (setting->max < setting->min)
        return apr_psprintf(p, "%s: '%s' is not one of %s",
                            setting->directive, arg, words);
    if (*setting->unit == '%')
        return apr_psprintf(p, "%s: '%s' is not none or a whole percentage "
                            "from %d%% to %d%%", setting->directive, arg,
                            (int)setting->min, (int)setting->max);
    if (*setting->unit == 'b')
        return apr_psprintf(p, "%s: '%s' is not none or a number of "
                            "bytes from %dK to 1048576G "
                            "(with K, M, G or nothing behind it)",
                            setting->directive, arg, (int)setting->min / 1024);
    return apr_psprintf(p, "%s: '%s' is not %s%sa whole number %sfrom %d "
                        "to %d", setting->directive, arg, words,
                        *words ? " or " : "", setting->unit, (int)setting->min,
                        (int)setting->max);
}

/* Parses a keyword or a number.  Returns NULL or an error message. */
static const char *read_value(apr_pool_t *p, const setting_t *setting,
                              const char *arg, apr_int64_t *ret_value)
{
    const word_t *word;
    int is_number;

    for (word = setting->words; word && word->word; word++) {
        if (!ap_cstr_casecmp(word->word, arg)) {
            *ret_value = word->value;
            return NULL;
        }
    }
    if (*setting->unit == 'b') {
        *ret_value = vl_value_size(arg, setting->max);
        is_number = !*ret_value || *ret_value >= setting->min;
    }
    else
        is_number = vl_value_number(arg, *setting->unit == '%' ? '%' : '\0', setting->min,
                                    setting->max, ret_value);
    return is_number ? NULL : value_error(p, setting, arg);
}

const char *vl_conf_read_limit(apr_pool_t *p, vl_key_e key, const char *arg,
                               vl_values_t *values)
{
    return read_value(p, setting_of[key], arg, &values->of[key]);
}

/* Checks the place of the directive, and records it.  at: VL_AT_*, or -1: main server only.  Settings
 * at server level are defaults of all sites and belong to none.  Returns NULL or an error message. */
static const char *set_place(cmd_parms *cmd, int at)
{
    const char *error = ap_check_cmd_context(cmd, at < 0 ? GLOBAL_ONLY : NOT_IN_DIR_CONTEXT);

    if (!error && at >= 0 && cmd->server->is_virtual)
        vl_conf_get(cmd->server)->set_at[at] = cmd->directive;
    return error;
}

/* Directive handler of all settings with one argument. */
static const char *set_value(cmd_parms *cmd, void *dconf, const char *arg)
{
    const setting_t *setting = cmd->info;
    const char *error = set_place(cmd, setting->at);
    apr_int64_t value = 0;

    if (!error)
        error = read_value(cmd->pool, setting, arg, &value);
    if (!error)
        put_value(vl_conf_get(cmd->server), setting, value);
    return error;
}

/* Directive handler of VhostLimitCgroup. */
static const char *set_cgroup(cmd_parms *cmd, void *dconf, const char *arg)
{
    const char *error = set_place(cmd, -1);

    if (error)
        return error;
    if (!ap_cstr_casecmp(arg, "auto") || !ap_cstr_casecmp(arg, "off"))
        arg = apr_pstrdup(cmd->pool, *arg == 'a' || *arg == 'A' ? "auto"
                                                                : "off");
    else if (!vl_value_is_path(arg))
        return apr_psprintf(cmd->pool, "VhostLimitCgroup: '%s' is not auto, "
                            "off or an absolute cgroup path such as /web",
                            arg);
    vl_conf_get(cmd->server)->cgroup = arg;
    return NULL;
}

/* Directive handler of VhostLimitQueue: a number and an optional timeout. */
static const char *set_queue(cmd_parms *cmd, void *dconf, const char *arg,
                             const char *time)
{
    const char *error = set_value(cmd, dconf, arg);
    apr_interval_time_t timeout;

    if (error || !time)
        return error;
    if (ap_timeout_parameter_parse(time, &timeout, "s") != APR_SUCCESS
        || timeout < VL_QUEUE_TIMEOUT_MIN || timeout > VL_QUEUE_TIMEOUT_MAX)
        return apr_psprintf(cmd->pool, "VhostLimitQueue: '%s' is not a time "
                            "from 1ms to 1h, in ms, s (the default), min or h",
                            time);
    vl_conf_get(cmd->server)->queue_timeout = timeout;
    return set_place(cmd, VL_AT_queue_timeout);
}

/* The directive handler for each number of arguments (column "args" of VL_SETTINGS). */
#define SET_TAKE1 set_value
#define SET_TAKE12 set_queue
#define SET_BYTES set_value
#define AP_INIT_BYTES AP_INIT_TAKE1

/* Directive handler of VhostLimitGroup.  The name of the group's site begins with "@", which
 * no host name does. */
static const char *set_group(cmd_parms *cmd, void *dconf, const char *arg)
{
    const char *error = set_place(cmd, VL_AT_group);

    if (error)
        return error;
    if (!cmd->server->is_virtual)
        return "VhostLimitGroup: outside of <VirtualHost> it would join all "
               "sites of the server: write it into a <VirtualHost> of each "
               "site that belongs to the group";
    if (!vl_value_is_name(arg, VL_GROUP_MAX))
        return apr_psprintf(cmd->pool, "VhostLimitGroup: '%s' is not a name of "
                            "up to %d letters, digits and . _ -", arg,
                            VL_GROUP_MAX);
    vl_conf_get(cmd->server)->group = apr_pstrcat(cmd->pool, "@", arg, NULL);
    return NULL;
}

/* Returns NULL, or the reason why the expression is not allowed: it would start subrequests
 * or DNS and ident lookups, which are impossible before the connection is accepted. */
static const char *expression_error(apr_pool_t *p, const char *text)
{
    ap_regex_t *lookup = ap_pregcomp(p, "(^|[^[:alnum:]_])"
                                     "(-[AFU][[:space:]\"'%$]|REMOTE_(HOST|IDENT))",
                                     AP_REG_EXTENDED | AP_REG_NOSUB);

    return !ap_regexec(lookup, text, 0, NULL, 0)
           ? "-A, -U, -F, REMOTE_HOST and REMOTE_IDENT look something up, "
             "which cannot be waited for here" : NULL;
}

/* Directive handler of VhostLimitExempt. */
static const char *set_exempt(cmd_parms *cmd, void *dconf, const char *arg)
{
    const char *error = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);
    vl_conf_t *conf = vl_conf_get(cmd->server);

    if (error)
        return error;
    error = expression_error(cmd->temp_pool, arg);
    if (!error)
        conf->exempt = ap_expr_parse_cmd(cmd, arg, 0, &error, NULL);
    if (error)
        return apr_psprintf(cmd->pool, "VhostLimitExempt: '%s': %s", arg,
                            error);
    return NULL;
}

/* Directive handler of VhostLimitClients: On or Off, and the lengths of the prefixes. */
static const char *set_clients(cmd_parms *cmd, void *dconf, const char *mode,
                               const char *bits4, const char *bits6)
{
    vl_sharing_conf_t *conf = &vl_conf_get(cmd->server)->sharing;
    const char *error = set_place(cmd, VL_AT_clients);
    apr_int64_t n4 = VL_CLIENT_BITS4, n6 = VL_CLIENT_BITS6;

    if (error)
        return error;
    if (ap_cstr_casecmp(mode, "On") && ap_cstr_casecmp(mode, "Off"))
        return apr_psprintf(cmd->pool, "VhostLimitClients: '%s' is not one of On, Off", mode);
    if (bits4 && !vl_value_number(bits4, '\0', 8, 32, &n4))
        return apr_psprintf(cmd->pool, "VhostLimitClients: '%s' is not the length of an IPv4 "
                            "prefix, a whole number from 8 to 32", bits4);
    if (bits6 && !vl_value_number(bits6, '\0', 16, 128, &n6))
        return apr_psprintf(cmd->pool, "VhostLimitClients: '%s' is not the length of an IPv6 "
                            "prefix, a whole number from 16 to 128", bits6);
    conf->clients = !ap_cstr_casecmp(mode, "On");
    conf->bits4 = (int)n4;
    conf->bits6 = (int)n6;
    return NULL;
}

/* Directive handler of VhostLimitClass. */
static const char *set_class(cmd_parms *cmd, void *dconf, const char *name,
                             const char *weight, const char *expr)
{
    vl_sharing_conf_t *conf = &vl_conf_get(cmd->server)->sharing;
    const char *error = set_place(cmd, VL_AT_classes);
    const ap_expr_info_t *parsed;
    apr_int64_t n;
    int i;

    if (error)
        return error;
    if (!vl_value_is_name(name, VL_CLASS_NAME_MAX) || !ap_cstr_casecmp(name, "other"))
        return apr_psprintf(cmd->pool, "VhostLimitClass: '%s' is not a name of up to %d "
                            "letters, digits and . _ - (\"other\" is the class of all other "
                            "requests)", name, VL_CLASS_NAME_MAX);
    if (strncmp(weight, "weight=", 7)
        || !vl_value_number(weight + 7, '\0', 1, VL_WEIGHT_MAX, &n))
        return apr_psprintf(cmd->pool, "VhostLimitClass %s: '%s' is not weight= and a whole "
                            "number from 1 to %d", name, weight, VL_WEIGHT_MAX);
    if (!conf->classes)
        conf->classes = apr_array_make(cmd->pool, VL_CLASSES_MAX, sizeof(vl_class_conf_t));
    if (conf->classes->nelts == VL_CLASSES_MAX - 1)
        return apr_psprintf(cmd->pool, "VhostLimitClass %s: a site has at most %d classes",
                            name, VL_CLASSES_MAX - 1);
    for (i = 0; i < conf->classes->nelts; i++) {
        if (!ap_cstr_casecmp(APR_ARRAY_IDX(conf->classes, i, vl_class_conf_t).name, name))
            return apr_psprintf(cmd->pool, "VhostLimitClass %s is defined twice", name);
    }
    error = expression_error(cmd->temp_pool, expr);
    parsed = error ? NULL : ap_expr_parse_cmd(cmd, expr, 0, &error, NULL);
    if (error)
        return apr_psprintf(cmd->pool, "VhostLimitClass %s: '%s': %s", name, expr, error);
    APR_ARRAY_PUSH(conf->classes, vl_class_conf_t) = (vl_class_conf_t){
        .name = name, .weight = (int)n, .expr = parsed, .text = expr, .at = cmd->directive
    };
    return NULL;
}

/* Parses share=N or ttl=TIME. Returns NULL or an error. */
static const char *set_known_option(cmd_parms *cmd, vl_sharing_conf_t *conf,
                                    const char *option)
{
    apr_int64_t n;
    apr_interval_time_t time;

    if (!strncmp(option, "share=", 6)
        && vl_value_number(option + 6, '\0', 1, 99, &n)) {
        conf->share = (int)n;
        return NULL;
    }
    if (!strncmp(option, "ttl=", 4)
        && ap_timeout_parameter_parse(option + 4, &time, "s") == APR_SUCCESS
        && time >= VL_KNOWN_TTL_MIN_US && time <= VL_KNOWN_TTL_MAX_US) {
        conf->ttl_us = time;
        return NULL;
    }
    return apr_psprintf(cmd->pool, "VhostLimitKnown: '%s' is neither share= and a percentage "
                        "from 1 to 99 nor ttl= and a time from 1s to 720h", option);
}

/* Directive handler of VhostLimitKnown. */
static const char *set_known(cmd_parms *cmd, void *dconf, const char *mode,
                             const char *first, const char *second)
{
    vl_sharing_conf_t *conf = &vl_conf_get(cmd->server)->sharing;
    const char *error = set_place(cmd, VL_AT_known);

    if (error)
        return error;
    if (!ap_cstr_casecmp(mode, "Off"))
        conf->known = VL_KNOWN_OFF;
    else if (!ap_cstr_casecmp(mode, "Address"))
        conf->known = VL_KNOWN_ADDRESS;
    else if (!ap_cstr_casecmp(mode, "Cookie"))
        conf->known = VL_KNOWN_COOKIE;
    else
        return apr_psprintf(cmd->pool, "VhostLimitKnown: '%s' is not one of Off, Address, "
                            "Cookie", mode);
    conf->share = VL_KNOWN_SHARE;
    conf->ttl_us = VL_KNOWN_TTL_US;
    if (first)
        error = set_known_option(cmd, conf, first);
    if (!error && second)
        error = set_known_option(cmd, conf, second);
    return error;
}

/* Directive handler of VhostLimitAccounts: Vhost, or Host and an optional max=. */
static const char *set_accounts(cmd_parms *cmd, void *dconf, const char *by,
                                const char *max)
{
    vl_accounts_conf_t *conf = &vl_conf_get(cmd->server)->accounts;
    const char *error = set_place(cmd, VL_AT_accounts);
    apr_int64_t n = 0;

    if (error)
        return error;
    if (!ap_cstr_casecmp(by, "Vhost"))
        conf->by = VL_ACCOUNTS_VHOST;
    else if (!ap_cstr_casecmp(by, "Host"))
        conf->by = VL_ACCOUNTS_HOST;
    else
        return apr_psprintf(cmd->pool, "VhostLimitAccounts: '%s' is not one of Vhost, Host",
                            by);
    if (max && conf->by == VL_ACCOUNTS_VHOST)
        return "VhostLimitAccounts: max= belongs to Host; with Vhost the virtual host has "
               "one account";
    if (max && (strncmp(max, "max=", 4)
                || !vl_value_number(max + 4, '\0', 1, VL_HOSTS_MAX, &n)))
        return apr_psprintf(cmd->pool, "VhostLimitAccounts: '%s' is not max= and a whole "
                            "number from 1 to %d", max, VL_HOSTS_MAX);
    conf->max = (int)n;
    return NULL;
}

/* --- plans ---------------------------------------------------------------- */

/* Directive handler of VhostLimitPlan.  The plan may be defined further down in the file, so
 * vl_plans_find() looks for it. */
static const char *set_plan(cmd_parms *cmd, void *dconf, const char *arg)
{
    vl_conf_t *conf = vl_conf_get(cmd->server);
    const char *error = set_place(cmd, VL_AT_plan);

    if (error)
        return error;
    if (!ap_cstr_casecmp(arg, "none"))
        arg = "";
    if (conf->plan_name && strcmp(conf->plan_name, arg))
        return apr_psprintf(cmd->pool, "VhostLimitPlan: a site has one plan, and this one has "
                            "'%s' in %s:%d", conf->plan_at->args, conf->plan_at->filename,
                            conf->plan_at->line_num);
    conf->plan_name = arg;
    conf->plan_at = cmd->directive;
    return NULL;
}

/* Returns 1 if the directive may stand in a plan: those that the virtual hosts of a site
 * share, without VhostLimit.  <VhostLimitSite> also has a plan and a group. */
static int belongs_to_section(const char *directive, int is_site)
{
    static const char *const names[] = {
        "VhostLimitPlan", "VhostLimitGroup",
#define X(member, directive, args, def, min, max, unit, words, help) directive,
        VL_SETTINGS(X)
#undef X
        "VhostLimitClients", "VhostLimitClass", "VhostLimitKnown"
    };
    unsigned i;

    for (i = is_site ? 0 : 2; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!ap_cstr_casecmp(names[i], directive))
            return ap_cstr_casecmp(directive, "VhostLimit") != 0;
    }
    return 0;
}

/* Reads the directives of a section into a configuration struct of its own.  The handlers of
 * directives write to cmd->server, so the section gets a server_rec that no other code
 * sees. */
static const char *read_section(cmd_parms *cmd, vl_conf_t *conf, int is_site)
{
    server_rec *server = apr_pmemdup(cmd->temp_pool, cmd->server, sizeof(*server));
    const ap_directive_t *directive = cmd->directive, *d;
    cmd_parms inside = *cmd;
    const char *error;

    for (d = directive->first_child; d; d = d->next) {
        if (belongs_to_section(d->directive, is_site))
            continue;
        cmd->err_directive = d;
        return apr_psprintf(cmd->pool, "%s does not belong into %s: the section has limits of "
                            "a site only", d->directive, directive->directive + 1);
    }
    server->is_virtual = 1;
    server->module_config = ap_create_request_config(cmd->temp_pool);   /* an empty one */
    ap_set_module_config(server->module_config, &vhostlimit_module, conf);
    inside.server = server;
    error = ap_walk_config(directive->first_child, &inside, server->lookup_defaults);
    if (error)
        cmd->err_directive = inside.err_directive;
    return error;
}

/* Parses the argument of a section, one word.  *ret_rest is what follows the word.  Returns
 * NULL or an error message. */
static const char *read_section_name(cmd_parms *cmd, const char *arg, const char **ret_name,
                                     const char **ret_rest)
{
    const char *error = ap_check_cmd_context(cmd, GLOBAL_ONLY);
    const char *end = ap_strrchr_c(arg, '>');

    if (error)
        return error;
    if (!end)
        return apr_psprintf(cmd->pool, "%s> directive missing closing '>'",
                            cmd->directive->directive);
    *ret_rest = apr_pstrmemdup(cmd->pool, arg, (apr_size_t)(end - arg));
    *ret_name = ap_getword_conf(cmd->pool, ret_rest);
    return NULL;
}

/* Directive handler of <VhostLimitPlan name>. */
static const char *add_plan(cmd_parms *cmd, void *dconf, const char *arg)
{
    const char *name = "";
    const char *error = read_section_name(cmd, arg, &name, &arg);
    vl_conf_t *conf = vl_conf_get(cmd->server);
    vl_plan_t *plan;
    int i;

    if (error)
        return error;
    if (*arg || !vl_value_is_name(name, VL_GROUP_MAX) || !ap_cstr_casecmp(name, "none"))
        return apr_psprintf(cmd->pool, "<VhostLimitPlan>: '%s%s%s' is not a name of up to %d "
                            "letters, digits and . _ - (\"none\" means no plan)", name,
                            *arg ? " " : "", arg, VL_GROUP_MAX);
    if (!conf->plans)
        conf->plans = apr_array_make(cmd->pool, 4, sizeof(vl_plan_t *));
    for (i = 0; i < conf->plans->nelts; i++) {
        plan = APR_ARRAY_IDX(conf->plans, i, vl_plan_t *);
        if (!strcmp(plan->name, name))
            return apr_psprintf(cmd->pool, "<VhostLimitPlan %s>: the plan is already defined "
                                "in %s", name, plan->place);
    }
    plan = apr_pcalloc(cmd->pool, sizeof(*plan));
    plan->name = name;
    plan->place = apr_psprintf(cmd->pool, "%s:%d", cmd->directive->filename,
                               cmd->directive->line_num);
    plan->conf = vl_conf_create(cmd->pool, cmd->server);
    APR_ARRAY_PUSH(conf->plans, vl_plan_t *) = plan;
    return read_section(cmd, plan->conf, 0);
}

/* --- limits outside of virtual hosts -------------------------------------- */

/* Directive handler of <VhostLimitSite name>.  Several sections of one site add up. */
static const char *add_site_conf(cmd_parms *cmd, void *dconf, const char *arg)
{
    const char *name = "";
    const char *error = read_section_name(cmd, arg, &name, &arg);
    vl_conf_t *conf = vl_conf_get(cmd->server);
    vl_site_conf_t *site_conf;
    char *lower;

    if (error)
        return error;
    if (*arg || !*name)
        return apr_psprintf(cmd->pool, "<VhostLimitSite>: '%s%s%s' is not the name of one site",
                            name, *arg ? " " : "", arg);
    lower = apr_pstrdup(cmd->pool, name);
    ap_str_tolower(lower);
    if (!conf->site_confs)
        conf->site_confs = apr_array_make(cmd->pool, 4, sizeof(vl_site_conf_t *));
    site_conf = apr_pcalloc(cmd->pool, sizeof(*site_conf));
    site_conf->name = lower;
    site_conf->at = cmd->directive;
    site_conf->conf = vl_conf_create(cmd->pool, cmd->server);
    APR_ARRAY_PUSH(conf->site_confs, vl_site_conf_t *) = site_conf;
    return read_section(cmd, site_conf->conf, 1);
}

/* Directive handler of VhostLimitSaveFile.  Includes the file if it exists.  httpd runs the
 * handler while it reads the file with the directive, as that of Include; `tree` is where
 * it expects the included directives.  vhostlimitctl tests a new file before it takes the
 * place of the old one: with this definition "httpd -t" reads FILE.new instead. */
static const char *set_save_file(cmd_parms *cmd, void *tree, const char *arg)
{
    vl_conf_t *conf = vl_conf_get(cmd->server);
    const char *path = ap_server_root_relative(cmd->pool, arg), *file = path;
    ap_directive_t *included = NULL;
    const char *error = NULL;
    apr_finfo_t info;

    if (!path)
        return apr_psprintf(cmd->pool, "VhostLimitSaveFile: '%s' is not a path", arg);
    if (conf->save_file && strcmp(conf->save_file, path))
        return apr_psprintf(cmd->pool, "VhostLimitSaveFile: there is one file, and it is %s",
                            conf->save_file);
    conf->save_file = path;
    if (ap_state_query(AP_SQ_RUN_MODE) == AP_SQ_RM_CONFIG_TEST
        && ap_exists_config_define("VHOSTLIMIT_SAVE_NEW"))
        file = apr_pstrcat(cmd->pool, path, ".new", NULL);
    if (apr_stat(&info, file, APR_FINFO_TYPE, cmd->temp_pool) == APR_SUCCESS)
        error = ap_process_resource_config(cmd->server, file, &included, cmd->pool,
                                           cmd->temp_pool);
    *(ap_directive_t **)tree = included;
    return error;
}

/* Directive handler of VhostLimitSandboxConnect: one of its words. */
static const char *set_connect(cmd_parms *cmd, void *dconf, const char *word)
{
    vl_conf_t *conf = vl_conf_get(cmd->server);
    const char *error = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);
    apr_int64_t port;

    if (error)
        return error;
    if (*word != '/' && strcmp(word, "any") && strcmp(word, "none") && strcmp(word, "udp")
        && !vl_value_number(word, '\0', 1, 65535, &port))
        return apr_psprintf(cmd->pool, "VhostLimitSandboxConnect: '%s' is not any, none, udp, a "
                            "port from 1 to 65535 or an absolute path", word);
    if (!conf->connects)
        conf->connects = apr_array_make(cmd->pool, 4, sizeof(const char *));
    APR_ARRAY_PUSH(conf->connects, const char *) = apr_pstrdup(cmd->pool, word);
    return NULL;
}

/* Directive handler of VhostLimitSandboxPath: an access and one of its paths. */
static const char *set_sandbox_path(cmd_parms *cmd, void *dconf, const char *access,
                                    const char *path)
{
    static const setting_t setting = {
        "VhostLimitSandboxPath", 0, 0, 0, -1, "", access_words, -1
    };
    vl_conf_t *conf = vl_conf_get(cmd->server);
    const char *error = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);
    char *clean = apr_pstrdup(cmd->pool, path);
    apr_size_t n;
    apr_int64_t value = 0;

    if (!error)
        error = read_value(cmd->pool, &setting, access, &value);
    if (error)
        return error;
    ap_getparents(clean);
    ap_no2slash(clean);
    n = strlen(clean);
    if (n > 1 && clean[n - 1] == '/')
        clean[n - 1] = '\0';
    if (*path != '/' || !strcmp(clean, "/"))
        return apr_psprintf(cmd->pool, "VhostLimitSandboxPath: '%s' is not an absolute path "
                            "below /", path);
    if (!conf->sandbox_paths)
        conf->sandbox_paths = apr_array_make(cmd->pool, 4, sizeof(vl_rule_t));
    APR_ARRAY_PUSH(conf->sandbox_paths, vl_rule_t) =
        (vl_rule_t){ .access = (vl_rule_e)value, .path = clean, .is_configured = 1 };
    return NULL;
}

/* Directive handler of VhostLimitDatabaseUser: one of its names. */
static const char *set_database_user(cmd_parms *cmd, void *dconf, const char *name)
{
    vl_conf_t *conf = vl_conf_get(cmd->server);
    const char *error = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);
    const char *star = strchr(name, '*');

    if (error)
        return error;
    if (!cmd->server->is_virtual)
        return "VhostLimitDatabaseUser: write it into the <VirtualHost> of the site that the user "
               "belongs to";
    if (strlen(name) > VL_DATABASE_USER_MAX || (star && (star == name || star[1])))
        return apr_psprintf(cmd->pool, "VhostLimitDatabaseUser: '%s' is neither a name of up to %d "
                            "bytes nor the beginning of names and *", name, VL_DATABASE_USER_MAX);
    if (!conf->database_users)
        conf->database_users = apr_array_make(cmd->pool, 2, sizeof(const char *));
    APR_ARRAY_PUSH(conf->database_users, const char *) = apr_pstrdup(cmd->pool, name);
    return NULL;
}

apr_uint32_t vl_conf_retry_after(const vl_conf_t *conf, apr_uint64_t service_us,
                                 apr_uint32_t slots)
{
    apr_uint32_t random;

    if (conf->retry_after == VL_RETRY_OFF)
        return 0;
    if (conf->retry_after != VL_RETRY_AUTO)
        return (apr_uint32_t)conf->retry_after;
    ap_random_insecure_bytes(&random, sizeof(random));
    return vl_slot_retry_after(service_us, slots, random);
}

const char *vl_conf_argument(const char *name)
{
    const ap_directive_t *d;
    const char *args = NULL;

    for (d = ap_conftree; d; d = d->next) {
        if (*d->directive != '<' && !ap_cstr_casecmp(d->directive, name))
            args = d->args;
    }
    return args;
}

const command_rec vl_conf_cmds[] = {
#define X(member, directive, args, def, min, max, unit, words, help) \
    AP_INIT_##args(directive, SET_##args, (void *)&settings[SETTING_##member], \
                   RSRC_CONF, help),
    VL_SETTINGS(X)
#undef X
    AP_INIT_TAKE1("VhostLimitGroup", set_group, NULL, RSRC_CONF,
                  "name of the group whose sites share one share and one set of limits"),
    AP_INIT_RAW_ARGS("<VhostLimitPlan", add_plan, NULL, RSRC_CONF,
                     "name of a plan, whose limits are in the section"),
    AP_INIT_RAW_ARGS("<VhostLimitSite", add_site_conf, NULL, RSRC_CONF,
                     "name of a site, whose limits are in the section; they go before those "
                     "in its virtual hosts"),
    AP_INIT_TAKE1("VhostLimitSaveFile", set_save_file, NULL, RSRC_CONF | EXEC_ON_READ,
                  "file that vhostlimitctl set --save writes; it is included here"),
    AP_INIT_TAKE1("VhostLimitPlan", set_plan, NULL, RSRC_CONF,
                  "name of the plan whose limits the site has: none or a name"),
    AP_INIT_ITERATE2("VhostLimitSandboxPath", set_sandbox_path, NULL, RSRC_CONF,
                     "ro, rw, tmp or hide, and paths: what the site's programs may do "
                     "with them"),
    AP_INIT_ITERATE("VhostLimitSandboxConnect", set_connect, NULL, RSRC_CONF,
                    "what the site's programs may connect to: any, none, TCP ports, udp, and "
                    "paths of Unix sockets"),
    AP_INIT_ITERATE("VhostLimitDatabaseUser", set_database_user, NULL, RSRC_CONF,
                    "users of MariaDB, MySQL or PostgreSQL whose sessions work for this site: "
                    "names, or the beginning of names and *"),
    AP_INIT_TAKE123("VhostLimitClients", set_clients, NULL, RSRC_CONF,
                    "On or Off: a site's queue is shared equally by its clients; and the "
                    "lengths of the IPv4 and IPv6 prefixes that are one client (32 64)"),
    AP_INIT_TAKE3("VhostLimitClass", set_class, NULL, RSRC_CONF,
                  "name, weight=number and an expression: requests of a site that share its "
                  "queue by weight with its other requests"),
    AP_INIT_TAKE123("VhostLimitKnown", set_known, NULL, RSRC_CONF,
                    "Off, Address or Cookie: clients that were served before have share= "
                    "percent (80) of a site's queue, for the time ttl= (30min)"),
    AP_INIT_TAKE12("VhostLimitAccounts", set_accounts, NULL, RSRC_CONF,
                   "Vhost, or Host: each host name that clients use has an account of its "
                   "own; and max= names at once in the whole server (65536)"),
    AP_INIT_TAKE1("VhostLimitExempt", set_exempt, NULL, RSRC_CONF,
                  "expression: its requests are never queued and never refused"),
#define X(member, directive, args, def, min, max, unit, words, help) \
    AP_INIT_##args(directive, SET_##args, (void *)&globals[GLOBAL_##member], RSRC_CONF, help),
    VL_GLOBALS(X)
#undef X
    AP_INIT_TAKE1("VhostLimitCgroup", set_cgroup, NULL, RSRC_CONF,
                  "root of the cgroup tree: auto, off or a path from the "
                  "root of the hierarchy"),
    { NULL }
};
