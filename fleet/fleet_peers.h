/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_PEERS_H
#define FLEET_PEERS_H

/* The other servers: the newest report of each, which counts until it is as old as a lease.
 * A store that has lost its contents changes nothing before that. Ages are measured by this
 * machine's monotonic clock. One thread. */

#include "fleet_report.h"

typedef struct fleet_peer_t {
    fleet_report_t report;
    long long seen_ms;              /* when this report was first read */
} fleet_peer_t;

typedef struct fleet_peers_t {
    fleet_peer_t **peers;           /* in the order of their names */
    size_t n;
    unsigned long long rejected;    /* reports that were not valid */
    char why[128];                  /* what was wrong with the last of them */
} fleet_peers_t;

/* Takes over a report that was read from the store under the name of a server, unless it is not
 * valid. A report that was read before does not become younger. */
void fleet_peers_take(fleet_peers_t *peers, const char *server, const char *text, size_t len,
                      long long now_ms);

/* A report counts until it is so old. It is remembered for longer, so that a store that does
 * not expire it cannot bring it back. */
#define FLEET_PEER_MS 3000
#define FLEET_PEER_FORGET_MS 600000

static inline int fleet_peer_counts(const fleet_peer_t *peer, long long now_ms)
{
    return now_ms - peer->seen_ms <= FLEET_PEER_MS;
}

/* Removes peers whose report is to be forgotten. */
void fleet_peers_expire(fleet_peers_t *peers, long long now_ms);

void fleet_peers_clear(fleet_peers_t *peers);

#endif
