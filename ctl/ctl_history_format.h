/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_HISTORY_FORMAT_H
#define CTL_HISTORY_FORMAT_H

/* The history file: the figures of each site for a week, at steps of one minute.  One process
 * writes it, "vhostlimitctl collect".  "vhostlimitctl history" reads it.
 *
 *   file:  head | band 0 | band 1 | ...         grows by a band when sites need one
 *   head:  one page with ctl_history_head_t
 *   band:  names of 255 sites | page of slot 0 | page of slot 1 | ... | page of slot 10079
 *   page:  4608 bytes: its minute, and a record of 18 bytes for each site of the band
 *
 * Site n is record n % 255 of band n / 255.  Site 0 is the whole server.  Minute m (Unix time
 * divided by 60) is in slot m % slots.  So a minute costs one write for each 255 sites, and
 * overwrites the one a week before.
 *
 * Invariants, for readers that run beside the writer, and after a crash:
 *   - A page says which minute it has.  A page with another minute than the reader looks for
 *     is no data: an old one, one of a clock that was wrong, or none yet (a hole, all zero).
 *   - A page has a checksum.  A page that was written in part is no data.
 *   - A name fills one aligned block of 512 bytes, so a disk writes it as a whole.  A place is
 *     given to another site only when no page of the last week has figures of the first one.
 *   - Numbers are in the byte order of the machine.  A file of another machine has no known
 *     magic number. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Where both programs look for the file when they are not told another place. */
#define CTL_HISTORY_PATH "/var/lib/vhostlimit/history"

#define CTL_HISTORY_MAGIC UINT64_C(0x564c48495354ff01)
/* Incremented when the layout or the meaning of a figure changes. */
#define CTL_HISTORY_VERSION 2
#define CTL_HISTORY_PAGE 4608
/* Minutes that the file has: a week. */
#define CTL_HISTORY_SLOTS (7 * 24 * 60)
#define CTL_HISTORY_BAND_SITES 255
/* Bytes of a name with its terminating zero; vl.h has the same for accounts. */
#define CTL_HISTORY_NAME_SIZE 280

/* The figures, in the order of a record. */
#define CTL_HISTORY_FIGURES(X)                                                             \
    X(requests, "requests admitted")                                                      \
    X(queued, "of them, requests that were queued first")                                 \
    X(refused, "requests refused")                                                        \
    X(gone, "connections that the client closed while they were queued")                  \
    X(cpu_us, "CPU time charged")                                                         \
    X(busy_us, "time from admission to the end, of finished requests")                    \
    X(waiting, "requests queued and deferred at the end of the minute, or the mean number " \
      "of requests that were queued before they were admitted, if that is larger")        \
    X(wait_p99_us, "99th percentile of the time in the queue")                            \
    X(database_us, "of the CPU time, that of databases")

enum {
#define X(member, help) CTL_HISTORY_##member,
    CTL_HISTORY_FIGURES(X)
#undef X
    CTL_HISTORY_FIGURE_COUNT
};

/* The first page of the file.  The rest of the page is zero. */
typedef struct ctl_history_head_t {
    uint64_t magic;
    uint32_t version;
    uint32_t slots;             /* CTL_HISTORY_SLOTS */
} ctl_history_head_t;

/* A site in the table at the beginning of a band; all zero: the place is free. */
typedef struct ctl_history_site_t {
    uint32_t since, until;      /* first and last minute with figures; until may be an hour
                                 * behind */
    char name[CTL_HISTORY_NAME_SIZE];
    char unused[512 - 2 * sizeof(uint32_t) - CTL_HISTORY_NAME_SIZE];
} ctl_history_site_t;

/* The table, with one place that is never used. */
#define CTL_HISTORY_TABLE ((CTL_HISTORY_BAND_SITES + 1) * sizeof(ctl_history_site_t))

/* Figures as ctl_history_pack() makes them. */
typedef struct ctl_history_record_t {
    uint16_t figures[CTL_HISTORY_FIGURE_COUNT];
} ctl_history_record_t;

/* In place of the first figure: the site was not on the server in that minute. */
#define CTL_HISTORY_ABSENT 0xffff

typedef struct ctl_history_page_t {
    uint32_t minute;
    uint32_t seconds;           /* time that the figures were counted; 60, or less after a
                                 * start, or more when a minute could not be written */
    uint64_t sum;
    ctl_history_record_t records[CTL_HISTORY_BAND_SITES];
    uint16_t unused;            /* 0 */
} ctl_history_page_t;

/* The layout is what the comment above says, whatever the compiler. */
typedef char ctl_history_check_page_t[sizeof(ctl_history_page_t) == CTL_HISTORY_PAGE ? 1 : -1];
typedef char ctl_history_check_site_t[sizeof(ctl_history_site_t) == 512 ? 1 : -1];

/* Packs a number into 16 bits: numbers below 2048 are exact, larger ones are rounded to 11
 * binary digits, so they are at most 0.05 % off.  Never returns CTL_HISTORY_ABSENT. */
static inline uint16_t ctl_history_pack(uint64_t n)
{
    unsigned shift = 0;

    if (n >> 62)
        n = ((uint64_t)1 << 62) - 1;
    while (n >> shift >= 2048)
        shift++;
    if (shift) {
        n += (uint64_t)1 << (shift - 1);        /* rounds to the nearest */
        if (n >> shift >= 2048)
            shift++;
    }
    return (uint16_t)(1024 * shift + (unsigned)(n >> shift));
}

static inline uint64_t ctl_history_unpack(uint16_t packed)
{
    unsigned shift = packed < 2048 ? 0 : packed / 1024u - 1;

    if (shift > 52)
        shift = 52;                             /* no number that ctl_history_pack() makes */
    return (uint64_t)(packed < 2048 ? packed : packed % 1024u + 1024) << shift;
}

/* Returns the checksum of a page, which does not cover the member itself. */
static inline uint64_t ctl_history_sum(const ctl_history_page_t *page)
{
    uint64_t sum = CTL_HISTORY_MAGIC ^ page->minute ^ (uint64_t)page->seconds << 32, word;
    size_t i;

    for (i = offsetof(ctl_history_page_t, records); i < sizeof(*page); i += sizeof(word)) {
        memcpy(&word, (const char *)page + i, sizeof(word));
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return sum;
}

/* Returns 1 if the page is complete and has that minute. */
static inline int ctl_history_is_valid(const ctl_history_page_t *page, uint32_t minute)
{
    return page->minute == minute && page->seconds > 0
           && page->sum == ctl_history_sum(page);
}

static inline uint64_t ctl_history_band_size(uint32_t slots)
{
    return CTL_HISTORY_TABLE + (uint64_t)slots * CTL_HISTORY_PAGE;
}

/* Position of the table of a band. */
static inline uint64_t ctl_history_table_at(uint32_t slots, uint32_t band)
{
    return CTL_HISTORY_PAGE + band * ctl_history_band_size(slots);
}

/* Position of the page of a minute. */
static inline uint64_t ctl_history_page_at(uint32_t slots, uint32_t band, uint32_t minute)
{
    return ctl_history_table_at(slots, band) + CTL_HISTORY_TABLE
           + (uint64_t)(minute % slots) * CTL_HISTORY_PAGE;
}

/* Returns the number of whole bands in a file of so many bytes. */
static inline uint32_t ctl_history_bands(uint32_t slots, uint64_t size)
{
    return size < CTL_HISTORY_PAGE ? 0
           : (uint32_t)((size - CTL_HISTORY_PAGE) / ctl_history_band_size(slots));
}

#endif
