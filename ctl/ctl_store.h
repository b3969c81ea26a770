/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_STORE_H
#define CTL_STORE_H

/* The history file (ctl_history_format.h).  One process may have it open for writing; a
 * lock on the file keeps others away.  Any number may read at the same time, without a lock.
 * Not thread-safe. */

#include "ctl_history_format.h"
#include "ctl.h"

typedef struct ctl_store_t ctl_store_t;

/* A site in the file.  0 is the whole server. */
typedef uint32_t ctl_place_t;
#define CTL_PLACE_SERVER 0
#define CTL_PLACE_NONE UINT32_MAX

/* Opens the file for writing and creates it if it is not there, for its owner to write and its
 * group to read.  minute: now.  Returns NULL and fills in *error if that is not possible, if
 * another process writes it, or if it is not a history of this version. */
ctl_store_t *ctl_store_open(const char *path, uint32_t minute, ctl_error_t *error);
/* Opens the file for reading. */
ctl_store_t *ctl_store_open_to_read(const char *path, ctl_error_t *error);
void ctl_store_close(ctl_store_t *store);

/* Returns the place of the site, or CTL_PLACE_NONE.  Letters of either case are the same. */
ctl_place_t ctl_store_find(const ctl_store_t *store, const char *name);
/* Returns the name at the place, which belongs to the store. */
const char *ctl_store_name(const ctl_store_t *store, ctl_place_t place);

/* Writing one minute: ctl_store_begin(), ctl_store_put() for each site and for the server,
 * ctl_store_end().  Sites without ctl_store_put() are absent in that minute. */
void ctl_store_begin(ctl_store_t *store, uint32_t minute, uint32_t seconds);
/* Gives the site a place if it has none.  name: less than CTL_HISTORY_NAME_SIZE bytes; "": the
 * server. */
void ctl_store_put(ctl_store_t *store, const char *name,
                   const uint64_t figures[CTL_HISTORY_FIGURE_COUNT]);
/* Writes the minute.  What the file has of the same minute is added: counters and seconds are
 * summed, of the others the larger one stays.  On an error fills in *error; the minute is then
 * not in the file, or for a part of the sites. */
ctl_exit_e ctl_store_end(ctl_store_t *store, ctl_error_t *error);

/* The figures of a site in a minute. */
typedef struct ctl_minute_t {
    uint32_t seconds;
    uint64_t figures[CTL_HISTORY_FIGURE_COUNT];
} ctl_minute_t;

/* Reads a minute.  Returns 0 if the file has no figures of the site for it. */
int ctl_store_get(const ctl_store_t *store, ctl_place_t place, uint32_t minute,
                  ctl_minute_t *ret_minute);

#endif
