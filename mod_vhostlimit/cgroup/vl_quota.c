/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_quota.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <apr_strings.h>

#include "cgroup/vl_cgroup.h"
#include "cgroup/vl_cgroup_file.h"
#include "cgroup/vl_cgroup_mount.h"

/* Most groups that are read, from the server's own upwards. */
#define LEVELS 8
/* cpu.stat has about 300 bytes. */
#define STAT_SIZE 1024

static struct {
    int fds[LEVELS];
    int n;
} quota;

static apr_status_t close_files(void *unused)
{
    while (quota.n)
        close(quota.fds[--quota.n]);
    return APR_SUCCESS;
}

apr_uint64_t vl_quota_parse(const char *text)
{
    static const char name[] = "nr_throttled ";
    const char *line = text;

    while (line && strncmp(line, name, sizeof(name) - 1)) {
        line = strchr(line, '\n');
        line += line != NULL;
    }
    return line ? strtoull(line + sizeof(name) - 1, NULL, 10) : 0;
}

void vl_quota_post_config(apr_pool_t *p)
{
    const char *self = vl_cgroup_file_read(p, "/proc/self/cgroup"), *mount, *own;
    char *path, *end;

    quota.n = 0;
    vl_cgroup_mount_init();
    mount = vl_cgroup_mount_find(p, "cpu", 1);
    own = vl_cgroup_parse_self(p, self, mount ? "cpu" : "");
    if (!mount)
        mount = vl_cgroup_mount_find(p, "cpu", 2);
    if (!mount || !own)
        return;
    path = apr_pstrdup(p, strcmp(own, "/") ? own : "");
    do {
        int fd = open(apr_pstrcat(p, mount, path, "/cpu.stat", NULL), O_RDONLY | O_CLOEXEC);

        if (fd >= 0)
            quota.fds[quota.n++] = fd;
        end = strrchr(path, '/');
        if (end)
            *end = '\0';
    } while (end && quota.n < LEVELS);
    apr_pool_cleanup_register(p, NULL, close_files, apr_pool_cleanup_null);
}

apr_uint64_t vl_quota_child_stops(void)
{
    apr_uint64_t stops = 0;
    char text[STAT_SIZE];
    int i;

    for (i = 0; i < quota.n; i++) {
        ssize_t n = pread(quota.fds[i], text, sizeof(text) - 1, 0);

        if (n <= 0)
            continue;
        text[n] = '\0';
        stops += vl_quota_parse(text);
    }
    return stops;
}
