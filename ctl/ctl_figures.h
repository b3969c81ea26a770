/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_FIGURES_H
#define CTL_FIGURES_H

/* The answer to the command "figures" of the control socket: counters and limits of all
 * sites, and what was counted between two answers. */

#include "ctl_history_format.h"
#include "ctl.h"

/* Most buckets of waiting times that are read. */
#define CTL_WAITS_MAX 128

/* Numbers of a site. */
#define CTL_SITE_NUMBERS(X) X(mode) X(weight) X(concurrency) X(queue) X(cpu)         \
    X(limited_s) X(running) X(waiting) X(deferred) X(requests) X(queued) X(refused) \
    X(refused_concurrency) X(refused_queue) X(refused_timeout) X(gone) X(wait_us)   \
    X(busy_us) X(charged_us) X(database_us) X(runnable_permille)

/* Numbers of the server. */
#define CTL_FIGURES_NUMBERS(X) X(schema) X(now_us) X(started_us) X(configured_us)   \
    X(children_lost) X(requests_lost) X(slots) X(processors)

typedef struct ctl_site_t {
    /* As the server's configuration has it, in bytes that need not be UTF-8. */
    char name[CTL_HISTORY_NAME_SIZE];
#define X(member) json_int_t member;
    CTL_SITE_NUMBERS(X)
#undef X
    json_int_t waits[CTL_WAITS_MAX];    /* requests by their time in the queue */
} ctl_site_t;

typedef struct ctl_figures_t {
#define X(member) json_int_t member;
    CTL_FIGURES_NUMBERS(X)
#undef X
    json_int_t wait_limits_us[CTL_WAITS_MAX];   /* bucket b: longest wait counted in it */
    size_t nlimits;
    ctl_site_t *sites;
    size_t nsites;
} ctl_figures_t;

/* Reads the document, which need not live longer.  Returns CTL_DONE, or fills in *error if a
 * member is missing or not valid. */
ctl_exit_e ctl_figures_read(const json_t *json, ctl_figures_t *ret_figures,
                            ctl_error_t *error);
/* Asks the server for them.  socket: as for ctl_client_ask(). */
ctl_exit_e ctl_figures_ask(const char *socket, ctl_figures_t *ret_figures,
                           ctl_error_t *error);
void ctl_figures_free(ctl_figures_t *figures);

/* Finds a site by its name; NULL: there is none.  *from is where the search begins, and is
 * set behind the site that was found: looking for all sites of one answer in another one
 * takes a time that grows with their number. */
const ctl_site_t *ctl_figures_find(const ctl_figures_t *figures, const char *name,
                                   size_t *from);

/* What was counted in an interval, in the units of CTL_HISTORY_FIGURES.  waits are kept for
 * ctl_count_end(). */
typedef struct ctl_count_t {
    uint64_t figures[CTL_HISTORY_FIGURE_COUNT];
    uint64_t wait_us;
    uint64_t waits[CTL_WAITS_MAX];
} ctl_count_t;

/* Adds what was counted between two answers about a site.  before NULL: since its counters
 * began at 0.  A counter that is smaller than before has begun again. */
void ctl_count_add(ctl_count_t *count, const ctl_site_t *now, const ctl_site_t *before);
/* Computes the figures that are not sums: the 99th percentile, and the number of waiting
 * requests.  seconds: length of the interval, > 0. */
void ctl_count_end(ctl_count_t *count, const ctl_figures_t *figures, uint32_t seconds);

/* Return a name of bytes as text for JSON, and the other way round: each byte is the
 * character with that number, as in the server's answers.  The caller frees them. */
char *ctl_name_to_text(const char *name);
char *ctl_name_from_text(const char *text);

#endif
