/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of the kernel's files, and site names that become names of groups. */
#include "fuzz.h"
#include "cgroup/vl_cgroup.h"
#include "cgroup/vl_cgroup_int.h"
#include "cgroup/vl_cgroup_value.h"
#include "core/vl_cpu.h"
#include "cost/vl_usage.h"

static int every_other(void *data, unsigned cpu)
{
    return (int)(cpu & 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    apr_pool_t *p = fuzz_pool();
    char *text = fuzz_text(data, size);
    const char *path = vl_cgroup_parse_self(p, text, "cpu");
    const char *name = vl_cgroup_file_name(p, text);
    vl_cpu_t cpu;
    apr_uint64_t us;

    must(!path || strlen(path) < strlen(text));
    must(strlen(name) == strlen(text) && *name != '.' && !strchr(name, '/'));
    vl_cpu_parse(text, every_other, NULL, &cpu);
    vl_usage_parse(text, &us);
    vl_usage_parse_kills(text);
    must(!vl_cgroup_lists(text, "cpu") || strstr(text, "cpu"));
    free(text);
    return 0;
}
