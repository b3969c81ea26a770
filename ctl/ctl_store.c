/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* "until" of a site is written when it is so many minutes old. */
#define UNTIL_STEP 60
#define MODE 0640

struct ctl_store_t {
    int fd;
    char *path;
    uint32_t slots;
    uint32_t bands;
    ctl_history_site_t *sites;       /* all tables, CTL_HISTORY_BAND_SITES for each band */
    ctl_place_t *by_name;           /* places in use, in the order of their names */
    uint32_t nnames;
    ctl_place_t maybe_free;         /* no place below it is free */
    ctl_history_page_t *pages;       /* of the minute that is being written */
};

/* --- reading and writing -------------------------------------------------- */

/* Return 0, or -1 with errno set: ENODATA at the end of the file. */
static int read_at(int fd, void *to, size_t len, uint64_t at)
{
    char *bytes = to;

    while (len) {
        ssize_t n = pread(fd, bytes, len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (!n)
                errno = ENODATA;
            return -1;
        }
        bytes += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int write_at(int fd, const void *from, size_t len, uint64_t at)
{
    const char *bytes = from;

    while (len) {
        ssize_t n = pwrite(fd, bytes, len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (!n)
                errno = ENOSPC;
            return -1;
        }
        bytes += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static ctl_exit_e set_errno(ctl_error_t *error, const char *path, const char *what)
{
    return ctl_error_set(error, CTL_REFUSED, "the history %s cannot be %s: %s%s", path, what,
                         strerror(errno), errno == ENOENT ? ". It is written by "
                         CTL_PROGRAM " collect (systemctl enable --now vhostlimit-history)"
                         : "");
}

/* --- names ---------------------------------------------------------------- */

/* Returns the index in by_name at which the name is, or has to be inserted. */
static uint32_t search(const ctl_store_t *store, const char *name)
{
    uint32_t low = 0, high = store->nnames;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (strcasecmp(store->sites[store->by_name[middle]].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

ctl_place_t ctl_store_find(const ctl_store_t *store, const char *name)
{
    uint32_t i = search(store, name);

    if (!*name)
        return CTL_PLACE_SERVER;
    if (i < store->nnames && !strcasecmp(store->sites[store->by_name[i]].name, name))
        return store->by_name[i];
    return CTL_PLACE_NONE;
}

const char *ctl_store_name(const ctl_store_t *store, ctl_place_t place)
{
    return place == CTL_PLACE_SERVER ? "" : store->sites[place].name;
}

static void insert_name(ctl_store_t *store, ctl_place_t place)
{
    uint32_t i = search(store, store->sites[place].name);

    memmove(store->by_name + i + 1, store->by_name + i,
            (store->nnames - i) * sizeof(*store->by_name));
    store->by_name[i] = place;
    store->nnames++;
}

static void remove_name(ctl_store_t *store, ctl_place_t place)
{
    uint32_t i;

    for (i = 0; i < store->nnames && store->by_name[i] != place; i++)
        ;
    if (i == store->nnames)
        return;
    store->nnames--;
    memmove(store->by_name + i, store->by_name + i + 1,
            (store->nnames - i) * sizeof(*store->by_name));
}

/* --- open ----------------------------------------------------------------- */

/* Makes room in memory for one more band. */
static void grow_memory(ctl_store_t *store)
{
    size_t band = CTL_HISTORY_BAND_SITES, n = store->bands * band;

    store->sites = ctl_grow(store->sites, n * sizeof(*store->sites),
                            (n + band) * sizeof(*store->sites));
    store->by_name = ctl_grow(store->by_name, n * sizeof(*store->by_name),
                              (n + band) * sizeof(*store->by_name));
    store->pages = ctl_grow(store->pages, store->bands * sizeof(*store->pages),
                            (store->bands + 1) * sizeof(*store->pages));
    store->bands++;
}

static ctl_exit_e read_tables(ctl_store_t *store, ctl_error_t *error)
{
    struct stat st;
    uint32_t band, bands, n;

    if (fstat(store->fd, &st))
        return set_errno(error, store->path, "read");
    bands = ctl_history_bands(store->slots, (uint64_t)st.st_size);
    for (band = 0; band < bands; band++) {
        grow_memory(store);
        if (read_at(store->fd, store->sites + (size_t)band * CTL_HISTORY_BAND_SITES,
                    CTL_HISTORY_BAND_SITES * sizeof(*store->sites),
                    ctl_history_table_at(store->slots, band)))
            return set_errno(error, store->path, "read");
    }
    for (n = 1; n < bands * CTL_HISTORY_BAND_SITES; n++) {
        store->sites[n].name[CTL_HISTORY_NAME_SIZE - 1] = '\0';
        if (store->sites[n].name[0])
            insert_name(store, n);
    }
    return CTL_DONE;
}

static ctl_exit_e check_head(ctl_store_t *store, ctl_error_t *error)
{
    ctl_history_head_t head = { 0, 0, 0 };

    if (read_at(store->fd, &head, sizeof(head), 0) && errno != ENODATA)
        return set_errno(error, store->path, "read");
    if (head.magic != CTL_HISTORY_MAGIC)
        return ctl_error_set(error, CTL_REFUSED, "%s is not a history of mod_vhostlimit, or "
                             "of another machine. Move it away", store->path);
    if (head.version != CTL_HISTORY_VERSION || head.slots != CTL_HISTORY_SLOTS)
        return ctl_error_set(error, CTL_REFUSED, "the history %s has version %u and %u "
                             "minutes; this program reads version %d and %d minutes. Move it "
                             "away", store->path, head.version, head.slots,
                             CTL_HISTORY_VERSION, CTL_HISTORY_SLOTS);
    store->slots = head.slots;
    return CTL_DONE;
}

/* Writes the head into an empty file, or into one of a process that ended while it did so. */
static int make_head(int fd)
{
    const ctl_history_head_t head = { CTL_HISTORY_MAGIC, CTL_HISTORY_VERSION,
                                     CTL_HISTORY_SLOTS };
    struct stat st;

    if (fstat(fd, &st))
        return -1;
    if (st.st_size >= CTL_HISTORY_PAGE)
        return 0;
    if (st.st_size >= (off_t)sizeof(head.magic)) {
        uint64_t magic = 0;

        if (read_at(fd, &magic, sizeof(magic), 0))
            return -1;
        if (magic != CTL_HISTORY_MAGIC)
            return 0;               /* check_head() tells */
    }
    if (write_at(fd, &head, sizeof(head), 0))
        return -1;
    return ftruncate(fd, CTL_HISTORY_PAGE);
}

static ctl_store_t *open_store(const char *path, int flags, ctl_error_t *error)
{
    ctl_store_t *store = ctl_alloc(sizeof(*store));
    struct stat st;

    store->path = ctl_printf("%s", path);
    store->slots = CTL_HISTORY_SLOTS;
    store->maybe_free = 1;
    store->fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, MODE);
    if (store->fd < 0)
        set_errno(error, path, "opened");
    else if (fstat(store->fd, &st) || !S_ISREG(st.st_mode))
        ctl_error_set(error, CTL_REFUSED, "%s is not a file", path);
    else
        return store;
    ctl_store_close(store);
    return NULL;
}

/* Reads what the file has, or closes it on an error. */
static ctl_store_t *load(ctl_store_t *store, ctl_error_t *error)
{
    if (check_head(store, error) == CTL_DONE && read_tables(store, error) == CTL_DONE)
        return store;
    ctl_store_close(store);
    return NULL;
}

ctl_store_t *ctl_store_open(const char *path, uint32_t minute, ctl_error_t *error)
{
    ctl_store_t *store = open_store(path, O_RDWR | O_CREAT, error);
    uint32_t n;

    if (!store)
        return NULL;
    if (flock(store->fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK)
            ctl_error_set(error, CTL_REFUSED, "another process writes the history %s; one is "
                          "enough", path);
        else
            set_errno(error, path, "locked");
        ctl_store_close(store);
        return NULL;
    }
    if (make_head(store->fd)) {
        set_errno(error, path, "written");
        ctl_store_close(store);
        return NULL;
    }
    store = load(store, error);
    /* A clock that was ahead: otherwise the place would not become free for as long. */
    for (n = 1; store && n < store->bands * CTL_HISTORY_BAND_SITES; n++) {
        if (store->sites[n].until > minute)
            store->sites[n].until = minute;
    }
    return store;
}

ctl_store_t *ctl_store_open_to_read(const char *path, ctl_error_t *error)
{
    ctl_store_t *store = open_store(path, O_RDONLY, error);

    return store ? load(store, error) : NULL;
}

void ctl_store_close(ctl_store_t *store)
{
    if (store->fd >= 0)
        close(store->fd);
    free(store->path);
    free(store->sites);
    free(store->by_name);
    free(store->pages);
    free(store);
}

/* --- places --------------------------------------------------------------- */

/* Pages that are not written yet in a new band: no site is in them. */
static void clear_page(ctl_store_t *store, uint32_t band)
{
    ctl_history_page_t *page = &store->pages[band];
    unsigned i;

    page->minute = store->pages[0].minute;
    page->seconds = store->pages[0].seconds;
    memset(page->records, 0, sizeof(page->records));
    for (i = 0; i < CTL_HISTORY_BAND_SITES; i++)
        page->records[i].figures[0] = CTL_HISTORY_ABSENT;
}

/* Gives the site a place, in memory; "until" 0 says that it is not in the file yet.  A place is
 * free a week after the last figures of its site. */
static ctl_place_t add_site(ctl_store_t *store, const char *name, uint32_t minute)
{
    ctl_history_site_t *site;
    ctl_place_t place;

    for (place = store->maybe_free; place < store->bands * CTL_HISTORY_BAND_SITES; place++) {
        site = &store->sites[place];
        if (!site->name[0] || site->until + UNTIL_STEP + store->slots < minute)
            break;
    }
    store->maybe_free = place + 1;
    if (place == store->bands * CTL_HISTORY_BAND_SITES) {
        grow_memory(store);
        clear_page(store, store->bands - 1);
    }
    site = &store->sites[place];
    if (site->name[0])
        remove_name(store, place);
    memset(site, 0, sizeof(*site));
    memcpy(site->name, name, strlen(name) + 1);
    site->since = minute;
    insert_name(store, place);
    return place;
}

/* --- writing a minute ----------------------------------------------------- */

void ctl_store_begin(ctl_store_t *store, uint32_t minute, uint32_t seconds)
{
    uint32_t band;

    if (!store->bands)
        grow_memory(store);
    store->pages[0].minute = minute;
    store->pages[0].seconds = seconds;
    for (band = 0; band < store->bands; band++)
        clear_page(store, band);
    store->maybe_free = 1;
}

void ctl_store_put(ctl_store_t *store, const char *name,
                   const uint64_t figures[CTL_HISTORY_FIGURE_COUNT])
{
    ctl_place_t place = ctl_store_find(store, name);
    ctl_history_record_t *record;
    int i;

    if (place == CTL_PLACE_NONE)
        place = add_site(store, name, store->pages[0].minute);
    record = &store->pages[place / CTL_HISTORY_BAND_SITES]
              .records[place % CTL_HISTORY_BAND_SITES];
    for (i = 0; i < CTL_HISTORY_FIGURE_COUNT; i++)
        record->figures[i] = ctl_history_pack(figures[i]);
}

/* Adds a record of the same minute. */
static void add_record(ctl_history_record_t *record, const ctl_history_record_t *more)
{
    int i;

    if (more->figures[0] == CTL_HISTORY_ABSENT)
        return;
    if (record->figures[0] == CTL_HISTORY_ABSENT) {
        *record = *more;
        return;
    }
    for (i = 0; i < CTL_HISTORY_FIGURE_COUNT; i++) {
        uint64_t a = ctl_history_unpack(record->figures[i]);
        uint64_t b = ctl_history_unpack(more->figures[i]);

        if (i == CTL_HISTORY_waiting || i == CTL_HISTORY_wait_p99_us)
            a = a > b ? a : b;
        else
            a += b;
        record->figures[i] = ctl_history_pack(a);
    }
}

/* Adds what the file has of the same minute. */
static void add_written(const ctl_store_t *store, uint32_t band)
{
    ctl_history_page_t *page = &store->pages[band], old;
    unsigned i;

    if (read_at(store->fd, &old, sizeof(old),
                ctl_history_page_at(store->slots, band, page->minute))
        || !ctl_history_is_valid(&old, page->minute))
        return;
    page->seconds += old.seconds;
    for (i = 0; i < CTL_HISTORY_BAND_SITES; i++)
        add_record(&page->records[i], &old.records[i]);
}

/* Writes the sites that are new, those whose "until" is old, and those whose "since" is of a
 * clock that was ahead. */
static int write_sites(ctl_store_t *store)
{
    uint32_t minute = store->pages[0].minute;
    ctl_place_t place;
    uint64_t at;

    for (place = 1; place < store->bands * CTL_HISTORY_BAND_SITES; place++) {
        ctl_history_site_t *site = &store->sites[place];
        const ctl_history_record_t *record = &store->pages[place / CTL_HISTORY_BAND_SITES]
                                             .records[place % CTL_HISTORY_BAND_SITES];
        const ctl_history_site_t before = *site;

        if (record->figures[0] == CTL_HISTORY_ABSENT
            || (before.until && minute < before.until + UNTIL_STEP
                && minute >= before.since))
            continue;
        site->until = minute;
        if (minute < before.since)
            site->since = minute;
        at = ctl_history_table_at(store->slots, place / CTL_HISTORY_BAND_SITES)
             + place % CTL_HISTORY_BAND_SITES * sizeof(*site);
        if (write_at(store->fd, site, sizeof(*site), at)) {
            *site = before;
            return -1;
        }
    }
    return 0;
}

ctl_exit_e ctl_store_end(ctl_store_t *store, ctl_error_t *error)
{
    struct stat st;
    uint32_t band;

    /* Extends the file to the bands in memory.  The new part is a hole. */
    if (fstat(store->fd, &st)
        || (ctl_history_bands(store->slots, (uint64_t)st.st_size) < store->bands
            && ftruncate(store->fd, (off_t)ctl_history_table_at(store->slots, store->bands)))
        || write_sites(store))
        return set_errno(error, store->path, "written");
    for (band = 0; band < store->bands; band++) {
        ctl_history_page_t *page = &store->pages[band];

        add_written(store, band);
        page->sum = ctl_history_sum(page);
        if (write_at(store->fd, page, sizeof(*page),
                     ctl_history_page_at(store->slots, band, page->minute)))
            return set_errno(error, store->path, "written");
    }
    return CTL_DONE;
}

/* --- reading a minute ----------------------------------------------------- */

int ctl_store_get(const ctl_store_t *store, ctl_place_t place, uint32_t minute,
                  ctl_minute_t *ret_minute)
{
    const ctl_history_record_t *record;
    ctl_history_page_t page;
    int i;

    if (place >= store->bands * CTL_HISTORY_BAND_SITES
        || (place != CTL_PLACE_SERVER && minute < store->sites[place].since)
        || read_at(store->fd, &page, sizeof(page),
                   ctl_history_page_at(store->slots, place / CTL_HISTORY_BAND_SITES, minute))
        || !ctl_history_is_valid(&page, minute))
        return 0;
    record = &page.records[place % CTL_HISTORY_BAND_SITES];
    if (record->figures[0] == CTL_HISTORY_ABSENT)
        return 0;
    ret_minute->seconds = page.seconds;
    for (i = 0; i < CTL_HISTORY_FIGURE_COUNT; i++)
        ret_minute->figures[i] = ctl_history_unpack(record->figures[i]);
    return 1;
}
