/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server. When the module is unloaded, its addresses stay reserved, so
 * that it is loaded at another address the next time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

typedef struct area_t {
    ElfW(Addr) base;
    size_t size;
} area_t;

/* dl_iterate_phdr: finds the end of the object at that base. */
static int measure(struct dl_phdr_info *info, size_t unused, void *data)
{
    area_t *area = data;
    int i;

    for (i = 0; info->dlpi_addr == area->base && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_LOAD
            && part->p_vaddr + part->p_memsz > area->size)
            area->size = part->p_vaddr + part->p_memsz;
    }
    return area->size > 0;
}

int dlclose(void *object)
{
    static int (*next)(void *);
    struct link_map *map = NULL;
    area_t area = { 0, 0 };
    int rv;

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "dlclose");
    if (!dlinfo(object, RTLD_DI_LINKMAP, &map)
        && strstr(map->l_name, "mod_vhostlimit")) {
        area.base = map->l_addr;
        dl_iterate_phdr(measure, &area);
    }
    rv = next(object);
    if (area.size)
        mmap((void *)area.base, area.size, PROT_NONE, MAP_PRIVATE
             | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return rv;
}
