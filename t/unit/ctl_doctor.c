/* SPDX-License-Identifier: Apache-2.0 */
/* What doctor says about servers and machines that the other tests cannot have. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "ctl_doctor.h"

static ctl_vhost_t vhost = { .name = "a.test", .mode = "on", .method = "socket",
                             .limits = { 100, 0, 1000, 0 },
                             .configured = { -1, -1, -1, -1 } };

/* A server and a machine without fault. */
static ctl_status_t status;
static ctl_facts_t facts;
static char unit[] = "apache2.service";
static char new_kernel[] = "6.1.0-13-amd64", old_kernel[] = "4.4.0-1",
            el8_kernel[] = "4.18.0-553.el8";

static void begin(void)
{
    static const ctl_status_t good = {
        .module = "mod_vhostlimit/1", .mpm = "event", .children = 2, .workers = 50, .threads = 25,
        .slots = 16, .processors = 2, .vhosts = &vhost, .nvhosts = 1,
        .cgroup = { "v2", "/vhostlimit", "", "" },
        .state = { "dormant", "slots", 60, 2 }, .sampler = { "runs", "", 1250, 3, 0 }
    };
    int i;

    json_decref((json_t *)facts.modules);
    json_decref(facts.outside);
    memset(&facts, 0, sizeof(facts));
    status = good;
    facts.status = &status;
    facts.pid = 4711;
    facts.is_delegated = -1;
    facts.files = 10000;
    facts.release = new_kernel;
    for (i = 0; i < CTL_CONTROLLERS; i++)
        facts.has_controller[i] = 1;
    facts.modules = json_pack("{s:[s, s], s:{s:[s], s:[s], s:[s]}}", "modules", "core.c",
                              "mod_reqtimeout.c", "hooks",
                              "quick_handler", "mod_vhostlimit.c",
                              "post_read_request", "mod_vhostlimit.c",
                              "log_transaction", "mod_vhostlimit.c");
    facts.outside = json_object();
}

/* Returns 1 if doctor finds the check at this level, with these words in it. */
static int finds(const char *check, const char *level, const char *words)
{
    json_t *findings = ctl_doctor_judge(&facts), *finding;
    size_t i;
    int rv = 0;

    json_array_foreach(findings, i, finding) {
        const char *text = json_string_value(json_object_get(finding, "finding"));

        if (strcmp(json_string_value(json_object_get(finding, "check")), check) != 0)
            continue;
        printf("# %s: %s\n", json_string_value(json_object_get(finding, "level")), text);
        rv |= !strcmp(json_string_value(json_object_get(finding, "level")), level)
              && strstr(text, words);
    }
    json_decref(findings);
    return rv;
}

/* Returns the number of findings that are not good and have nothing to do. */
static int count_without_remedy(void)
{
    json_t *findings = ctl_doctor_judge(&facts), *finding;
    size_t i;
    int n = 0;

    json_array_foreach(findings, i, finding) {
        n += (strcmp(json_string_value(json_object_get(finding, "level")), "good") != 0)
             == !*json_string_value(json_object_get(finding, "todo"));
    }
    json_decref(findings);
    return n;
}

static void machines(void)
{
    begin();
    ok(finds("kernel", "good", "6.1.0"), "a kernel of today");
    facts.release = old_kernel;
    ok(finds("kernel", "problem", "4.4.0-1"), "Linux 4.4");
    facts.release = el8_kernel;
    ok(finds("kernel", "good", ""), "Linux 4.18");
    facts.unit = unit;
    facts.is_delegated = 0;
    ok(finds("delegation", "problem", "apache2.service"), "a unit without Delegate");
    facts.is_delegated = 1;
    ok(finds("delegation", "good", "apache2.service"), "a unit with Delegate");
    facts.is_delegated = -1;
    ok(!finds("delegation", "good", "") && !finds("delegation", "problem", ""),
       "systemd that does not tell is not mentioned");
    memset(facts.has_controller, 0, sizeof(facts.has_controller));
    ctl_facts_add_controllers(&facts, "rw,cpu,cpuacct\npids cpuset\n");
    ok(finds("controllers", "note", "not available: memory, io"), "two controllers");
    ctl_facts_add_controllers(&facts, "rw,nosuid,blkio");
    ok(finds("controllers", "note", "not available: memory"), "blkio is io of cgroup v1");
    ok(!count_without_remedy(), "every finding that is not good says what to do");
}

static void servers(void)
{
    begin();
    ok(finds("descriptors", "good", "10000 open files"), "enough open files");
    facts.logs = 10000;
    ok(finds("descriptors", "problem", "needed for logs"), "too few for the logs");
    facts.files = CTL_FILES_UNLIMITED;
    ok(finds("descriptors", "good", "not limited"), "open files without limit");
    facts.files = CTL_FILES_UNKNOWN;
    ok(!finds("descriptors", "good", ""), "a limit that cannot be read is not mentioned");
    status.cgroup.backend = "off";
    status.cgroup.path = "";
    status.cgroup.reason = "group /x cannot be made: no";
    ok(finds("cgroup", "problem", "group /x cannot be made: no"), "no cgroups");
    status.cgroup.reason = "VhostLimitCgroup off";
    ok(finds("cgroup", "note", "is off"), "cgroups switched off");
    status.cgroup.outside = "mod_fcgid";
    ok(finds("mod_fcgid", "note", "outside"), "mod_fcgid");
    vhost.method = "thread";
    ok(finds("mpm", "note", "hold their threads"), "requests that wait with a thread");
    vhost.method = "socket";
    vhost.json = json_pack("{s:s}", "unenforced", "the memory controller is missing");
    ok(finds("unenforced", "problem", "memory controller"), "a limit that is not enforced");
    vhost.json = NULL;
    ok(!finds("unenforced", "problem", ""), "a server that does not know");
    ok(!finds("fleet", "good", "") && !finds("fleet", "problem", ""), "no fleet");
    status.fleet = "lapsed";
    ok(finds("fleet", "problem", "does not renew"), "leases that are not renewed");
    status.fleet = "held";
    ok(finds("fleet", "good", "renews"), "leases that are");
    status.nvhosts = 0;
    ok(finds("vhosts", "problem", "off"), "no site");
    ok(!count_without_remedy(), "every finding that is not good says what to do");
}

static void states(void)
{
    ok(finds("state", "good", "dormant for 60 s, after 2 changes"), "a dormant server");
    status.state.is = "engaged";
    status.state.why = "threads";
    ok(finds("state", "good", "four fifths of the threads"), "an engaged server, and why");
    status.state.why = "always";
    ok(finds("state", "good", "is never dormant"), "a server that is always engaged");
}

static void samplers(void)
{
    begin();
    ok(finds("sampler", "good", "it watches 3 processes of back ends; a round takes 1.3 ms"),
       "a sampler");
    ok(!finds("back ends", "note", ""), "all back ends are found");
    ok(!finds("database", "note", ""), "all databases can be read");
    status.sampler.unread = "/run/m: it is closed";
    ok(finds("database", "note", "divided equally between the requests that wait for it. /run/m: it is closed"), "one cannot");
    status.sampler.unread = "";
    status.sampler.unfound = 1;
    ok(finds("back ends", "note", "processes of 1 back end on this machine were not found"),
       "one is not");
    vhost.json = json_pack("{s:s}", "cost", "unknown");
    ok(finds("back ends", "note", "while they sleep; sites: a.test"), "its site");
    json_decref(vhost.json);
    vhost.json = NULL;
    status.sampler.state = "blind";
    ok(finds("sampler", "problem", "CAP_SYS_PTRACE is missing"), "a blind sampler");
    status.sampler.state = "none";
    ok(finds("sampler", "problem", "no sampler works"), "no sampler");
    ok(!count_without_remedy(), "every finding that is not good says what to do");
}

static void modules(void)
{
    begin();
    ok(finds("modules", "good", "") && finds("order", "good", ""), "modules in order");
    json_decref((json_t *)facts.modules);
    facts.modules = json_pack("{s:[s, s, s], s:{s:[s, s, s], s:[s, s, s, s], s:[s]}}",
                              "modules", "mod_qos.c", "mod_bw.c", "mod_ratelimit.cc",
                              "hooks", "quick_handler", "early.c", "early.c",
                              "mod_vhostlimit.c", "post_read_request", "mod_vhostlimit.c",
                              "mod_ssl.c", "mod_vhostlimit.c", "late.c", "log_transaction",
                              "mod_vhostlimit.c");
    ok(finds("modules", "note", "mod_qos: "), "a module that limits too");
    ok(finds("modules", "note", "mod_bw: "), "a module that slows down responses");
    ok(finds("mod_reqtimeout", "note", "not loaded"), "mod_reqtimeout");
    ok(finds("order", "problem", "early.c may"), "a hook before ours, named once");
    ok(finds("order", "note", "late.c handles") && !finds("order", "note", "mod_ssl.c"),
       "a hook after the last one of ours");
    json_decref((json_t *)facts.modules);
    facts.modules = json_pack("[s]", "nonsense");
    ok(finds("modules", "good", ""), "an answer without modules");
    ok(!count_without_remedy(), "every finding that is not good says what to do");
}

static void pools(void)
{
    static const char *const names[] = { "g in /", "a in /", "f in /", "b in /", "e in /",
                                         "c in /" };
    size_t i;

    begin();
    facts.inside = 1;
    ok(finds("php-fpm", "good", "1 process of pools"), "pools in the cgroups of vhosts");
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        json_object_set_new(facts.outside, names[i], json_true());
    ok(finds("php-fpm", "note",
             "a in /; b in /; c in /; e in /; f in /; and 1 more"), "pools outside");
    ok(ctl_facts_is_inside("/tree/a.test:80", "/tree"), "a vhost's cgroup");
    ok(!ctl_facts_is_inside("/tree/.server", "/tree"), "the server's own cgroup");
    ok(!ctl_facts_is_inside("/treetop/a", "/tree") && !ctl_facts_is_inside("/tree", "/tree"),
       "another tree, and its root");
}

/* Returns 1 if the text, which is freed, is the one expected. */
static int is_text(char *text, const char *expected)
{
    int rv = text ? expected && !strcmp(text, expected) : !expected;

    free(text);
    return rv;
}

static void groups(void)
{
    ok(is_text(ctl_facts_unit("0::/system.slice/apache2.service\n"), "apache2.service"),
       "a service");
    ok(is_text(ctl_facts_unit("1:name=systemd:/a.service/b.service/.server\n"), "b.service"),
       "the innermost service");
    ok(is_text(ctl_facts_unit("0::/user.slice/x.servicex\n"), NULL), "no service");
    ok(is_text(ctl_facts_unit("nonsense\n\n"), NULL), "a text of another form");
    ok(is_text(ctl_facts_cpu_group("4:cpuset:/c\n3:cpu,cpuacct:/a:b\n0::/u\n"), "/a:b"),
       "the group of the cpu controller of cgroup v1");
    ok(is_text(ctl_facts_cpu_group("4:cpuset:/c\n0::/u\n"), "/u"), "the group of cgroup v2");
    ok(is_text(ctl_facts_cpu_group("4:cpuset:/c\n"), NULL), "no group");
}

int main(void)
{
    machines();
    servers();
    states();
    samplers();
    modules();
    pools();
    groups();
    json_decref((json_t *)facts.modules);
    json_decref(facts.outside);
    return tap_done();
}
