/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_LINK_H
#define FLEET_LINK_H

/* A connection to a Valkey or Redis server, or to a sentinel, over TCP, TLS or a unix socket.
 * hiredis writes commands and reads replies; the bytes are sent and received here, because
 * hiredis before 1.0 has no TLS. No operation takes longer than FLEET_LINK_MS, the look-up of
 * a host name apart. One thread. */

#include <stddef.h>

#include <hiredis/hiredis.h>

#include "fleet_tls.h"

#define FLEET_LINK_MS 500

typedef struct fleet_link_t {
    int fd;                         /* -1: not connected */
    SSL *ssl;                       /* NULL: no TLS */
    redisReader *reader;
    char *out;                      /* commands that were not sent yet */
    size_t nout;
    char why[256];                  /* why the last operation failed */
} fleet_link_t;

#define FLEET_LINK_CLOSED { -1, NULL, NULL, NULL, 0, "" }

/* Returns 1 if the text is HOST:PORT, [ADDRESS]:PORT or unix:/PATH. */
int fleet_link_is_address(const char *address);

/* Connects a closed link. tls: NULL for none; a unix socket never has TLS. Returns 0, or -1
 * and sets link->why. */
int fleet_link_open(fleet_link_t *link, const char *address, const fleet_tls_t *tls);
void fleet_link_close(fleet_link_t *link);

/* Adds a command, which is sent with the next fleet_link_reply(). The format is that of
 * redisCommand(). */
void fleet_link_add(fleet_link_t *link, const char *format, ...);
void fleet_link_add_words(fleet_link_t *link, size_t n, const char *words[]);

/* Sends what was added, and receives the next reply, for freeReplyObject(). Returns NULL and
 * sets link->why if the connection has failed. */
redisReply *fleet_link_reply(fleet_link_t *link);

#endif
