/* SPDX-License-Identifier: Apache-2.0 */
/* The history file: what is written is read, for a week, over restarts, torn writes, sites
 * that are added and removed, and clocks that are set. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"
#include "ctl_store.h"

#define START 29000000u         /* minute; 2025 */

static char path[] = "/tmp/vl-history-XXXXXX";
static ctl_error_t error;

static void put(ctl_store_t *store, const char *name, uint64_t requests)
{
    uint64_t figures[CTL_HISTORY_FIGURE_COUNT] = { requests };

    figures[CTL_HISTORY_cpu_us] = requests * 1000;
    figures[CTL_HISTORY_waiting] = requests / 2;
    ctl_store_put(store, name, figures);
}

/* Writes a minute with one site. */
static int write_one(ctl_store_t *store, uint32_t minute, const char *name,
                     uint64_t requests)
{
    ctl_store_begin(store, minute, 60);
    put(store, name, requests);
    put(store, "", requests);
    return ctl_store_end(store, &error) == CTL_DONE;
}

/* Returns the requests of the site in the minute; -1: no figures. */
static long long requests_in(ctl_store_t *store, const char *name, uint32_t minute)
{
    ctl_place_t place = ctl_store_find(store, name);
    ctl_minute_t got;

    if (place == CTL_PLACE_NONE || !ctl_store_get(store, place, minute, &got))
        return -1;
    return (long long)got.figures[CTL_HISTORY_requests];
}

static void packing(void)
{
    uint64_t n;
    int exact = 1, close_enough = 1;

    for (n = 0; n < 2048; n++)
        exact &= ctl_history_unpack(ctl_history_pack(n)) == n;
    ok(exact, "numbers below 2048 are exact");
    for (n = 2048; n < UINT64_C(1) << 61; n += n / 700 + 1) {
        double got = (double)ctl_history_unpack(ctl_history_pack(n));

        close_enough &= got / (double)n < 1.0005 && got / (double)n > 0.9995;
    }
    ok(close_enough, "larger ones are at most 0.05 %% off");
    ok(ctl_history_pack(UINT64_MAX) < CTL_HISTORY_ABSENT, "no number is the mark of absence");
    ok(ctl_history_unpack(0xfffe) > UINT64_C(1) << 60, "any two bytes are a number");
}

static void round_trip(void)
{
    ctl_store_t *store = ctl_store_open(path, START, &error), *reader, *second;
    ctl_minute_t got;
    struct stat st;

    ok(store && ctl_store_find(store, "a.test") == CTL_PLACE_NONE, "a new file is empty");
    ok(write_one(store, START, "a.test", 5) && write_one(store, START + 1, "b.test", 7),
       "two minutes are written");
    second = ctl_store_open(path, START, &error);
    ok(!second && strstr(error.text, "another process"), "there is one writer");
    reader = ctl_store_open_to_read(path, &error);
    ok(reader && requests_in(reader, "A.Test", START) == 5
       && requests_in(reader, "b.test", START + 1) == 7, "a reader beside the writer finds them");
    ok(requests_in(reader, "a.test", START + 1) == -1
       && requests_in(reader, "b.test", START) == -1, "absent sites have no figures");
    ok(requests_in(reader, "", START) == 5 && requests_in(reader, "", START + 1) == 7,
       "nor is the server's row another one's");
    ok(ctl_store_get(reader, ctl_store_find(reader, "a.test"), START, &got)
       && got.seconds == 60 && got.figures[CTL_HISTORY_cpu_us] == 5000
       && got.figures[CTL_HISTORY_waiting] == 2, "with all figures");
    ok(requests_in(reader, "", START + CTL_HISTORY_SLOTS) == -1, "a slot is not another week's");
    ctl_store_close(reader);
    ctl_store_close(store);
    ok(!stat(path, &st) && st.st_blocks * 512 < 1 << 20, "the file is a hole but for them");
}

static void merged(void)
{
    ctl_store_t *store = ctl_store_open(path, START, &error);
    ctl_minute_t got;

    ctl_store_begin(store, START, 10);
    put(store, "a.test", 3);
    put(store, "c.test", 4);
    ok(ctl_store_end(store, &error) == CTL_DONE && requests_in(store, "a.test", START) == 8
       && requests_in(store, "c.test", START) == 4, "a minute that is written again is added");
    ok(ctl_store_get(store, ctl_store_find(store, "a.test"), START, &got)
       && got.seconds == 70 && got.figures[CTL_HISTORY_waiting] == 2,
       "seconds too, and of the waiting the larger number");
    ctl_store_close(store);
}

/* 300 sites need a second band. */
static void many_sites(void)
{
    ctl_store_t *store = ctl_store_open(path, START, &error);
    char name[32];
    int i, found = 0;

    ctl_store_begin(store, START + 2, 60);
    for (i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "s%d.test", i);
        put(store, name, (uint64_t)i);
    }
    ok(ctl_store_end(store, &error) == CTL_DONE, "300 sites are written");
    ctl_store_close(store);
    store = ctl_store_open_to_read(path, &error);
    for (i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "s%d.test", i);
        found += requests_in(store, name, START + 2) == i;
    }
    ok(found == 300, "and read, %d of them", found);
    ok(requests_in(store, "a.test", START) == 8, "older minutes stay as they are");
    ctl_store_close(store);
}

static off_t size_of_file(void)
{
    struct stat st;

    return stat(path, &st) ? -1 : st.st_size;
}

/* The file does not grow when sites come and others go: a place is used again after a week. */
static void places_again(void)
{
    ctl_store_t *store = ctl_store_open(path, START + 3, &error);
    uint32_t later = START + 3 + CTL_HISTORY_SLOTS + 100;
    off_t size = size_of_file();
    char name[32];
    int i;

    ctl_store_begin(store, later, 60);
    for (i = 0; i < 400; i++) {
        snprintf(name, sizeof(name), "new%d.test", i);
        put(store, name, 1);
    }
    ok(ctl_store_end(store, &error) == CTL_DONE && size_of_file() == size,
       "places of sites that are gone for a week are used again");
    ok(ctl_store_find(store, "s7.test") == CTL_PLACE_NONE
       && requests_in(store, "new7.test", later) == 1, "under the new names");
    ok(requests_in(store, "new7.test", START + 2) == -1,
       "and the new ones do not have the figures of the old ones");
    ctl_store_close(store);
}

/* A site that was new while the clock was ahead. */
static void clock_back(void)
{
    uint32_t ahead = START + 40000, minute = START + 39000;
    ctl_store_t *store = ctl_store_open(path, ahead, &error);

    write_one(store, ahead, "ahead.test", 3);
    write_one(store, minute, "ahead.test", 4);
    ctl_store_close(store);
    store = ctl_store_open_to_read(path, &error);
    ok(requests_in(store, "ahead.test", minute) == 4 && requests_in(store, "ahead.test", ahead) == 3,
       "a clock that is set back hides no figures");
    ctl_store_close(store);
}

static void damaged(void)
{
    ctl_store_t *store = ctl_store_open(path, START, &error);
    uint32_t minute = START + 20000;
    char byte;
    int fd;

    write_one(store, minute, "a.test", 9);
    write_one(store, minute + 1, "a.test", 10);
    ctl_store_close(store);
    fd = open(path, O_RDWR | O_CLOEXEC);
    ok(pread(fd, &byte, 1, (off_t)ctl_history_page_at(CTL_HISTORY_SLOTS, 0, minute) + 3000) == 1,
       "a byte of a page is changed");
    byte ^= 1;
    ok(pwrite(fd, &byte, 1, (off_t)ctl_history_page_at(CTL_HISTORY_SLOTS, 0, minute) + 3000) == 1,
       "as by a write that was not completed");
    close(fd);
    store = ctl_store_open(path, minute + 1, &error);
    ok(requests_in(store, "a.test", minute) == -1
       && requests_in(store, "a.test", minute + 1) == 10, "that minute is missing, no other");
    ok(write_one(store, minute, "a.test", 11) && requests_in(store, "a.test", minute) == 11,
       "and can be written again");
    ctl_store_close(store);
}

/* Opens a file with these first bytes; error.text says why it cannot be. */
static int opens(const void *bytes, size_t len)
{
    int fd = open(path, O_RDWR | O_TRUNC | O_CLOEXEC);
    int written = write(fd, bytes, len) == (ssize_t)len;
    ctl_store_t *store;

    close(fd);
    store = written ? ctl_store_open(path, START, &error) : NULL;
    if (store)
        ctl_store_close(store);
    return store != NULL;
}

static void other_files(void)
{
    ctl_history_head_t head = { CTL_HISTORY_MAGIC, CTL_HISTORY_VERSION + 1, CTL_HISTORY_SLOTS };
    char page[CTL_HISTORY_PAGE] = "not a history";

    ok(!opens(page, sizeof(page)) && strstr(error.text, "is not a history"),
       "another file is left alone");
    ok(!opens("short text", 10) && strstr(error.text, "is not a history"), "a short one too");
    memset(page, 0, sizeof(page));
    memcpy(page, &head, sizeof(head));
    ok(!opens(page, sizeof(page)) && strstr(error.text, "has version 3"), "another version");
    head.version = CTL_HISTORY_VERSION;
    ok(opens(&head, sizeof(head)), "a head without the rest of its page is completed");
    ok(opens("", 0), "an empty file is a new one");
    unlink(path);
    ok(!ctl_store_open_to_read(path, &error) && strstr(error.text, "vhostlimit-history"),
       "without a file the message says what makes one");
    ok(!ctl_store_open("/tmp", START, &error), "a folder is no file");
}

int main(void)
{
    int fd = mkstemp(path);

    if (fd < 0)
        return 77;
    close(fd);
    packing();
    round_trip();
    merged();
    many_sites();
    places_again();
    clock_back();
    damaged();
    other_files();
    unlink(path);
    return tap_done();
}
