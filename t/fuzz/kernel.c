/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of the kernel's files, and site names that become names of groups. */
#include "fuzz.h"
#include "cgroup/vl_cgroup.h"
#include "cgroup/vl_cgroup_int.h"
#include "cgroup/vl_cgroup_value.h"
#include "cost/vl_kills.h"
#include "cost/vl_proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    apr_pool_t *p = fuzz_pool();
    char *text = fuzz_text(data, size);
    const char *path = vl_cgroup_parse_self(p, text, "cpu");
    const char *name = vl_cgroup_file_name(p, text);
    unsigned long args[2];

    must(!path || strlen(path) < strlen(text));
    must(strlen(name) == strlen(text) && *name != '.' && !strchr(name, '/'));
    must(vl_proc_parse_syscall(text, args) >= -2);
    vl_kills_parse(text);
    must(!vl_cgroup_lists(text, "cpu") || strstr(text, "cpu"));
    free(text);
    return 0;
}
