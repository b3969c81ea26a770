/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_WATCH_H
#define CTL_WATCH_H

/* The command watch: events, from the differences of answers of the server. */

#include "ctl_figures.h"

/* Called for each event.  json: the event without its time, which the callee keeps. */
typedef void (*ctl_watch_fn)(void *baton, json_t *json);

typedef struct ctl_watch_t ctl_watch_t;

/* site: the name of the only site to watch; NULL: all sites and the server. */
ctl_watch_t *ctl_watch_begin(const char *site, ctl_watch_fn put, void *baton);
/* Compares an answer with the one before.  now_ms: a clock that is never set. */
void ctl_watch_compare(ctl_watch_t *watch, const ctl_figures_t *now, long long now_ms);
/* There is no answer, because of the text. */
void ctl_watch_lost(ctl_watch_t *watch, const char *why);
void ctl_watch_end(ctl_watch_t *watch);

#endif
