/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_MYSQL_H
#define VL_MYSQL_H

/* A connection to the Unix socket of MariaDB or MySQL that asks one question: which thread of the
 * server serves which user's connection. It has no password: the server knows the user of the process
 * at the other end of a Unix socket (unix_socket in MariaDB, auth_socket in MySQL). No function waits for longer than it is
 * told to. What the server sends is not trusted.
 * Source: https://mariadb.com/kb/en/clientserver-protocol/. Only vl_database.c uses it. */

#include <apr_pools.h>

typedef struct vl_mysql_t vl_mysql_t;

typedef struct vl_mysql_row_t {
    apr_uint64_t id;                /* of the connection */
    pid_t tid;
    int sleeps;                     /* the connection waits for its client */
    const char *user;
} vl_mysql_row_t;

vl_mysql_t *vl_mysql_create(apr_pool_t *p);
/* Connects as this user. Returns 0 if no server is there. */
int vl_mysql_open(vl_mysql_t *m, const char *path, const char *user);
void vl_mysql_close(vl_mysql_t *m);

typedef enum {
    VL_MYSQL_CLOSED,
    VL_MYSQL_WAITS,                 /* for the server */
    VL_MYSQL_READY,                 /* for vl_mysql_ask() */
    VL_MYSQL_DENIED                 /* the server does not let this user in, or not see others */
} vl_mysql_e;

vl_mysql_e vl_mysql_state(const vl_mysql_t *m);
void vl_mysql_ask(vl_mysql_t *m);
/* Waits for the answer for timeout_ms at most. Sets *ret_rows to its rows, which are valid until the
 * next call, and returns their number, or -1 if the answer is not complete yet. The rows do not
 * include the module's own connection; vl_mysql_own() returns its thread, or 0 if it is unknown. */
int vl_mysql_answer(vl_mysql_t *m, int timeout_ms, const vl_mysql_row_t **ret_rows);
pid_t vl_mysql_own(const vl_mysql_t *m);

#endif
