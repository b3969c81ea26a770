/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <apr_general.h>

#include "tap.h"
#include "vl_cgroup.h"

static apr_pool_t *pool;

static int self_is(const char *text, const char *controller, const char *want)
{
    const char *got = vl_cgroup_parse_self(pool, text, controller);

    return want ? got && !strcmp(got, want) : !got;
}

static void reads_proc_self_cgroup(void)
{
    static const char v1[] =
        "4:memory:/a\n2:cpu,cpuacct:/system.slice/apache2.service\n"
        "1:name=systemd:/x\n0::/unified/part\n";

    ok(self_is(v1, "cpu", "/system.slice/apache2.service"), "v1: cpu");
    ok(self_is(v1, "cpuacct", "/system.slice/apache2.service"),
       "v1: the second of two controllers in a hierarchy");
    ok(self_is(v1, "", "/unified/part"), "hybrid: the v2 tree");
    ok(self_is(v1, "pids", NULL), "a controller that is not there");
    ok(self_is("0::/\n", "", "/"), "v2: the root");
    ok(self_is("0::/a:b\n", "", "/a:b"), "a path with a colon");
    ok(self_is("", "cpu", NULL), "an empty file");
    ok(self_is("garbage\n\n1:\n", "cpu", NULL), "garbage");
}

static int file_name_is(const char *account, const char *want)
{
    return !strcmp(vl_cgroup_file_name(pool, account), want);
}

static void makes_file_names(void)
{
    ok(file_name_is("site1.test:80", "site1.test:80"), "a plain name stays");
    ok(file_name_is("../../etc", "_._.._etc") ||
       file_name_is("../../etc", "_.._.._etc"), "no way up");
    ok(!strchr(vl_cgroup_file_name(pool, "../a/b"), '/'), "no slash left");
    ok(file_name_is("..", "_."), "the parent's name");
    ok(file_name_is("a b\n#2", "a_b__2"), "blanks, newlines and #");
    ok(file_name_is("\xc3\xbc.test", "__.test"), "bytes above 127");
}

static void off_is_a_backend(void)
{
    vl_cgroup_t *cg = vl_cgroup_open(pool, "off");

    ok(!strcmp(vl_cgroup_backend(cg), "off"), "off is called off");
    ok(!strcmp(vl_cgroup_path(cg), ""), "off has no path");
    ok(vl_cgroup_add(cg, "a") == APR_SUCCESS, "off takes accounts");
    ok(!strcmp(vl_cgroup_account_path(cg, pool, "a"), ""),
       "off has no groups");
    vl_cgroup_remove_gone(cg, NULL);
}

int main(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    reads_proc_self_cgroup();
    makes_file_names();
    off_is_a_backend();
    return tap_done();
}
