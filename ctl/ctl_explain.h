/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_EXPLAIN_H
#define CTL_EXPLAIN_H

#include "ctl_status.h"

/* Returns a sentence about the last message of httpd that it has no free worker, and the site that
 * had most running requests then; NULL: there was none, or site is not NULL and another one. The
 * caller frees it. modules: the answer to the command "modules". */
char *ctl_explain_no_worker(const json_t *modules, const char *site);

/* Returns why requests of the site are queued or refused: an object of its name (vhost), its
 * state, the names of the causes, and sentences. clients: the answer of ctl_clients_ask();
 * NULL: it is not known. */
json_t *ctl_explain_make(const ctl_status_t *status, const ctl_vhost_t *vhost,
                         const json_t *clients);

/* Return a sentence if one client, or one class, has most of the site's waiting requests or
 * has used most of its CPU time while requests were queued; NULL: none has. The caller frees
 * it. clients: the answer of ctl_clients_ask(). */
char *ctl_explain_client(const json_t *clients);
char *ctl_explain_class(const json_t *clients);

#endif
