/* SPDX-License-Identifier: Apache-2.0 */
#include "status/vl_history.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sites that are read at once when a name is looked for. */
#define BATCH 64

struct vl_history_t {
    int fd;
    uint32_t slots, bands;
    uint32_t place;             /* of the site; 0: the server */
    uint32_t since;             /* first minute that may have figures of it */
};

static apr_status_t close_file(void *data)
{
    const vl_history_t *history = data;

    close(history->fd);
    return APR_SUCCESS;
}

static int read_at(const vl_history_t *history, void *to, size_t len, uint64_t at)
{
    return pread(history->fd, to, len, (off_t)at) == (ssize_t)len;
}

/* Returns 1 if the file is a history of this version. */
static int read_head(vl_history_t *history)
{
    vl_history_head_t head;
    struct stat st;

    if (fstat(history->fd, &st) || !S_ISREG(st.st_mode)
        || !read_at(history, &head, sizeof(head), 0) || head.magic != VL_HISTORY_MAGIC
        || head.version != VL_HISTORY_VERSION || head.slots != VL_HISTORY_SLOTS)
        return 0;
    history->slots = head.slots;
    history->bands = vl_history_bands(head.slots, (uint64_t)st.st_size);
    return history->bands > 0;
}

/* Looks for the site among n of a band, from the place `from`. */
static int find_among(vl_history_t *history, const char *name, uint32_t band,
                      uint32_t from, uint32_t n)
{
    vl_history_site_t sites[BATCH];
    uint32_t i;

    if (!read_at(history, sites, n * sizeof(*sites),
                 vl_history_table_at(history->slots, band) + from * sizeof(*sites)))
        return 0;
    for (i = 0; i < n; i++) {
        if (strncasecmp(sites[i].name, name, VL_HISTORY_NAME_SIZE) != 0 || !*name)
            continue;
        history->place = band * VL_HISTORY_BAND_SITES + from + i;
        history->since = sites[i].since;
        return 1;
    }
    return 0;
}

static int find_site(vl_history_t *history, const char *name)
{
    uint32_t band, from, left;

    for (band = 0; band < history->bands; band++) {
        for (from = 0; from < VL_HISTORY_BAND_SITES; from += BATCH) {
            left = VL_HISTORY_BAND_SITES - from;
            if (find_among(history, name, band, from, left < BATCH ? left : BATCH))
                return 1;
        }
    }
    return 0;
}

vl_history_t *vl_history_open(apr_pool_t *p, const char *path, const char *name)
{
    vl_history_t *history = apr_pcalloc(p, sizeof(*history));

    history->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (history->fd < 0)
        return NULL;
    apr_pool_cleanup_register(p, history, close_file, apr_pool_cleanup_null);
    return read_head(history) && (!name || find_site(history, name)) ? history : NULL;
}

uint32_t vl_history_read(const vl_history_t *history, uint32_t minute,
                         uint64_t figures[VL_HISTORY_FIGURE_COUNT])
{
    const vl_history_record_t *record;
    vl_history_page_t page;
    int i;

    if (minute < history->since
        || !read_at(history, &page, sizeof(page),
                    vl_history_page_at(history->slots,
                                       history->place / VL_HISTORY_BAND_SITES, minute))
        || !vl_history_is_valid(&page, minute))
        return 0;
    record = &page.records[history->place % VL_HISTORY_BAND_SITES];
    if (record->figures[0] == VL_HISTORY_ABSENT)
        return 0;
    for (i = 0; i < VL_HISTORY_FIGURE_COUNT; i++)
        figures[i] = vl_history_unpack(record->figures[i]);
    return page.seconds;
}
