/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <apr_general.h>
#include <apr_strings.h>

#include "tap.h"
#include "cgroup/vl_cgroup.h"
#include "cgroup/vl_cgroup_file.h"
#include "cgroup/vl_cgroup_int.h"

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
    ok(self_is(v1, "pids", NULL), "a missing controller");
    ok(self_is("0::/\n", "", "/"), "v2: the root");
    ok(self_is("0::/a:b\n", "", "/a:b"), "a path with a colon");
    ok(self_is("", "cpu", NULL), "an empty file");
    ok(self_is("garbage\n\n1:\n", "cpu", NULL), "garbage");
}

static void mount_is(const char *type, const char *option, int i,
                     const char *want)
{
    static char text[] =
        "proc /proc proc rw,nosuid 0 0\n"
        "cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n"
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n"
        "cgroup /mnt/a\\040b\\134c cgroup rw,cpu,cpuacct 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0\n"
        "cut /off\n\ngarbage\n";
    FILE *mounts = fmemopen(text, sizeof(text) - 1, "r");
    const char *got;
    int n;

    for (n = 0; n <= i; n++)
        got = vl_cgroup_mount_next(pool, mounts, type, option);
    fclose(mounts);
    ok(want ? got && !strcmp(got, want) : !got, "mount %d of %s %s: %s", i,
       type, option, want ? want : "none");
}

static void reads_mounts(void)
{
    mount_is("cgroup", "cpu", 0, "/sys/fs/cgroup/cpu,cpuacct");
    mount_is("cgroup", "cpuacct", 0, "/sys/fs/cgroup/cpu,cpuacct");
    mount_is("cgroup", "cpu", 1, "/mnt/a b\\c");
    mount_is("cgroup", "cpu", 2, NULL);
    mount_is("cgroup", "systemd", 0, NULL);
    mount_is("cgroup", "memory", 0, NULL);
    mount_is("cgroup2", "", 0, "/sys/fs/cgroup/unified");
    mount_is("cgroup2", "", 1, NULL);
}

static int file_name_is(const char *account, const char *want)
{
    return !strcmp(vl_cgroup_file_name(pool, account), want);
}

static void makes_file_names(void)
{
    ok(file_name_is("site1.test:80", "site1.test:80"), "a plain name stays");
    ok(file_name_is("../../etc", "_._.._etc") ||
       file_name_is("../../etc", "_.._.._etc"), "no path upward");
    ok(!strchr(vl_cgroup_file_name(pool, "../a/b"), '/'), "no slash");
    ok(file_name_is("..", "_."), "the parent's name");
    ok(file_name_is("a b\n#2", "a_b__2"), "blanks, newlines and #");
    ok(file_name_is("\xc3\xbc.test", "__.test"), "bytes above 127");
}

static void off_is_a_backend(void)
{
    vl_cgroup_limits_t limits = { .weight = 100 };
    vl_cgroup_t *cg = vl_cgroup_open("off", 0, NULL);

    ok(!strcmp(vl_cgroup_backend(cg), "off"), "the backend is named off");
    ok(!strcmp(vl_cgroup_path(cg), ""), "off has no path");
    ok(vl_cgroup_add(cg, "a", &limits) == APR_SUCCESS, "off accepts accounts");
    ok(!strcmp(vl_cgroup_account_path(cg, pool, "a"), ""),
       "off has no paths of groups");
    vl_cgroup_remove_gone(cg, NULL);
}

/* "file value", those that may fail in brackets, joined by "; ". */
static const char *values(vl_cgroup_controller_e controller, int version,
                          const vl_cgroup_limits_t *limits)
{
    static const char *const disks[] = { "8:0", "254:0", NULL };
    const vl_cgroup_value_t *v = vl_cgroup_values(pool, controller, version,
                                                  limits, disks);
    const char *text = "";

    for (; v->file; v++)
        text = apr_pstrcat(pool, text, *text ? "; " : "", v->optional ? "(" : "",
                           v->file, " ", v->value, v->optional ? ")" : "",
                           NULL);
    return text;
}

static void values_are(vl_cgroup_controller_e controller, int version,
                       const vl_cgroup_limits_t *limits, const char *want)
{
    const char *got = values(controller, version, limits);

    ok(!strcmp(got, want), "%s", want);
    if (strcmp(got, want))
        printf("# got: %s\n", got);
}

static const vl_cgroup_limits_t none = { .weight = 100 };
static const vl_cgroup_limits_t all = {
    .weight = 250, .cpu = 25, .memory = 67108864, .processes = 20,
    .io = 1048576
};

static void writes_cpu(void)
{
    vl_cgroup_limits_t least = { .weight = 1, .cpu = 1 };
    vl_cgroup_limits_t most = { .weight = 10000, .cpu = 100000 };

    values_are(VL_CG_CPU, 1, &none, "cpu.shares 1024; (cpu.cfs_quota_us -1)");
    values_are(VL_CG_CPU, 2, &none, "cpu.weight 100; (cpu.max max)");
    values_are(VL_CG_CPU, 1, &all, "cpu.shares 2560; cpu.cfs_period_us 100000; "
               "cpu.cfs_quota_us 25000");
    values_are(VL_CG_CPU, 2, &all, "cpu.weight 250; cpu.max 25000 100000");
    values_are(VL_CG_CPU, 1, &least, "cpu.shares 10; "
               "cpu.cfs_period_us 100000; cpu.cfs_quota_us 1000");
    values_are(VL_CG_CPU, 1, &most, "cpu.shares 102400; "
               "cpu.cfs_period_us 100000; cpu.cfs_quota_us 100000000");
    values_are(VL_CG_CPUACCT, 1, &all, "");
}

static void writes_limits_of_back_ends(void)
{
    values_are(VL_CG_MEMORY, 1, &none, "(memory.memsw.limit_in_bytes -1); "
               "(memory.limit_in_bytes -1)");
    values_are(VL_CG_MEMORY, 1, &all, "(memory.memsw.limit_in_bytes -1); "
               "memory.limit_in_bytes 67108864; "
               "(memory.memsw.limit_in_bytes 67108864)");
    values_are(VL_CG_MEMORY, 2, &none, "(memory.max max); "
               "(memory.swap.max max)");
    values_are(VL_CG_MEMORY, 2, &all, "memory.max 67108864; "
               "(memory.swap.max 0)");
    values_are(VL_CG_PIDS, 1, &none, "(pids.max max)");
    values_are(VL_CG_PIDS, 2, &all, "pids.max 20");
    values_are(VL_CG_IO, 1, &all,
               "blkio.throttle.read_bps_device 8:0 1048576; "
               "blkio.throttle.write_bps_device 8:0 1048576; "
               "blkio.throttle.read_bps_device 254:0 1048576; "
               "blkio.throttle.write_bps_device 254:0 1048576");
    values_are(VL_CG_IO, 2, &all, "io.max 8:0 rbps=1048576 wbps=1048576; "
               "io.max 254:0 rbps=1048576 wbps=1048576");
    values_are(VL_CG_IO, 2, &none, "(io.max 8:0 rbps=max wbps=max); "
               "(io.max 254:0 rbps=max wbps=max)");
}

static void limits_need_controllers(void)
{
    ok(vl_cgroup_needs(&none) == 0, "a weight needs no controller");
    ok(vl_cgroup_needs(&all) == (1 << VL_CG_CPU | 1 << VL_CG_MEMORY
                                 | 1 << VL_CG_PIDS | 1 << VL_CG_IO),
       "each limit needs its controller");
    ok(vl_cgroup_lists("cpuset cpu io\n", "cpu"), "cpu is in the list");
    ok(vl_cgroup_lists("cpuset cpu io\n", "io"), "the last in the list");
    ok(!vl_cgroup_lists("cpuset memory\n", "cpu"), "cpuset is not cpu");
    ok(!vl_cgroup_lists("\n", "cpu"), "an empty list");
    ok(!vl_cgroup_lists("", "cpu"), "a file that cannot be read");
}

static void off_misses_everything(void)
{
    vl_cgroup_t *cg = vl_cgroup_open("off", ~0u, NULL);
    const char *missing = vl_cgroup_missing(cg, pool, &all);

    ok(missing && strstr(missing, "the cpu controller is missing: "
                         "VhostLimitCgroup off"), "off: %s", missing);
    ok(!vl_cgroup_missing(cg, pool, &none), "off: without a limit no controller is missing");
    ok(!vl_cgroup_thread_file(cg, pool, "a")
       && !vl_cgroup_thread_file(cg, pool, NULL)
       && !vl_cgroup_process_file(cg, pool, "a", 0), "off has no files");
}

/* A server with piped loggers has hundreds of children. A pid that is cut off at the end of
 * the buffer would be that of another process. */
static void reads_long_files(void)
{
    char name[] = "/tmp/vl_cgroup.XXXXXX";
    const char *text;
    int fd = mkstemp(name), i;

    for (i = 0; i < 1000; i++)
        dprintf(fd, "%d ", 100000 + i);
    close(fd);
    text = vl_cgroup_file_read(pool, name);
    ok(strlen(text) == 7000 && !strcmp(text + 6993, "100999 "),
       "a long file is read to its end");
    unlink(name);
    ok(!*vl_cgroup_file_read(pool, name), "a missing file is read as empty");
}

int main(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    reads_proc_self_cgroup();
    reads_mounts();
    makes_file_names();
    off_is_a_backend();
    off_misses_everything();
    reads_long_files();
    writes_cpu();
    writes_limits_of_back_ends();
    limits_need_controllers();
    return tap_done();
}
