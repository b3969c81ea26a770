/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_STORE_H
#define FLEET_STORE_H

/* The store: a Valkey or Redis server that carries the reports between servers. Nothing in
 * it lasts: a report expires after FLEET_EXPIRE_MS, by the store's own clock. Two round trips
 * in an interval:
 *
 *   GETRANGE vhostlimit:{FLEET}:report:SERVER 0 255
 *   SET vhostlimit:{FLEET}:report:SERVER REPORT PX 3000
 *   SADD vhostlimit:{FLEET}:servers SERVER
 *   SMEMBERS vhostlimit:{FLEET}:servers
 *   MGET vhostlimit:{FLEET}:report:SERVER...
 *
 * With sentinels, the store is the master that one of them names: they are asked before each
 * new connection. Each command waits FLEET_LINK_MS at most. One thread. */

#include "ctl.h"
#include "fleet_report.h"
#include "fleet_tls.h"

#define FLEET_EXPIRE_MS 3000
#define FLEET_SERVERS_MAX 10000

typedef struct fleet_store_options_t {
    const char *fleet;
    const char *server;
    char **addresses;               /* of stores, or of sentinels; see fleet_link.h */
    size_t naddresses;
    const char *master;             /* name that the sentinels know; NULL: no sentinels */
    const char *user, *password;    /* or NULL */
    const char *sentinel_user, *sentinel_password;  /* or NULL */
    const fleet_tls_t *tls;         /* NULL: none */
} fleet_store_options_t;

typedef struct fleet_store_t fleet_store_t;

fleet_store_t *fleet_store_new(const fleet_store_options_t *options);
void fleet_store_free(fleet_store_t *store);

/* Called for the report of each server, as it is in the store; text NULL: it has expired. */
typedef void (*fleet_store_fn)(void *data, const char *server, const char *text, size_t len);

/* Writes this server's report, and reads those of the others and the first line of the one
 * that it replaces: another process with the same name may have written that. If the address
 * in use does not answer, or may not be written to, the next one is tried at the next call.
 * Returns CTL_DONE or fills in *error. */
ctl_exit_e fleet_store_exchange(fleet_store_t *store, const char *report, size_t len,
                                fleet_store_fn take, void *data, ctl_error_t *error);

/* Removes a server that has no report any more from the list of servers. */
void fleet_store_remove(fleet_store_t *store, const char *server);

/* Returns the address in use, or the next one. */
const char *fleet_store_address(const fleet_store_t *store);

#endif
