/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

/* Returns where the server is or would be, and whether it is there. */
static size_t place_of(const fleet_peers_t *peers, const char *server, int *ret_is_there)
{
    size_t low = 0, high = peers->n;

    *ret_is_there = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(server, peers->peers[middle]->report.server);

        if (!order) {
            *ret_is_there = 1;
            return middle;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void release(fleet_peer_t *peer)
{
    fleet_report_free(&peer->report);
    free(peer);
}

void fleet_peers_take(fleet_peers_t *peers, const char *server, const char *text, size_t len,
                      long long now_ms)
{
    fleet_report_t report;
    fleet_peer_t *peer;
    const char *wrong = fleet_report_parse(text, len, &report);
    int is_there;
    size_t at;

    if (!wrong && strcmp(report.server, server) != 0)
        wrong = "the report is that of another server";
    if (wrong) {
        fleet_report_free(&report);
        peers->rejected++;
        snprintf(peers->why, sizeof(peers->why), "%s: %s", server, wrong);
        return;
    }
    at = place_of(peers, server, &is_there);
    if (!is_there) {
        peers->peers = ctl_grow(peers->peers, peers->n * sizeof(*peers->peers),
                                (peers->n + 1) * sizeof(*peers->peers));
        memmove(&peers->peers[at + 1], &peers->peers[at],
                (peers->n - at) * sizeof(*peers->peers));
        peers->peers[at] = ctl_alloc(sizeof(*peer));
        peers->n++;
    }
    peer = peers->peers[at];
    if (is_there && peer->report.start == report.start
        && peer->report.sequence == report.sequence) {
        fleet_report_free(&report);
        return;
    }
    fleet_report_free(&peer->report);
    peer->report = report;
    peer->seen_ms = now_ms;
}

void fleet_peers_expire(fleet_peers_t *peers, long long now_ms)
{
    size_t i, n = 0;

    for (i = 0; i < peers->n; i++) {
        if (now_ms - peers->peers[i]->seen_ms > FLEET_PEER_FORGET_MS)
            release(peers->peers[i]);
        else
            peers->peers[n++] = peers->peers[i];
    }
    peers->n = n;
}

void fleet_peers_clear(fleet_peers_t *peers)
{
    while (peers->n)
        release(peers->peers[--peers->n]);
    free(peers->peers);
    memset(peers, 0, sizeof(*peers));
}
