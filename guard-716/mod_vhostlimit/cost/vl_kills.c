/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_kills.h"

#include <stdlib.h>
#include <string.h>

#include "cgroup/vl_cgroup_file.h"

#define NO_READING (~(apr_uint64_t)0)

typedef struct entry_t {
    apr_uint32_t account;
    const char *name;
    apr_uint64_t kills;         /* the last reading */
} entry_t;

struct vl_kills_t {
    const vl_cgroup_t *cg;
    apr_uint32_t n, most, calls;
    entry_t *entries;
};

apr_uint64_t vl_kills_parse(const char *text)
{
    static const char key[] = "\noom_kill ";
    const char *line = strstr(text, key);

    return line ? strtoull(line + sizeof(key) - 1, NULL, 10) : 0;
}

apr_uint64_t vl_kills_of(const vl_cgroup_t *cg, apr_pool_t *p, const char *name)
{
    const char *file = vl_cgroup_kills_file(cg, p, name);

    return file ? vl_kills_parse(vl_cgroup_file_read(p, file)) : 0;
}

vl_kills_t *vl_kills_post_config_create(apr_pool_t *p, const vl_cgroup_t *cg,
                                        apr_uint32_t most)
{
    vl_kills_t *kills = apr_pcalloc(p, sizeof(*kills));

    kills->cg = cg;
    kills->most = most;
    kills->entries = apr_pcalloc(p, most * sizeof(entry_t));
    return kills;
}

void vl_kills_post_config_add(vl_kills_t *kills, apr_uint32_t account, const char *name)
{
    const entry_t entry = { account, name, NO_READING };

    if (kills->n < kills->most)
        kills->entries[kills->n++] = entry;
}

void vl_kills_child_read(vl_kills_t *kills, vl_kills_fn *killed, void *data)
{
    apr_pool_t *p;
    apr_uint32_t i;

    if (!kills->n || kills->calls++ % VL_KILLS_EVERY)
        return;
    apr_pool_create(&p, NULL);
    for (i = 0; i < kills->n; i++) {
        entry_t *entry = &kills->entries[i];
        apr_uint64_t n = vl_kills_of(kills->cg, p, entry->name);

        if (n != entry->kills)
            killed(data, entry->account, n);
        entry->kills = n;
    }
    apr_pool_destroy(p);
}
