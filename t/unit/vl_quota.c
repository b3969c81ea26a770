/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of cpu.stat, and the descriptors of the server's own groups. */
#include <apr_general.h>

#include "tap.h"
#include "cgroup/vl_quota.h"

static void versions(void)
{
    ok(vl_quota_parse("nr_periods 12\nnr_throttled 7\nthrottled_time 345\n") == 7,
       "cgroup v1");
    ok(vl_quota_parse("usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods 3\n"
                      "nr_throttled 18446744073709551615\nthrottled_usec 0\n")
       == UINT64_MAX, "cgroup v2, the largest number");
    ok(vl_quota_parse("usage_usec 1\nuser_usec 1\nsystem_usec 0\n") == 0,
       "cgroup v2 without the CPU controller");
}

static void other_texts(void)
{
    ok(vl_quota_parse("") == 0 && vl_quota_parse("\n\n") == 0, "no text");
    ok(vl_quota_parse("nr_throttled") == 0 && vl_quota_parse("nr_throttled ") == 0,
       "no number");
    ok(vl_quota_parse("not_nr_throttled 5\nxnr_throttled 5\nnr_throttled_ 5\n") == 0,
       "other names");
    ok(vl_quota_parse("nr_throttled 4") == 4, "no end of line");
}

static void own_groups(void)
{
    apr_pool_t *p;
    apr_uint64_t stops;

    ok(vl_quota_child_stops() == 0, "nothing is open before the configuration");
    apr_pool_create(&p, NULL);
    vl_quota_post_config(p);
    stops = vl_quota_child_stops();
    ok(vl_quota_child_stops() >= stops, "the count never decreases");
    apr_pool_destroy(p);
    ok(vl_quota_child_stops() == 0, "the descriptors are closed with the pool");
}

int main(void)
{
    apr_initialize();
    versions();
    other_texts();
    own_groups();
    apr_terminate();
    return tap_done();
}
